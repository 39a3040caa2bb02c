//! A guest: its kernel's memory, its programs, its swap.
//!
//! ```text
//!   max ─┬─ balloon
//!        └─ actual ─┬─ kernel, anonymous memory          (swapped memory is not in it)
//!                   ├─ cache: hot, cold
//!                   └─ free: touched once, never touched
//! ```
//!
//! What programs want is had from free memory, then from cold cache, from hot cache, from swap; at
//! last the balloon gives way, or a process is killed. Each of these has its price in waiting time
//! and its counter, as in a Linux kernel. The host holds all that was ever touched.

use crate::balloon::{Balloon, Fault};
use crate::load::{Files, Load};

/// The model goes forward in steps of this.
pub const STEP_MS: u64 = 100;
/// The kernel and its own needs.
const KERNEL_KIB: u64 = 150 << 10;
/// Programs take no more memory in a step: 4 GiB a second.
const TAKE_KIB: u64 = 400 << 10;
/// A disk's share in a step: 200 MiB a second.
const DISK_KIB: u64 = 20 << 10;
/// What kswapd frees in a step without anybody waiting: 500 MiB a second.
const KSWAPD_KIB: u64 = 50 << 10;
/// Time to reclaim a MiB of clean cache, and to read or write one.
const RECLAIM_US_MIB: u64 = 300;
const DISK_US_MIB: u64 = 5_000;
/// After it was killed a program starts again.
const RESTART_MS: u64 = 30_000;
/// Pages are reported to the host this often, and so many of them.
const REPORT_MS: u64 = 2_000;
const REPORT_PERMILLE: u64 = 900;
/// What the OOM notifier takes from the balloon in a step.
const OOM_DEFLATE_KIB: u64 = 100 << 10;

/// What a guest is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// It never has less.
    pub min_kib: u64,
    /// What it was started with.
    pub max_kib: u64,
    /// What it has at first.
    pub actual_kib: u64,
    /// Its weight against others.
    pub shares: u32,
    /// What its programs want.
    pub load: Load,
    /// Of their memory they use so much all the time, in thousandths.
    pub busy_permille: u64,
    /// What it reads.
    pub files: Files,
    /// Its swap space; 0 is none.
    pub swap_kib: u64,
    /// How its balloon behaves.
    pub balloon: Fault,
    /// What the balloon moves in a second.
    pub balloon_kib_s: u64,
    /// What its hypervisor has for itself and the host takes for the guest's memory.
    pub own_kib: u64,
    /// What is so and what is not.
    pub traits: Traits,
}

/// Properties of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The daemon runs in it: pressure and refaults are reported, and a need at once.
    pub daemon: bool,
    /// Its kernel takes memory back from the balloon before it kills.
    pub deflates_on_oom: bool,
    /// Free pages are reported to the host.
    pub reports: bool,
    /// What the balloon takes gets to the host.
    pub yields: bool,
    /// The host can see how much it holds of it.
    pub resident_seen: bool,
    /// It says that all of its memory is in use and that its tasks wait, whatever is true.
    pub lies: bool,
}

/// What the kernel counts since its boot: pages and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages from swap.
    pub swap_in: u64,
    /// Pages to swap.
    pub swap_out: u64,
    /// Pages dropped too early.
    pub refaults: u64,
    /// Faults that read.
    pub major_faults: u64,
    /// Allocations that had to reclaim.
    pub stalls: u64,
    /// Processes killed.
    pub oom_kills: u64,
    /// Time in which some task waited for memory.
    pub psi_us: u64,
}

/// A guest as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// What it is made of.
    pub spec: Spec,
    /// Its balloon.
    pub balloon: Balloon,
    /// Its counters.
    pub counters: Counters,
    /// What it gave, before it killed, of its balloon.
    pub took_back_kib: u64,
    /// What its memory is used for.
    pub held: Held,
    /// Time that some task waited in the last step, in microseconds.
    pub wait_us: u64,
    boot_ms: u64,
    killed_ms: Option<u64>,
    kswapd_kib: u64,
    moved_ms: u64,
}

/// What a guest's memory is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory of programs.
    pub anon_kib: u64,
    /// Memory of programs that is in swap.
    pub swapped_kib: u64,
    /// Page cache that is used again.
    pub hot_kib: u64,
    /// What was lost of that.
    hot_lost_kib: u64,
    /// Page cache that was read once.
    pub cold_kib: u64,
    free_touched_kib: u64,
    free_untouched_kib: u64,
    stranded_kib: u64,
}

impl Guest {
    /// A guest that boots now: its kernel is there, nothing else is.
    pub fn boot(spec: Spec, now_ms: u64) -> Guest {
        let actual_kib = spec.actual_kib.min(spec.max_kib);
        Guest {
            spec,
            balloon: Balloon::at(spec.max_kib - actual_kib),
            counters: Counters::default(),
            took_back_kib: 0,
            held: Held {
                free_untouched_kib: actual_kib.saturating_sub(KERNEL_KIB),
                ..Held::default()
            },
            boot_ms: now_ms,
            killed_ms: None,
            kswapd_kib: 0,
            wait_us: 0,
            moved_ms: now_ms,
        }
    }

    /// It has all of its memory, and its kernel reports what is free of it to the host.
    pub fn report_pages(&mut self) {
        self.spec.traits.reports = true;
        self.deflate(self.balloon.size_kib);
    }

    /// What it has, by its balloon.
    pub fn actual_kib(&self) -> u64 {
        self.spec.max_kib - self.balloon.size_kib
    }

    /// What the host holds of it.
    pub fn resident_kib(&self) -> u64 {
        let used = KERNEL_KIB + self.held.anon_kib + self.held.hot_kib + self.held.cold_kib;
        used + self.held.free_touched_kib + self.held.stranded_kib
    }

    /// What the host takes for its memory.
    pub fn seen_kib(&self) -> u64 {
        self.resident_kib() + self.spec.own_kib
    }

    /// MemFree.
    pub fn free_kib(&self) -> u64 {
        self.held.free_touched_kib + self.held.free_untouched_kib
    }

    /// MemAvailable.
    pub fn available_kib(&self) -> u64 {
        (self.free_kib() + self.cache_kib()).saturating_sub(self.low_kib())
    }

    /// Page cache, all of it.
    pub fn cache_kib(&self) -> u64 {
        self.held.hot_kib + self.held.cold_kib
    }

    /// Free swap space.
    pub fn swap_free_kib(&self) -> u64 {
        self.spec.swap_kib - self.held.swapped_kib
    }

    /// What its programs want and do not have in memory.
    pub fn unmet_kib(&self, now_ms: u64) -> u64 {
        self.wanted_kib(now_ms).saturating_sub(self.held.anon_kib)
    }

    /// Whether its programs have all that they want, and nothing waited for memory in this step.
    pub fn is_content(&self, now_ms: u64) -> bool {
        self.wait_us == 0 && self.unmet_kib(now_ms) <= self.held.swapped_kib
    }

    /// Whether its virtual CPUs rest.
    pub fn is_asleep(&self, now_ms: u64) -> bool {
        let busy =
            self.spec.files.cold_kib_s > 0 && self.held.cold_kib < self.spec.files.cold_kib_max;
        let moved = now_ms.saturating_sub(self.moved_ms) < 2 * STEP_MS;
        let rests = self.spec.load.rests(now_ms - self.boot_ms) && !busy && !moved;
        rests && self.unmet_kib(now_ms) <= self.held.swapped_kib
    }

    /// Milliseconds since its boot, on its own clock.
    pub fn clock_ms(&self, now_ms: u64) -> u64 {
        now_ms - self.boot_ms
    }

    /// What its kernel keeps free.
    fn low_kib(&self) -> u64 {
        (self.spec.max_kib / 128).clamp(4 << 10, 64 << 10)
    }

    fn wanted_kib(&self, now_ms: u64) -> u64 {
        match self.killed_ms {
            Some(at_ms) if now_ms < at_ms + RESTART_MS => 0,
            _ => self.spec.load.at(now_ms - self.boot_ms),
        }
    }

    /// One step of time, which ends now.
    pub fn step(&mut self, now_ms: u64) {
        (self.wait_us, self.kswapd_kib) = (0, KSWAPD_KIB);
        self.balloon_step(now_ms);
        let asleep = self.is_asleep(now_ms);
        self.programs_step(now_ms);
        if !asleep {
            self.swap_in_step();
            self.files_step();
        }
        if self.spec.traits.reports && now_ms.is_multiple_of(REPORT_MS) {
            let reported = self.held.free_touched_kib * REPORT_PERMILLE / 1000;
            self.held.free_touched_kib -= reported;
            self.held.free_untouched_kib += reported;
        }
        self.wait_us = self.wait_us.min(STEP_MS * 1000);
        self.counters.psi_us += self.wait_us;
        let parts = KERNEL_KIB
            + self.held.anon_kib
            + self.held.hot_kib
            + self.held.cold_kib
            + self.free_kib();
        assert_eq!(parts, self.actual_kib(), "the model lost memory of a guest");
    }

    fn balloon_step(&mut self, now_ms: u64) {
        let Spec { balloon, balloon_kib_s, max_kib, .. } = self.spec;
        let step_kib = balloon_kib_s * STEP_MS / 1000;
        let most = self.balloon.wants(balloon, max_kib, step_kib, now_ms);
        if most > 0 {
            let free = self.take_for_balloon(most as u64);
            if free > 0 {
                self.moved_ms = now_ms;
            }
            self.balloon.size_kib += free;
        } else if most < 0 {
            self.deflate(most.unsigned_abs());
            self.moved_ms = now_ms;
        }
    }

    /// The balloon's driver takes free pages, as they come, and has others freed.
    fn take_for_balloon(&mut self, most: u64) -> u64 {
        let low = self.low_kib() / 2;
        let lack = (most + low).saturating_sub(self.free_kib());
        self.kswapd_kib += lack;
        self.reclaim(lack);
        self.wait_us = 0;
        let taken = most.min(self.free_kib().saturating_sub(low));
        let free = self.free_kib().max(1);
        let touched =
            (u128::from(taken) * u128::from(self.held.free_touched_kib) / u128::from(free)) as u64;
        let untouched = (taken - touched).min(self.held.free_untouched_kib);
        let touched = taken - untouched;
        self.held.free_touched_kib -= touched;
        self.held.free_untouched_kib -= untouched;
        if !self.spec.traits.yields {
            self.held.stranded_kib += touched;
        }
        taken
    }

    fn deflate(&mut self, most: u64) -> u64 {
        let given = most.min(self.balloon.size_kib);
        self.balloon.size_kib -= given;
        let stranded = given.min(self.held.stranded_kib);
        self.held.stranded_kib -= stranded;
        self.held.free_touched_kib += stranded;
        self.held.free_untouched_kib += given - stranded;
        given
    }

    fn programs_step(&mut self, now_ms: u64) {
        let wanted = self.wanted_kib(now_ms);
        let held = self.held.anon_kib + self.held.swapped_kib;
        if wanted < held {
            let less = held - wanted;
            let of_swap =
                (u128::from(less) * u128::from(self.held.swapped_kib) / u128::from(held)) as u64;
            self.held.swapped_kib -= of_swap;
            self.held.anon_kib -= less - of_swap;
            self.held.free_touched_kib += less - of_swap;
            return;
        }
        let more = (wanted - held).min(TAKE_KIB);
        if more == 0 {
            return;
        }
        let got = self.room(more);
        self.held.anon_kib += got;
        if got == more {
            return;
        }
        self.wait_us = STEP_MS * 1000;
        self.counters.stalls += 1;
        if self.swap_free_kib() > 0 || self.cache_kib() > 0 {
            return;
        }
        if self.spec.traits.deflates_on_oom && self.balloon.size_kib > 0 {
            self.took_back_kib += self.deflate((more - got).min(OOM_DEFLATE_KIB));
            self.balloon.gave_way = true;
            return;
        }
        self.counters.oom_kills += 1;
        self.killed_ms = Some(now_ms);
        self.held.free_touched_kib += self.held.anon_kib;
        (self.held.anon_kib, self.held.swapped_kib) = (0, 0);
    }

    /// Takes so much, or less, from what is free, and makes it free. What is taken counts as
    /// touched and belongs to the caller.
    fn room(&mut self, kib: u64) -> u64 {
        let lack = (kib + self.low_kib()).saturating_sub(self.free_kib());
        self.reclaim(lack);
        // The last of its memory is for the kernel alone.
        let taken = kib.min(self.free_kib().saturating_sub(self.low_kib() / 2));
        let touched = taken.min(self.held.free_touched_kib);
        self.held.free_touched_kib -= touched;
        self.held.free_untouched_kib -= taken - touched;
        taken
    }

    /// Frees so much, or less: cold cache, hot cache, memory of programs. The program that wants
    /// it waits.
    fn reclaim(&mut self, kib: u64) {
        let cold = kib.min(self.held.cold_kib);
        let hot = (kib - cold).min(self.held.hot_kib);
        self.held.cold_kib -= cold;
        self.held.hot_kib -= hot;
        self.held.hot_lost_kib += hot;
        let direct = (cold + hot).saturating_sub(self.kswapd_kib);
        self.kswapd_kib -= (cold + hot).min(self.kswapd_kib);
        self.counters.stalls += direct >> 10;
        self.wait_us += (RECLAIM_US_MIB * direct) >> 10;
        let left = kib - cold - hot;
        let out = left.min(self.swap_free_kib()).min(self.held.anon_kib).min(DISK_KIB);
        self.held.anon_kib -= out;
        self.held.swapped_kib += out;
        self.counters.swap_out += out / 4;
        self.wait_us += (DISK_US_MIB * out) >> 10;
        self.held.free_touched_kib += cold + hot + out;
    }

    /// Programs touch what was swapped of the memory that they use.
    fn swap_in_step(&mut self) {
        let all = self.held.anon_kib + self.held.swapped_kib;
        let quiet = all * (1000 - self.spec.busy_permille) / 1000;
        let missed = self.held.swapped_kib.saturating_sub(quiet);
        let most = missed.min(DISK_KIB);
        if most == 0 {
            return;
        }
        let got = self.room(most).min(self.held.swapped_kib);
        self.held.anon_kib += got;
        self.held.swapped_kib -= got;
        self.counters.swap_in += got / 4;
        self.counters.major_faults += got / 4;
        self.wait_us += (DISK_US_MIB * most) >> 10;
    }

    fn files_step(&mut self) {
        let missed = self.spec.files.hot_kib.saturating_sub(self.held.hot_kib).min(DISK_KIB);
        if missed > 0 {
            let free = self.free_kib().saturating_sub(self.low_kib()) + self.held.cold_kib;
            // Where nothing is left the cache turns over in itself.
            let got = if free > 0 { self.room(missed.min(free)) } else { 0 };
            self.held.hot_kib += got;
            let again = missed.min(self.held.hot_lost_kib);
            self.held.hot_lost_kib -= got.min(self.held.hot_lost_kib);
            self.counters.refaults += again / 4;
            self.counters.major_faults += again / 4;
            self.wait_us += (DISK_US_MIB * again) >> 10;
        }
        let files = self.spec.files;
        let new = (files.cold_kib_s * STEP_MS / 1000)
            .min(files.cold_kib_max.saturating_sub(self.held.cold_kib));
        // What is read once takes the place of what was read once before it.
        let got = new.min(self.free_kib().saturating_sub(self.low_kib()));
        let touched = got.min(self.held.free_touched_kib);
        self.held.free_touched_kib -= touched;
        self.held.free_untouched_kib -= got - touched;
        self.held.cold_kib += got;
    }
}
