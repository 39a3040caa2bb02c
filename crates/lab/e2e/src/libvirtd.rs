//! A private libvirt daemon for tests with guests under libvirt.
//!
//! The daemon is a user's own (`qemu:///session`). All of its directories are below one directory,
//! which is removed afterwards. The machine's libvirt is therefore not touched. A daemon run by
//! root would act as the system's daemon, so under root the daemon runs as user `nobody`. If a test
//! is killed, its guest keeps running until the guest's load script shuts it down.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use crate::{is_there, scratch};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use vm::images::{Arch, Cache, GuestFile, ImageSpec};
use vm::{Process, Scratch};

/// Name of the only domain.
pub const NAME: &str = "lv1";
/// Memory of the domain, in MiB.
pub const MEMORY_MIB: u64 = 256;

/// User id of `nobody`, the owner of no files.
const NOBODY: u32 = 65534;

/// A libvirt daemon with a private directory.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    dir: Scratch,
    is_root: bool,
}

/// Returns the first missing program that a daemon needs.
pub fn missing() -> Option<&'static str> {
    ["libvirtd", "virsh", "setpriv"].into_iter().find(|name| !is_there(name))
}

impl Daemon {
    /// Starts a daemon. The daemon listens some time later.
    pub fn start() -> Daemon {
        let dir = scratch("libvirt");
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        fs::create_dir_all(dir.join("config/libvirt")).unwrap();
        fs::create_dir_all(dir.join("run")).unwrap();
        // Output goes to files. Otherwise the daemon would start virtlogd for the output.
        fs::write(dir.join("config/libvirt/qemu.conf"), "stdio_handler = \"file\"\n").unwrap();
        for path in ["", "config", "config/libvirt", "run"] {
            let path = dir.join(path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            if is_root {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let process = spawn(dir.path(), is_root);
        Daemon { dir, is_root, process }
    }

    /// Returns the directory with the domain's port and console.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the daemon's user id, which differs from this process's user id if this process runs
    /// as root.
    pub fn user(&self) -> u32 {
        let own = || fs::metadata("/proc/self").unwrap().uid();
        if self.is_root { NOBODY } else { own() }
    }

    /// Returns the name that the manager gives to the domain. The name includes the user id if the
    /// domain belongs to another user.
    pub fn guest(&self) -> String {
        if self.is_root { format!("{NOBODY}/{NAME}") } else { NAME.to_owned() }
    }

    /// Returns the directory that `qemu:///session` searches.
    pub fn runtime_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// Returns the path of the daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("run/libvirt/libvirt-sock")
    }

    /// Kills the daemon.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Starts the daemon again.
    pub fn start_again(&mut self) {
        self.process = spawn(self.dir.path(), self.is_root);
    }

    /// Runs a command of libvirt's client.
    pub fn try_virsh(&self, words: &[&str]) -> Output {
        let uri = format!("qemu+unix:///session?socket={}", self.socket().display());
        Command::new("virsh").args(["-q", "-c", &uri]).args(words).output().unwrap()
    }

    /// Runs a command of libvirt's client that must succeed, and returns its output.
    pub fn virsh(&self, words: &[&str]) -> String {
        let output = self.try_virsh(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "virsh {words:?}: {error}\n{}", self.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the output of libvirtd, QEMU and the guest.
    pub fn log(&self) -> String {
        let log = self.dir.join(format!("cache/libvirt/qemu/log/{NAME}.log"));
        let log = fs::read_to_string(log).unwrap_or_default();
        format!("{}\n{log}\n{}", self.process.stderr(), self.console())
    }

    /// Returns the output of the guest.
    pub fn console(&self) -> String {
        let console = fs::read(self.dir.join("console")).unwrap_or_default();
        String::from_utf8_lossy(&console).into_owned()
    }

    /// Creates a domain from copies of an image, which the daemon's user may read. A script runs
    /// once the guest is up.
    pub fn create_domain(&self, load: &str) {
        let bytes = load.as_bytes().to_vec();
        let files = vec![GuestFile { path: "/etc/load.sh".into(), mode: 0o755, bytes }];
        let spec = ImageSpec { arch: Arch::X86_64, daemon: None, files };
        let image = spec.build(&Cache::from_environment().unwrap()).unwrap();
        for (from, to) in [(image.kernel, "kernel"), (image.initramfs, "initrd")] {
            fs::copy(from, self.dir.join(to)).unwrap();
            let readable = fs::Permissions::from_mode(0o644);
            fs::set_permissions(self.dir.join(to), readable).unwrap();
        }
        let xml = self.dir.join("domain.xml");
        fs::write(&xml, domain_xml(self.dir.path())).unwrap();
        self.virsh(&["create", xml.to_str().unwrap()]);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.try_virsh(&["destroy", NAME]);
    }
}

fn spawn(dir: &Path, is_root: bool) -> Process {
    let mut command = Command::new(if is_root { "setpriv" } else { "libvirtd" });
    if is_root {
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")]);
        // A change of user clears the parent-death signal, so setpriv sets it again.
        command.args(["--clear-groups", "--pdeathsig", "KILL", "libvirtd"]);
    }
    command.arg("--pid-file").arg(dir.join("run/daemon.pid"));
    for (name, below) in [
        ("HOME", "home"),
        ("XDG_RUNTIME_DIR", "run"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
    ] {
        command.env(name, dir.join(below));
    }
    Process::start(command, Vec::new()).unwrap()
}

fn domain_xml(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "<domain type='qemu'><name>{NAME}</name><memory unit='MiB'>{MEMORY_MIB}</memory>
        <vcpu current='1'>2</vcpu>
        <os><type arch='x86_64' machine='q35'>hvm</type>
        <kernel>{dir}/kernel</kernel><initrd>{dir}/initrd</initrd>
        <cmdline>console=ttyS0 quiet panic=-1 mitigations=off pinhead.name={NAME}</cmdline></os>
        <features><acpi/></features><on_reboot>restart</on_reboot>
        <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
        <controller type='usb' model='none'/>
        <serial type='file'><source path='{dir}/console'/></serial>
        <channel type='unix'><source mode='bind' path='{dir}/port'/>
        <target type='virtio' name='org.pinhead.0'/></channel>
        <memballoon model='virtio' autodeflate='on' freePageReporting='on'/>
        </devices></domain>"
    )
}
