//! Whether a guest hangs in its boot, and what becomes of it then.
//!
//! ```text
//!   console, virtual CPUs' run time ─► LifeSign ─► much run time and not a word: it hangs
//!                                                        │
//!            named, started again or ended ◄── evidence ◄┘  (a thread: it waits for QEMU)
//! ```
//!
//! A boot takes a certain work and not a certain time: on a busy host it is slow, but it does not
//! use more of its virtual CPUs. One that goes round in a circle does. Where the host is emulated
//! itself, a second of a CPU does less: how much work lay between the words so far tells that.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::JoinHandle;

use images::Writes;
use procfs::{Chance, Work};
use vm::evidence::{self, Hung};
use vm::{Error, GuestSpec, Monitor, Process};

use super::kvm::KvmWatch;
use super::open::RunningGuest;

/// A guest that has written to its console within this time does not hang.
const SILENCE_MS: u64 = 60_000;
/// More of its virtual CPUs than any boot takes between two words: the longest, with a database,
/// takes a fifth of it.
const RUN_NS: u64 = 120_000_000_000;
/// More than so many times the longest that this guest took, where that is more.
const SLOWER: u64 = 5;
/// A guest that has not taken its name in this time, in which its QEMU could run, is not this guest
/// and must not stay.
const NAMING_PATIENCE_MS: u64 = 60_000;
/// A QEMU that could have run for longer, and has neither started nor gone on, is taken for one
/// that does not come.
const COMING_BACK_MAX_MS: u64 = 60_000;
/// A machine that is reset again so soon is reset by its firmware.
const FIRMWARE_MS: u64 = 2_000;
/// The words of the image's first process for a guest with too little memory.
const IMAGE_TOO_LARGE: &str = "pinhead: the image does not fit";
/// Columns of a console's line in a reason.
const CAUSE_WIDTH: usize = 200;
/// How often a guest is started again. What hangs each time has a reason of its own.
const RESTARTS_MAX: u32 = 2;

/// The last sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LifeSign {
    at_ms: u64,
    out_bytes: u64,
    run_ns: u64,
}

/// A hang that was looked into.
#[derive(Debug)]
pub(super) struct HangFound {
    /// What happened, for people.
    pub(super) note: String,
    /// Whether the guest is to be started again.
    pub(super) restart: bool,
}

/// The watch over one guest's boots.
#[derive(Debug, Default)]
pub(super) struct BootWatch {
    /// The time that its QEMU has had for what is waited for: to start, to go on, to take its name.
    pub(super) had: Chance,
    last: Option<LifeSign>,
    /// The longest that its virtual CPUs ran between two words, of those that came.
    longest_ns: u64,
    pub(super) kvm: KvmWatch,
    hangs: u32,
    /// Resets of its machine since its QEMU started, before it was up.
    resets: u32,
    /// The last reset that was not its firmware's.
    reset_ms: Option<u64>,
    inquest: Option<Inquest>,
}

/// A guest that hangs, while what it does is kept.
#[derive(Debug)]
struct Inquest {
    /// Ended with it, and with the fleet.
    process: Process,
    keeping: JoinHandle<Result<PathBuf, Error>>,
}

impl BootWatch {
    /// Judges a guest that boots by its last sign of life: what its console has written in all, and
    /// what its virtual CPUs have run. What is not known is not a hang.
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

    /// Time that its virtual CPUs may run between two words.
    fn run_max_ns(&self) -> u64 {
        RUN_NS.max(self.longest_ns.saturating_mul(SLOWER))
    }

    /// Returns whether it has had its time to take its name, by the work of its QEMU.
    pub(super) fn is_nameless(&mut self, now_ms: u64, work: impl FnOnce() -> Option<Work>) -> bool {
        self.had.look(now_ms, work) > NAMING_PATIENCE_MS
    }

    /// Returns whether it has had its time to come back from the disk.
    pub(super) fn is_lost(&mut self, now_ms: u64, work: impl FnOnce() -> Option<Work>) -> bool {
        self.had.look(now_ms, work) > COMING_BACK_MAX_MS
    }

    /// Its QEMU starts.
    pub(super) fn starts(&mut self, now_ms: u64) {
        self.had = Chance::since(now_ms);
        self.kvm = KvmWatch::default();
        (self.resets, self.reset_ms) = (0, None);
    }

    /// Notices a reset of its machine. Returns whether its firmware does it, right after another.
    pub(super) fn is_firmwares_reset(&mut self, now_ms: u64) -> bool {
        let is_soon = self.reset_ms.is_some_and(|last_ms| now_ms < last_ms + FIRMWARE_MS);
        if !is_soon {
            self.reset_ms = Some(now_ms);
        }
        is_soon
    }

    /// Counts a reset of its machine in its boot. Returns the reason to end it after too many: its
    /// kernel panics each time, or its first process ends.
    pub(super) fn was_reset(&mut self, console: &[u8]) -> Option<String> {
        self.resets += 1;
        let is_too_often = self.resets > RESTARTS_MAX;
        is_too_often.then(|| {
            let mut reason = format!("its machine was reset {} times in its boot", self.resets);
            if let Some(why) = cause(&String::from_utf8_lossy(console)) {
                reason.push_str(": ");
                reason.push_str(&base::plain(why, CAUSE_WIDTH));
            }
            reason
        })
    }

    /// Looks into a guest that hangs. Its QEMU is not disturbed until all is kept.
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

    /// What was found, once, when all is kept, and the guest's QEMU, which is to end.
    pub(super) fn found(&mut self, spec: &GuestSpec) -> Option<(Process, HangFound)> {
        let Inquest { process, keeping } =
            self.inquest.take_if(|inquest| inquest.keeping.is_finished())?;
        let mut note = format!(
            "{} hung in its boot: {} s of CPU without a word",
            spec.name,
            self.run_max_ns() / 1_000_000_000
        );
        // Writing to a string cannot fail.
        let _ = match keeping.join() {
            Ok(Ok(directory)) => write!(note, "; what it did is in {}", directory.display()),
            Ok(Err(error)) => write!(note, "; what it did is not kept: {}", base::chain(&error)),
            Err(_) => write!(note, "; what it did is not kept"),
        };
        let restart = loses_nothing(spec) && self.hangs <= RESTARTS_MAX;
        note.push_str(if restart { "; it is started again" } else { "; it is ended" });
        Some((process, HangFound { note, restart }))
    }
}

/// Returns the last line of a console that tells why a boot failed.
fn cause(console: &str) -> Option<&str> {
    let signs = [IMAGE_TOO_LARGE, "Kernel panic", "Initramfs unpacking failed", "pinhead: "];
    let last = |sign| console.lines().rev().find_map(|line| line.find(sign).map(|at| &line[at..]));
    signs.into_iter().find_map(last).map(str::trim_end)
}

/// Whether a guest that has not come up has nothing that another start would not make again.
fn loses_nothing(spec: &GuestSpec) -> bool {
    let writes = spec.disk.as_ref().map(|disk| &disk.writes);
    !matches!(writes, Some(Writes::Overlay(_) | Writes::Direct))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Looks once a second at a guest with this many busy CPUs, and gives after how many seconds it
    /// is found to hang.
    fn hangs_after(cpus: f64, out_bytes: impl Fn(u64) -> u64) -> Option<u64> {
        let mut watch = BootWatch::default();
        (0..1000).find(|second| {
            let run_ns = Some((*second as f64 * cpus * SECOND_NS as f64) as u64);
            watch.is_hanging(second * 1000, out_bytes(*second), run_ns)
        })
    }

    #[test]
    fn a_guest_that_burns_without_a_word_hangs() {
        assert_eq!(hangs_after(4.0, |_| 80), Some(60), "silence is given its time");
        assert_eq!(hangs_after(2.0, |_| 80), Some(60));
        assert_eq!(hangs_after(0.5, |_| 0), Some(240), "on a busy host it takes longer");
    }

    #[test]
    fn guest_of_an_emulated_host_has_as_much_longer_as_it_is_slower() {
        // Its first words are a minute apart, and then three.
        let slow = |second: u64| [60, 240, 420].iter().filter(|at| second >= **at).count() as u64;
        assert_eq!(
            hangs_after(1.0, |second| if second < 420 { slow(second) } else { second }),
            None
        );
        assert_eq!(hangs_after(1.0, |second| slow(second.min(60))), Some(360), "five minutes");
    }

    #[test]
    fn a_guest_that_speaks_or_sleeps_does_not() {
        assert_eq!(hangs_after(2.0, |second| second / 50), None, "a word every 50 s");
        assert_eq!(hangs_after(0.1, |_| 0), None, "a slow host");
        assert_eq!(hangs_after(0.0, |_| 0), None, "it waits for something");
        assert_eq!(hangs_after(2.0, |second| second.min(100)), Some(160), "its last word counts");
    }

    type IsLate = fn(&mut BootWatch, u64, Work) -> bool;

    /// Looks once a second at a QEMU that waits for a CPU for this long in one, and gives after how
    /// many seconds it is late with its name and with its way back.
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
    fn qemu_is_waited_for_when_its_host_lets_it_not_run() {
        let free = Work::default();
        assert_eq!(late_after(0, free), [Some(61); 2], "it does nothing");
        assert_eq!(late_after(900, free), [Some(601); 2], "a tenth of a CPU");
        let disk = Work { waits_for_disk: true, ..free };
        assert_eq!(late_after(0, disk), [Some(601); 2], "it reads its state from a slow disk");
    }

    #[test]
    fn qemu_is_waited_for_after_a_pause_of_the_machine() {
        let mut watch = BootWatch::default();
        for now_ms in [0, 1_000, 3_600_000, 3_604_000] {
            assert!(!watch.is_nameless(now_ms, || None) && !watch.is_lost(now_ms, || None));
        }
    }

    #[test]
    fn what_is_not_known_is_not_a_hang() {
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
