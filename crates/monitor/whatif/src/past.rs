//! Memory and CPU needs of guests, step by step.

use base::Bytes;
use model::{GuestField as G, GuestIdentity, Interval, Over};
use std::collections::BTreeMap;

/// Fields of guests that are needed.
pub const FIELDS: &[G] = &[
    G::Memory,
    G::Vcpus,
    G::Actual,
    G::OwnAvailable,
    G::OwnWorkingSet,
    G::OwnPsiSome,
    G::OwnRefaultFile,
    G::OwnRefaultAnonymous,
    G::OwnSwapIn,
    G::OwnOomKills,
    G::VcpuRun,
    G::VcpuDelay,
];

/// Minimum part of a step, in thousandths, for which the tasks of a guest short of memory wait.
const SHORT_PERMILLE: u64 = 10;
/// Minimum number of refaults and swap-ins a second for a waiting guest to count as short of
/// memory. On the slowest disk, these reads take the part `SHORT_PERMILLE` of the time. Tasks also
/// wait while a balloon reclaims cold cache, but their guest then reads no pages again.
const BACK_PAGES: u64 = 1;
/// Need after a kill, as in Kubernetes' vertical pod autoscaler. The need is the larger of two
/// values: the guest's memory times the factor (in thousandths), and the guest's memory plus the
/// amount.
const KILL_PERMILLE: u64 = 1_200;
const KILL_BYTES: Bytes = Bytes::mib(100);

/// A guest in a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Number of the step, from the beginning of the time.
    pub at: usize,
    /// Used memory: the average working set, or the memory that was not available.
    pub used: Option<Bytes>,
    /// Needed memory: the used memory, or more if the guest was short of memory.
    pub needed: Option<Bytes>,
    /// Processes that were killed because memory ran out.
    pub kills: u64,
    /// CPU use of the vCPUs and their waits for CPUs, in thousandths of a CPU.
    pub cpus_permille: Option<u64>,
}

/// A guest, across its processes and boots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Name of the guest.
    pub name: String,
    /// UUID of the guest.
    pub uuid: String,
    /// Class of the guest, if any.
    pub class: String,
    /// Memory that the guest was last started with.
    pub memory: Option<Bytes>,
    /// Number of vCPUs.
    pub vcpus: Option<u64>,
    /// Time for which the needs are known.
    pub known_ms: u64,
    /// Steps with data.
    pub steps: Vec<Step>,
}

/// Needs of all guests in a time range.
#[derive(Clone, Debug)]
pub struct Past {
    /// Length of a step.
    pub step_ms: u64,
    /// Number of steps.
    pub steps: usize,
    guests: BTreeMap<(String, String), Guest>,
}

impl Past {
    /// Makes an empty past with steps of this length.
    pub fn new(step_ms: u64) -> Past {
        Past { step_ms: step_ms.max(1), steps: 0, guests: BTreeMap::new() }
    }

    /// Returns all guests, by name.
    pub fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.guests.values()
    }

    /// Keeps only the selected guests.
    pub fn retain(&mut self, is_wanted: impl Fn(&Guest) -> bool) {
        self.guests.retain(|_, guest| is_wanted(guest));
    }

    /// Keeps only the guests that existed at the end, and returns the number of the other guests. A
    /// guest that ended before another guest of its name began did not exist at the end.
    pub fn retain_present(&mut self) -> usize {
        let last = |guest: &Guest| guest.steps.last().map(|step| step.at);
        let Some(end) = self.guests.values().filter_map(last).max() else { return 0 };
        let begins: Vec<(String, String, usize)> = self
            .guests
            .values()
            .filter_map(|one| Some((one.name.clone(), one.uuid.clone(), one.steps.first()?.at)))
            .collect();
        let before = self.guests.len();
        self.retain(|guest| {
            let Some(at) = last(guest) else { return false };
            let is_other = |(name, uuid, begin): &(String, String, usize)| {
                name == &guest.name && uuid != &guest.uuid && *begin >= at
            };
            // The last sample of a guest that still exists may be from the last step but one.
            at + 1 >= end && !begins.iter().any(is_other)
        });
        before - self.guests.len()
    }

    /// Adds the next step.
    pub fn add(&mut self, interval: &Interval) {
        for (who, over) in &interval.guests {
            self.add_guest(who, over);
        }
        self.steps += 1;
    }

    fn add_guest(&mut self, who: &GuestIdentity, over: &Over<G>) {
        if over.covered_ms == 0 {
            return;
        }
        let at = self.steps;
        let guest = self.guests.entry((who.name.clone(), who.uuid.clone())).or_default();
        if guest.name.is_empty() {
            (guest.name, guest.uuid) = (who.name.clone(), who.uuid.clone());
        }
        guest.class.clone_from(&who.class);
        guest.memory = over.get(G::Memory).map(Bytes).or(guest.memory);
        guest.vcpus = over.get(G::Vcpus).or(guest.vcpus);
        let step = step(at, over);
        if step.needed.is_some() {
            guest.known_ms = guest.known_ms.saturating_add(over.covered_ms);
        }
        match guest.steps.last_mut().filter(|last| last.at == at) {
            // The guest restarted within the step. The worse of both parts counts.
            Some(last) => *last = last.worse(&step),
            None => guest.steps.push(step),
        }
    }
}

impl Step {
    fn worse(&self, other: &Step) -> Step {
        Step {
            at: self.at,
            used: self.used.max(other.used),
            needed: self.needed.max(other.needed),
            kills: self.kills.saturating_add(other.kills),
            cpus_permille: self.cpus_permille.max(other.cpus_permille),
        }
    }
}

/// Returns true if the guest read lost pages again. Also returns true for a guest without these
/// counters.
fn needs_it_again(over: &Over<G>) -> bool {
    let counts = [G::OwnRefaultFile, G::OwnRefaultAnonymous, G::OwnSwapIn];
    let back = counts.iter().filter_map(|field| over.get(*field)).reduce(u64::saturating_add);
    back.is_none_or(|pages| {
        pages.saturating_mul(1000) >= over.covered_ms.saturating_mul(BACK_PAGES)
    })
}

fn step(at: usize, over: &Over<G>) -> Step {
    let size = |field| over.get(field).map(Bytes);
    let actual = size(G::Actual);
    // A balloon does not report the cache in use, so without a working set the need is less
    // certain.
    let less_available = actual.zip(size(G::OwnAvailable)).map(|(all, free)| all.less(free));
    let used = size(G::OwnWorkingSet).or(less_available);
    let kills = over.get(G::OwnOomKills).unwrap_or(0);
    let waited_ns = over.get(G::OwnPsiSome).unwrap_or(0);
    let waits = waited_ns / 1_000 >= over.covered_ms.saturating_mul(SHORT_PERMILLE);
    let is_short = waits && needs_it_again(over);
    let mut needed = used;
    if is_short {
        // The guest would have used at least all of its memory.
        needed = needed.max(actual.filter(|_| used.is_some()));
    }
    if kills > 0 {
        let more = |had: Bytes| had.permille(KILL_PERMILLE).max(had.plus(KILL_BYTES));
        needed = needed.max(actual.map(more));
    }
    let ns = [G::VcpuRun, G::VcpuDelay].map(|field| over.get(field));
    let [ran, delayed] = ns;
    let permille = |ns: u64| ns / 1_000 / over.covered_ms.max(1);
    Step {
        at,
        used,
        needed,
        kills,
        cpus_permille: ran.map(|ran| permille(ran.saturating_add(delayed.unwrap_or(0)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MIB, interval};

    fn needs(values: &[(G, u64)]) -> Step {
        let mut past = Past::new(60_000);
        past.add(&interval(&[("web", values)]));
        let step = past.guests().next().unwrap().steps[0];
        assert_eq!((past.steps, step.at), (1, 0));
        step
    }

    #[test]
    fn a_guest_needs_its_working_set_or_its_unavailable_memory() {
        let known = [(G::Actual, 96 * MIB), (G::OwnAvailable, 60 * MIB)];
        assert_eq!(needs(&known).needed, Some(Bytes::mib(36)));
        let set = [&known[..], &[(G::OwnWorkingSet, 40 * MIB)]].concat();
        assert_eq!(needs(&set).needed, Some(Bytes::mib(40)));
        assert_eq!(needs(&known[..1]).needed, None, "nothing is known");
    }

    #[test]
    fn waiting_or_killed_guest_needs_more_than_it_had() {
        let known = [(G::Actual, 96 * MIB), (G::OwnAvailable, 60 * MIB)];
        let waits = |ms: u64| [&known[..], &[(G::OwnPsiSome, ms * 1_000_000)]].concat();
        assert_eq!(needs(&waits(599)).needed, Some(Bytes::mib(36)));
        assert_eq!(needs(&waits(600)).needed, Some(Bytes::mib(96)));
        for counter in [G::OwnRefaultFile, G::OwnRefaultAnonymous, G::OwnSwapIn] {
            let back = |pages: u64| [&waits(600)[..], &[(counter, pages)]].concat();
            assert_eq!(needs(&back(59)).needed, Some(Bytes::mib(36)), "only its balloon waits");
            assert_eq!(needs(&back(60)).needed, Some(Bytes::mib(96)));
        }
        let killed = [&known[..], &[(G::OwnOomKills, 1)]].concat();
        let step = needs(&killed);
        assert_eq!((step.used, step.needed), (Some(Bytes::mib(36)), Some(Bytes::mib(196))));
        let large = [(G::Actual, 1000 * MIB), (G::OwnAvailable, MIB), (G::OwnOomKills, 2)];
        assert_eq!(needs(&large).needed, Some(Bytes::mib(1200)));
    }

    #[test]
    fn cpus_include_used_and_awaited_time() {
        let second = 1_000_000_000;
        let ran = [(G::VcpuRun, 30 * second), (G::VcpuDelay, 15 * second)];
        assert_eq!(needs(&ran).cpus_permille, Some(750));
        assert_eq!(needs(&ran[..1]).cpus_permille, Some(500));
        assert_eq!(needs(&ran[1..]).cpus_permille, None);
    }

    #[test]
    fn a_restarted_guest_is_the_same_guest() {
        let mut past = Past::new(60_000);
        let values = [(G::Actual, 96 * MIB), (G::OwnAvailable, 60 * MIB), (G::Memory, 128 * MIB)];
        past.add(&interval(&[("web", &values)]));
        past.add(&interval(&[]));
        past.add(&interval(&[("web", &values), ("db", &values[..1])]));
        let guests: Vec<(&str, usize)> =
            past.guests().map(|guest| (guest.name.as_str(), guest.steps.len())).collect();
        assert_eq!(guests, [("db", 1), ("web", 2)]);
        let web = past.guests().last().unwrap();
        assert_eq!((web.steps[1].at, web.memory), (2, Some(Bytes::mib(128))));
        assert_eq!(past.clone().retain_present(), 0);
        past.add(&interval(&[("web", &values)]));
        past.add(&interval(&[("web", &values)]));
        assert_eq!((past.retain_present(), past.guests().count()), (1, 1), "db is gone");
        past.retain(|guest| guest.name == "db");
        assert_eq!(past.guests().count(), 0);
    }
}
