//! Life of `pinhead host` and of its guests: page reporting, operator commands, guest restarts,
//! and the end.

use e2e::manager::{Manager, Place, Size, actual_mib, resident_mib, row, signal, wait_until};
use e2e::{Host, MANAGED_MIB, PATIENCE, Plan, share};
use manager::control::Ps;
use std::cell::Cell;
use std::time::Duration;
use vm::images::{Arch, Cache, ImageSpec};
use vm::{Deadline, GuestSpec, Session, probe_kvm};

const SOON: Duration = PATIENCE;

/// Returns the error message of a refused command.
fn refused(manager: &Manager<'_>, words: &[&str]) -> String {
    let output = manager.command(words);
    assert!(!output.status.success(), "{words:?} was not refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// (f) Freed memory returns to the host by itself, and is counted.
fn freed_memory_comes_back(manager: &Manager<'_>, host: &Host, guest: &mut e2e::Guest<'_>) {
    let before = resident_mib(host, 0);
    guest.use_memory(200);
    guest.until_used(PATIENCE);
    let full = resident_mib(host, 0);
    let used = guest.in_use_mib();
    assert!(full >= before + 150, "{before} MiB, then {full} MiB with {used} MiB in use");
    // The manager counts only memory that it has seen in use, and it samples idle guests rarely.
    manager.until("what is in use is seen", SOON, |ps| {
        row(ps, "g1").and_then(|guest| guest.private_bytes).is_some_and(|b| b >> 20 >= full - 8)
    });
    let reported = || manager.row("g1").reported_bytes >> 20;
    let counted = reported();
    guest.free();
    let back = wait_until(SOON, || resident_mib(host, 0) + 180 <= full);
    let left = resident_mib(host, 0);
    assert!(back.is_some(), "{left} of {full} MiB are still the guest's");
    let took = manager.until("they are counted", SOON, |ps| {
        row(ps, "g1").is_some_and(|guest| guest.reported_bytes >> 20 >= counted + 180)
    });
    println!(
        "page reporting: {} of 200 MiB were back after {back:?}, {} counted after {took:?} more",
        full - left,
        reported() - counted
    );
    assert_eq!((guest.balloon_mib(), actual_mib(&manager.row("g1"))), (0, MANAGED_MIB));
}

/// (g) Operator settings take effect at once, and nonsensical settings are refused.
fn orders_are_obeyed(manager: &Manager<'_>) {
    let has = |what: &str, mib: u64| {
        manager.until(what, SOON, |ps| row(ps, "g1").is_some_and(|g| actual_mib(g) == mib))
    };
    manager.succeed(&["set", "g1", "pin", "256 MiB"]);
    println!("pinned after {:?}", has("it has its pinned size", 256));
    manager.succeed(&["set", "g1", "release"]);
    println!("released after {:?}", has("it has all of its memory", MANAGED_MIB));
    manager.succeed(&["set", "g1", "manage"]);
    manager.succeed(&["set", "g1", "max", "300 MiB"]);
    println!("at its maximum after {:?}", has("it has its maximum", 300));
    assert!(refused(manager, &["set", "g1", "min", "320 MiB"]).contains("conflicts with `max`"));
    assert!(refused(manager, &["set", "g1", "pin", "2 MiB"]).contains("at least 16 MiB"));
    assert!(refused(manager, &["set", "g9", "release"]).contains("no guest g9"));
    manager.succeed(&["set", "g1", "max", "100%"]);
    manager.succeed(&["set", "g1", "min", "370 MiB"]);
    // A host with free memory may give the guest all of its memory before the minimum is set.
    let took = manager.until("it has its minimum", SOON, |ps| {
        row(ps, "g1").is_some_and(|guest| [370, MANAGED_MIB].contains(&actual_mib(guest)))
    });
    println!("at its minimum after {took:?}");
}

/// (g) Settings are applied as a whole or not at all.
fn settings_are_read_again(manager: &Manager<'_>, place: &Place, size: &Size) {
    let class = |name: &str| manager.row(name).class.unwrap_or_default();
    let wait_for_log = |text: &str| {
        let found = wait_until(SOON, || manager.log().contains(text));
        assert!(found.is_some(), "{text:?} is not in {}", manager.log());
    };
    let wrong = "\n[[class]]\nname = \"c\"\nmatch = [\"g2\"]\nmin = \"70%\"\nmax = \"60%\"\n";
    place.settings(size, wrong);
    manager.signal("HUP");
    wait_for_log("the old settings stay in force");
    assert_eq!(class("g2"), "");
    place.settings(size, "\n[[class]]\nname = \"c\"\nmatch = [\"g2\"]\nmin = \"70%\"\n");
    manager.signal("HUP");
    wait_for_log("guests with changed limits: 1");
    assert_eq!(class("g2"), "c");
    assert_eq!(manager.row("g2").min_bytes >> 20, MANAGED_MIB * 7 / 10);
    place.settings(size, "");
    manager.signal("HUP");
    wait_for_log("guests with changed limits: 1");
    let old = wait_until(SOON, || class("g2").is_empty());
    assert!(old.is_some(), "the class is still there");
}

/// (g) A reservation either frees the memory, or fails and lists the guests that gave none.
fn memory_is_reserved(manager: &Manager<'_>, host: &Host) {
    let free = || manager.ps().host.available_bytes.unwrap_or(0) >> 20;
    // Memory that was granted to g1 for its minimum stays promised to g1 for a while.
    manager.until("nothing is promised", SOON, |ps| ps.host.promised_bytes == Some(0));
    let (before, had) = (free(), resident_mib(host, 1));
    let wanted = before + 60;
    let clock = Deadline::after(PATIENCE);
    let output = manager.command(&["reserve", &wanted.to_string(), "--timeout", "20"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}\n{}", manager.journal_text());
    let took = clock.elapsed();
    println!(
        "reserved {wanted} MiB where {before} were free after {took:?}: now {} are, and g2 has {} \
         of {had} MiB in the host's memory",
        free(),
        resident_mib(host, 1)
    );
    assert!(free() >= wanted, "{text}: {} MiB", free());
    assert!(had >= resident_mib(host, 1) + 60);
    let number = text.split("reservation ").nth(1).and_then(|rest| rest.split(')').next());
    manager.succeed(&["reserve", "--release", number.expect("its number")]);
    let text = refused(manager, &["reserve", "800", "--timeout", "4"]);
    println!("{text}");
    assert!(text.contains("800 MiB") && text.contains("g1") && text.contains("g2"), "{text}");
}

#[test]
fn orders_reservations_reports_and_the_end() {
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir()), Plan::managed(place.dir())]);
    let mut guests = [host.guest(0), host.guest(1)];
    host.yield_to_manager();
    guests[1].fill_cache(280);
    let size = Size::with_free(&host, 2, 420);
    let mut manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(2);
    freed_memory_comes_back(&manager, &host, &mut guests[0]);
    // The limit for a guest is twice its observed use plus 64 MiB.
    guests[0].use_memory(120);
    guests[0].until_used(PATIENCE);
    orders_are_obeyed(&manager);
    guests[0].free();
    settings_are_read_again(&manager, &place, &size);
    memory_is_reserved(&manager, &host);

    manager.signal("TERM");
    let status = manager.end(SOON);
    assert!(status.success(), "{status}: {}", manager.log());
    let all_back = || guests.iter_mut().all(|guest| guest.balloon_mib() == 0);
    println!("SIGTERM: all was back after {:?}", wait_until(SOON, all_back).expect("all memory"));
    assert!(!place.socket().exists(), "its socket is left");
}

fn boot(spec: &GuestSpec) -> Session {
    Session::boot(spec, Deadline::after(PATIENCE)).unwrap_or_else(|error| panic!("{error}"))
}

/// (e) Neither a name nor a socket identifies a guest.
#[test]
fn a_restarted_guest_counts_as_another_guest() {
    let _share = share(1);
    let place = Place::new();
    let cache = Cache::from_environment().unwrap_or_else(|e| panic!("{e}"));
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: Vec::new() }.build(&cache);
    let spec = GuestSpec {
        memory_mib: 256,
        run_dir: Some(place.dir().to_path_buf()),
        ..GuestSpec::new("web1", image.unwrap_or_else(|e| panic!("{e}")), probe_kvm(Arch::X86_64))
    };
    let first = boot(&spec);
    let size = Size { budget_mib: 2000, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(1);
    manager.succeed(&["set", "web1", "pin", "200 MiB"]);
    manager.until("it is pinned", SOON, |ps| row(ps, "web1").is_some_and(|g| actual_mib(g) == 200));
    let old = manager.row("web1");
    signal(first.process.id(), "KILL");
    let gone = manager.until("web1 is gone", SOON, |ps| ps.guests.is_empty());
    drop(first);

    // The new guest reports no free memory, so any count would come from the old guest.
    let second = boot(&GuestSpec { page_reporting: false, ..spec });
    let found = manager.until("the new one is found", SOON, |ps| !ps.guests.is_empty());
    manager.knows(1);
    let new = manager.row("web1");
    println!("a killed guest was gone after {gone:?}, the next one found {found:?} after its boot");
    assert_ne!((old.id, &old.uuid, old.pid), (new.id, &new.uuid, new.pid));
    assert!(old.id != new.id && old.uuid != new.uuid && new.pid == Some(second.process.id()));
    // No setting and no observation of the old guest applies to the new one.
    assert_eq!((new.mode.name(), actual_mib(&new), new.reversals), ("managed", 256, 0));
    assert_eq!(new.reported_bytes, 0);
    // The journal is written at the end of a pass.
    manager.until("both are in the journal", SOON, |_| manager.identities("web1").len() == 2);
    let known = manager.identities("web1");
    assert!(known[0].uuid == old.uuid && known[1].uuid == new.uuid, "{known:?}");
    assert!(known[0].pid != known[1].pid && known[0].boot.len() == known[1].boot.len());
}

/// A busy guest is shown as running at every moment, even right after a request for its memory
/// report. An idle guest is soon shown as asleep. `top` shows the same.
#[test]
fn a_busy_guest_is_never_shown_as_asleep() {
    /// Number of checks, which span more than five of the manager's requests.
    const LOOKS: usize = 25;
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir())]);
    let mut guest = host.guest(0);
    host.yield_to_manager();
    let size = Size { budget_mib: 4000, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(1);
    guest.sh("(while :; do :; done) > /dev/null 2>&1 & echo $! > /run/busy");
    let looks = Cell::new(0);
    manager.until("g1 was seen running", PATIENCE, |ps| {
        let g1 = row(ps, "g1").expect("g1");
        // In the last second alone, the guest ran longer than an idle guest may run in five
        // seconds. The guest may get less than a CPU, because the machine is crowded.
        if g1.cpu_percent > Some(10.0) {
            assert!(!g1.asleep, "asleep at {:?} % of a CPU", g1.cpu_percent);
            looks.set(looks.get() + 1);
        }
        looks.get() >= LOOKS
    });
    let top = manager.succeed(&["top", "--once", "--screen", "guests"]);
    let line = top.lines().find(|line| line.contains("g1 ")).unwrap_or_else(|| panic!("{top}"));
    println!("{line}");
    assert!(line.contains("running") && !line.contains("asleep"), "{top}");
    guest.sh("kill $(cat /run/busy)");
    let sleeps = |ps: &Ps| row(ps, "g1").is_some_and(|guest| guest.asleep);
    let took = manager.until("g1 sleeps", PATIENCE, sleeps);
    println!("asleep {took:?} after its work ended");
    // The guest's state is computed over the last few seconds. The guest is shown as asleep only
    // after the work has left this period.
    assert!(took >= Duration::from_secs(2), "shown as asleep {took:?} after its work");
}
