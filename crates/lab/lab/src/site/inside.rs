//! Counters of a guest's kernel, read through its shell.

use super::Site;
use crate::{Error, Measures};
use procfs::parse::{stat, value_of};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A guest's counters at a moment. Values that the guest's kernel does not report are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inside {
    /// Number of pages swapped in and out, together.
    pub swapped: Option<f64>,
    /// Time in which some task waited for memory, in microseconds.
    pub memory_wait_us: Option<f64>,
    /// Time in which some task waited for a disk, in microseconds.
    pub io_wait_us: Option<f64>,
    /// Memory in use by processes or cache, in MiB.
    pub used_mib: Option<f64>,
    /// Free memory, in MiB.
    pub free_mib: Option<f64>,
    /// Memory available to processes, in MiB.
    pub available_mib: Option<f64>,
    /// Number of online CPUs.
    pub cpus: Option<f64>,
}

impl Inside {
    /// Queries a guest.
    pub fn read(site: &Site, guest: &str) -> Result<Inside, Error> {
        Inside::read_within(site, guest, LIMIT)
    }

    /// Queries a guest with this time limit.
    pub fn read_within(site: &Site, guest: &str, limit: Duration) -> Result<Inside, Error> {
        let line = "cat /proc/stat /proc/vmstat; \
                    sed 's/^some/memory/' /proc/pressure/memory 2> /dev/null; \
                    sed 's/^some/io/' /proc/pressure/io 2> /dev/null; cat /proc/meminfo";
        Ok(Inside::parse(&site.sh(guest, line, limit)?))
    }

    /// Parses the guest's output. Invalid numbers are missing.
    pub fn parse(text: &str) -> Inside {
        let whole = |name| value_of(text.as_bytes(), name);
        let number = |name| whole(name).map(|number| number as f64);
        let total = |word: &str| {
            let line = text.lines().find(|line| line.starts_with(word))?;
            line.rsplit_once("total=")?.1.trim().parse::<u64>().ok().map(|us| us as f64)
        };
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        let mut cpus = stat::Stat::default();
        let has_cpus = stat::parse(text.as_bytes(), true, &mut cpus).is_ok();
        let used = |all: Option<u64>, free: Option<u64>| {
            all?.checked_sub(free?).map(|kib| kib as f64 / 1024.0)
        };
        Inside {
            swapped: sum(number("pswpin"), number("pswpout")),
            memory_wait_us: total("memory "),
            io_wait_us: total("io "),
            used_mib: used(whole("MemTotal"), whole("MemFree")),
            free_mib: number("MemFree").map(|kib| kib / 1024.0),
            available_mib: number("MemAvailable").map(|kib| kib / 1024.0),
            cpus: has_cpus.then_some(cpus.cpus.len() as f64),
        }
    }

    /// Notes the growth since an earlier moment.
    pub fn note_since(&self, from: &Inside, seconds: f64, measures: &mut Measures) {
        // A counter that decreased is from another boot, or made up by the guest.
        let grew = |now: Option<f64>, then: Option<f64>| {
            Some((now? - then?) / seconds).filter(|rate| *rate >= 0.0)
        };
        if seconds <= 0.0 {
            return;
        }
        measures.note("it swaps", "pages/s", grew(self.swapped, from.swapped));
        let percent = |now, then| grew(now, then).map(|us| us / 1e4);
        let memory = percent(self.memory_wait_us, from.memory_wait_us);
        measures.note("its wait for memory", "%", memory);
        measures.note("its wait for disks", "%", percent(self.io_wait_us, from.io_wait_us));
        measures.note("it uses", "MiB", self.used_mib);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_and_absent_ones_are_missing() {
        let text = "cpu 5 0 0 9\ncpu0 3 0 0 5\ncpu2 2 0 0 4\nintr 7 1\npswpin 3\npswpout 4\n\
                    memory avg10=0.00 avg60=0.00 avg300=0.00 total=50000\n\
                    full avg10=0.00 total=1\nMemTotal:  2048 kB\nMemFree: 1024 kB\n\
                    MemAvailable: 512 kB\n";
        let now = Inside::parse(text);
        let swapped = Some(7.0);
        let expected = Inside {
            swapped,
            memory_wait_us: Some(50_000.0),
            io_wait_us: None,
            used_mib: Some(1.0),
            free_mib: Some(1.0),
            available_mib: Some(0.5),
            cpus: Some(2.0),
        };
        assert_eq!(now, expected);
        assert_eq!(Inside::parse(""), Inside::default());
    }
}
