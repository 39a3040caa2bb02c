//! The search for sizes by hand. It finds each guest's smallest memory without waits, and the
//! smallest number of CPUs with which pages come as fast as from large guests.
//!
//! ```text
//!   large guests ─► memory: every guest pinned ever smaller, each judged by its own waits
//!                   CPUs:   one each against the host's, in turns
//!                   both:   large against found, in turns; memory grows while p95 is worse
//! ```
//!
//! Guests with sizes that barely sufficed for a quarter of a minute were seen to hang under the
//! same load later. So an eighth is added to the size that the search found.
//!
//! Tasks of a guest with too little memory wait long before its users notice. These waits show a
//! lack of memory within seconds, for all guests at the same time, while p95 takes minutes for each
//! guest.

use super::farms::{MANAGED_MIB, Size, boots_mib};
use super::load::{Shape, calibrate, open, order};
use super::{SIZES, Set, phase};
use crate::outcome::{Machine, Run};
use crate::site::inside::Inside;
use crate::site::{Guest, Manager, Settings, Site, jobs};
use crate::{Error, Measures, Outcome, bench, clock, shelf};
use base::Spread;
use policy::rivals::Kind;
use std::path::Path;
use std::time::Duration;

/// Maximum part of the time for which a guest's tasks may wait for memory, in percent. It is
/// senpai's limit.
const WAIT_MAX: f64 = 0.1;
/// Maximum ratio of p95 to the p95 of large guests.
const P95_MAX: f64 = 1.02;
/// A size that barely suffices, or has a worse p95, grows by one part in `GROWTH`. Sizes with a
/// worse p95 grow at most `GROWTHS_MAX` times.
const GROWTH: u32 = 8;
const GROWTHS_MAX: u32 = 1;
/// Time limit for a guest's response. A slower guest has too little memory.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Each size is one part in this many smaller than the previous size.
const STEP: u32 = 8;
/// Maximum excess of a guest's memory over its target at which the balloon counts as having reached
/// the target.
const NEAR_MIB: u32 = 4;
/// Maximum memory of a guest's hypervisor, which the budget includes.
const ROOM_MIB: u32 = 256;
/// Time limit for taking a CPU offline. A guest that had far too little memory a moment ago must
/// recover first.
const PLUG_MAX: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// Settling times after a change of memory, and after a change of CPUs. A change of CPUs slows
    /// emulated guests for half a minute, however many CPUs change.
    pub settle: Duration,
    pub switch: Duration,
    /// Duration of the observation after the settling time.
    pub look: Duration,
    /// Step of sizes in MiB. Sizes that are closer than this count as equal.
    pub grid_mib: u32,
    /// Number of turns in a comparison of two configurations, and the duration of each turn.
    pub turns: u32,
    pub turn: Duration,
}

/// The search for a guest's size. It goes down, and stops at a size that does not fit. If the first
/// try does not fit, the search first goes up. A much smaller size would harm the guest and its
/// clients, and add no information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descent {
    boots: u32,
    has: u32,
    /// Smallest size that fits.
    fits: u32,
    /// Largest size that does not fit.
    fails: u32,
    /// Next size to try, if any.
    next: Option<u32>,
}

impl Descent {
    /// Starts the search for a guest. The arguments are its smallest size, its memory, and its
    /// memory in use. The first try is one and a half times the memory in use.
    fn from(boots: u32, has: u32, in_use: u32, grid: u32) -> Descent {
        let mut descent = Descent { boots, has, fits: has, fails: 0, next: None };
        descent.look_at(in_use + in_use / 2, grid);
        descent
    }

    fn judge(&mut self, fits: bool, grid: u32) {
        let Some(tried) = self.next.take() else { return };
        if fits {
            self.fits = tried;
            self.look_at((tried - tried / STEP) / grid * grid, grid);
        } else {
            self.fails = self.fails.max(tried);
            self.look_at(tried + tried / 2, grid);
        }
    }

    /// Sets the next size, if this size can give new information.
    fn look_at(&mut self, size: u32, grid: u32) {
        let size = size.next_multiple_of(grid).max(self.boots);
        let is_new = size > self.fails && size < self.fits.min(self.has);
        self.next = is_new.then_some(size);
    }
}

/// Searches for the sizes on a farm of large guests, and notes each step and the result.
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
    // The manager has room for all guests: it only carries out the sizes set by hand.
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
    // Afterwards the farm has large guests again: the CPUs are put online here, and the memory
    // returns when the manager ends.
    by_hand.cpus(u32::MAX)
}

/// Returns the sizes found in a result, for these guests.
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

/// Returns the search in another result of this machine, if the search found sizes for all of these
/// guests.
pub(super) fn of_another(
    path: &Path,
    machine: &Machine,
    large: &[Size],
) -> Result<(Run, Outcome), Error> {
    let refused =
        |reason: &str| Error::NotTakenOver { path: path.to_path_buf(), reason: reason.to_owned() };
    let other = shelf::load(path)?;
    if other.machine != *machine {
        return Err(refused("it comes from another machine, kernel or QEMU"));
    }
    let search = other.run(SIZES, 1).filter(|run| run.finished).cloned();
    match (search, found(&other, large)) {
        (Some(search), Some(_)) => Ok((search, other)),
        _ => Err(refused("it has no finished search for these guests")),
    }
}

fn failed(why: &str) -> Error {
    Error::Failed(why.to_owned())
}

type Load<'a> = &'a dyn Fn(&mut Measures, Duration) -> Result<f64, Error>;

struct Hand<'a> {
    site: &'a Site,
    manager: &'a Manager,
    search: Search,
    /// Function that loads the guests for this long, and returns p95 in seconds.
    load: Load<'a>,
}

impl Hand<'_> {
    fn find(&self, run: &mut bench::Case<'_, '_>, host_cpus: u32) -> Result<(), Error> {
        let guests = self.site.guests();
        let large = vec![MANAGED_MIB; guests.len()];
        self.cpus(host_cpus)?;
        let Some(mut sizes) = self.memory(run)? else { return Ok(()) };
        let more = |mib: u32| (mib + mib / GROWTH).next_multiple_of(self.search.grid_mib);
        let grow = |mib: &mut u32| *mib = more(*mib).min(MANAGED_MIB);
        sizes.iter_mut().for_each(grow);
        // The guests get all of their memory back, so that guests with too little memory in the
        // last step recover.
        self.size(&large)?;
        let of = ["the host's CPUs", "one CPU each"];
        let counts = [host_cpus, 1];
        let switch = self.search.switch;
        let Some(slower) = self.in_turns(run, of, switch, &|at| self.cpus(counts[at]))? else {
            return Ok(());
        };
        let cpus = if slower.median <= P95_MAX { 1 } else { host_cpus };
        self.cpus(cpus)?;
        // Without this load, the recovery from the change of CPUs would slow the large guests in
        // the first turn.
        (self.load)(&mut Measures::default(), switch)?;
        let mut growths = 0;
        let slower = loop {
            let both = [large.clone(), sizes.clone()];
            let of = ["large", "found"];
            let settle = self.search.settle;
            let Some(slower) = self.in_turns(run, of, settle, &|at| self.size(&both[at]))? else {
                return Ok(());
            };
            if slower.median <= P95_MAX || growths == GROWTHS_MAX {
                break slower;
            }
            growths += 1;
            sizes.iter_mut().for_each(grow);
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

    /// Finds the smallest memory of each guest without waits.
    fn memory(&self, run: &mut bench::Case<'_, '_>) -> Result<Option<Vec<u32>>, Error> {
        let guests = self.site.guests();
        let grid = self.search.grid_mib;
        let begin = |guest: &Guest| -> Result<Descent, Error> {
            let class = &guest.class;
            let available = Inside::read(self.site, &guest.name)?.available_mib;
            let available =
                available.ok_or_else(|| failed(&format!("{class} reports no available memory")))?;
            // The difference includes memory that the kernel uses for itself and never reports.
            let in_use = MANAGED_MIB.saturating_sub(available as u32);
            let boots = boots_mib(class).unwrap_or(MANAGED_MIB);
            Ok(Descent::from(boots, MANAGED_MIB, in_use, grid))
        };
        let mut descents = guests.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        while descents.iter().any(|descent| descent.next.is_some()) {
            let tried: Vec<u32> = descents.iter().map(|d| d.next.unwrap_or(d.fits)).collect();
            let fits = run.phase(phase::MEMORY, |measures| {
                for (guest, mib) in guests.iter().zip(&tried) {
                    measures.note(&format!("{}, memory", guest.class), "MiB", f64::from(*mib));
                }
                self.size(&tried)?;
                (self.load)(&mut Measures::default(), self.search.settle)?;
                let before = self.look();
                // Clients of an unresponsive server wait for the server, so the other guests cannot
                // be judged until the next step.
                if before.contains(&None) {
                    let judged = before.iter().map(|answer| answer.is_none().then_some(false));
                    return Ok(judged.collect());
                }
                let from_s = clock::seconds();
                (self.load)(measures, self.search.look)?;
                let seconds = clock::seconds() - from_s;
                let after = self.look();
                let has = self.manager.ps()?.guests;
                let mut fits = Vec::new();
                for (((guest, mib), from), to) in guests.iter().zip(&tried).zip(before).zip(after) {
                    let waits = from.zip(to).map(|(from, to)| (to - from) / seconds / 1e4);
                    let has = has.iter().find(|row| row.name == guest.name);
                    let has = has.and_then(|row| row.actual_bytes);
                    let is_there = has.is_some_and(|has| has >> 20 <= u64::from(mib + NEAR_MIB));
                    measures.note(&format!("{} waits", guest.class), "%", waits);
                    fits.push(Some(is_there && waits.is_some_and(|waits| waits <= WAIT_MAX)));
                }
                Ok(fits)
            })?;
            let Some(fits) = fits else { return Ok(None) };
            for (descent, fits) in descents.iter_mut().zip(fits) {
                if let Some(fits) = fits {
                    descent.judge(fits, grid);
                }
            }
        }
        Ok(Some(descents.iter().map(|descent| descent.fits).collect()))
    }

    /// Returns the time for which tasks of each guest have waited for memory, in microseconds. The
    /// value of a guest that does not respond is missing: the guest has too little memory.
    fn look(&self) -> Vec<Option<f64>> {
        let of = |guest: &Guest| {
            Inside::read_within(self.site, &guest.name, ANSWER_MAX).ok()?.memory_wait_us
        };
        self.site.guests().iter().map(of).collect()
    }

    /// Returns the ratios of p95 in the second configuration to p95 in the first.
    fn in_turns(
        &self,
        run: &mut bench::Case<'_, '_>,
        names: [&str; 2],
        settle: Duration,
        apply: &dyn Fn(usize) -> Result<(), Error>,
    ) -> Result<Option<Spread>, Error> {
        let mut ratios = Vec::new();
        for _ in 0..self.search.turns {
            let mut both = [0.0; 2];
            for (at, name) in names.iter().enumerate() {
                let p95_s = run.phase(name, |measures| {
                    apply(at)?;
                    (self.load)(&mut Measures::default(), settle)?;
                    (self.load)(measures, self.search.turn)
                })?;
                let Some(p95_s) = p95_s else { return Ok(None) };
                both[at] = p95_s;
            }
            ratios.push(both[1] / both[0]);
        }
        Ok(Spread::of(ratios))
    }

    /// Pins the guests to these sizes, in order.
    fn size(&self, sizes_mib: &[u32]) -> Result<(), Error> {
        let mut pairs = self.site.guests().iter().zip(sizes_mib);
        pairs.try_for_each(|(guest, mib)| self.manager.pin(&guest.name, *mib))
    }

    fn cpus(&self, count: u32) -> Result<(), Error> {
        self.site.guests().iter().try_for_each(|guest| put_on(self.site, guest, count))
    }
}

pub(super) fn take_off(site: &Site, sizes: &[Size]) -> Result<(), Error> {
    let size_of = |guest: &Guest| sizes.iter().find(|size| size.class == guest.class);
    let mut sized = site.guests().iter().filter_map(|guest| Some((guest, size_of(guest)?)));
    sized.try_for_each(|(guest, size)| put_on(site, guest, size.cpus))
}

/// Lets a guest run on this many CPUs, or on all CPUs of the guest if it has fewer.
fn put_on(site: &Site, guest: &Guest, count: u32) -> Result<(), Error> {
    // The list begins with the second CPU, because the first CPU may have no file.
    let line = format!(
        "n=1; for f in /sys/devices/system/cpu/cpu[1-9]*/online; do \
         [ $n -lt {count} ] && v=1 || v=0; n=$((n + 1)); \
         [ $(cat $f) = $v ] || echo $v > $f || exit 1; done"
    );
    site.sh(&guest.name, &line, PLUG_MAX).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size found for a guest with this need and this memory in use, and the number of
    /// steps.
    fn found(needs: u32, in_use: u32) -> (u32, u32) {
        let mut descent = Descent::from(96, MANAGED_MIB, in_use, 8);
        let mut steps = 0;
        while let Some(size) = descent.next {
            descent.judge(size >= needs, 8);
            steps += 1;
        }
        (descent.fits, steps)
    }

    #[test]
    fn sizes_fall_from_the_used_memory_until_a_size_does_not_fit() {
        // The sizes are 152, 128, 112; 96 does not fit.
        assert_eq!(found(100, 100), (112, 4));
        assert_eq!(found(1, 100), (96, 4), "the guest must come up");
        assert_eq!(found(140, 100), (152, 2));
        // The first try, 152, is not enough: 232, 200, 168.
        assert_eq!(found(160, 100), (168, 4));
        assert_eq!(found(1, 20), (96, 1));
        assert_eq!(found(510, 200), (MANAGED_MIB, 2), "304, 456");
        assert_eq!(found(1, 400), (MANAGED_MIB, 0), "nothing smaller is to be tried");
    }

    /// Returns a result with a search, finished or not.
    fn searched(finished: bool) -> Outcome {
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
        let run =
            Run { case: SIZES.into(), repetition: 1, seed: None, finished, phases: vec![phase] };
        let format = crate::outcome::FORMAT;
        Outcome { format, experiment: "plug".into(), runs: vec![run], ..Outcome::default() }
    }

    #[test]
    fn sizes_of_another_result_are_used_only_if_complete() {
        let dir = vm::Scratch::new("lab-sizes").unwrap();
        let large = |class| vec![Size { class, cpus: 4, memory_mib: 512 }];
        let other_machine = Machine { cpus: 64, ..Machine::default() };
        let cases = [
            (true, Machine::default(), "weba", ""),
            (true, other_machine, "weba", "another machine"),
            (false, Machine::default(), "weba", "no finished search"),
            (true, Machine::default(), "comboa", "no finished search"),
        ];
        for (finished, machine, class, why) in cases {
            let path =
                shelf::save(&searched(finished), &crate::View::default(), dir.path()).unwrap();
            match of_another(&path, &machine, &large(class)) {
                Ok((run, _)) => assert!(why.is_empty() && run.case == SIZES, "{why}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!why.is_empty() && text.contains(why), "{text}");
                    assert!(text.contains(&path.display().to_string()), "{text}");
                }
            }
        }
    }

    #[test]
    fn found_sizes_are_read_from_the_result() {
        let large = [
            Size { class: "weba", cpus: 4, memory_mib: 512 },
            Size { class: "dba", cpus: 4, memory_mib: 512 },
        ];
        assert_eq!(super::found(&Outcome::default(), &large), None);
        let outcome = searched(true);
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
