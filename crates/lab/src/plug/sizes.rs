//! Sizes by hand, found: of each guest the least memory at which it does not wait for memory, and
//! the fewest CPUs, with which pages come as fast as from large guests.
//!
//! ```text
//!   large guests ─► memory: every guest pinned by halves, each judged by its own waits
//!                   CPUs:   one each against the host's, in turns
//!                   both:   large against found, in turns; memory grows while p95 is worse
//! ```
//!
//! A guest that has too little memory waits for it long before its users can tell: that decides
//! within seconds, and for all guests at the same time, where p95 takes minutes for each.

use super::farms::{MANAGED_MIB, Size, boots_mib};
use super::load::{Shape, calibrate, open, order};
use super::{SIZES, Set, phase};
use crate::site::inside::Inside;
use crate::site::{Guest, Manager, Settings, Site, jobs};
use crate::{Error, Measures, Outcome, bench, clock};
use base::Spread;
use policy::rivals::Kind;
use std::time::Duration;

/// A task of a guest may wait for memory for so much of the time, in percent: as much as senpai
/// lets it.
const WAIT_MAX: f64 = 0.1;
/// p95 may be so much of that of large guests.
const P95_MAX: f64 = 1.02;
/// A size whose p95 is worse grows by one of so many parts, so often at most.
const GROWTH: u32 = 8;
const GROWTHS_MAX: u32 = 2;
/// A balloon has come to its target if it is this near.
const NEAR_MIB: u32 = 4;
/// What a guest's hypervisor has for itself at most, for which there is room as well.
const ROOM_MIB: u32 = 256;
/// A guest takes a CPU off in this time.
const PLUG_MAX: Duration = Duration::from_secs(60);

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// How long guests have after a change, and how long they are looked at then.
    pub settle: Duration,
    pub look: Duration,
    /// Sizes this near to each other are one, in MiB.
    pub grid_mib: u32,
    /// How often, and how long each time, two ways are compared.
    pub turns: u32,
    pub turn: Duration,
}

/// Sizes that fit and that do not, ever nearer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Halves {
    /// The largest that may be too small.
    below: u32,
    /// The smallest that fits.
    fits: u32,
}

impl Halves {
    /// Nothing is known of a guest that comes up with so much.
    fn from(boots_mib: u32) -> Halves {
        Halves { below: boots_mib - 1, fits: MANAGED_MIB }
    }

    /// The size to try next, if there is one between them.
    fn next(self, grid_mib: u32) -> Option<u32> {
        let middle = (self.below + self.fits) / 2 / grid_mib * grid_mib;
        (middle > self.below && middle < self.fits).then_some(middle)
    }

    fn judge(&mut self, size_mib: u32, fits: bool) {
        match fits {
            true => self.fits = size_mib,
            false => self.below = size_mib,
        }
    }
}

/// Looks for the sizes on a farm of large guests, and notes each step and what was found.
pub(super) fn search(
    run: &mut bench::Case<'_, '_>,
    site: &Site,
    sets: &[Set],
    shape: Shape,
    search: Search,
) -> Result<(), Error> {
    let cpus = run.outcome().machine.cpus;
    calibrate(run, site, sets, cpus, shape)?;
    let rate = run.outcome().values(SIZES, phase::FOUND, "rate").last().map(|(_, rate)| *rate);
    let Some(rate) = rate else { return Ok(()) };
    let targets = order(site, sets, run.seed());
    let load = |measures: &mut Measures, time| {
        let outcome = jobs::load(measures, targets.clone(), open(rate), time)?;
        let latency = outcome.all.latency_us();
        latency.map(|one| one.p95_us as f64 / 1e6).ok_or_else(|| failed("No page was served"))
    };
    // A manager with room for all of them does what is said by hand, and nothing else.
    let room_mib = site.guests().len() as u64 * u64::from(MANAGED_MIB + ROOM_MIB);
    let settings = Settings {
        rules: Kind::Pinhead,
        budget_mib: room_mib,
        set_point_mib: room_mib / 20,
        leaves_ksm: true,
        page_out_after: None,
    };
    let Some(manager) = run.manage(phase::START, site, &settings, |_, _| Ok(()))? else {
        return Ok(());
    };
    let by_hand = Hand { site, manager: &manager, search, load: &load };
    by_hand.find(run, cpus)?;
    // The guests are used as large ones after that; their memory they get as the manager ends.
    by_hand.cpus(u32::MAX)
}

/// What was found in a result, of these guests.
pub(super) fn found(outcome: &Outcome, large: &[Size]) -> Option<Vec<Size>> {
    let run = outcome.run(SIZES, 1)?;
    let sizes = run.phases.iter().find(|phase| phase.name == phase::SIZES)?;
    let of = |Size { class, .. }: &Size| {
        let cpus = sizes.value(&format!("{class}, CPUs"))? as u32;
        let memory_mib = sizes.value(&format!("{class}, memory"))? as u32;
        Some(Size { class, cpus, memory_mib })
    };
    large.iter().map(of).collect()
}

fn failed(why: &str) -> Error {
    Error::Failed(why.to_owned())
}

type Load<'a> = &'a dyn Fn(&mut Measures, Duration) -> Result<f64, Error>;

struct Hand<'a> {
    site: &'a Site,
    manager: &'a Manager,
    search: Search,
    /// Loads the guests for so long and gives p95 in seconds.
    load: Load<'a>,
}

impl Hand<'_> {
    fn find(&self, run: &mut bench::Case<'_, '_>, host_cpus: u32) -> Result<(), Error> {
        let guests = self.site.guests();
        let large = vec![MANAGED_MIB; guests.len()];
        self.cpus(host_cpus)?;
        let Some(mut sizes) = self.memory(run)? else { return Ok(()) };
        self.size(&sizes)?;
        let of = ["the host's CPUs", "one CPU each"];
        let counts = [host_cpus, 1];
        let Some(slower) = self.in_turns(run, of, &|at| self.cpus(counts[at]))? else {
            return Ok(());
        };
        let cpus = if slower.median <= P95_MAX { 1 } else { host_cpus };
        self.cpus(cpus)?;
        let mut growths = 0;
        let slower = loop {
            let both = [large.clone(), sizes.clone()];
            let of = ["large", "found"];
            let Some(slower) = self.in_turns(run, of, &|at| self.size(&both[at]))? else {
                return Ok(());
            };
            if slower.median <= P95_MAX || growths == GROWTHS_MAX {
                break slower;
            }
            growths += 1;
            sizes.iter_mut().for_each(|mib| *mib = (*mib + *mib / GROWTH).min(MANAGED_MIB));
        };
        run.phase(phase::SIZES, |measures| {
            for (Guest { class, .. }, mib) in guests.iter().zip(&sizes) {
                measures.note(&format!("{class}, memory"), "MiB", f64::from(*mib));
                measures.note(&format!("{class}, CPUs"), "", f64::from(cpus));
            }
            measures.note("p95 against large guests", "x", slower.median);
            measures.note("lowest", "x", slower.low);
            measures.note("highest", "x", slower.high);
            Ok(())
        })?;
        Ok(())
    }

    /// The least memory of each guest at which it does not wait.
    fn memory(&self, run: &mut bench::Case<'_, '_>) -> Result<Option<Vec<u32>>, Error> {
        let guests = self.site.guests();
        let begin = |guest: &Guest| boots_mib(&guest.class).map(Halves::from);
        let mut halves: Vec<Halves> = guests.iter().filter_map(begin).collect();
        while halves.iter().any(|one| one.next(self.search.grid_mib).is_some()) {
            let tried: Vec<u32> =
                halves.iter().map(|h| h.next(self.search.grid_mib).unwrap_or(h.fits)).collect();
            let fits = run.phase(phase::MEMORY, |measures| {
                self.size(&tried)?;
                (self.load)(&mut Measures::default(), self.search.settle)?;
                let look = || guests.iter().map(|guest| Inside::read(self.site, &guest.name));
                let before: Vec<Inside> = look().collect::<Result<_, _>>()?;
                let from_s = clock::seconds();
                (self.load)(measures, self.search.look)?;
                let has = self.manager.ps()?.guests;
                let seconds = clock::seconds() - from_s;
                let after: Vec<Inside> = look().collect::<Result<_, _>>()?;
                let mut fits = Vec::new();
                for (((guest, mib), from), to) in guests.iter().zip(&tried).zip(before).zip(after) {
                    let waited_us = to.memory_wait_us.zip(from.memory_wait_us);
                    let percent = waited_us.map(|(to, from)| (to - from) / seconds / 1e4);
                    let class = &guest.class;
                    let waits = percent.ok_or_else(|| {
                        failed(&format!("{class} does not tell how long it waits for memory"))
                    })?;
                    let has = has.iter().find(|row| row.name == guest.name);
                    let has = has.and_then(|row| row.actual_bytes).ok_or_else(|| {
                        failed(&format!("The manager does not know how much {class} has"))
                    })?;
                    measures.note(&format!("{class}, memory"), "MiB", f64::from(*mib));
                    measures.note(&format!("{class} waits"), "%", waits);
                    let is_there = has >> 20 <= u64::from(mib + NEAR_MIB);
                    fits.push(waits <= WAIT_MAX && is_there);
                }
                Ok(fits)
            })?;
            let Some(fits) = fits else { return Ok(None) };
            for ((half, size), fits) in halves.iter_mut().zip(tried).zip(fits) {
                half.judge(size, fits);
            }
        }
        Ok(Some(halves.iter().map(|half| half.fits).collect()))
    }

    /// How much slower the second of two ways is than the first: the ratios of their p95.
    fn in_turns(
        &self,
        run: &mut bench::Case<'_, '_>,
        names: [&str; 2],
        apply: &dyn Fn(usize) -> Result<(), Error>,
    ) -> Result<Option<Spread>, Error> {
        let mut ratios = Vec::new();
        for _ in 0..self.search.turns {
            let mut both = [0.0; 2];
            for (at, name) in names.iter().enumerate() {
                let p95_s = run.phase(name, |measures| {
                    apply(at)?;
                    (self.load)(&mut Measures::default(), self.search.settle)?;
                    (self.load)(measures, self.search.turn)
                })?;
                let Some(p95_s) = p95_s else { return Ok(None) };
                both[at] = p95_s;
            }
            ratios.push(both[1] / both[0]);
        }
        Ok(Spread::of(ratios))
    }

    /// Pins the guests to these sizes, in their order.
    fn size(&self, sizes_mib: &[u32]) -> Result<(), Error> {
        let mut pairs = self.site.guests().iter().zip(sizes_mib);
        pairs.try_for_each(|(guest, mib)| self.manager.pin(&guest.name, *mib))
    }

    /// Lets every guest run on so many CPUs, or on all that it has.
    fn cpus(&self, count: u32) -> Result<(), Error> {
        // The first cannot be taken off, and has no file where that is so.
        let line = format!(
            "n=1; for f in /sys/devices/system/cpu/cpu[1-9]*/online; do \
             [ $n -lt {count} ] && v=1 || v=0; n=$((n + 1)); \
             [ $(cat $f) = $v ] || echo $v > $f || exit 1; done"
        );
        self.site.guests().iter().try_for_each(|guest| {
            self.site.sh(&guest.name, &line, PLUG_MAX)?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size that is found of a guest that needs so much, and in how many steps.
    fn found(needs_mib: u32, grid_mib: u32) -> (u32, u32) {
        let mut halves = Halves::from(96);
        let mut steps = 0;
        while let Some(size_mib) = halves.next(grid_mib) {
            halves.judge(size_mib, size_mib >= needs_mib);
            steps += 1;
        }
        (halves.fits, steps)
    }

    #[test]
    fn the_least_size_that_fits_is_found_in_a_few_steps() {
        for needs_mib in [1, 96, 97, 104, 130, 200, 333, 504, 511, MANAGED_MIB] {
            let (size_mib, steps) = found(needs_mib, 8);
            let expected = needs_mib.max(96).next_multiple_of(8);
            assert_eq!(size_mib, expected, "{needs_mib}");
            assert!(steps <= 6, "{needs_mib}: {steps}");
        }
    }

    #[test]
    fn what_was_found_is_read_from_the_result() {
        let large = [
            Size { class: "weba", cpus: 4, memory_mib: 512 },
            Size { class: "dba", cpus: 4, memory_mib: 512 },
        ];
        let mut outcome = Outcome::default();
        assert_eq!(super::found(&outcome, &large), None);
        let mut measures = Measures::default();
        for (class, cpus, mib) in [("weba", 1.0, 104.0), ("dba", 2.0, 160.0)] {
            measures.note(&format!("{class}, memory"), "MiB", mib);
            measures.note(&format!("{class}, CPUs"), "", cpus);
        }
        let phase = crate::outcome::Phase {
            name: phase::SIZES.into(),
            seconds: 1.0,
            failed: None,
            measures: measures.0,
        };
        outcome.runs.push(crate::outcome::Run {
            case: SIZES.into(),
            repetition: 1,
            seed: None,
            finished: true,
            phases: vec![phase],
        });
        let found = super::found(&outcome, &large).unwrap_or_default();
        assert_eq!(
            found,
            [
                Size { class: "weba", cpus: 1, memory_mib: 104 },
                Size { class: "dba", cpus: 2, memory_mib: 160 },
            ]
        );
    }
}
