//! Memory reports of a guest: on the host's request, and at once when memory is short.

use e2e::{Host, PATIENCE, Plan};
use vm::images::Arch;
use wire::Memory;

/// Rules without memory, because the reports must not depend on memory rules.
const CPU_ONLY: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n\
                        HOTPLUG=\"0\"\nHOTUNPLUG=\"0\"\n";

fn plan(arch: Arch) -> Plan {
    let mut plan = Plan::new(arch, "-f -c /etc/pinhead.conf --pace fixed");
    plan.rules = CPU_ONLY.into();
    plan
}

/// Tolerance for the memory of the program that reads the guest's counters, and for pages that four
/// CPUs have not counted yet.
const READER_KIB: u64 = 512;

/// Tolerance for free pages that four CPUs keep uncounted, and for cache that the filling program
/// leaves.
const TAKEN_KIB: u64 = 4_096;

/// Returns a value of /proc/meminfo.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// Checks that a request is answered at once, with the guest's own numbers.
///
/// The guest does not report free pages to its host here. While such a report is under way, its 32
/// blocks are missing from MemFree. They can be up to 128 MiB, and a booting guest sends these
/// reports for several seconds.
fn answers(arch: Arch) {
    let host = Host::start(&[Plan { page_reporting: false, ..plan(arch) }]);
    let mut guest = host.guest(0);
    guest.until("its daemon is there", PATIENCE, |_| true);
    const ANONYMOUS: &str = "awk '/^Anonymous:/ {print $2}' /proc/$(pidof pinheadd)/smaps_rollup";
    let before_kib = guest.number(ANONYMOUS);
    let ask = |sequence| {
        host.sample(0, sequence);
        let answered = |m: &Memory| m.sequence == sequence;
        let took =
            host.until(0, "an answer", PATIENCE, |seen| seen.memory.as_ref().is_some_and(answered));
        println!("{}: answered after {took:?}", arch.name());
        host.seen(0).memory.expect("an answer")
    };
    // The guest reads its own numbers directly before and after the request.
    let before = guest.sh("cat /proc/meminfo");
    let first = ask(7);
    let after = guest.sh("cat /proc/meminfo");
    let near = |reported: Option<u64>, line: &str, slack: u64| {
        let reported = reported.unwrap_or_else(|| panic!("no {line}"));
        let (before, after) = (kib(&before, line), kib(&after, line));
        println!("{line}: {before} KiB before, {reported} is reported, {after} after");
        let range = before.min(after).saturating_sub(slack)..=before.max(after) + slack;
        assert!(range.contains(&reported), "{line}: {reported} KiB is reported, not {range:?}");
    };
    near(first.total_kib, "MemTotal", 0);
    near(first.free_kib, "MemFree", READER_KIB);
    near(first.available_kib, "MemAvailable", READER_KIB);
    near(first.cached_kib, "Cached", READER_KIB);
    near(first.anon_kib, "AnonPages", READER_KIB);
    assert_eq!((first.swap_total_kib, first.swap_free_kib), (Some(0), Some(0)));
    assert_eq!((first.oom_kills, first.stalls.map(|n| n < 1000)), (Some(0), Some(true)));
    assert!(first.psi_some_us >= first.psi_full_us && first.psi_full_us.is_some(), "{first:?}");
    assert!(first.refault_file.is_some() && first.refault_anon.is_some(), "{first:?}");
    let uptime_ms = guest.number("awk '{print int($1 * 1000)}' /proc/uptime");
    assert!((1..=uptime_ms).contains(&first.uptime_ms), "{} of {uptime_ms}", first.uptime_ms);

    guest.sh("dd if=/dev/zero of=/dev/shm/fill bs=1024 count=32768 2> /dev/null");
    let second = ask(8);
    let fell = |a: Option<u64>, b: Option<u64>| a.zip(b).map_or(0, |(a, b)| a.saturating_sub(b));
    let taken = fell(first.available_kib, second.available_kib);
    let cached = fell(second.cached_kib, first.cached_kib);
    println!("of 32768 KiB that were taken {taken} are missing, {cached} more are cached");
    assert!(taken.abs_diff(32_768) <= TAKEN_KIB, "32768 KiB were taken, {taken} are missing");
    assert!(cached.abs_diff(32_768) <= TAKEN_KIB, "32768 KiB were taken, {cached} are cached");
    assert!(second.uptime_ms > first.uptime_ms);
    let after_kib = guest.number(ANONYMOUS);
    println!("{}: {before_kib} KiB before the questions, {after_kib} after", arch.name());
    assert!(after_kib <= before_kib + 64, "{before_kib} KiB became {after_kib}");
}

#[test]
fn x86_64_memory_report_is_sent_on_request() {
    answers(Arch::X86_64);
}

#[test]
fn s390x_memory_report_is_sent_on_request() {
    answers(Arch::S390x);
}

/// The daemon reports waiting tasks within a second by the guest's clock. The rules do not use
/// memory, and with this pace the pressure never wakes the daemon for the rules.
#[test]
fn a_thrashing_guest_reports_it_within_a_second() {
    let mut plan = plan(Arch::X86_64);
    plan.memory_mib = 128;
    plan.kernel_args.push("pinhead.zram_mib=256".into());
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    guest.until("its daemon is there", PATIENCE, |_| true);
    assert_eq!(host.seen(0).needs, 0, "no task waits yet");
    // Records the time at which tasks have waited for a tenth of a second in total from now on.
    guest.sh("some() { sed -n 's/^some.*total=//p' /proc/pressure/memory; }; \
         (began=$(some); while [ $(($(some) - began)) -lt 100000 ]; do usleep 10000; done; \
          awk '{print int($1 * 1000)}' /proc/uptime > /run/stalled) > /dev/null 2>&1 &");
    guest.sh("(dd if=/dev/zero of=/dev/shm/fill bs=65536 count=2400; \
          while :; do cat /dev/shm/fill; done) > /dev/null 2>&1 & echo $! > /run/load");
    let took = host.until(0, "a need", PATIENCE, |seen| {
        seen.needs > 0 && seen.memory.is_some_and(|memory| memory.sequence == 0)
    });
    let memory = host.seen(0).memory.expect("it came with the need");
    guest.until_sh("cat /run/stalled 2> /dev/null || true", PATIENCE, |text| !text.is_empty());
    guest.sh("kill $(cat /run/load); rm /dev/shm/fill");
    let stalled_ms = guest.number("cat /run/stalled");
    let late_ms = memory.uptime_ms.saturating_sub(stalled_ms);
    println!("reported {took:?} after the load began, {late_ms} ms after the stall: {memory:?}");
    assert!(late_ms <= 1000, "reported {late_ms} ms after the stall");
    assert!(memory.psi_some_us >= Some(40_000), "{memory:?}");
}
