//! `pinhead host` as on z/VM, with the pools of two real s390x kernels. A file made from these
//! pools replaces z/VM's counters. Because only z/VM delivers messages, the test writes the
//! requested sizes to `/proc/sys/vm/cmm_pages`.

use e2e::manager::{Manager, Place, wait_until};
use e2e::{PATIENCE, soon};
use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use vm::images::{Arch, Cache, ImageSpec};
use vm::{Accel, GuestSpec, Session, WhyEmulation};
use zmon::hypfs::{Guest, guests_bytes};
use zmon::{Tod, to_ebcdic};

const SIZE_MIB: u64 = 256;
/// Memory that both guests may have together. A tenth of this memory should be free.
const ALL_MIB: u64 = 360;
const PAGES_A_MIB: u64 = 256;
/// Available memory below which tasks of a kernel wait for memory.
const WAITS_MIB: u64 = 24;
/// Number of samples of each guest in a reading.
const SAMPLES: u32 = 4;

/// Two kernels, and the number of messages delivered to them.
struct Guests {
    sessions: Vec<Session>,
    heard: usize,
    looks: u32,
    /// Number of samples in which each guest was waiting.
    waited: [u32; 2],
}

/// Result of a reading of both guests.
struct Seen {
    pools: Vec<u64>,
    available_mib: Vec<u64>,
}

impl Guests {
    fn boot() -> Guests {
        let cache = Cache::from_environment().unwrap_or_else(|e| panic!("{e}"));
        let image = ImageSpec { arch: Arch::S390x, daemon: None, files: Vec::new() };
        let image = image.build(&cache).unwrap_or_else(|e| panic!("{e}"));
        let session = |name: &str| {
            let accel = Accel::Emulation(WhyEmulation::Asked);
            let spec =
                GuestSpec { memory_mib: SIZE_MIB, ..GuestSpec::new(name, image.clone(), accel) };
            Session::boot(&spec, soon()).unwrap_or_else(|error| panic!("{error}"))
        };
        Guests {
            sessions: vec![session("LINUX01"), session("LINUX02")],
            heard: 0,
            looks: 0,
            waited: [0; 2],
        }
    }

    /// Returns the sizes of the pools and the available memory of the guests, as the kernels report
    /// them.
    fn see(&mut self) -> Seen {
        let numbers = |session: &mut Session| -> (u64, u64) {
            // Shell builtins are used where possible, because they need no processes.
            let script = "cat /proc/sys/vm/cmm_pages; \
                          while read name kib unit; do case $name in MemAvailable:) echo $kib;; \
                          esac; done < /proc/meminfo";
            let text = session.sh(script, soon()).unwrap_or_else(|e| panic!("{e}"));
            let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
            let [pages, kib] = numbers[..] else { panic!("{text:?}") };
            (pages, kib / 1024)
        };
        let (pools, available_mib) = self.sessions.iter_mut().map(numbers).unzip();
        Seen { pools, available_mib }
    }

    /// Fills the second guest's memory, and leaves this much available.
    fn starve(&mut self, left_mib: u64) {
        let take = self.see().available_mib[1].saturating_sub(left_mib);
        let script = format!(
            "mkdir -p /full && mount -t tmpfs -o size=100% none /full && \
             dd if=/dev/zero of=/full/file bs=1048576 count={take} 2> /dev/null; echo $?"
        );
        let text = self.sessions[1].sh(&script, soon()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(text.trim(), "0", "{take} MiB");
    }

    /// Delivers pending messages, and samples the guests.
    fn live(&mut self, dir: &Path) -> Seen {
        let log = fs::read_to_string(dir.join("vmcp.log")).unwrap_or_default();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        for message in whole.lines().skip(self.heard) {
            self.heard += 1;
            let words: Vec<&str> = message.split(' ').collect();
            let ["smsg", name, "CMM", "SHRINK", pages] = words[..] else { panic!("{message}") };
            let session = &mut self.sessions[usize::from(name == "LINUX02")];
            let set = session.sh(&format!("echo {pages} > /proc/sys/vm/cmm_pages"), soon());
            set.unwrap_or_else(|e| panic!("{message}: {e}"));
        }
        let seen = self.see();
        self.looks += 1;
        for (waited, available_mib) in self.waited.iter_mut().zip(&seen.available_mib) {
            *waited += if *available_mib < WAITS_MIB { SAMPLES } else { 0 };
        }
        let user = |number: usize| Guest {
            name: to_ebcdic(["LINUX01", "LINUX02"][number]),
            elapsed_us: u64::from(self.looks) * 1_000_000,
            used_us: u64::from(self.looks) * 100_000,
            memory_max: SIZE_MIB << 10,
            memory_used: (SIZE_MIB << 10).saturating_sub(seen.pools[number] * 4),
            virtual_cpus: 1,
            all_samples: self.looks * SAMPLES,
            page_samples: self.waited[number],
            ..Guest::default()
        };
        let all = [user(0), user(1)];
        let new = dir.join("new");
        fs::write(&new, guests_bytes(&all, Tod(1))).unwrap_or_else(|e| panic!("{e}"));
        fs::rename(new, dir.join("diag_2fc")).unwrap_or_else(|e| panic!("{e}"));
        seen
    }
}

/// Writes a replacement for `vmcp` that logs its arguments. Another process writes the file. If
/// this process wrote it, one of its children could have the file open for writing, and the program
/// could not start.
fn program(path: &Path) {
    let words = format!("#!/bin/sh\necho \"$@\" >> {}\n", path.with_extension("log").display());
    let mut sh = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("a shell: {e}"));
    let mut input = sh.stdin.take().unwrap_or_else(|| panic!("its input"));
    input.write_all(words.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    drop(input);
    assert!(sh.wait().is_ok_and(|status| status.success()));
}

#[test]
fn kernel_pools_hold_set_point_serve_need_and_empty_after_kill() {
    let _share = e2e::share(2);
    let guests = RefCell::new(Guests::boot());
    let place = Place::new();
    let dir = place.dir();
    program(&dir.join("vmcp"));
    guests.borrow_mut().live(dir);
    let settings = format!(
        "[zvm]\nmode = \"manage\"\nmemory = \"{ALL_MIB} MiB\"\nusers = [\"LINUX*\"]\n\
         counters = \"{0}/diag_2fc\"\nprogram = \"{0}/vmcp\"\n\
         [journal]\npath = \"{0}/journal.db\"\n[monitor]\nrecord = false\n\
         [pageout]\nmode = \"off\"\n[control]\nsocket = \"{0}/host.sock\"\n",
        dir.display()
    );
    let path = dir.join("host.toml");
    fs::write(&path, settings).unwrap_or_else(|e| panic!("{e}"));
    let manager = Manager::start(&place, &path);
    let live = || guests.borrow_mut().live(dir);
    // The set point is a tenth of the memory, with a hysteresis of a hundredth.
    let free_mib = |pools: &[u64]| {
        (ALL_MIB + pools.iter().sum::<u64>() / PAGES_A_MIB).saturating_sub(2 * SIZE_MIB)
    };
    let is_held = || free_mib(&live().pools) >= ALL_MIB * 9 / 100;
    let held = wait_until(PATIENCE, is_held);
    let Seen { pools, available_mib } = live();
    println!("held after {held:?}: pools of {pools:?} pages, {available_mib:?} MiB are available");
    assert!(held.is_some() && pools.iter().all(|pages| *pages > 0), "{}", manager.log());

    guests.borrow_mut().starve(8);
    let served = wait_until(PATIENCE, || live().available_mib[1] >= WAITS_MIB);
    let Seen { pools: after, available_mib } = live();
    println!("served after {served:?}: pools of {after:?} pages, {available_mib:?} MiB available");
    assert!(served.is_some() && after[1] < pools[1], "{}", manager.log());
    assert!(wait_until(PATIENCE, is_held).is_some(), "the other gives: {:?}", live().pools);
    let pools = live().pools;
    println!("held again: pools of {pools:?} pages");
    assert!(pools[0] > 0, "{pools:?}");

    manager.signal("KILL");
    let empty = wait_until(PATIENCE, || live().pools == [0, 0]);
    println!("all pools are empty after {empty:?}");
    assert!(empty.is_some(), "{}", manager.log());
    let told =
        || manager.log().contains("z/VM: 2 users received the message to take all memory back");
    let ended = wait_until(PATIENCE, || {
        live();
        told()
    });
    assert!(ended.is_some(), "{}", manager.log());
    assert_eq!(live().pools, [0, 0], "nothing came late");
}
