//! Guests that resume the state of one template. Each guest has its own identity, and its changes
//! affect neither the other guests nor the template.

use e2e::soon;
use qmp::{Command, Reply};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use vm::images::{self, Arch, Cache, GuestFile, ImageSpec, WEB_PORT, web_files};
use vm::{Clones, Deadline, Forward, GuestSpec, Held, Net, Session, Template, probe_kvm};
use wire::{Decoder, Hello, Identified, Identity, ToGuest, ToHost, Welcome};

const CLONES: usize = 4;
const MEMORY_MIB: u64 = 160;
/// Memory that a web server's guest can spare for a while.
const TAKEN_MIB: u64 = 16;
/// Timeout of page reports. The kernel reports free memory about every two seconds, one large block
/// after the other.
const REPORTED: Duration = e2e::PATIENCE;
/// Tolerated difference between the clocks of clone and host. The host's time reaches a clone late,
/// by the duration of the delivery.
const CLOCK_S: u64 = 2;
const RULES: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\nHOTUNPLUG=\"0\"\n\
                     CMM_MIN=\"0\"\nCMM_MAX=\"0\"\nCMM_INC=\"0\"\nMEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

/// Samples of the memory that all clones have from the template, and of each clone's own memory.
/// Programs are checked as files, because files of these guests are in memory.
const PATTERN: &str = "cat /usr/sbin/nginx /var/www/page.html /bin/busybox /sbin/pinheadd \
                       /lib/*/libcrypto.so.3 /dev/shm/own | md5sum";
const MAKE_OWN: &str = "for i in 1 2 3 4; do cat /usr/sbin/nginx /etc/machine-id; done \
                        > /dev/shm/own";

/// Returns a free port of the loopback.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its number").port()
}

pub(super) fn web_spec(cache: &Cache) -> GuestSpec {
    let mut files = web_files(cache, Arch::X86_64).expect("a web server's files");
    files.push(GuestFile::text("/etc/pinhead.conf", RULES));
    files.push(GuestFile::text("/etc/pinheadd.args", "-f -c /etc/pinhead.conf --pace host"));
    let daemon = Some(e2e::daemon_dir().join("x86_64/pinheadd"));
    let image = ImageSpec { arch: Arch::X86_64, daemon, files }.build(cache).expect("an image");
    GuestSpec {
        memory_mib: MEMORY_MIB,
        translation_mib: 16,
        net: Some(Net::new(0)),
        reboot: true,
        ..GuestSpec::new("web", image, probe_kvm(Arch::X86_64))
    }
}

/// A clone and the port of its web server.
pub(super) struct Web {
    pub(super) guest: Session,
    port: u16,
}

impl Web {
    pub(super) fn start(number: usize, like: &GuestSpec, template: &Template) -> Web {
        let port = free_port();
        let forwards = vec![Forward { host_port: port, guest_port: WEB_PORT }];
        let spec = GuestSpec {
            name: format!("web{number}"),
            net: Some(Net { forwards, ..Net::new(number as u32) }),
            restore: Some(template.clone()),
            ..like.clone()
        };
        let clock = soon();
        let guest = Session::boot(&spec, clock).unwrap_or_else(|e| panic!("{}: {e}", spec.name));
        println!("{} is itself after {:?}", spec.name, clock.elapsed());
        Web { guest, port }
    }

    fn sh(&mut self, line: &str) -> String {
        self.guest.sh(line, soon()).unwrap_or_else(|e| panic!("{line}: {e}")).trim().to_owned()
    }

    fn page(&self) -> Vec<u8> {
        let clock = soon();
        loop {
            let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(10)))?;
                stream.write_all(b"GET /page.html HTTP/1.0\r\n\r\n")?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).map(|_| answer)
            });
            match asked {
                Ok(answer) if answer.len() > images::PAGE_BYTES => return answer,
                // A rebooting guest refuses or drops connections.
                other => assert!(clock.remaining().is_some(), "{}: {other:?}", self.guest.name),
            }
        }
    }

    fn body(&self) -> Vec<u8> {
        let answer = self.page();
        answer[answer.len() - images::PAGE_BYTES..].to_vec()
    }

    /// Returns everything that distinguishes a guest from other guests.
    fn identity(&mut self) -> Vec<String> {
        let random = "dd if=/dev/urandom bs=32 count=1 2> /dev/null | sha256sum";
        [
            "hostname",
            "cat /proc/sys/kernel/random/boot_id",
            "cat /etc/machine-id",
            "cat /sys/class/dmi/id/product_uuid",
            "cat /sys/class/net/eth0/address",
            "ifconfig eth0 | grep -o 'addr:[0-9.]*'",
            random,
        ]
        .map(|line| self.sh(line))
        .to_vec()
    }

    /// Returns the daemon's greeting to a new host.
    fn hello(&mut self) -> Hello {
        let welcome = Welcome { memory_pages: MEMORY_MIB * 256, grants: true, paces: true };
        self.ask(ToGuest::Welcome(welcome), |message| match message {
            ToHost::Hello(hello) => Some(hello),
            _ => None,
        })
    }

    /// Asserts that the host cannot change the clone's identity.
    fn stays_itself(&mut self) {
        let before = self.sh("hostname");
        let identity = Identity {
            name: "another".into(),
            uuid: [1; 16],
            boot_id: [2; 16],
            addresses: None,
            seed: [3; 32],
            clock: Duration::from_secs(1),
        };
        let refusal = self.ask(ToGuest::Identify(identity), |message| match message {
            ToHost::Identified(Identified { refusal }) => Some(refusal),
            _ => None,
        });
        assert!(refusal.contains("has its own identity already"), "{refusal}");
        assert_eq!(self.sh("hostname"), before);
        let boot = self.sh("cat /proc/sys/kernel/random/boot_id");
        let record = self.sh("cat /run/pinheadd.undo");
        assert!(record.contains(&boot), "{boot} is not that of {record}");
    }

    /// Sends a message to the daemon, and waits for the matching response.
    fn ask<T>(&mut self, question: ToGuest, answer: impl Fn(ToHost) -> Option<T>) -> T {
        let mut out = Vec::new();
        wire::encode(&question, &mut out);
        let port = &mut self.guest.port;
        port.write_all(&out).expect("a question");
        port.set_read_timeout(Some(e2e::PATIENCE)).expect("a limit");
        let (mut decoder, mut chunk) = (Decoder::new(), [0; 4096]);
        loop {
            let count = port.read(&mut chunk).expect("an answer");
            decoder.feed(&chunk[..count]);
            while let Some(message) = decoder.next() {
                if let Some(answer) = answer(message) {
                    return answer;
                }
            }
        }
    }

    fn balloon(&mut self, kept_mib: u64) {
        let value_bytes = kept_mib << 20;
        let clock = soon();
        let monitor = &mut self.guest.monitor;
        monitor.call(Command::Balloon { value_bytes }, clock).expect("a balloon");
        loop {
            match monitor.call(Command::QueryBalloon, clock) {
                Ok(Reply::Balloon { actual_bytes }) if actual_bytes == value_bytes => return,
                other => assert!(clock.remaining().is_some(), "{kept_mib} MiB: {other:?}"),
            }
        }
    }

    fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/smaps_rollup", self.guest.process.id());
        let text = std::fs::read_to_string(path).expect("its memory");
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).expect("Rss");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

#[allow(clippy::disallowed_methods, reason = "a guest's clock is compared with this one")]
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs()
}

fn template(like: &GuestSpec, share: Clones, cache: &Cache) -> Template {
    let make = || Template::make(like, share, cache, soon()).unwrap_or_else(|e| panic!("{e}"));
    let template = make();
    assert_eq!(make(), template, "the template is made once");
    assert_eq!(template.memory.is_some(), share == Clones::Share);
    template
}

/// Clones that copy the template share no memory, so only their identity can be wrong.
#[test]
fn copied_clones_are_independent() {
    let _share = e2e::share(2);
    let cache = Cache::from_environment().expect("a cache");
    let like = web_spec(&cache);
    let template = template(&like, Clones::Copy, &cache);
    let saved = files_of(&template);
    let mut clones = [1, 2].map(|number| Web::start(number, &like, &template));
    each_is_itself(&mut clones);
    clones.iter_mut().for_each(|clone| _ = clone.sh(MAKE_OWN));
    let [before, _] = clones.each_mut().map(|clone| clone.sh(PATTERN));
    clones[1].sh("tr a-y b-z < /var/www/page.html > /dev/shm/own");
    clones[1].balloon(MEMORY_MIB - TAKEN_MIB);
    assert_eq!(clones[0].sh(PATTERN), before);
    assert!(files_of(&template) == saved, "the template changed");
}

#[test]
fn change_of_a_clone_affects_no_other_clone() {
    let _share = e2e::share(CLONES);
    let cache = Cache::from_environment().expect("a cache");
    let like = web_spec(&cache);
    let template = template(&like, Clones::Share, &cache);
    let saved = files_of(&template);
    let mut clones: Vec<Web> =
        (1..=CLONES).map(|number| Web::start(number, &like, &template)).collect();

    each_is_itself(&mut clones);
    let sees = |memory: &Path, pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
        let seen = maps.lines().find(|line| line.ends_with(&memory.display().to_string()));
        seen.is_some_and(|line| line.contains("rw-p"))
    };
    for clone in &clones {
        let pid = clone.guest.process.id();
        assert!(
            template.memory.as_ref().is_none_or(|memory| sees(memory.path(), pid)),
            "it has a copy"
        );
    }

    for clone in &mut clones {
        clone.sh(MAKE_OWN);
    }
    let before: Vec<String> = clones.iter_mut().map(|clone| clone.sh(PATTERN)).collect();
    let page = clones[0].body();
    // All actions that may change a clone precede the checks.
    let [ballooned, reporting, writing, rebooting] = &mut clones[..] else { panic!("four") };
    ballooned.balloon(MEMORY_MIB - TAKEN_MIB);
    report_free_memory(reporting);
    writing.sh("cd /var/www; tr a-y b-z < page.html > new; cat new > page.html; rm new");
    writing.sh("dd if=/dev/urandom of=/dev/shm/own bs=64k count=32 conv=notrunc 2> /dev/null");
    reboot(rebooting);
    ballooned.balloon(MEMORY_MIB);

    assert_eq!(clones[0].sh(PATTERN), before[0], "the ballooned clone is unchanged");
    assert_eq!(clones[1].sh(PATTERN), before[1], "the reporting clone is unchanged");
    assert_ne!(clones[2].sh(PATTERN), before[2], "the writing one is not");
    assert_eq!(clones[0].body(), page);
    assert_eq!(clones[1].body(), page);
    assert_ne!(clones[2].body(), page);
    assert_eq!(clones[3].body(), page, "the rebooted one is as the image");
    assert!(files_of(&template) == saved, "the template changed");

    // The template can still start guests.
    let mut late = Web::start(CLONES + 1, &like, &template);
    late.sh(MAKE_OWN);
    assert_eq!(late.body(), page);
}

/// A kernel that expects wiped pages would find the template's contents in pages that it has
/// reported.
#[test]
fn kernels_that_expect_wiped_pages_report_no_free_pages() {
    let _share = e2e::share(1);
    let cache = Cache::from_environment().expect("a cache");
    let plain = web_spec(&cache);
    let wiping = GuestSpec { kernel_args: vec!["init_on_free=1".into()], ..plain.clone() };
    // Prints the sixth feature bit of the balloon: 1 if the driver reports free pages.
    let reports = "cut -c6 /sys/bus/virtio/drivers/virtio_balloon/virtio*/features";
    for (number, spec, wanted) in [(1, plain, "1"), (2, wiping, "0")] {
        let template = Template::make(&spec, Clones::Share, &cache, soon()).expect("a template");
        let mut web = Web::start(number, &spec, &template);
        assert_eq!(web.sh(reports), wanted, "{:?}", spec.kernel_args);
        web.balloon(MEMORY_MIB - TAKEN_MIB);
        web.balloon(MEMORY_MIB);
        assert!(web.page().len() > images::PAGE_BYTES);
    }
}

/// Returns all files of a template, and their allocated blocks.
fn files_of(template: &Template) -> Vec<(Vec<u8>, u64)> {
    let files = [Some(&template.state), template.memory.as_ref()];
    let file = |held: &Held| {
        let bytes = std::fs::read(held.path()).expect("a file of the template");
        let data = std::fs::metadata(held.path()).expect("its blocks");
        assert_eq!(data.mode() & 0o777, 0o600, "a guest's memory is its owner's");
        (bytes, data.blocks())
    };
    files.into_iter().flatten().map(file).collect()
}

fn each_is_itself(clones: &mut [Web]) {
    let identities: Vec<_> = clones.iter_mut().map(Web::identity).collect();
    let mut all = BTreeSet::new();
    for (clone, identity) in clones.iter().zip(&identities) {
        println!("{identity:?}");
        assert_eq!(identity[0], clone.guest.name);
        assert_eq!(identity[3].replace('-', ""), identity[2], "the machine id is the UUID");
        for part in identity {
            assert!(!part.is_empty() && all.insert(part.clone()), "{part:?} twice: {identities:?}");
        }
    }
    for (clone, identity) in clones.iter_mut().zip(&identities) {
        let now = clone.sh("date +%s").parse::<u64>().expect("a time");
        assert!(now.abs_diff(now_s()) <= CLOCK_S, "{}: {now} at {}", identity[0], now_s());
        clone.stays_itself();
        let boot = clone.hello().boot_id.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(boot, identity[1].replace('-', ""), "the daemon reports the boot id");
        assert!(clone.page().len() > images::PAGE_BYTES);
    }
}

/// Uses and frees memory. The guest's kernel then reports the memory as free, and the host reclaims
/// the memory.
fn report_free_memory(web: &mut Web) {
    web.sh("dd if=/dev/zero of=/dev/shm/filled bs=64k count=640 2> /dev/null");
    let full_kib = web.resident_kib();
    web.sh("rm /dev/shm/filled; echo 1 > /proc/sys/vm/compact_memory");
    let clock = Deadline::after(REPORTED);
    while web.resident_kib() + 4096 > full_kib {
        assert!(clock.remaining().is_some(), "{full_kib} KiB, now {}", web.resident_kib());
        web.sh("usleep 500000");
    }
    println!("{full_kib} KiB resident, {} after free pages were reported", web.resident_kib());
}

/// Reboots a guest, and checks that its lasting identity is kept.
fn reboot(web: &mut Web) {
    let before = web.identity();
    web.sh("{ usleep 200000; reboot -f; } > /dev/null 2>&1 &");
    web.guest.console.wait_for(&format!("pinhead: {} is up", web.guest.name), soon()).expect("up");
    let after = web.identity();
    for lasting in [0, 2, 3, 4, 5] {
        assert_eq!(after[lasting], before[lasting]);
    }
    assert_ne!(after[1], before[1], "another boot");
    assert!(web.page().len() > images::PAGE_BYTES);
}
