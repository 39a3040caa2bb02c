//! Guests over time: selection by pattern, grouping, and boots of one guest joined.

use crate::Error;
use crate::facts::Added;
use base::{glob, named};
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
    /// Recorded intervals, oldest first; the time between two of them is a gap.
    pub intervals: Vec<Interval>,
    /// Gaps with a known reason.
    pub gaps: Vec<Gap>,
}

impl HostData {
    /// Adds the next interval. Processes are most of a recording, but reports have no row of a
    /// process for each interval. So each interval's processes are added to the first interval on
    /// arrival.
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

/// Returns the end of an interval.
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

/// Maximum length of a pattern; no name is longer.
const PATTERN_MAX: usize = 256;

/// A pattern of names: `*` matches any text, `?` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Parses a pattern.
    pub fn new(text: &str) -> Result<Pattern, Error> {
        if text.len() > PATTERN_MAX {
            return Err(Error::LongPattern { length: text.len(), most: PATTERN_MAX });
        }
        Ok(Pattern(text.to_owned()))
    }

    /// Returns true if the pattern matches the name.
    pub fn matches(&self, name: &str) -> bool {
        glob::matches(&self.0, name)
    }

    /// Returns true if the pattern matches the guest's name or class.
    pub(crate) fn takes(&self, who: &GuestIdentity) -> bool {
        self.matches(&who.name) || (!who.class.is_empty() && self.matches(&who.class))
    }

    /// Returns the pattern as written.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A guest as a reader sees it, with all its boots and processes as one. The texts are shared
/// because every interval contains them.
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

    /// Returns the row that the guest is counted in. An empty class name stands for guests without
    /// a class.
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

    /// Adds a later time.
    pub(crate) fn then(&mut self, later: &Measured<'_>) {
        self.over.to_mut().add(&later.over);
        self.added = self.added.plus(&later.added);
    }

    /// Returns an owned copy.
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

/// Sums several guests of one interval. A field that the host always knows or that daemons report
/// is summed over the guests that have it. Any other field is missing if one guest lacks it,
/// because a quotient of sums over different guests would be wrong.
pub(crate) fn together<'a>(
    guests: impl IntoIterator<Item = &'a Measured<'a>>,
    covered_ms: u64,
) -> Measured<'static> {
    let guests: Vec<&Measured<'_>> = guests.into_iter().collect();
    let longest = guests.iter().map(|guest| guest.over.covered_ms).max().unwrap_or(0);
    let covered_ms = if covered_ms > 0 { covered_ms } else { longest };
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

/// Weights a gauge by the part of the time in which it was present.
fn weighed(value: u64, part_ms: u64, whole_ms: u64) -> u64 {
    if part_ms >= whole_ms || whole_ms == 0 {
        return value;
    }
    let weighed = u128::from(value) * u128::from(part_ms) / u128::from(whole_ms);
    u64::try_from(weighed).unwrap_or(u64::MAX)
}

/// Cached result of `may_lack` for each field, because every guest in every interval needs it.
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

    #[test]
    fn patterns_match_as_in_a_shell_and_end() {
        let check = |pattern: &str, name: &str, expected| {
            let pattern = Pattern::new(pattern).expect("a pattern");
            assert_eq!(pattern.matches(name), expected, "{pattern:?} {name}");
        };
        check("LNX1*", "LNX1004", true);
        check("LNX1*", "LNX2004", false);
        check("*web?", "a-web1", true);
        check("*web?", "a-web", false);
        check("", "", true);
        check("*", "", true);
        check(&"*a".repeat(50), &"a".repeat(5000), true);
        check(&"*a".repeat(50), &"b".repeat(5000), false);
        assert!(Pattern::new(&"*".repeat(1000)).is_err());
    }

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
        let (one, two) = (guest(10, Some(5), 1000), guest(20, None, 500));
        let sum = together([&one, &two], 1000);
        assert_eq!(sum.over.get(GuestField::VcpuRun), Some(30));
        assert_eq!(sum.over.get(GuestField::VcpuGuest), None);
        assert_eq!(sum.over.get(GuestField::Resident), Some(1500));
        assert_eq!(sum.added.virtual_ns, Some(25));
        assert_eq!(together([&one, &one], 0).over.get(GuestField::VcpuGuest), Some(10));
    }
}
