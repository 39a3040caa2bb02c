//! Detection of guests that hang during boot, and their restart or end.
//!
//! ```text
//!   console, virtual CPUs' run time ─► LifeSign ─► much run time and no output: it hangs
//!                                                        │
//!            named, started again or ended ◄── evidence ◄┘  (a thread: it waits for QEMU)
//! ```
//!
//! A boot needs a certain amount of CPU time. On a busy host a boot takes longer, but its vCPUs use
//! no more CPU time. A boot in an endless loop uses more.
//!
//! On a host that emulates the guest, a second of CPU time does less work. The CPU time between
//! earlier outputs shows how much less.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::JoinHandle;

use procfs::{Chance, Work};
use vm::evidence::{self, Hung};
use vm::images::Writes;
use vm::{Error, GuestSpec, Monitor, Process};

use super::kvm::KvmWatch;
use super::open::RunningGuest;

/// Time after a guest's last output in which the guest does not count as hung.
const SILENCE_MS: u64 = 60_000;
/// Maximum vCPU time between two outputs of a healthy boot. The slowest boot, with a database,
/// needs a fifth of this time.
const RUN_NS: u64 = 120_000_000_000;
/// Factor for a guest's longest vCPU time between two outputs so far. If the product exceeds
/// `RUN_NS`, the product is the limit.
const SLOWER: u64 = 5;
/// Time for a clone to accept its name, counted while its QEMU could run. A clone without its name
/// has the identity of its template and must not keep running.
const NAMING_PATIENCE_MS: u64 = 60_000;
/// Time for a QEMU to start or resume, counted while it could run. A QEMU that needs longer has
/// failed.
const COMING_BACK_MAX_MS: u64 = 60_000;
/// Time after a reset in which another reset counts as the firmware's, counted while QEMU could
/// run. The resets of one reboot are spread over 0.4 s on a free CPU.
const FIRMWARE_MS: u64 = 2_000;
/// Message of the image's first process in a guest with too little memory.
const IMAGE_TOO_LARGE: &str = "pinhead: the image does not fit";
/// Maximum number of columns of a console line in a reason.
const CAUSE_WIDTH: usize = 200;
/// Maximum number of restarts of a guest. A guest that hangs each time has a lasting problem.
const RESTARTS_MAX: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LifeSign {
    at_ms: u64,
    out_bytes: u64,
    run_ns: u64,
}

#[derive(Debug)]
pub(super) struct HangFound {
    /// Description for the user.
    pub(super) note: String,
    /// True if the guest must be restarted.
    pub(super) restart: bool,
}

/// Supervision of one guest's boots.
#[derive(Debug, Default)]
pub(super) struct BootWatch {
    /// Time in which QEMU could run since the current step began: start, resume, or naming.
    pub(super) had: Chance,
    last: Option<LifeSign>,
    /// Longest vCPU time between two outputs so far.
    longest_ns: u64,
    pub(super) kvm: KvmWatch,
    hangs: u32,
    /// Machine resets since QEMU started, before the guest was up.
    resets: u32,
    /// Time of the last reset that was not the firmware's, and the work of QEMU at that time.
    reset: Option<(u64, Option<Work>)>,
    inquest: Option<Inquest>,
}

/// A guest that hangs, while its evidence is saved.
#[derive(Debug)]
struct Inquest {
    /// QEMU's process, which ends when the inquest is dropped.
    process: Process,
    keeping: JoinHandle<Result<PathBuf, Error>>,
}

impl BootWatch {
    /// Returns true if a booting guest hangs, from its console output and vCPU time so far. If the
    /// vCPU time is unknown, the guest does not count as hung.
    pub(super) fn is_hanging(&mut self, now_ms: u64, out_bytes: u64, run_ns: Option<u64>) -> bool {
        let Some(run_ns) = run_ns else {
            self.last = None;
            return false;
        };
        let Some(last) = self.last.filter(|last| last.out_bytes == out_bytes) else {
            let took_ns = self.last.map_or(0, |last| run_ns.saturating_sub(last.run_ns));
            self.longest_ns = self.longest_ns.max(took_ns);
            self.last = Some(LifeSign { at_ms: now_ms, out_bytes, run_ns });
            return false;
        };
        let silent_ms = now_ms.saturating_sub(last.at_ms);
        silent_ms >= SILENCE_MS && run_ns.saturating_sub(last.run_ns) >= self.run_max_ns()
    }

    /// Returns the vCPU time allowed between two outputs.
    fn run_max_ns(&self) -> u64 {
        RUN_NS.max(self.longest_ns.saturating_mul(SLOWER))
    }

    /// Returns true if the clone's time to accept its name is over. Only time in which the clone's
    /// QEMU could run counts.
    pub(super) fn is_nameless(&mut self, now_ms: u64, work: impl FnOnce() -> Option<Work>) -> bool {
        self.had.look(now_ms, work) > NAMING_PATIENCE_MS
    }

    /// Returns true if the guest's time to come back from disk is over.
    pub(super) fn is_lost(&mut self, now_ms: u64, work: impl FnOnce() -> Option<Work>) -> bool {
        self.had.look(now_ms, work) > COMING_BACK_MAX_MS
    }

    pub(super) fn starts(&mut self, now_ms: u64) {
        self.had = Chance::since(now_ms);
        self.kvm = KvmWatch::default();
        (self.resets, self.reset) = (0, None);
    }

    /// Records a machine reset, with the work of its QEMU until now. Returns true if the reset
    /// follows another reset so closely that the firmware must have caused it.
    pub(super) fn is_firmwares_reset(&mut self, now_ms: u64, work: Option<Work>) -> bool {
        let is_soon = self.reset.is_some_and(|(last_ms, before)| {
            let passed_ms = now_ms.saturating_sub(last_ms);
            work.map_or(passed_ms, |work| work.had_ms(before, passed_ms)) < FIRMWARE_MS
        });
        if !is_soon {
            self.reset = Some((now_ms, work));
        }
        is_soon
    }

    /// Counts a machine reset during boot. After too many resets, returns the reason to end the
    /// guest. In such a guest the kernel panics in each boot, or the first process ends.
    pub(super) fn was_reset(&mut self, console: &[u8]) -> Option<String> {
        self.resets += 1;
        let is_too_often = self.resets > RESTARTS_MAX;
        is_too_often.then(|| {
            let mut reason = format!("its machine was reset {} times while it booted", self.resets);
            if let Some(why) = cause(&String::from_utf8_lossy(console)) {
                reason.push_str(": ");
                reason.push_str(&base::plain(why, CAUSE_WIDTH));
            }
            reason
        })
    }

    /// Investigates a hung guest. The guest's QEMU keeps running until all evidence is saved.
    pub(super) fn begin(&mut self, spec: &GuestSpec, running: RunningGuest, console: &[u8]) {
        self.last = None;
        self.hangs += 1;
        let console = String::from_utf8_lossy(console).into_owned();
        let hung = Hung::new(spec, &running.process, console);
        let RunningGuest { process, qmp, .. } = running;
        let (qmp, client) = qmp.into_parts();
        let keeping = std::thread::spawn(move || {
            let blocking = qmp.set_nonblocking(false);
            blocking.map_err(|source| Error::Channel { channel: "qmp", source })?;
            evidence::keep(&hung, &mut Monitor::taken_over(qmp, client))
        });
        self.inquest = Some(Inquest { process, keeping });
    }

    /// Returns the result once, when all evidence is saved, with the QEMU process to end.
    pub(super) fn found(&mut self, spec: &GuestSpec) -> Option<(Process, HangFound)> {
        let Inquest { process, keeping } =
            self.inquest.take_if(|inquest| inquest.keeping.is_finished())?;
        let mut note = format!(
            "{} hung while it booted: {} s of CPU time without console output",
            spec.name,
            self.run_max_ns() / 1_000_000_000
        );
        // Writing to a string cannot fail.
        let _ = match keeping.join() {
            Ok(Ok(directory)) => write!(note, "; the evidence is in {}", directory.display()),
            Ok(Err(error)) => {
                write!(note, "; the evidence could not be saved: {}", base::chain(&error))
            }
            Err(_) => write!(note, "; no evidence was saved"),
        };
        let restart = loses_nothing(spec) && self.hangs <= RESTARTS_MAX;
        note.push_str(if restart { "; the guest is restarted" } else { "; the guest is ended" });
        Some((process, HangFound { note, restart }))
    }
}

/// Returns the last console line that names a reason for the failed boot.
fn cause(console: &str) -> Option<&str> {
    let signs = [IMAGE_TOO_LARGE, "Kernel panic", "Initramfs unpacking failed", "pinhead: "];
    let last = |sign| console.lines().rev().find_map(|line| line.find(sign).map(|at| &line[at..]));
    signs.into_iter().find_map(last).map(str::trim_end)
}

/// Returns true if a restart during boot would lose no data of the guest.
fn loses_nothing(spec: &GuestSpec) -> bool {
    let writes = spec.disk.as_ref().map(|disk| &disk.writes);
    !matches!(writes, Some(Writes::Overlay(_) | Writes::Direct))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Checks a guest with this many busy CPUs once a second. Returns the seconds until the guest
    /// counts as hung.
    fn hangs_after(cpus: f64, out_bytes: impl Fn(u64) -> u64) -> Option<u64> {
        let mut watch = BootWatch::default();
        (0..1000).find(|second| {
            let run_ns = Some((*second as f64 * cpus * SECOND_NS as f64) as u64);
            watch.is_hanging(second * 1000, out_bytes(*second), run_ns)
        })
    }

    #[test]
    fn busy_guest_without_output_hangs() {
        assert_eq!(hangs_after(4.0, |_| 80), Some(60), "silence is given its time");
        assert_eq!(hangs_after(2.0, |_| 80), Some(60));
        assert_eq!(hangs_after(0.5, |_| 0), Some(240), "on a busy host it takes longer");
    }

    #[test]
    fn slow_emulated_guest_gets_proportionally_more_time() {
        // The first outputs are one minute apart, and later outputs three minutes.
        let slow = |second: u64| [60, 240, 420].iter().filter(|at| second >= **at).count() as u64;
        assert_eq!(
            hangs_after(1.0, |second| if second < 420 { slow(second) } else { second }),
            None
        );
        assert_eq!(hangs_after(1.0, |second| slow(second.min(60))), Some(360), "five minutes");
    }

    #[test]
    fn guest_with_output_or_asleep_does_not_hang() {
        assert_eq!(hangs_after(2.0, |second| second / 50), None, "a word every 50 s");
        assert_eq!(hangs_after(0.1, |_| 0), None, "a slow host");
        assert_eq!(hangs_after(0.0, |_| 0), None, "it waits for something");
        assert_eq!(hangs_after(2.0, |second| second.min(100)), Some(160), "its last word counts");
    }

    type IsLate = fn(&mut BootWatch, u64, Work) -> bool;

    /// Checks a QEMU that waits this long per second for a CPU, once a second. Returns the seconds
    /// until its name and its return are late.
    fn late_after(delay_ms: u64, work: Work) -> [Option<u64>; 2] {
        let is_late: [IsLate; 2] = [
            |watch, now_ms, work| watch.is_nameless(now_ms, || Some(work)),
            |watch, now_ms, work| watch.is_lost(now_ms, || Some(work)),
        ];
        is_late.map(|is_late| {
            let mut watch = BootWatch::default();
            (0..1000).find(|second| {
                let delay_ns = second * delay_ms * (SECOND_NS / 1000);
                is_late(&mut watch, second * 1000, Work { delay_ns, ..work })
            })
        })
    }

    #[test]
    fn time_without_cpu_does_not_count_against_qemu() {
        let free = Work::default();
        assert_eq!(late_after(0, free), [Some(61); 2], "it does nothing");
        assert_eq!(late_after(900, free), [Some(601); 2], "a tenth of a CPU");
        let disk = Work { waits_for_disk: true, ..free };
        assert_eq!(late_after(0, disk), [Some(601); 2], "it reads its state from a slow disk");
    }

    #[test]
    fn a_pause_of_the_machine_does_not_count_against_qemu() {
        let mut watch = BootWatch::default();
        for now_ms in [0, 1_000, 3_600_000, 3_604_000] {
            assert!(!watch.is_nameless(now_ms, || None) && !watch.is_lost(now_ms, || None));
        }
    }

    #[test]
    fn resets_of_one_reboot_count_once_when_qemu_gets_no_cpu() {
        let seen_after = |passed_ms: u64, run_ms: u64| {
            let work = |ms: u64, run_ms: u64| Work {
                run_ns: run_ms * 1_000_000,
                delay_ns: (ms - run_ms) * 1_000_000,
                ..Work::default()
            };
            let mut watch = BootWatch::default();
            assert!(!watch.is_firmwares_reset(100_000, Some(work(0, 0))));
            watch.is_firmwares_reset(100_000 + passed_ms, Some(work(passed_ms, run_ms)))
        };
        assert!(seen_after(400, 400), "on a free CPU");
        assert!(seen_after(4_000, 400), "on a tenth of a CPU");
        assert!(!seen_after(4_000, 2_500), "a system booted and reset its machine");
        let mut watch = BootWatch::default();
        let is_firmwares = [0, 1_900, 2_100].map(|now_ms| watch.is_firmwares_reset(now_ms, None));
        assert_eq!(is_firmwares, [false, true, false], "the kernel does not tell");
    }

    #[test]
    fn unknown_run_time_is_not_a_hang() {
        let mut watch = BootWatch::default();
        for now_ms in [0, 1_000_000] {
            assert!(!watch.is_hanging(now_ms, 0, None));
        }
        let mut is_hanging =
            |now_ms, seconds| watch.is_hanging(now_ms, 0, Some(seconds * SECOND_NS));
        assert!(!is_hanging(1_000_000, 500), "counted from here");
        assert!(is_hanging(1_060_000, 620));
    }
}
