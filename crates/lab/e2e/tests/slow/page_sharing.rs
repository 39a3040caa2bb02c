//! Settings of KSM that a manager changes. KSM belongs to the whole machine, and merging changes
//! the memory of every guest. No other test may therefore run at the same time.

use e2e::manager::{Manager, Place, Size, ksm, wait_until};
use e2e::{Host, PATIENCE, Plan};

#[test]
fn ksm_settings_return_after_stop_and_kill() {
    let found = ksm();
    if found.iter().any(|(_, text)| text.is_empty()) {
        return e2e::skipped("this kernel has no KSM");
    }
    let place = Place::new();
    let plans = [Plan::managed(place.dir()), Plan::managed(place.dir())];
    let host = Host::start(&plans);
    for index in 0..plans.len() {
        let _booted = host.guest(index);
    }
    host.yield_to_manager();
    // The host is short of memory, and its manager moves no memory.
    let size = Size { set_point_mib: 256, ..Size::with_free(&host, plans.len(), 0) };
    let more = "[policy]\nkind = \"none\"\n[ksm]\nmode = \"auto\"\n";
    for signal in ["TERM", "KILL"] {
        let mut manager = Manager::start(&place, &place.settings(&size, more));
        manager.knows(plans.len());
        let changed = wait_until(PATIENCE, || ksm() != found);
        assert!(changed.is_some(), "KSM is unchanged: {}", manager.succeed(&["ps"]));
        manager.signal(signal);
        manager.end(PATIENCE);
        let back = wait_until(PATIENCE, || ksm() == found);
        println!("SIG{signal}: KSM was as before after {back:?}");
        assert!(back.is_some(), "after SIG{signal}: {:?} for {found:?}", ksm());
    }
}
