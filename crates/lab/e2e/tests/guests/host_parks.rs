//! Guests outside farms are parked and woken by command. They run again in whatever way the manager
//! ends.

use e2e::manager::{Manager, Place, Size, row, wait_until};
use e2e::{Host, PATIENCE, Plan};
use procfs::parse::task::TaskStat;
use std::time::Duration;

const SOON: Duration = PATIENCE;
const SIZE: Size =
    Size { budget_mib: 4000, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };

/// Returns the number of dispatches of the virtual CPUs.
fn dispatches(manager: &Manager<'_>) -> u64 {
    let of = |tid: &u32| {
        let text = std::fs::read(format!("/proc/{tid}/schedstat")).expect("a thread's schedstat");
        procfs::parse::schedstat::parse(&text).expect("three numbers").dispatches
    };
    manager.row("g1").vcpu_tids.iter().map(of).sum()
}

/// Returns true if the kernel has put the threads of the virtual CPUs to sleep. QEMU may report a
/// stop slightly earlier. On a busy host, the threads must be dispatched once more to go to sleep.
fn sleep(manager: &Manager<'_>) -> bool {
    manager.row("g1").vcpu_tids.iter().all(|tid| {
        let text = std::fs::read(format!("/proc/{tid}/stat")).expect("a thread's stat");
        TaskStat::parse(&text).expect("a task").state == b'S'
    })
}

fn until_state(manager: &Manager<'_>, state: &str) {
    let is = |ps: &manager::control::Ps| row(ps, "g1").is_some_and(|g| g.state.name() == state);
    manager.until(state, SOON, is);
}

/// Returns true if the virtual CPUs run. Even an idle Linux runs every few seconds.
fn runs(manager: &Manager<'_>) -> bool {
    let before = dispatches(manager);
    wait_until(SOON, || dispatches(manager) > before + 2).is_some()
}

#[test]
fn plain_guest_stays_parked_until_woken_or_manager_ends() {
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir())]);
    let mut guest = host.guest(0);
    host.yield_to_manager();
    let settings = place.settings(&SIZE, "");
    let mut manager = Manager::start(&place, &settings);
    manager.knows(1);
    assert!(runs(&manager));
    let refused = manager.command(&["wake", "g1"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("g1 is not parked"), "{why}");

    let said = manager.succeed(&["park", "g1"]);
    assert!(said.starts_with("g1: parked after "), "{said}");
    until_state(&manager, "parked");
    assert!(wait_until(SOON, || sleep(&manager)).is_some(), "its virtual CPUs do not stop");
    let before = dispatches(&manager);
    // The wait is many times longer than the time between two timers of an idle Linux.
    let passes = manager.status().passes + 8;
    assert!(wait_until(SOON, || manager.status().passes >= passes).is_some());
    assert_eq!(dispatches(&manager), before, "its virtual CPUs have run");

    let said = manager.succeed(&["wake", "g1"]);
    assert!(said.starts_with("g1: awake after "), "{said}");
    until_state(&manager, "running");
    assert!(runs(&manager));
    let late_s = |guest: &mut e2e::Guest<'_>| {
        let own: i64 = guest.sh("date +%s").trim().parse().expect("seconds");
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970");
        since.as_secs() as i64 - own
    };
    assert!(wait_until(SOON, || late_s(&mut guest).abs() <= 1).is_some(), "its clock is wrong");
    // The journal is written at the end of a pass.
    let has = |kind: &str| manager.events().iter().any(|event| event.kind == kind);
    let noted = wait_until(SOON, || has("parked") && has("woken"));
    assert!(noted.is_some(), "{}", manager.journal_text());
    manager.signal("TERM");
    manager.end(SOON);

    // The first manager is killed, and the second one ends in order.
    for (signal, what) in [("KILL", "killed"), ("TERM", "ended")] {
        let mut manager = Manager::start(&place, &settings);
        manager.knows(1);
        // The manager parks guests only after its keeper has started.
        let parks = || manager.command(&["park", "g1"]).status.success();
        assert!(wait_until(SOON, parks).is_some(), "{}", manager.log());
        until_state(&manager, "parked");
        manager.signal(signal);
        manager.end(SOON);
        println!("{what}: {}", manager.log());
        assert_eq!(guest.sh("echo awake").trim(), "awake", "{}", manager.log());
    }
}
