//! Fake QEMU monitors for tests, played by scripts. Each monitor is a separate process and reports
//! values chosen by the test. The scripts run as `nobody`, another user of this machine, or as the
//! test's own user. Only root can switch users, so without root there are no monitors of other
//! users.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base::Bytes;

use crate::Owner;

/// User and group id of `nobody`.
const NOBODY: u32 = 65_534;

/// Script that responds like QEMU to a manager's requests.
const SCRIPT: &str = r#"
use strict; use warnings; use Socket;
my ($path, $name, $uuid, $memory, $port, $need) = @ARGV;
my $actual = $memory;
$| = 1;
socket(my $listener, AF_UNIX, SOCK_STREAM, 0) or die $!;
bind($listener, sockaddr_un($path)) or die $!;
listen($listener, 5) or die $!;
print "listening\n";
while (accept(my $client, $listener)) {
    select($client); $| = 1; select(STDOUT);
    my $version = '{"qemu":{"micro":0,"minor":2,"major":7},"package":""}';
    print $client qq({"QMP":{"version":$version,"capabilities":[]}}\r\n);
    while (my $line = <$client>) {
        my ($id) = $line =~ /"id":\s*(\d+)/ or next;
        my ($command) = $line =~ /"execute":\s*"([^"]+)"/ or next;
        my $value = '{}';
        if ($command eq 'query-name') { $value = qq({"name":"$name"}) }
        elsif ($command eq 'query-uuid') { $value = qq({"UUID":"$uuid"}) }
        elsif ($command eq 'query-memory-size-summary') {
            $value = qq({"base-memory":$memory,"plugged-memory":0})
        }
        elsif ($command eq 'query-balloon') { $value = qq({"actual":$actual}) }
        elsif ($command eq 'balloon') { ($actual) = $line =~ /"value":\s*(\d+)/ }
        elsif ($command eq 'query-cpus-fast') { $value = '[]' }
        elsif ($command eq 'query-status') { $value = '{"running":true,"status":"running"}' }
        elsif ($command eq 'query-chardev') {
            $value = qq([{"label":"p","filename":"disconnected:unix:$port,server=on",
                          "frontend-open":false}]);
            $value =~ s/\s*\n\s*//g;
        }
        elsif ($command eq 'qom-list') {
            $value = '[{"name":"b","type":"child<virtio-balloon-pci>"},' .
                     '{"name":"s","type":"child<virtserialport>"}]';
            $value = '[]' if $line =~ /anon/;
        }
        elsif ($command eq 'qom-get') {
            my ($property) = $line =~ /"property":\s*"([^"]+)"/;
            if ($property eq 'name') { $value = '"org.pinhead.0"' }
            elsif ($property eq 'chardev') { $value = '"p"' }
            elsif ($property eq 'guest-stats') {
                my $now = time;
                my ($free, $faults) = $need ? (1048576, $now) : (int($actual / 2), 0);
                $value = qq({"last-update":$now,"stats":{"stat-total-memory":$actual,) .
                         qq("stat-free-memory":$free,"stat-available-memory":$free,) .
                         '"stat-disk-caches":0,"stat-swap-in":0,"stat-swap-out":0,' .
                         qq("stat-major-faults":$faults}});
            }
            elsif ($property eq 'guest-stats-polling-interval') { $value = '0' }
            else { $value = 'false' }
        }
        print $client qq({"return":$value,"id":$id}\r\n);
    }
}
"#;

/// Values that a stranger's monitor reports.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Name of the guest.
    pub name: String,
    /// UUID of the guest, in its usual text form.
    pub uuid: String,
    /// Memory of the guest.
    pub memory: Bytes,
    /// Path of the daemon's port.
    pub port: PathBuf,
    /// True if almost no memory is free. False if half of the memory is free.
    pub need: bool,
}

/// A directory of the user `nobody`, with the monitors in it.
#[derive(Debug)]
pub struct Stranger {
    dir: PathBuf,
    user: Option<u32>,
    monitors: Vec<Child>,
}

impl Stranger {
    /// User id of `nobody`.
    pub const OWNER: Owner = Owner(NOBODY);

    /// Creates this directory for the user `nobody`. All users must be able to enter its path.
    /// `None` means that this process does not run as root.
    pub fn at(dir: &Path) -> Option<Stranger> {
        if Owner::own() != Owner::ROOT {
            return None;
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
        let given = made.and_then(|()| chown(dir, Some(NOBODY), Some(NOBODY)));
        given.unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        Some(Stranger { dir: dir.to_path_buf(), user: Some(NOBODY), monitors: Vec::new() })
    }

    /// Creates monitors of this process's user, in an existing directory that is not removed.
    pub fn of_ours(dir: &Path) -> Stranger {
        Stranger { dir: dir.to_path_buf(), user: None, monitors: Vec::new() }
    }

    /// Starts a monitor at a socket of this name with these claims, and waits until it listens.
    pub fn claim(&mut self, socket: &str, claim: &Claim) -> io::Result<u32> {
        let mut command = Command::new("perl");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command
            .args(["-e", SCRIPT])
            .arg(self.dir.join(socket))
            .args([&claim.name, &claim.uuid, &claim.memory.0.to_string()])
            .arg(&claim.port)
            .arg(u8::from(claim.need).to_string())
            .current_dir("/")
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let pid = child.id();
        self.monitors.push(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        match line.trim() {
            "listening" => Ok(pid),
            other => Err(io::Error::other(format!("it does not listen: {other:?}"))),
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        for child in &mut self.monitors {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.user.is_some() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
