//! Detection of a KVM that is present but runs no guest code, as on some nested hosts.
//!
//! Missing output alone is no proof, because a guest on a busy host boots slowly. The work of the
//! guest's QEMU decides. KVM is broken if QEMU ran but no vCPU did, or if QEMU neither ran nor
//! waited for a CPU. A QEMU that waits for a disk, or is stopped, gets ten times as much time.

use procfs::parse::task::StatField;
use procfs::{Chance, Work};

/// vCPU time, in seconds, after which KVM is judged. If KVM works, much of this time is guest time.
const RUN_S: u64 = 5;
/// CPU time after which a QEMU without a vCPU thread will never start one. On an emulated host QEMU
/// takes several seconds to start.
const START_NS: u64 = 20_000_000_000;
/// Suffix of the thread name that QEMU gives to a vCPU on KVM.
const OF_KVM: &[u8] = b"/KVM";
/// Divisor for the smallest share of guest time in vCPU time if KVM works.
const GUEST_PART: u64 = 100;
/// Time after which a QEMU without any activity counts as dead.
const STILL_MS: u64 = 30_000;
/// Maximum run and wait time of an inactive QEMU during `STILL_MS`. QEMU uses this time for
/// housekeeping.
const STILL_NS: u64 = 300_000_000;

/// Work of a QEMU since its start, by the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    /// Ticks of the vCPU threads, if there are any.
    vcpu_ticks: Option<u64>,
    /// Guest time among these ticks.
    guest_ticks: u64,
    work: Work,
}

/// Supervision of one guest's start on KVM.
#[derive(Debug, Default)]
pub(super) struct KvmWatch {
    /// Run and wait time at the last activity, and the time that has passed since this activity.
    still: Option<(u64, Chance)>,
}

impl KvmWatch {
    /// Returns true if KVM does not run the guest of this QEMU. The caller has found no output of
    /// the guest yet. Without counters, the result is false.
    pub(super) fn is_mute(&mut self, pid: u32, now_ms: u64) -> bool {
        done(pid).is_some_and(|done| self.judge(done, now_ms))
    }

    fn judge(&mut self, done: Done, now_ms: u64) -> bool {
        let Done { vcpu_ticks, guest_ticks, work } = done;
        let active_ns = work.run_ns.saturating_add(work.delay_ns);
        let (then_ns, still) = self.still.get_or_insert_with(|| (active_ns, Chance::since(now_ms)));
        if active_ns.saturating_sub(*then_ns) > STILL_NS {
            (*then_ns, *still) = (active_ns, Chance::since(now_ms));
        }
        let second = rustix::param::clock_ticks_per_second();
        // QEMU works before its guest runs, so its CPU time does not show that KVM works.
        let is_dead = match vcpu_ticks {
            Some(ticks) => ticks >= RUN_S * second && guest_ticks < ticks / GUEST_PART,
            None => work.run_ns >= START_NS,
        };
        // Time in which QEMU was stopped or waited for a disk counts only in part, as both may last
        // forever.
        let still_ms = still.look(now_ms, || Some(work));
        // A running process must have used CPU time, so a counter of 0 means that the kernel does
        // not count.
        is_dead || (active_ns > 0 && still_ms >= STILL_MS)
    }
}

/// Returns true if KVM is the likely reason for the end of a QEMU with these last messages. The
/// guest has not written any output yet. A clone's console is always empty, so for a clone the
/// messages decide.
pub(super) fn ended_it(is_clone: bool, words: &str) -> bool {
    !is_clone || words.to_ascii_lowercase().contains("kvm")
}

fn done(pid: u32) -> Option<Done> {
    let wanted = [StatField::UserTicks, StatField::SystemTicks, StatField::GuestTicks];
    let mut done = Done::default();
    done.work = Work::of_threads(pid, |stat| {
        if stat.name.ends_with(OF_KVM)
            && let Some([user, system, guest]) = stat.numbers(wanted)
        {
            let ticks = done.vcpu_ticks.get_or_insert(0);
            *ticks = ticks.saturating_add(user).saturating_add(system);
            done.guest_ticks = done.guest_ticks.saturating_add(guest);
        }
    })?;
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks each second a QEMU with this work per second. Returns the second in which KVM is
    /// given up.
    fn given_up(run: u64, guest: u64, wait_ms: u64, waits_for_disk: bool) -> Option<u64> {
        let mut watch = KvmWatch::default();
        let ticks = rustix::param::clock_ticks_per_second();
        (0..1_000).find(|second| {
            let done = Done {
                vcpu_ticks: Some(second * run * ticks / 100),
                guest_ticks: second * guest * ticks / 100,
                work: Work {
                    run_ns: 1 + second * run * 10_000_000,
                    delay_ns: second * wait_ms * 1_000_000,
                    waits_for_disk,
                    is_stopped: false,
                },
            };
            watch.judge(done, second * 1_000)
        })
    }

    #[test]
    fn kvm_is_given_up_when_it_runs_no_guest() {
        // Values from a nested host: 0.46 s per second in the kernel, none in the guest.
        assert_eq!(given_up(46, 0, 500, false), Some(11));
        assert_eq!(given_up(100, 0, 0, false), Some(5));
        assert_eq!(given_up(0, 0, 0, false), Some(30), "it does nothing");
    }

    #[test]
    fn kvm_is_kept_when_the_host_is_slow() {
        assert_eq!(given_up(100, 60, 0, false), None, "a long boot");
        assert_eq!(given_up(5, 3, 95, false), None, "a host with other work");
        assert_eq!(given_up(0, 0, 999, false), None, "no CPU is free at all");
    }

    #[test]
    fn kvm_is_kept_while_qemu_itself_starts_slowly() {
        let ticks = rustix::param::clock_ticks_per_second();
        let given_up = |vcpu_ticks| {
            let mut watch = KvmWatch::default();
            (0..100).find(|second| {
                let work = Work { run_ns: 1 + second * 1_000_000_000, ..Work::default() };
                watch.judge(Done { vcpu_ticks, guest_ticks: 0, work }, second * 1_000)
            })
        };
        assert_eq!(given_up(Some(4 * ticks)), None, "virtual CPUs have hardly begun");
        assert_eq!(given_up(None), Some(20), "it will have none");
    }

    #[test]
    fn kvm_is_given_up_later_when_the_disk_never_answers() {
        assert_eq!(given_up(0, 0, 0, true), Some(300));
        assert_eq!(given_up(1, 1, 999, true), None, "it runs between two disk requests");
    }

    #[test]
    fn kvm_is_kept_when_all_was_stopped() {
        let work = Work { run_ns: 1, ..Work::default() };
        let done = Done { work, ..Done::default() };
        let mut watch = KvmWatch::default();
        assert!(!watch.judge(done, 1_000), "it starts");
        assert!(!watch.judge(done, 3_600_000), "the host was paused");
        let stopped = Done { work: Work { is_stopped: true, ..work }, ..Done::default() };
        let mut seconds = 3_601..4_001;
        let given_up = seconds.find(|second| watch.judge(stopped, second * 1_000));
        assert_eq!(given_up, Some(3_900), "a debugger stops it forever");
    }

    #[test]
    fn kvm_is_kept_when_the_kernel_counts_no_work() {
        let mut watch = KvmWatch::default();
        assert!(!(0..100).any(|second| watch.judge(Done::default(), second * 1_000)));
    }

    #[test]
    fn messages_decide_if_kvm_ended_a_clones_qemu() {
        for words in ["", "qemu-system-x86_64: cannot set up guest memory\n"] {
            assert_eq!([true, false].map(|is_clone| ended_it(is_clone, words)), [false, true]);
        }
        assert!(ended_it(true, "Could not access KVM kernel module: Permission denied\n"));
        assert!(ended_it(true, "qemu-system-x86_64: error: failed to initialize kvm\n"));
    }

    #[test]
    fn own_process_is_read() {
        let done = done(std::process::id()).expect("it is there");
        assert!(done.work.run_ns > 0 && done.guest_ticks == 0, "{done:?}");
        assert!(!KvmWatch::default().is_mute(u32::MAX, 1_000_000));
    }
}
