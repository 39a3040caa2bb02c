//! Memory of idle guests goes to the host's swap, and comes back by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base::Bytes;
use e2e::farms::{Farm, connect, page};
use e2e::manager::{Manager, Place, Size, signal, wait_until};
use e2e::{Guest, Host, PATIENCE, Plan, skipped};
use farm::config::Limits;
use farm::tiers::Tiers;
use manager::control::{Answer, Ask, LeverRow, Levers, PagedOutRow, ask};
use procfs::parse::task::{StatField, TaskStat};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vm::wait_for_exit;

/// Timeout of a page-out and of its check a minute later, on two busy cores.
const SOON: Duration = Duration::from_secs(240);
/// Compressible text in one guest, in MiB. The other guest is filled with more random data.
const FILLED_MIB: u64 = 64;
const TEXT: &str = "i=0; while [ $i -lt 9000 ]; do echo line $i of a text that compresses well; \
                    i=$((i+1)); done > /tmp/t; while [ $(du -m /dev/shm/own | cut -f1) -lt 64 ]; \
                    do cat /tmp/t >> /dev/shm/own; done";
const CHANCE: &str = "dd if=/dev/urandom of=/dev/shm/own bs=1M count=165 2> /dev/null";
const SUM: &str = "sha256sum /dev/shm/own | cut -d' ' -f1";
/// Settings for tests during which other programs of the machine may also wait for memory.
const SETTINGS: &str = "\n[pageout]\nafter = \"5s\"\npressure = \"100%\"\n";

/// Minimum number of pages that are prefetched before the guest touches them. The guest needs
/// thousands of pages to respond.
const AHEAD_MIN: u64 = 50;

/// Lock that lets one of these tests run at a time, because the host has only one swap.
static SWAP: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    SWAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens compressed swap of the host, recorded like a farm's swap. The swap is removed when this
/// value is dropped, or after a kill by the next start.
fn zram() -> Result<Tiers, farm::Error> {
    Tiers::open(&Limits { zram: Some(Bytes::mib(2048)), ..Limits::default() })
}

/// Returns a value from the `/proc/PID/status` of a guest's process, in MiB.
fn process_mib(guest: &Guest<'_>, line: &str) -> u64 {
    let pid = guest.seen().pid.unwrap();
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let row = text.lines().find_map(|row| row.strip_prefix(line)).unwrap();
    row.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

fn levers(place: &Place) -> Levers {
    match ask(&place.socket(), &Ask::Levers, PATIENCE) {
        Ok(Answer::Levers(levers)) => *levers,
        other => panic!("{other:?}"),
    }
}

fn row(place: &Place, guest: &str) -> PagedOutRow {
    levers(place).guests.into_iter().find(|row| row.name == guest).unwrap_or_default()
}

fn until(place: &Place, manager: &Manager<'_>, guest: &str, state: &str) {
    let so = wait_until(SOON, || row(place, guest).state == state);
    assert!(so.is_some(), "{guest} is not {state}: {:#?}\n{}", levers(place), manager.log());
}

#[test]
fn sleepers_memory_goes_to_swap_and_returns_after_any_end() {
    let _swap = one_at_a_time();
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir()), Plan::managed(place.dir())]);
    let _zram = match zram() {
        Ok(zram) => zram,
        Err(why) => return skipped(&why.to_string()),
    };
    let (mut text, mut chance) = (host.guest(0), host.guest(1));
    text.sh(TEXT);
    chance.sh(CHANCE);
    let (text_sum, chance_sum) = (text.sh(SUM), chance.sh(SUM));
    let before_mib = process_mib(&text, "RssAnon:");
    host.yield_to_manager();
    let size = Size { budget_mib: 2048, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let settings = place.settings(&size, SETTINGS);
    let mut manager = Manager::start(&place, &settings);
    manager.knows(2);

    until(&place, &manager, "g2", "incompressible");
    let tried = row(&place, "g2").times;
    until(&place, &manager, "g1", "out");
    let left_mib = process_mib(&text, "RssAnon:");
    println!("{before_mib} MiB, then {left_mib}: {:?}", row(&place, "g1"));
    assert!(before_mib > FILLED_MIB && left_mib < before_mib / 2, "{before_mib}, then {left_mib}");
    let found = row(&place, "g1");
    // The guest may have run for a moment, and may have been paged out in two parts. The row
    // describes the last part.
    assert!(before_mib - left_mib >= FILLED_MIB, "{before_mib}, then {left_mib}: {found:?}");
    assert!(found.compressed_bytes.unwrap() * 3 < found.gained_bytes.unwrap() * 2, "{found:?}");
    assert!(found.working_set_bytes.unwrap() >> 20 < before_mib / 2, "{found:?}");
    // On a busy machine, a guest is paged out in several parts. No part follows after the result of
    // the last part is known.
    assert_eq!(row(&place, "g2").times, tried);

    let is_out = |lever: &LeverRow| lever.name == "page-out" && lever.cost_us > Some(0);
    assert!(levers(&place).levers.iter().any(is_out), "{:?}", levers(&place).levers);
    assert!(manager.succeed(&["ps", "--levers"]).contains("incompressible"));
    // The event is written one pass later.
    for kind in ["page-out", "came-back", "left-alone"] {
        let is_there = || manager.events().iter().any(|event| event.kind == kind);
        assert!(wait_until(PATIENCE, is_there).is_some(), "no {kind} in {:?}", manager.events());
    }
    // Pages come back by themselves, with their contents intact.
    assert_eq!((text.sh(SUM), chance.sh(SUM)), (text_sum.clone(), chance_sum.clone()));

    // A manager without a history pages the guest out again, and is killed while it does so.
    manager.signal("KILL");
    manager.end(SOON);
    let swapped_mib = process_mib(&text, "VmSwap:");
    let manager = Manager::start(&place, &settings);
    let began = wait_until(SOON, || process_mib(&text, "VmSwap:") > swapped_mib + 4);
    signal(manager.pid(), "KILL");
    assert!(began.is_some(), "{:#?}", levers(&place));
    println!("killed at {} MiB in swap", process_mib(&text, "VmSwap:"));
    assert_eq!((text.sh(SUM), chance.sh(SUM)), (text_sum, chance_sum), "nothing is lost");
}

#[test]
fn untouched_memory_of_running_guest_is_paged_out_in_shortage() {
    let _swap = one_at_a_time();
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir())]);
    let _zram = match zram() {
        Ok(zram) => zram,
        Err(why) => return skipped(&why.to_string()),
    };
    let mut guest = host.guest(0);
    guest.sh(TEXT);
    let sum = guest.sh(SUM);
    guest.sh("(while :; do :; done) > /dev/null 2>&1 & echo $! > /run/busy");
    let before_mib = process_mib(&guest, "RssAnon:");
    host.yield_to_manager();

    // The guest runs, and the host has free memory. The guest is therefore left alone.
    let size = |free_mib| Size::with_free(&host, 1, free_mib);
    let manager = Manager::start(&place, &place.settings(&size(512), SETTINGS));
    manager.knows(1);
    until(&place, &manager, "g1", "awake");
    drop(manager);

    // With less free memory than its set point, the host pages out some memory. The guest keeps
    // running.
    let manager = Manager::start(&place, &place.settings(&size(40), SETTINGS));
    manager.knows(1);
    let paged_out = || row(&place, "g1").times > 0;
    let so = wait_until(SOON, paged_out);
    assert!(so.is_some(), "{:#?}\n{}\n{}", levers(&place), manager.log(), manager.journal_text());
    let found = row(&place, "g1");
    assert!(found.gained_bytes.unwrap() >> 20 >= FILLED_MIB, "{found:?}");
    let after_mib = process_mib(&guest, "RssAnon:");
    println!("{before_mib} MiB of a busy guest became {after_mib}: {found:?}");
    assert!(after_mib < before_mib / 2, "{before_mib} MiB, then {after_mib}");
    let is_told = || {
        let mut events = manager.events().into_iter();
        events.any(|event| event.kind == "page-out" && event.text.contains("the host is short"))
    };
    assert!(wait_until(PATIENCE, is_told).is_some(), "{:?}", manager.events());
    assert_eq!(guest.sh("kill -0 $(cat /run/busy) && echo it runs").trim(), "it runs");
    assert_eq!(guest.sh(SUM), sum);
    assert_eq!(guest.oom_kills(), 0);
}

#[test]
fn wakeup_set_is_brought_back_ahead_of_the_guest() {
    let _swap = one_at_a_time();
    let class = "[[class]]\nname = \"web\"\ncount = 1\nimage = \"web\"\ntemplate = true\n\
                 memory = \"128 MiB\"\nports = [{ guest = 80, host = 27320 }]\n";
    let farm = Farm::new("ahead", class, e2e::share(1));
    let _zram = match zram() {
        Ok(zram) => zram,
        Err(why) => return skipped(&why.to_string()),
    };
    farm.succeed(&["up", "--detach", &farm.file()]);
    let (service, qemus) = farm.processes();
    // Pages that a process brings back count as faults of this process, even if the pages belong to
    // another process.
    let faults = || {
        let text = fs::read(format!("/proc/{service}/stat")).unwrap();
        TaskStat::parse(&text).unwrap().numbers([StatField::MajorFaults]).unwrap()[0]
    };
    let web1 = farm.guest("web1");
    let mut told = farm.succeed(&["park", &web1]);
    assert!(page(connect(27_320)).starts_with("HTTP/1.1 200 OK"));
    let none = faults();
    // The pages that the guest needs are sampled a second after its wake-up.
    assert!(!wait_for_exit(qemus[0], Duration::from_secs(3)).unwrap());
    told += &farm.succeed(&["park", &web1]);
    assert!(page(connect(27_320)).starts_with("HTTP/1.1 200 OK"));
    let ahead = wait_until(PATIENCE, || faults() >= none + AHEAD_MIN);
    assert!(ahead.is_some(), "of {none}, {} pages were brought back; {told}", faults());
}
