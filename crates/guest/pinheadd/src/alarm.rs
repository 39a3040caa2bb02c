//! Next time at which a job of this guest is due: a line of cron's tables, or a systemd timer on
//! the time of day. A host that is about to stop the guest requests this time, and wakes the guest
//! before the job is due. Timers on other clocks are left out, because these clocks stand still
//! while the guest is stopped.

use crate::cron::{Minute, Times};
use crate::plug::fsio::{self, entries};
use crate::sys;
use procfs::Root;
use std::path::{Path, PathBuf};

/// Maximum number of files read from one directory.
const FILES_MAX: usize = 256;
/// Maximum number of entries of /proc that are searched.
const PROCESSES_MAX: usize = 8_192;
/// Time span that is searched for due lines, in minutes. The host sends its next request before
/// this span has passed.
const MINUTES_MAX: i64 = 24 * 60;
const MS_MAX: u64 = MINUTES_MAX.unsigned_abs() * 60_000;

/// Names in the kernel of programs that run cron's tables.
const CRONS: [&str; 2] = ["cron", "crond"];
/// Clock numbers of CLOCK_REALTIME and CLOCK_REALTIME_ALARM.
const TIME_OF_DAY: [&str; 2] = ["0", "8"];
/// Directories and files with cron's tables.
const TABLES: [&str; 4] =
    ["etc/cron.d", "var/spool/cron/crontabs", "var/spool/cron", "etc/crontabs"];

/// Returns the milliseconds until the next job of this guest, at most a day. The result is 0 if a
/// line may be due now, and `None` without lines and timers.
pub fn next_ms(root: &Root, epoch_s: f64) -> Option<u64> {
    let cron = runs_cron(root).then(|| next_line_ms(&lines(root), epoch_s)).flatten();
    [cron, systemd_ms(root)].into_iter().flatten().min()
}

/// Returns true if a cron daemon runs. Without a cron daemon, cron's tables have no effect.
fn runs_cron(root: &Root) -> bool {
    let is_cron = |process: &PathBuf| {
        let comm = text(&process.join("comm"));
        // A cron that is part of busybox is recognised by the arguments of its process.
        let is_busybox = || {
            let words = text(&process.join("cmdline"));
            words.split('\0').any(|word| word.ends_with("crond"))
        };
        match comm.trim_end() {
            "busybox" => is_busybox(),
            comm => CRONS.contains(&comm),
        }
    };
    entries(&root.join("proc"), PROCESSES_MAX).iter().any(is_cron)
}

fn lines(root: &Root) -> Vec<Times> {
    let mut files: Vec<PathBuf> = vec![root.join("etc/crontab")];
    for dir in TABLES {
        files.extend(entries(&root.join(dir), FILES_MAX));
    }
    let texts: Vec<String> = files.iter().map(|file| text(file)).collect();
    texts.iter().flat_map(|text| times(text)).collect()
}

/// Returns the times of a table's lines.
pub fn times(table: &str) -> Vec<Times> {
    let mut is_elsewhere = false;
    let mut times = Vec::new();
    for line in table.lines() {
        // In cronie's tables, the lines after a `CRON_TZ` setting use the time of another zone.
        is_elsewhere |= line.trim_start().starts_with("CRON_TZ");
        let line = Times::of(line);
        times.extend(line.map(|line| if is_elsewhere { line.in_any_zone() } else { line }));
    }
    times
}

/// Returns the milliseconds from this time until the first of these lines is due, at most a day.
pub fn next_line_ms(lines: &[Times], epoch_s: f64) -> Option<u64> {
    if lines.is_empty() {
        return None;
    }
    let this_minute = (epoch_s as i64).div_euclid(60);
    // Cron may read its tables at any moment of a minute, so lines of this minute may still be due.
    let due_s = (0..=MINUTES_MAX).map(|ahead| (this_minute + ahead) * 60).find(|at_s| {
        let at = minute(*at_s);
        at.is_some_and(|at| lines.iter().any(|line| line.fits(at)))
    });
    let left_ms = |due_s: i64| ((due_s as f64 - epoch_s) * 1000.0).max(0.0) as u64;
    Some(due_s.map_or(MS_MAX, left_ms).min(MS_MAX))
}

fn minute(epoch_s: i64) -> Option<Minute> {
    let tm = sys::local_time(epoch_s)?;
    let number = |number: i32| u32::try_from(number).ok();
    Some(Minute {
        minute: number(tm.tm_min)?,
        hour: number(tm.tm_hour)?,
        day: number(tm.tm_mday)?,
        month: number(tm.tm_mon)? + 1,
        weekday: number(tm.tm_wday)?,
    })
}

/// Returns the milliseconds until systemd's next timer, if systemd is the init process. For each
/// clock, systemd has one kernel timer, which expires with the earliest of all units' timers on
/// that clock.
fn systemd_ms(root: &Root) -> Option<u64> {
    let init = root.join("proc/1");
    if text(&init.join("comm")).trim_end() != "systemd" {
        return None;
    }
    let infos = entries(&init.join("fdinfo"), PROCESSES_MAX);
    let left = |info: &PathBuf| timer_ms(&text(info));
    infos.iter().filter_map(left).min().map(|ms| ms.min(MS_MAX))
}

/// Returns the milliseconds until a timer on the time of day expires, from the timer's text in
/// /proc/PID/fdinfo. Returns `None` for an unset timer, for a timer on another clock, and for a
/// file that is not a timer.
pub fn timer_ms(info: &str) -> Option<u64> {
    let clock = info.lines().find_map(|line| line.strip_prefix("clockid:"))?;
    if !TIME_OF_DAY.contains(&clock.trim()) {
        return None;
    }
    let value = info.lines().find_map(|line| line.strip_prefix("it_value:"))?;
    let value = value.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (seconds, ns) = value.split_once(',')?;
    let (seconds, ns): (u64, u64) = (seconds.trim().parse().ok()?, ns.trim().parse().ok()?);
    let ms = seconds.checked_mul(1000)?.checked_add(ns / 1_000_000)?;
    (seconds > 0 || ns > 0).then_some(ms)
}

/// Returns a file's text, which is empty if the file cannot be read.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fsio::read(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    const INFO: &str = "pos:\t0\nflags:\t02004002\nmnt_id:\t15\nino:\t1\nclockid: 0\nticks: 0\n\
                        settime flags: 03\nit_value: (7, 250000000)\nit_interval: (0, 0)\n";

    #[test]
    fn the_next_line_of_a_table_counts_where_a_cron_runs() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("etc/crontab", "# times\nSHELL=/bin/sh\n*/5 * * * * root true\n");
        kernel.write("etc/cron.d/other", "59 23 31 12 * root true\n");
        let root = kernel.root();
        // A zone differs from UTC by whole quarters of an hour, so multiples of five minutes stay
        // multiples of five.
        let at_s = 1_000_000_000.0;
        assert_eq!(next_ms(&root, at_s), None, "no cron runs");
        kernel.write("proc/77/comm", "cron\n");
        assert_eq!(next_ms(&root, at_s), Some(200_000));
        assert_eq!(next_ms(&root, at_s + 200.0), Some(0));
        assert_eq!(next_ms(&root, at_s + 259.0), Some(0), "cron may not have read its tables yet");
        assert_eq!(next_ms(&root, at_s + 260.0), Some(240_000));
        kernel.write("var/spool/cron/crontabs/root", "* * * * * true\n");
        assert_eq!(next_ms(&root, at_s + 0.5), Some(0));
    }

    #[test]
    fn line_due_in_more_than_a_day_is_reported_as_a_day() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/77/comm", "crond\n");
        assert_eq!(next_ms(&kernel.root(), 1_000_000_000.0), None);
        // 9 September 2001, in any zone.
        kernel.write("etc/crontab", "0 12 20 9 * root true\n");
        assert_eq!(next_ms(&kernel.root(), 1_000_000_000.0), Some(86_400_000));
        kernel.write("proc/1/comm", "systemd\n");
        kernel.write("proc/1/fdinfo/3", &INFO.replace("(7,", "(604800,"));
        kernel.write("etc/crontab", "");
        assert_eq!(next_ms(&kernel.root(), 1_000_000_000.0), Some(86_400_000));
    }

    #[test]
    fn a_line_by_another_zones_time_is_due_whatever_its_hour() {
        let [line] = &times("CRON_TZ=Asia/Kathmandu\n5 3 1 1 * true\n")[..] else { panic!() };
        let at = |minute, hour| Minute { minute, hour, day: 24, month: 11, weekday: 2 };
        assert!([5, 20, 35, 50].iter().all(|minute| line.fits(at(*minute, 9))));
        assert!(!line.fits(at(6, 9)));
    }

    #[test]
    fn systemds_next_timer_counts_too() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/1/comm", "systemd\n");
        kernel.write("proc/1/fdinfo/3", INFO);
        kernel.write("proc/1/fdinfo/4", &INFO.replace("(7,", "(3600,"));
        kernel.write("proc/1/fdinfo/5", "pos:\t0\nflags:\t02\n");
        assert_eq!(next_ms(&kernel.root(), 0.0), Some(7_250));
        kernel.write("proc/1/comm", "sh\n");
        assert_eq!(next_ms(&kernel.root(), 0.0), None);
    }

    #[test]
    fn a_timer_that_is_not_set_is_none() {
        assert_eq!(timer_ms(INFO), Some(7_250));
        for wrong in [
            INFO.replace("(7, 250000000)", "(0, 0)"),
            INFO.replace("clockid", "x"),
            INFO.replace("clockid: 0", "clockid: 1"),
            INFO.replace("(7", "(x"),
            INFO.replace(')', ""),
            INFO.replace("(7", "(99999999999999999999"),
            String::new(),
        ] {
            assert_eq!(timer_ms(&wrong), None, "{wrong}");
        }
    }
}
