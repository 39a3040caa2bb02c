//! Boots many guests, a few at a time, to show that no guest hangs.
//!
//! ```text
//!   SOAK_AT_ONCE threads, each: boot ─► "up" on the console ─► are all CPUs online? ─► end
//!                                  └──► not by then: a hang, and what it does is kept
//! ```

use crate::args;
use crate::error::Error;
use base::{Spread, chain};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vm::images::{Arch, Cache, GuestFile, Image, ImageSpec};
use vm::{Deadline, GuestSpec, Session, probe_kvm};

const MEMORY_MIB: u64 = 256;
/// Time limit for a shell's response.
const ANSWER: Duration = Duration::from_secs(60);
/// Number of guests between two progress messages.
const REPORT_EVERY: usize = 50;

struct Plan {
    counts: [(Arch, usize); 2],
    at_once: usize,
    cpus: u32,
    limit: Duration,
    kernel_args: Vec<String>,
    flips: usize,
}

/// Results of the guests of one architecture.
#[derive(Default)]
struct Outcome {
    seconds: Vec<f64>,
    failures: Vec<String>,
}

/// Boots all guests. The exit code is a failure if any guest did not come up correctly.
pub fn run() -> Result<ExitCode, Error> {
    let plan = Plan::from_environment()?;
    let guest_dir = args::guest_dir()?;
    let cache = Cache::from_environment()?;
    let mut good = true;
    for (arch, count) in plan.counts {
        if count == 0 {
            continue;
        }
        let image = image(arch, &guest_dir, &cache)?;
        println!("{count} guests of {arch}, {} CPUs each, {} at a time", plan.cpus, plan.at_once);
        let outcome = plan.boot_all(arch, &image, count);
        let Outcome { seconds, failures } = &outcome;
        let times = Spread::of(seconds.iter().copied()).map_or_else(String::new, |times| {
            let (least, middle, most) = (times.low, times.median, times.high);
            format!("; ready after {least:.1}, {middle:.1} (median), {most:.1} s")
        });
        println!("{arch}: {} up, {} failed{times}", seconds.len(), failures.len());
        good &= failures.is_empty();
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Plan {
    fn from_environment() -> Result<Plan, Error> {
        let number = |name: &str, default: usize| match std::env::var(name) {
            Ok(text) if !text.is_empty() => {
                text.parse().map_err(|_| Error::Usage(format!("{name} is not a number: {text}")))
            }
            _ => Ok(default),
        };
        let words = std::env::var("SOAK_KERNEL").unwrap_or_default();
        Ok(Plan {
            counts: [
                (Arch::X86_64, number("SOAK_COUNT", 1000)?),
                (Arch::S390x, number("SOAK_S390X_COUNT", 300)?),
            ],
            at_once: number("SOAK_AT_ONCE", 4)?.max(1),
            cpus: u32::try_from(number("SOAK_CPUS", 4)?).unwrap_or(1),
            limit: Duration::from_secs(number("SOAK_LIMIT", 300)? as u64),
            kernel_args: words.split_ascii_whitespace().map(str::to_owned).collect(),
            flips: number("SOAK_FLIPS", 0)?,
        })
    }

    fn boot_all(&self, arch: Arch, image: &Image, count: usize) -> Outcome {
        let (next, outcome) = (AtomicUsize::new(1), Mutex::new(Outcome::default()));
        let clock = Deadline::after(Duration::MAX);
        let worker = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > count {
                    break;
                }
                let result = self.boot(arch, image, number);
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                match result {
                    Ok(seconds) => outcome.seconds.push(seconds),
                    Err(reason) => {
                        println!("soak{number}: {reason}");
                        outcome.failures.push(reason);
                    }
                }
                let (up, lost) = (outcome.seconds.len(), outcome.failures.len());
                if (up + lost).is_multiple_of(REPORT_EVERY) {
                    println!("{:.0} s: {up} up, {lost} failed", clock.elapsed().as_secs_f64());
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.at_once {
                scope.spawn(worker);
            }
        });
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Boots one guest, and returns the time that the boot took, in seconds.
    fn boot(&self, arch: Arch, image: &Image, number: usize) -> Result<f64, String> {
        let spec = GuestSpec {
            cpus: self.cpus,
            memory_mib: MEMORY_MIB,
            kernel_args: self.kernel_args.clone(),
            ..GuestSpec::new(format!("soak{number}"), image.clone(), probe_kvm(arch))
        };
        let clock = Deadline::after(self.limit);
        let mut guest = Session::boot(&spec, clock).map_err(|error| chain(&error))?;
        let seconds = clock.elapsed().as_secs_f64();
        let mut ask = |line: &str| {
            let answer = guest.sh(line, Deadline::after(ANSWER));
            answer.map_err(|error| chain(&error))
        };
        let online = ask("cat /sys/devices/system/cpu/online")?;
        let all = if self.cpus == 1 { "0".to_owned() } else { format!("0-{}", self.cpus - 1) };
        if online.trim() != all {
            return Err(format!("CPUs {} are online, and not {all}", online.trim()));
        }
        if self.flips > 0 {
            ask(&flip(self.flips))?;
        }
        Ok(seconds)
    }
}

/// Returns a shell line that makes a kernel patch its own code twice a turn, while all CPUs run
/// that code. Tasks run this code when they sleep and wake up.
fn flip(count: usize) -> String {
    let switch = "/proc/sys/kernel/sched_schedstats";
    format!(
        "for _ in 1 2 3 4 5 6; do (while :; do usleep 200; done) & done; n=0; \
         while [ $n -lt {count} ]; do echo 1 > {switch}; echo 0 > {switch}; n=$((n + 1)); done; \
         kill $(jobs -p)"
    )
}

/// Builds an image with the daemon under the default preset.
fn image(arch: Arch, guest_dir: &Path, cache: &Cache) -> Result<Image, Error> {
    let rules = rules::preset("default").ok_or(Error::Preset("is not there"))?.text();
    let files = vec![
        GuestFile::text("/etc/pinhead.conf", &rules),
        GuestFile::text("/etc/pinheadd.args", "-f -c /etc/pinhead.conf --pace host"),
    ];
    let daemon = Some(guest_dir.join(arch.name()).join("pinheadd"));
    Ok(ImageSpec { arch, daemon, files }.build(cache)?)
}
