//! A guest: its kernel's memory, its programs, its swap.
//!
//! ```text
//!   max ─┬─ balloon
//!        └─ actual ─┬─ kernel, anonymous memory          (swapped memory is not in it)
//!                   ├─ cache: hot, cold
//!                   └─ free: touched once, never touched
//! ```
//!
//! Programs get free memory first. Then the kernel reclaims cold cache and hot cache, and swaps. As
//! the last step the balloon deflates, or a process is killed. As in Linux, reclaim and swapping
//! cost waiting time, and are counted. Touched memory stays resident on the host until a balloon
//! takes it, or the guest reports it as free.

use crate::balloon::{Balloon, Fault};
use crate::load::{Files, Load};

/// Step of the model.
pub const STEP_MS: u64 = 100;
const KERNEL_KIB: u64 = 150 << 10;
/// Maximum memory that programs allocate in a step: 4 GiB a second.
const TAKE_KIB: u64 = 400 << 10;
/// Disk transfer in a step: 200 MiB a second.
const DISK_KIB: u64 = 20 << 10;
/// Memory that kswapd frees in a step without any wait: 500 MiB a second.
const KSWAPD_KIB: u64 = 50 << 10;
/// Time to reclaim a MiB of clean cache, and to read or write a MiB on a disk.
const RECLAIM_US_MIB: u64 = 300;
const DISK_US_MIB: u64 = 5_000;
/// Time after which a killed program starts again.
const RESTART_MS: u64 = 30_000;
/// Interval of page reports to the host, and the reported part of free pages, in thousandths.
const REPORT_MS: u64 = 2_000;
const REPORT_PERMILLE: u64 = 900;
/// Memory that the OOM notifier takes from the balloon in a step.
const OOM_DEFLATE_KIB: u64 = 100 << 10;

/// The properties and the load of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Minimum memory.
    pub min_kib: u64,
    /// Memory with which the guest was started.
    pub max_kib: u64,
    /// Memory at the start.
    pub actual_kib: u64,
    /// Weight in relation to other guests.
    pub shares: u32,
    /// Memory that its programs need.
    pub load: Load,
    /// Part of the programs' memory in constant use, in thousandths.
    pub busy_permille: u64,
    /// Files that it reads.
    pub files: Files,
    /// Swap space. 0 means no swap.
    pub swap_kib: u64,
    /// Behaviour of its balloon.
    pub balloon: Fault,
    /// Memory that the balloon moves in a second.
    pub balloon_kib_s: u64,
    /// Memory of its hypervisor that the host counts as the guest's memory.
    pub own_kib: u64,
    /// Traits.
    pub traits: Traits,
}

/// The traits of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// True if the daemon runs in the guest. Then pressure and refaults are reported, and a need is
    /// reported at once.
    pub daemon: bool,
    /// True if the guest's kernel deflates the balloon before it kills processes.
    pub deflates_on_oom: bool,
    /// True if free pages are reported to the host.
    pub reports: bool,
    /// True if the host gets the memory that the balloon takes.
    pub yields: bool,
    /// True if the host can see the guest's resident memory.
    pub resident_seen: bool,
    /// True if the guest always claims that all of its memory is in use and that its tasks wait.
    pub lies: bool,
}

/// The counters of a kernel since its boot: pages and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read from swap.
    pub swap_in: u64,
    /// Pages written to swap.
    pub swap_out: u64,
    /// Dropped pages of cache that were read again.
    pub refaults: u64,
    /// Faults that had to read.
    pub major_faults: u64,
    /// Allocations that had to reclaim.
    pub stalls: u64,
    /// Processes killed.
    pub oom_kills: u64,
    /// Time in which some task waited for memory.
    pub psi_us: u64,
}

/// The state of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Properties and load.
    pub spec: Spec,
    /// Balloon.
    pub balloon: Balloon,
    /// Counters.
    pub counters: Counters,
    /// Memory that the kernel took back from the balloon in place of a kill.
    pub took_back_kib: u64,
    /// Use of its memory.
    pub held: Held,
    /// Time that some task waited in the last step, in microseconds.
    pub wait_us: u64,
    boot_ms: u64,
    killed_ms: Option<u64>,
    kswapd_kib: u64,
    moved_ms: u64,
}

/// The use of a guest's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Memory of programs.
    pub anon_kib: u64,
    /// Memory of programs in swap.
    pub swapped_kib: u64,
    /// Page cache that is used again.
    pub hot_kib: u64,
    hot_lost_kib: u64,
    /// Page cache that was read once.
    pub cold_kib: u64,
    free_touched_kib: u64,
    free_untouched_kib: u64,
    stranded_kib: u64,
}

impl Guest {
    /// Creates a guest that boots now, with nothing but its kernel.
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

    /// Gives the guest all of its memory, and turns on the reporting of free pages.
    pub fn report_pages(&mut self) {
        self.spec.traits.reports = true;
        self.deflate(self.balloon.size_kib);
    }

    /// Returns the memory that its balloon leaves the guest.
    pub fn actual_kib(&self) -> u64 {
        self.spec.max_kib - self.balloon.size_kib
    }

    /// Returns the guest's resident memory on the host.
    pub fn resident_kib(&self) -> u64 {
        let used = KERNEL_KIB + self.held.anon_kib + self.held.hot_kib + self.held.cold_kib;
        used + self.held.free_touched_kib + self.held.stranded_kib
    }

    /// Returns the memory that the host counts as the guest's memory.
    pub fn seen_kib(&self) -> u64 {
        self.resident_kib() + self.spec.own_kib
    }

    /// Returns MemFree.
    pub fn free_kib(&self) -> u64 {
        self.held.free_touched_kib + self.held.free_untouched_kib
    }

    /// Returns MemAvailable.
    pub fn available_kib(&self) -> u64 {
        (self.free_kib() + self.cache_kib()).saturating_sub(self.low_kib())
    }

    /// Returns all of its page cache.
    pub fn cache_kib(&self) -> u64 {
        self.held.hot_kib + self.held.cold_kib
    }

    /// Returns the free swap space.
    pub fn swap_free_kib(&self) -> u64 {
        self.spec.swap_kib - self.held.swapped_kib
    }

    /// Returns the memory that the guest's programs need beyond their resident memory.
    pub fn unmet_kib(&self, now_ms: u64) -> u64 {
        self.wanted_kib(now_ms).saturating_sub(self.held.anon_kib)
    }

    /// Returns true if its programs have all memory that they need, and no task waited in this
    /// step.
    pub fn is_content(&self, now_ms: u64) -> bool {
        self.wait_us == 0 && self.unmet_kib(now_ms) <= self.held.swapped_kib
    }

    /// Returns true if its virtual CPUs are idle.
    pub fn is_asleep(&self, now_ms: u64) -> bool {
        let busy =
            self.spec.files.cold_kib_s > 0 && self.held.cold_kib < self.spec.files.cold_kib_max;
        let moved = now_ms.saturating_sub(self.moved_ms) < 2 * STEP_MS;
        let rests = self.spec.load.rests(now_ms - self.boot_ms) && !busy && !moved;
        rests && self.unmet_kib(now_ms) <= self.held.swapped_kib
    }

    /// Returns the milliseconds since its boot, on its own clock.
    pub fn clock_ms(&self, now_ms: u64) -> u64 {
        now_ms - self.boot_ms
    }

    /// Returns the memory that its kernel keeps free.
    fn low_kib(&self) -> u64 {
        (self.spec.max_kib / 128).clamp(4 << 10, 64 << 10)
    }

    fn wanted_kib(&self, now_ms: u64) -> u64 {
        match self.killed_ms {
            Some(at_ms) if now_ms < at_ms + RESTART_MS => 0,
            _ => self.spec.load.at(now_ms - self.boot_ms),
        }
    }

    /// Runs one step of time, which ends now.
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

    /// Inflates the balloon with free pages, and reclaims further pages for it.
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

    /// Allocates up to `kib`, and reclaims memory for this if too little is free. The allocated
    /// memory counts as touched, and belongs to the caller.
    fn room(&mut self, kib: u64) -> u64 {
        let lack = (kib + self.low_kib()).saturating_sub(self.free_kib());
        self.reclaim(lack);
        // The last free memory is for the kernel alone.
        let taken = kib.min(self.free_kib().saturating_sub(self.low_kib() / 2));
        let touched = taken.min(self.held.free_touched_kib);
        self.held.free_touched_kib -= touched;
        self.held.free_untouched_kib -= taken - touched;
        taken
    }

    /// Frees up to `kib`: first cold cache, then hot cache, then memory of programs. The program
    /// that needs the memory waits.
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

    /// Reads back the swapped memory that programs use.
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
            // Without free memory or cold cache, hot cache replaces hot cache.
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
        // New cold cache takes only free memory. More new cache would only replace old cold cache.
        let got = new.min(self.free_kib().saturating_sub(self.low_kib()));
        let touched = got.min(self.held.free_touched_kib);
        self.held.free_touched_kib -= touched;
        self.held.free_untouched_kib -= got - touched;
        self.held.cold_kib += got;
    }
}
