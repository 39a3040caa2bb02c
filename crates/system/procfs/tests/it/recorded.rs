//! Readings of real guests in which CPUs were plugged.
//!
//! Each file has the CPU lines of /proc/stat at ten moments, headed by `@`, the preceding action,
//! and the guest's uptime. The guest had three CPUs and hardly any work. cpu2 was taken offline,
//! brought back, and finally taken off and brought back between two readings. The guests ran Debian
//! 12 with the kernels 6.1.0-56-cloud-amd64 and 6.1.0-50-s390x, emulated by QEMU 7.2.

use procfs::parse::stat::{Stat, Ticks, parse};
use procfs::{CpuClock, USER_HZ};

fn readings(text: &str) -> Vec<(String, f64, Stat)> {
    let blocks = text.split("@ ").filter(|block| !block.is_empty());
    blocks
        .map(|block| {
            let (head, lines) = block.split_once('\n').expect("a head and lines");
            let (what, seconds) = head.split_once(' ').expect("a name and a time");
            let mut stat = Stat::default();
            assert_eq!(parse(lines.as_bytes(), true, &mut stat), Ok(true));
            (what.to_owned(), seconds.parse().expect("seconds"), stat)
        })
        .collect()
}

fn sum(ticks: &Ticks) -> i64 {
    ticks.iter().sum()
}

/// Returns true if the elapsed ticks are possible: not negative, and at most the ticks of all CPUs
/// in that time. The uptime was read a moment before the ticks.
fn is_possible(before: &Ticks, after: &Ticks, seconds: f64, cpus: usize) -> bool {
    let most = ((seconds + 0.15) * USER_HZ * cpus as f64) as i64;
    let falls = before.iter().zip(after).any(|(b, a)| a < b);
    !falls && sum(after) - sum(before) <= most
}

/// Returns the readings after which the raw sum shows an impossible value.
fn check(text: &str) -> Vec<String> {
    let mut clock = CpuClock::default();
    let mut last: Option<(f64, Stat, Ticks)> = None;
    let mut raw_failures = Vec::new();
    for (what, seconds, stat) in readings(text) {
        let total = *clock.advance(&stat, seconds);
        if let Some((last_seconds, last_stat, last_total)) = last {
            let passed = seconds - last_seconds;
            let cpus = stat.cpus.len().max(last_stat.cpus.len());
            assert!(is_possible(&last_total, &total, passed, cpus), "{what}: {total:?}");
            // cpu0 and cpu1 were online all the time and must be counted.
            let least = (passed * USER_HZ * 2.0 * 0.85) as i64;
            assert!(sum(&total) - sum(&last_total) >= least, "{what}: {total:?}");
            if !is_possible(&last_stat.all, &stat.all, passed, cpus) {
                raw_failures.push(what);
            }
        } else {
            assert_eq!(total, stat.all);
        }
        last = Some((seconds, stat, total));
    }
    raw_failures
}

#[test]
fn a_guest_on_x86_64() {
    assert_eq!(check(include_str!("recorded/x86_64.txt")), ["on-at-once"]);
}

#[test]
fn a_guest_on_s390x() {
    assert_eq!(check(include_str!("recorded/s390x.txt")), ["on-at-once", "off-and-on"]);
}
