//! A host that is itself a guest: Debian 13 with systemd, libvirt, QEMU, and real KVM on an
//! emulated SVM.
//!
//! ```text
//!   scripts/kvm-host ─► host.img ── boots once, gets packages and a domain ─► disk.qcow2, state
//!                                                                              └─► each test's
//! ```
//!
//! `scripts/kvm-host` makes the host's root file system. The first test boots the host, installs
//! pinhead's packages and starts a domain, which takes minutes. Each test resumes the saved state
//! in a new host. Times measured in such a host mean nothing.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use base::StableHash;
use vm::images::{Arch, Cache, GuestFile, ImageSpec, Modules, WEB_SET, web_files};
use vm::{Console, Ctl, Deadline, Monitor, Process, Scratch, wait_for_exit};

use crate::{LOOK, given, scratch};

/// Timeout of slow waits. Emulating a processor that itself runs guests is slow, above all on a
/// busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Timeout of one shell line in a running host.
const ANSWER: Duration = Duration::from_secs(120);

/// Console output that shows that the host's shell is ready.
const UP: &str = "pinhead: kvmhost is up";
/// Directory in the host with the files from the test.
const BROUGHT: &str = "/srv";
/// File with the saved state from which hosts resume.
const STATE: &str = "state";
const DISK: &str = "disk.qcow2";
const TAR: &str = "srv.tar";

/// Kernel command line of the host's guests, except for the guest's name.
const GUEST_WORDS: &str = "console=ttyS0 quiet panic=-1 mitigations=off norandmaps \
    nowatchdog no_timer_check audit=0 psi=1";

/// The domain of each host. It keeps [`FILLED_MIB`] of [`MEMORY_MIB`] filled, and prints a checksum
/// of the filled memory.
pub const LV1: &str = "lv1";
/// Memory of the domain, in MiB.
pub const MEMORY_MIB: u64 = 192;
/// Data in the domain, in MiB.
pub const FILLED_MIB: u64 = 32;

/// A running host. Dropping this value ends the host.
#[derive(Debug)]
pub struct KvmHost {
    process: Process,
    monitor: Monitor,
    console: Console,
    ctl: Ctl,
    _dir: Scratch,
}

/// Returns the directory that `scripts/kvm-host` creates.
fn made() -> PathBuf {
    given("PINHEAD_KVM_HOST").into()
}

impl KvmHost {
    /// Resumes a host with pinhead's packages installed, which manages the domain [`LV1`].
    pub fn installed() -> KvmHost {
        KvmHost::resumed(None)
    }

    /// Resumes two such hosts on a private network, as 10.9.0.1 and 10.9.0.2. The second host has
    /// no domain, and its libvirt has another host UUID.
    pub fn pair() -> [KvmHost; 2] {
        let (left, right) = UnixDatagram::pair().unwrap_or_else(|e| panic!("a network: {e}"));
        let mut number = 0;
        [left, right].map(|end| {
            number += 1;
            let mut host = KvmHost::resumed(Some(end.into()));
            host.sh(&format!(
                "hostname host{number}; n=$(ls -d /sys/class/net/e*); n=${{n##*/}}; \
                 ip link set dev $n down address 52:54:00:00:09:0{number}; \
                 ip addr add 10.9.0.{number}/24 dev $n; ip link set dev $n up; \
                 printf '10.9.0.1 host1\\n10.9.0.2 host2\\n' >> /etc/hosts"
            ));
            if number == 2 {
                host.sh(&format!(
                    "virsh -q destroy {LV1}; virsh -q undefine {LV1}; \
                     echo \"host_uuid = '$(cat /proc/sys/kernel/random/uuid)'\" \
                     >> /etc/libvirt/libvirtd.conf && systemctl restart libvirtd"
                ));
            }
            host
        })
    }

    fn resumed(net: Option<OwnedFd>) -> KvmHost {
        // The template is made only once per process, because it packs a copy of all packages.
        static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(template);
        let template: &Path = &TEMPLATE;
        let dir = scratch("kvm-host");
        let disk = dir.join(DISK);
        layer(&template.join(DISK), "qcow2", &disk);
        let state = template.join(STATE);
        let mut host = KvmHost::start(dir, &disk, &template.join(TAR), net, Some(&state));
        host.sh(&format!("virsh -q resume {LV1}"));
        host
    }

    /// Starts QEMU, and waits until the host's shell answers.
    fn start(
        dir: Scratch,
        disk: &Path,
        tar: &Path,
        net: Option<OwnedFd>,
        state: Option<&Path>,
    ) -> KvmHost {
        let pair = || UnixStream::pair().unwrap_or_else(|e| panic!("a connection: {e}"));
        let [qmp, console, ctl] = [pair(), pair(), pair()];
        let mut command = Command::new(made().join("run"));
        let mut words = |option: &str, value: String| {
            command.arg(option).arg(value);
        };
        let drive = |path: &Path, more| format!("file={},if=virtio,{more}", path.display());
        words("-drive", drive(disk, "format=qcow2,cache=unsafe"));
        words("-drive", drive(tar, "format=raw,readonly=on"));
        for (name, (_, theirs)) in [("qmp", &qmp), ("console", &console), ("ctl", &ctl)] {
            words("-chardev", format!("socket,id={name},fd={}", theirs.as_raw_fd()));
        }
        words("-mon", "chardev=qmp,mode=control".into());
        words("-serial", "chardev:console".into());
        words("-device", "virtserialport,chardev=ctl,name=org.pinhead.ctl.0".into());
        // The back end of the network is not part of the machine's state.
        let backend = net.as_ref().map(|end| end.as_raw_fd());
        words(
            "-netdev",
            match backend {
                Some(end) => format!("dgram,id=net,local.type=fd,local.str={end}"),
                None => "hubport,id=net,hubid=0".into(),
            },
        );
        words("-device", "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:09:00".into());
        if let Some(state) = state {
            words("-incoming", format!("file:{}", state.display()));
        }
        let theirs = [qmp.1, console.1, ctl.1].map(OwnedFd::from);
        let started = Process::start(command, theirs.into_iter().chain(net).collect());
        let host = KvmHost {
            process: started.unwrap_or_else(|e| panic!("the host's QEMU: {e}")),
            monitor: Monitor::new(qmp.0),
            console: Console::start(console.0).unwrap_or_else(|e| panic!("its console: {e}")),
            ctl: Ctl::new(ctl.0),
            _dir: dir,
        };
        if state.is_none() {
            let up = host.console.wait_for(UP, Deadline::after(PATIENCE));
            up.unwrap_or_else(|e| panic!("the host is not up: {e}\n{}", host.process.stderr()));
        }
        host
    }

    /// Runs a line in the host's shell, and returns its exit status and output.
    pub fn run(&mut self, line: &str) -> (i32, String) {
        let output = self.ctl.run(line, Deadline::after(ANSWER));
        let output = output.unwrap_or_else(|e| panic!("{line}: {e}"));
        (output.code, output.text)
    }

    /// Runs a line that must succeed, and returns its output.
    pub fn sh(&mut self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 0, "{line}\n{text}");
        text
    }

    /// Runs a line that prints a number, and returns the number.
    pub fn number(&mut self, line: &str) -> u64 {
        let text = self.sh(line);
        text.trim().parse().unwrap_or_else(|e| panic!("{line}: {text:?}: {e}"))
    }

    /// Waits until a line of the host's shell succeeds, and returns its output.
    pub fn until(&mut self, line: &str) -> String {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let (code, text) = self.run(line);
            if code == 0 {
                return text;
            }
            if deadline.remaining().is_none() {
                let (_, log) = self.run(
                    "journalctl -b --no-pager -n 30 -u 'pinhead*' -u 'libvirt*'; pinhead ps; \
                     virsh -q list --all; \
                     tail -n 20 /srv/*.log /srv/*.console",
                );
                panic!("never: {line}\n{text}\n{log}");
            }
            let _ = wait_for_exit(std::process::id(), LOOK);
        }
    }

    /// Waits until the manager has data about a guest, including balloon statistics.
    pub fn has_numbers(&mut self, guest: &str) {
        self.until(&format!("pinhead ps | grep -E '^{guest} .* [0-9]+ +0 +[-0-9]'"));
    }

    /// Waits for the next checksum that a domain prints, and returns it.
    pub fn sum(&mut self, domain: &str) -> String {
        let file = format!("{BROUGHT}/{domain}.console");
        self.sh(&format!("touch {file} && wc -l < {file} > /tmp/lines"));
        let line = format!("tail -n +$(($(cat /tmp/lines) + 1)) {file} | grep -m 1 '^sum .*-'");
        // The console may so far contain only a part of the line.
        self.until(&line).trim_end().to_owned()
    }

    /// Waits until a domain has this much memory, as reported by libvirt.
    pub fn has_memory(&mut self, domain: &str, mib: u64) {
        self.until(&format!("virsh dommemstat {domain} | grep -x 'actual {}'", mib << 10));
    }

    /// Writes a file in the host with one shell line.
    pub fn write(&mut self, path: &str, text: &str) {
        self.sh(&crate::line_that_writes(path, text));
    }

    /// Starts a program in the background. Its output goes to `/srv/NAME.log`.
    pub fn spawn(&mut self, name: &str, line: &str) {
        self.sh(&format!("setsid sh -c '{line}' > /srv/{name}.log 2>&1 < /dev/null &"));
    }

    /// Defines and starts a libvirt domain with a Linux and pinhead's daemon. Further kernel
    /// arguments select its load: see `kvm_host/load.sh`.
    pub fn domain(&mut self, name: &str, memory_mib: u64, words: &str) {
        self.write(&format!("{BROUGHT}/{name}.xml"), &domain_xml(name, memory_mib, words));
        self.sh(&format!("virsh -q define {BROUGHT}/{name}.xml && virsh -q start {name}"));
    }

    /// Starts a QEMU guest by hand, with its monitor at a path that pinhead finds without settings.
    /// `memory` contains QEMU arguments, and `load` contains kernel arguments.
    pub fn plain_qemu(&mut self, name: &str, memory: &str, load: &str) {
        let dir = "/run/pinhead/up/by-hand";
        self.sh(&format!("mkdir -p {dir} && chmod 700 {dir}"));
        self.spawn(
            name,
            &format!(
                "exec qemu-system-x86_64 -name guest={name},debug-threads=on -machine q35 \
                 -accel kvm -cpu host {memory} -display none -nodefaults \
                 -serial file:{BROUGHT}/{name}.console \
                 -device virtio-balloon-pci,id=balloon0,deflate-on-oom=on \
                 -device virtio-serial-pci -qmp unix:{dir}/{name}.qmp,server=on,wait=off \
                 -kernel {BROUGHT}/guest/kernel -initrd {BROUGHT}/guest/initrd \
                 -append \"{GUEST_WORDS} pinhead.name={name} {load}\""
            ),
        );
    }

    /// Returns the CPU time of a guest's virtual CPUs, in clock ticks of the host.
    pub fn guest_ticks(&mut self, guest: &str) -> u64 {
        // Field 43 has the ticks. sed removes the first two fields, because the thread's name in
        // the second field may contain spaces.
        let line = "cat /proc/$(pgrep -f guest=GUEST,)/task/*/stat | sed 's/.*) //' | \
                    awk '{ n += $41 } END { print n }'";
        self.number(&line.replace("GUEST", guest))
    }

    /// Adds a swap file to the host.
    pub fn has_swap(&mut self) {
        self.sh("fallocate -l 512M /swap && chmod 600 /swap && mkswap -q /swap && swapon /swap");
    }

    /// Asserts that the host's kernel has logged no error.
    pub fn is_sound(&mut self) {
        let said = self.run("dmesg | grep -E 'BUG:|WARNING:|Oops|Kernel panic|corrupted stack'").1;
        assert!(said.is_empty(), "{said}");
    }
}

impl Drop for KvmHost {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (console, stderr) = (self.console.text(), self.process.stderr());
            let ended = self.process.try_wait();
            let last: Vec<_> = console.lines().rev().take(40).collect();
            let last: Vec<_> = last.into_iter().rev().collect();
            eprintln!(
                "--- the host's console:\n{}\n--- its QEMU, ended {ended:?}:\n{stderr}",
                last.join("\n")
            );
        }
    }
}

/// Returns libvirt's description of a domain with one virtual CPU, under KVM.
fn domain_xml(name: &str, memory_mib: u64, words: &str) -> String {
    format!(
        "<domain type='kvm'><name>{name}</name><memory unit='MiB'>{memory_mib}</memory>
        <vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type>
        <kernel>{BROUGHT}/guest/kernel</kernel><initrd>{BROUGHT}/guest/initrd</initrd>
        <cmdline>{GUEST_WORDS} pinhead.name={name} {words}</cmdline></os>
        <cpu mode='host-passthrough' migratable='on'/><features><acpi/></features>
        <on_reboot>restart</on_reboot><devices>
        <emulator>/usr/bin/qemu-system-x86_64</emulator>
        <controller type='usb' model='none'/>
        <serial type='file'><source path='{BROUGHT}/{name}.console'/></serial>
        <channel type='unix'><target type='virtio' name='org.pinhead.0'/></channel>
        <memballoon model='virtio' autodeflate='on' freePageReporting='on'/>
        </devices></domain>"
    )
}

/// Creates an empty overlay on a disk image.
fn layer(under: &Path, format: &str, path: &Path) {
    let mut make = Command::new("qemu-img");
    make.args(["create", "-q", "-f", "qcow2", "-F", format, "-b"]).arg(under).arg(path);
    let done = make.status().unwrap_or_else(|e| panic!("qemu-img: {e}"));
    assert!(done.success(), "{make:?}");
}

/// Returns the directory of the saved state from which hosts resume. The state is made again only
/// if the packages or this file change.
fn template() -> PathBuf {
    let brought = brought();
    let mut bytes = Vec::new();
    let read = File::open(brought.join(TAR)).and_then(|mut tar| tar.read_to_end(&mut bytes));
    read.unwrap_or_else(|e| panic!("{TAR}: {e}"));
    let mut hash = StableHash::default();
    hash.put(&bytes);
    hash.put(include_bytes!("kvm_host.rs"));
    let base = made();
    let place = base.join(format!("installed-{:016x}", hash.finish()));
    if !place.exists() {
        remove_others(&base);
        let part = place.with_extension(std::process::id().to_string());
        fs::create_dir(&part).unwrap_or_else(|e| panic!("{}: {e}", part.display()));
        make(&base, &brought, &part);
        // Another process may have made the same state.
        if fs::rename(&part, &place).is_err() {
            let _ = fs::remove_dir_all(&part);
        }
    }
    place
}

/// Removes the states made with other packages, because each state takes half a gigabyte.
fn remove_others(base: &Path) {
    let found = fs::read_dir(base).into_iter().flatten().flatten();
    for entry in found.filter(|e| e.file_name().to_string_lossy().starts_with("installed-")) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Collects the files for the host: pinhead's packages, a guest's kernel and file system, and the
/// packages that `pinhead up` would download.
fn brought() -> Scratch {
    let dir = scratch("kvm-host-srv");
    let run = |command: &mut Command| {
        let done = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        assert!(done.success(), "{command:?}");
    };
    let tree = dir.join("srv");
    let guest = tree.join("guest");
    fs::create_dir_all(&guest).unwrap_or_else(|e| panic!("{}: {e}", guest.display()));
    let packages = PathBuf::from(given("PINHEAD_PACKAGES"));
    run(Command::new("sh").arg("-c").arg("cp \"$0\"/*_amd64.deb \"$1\"").arg(packages).arg(&tree));
    let cache = Cache::from_environment().unwrap_or_else(|e| panic!("{e}"));
    let files = vec![
        GuestFile::text("/etc/pinhead.conf", crate::HOLDING),
        GuestFile::text("/etc/pinheadd.args", "-f -c /etc/pinhead.conf --pace host"),
        GuestFile { mode: 0o755, ..GuestFile::text("/etc/load.sh", LOAD) },
        virtio_mem(&cache),
    ];
    let daemon = crate::daemon_dir().join(Arch::X86_64.name()).join("pinheadd");
    let spec = ImageSpec { arch: Arch::X86_64, daemon: Some(daemon), files };
    let image = spec.build(&cache).unwrap_or_else(|e| panic!("{e}"));
    for (from, to) in [(image.kernel, "kernel"), (image.initramfs, "initrd")] {
        let copied = fs::copy(&from, guest.join(to));
        copied.unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    }
    // Downloads the files if they are missing.
    web_files(&cache, Arch::X86_64).unwrap_or_else(|e| panic!("{e}"));
    let all = tree.join("packages");
    fs::create_dir(&all).unwrap_or_else(|e| panic!("{}: {e}", all.display()));
    for set in ["", WEB_SET] {
        run(Command::new("cp").arg("-a").arg(cache.packages_of(Arch::X86_64, set)).arg(&all));
    }
    // These options make the archive's bytes reproducible.
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--file"]);
    run(tar.arg(dir.join(TAR)).arg("--directory").arg(&tree).arg("."));
    dir
}

/// Returns the driver of virtio-mem, which is not part of a guest's image.
fn virtio_mem(cache: &Cache) -> GuestFile {
    let packages = cache.packages(Arch::X86_64).unwrap_or_else(|e| panic!("{e}"));
    let modules = Modules::open(&packages.modules).unwrap_or_else(|e| panic!("{e}"));
    let order = modules.load_order(&["virtio_mem"]).unwrap_or_else(|e| panic!("{e}"));
    let driver = order.into_iter().next_back().unwrap_or_else(|| panic!("no virtio_mem"));
    GuestFile { path: "/etc/virtio_mem.ko".into(), mode: 0o644, bytes: driver.bytes }
}

/// The guests' load script, driven by the kernel's command line.
const LOAD: &str = include_str!("kvm_host/load.sh");

/// Boots the host, installs the packages, and saves its state.
fn make(base: &Path, brought: &Scratch, part: &Path) {
    fs::copy(brought.join(TAR), part.join(TAR)).unwrap_or_else(|e| panic!("{TAR}: {e}"));
    let disk = part.join(DISK);
    layer(&base.join("host.img"), "raw", &disk);
    let dir = scratch("kvm-host");
    let mut host = KvmHost::start(dir, &disk, &part.join(TAR), None, None);
    host.sh(&format!("tar -xf /dev/vdb -C {BROUGHT}"));
    host.sh("mkdir -p /root/.cache/pinhead && mv /srv/packages /root/.cache/pinhead/packages");
    host.until("systemctl is-system-running --wait");
    host.until("[ -c /dev/kvm ]");
    // Another host migrates domains to this host over TCP. Only these two hosts are on the network,
    // so no authentication is needed.
    host.sh("printf 'auth_tcp = \"none\"\\n' >> /etc/libvirt/libvirtd.conf");
    host.sh("systemctl stop libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd && \
         systemctl start libvirtd.socket libvirtd-tcp.socket libvirtd");
    // libvirt probes each QEMU's capabilities, which takes a minute here.
    host.sh("virsh -q domcapabilities > /dev/null");
    host.sh("dpkg -i /srv/pinhead_*.deb");
    // The package's settings only watch.
    host.sh("sed -i 's/^act = false$/act = true/' /etc/pinhead/host.toml");
    host.sh("systemctl restart pinhead-host");
    host.domain(LV1, MEMORY_MIB, &format!("fill={FILLED_MIB}"));
    host.has_numbers(LV1);
    host.sum(LV1);
    // If a virtual CPU of the host runs the domain while the state is saved, the CPU is not saved
    // completely. After a resume it would never return from the domain.
    host.sh(&format!("virsh -q suspend {LV1}"));
    host.sh("sync; echo 3 > /proc/sys/vm/drop_caches");
    let mut call = |command| {
        let answer = host.monitor.call(command, Deadline::after(PATIENCE));
        answer.unwrap_or_else(|e| panic!("the host's state: {e}"))
    };
    call(qmp::Command::SetMigrateBandwidth { bytes_a_second: 1 << 40 });
    call(qmp::Command::Migrate { uri: format!("file:{}", part.join(STATE).display()) });
    let deadline = Deadline::after(PATIENCE);
    loop {
        match call(qmp::Command::QueryMigrate) {
            qmp::Reply::Migration(Some(state)) if state == "completed" => break,
            state => assert!(deadline.remaining().is_some(), "its state is not saved: {state:?}"),
        }
        let _ = wait_for_exit(std::process::id(), LOOK);
    }
    call(qmp::Command::Quit);
    let ended = host.process.wait(Deadline::after(PATIENCE));
    assert!(ended.is_ok_and(|status| status.is_some()), "{}", host.process.stderr());
}
