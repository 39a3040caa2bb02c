//! A host without pinhead, watched through its real libvirt: shown, pushed, lost and found again.
//!
//! A script on this machine replaces ssh. The script runs the remote shell's command as the user
//! that owns the libvirt.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::engines::{Engine, Kind};
use e2e::libvirtd::{Daemon, MEMORY_MIB, NAME, missing};
use e2e::{program, scratch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use vm::{Deadline, Process, wait_for_exit};

/// Under emulation on a busy machine, a boot may take many times its usual five seconds.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
/// Shuts down a guest if its test was killed.
const LOAD: &str = "sleep 170\npoweroff -f\n";
const URI: &str = "qemu+ssh://nobody@b/session";

/// Makes a replacement for `ssh` in a directory. The replacement logs its calls.
fn login(dir: &Path, daemon: &Daemon) {
    let as_user = match daemon.dir().join("run").display().to_string() {
        run if daemon.user() == 65534 => format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups --pdeathsig KILL \
             env XDG_RUNTIME_DIR={run}"
        ),
        run => format!("env XDG_RUNTIME_DIR={run}"),
    };
    let script = format!(
        "#!/bin/sh\necho \"$*\" >>{}\nfor last; do :; done\nexec {as_user} sh -c \"$last\"\n",
        dir.join("calls").display()
    );
    let ssh = dir.join("ssh");
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(ssh, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Makes a command use the replacement for `ssh`.
fn login_path(mut command: Command, dir: &Path) -> Command {
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", dir.display())).env("HOME", dir);
    command
}

fn run(dir: &Path, words: &[&str]) -> Output {
    login_path(Command::new(program()), dir).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the cells of the table's row that begins with this cell.
fn row(table: &str, first: &str) -> Vec<String> {
    let row = table.lines().find(|line| line.split_whitespace().next() == Some(first));
    let row = row.unwrap_or_else(|| panic!("no row of {first}:\n{table}"));
    row.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_host_without_pinhead_is_shown_pushed_lost_and_found_again() {
    let helper = (!e2e::is_there("virt-ssh-helper")).then_some("virt-ssh-helper");
    if let Some(program) = missing().or(helper) {
        e2e::skipped_without(program);
        return;
    }
    let _share = e2e::share(1);
    let mut daemon = Daemon::start();
    let listens = Deadline::after(PATIENCE);
    while !daemon.try_virsh(&["list"]).status.success() {
        assert!(listens.remaining().is_some(), "{}", daemon.log());
        let _ = wait_for_exit(std::process::id(), LOOK);
    }
    daemon.create_domain(LOAD);
    // A new libvirt probes every emulator of the machine before it reports the CPU time of its
    // first guest. On a busy machine, these probes take longer than the timeout of `fleet watch`.
    daemon.virsh(&["domstats", "--cpu-total", NAME]);
    let dir = scratch("watch");
    login(dir.path(), &daemon);

    // The table, printed once, matches the output of libvirt's own client.
    let once = run(dir.path(), &["fleet", "watch", URI]);
    assert!(once.status.success(), "{}\n{}", text(&once.stderr), daemon.log());
    let table = text(&once.stdout);
    let memory = MEMORY_MIB.to_string();
    let guest = row(&table, NAME);
    assert_eq!(guest[..5], [NAME, "b", "1", &memory, &memory], "{table}");
    let stats = daemon.virsh(&["domstats", "--balloon", NAME]);
    let rss = stats.lines().find_map(|line| line.trim().strip_prefix("balloon.rss="));
    let rss: f64 = rss.expect("a resident set").parse().unwrap();
    let shown: f64 = guest[5].parse().unwrap();
    assert!((shown / (rss / 1024.0) - 1.0).abs() < 0.3, "{shown} MiB, virsh: {rss} KiB");
    let info = fs::read_to_string("/proc/meminfo").unwrap();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let total: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
    assert_eq!(row(&table, "b")[3], (total / 1024).to_string(), "{table}");
    // The connection is read-only, and ssh never prompts at the terminal.
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    assert!(calls.contains("BatchMode=yes"), "{calls}");
    assert!(calls.contains("-l nobody -- b sh -c"), "{calls}");
    assert!(calls.contains("virt-ssh-helper -r"), "{calls}");

    // Netcat connects to hosts without libvirt's helper.
    if e2e::is_there("nc") {
        let socket = daemon.socket();
        let uri = format!("{URI}?socket={}", socket.display());
        let once = run(dir.path(), &["fleet", "watch", &uri]);
        assert_eq!(row(&text(&once.stdout), NAME)[..5], guest[..5], "{}", text(&once.stderr));
    } else {
        e2e::skipped_without("nc");
    }

    // An unreachable host is shown with the reason, and does not hide reachable hosts.
    let both = run(dir.path(), &["fleet", "watch", URI, "qemu+ssh://c/session?socket=/no"]);
    assert_eq!(both.status.code(), Some(2));
    assert_eq!(row(&text(&both.stdout), NAME)[..2], [NAME, "b"]);
    assert!(text(&both.stderr).contains("c: ssh ended"), "{}", text(&both.stderr));

    pushed(&mut daemon, dir.path());
}

fn pushed(daemon: &mut Daemon, dir: &Path) {
    let Some(mut engine) = Engine::start(Kind::VictoriaMetrics, None) else { return };
    let to = engine.write_url().to_string();
    let words = ["fleet", "watch", URI, "--to", &to, "--every", "1s"];
    // `Process` takes over the child's output, so the shell redirects the output to a file.
    let mut command = login_path(Command::new("sh"), dir);
    command.args(["-c", "exec \"$0\" \"$@\" >\"$HOME/said\"", program()]).args(words);
    let _watch = Process::start(command, Vec::new()).unwrap();
    let said = || fs::read_to_string(dir.join("said")).unwrap_or_default();
    let from = engine.url().to_string();
    let fleet = |wanted: &str| {
        let output = run(dir, &["fleet", "--from", &from, "--last", "1m"]);
        let table = text(&output.stdout);
        let host = table.lines().find(|line| line.starts_with("b "));
        match host {
            Some(host) if host.contains(wanted) && host.contains(NAME) => Ok(host.to_owned()),
            _ => Err(format!("{table}\n{}\n{}", text(&output.stderr), said())),
        }
    };
    let host = engine.until("its row", || fleet("live"));
    println!("{host}");
    let cells: Vec<&str> = host.split_whitespace().collect();
    assert_eq!(cells[2], "1", "one guest: {host}");
    let asked = engine.asked();
    let memory = (MEMORY_MIB << 20).to_string();
    engine.until("its memory", || {
        let query = format!("pinhead_guest_memory_bytes{{host=\"b\",guest=\"{NAME}\"}}");
        let answer = asked.query(&query, why::now().ms)?;
        if answer.contains(&format!("\"{memory}\"")) { Ok(()) } else { Err(answer) }
    });
    let lines = |wanted: &str| match said().lines().filter(|line| line.contains(wanted)).count() {
        0 => Err(said()),
        count => Ok(count),
    };
    engine.until("a word", || lines("b: is watched"));
    daemon.kill();
    engine.until("a word of its end", || lines("b: ssh ended"));
    daemon.start_again();
    engine.until("the host is watched again", || match lines("b: is watched")? {
        1 => Err(said()),
        count => Ok(count),
    });
    assert!(said().lines().count() <= 6, "a state is reported once:\n{}", said());
}
