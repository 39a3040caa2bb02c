//! An idle guest costs nothing, and a load still gets a CPU at once.

use e2e::{Host, PATIENCE, Plan};
use std::time::Duration;
use vm::images::Arch;

/// Prints the daemon's wake-ups. Preemptions are not included, because a busy host splits one run
/// into many dispatches.
const WOKEN: &str = "awk '/^voluntary/ {print $2}' /proc/$(pidof pinheadd)/status";

/// The daemon of a settled guest under a host samples at most once a minute. It is dispatched for
/// no other reason. A starting load gets a CPU within 2 s.
#[test]
fn an_idle_guest_sleeps_and_a_load_is_answered_at_once() {
    let mut plan = Plan::new(Arch::X86_64, "-f -c /etc/pinhead.conf --pace host");
    // The pool soon reaches its maximum, so the guest settles in seconds.
    plan.rules = plan.rules.replace("CMM_MAX=\"1245184\"", "CMM_MAX=\"8000\"");
    assert!(plan.rules.contains("CMM_MAX=\"8000\""));
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    guest.until("the guest has settled", PATIENCE, |s| s.settled);
    // The first request opens the files. Each later request needs a single dispatch.
    let ask = |sequence| {
        host.sample(0, sequence);
        let answered = |m: &wire::Memory| m.sequence == sequence;
        host.until(0, "an answer", Duration::from_secs(5), |seen| {
            seen.memory.as_ref().is_some_and(answered)
        });
    };
    ask(8);
    let armed = guest.sh("ls -l /proc/$(pidof pinheadd)/fd");
    assert!(armed.contains("/proc/pressure/memory"), "the trigger is there all the time: {armed}");

    let woken = guest.number(WOKEN);
    let asked = guest.seen().status.map_or(0, |s| s.sequence);
    // The commands above may have woken the daemon, because the virtual CPUs ran for these
    // commands. The daemon then samples until it has settled again. After that, a sample within a
    // minute of the previous sample must have been requested. The first request may precede the
    // observation.
    let mut last = asked;
    let mut watched = Duration::ZERO;
    let mut soon = 0;
    let looks_asked = guest.seen().looks_asked;
    let mut next_look = || {
        let before = guest.seen();
        let slept = guest.until("the next look", PATIENCE, |s| s.sequence > last);
        watched += slept;
        let now = guest.seen();
        last = now.status.map_or(last, |s| s.sequence);
        let was_settled = before.status.is_some_and(|s| s.settled);
        let asked_for = now.looks_asked - looks_asked;
        soon += u64::from(was_settled && slept < Duration::from_secs(60));
        println!("slept for {slept:?}, settled {was_settled}: {soon} early, {asked_for} asked for");
        assert!(soon <= asked_for + 1, "it looked early {soon} times, {asked_for} asked for");
        slept
    };
    let slept = (0..12).map(|_| next_look()).find(|slept| *slept >= Duration::from_secs(60));
    assert!(slept.is_some(), "an idle guest was woken again and again");

    // A request for a memory report gets a response, and causes no sample for the rules.
    ask(9);
    let looked = guest.seen().status.map(|s| s.sequence);
    assert_eq!(looked, Some(last), "the request caused a sample");
    let before = guest.seen();
    let (looks, plugs) = before.status.map_or((0, 0), |s| (s.sequence - asked, s.plugs));
    let load = "for n in 1 2 3; do (while :; do :; done) > /dev/null 2>&1 & done";
    let woken = guest.number(&format!("{WOKEN}; {load}")) - woken;
    let answered = guest.until("one CPU more", Duration::from_secs(2), |s| s.plugs > plugs);
    println!("a load was answered after {answered:?}");
    // A sample or a request wakes the daemon once or twice: for the work, and when the port has
    // accepted the message. The daemon's heartbeat is rarer than once a minute.
    let most = 2 * (u64::from(looks) + 1) + watched.as_secs().div_ceil(60);
    println!("woken {woken} times in {looks} looks");
    assert!(woken <= most, "woken {woken} times in {looks} looks, {most} at most");
}

/// Returns the daemon's resident memory, as the guest reports it. VmRSS of a 6.1 kernel lags behind
/// by each CPU's pending counts. The sum over the mappings does not lag.
fn resident_kib(arch: Arch) -> u64 {
    let host = Host::start(&[Plan::new(arch, "-f -c /etc/pinhead.conf --pace fixed")]);
    let mut guest = host.guest(0);
    guest.until("the daemon has decided", PATIENCE, |s| s.unplugs > 0 && s.grows > 0);
    let kib = guest.number("awk '/^Rss:/ {print $2}' /proc/$(pidof pinheadd)/smaps_rollup");
    println!("{}: the daemon keeps {kib} KiB", arch.name());
    kib
}

#[test]
fn x86_64_the_daemon_is_small() {
    assert!(resident_kib(Arch::X86_64) <= 600);
}

#[test]
fn s390x_the_daemon_is_small() {
    assert!(resident_kib(Arch::S390x) <= 550);
}
