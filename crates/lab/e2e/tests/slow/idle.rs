//! Tasks that wake a guest are found and counted, and an idle guest is left alone.

use e2e::manager::{Manager, Place, Size, observe, wait_until};
use e2e::{Guest, Host, Plan};
use manager::control::{Answer, Ask, Scanned, ask};
use pinhead::idle::{Kind, Wakers};
use std::time::Duration;
use vm::Deadline;
use vm::images::GuestFile;

/// Observation times of the guest with a script and of the idle guest.
const WATCHED: Duration = Duration::from_secs(40);
const IDLE: Duration = Duration::from_secs(85);
/// Wakes ten times a second without a new process, by reading a pipe that is never written.
const TICKER: &str = "#!/bin/sh\nmkfifo /run/ticker\nexec 3<> /run/ticker\n\
                      while :; do read -t 0.1 word <&3; done\n";
/// Starts a process ten times a second and computes in between. Its guest is therefore never
/// asleep.
const SPAWNER: &str = "#!/bin/sh\nwhile :; do n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); done; \
                       usleep 100000; done\n";
/// Prints the guest's own count of the script's dispatches, and the guest's uptime in seconds.
const OWN_COUNT: &str = "echo $(cut -d' ' -f3 /proc/$(pidof ticker)/schedstat) $(cat /proc/uptime)";
/// Maximum part of the time in which a virtual CPU may wait for the host. With longer waits, the
/// number of wake-ups cannot be checked.
const CROWDED: f64 = 0.05;
/// Reads every task's schedstat a hundred times, as cheaply as a guest can. Prints the number of
/// tasks and the duration in hundredths of a second.
const BARE: &str = "set -- /proc/[0-9]*/task/[0-9]*/schedstat; n=$#; \
                    from=$(cut -d' ' -f1 /proc/uptime | tr -d .); i=0; \
                    while [ $i -lt 100 ]; do cat \"$@\" > /dev/null 2>&1; i=$((i + 1)); done; \
                    echo $n $(($(cut -d' ' -f1 /proc/uptime | tr -d .) - from))";
/// Prints the number of the daemon's wake-ups, without preemptions.
const WOKEN: &str = "awk '/^voluntary/ {print $2}' /proc/$(pidof pinheadd)/status";
/// Prints the daemon's resident memory, in KiB.
const RESIDENT: &str = "awk '/^Rss:/ {print $2}' /proc/$(pidof pinheadd)/smaps_rollup";

fn plan(place: &Place) -> Plan {
    let mut plan = Plan { memory_mib: 192, ..Plan::holding(place.dir()) };
    // On a busy host, an emulated timer may be too late for the kernel's check of the timer.
    plan.kernel_args.push("no_timer_check".into());
    for (path, text) in [("/sbin/ticker", TICKER), ("/sbin/spawner", SPAWNER)] {
        let bytes = text.as_bytes().to_vec();
        plan.files.push(GuestFile { path: path.into(), mode: 0o755, bytes });
    }
    plan
}

fn scan(place: &Place, guest: &str) -> Scanned {
    let question = Ask::Scan { guest: guest.to_owned() };
    match ask(&place.socket(), &question, Duration::from_secs(10)) {
        Ok(Answer::Scan(scanned)) => *scanned,
        other => panic!("{guest}: {other:?}"),
    }
}

/// Returns the guest's own count of the script's dispatches, and the time of the count.
fn own_count(guest: &mut Guest<'_>) -> (f64, f64) {
    let text = guest.sh(OWN_COUNT);
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().expect("a number"));
    (words.next().expect("dispatches"), words.next().expect("seconds"))
}

/// Returns the part of the time between two scans in which the guest's virtual CPUs were ready but
/// had to wait.
fn kept_waiting(first: &Scanned, second: &Scanned) -> f64 {
    let ns = |scanned: &Scanned| scanned.host.vcpu_delay_ns.expect("a delay") as f64;
    let ms = |scanned: &Scanned| scanned.totals.uptime_ms.expect("an uptime") as f64;
    (ns(second) - ns(first)) / 1e6 / (ms(second) - ms(first))
}

/// Formats the duration of a scan next to the duration of bare reads of the same files in the same
/// guest. Under emulation, both take some ten times as long as on the host. `bench --only scan`
/// measures them on the host.
fn beside_bare(scanned: &Scanned, bare: (f64, f64)) -> String {
    let of = |value: Option<u64>| value.map_or(f64::NAN, |value| value as f64);
    let us = of(scanned.totals.scan_us) / of(scanned.totals.tasks);
    let bare_us = bare.1 * 10_000.0 / 100.0 / bare.0;
    format!(
        "a scan took {us:.1} us a task, bare reads {bare_us:.1} us: {:.2} of that",
        us / bare_us
    )
}

fn shown(wakers: &Wakers) -> String {
    let minute = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let mut out = format!(
        "{}: {:.0} wake-ups a minute ({}), {:.1} % explained; {} ms own, {} ms host, factor {}; \
         vcpu {} dispatches, others {} for {} ms; {} looks, {} samples, {} scans; {:?} tasks in \
         {:?} us\n",
        wakers.guest,
        wakers.wakes_a_minute,
        if wakers.counted { "counted" } else { "estimated" },
        wakers.attributed_percent,
        minute(wakers.own_ms_a_minute),
        minute(wakers.host_ms_a_minute),
        minute(wakers.factor),
        minute(wakers.vcpu_wakes_a_minute),
        minute(wakers.other_wakes_a_minute),
        minute(wakers.other_ms_a_minute),
        wakers.looks,
        wakers.samples,
        wakers.scans,
        wakers.tasks,
        wakers.scan_us,
    );
    for row in wakers.rows.iter().take(12) {
        out.push_str(&format!(
            "  {:>8.1} {:>8} us {:>8} ms, saves {:>8} ms: {:?} {} {:?}\n",
            row.wakes_a_minute,
            minute(row.us_a_wake),
            minute(row.host_ms_a_minute),
            minute(row.saves_ms_a_minute),
            row.kind,
            row.name,
            row.waits_in
        ));
    }
    out
}

#[test]
fn wakers_of_a_guest_are_named_and_idle_guest_sleeps() {
    let place = Place::new();
    let host = Host::start(&[plan(&place), plan(&place), plan(&place)]);
    let mut ticking = host.guest(0);
    let mut idle = host.guest(1);
    let mut busy = host.guest(2);
    for guest in [&mut ticking, &mut idle, &mut busy] {
        guest.until("the guest has settled", e2e::PATIENCE, |status| status.settled);
    }
    ticking.sh("/sbin/ticker > /dev/null 2>&1 &");
    busy.sh("/sbin/spawner > /dev/null 2>&1 &");
    let resident = idle.number(RESIDENT);
    host.yield_to_manager();
    let records = place.dir().join("records");
    let monitor = format!("\n[monitor]\ndir = \"{}\"\n", records.display());
    let size = Size::with_free(&host, 3, 512);
    let manager = Manager::start(&place, &place.settings(&size, &monitor));
    manager.knows(3);
    let daemons = || manager.ps().guests.iter().all(|guest| guest.daemon);
    assert!(wait_until(e2e::PATIENCE, daemons).is_some(), "{}", manager.log());
    // The observation begins after the effects of a manager's start. These are the first memory
    // reports, statuses, and a sample for the rules.
    observe(Duration::from_secs(15));

    // The shell's commands run before the first scan and after the second scan.
    let own = own_count(&mut ticking);
    let woken = idle.number(WOKEN);
    let first = ["g1", "g2", "g3"].map(|name| scan(&place, name));
    let clock = Deadline::after(IDLE);
    observe(WATCHED);
    let second = scan(&place, "g1");
    let (dispatches, uptime) = own_count(&mut ticking);
    let own = (dispatches - own.0) / (uptime - own.1) * 60.0;
    let waiting = kept_waiting(&first[0], &second);
    let wakers = Wakers::between(&first[0], &second).expect("what has happened");
    println!("{}", shown(&wakers));
    println!("by its own word {own:.1} a minute; {:.1} % of the time on hold", waiting * 100.0);
    let ticker = &wakers.rows[0];
    assert_eq!((ticker.kind, ticker.name.as_str()), (Kind::Process, "ticker"));
    assert!((ticker.wakes_a_minute / own - 1.0).abs() < 0.2, "{own} by its own word: {ticker:?}");
    let counted = (480.0..=720.0).contains(&ticker.wakes_a_minute);
    assert!(counted || waiting > CROWDED, "{ticker:?}, {waiting} of the time on hold");
    assert!(wakers.attributed_percent >= 95.0);
    let sum: f64 = wakers.rows.iter().map(|row| row.wakes_a_minute).sum();
    assert!((sum / wakers.wakes_a_minute - 1.0).abs() < 0.001);

    // The idle guest is measured by the host's clock, because a guest's clock may run fast on a
    // busy host.
    observe(clock.remaining().unwrap_or_default());
    let last = scan(&place, "g2");
    let wakers = Wakers::between(&first[1], &last).expect("what has happened");
    println!("{}", shown(&wakers));
    println!("{:.1} % of the time on hold", kept_waiting(&first[1], &last) * 100.0);
    let scanned = last;
    let minutes = (scanned.at_ms - first[1].at_ms) as f64 / 60_000.0;
    // The unattributed dispatches must be few. They may come from a thread that existed only
    // between two scans, or from tasks that ran during a scan. The sum already includes these
    // dispatches.
    let unknown = (1.0 - wakers.attributed_percent / 100.0) * wakers.wakes_a_minute * minutes;
    assert!(wakers.attributed_percent >= 95.0 || unknown < 4.5, "{unknown} unnamed dispatches");
    // The second scan itself is not counted as a cost to an idle guest.
    let asked = wakers.looks + wakers.samples + wakers.scans - 1;
    println!("asked {asked} times in {minutes:.1} minutes");
    assert!(asked as f64 <= minutes.ceil(), "asked {asked} times in {minutes:.1} minutes");
    // The daemon is the only part of pinhead in a guest. A request wakes the daemon once or twice:
    // when the request arrives, and when the port has taken the response. The two requests of this
    // test count as well. The daemon's heartbeat is rarer than once a minute. A sample for the
    // rules counts as a request. After that sample, the daemon samples further until the guest has
    // settled.
    let woken = idle.number(WOKEN) - woken;
    let most = 2.0 * (asked + 2) as f64 + minutes.ceil();
    let looks = wakers.looks;
    assert!(
        woken as f64 <= most || looks > 0,
        "the daemon of an idle guest woke up {woken} times in {minutes:.1} minutes, {looks} looks"
    );
    let recorded = std::fs::read_dir(&records).is_ok_and(|mut files| files.next().is_some());
    assert!(recorded, "the monitor was at work all the time: {}", manager.log());

    // The guest that is never asleep is scanned once a minute for the recordings. It reports the
    // children of its script.
    let last = scan(&place, "g3");
    let wakers = Wakers::between(&first[2], &last).expect("what has happened");
    println!("{}", shown(&wakers));
    assert!((2..=3).contains(&wakers.scans), "{} scans in {minutes:.1} minutes", wakers.scans);
    let children = wakers.rows.iter().find(|row| row.kind == Kind::Children);
    let children = children.expect("children that have ended");
    assert_eq!(children.name, "children of spawner");
    let waiting = kept_waiting(&first[2], &last);
    assert!(children.wakes_a_minute > 100.0 || waiting > CROWDED, "{children:?}");
    assert!(wakers.attributed_percent >= 95.0);

    drop(manager);
    let after = idle.number(RESIDENT);
    let text = idle.sh(BARE);
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().expect("a number"));
    let bare = (words.next().expect("tasks"), words.next().expect("a time"));
    println!("{}", beside_bare(&scanned, bare));
    println!("the daemon keeps {resident} KiB, and {after} KiB after it was asked");
    assert!(after <= resident + 64, "{resident} KiB, and {after} KiB after requests");
}
