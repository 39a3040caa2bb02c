//! Guests over time: selection by a pattern, grouping, and joining of a guest's boots.

use crate::facts::Added;
use crate::pattern::Pattern;
use base::named;
use model::{Field, Gap, GuestField, GuestIdentity, Interval, Kind, Over, Row, TierField};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

/// Recordings and other facts of one host.
#[derive(Clone, Debug, Default)]
pub struct HostData {
    /// Name of the host.
    pub name: String,
    /// Further facts that HDR shows, such as the kernel, as names and values.
    pub facts: Vec<(String, String)>,
    /// Recorded intervals, oldest first. Any time between two intervals is a gap.
    pub intervals: Vec<Interval>,
    /// Gaps with a known reason.
    pub gaps: Vec<Gap>,
    /// Start and end of all recordings of the host, if the source provides them.
    pub recorded: Option<(i64, i64)>,
}

impl HostData {
    /// Adds the next interval. Its processes are added to the processes of the first interval,
    /// because reports show processes only over the whole time. Processes are most of a recording.
    pub fn add(&mut self, mut interval: Interval) {
        let processes = std::mem::take(&mut interval.processes);
        self.intervals.push(interval);
        let sum = &mut self.intervals[0].processes;
        for (who, processes) in processes {
            let Some(known) = sum.get_mut(&who) else {
                sum.insert(who, processes);
                continue;
            };
            for (name, later) in processes {
                known.entry(name).and_modify(|over| over.add(&later)).or_insert(later);
            }
        }
    }
}

impl HostData {
    /// Removes the time before the first sample and after the last sample. The steps of a query
    /// begin at round times, but a manager may start at any time. The time before the manager's
    /// start is no gap of the recording. `recorded` contains the times of the first and the last
    /// sample of all recordings.
    pub fn only_sampled(&mut self, recorded: Option<(i64, i64)>) {
        let is_sampled = |interval: &Interval| {
            let guests = interval.guests.values().map(|guest| guest.covered_ms);
            let tiers = interval.tiers.values().map(|tier| tier.covered_ms);
            guests.chain(tiers).chain([interval.host.covered_ms]).any(|covered_ms| covered_ms > 0)
        };
        let empty = self.intervals.iter().take_while(|interval| !is_sampled(interval)).count();
        if empty == self.intervals.len() {
            self.intervals.clear();
            return;
        }
        let processes = std::mem::take(&mut self.intervals[0].processes);
        self.intervals.drain(..empty);
        let begin_ms = self.intervals[0].from_ms;
        let is_before = |gap: &&Gap| gap.from_ms <= begin_ms && gap.to_ms > begin_ms;
        let gap_ms = self.gaps.iter().filter(is_before).map(|gap| gap.to_ms).max();
        let first_ms = recorded.map(|(first_ms, _)| first_ms).filter(|ms| *ms > begin_ms);
        let first = &mut self.intervals[0];
        first.processes.extend(processes);
        if let Some(from_ms) = first_ms.or(gap_ms) {
            let late_ms = unsampled_ms(first, from_ms.abs_diff(begin_ms));
            first.from_ms = first.from_ms.saturating_add_unsigned(late_ms);
            first.length_ms -= late_ms;
        }
        let from_ms = first.from_ms;
        self.gaps.retain(|gap| gap.to_ms > from_ms);
        self.gaps.iter_mut().for_each(|gap| gap.from_ms = gap.from_ms.max(from_ms));
        if let Some((last, (_, last_ms))) = self.intervals.last_mut().zip(recorded) {
            let after_ms = end_of(last).saturating_sub(last_ms).max(0).unsigned_abs();
            last.length_ms -= unsampled_ms(last, after_ms);
        }
    }
}

/// Returns the part of `wanted_ms` that may be cut from an interval, in whole seconds.
fn unsampled_ms(interval: &Interval, wanted_ms: u64) -> u64 {
    let lost_ms = interval.length_ms.saturating_sub(interval.host.covered_ms);
    let cut_ms = wanted_ms.min(lost_ms);
    cut_ms - cut_ms % 1_000
}

pub(crate) fn end_of(interval: &Interval) -> i64 {
    interval.from_ms.saturating_add(i64::try_from(interval.length_ms).unwrap_or(i64::MAX))
}

named! {
    /// Subject of a report row.
    #[derive(Default)]
    pub enum By {
        /// One guest.
        #[default]
        Guest = "guest",
        /// All guests of a class.
        Class = "class",
        /// All guests of a host.
        Host = "host",
    }
}

/// A guest as a reader sees it: all boots and QEMU processes of a guest count as one guest. The
/// texts are shared, because every interval contains them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GuestId {
    pub name: Arc<str>,
    pub class: Arc<str>,
    pub uuid: Arc<str>,
}

impl GuestId {
    pub(crate) fn of(who: &GuestIdentity) -> GuestId {
        let text = |text: &String| Arc::from(text.as_str());
        GuestId { name: text(&who.name), class: text(&who.class), uuid: text(&who.uuid) }
    }

    /// Returns the subject of the row that counts the guest. An empty class name stands for guests
    /// without a class.
    pub(crate) fn subject(&self, by: By) -> GuestId {
        match by {
            By::Guest => self.clone(),
            By::Class => GuestId { class: self.class.clone(), ..GuestId::default() },
            By::Host => GuestId::default(),
        }
    }
}

/// Fields of one or more guests over some time. The fields of one guest in one interval are
/// borrowed from the interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured<'a> {
    pub over: Cow<'a, Over<GuestField>>,
    /// Values calculated for each guest.
    pub added: Added,
}

impl<'a> Measured<'a> {
    fn of(over: &'a Over<GuestField>) -> Measured<'a> {
        Measured { over: Cow::Borrowed(over), added: Added::of(over) }
    }

    /// Adds the values of a later time.
    pub(crate) fn then(&mut self, later: &Measured<'_>) {
        self.over.to_mut().add(&later.over);
        self.added = self.added.plus(&later.added);
    }

    pub(crate) fn apart(&self) -> Measured<'static> {
        Measured { over: Cow::Owned(self.over.as_ref().clone()), added: self.added }
    }
}

/// Guests by identity, with `None` for a guest that the pattern does not match.
pub(crate) type Taken<'a> = HashMap<&'a GuestIdentity, Option<GuestId>>;

/// Returns the guests of an interval that match the pattern, with boots of one guest joined.
/// `Taken` caches the matches for the next interval.
pub(crate) fn guests_of<'a>(
    interval: &'a Interval,
    pattern: Option<&Pattern>,
    taken: &mut Taken<'a>,
) -> BTreeMap<GuestId, Measured<'a>> {
    let mut found: BTreeMap<GuestId, Measured<'a>> = BTreeMap::new();
    for (who, over) in &interval.guests {
        let is_taken = |who| pattern.is_none_or(|pattern| pattern.takes(who));
        let id = taken.entry(who).or_insert_with(|| is_taken(who).then(|| GuestId::of(who)));
        let Some(id) = id else { continue };
        let measured = Measured::of(over);
        match found.get_mut(id) {
            Some(earlier) => earlier.then(&measured),
            None => {
                found.insert(id.clone(), measured);
            }
        }
    }
    found
}

/// Joins guests of one name that ran one after the other within the host's covered time. Such
/// guests are one guest that was started again. Without the join, a sum would count this guest
/// twice.
pub(crate) fn in_turn<'a>(
    guests: impl IntoIterator<Item = (&'a GuestId, &'a Measured<'a>)>,
    whole_ms: u64,
) -> Vec<Cow<'a, Measured<'a>>> {
    let mut joined: Vec<Cow<'a, Measured<'a>>> = Vec::new();
    let mut last: Option<&GuestId> = None;
    // Guests are sorted by name.
    for (id, guest) in guests {
        let is_again = last.is_some_and(|last| last.name == id.name && last.class == id.class);
        last = Some(id);
        // Without any covered time, the two guests may have run at the same time.
        let follows = |before: &Measured<'_>| {
            whole_ms > 0 && before.over.covered_ms + guest.over.covered_ms <= whole_ms
        };
        match joined.last_mut().filter(|before| is_again && follows(before)) {
            Some(before) => before.to_mut().then(guest),
            None => joined.push(Cow::Borrowed(guest)),
        }
    }
    joined
}

/// Sums several guests of one interval, over the longest covered time of a guest. If the host
/// always knows a field, or if daemons report it, the field is summed over the guests that have it.
/// Any other field is missing if one guest lacks it, because a quotient of sums over different
/// guests would be wrong.
pub(crate) fn together<'a>(
    guests: impl IntoIterator<Item = &'a Measured<'a>>,
) -> Measured<'static> {
    let guests: Vec<&Measured<'_>> = guests.into_iter().collect();
    let covered_ms = guests.iter().map(|guest| guest.over.covered_ms).max().unwrap_or(0);
    let mut row = Row::default();
    for field in GuestField::ALL {
        row.set(*field, sum_of(&guests, *field, covered_ms));
    }
    let added = guests.iter().fold(Added::default(), |sum, guest| sum.plus(&guest.added));
    Measured { over: Cow::Owned(Over { covered_ms, row }), added }
}

fn sum_of(guests: &[&Measured<'_>], field: GuestField, covered_ms: u64) -> Option<u64> {
    if field == GuestField::OwnRootUsed && guests.len() > 1 {
        // Percentages of single guests have no sum.
        return None;
    }
    let mut sum: Option<u64> = None;
    for guest in guests {
        let Some(value) = guest.over.get(field) else {
            if MAY_LACK[field.index()] {
                continue;
            }
            return None;
        };
        let value = match field.kind() {
            Kind::Counter => value,
            Kind::Gauge => weighed(value, guest.over.covered_ms, covered_ms),
        };
        sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
    sum
}

/// Longest unreported time of a guest that still counts as present throughout. A sleeping guest is
/// reported once a minute, so its last minute may be missing.
pub(crate) const UNREPORTED_MS: u64 = 75_000;

/// Weights a gauge by the part of the time in which its guest was present.
fn weighed(value: u64, part_ms: u64, whole_ms: u64) -> u64 {
    if part_ms.saturating_add(UNREPORTED_MS) >= whole_ms {
        return value;
    }
    let weighed = u128::from(value) * u128::from(part_ms) / u128::from(whole_ms);
    u64::try_from(weighed).unwrap_or(u64::MAX)
}

/// Cached results of `may_lack`, which are needed for every guest in every interval.
static MAY_LACK: LazyLock<Vec<bool>> =
    LazyLock::new(|| GuestField::ALL.iter().map(|field| may_lack(*field)).collect());

/// Returns true if the sum of a field is useful even if a guest lacks it.
fn may_lack(field: GuestField) -> bool {
    use GuestField as G;
    let plain = [
        G::VcpuRun,
        G::VcpuDelay,
        G::VcpuDispatches,
        G::Vcpus,
        G::OtherRun,
        G::OtherDelay,
        G::OtherDispatches,
        G::Resident,
    ];
    plain.contains(&field) || field.name().starts_with("own_")
}

/// Sums all tiers of an interval.
pub(crate) fn all_tiers(interval: &Interval, covered_ms: u64) -> Over<TierField> {
    let mut sum = Over { covered_ms, ..Over::default() };
    interval.tiers.values().for_each(|tier| sum.add_concurrent(tier));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(run: u64, guest: Option<u64>, covered_ms: u64) -> Measured<'static> {
        let mut row = Row::default();
        row.set(GuestField::VcpuRun, Some(run));
        row.set(GuestField::VcpuGuest, guest);
        row.set(GuestField::Resident, Some(1000));
        row.set(GuestField::Vcpus, Some(1));
        Measured::of(&Over { covered_ms, row }).apart()
    }

    #[test]
    fn a_sum_is_over_the_same_guests_or_missing() {
        let (one, two) = (guest(10, Some(5), 600_000), guest(20, None, 300_000));
        let sum = together([&one, &two]);
        assert_eq!(sum.over.get(GuestField::VcpuRun), Some(30));
        assert_eq!(sum.over.get(GuestField::VcpuGuest), None);
        assert_eq!(sum.over.get(GuestField::Resident), Some(1500));
        assert_eq!(sum.added.virtual_ns, Some(25));
        assert_eq!(together([&one, &one]).over.get(GuestField::VcpuGuest), Some(10));
    }

    fn minute(at: i64, covered_ms: u64) -> Interval {
        let host = Over { covered_ms, row: Row::default() };
        Interval { from_ms: at * 60_000, length_ms: 60_000, host, ..Interval::default() }
    }

    #[test]
    fn report_begins_and_ends_with_samples() {
        let check =
            |covered: &[u64], recorded, gap: (i64, i64), expected: (i64, u64, u64, usize)| {
                let intervals = (0..).zip(covered).map(|(at, ms)| minute(at, *ms)).collect();
                let gaps = vec![Gap { from_ms: gap.0, to_ms: gap.1, reason: "restart".into() }];
                let mut host = HostData { intervals, gaps, ..HostData::default() };
                host.only_sampled(recorded);
                let (first, last) = (&host.intervals[0], host.intervals.last().expect("some"));
                let lengths = (first.length_ms, last.length_ms);
                assert_eq!((first.from_ms, lengths.0, lengths.1, host.gaps.len()), expected);
            };
        // The recording begins 52 s into its first minute, and ends 30 s into its last minute.
        let recorded = Some((52_000, 90_000));
        check(&[8_000, 30_000], recorded, (70_000, 80_000), (52_000, 8_000, 30_000, 1));
        check(&[0, 8_000], Some((112_000, 120_000)), (0, 10_000), (112_000, 8_000, 8_000, 0));
        // The manager was stopped before the first recorded minute, and for 20 s of this minute.
        check(&[0, 40_000], Some((-90, 120_000)), (-90, 80_000), (80_000, 40_000, 40_000, 0));
        // A gap later in the first minute stays a gap.
        check(&[40_000], Some((0, 60_000)), (20_000, 40_000), (0, 60_000, 60_000, 1));
        // Sampling is not exact to the millisecond.
        check(&[59_500], Some((500, 60_000)), (20_000, 40_000), (0, 60_000, 60_000, 1));
        // The recording begins before the time of the report.
        check(&[8_000], Some((-90, 60_000)), (20_000, 72_000), (0, 60_000, 60_000, 1));
        check(&[8_000], None, (20_000, 72_000), (0, 60_000, 60_000, 1));
        let mut none = HostData { intervals: vec![minute(0, 0)], ..HostData::default() };
        none.only_sampled(None);
        assert!(none.intervals.is_empty());
    }

    #[test]
    fn guest_that_was_started_again_counts_once_in_a_sum() {
        let id = |name: &str, uuid: &str| GuestId {
            name: Arc::from(name),
            uuid: Arc::from(uuid),
            ..GuestId::default()
        };
        let (old, new) = (guest(10, None, 30_000), guest(20, None, 6_000));
        let all = [(&id("g1", "a"), &old), (&id("g1", "b"), &new), (&id("g2", "c"), &old)];
        let sum = |whole_ms| {
            let guests = in_turn(all, whole_ms);
            together(guests.iter().map(|guest| &**guest))
        };
        assert_eq!(sum(36_000).over.get(GuestField::Resident), Some(2000));
        assert_eq!(sum(36_000).over.get(GuestField::VcpuRun), Some(40));
        // Guests of two farms may have the same name at the same time.
        assert_eq!(sum(30_000).over.get(GuestField::Resident), Some(3000));
        let none = guest(10, None, 0);
        assert_eq!(in_turn([(&id("g1", "a"), &none), (&id("g1", "b"), &none)], 0).len(), 2);
    }

    #[test]
    fn sleeping_guest_counts_whole_in_a_sum() {
        let (one, two) = (guest(10, None, 52_000), guest(20, None, 12_000));
        let sum = together([&one, &two]);
        assert_eq!(sum.over.covered_ms, 52_000);
        assert_eq!(sum.over.get(GuestField::Resident), Some(2000));
        assert_eq!(sum.over.get(GuestField::Vcpus), Some(2));
    }
}
