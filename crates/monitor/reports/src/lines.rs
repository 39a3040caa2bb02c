//! Lines of a table for hosts, guests and tiers, and for their sums.

use crate::Facts;
use crate::catalog::Part;
use crate::fields::Derived;
use crate::gather::{By, GuestId, HostData, Measured, end_of, in_turn, together};
use crate::options::{Detail, Options};
use crate::plain::plain;
use crate::report::{Line, LineKind};
use crate::sums::{Step, Sums, Timeline, facts_of};
use model::{Interval, Over, TierField, label};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Inputs for the lines of a table.
pub(crate) struct TableInput<'a> {
    pub part: &'static Part,
    pub fields: &'a [&'static Derived],
    pub hosts: &'a [HostData],
    pub timelines: &'a [Timeline<'a>],
    pub options: &'a Options<'a>,
}

impl TableInput<'_> {
    pub(crate) fn values(&self, facts: &Facts<'_>) -> Vec<Option<f64>> {
        self.fields.iter().map(|field| field.value(facts)).collect()
    }

    pub(crate) fn line(
        &self,
        kind: LineKind,
        interval: Option<&Interval>,
        at: usize,
        labels: Vec<String>,
        facts: &Facts<'_>,
    ) -> Line {
        let (from_ms, length_ms, covered_ms) = match interval {
            Some(interval) => (interval.from_ms, interval.length_ms, interval.host.covered_ms),
            None => self.whole_time(at),
        };
        Line { kind, from_ms, length_ms, covered_ms, labels, values: self.values(facts) }
    }

    /// Returns the start and the length of a host's recordings, and the length of their recorded
    /// part.
    pub(crate) fn whole_time(&self, at: usize) -> (i64, u64, u64) {
        let intervals = &self.hosts[at].intervals;
        let from = intervals.first().map_or(0, |interval| interval.from_ms);
        let to = intervals.last().map_or(from, end_of);
        let covered = self.timelines[at].total.host.covered_ms;
        (from, u64::try_from(to.saturating_sub(from)).unwrap_or(0), covered)
    }

    fn host_name(&self, at: usize) -> String {
        plain(&self.hosts[at].name)
    }

    pub(crate) fn of_hosts(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (at, timeline) in self.timelines.iter().enumerate() {
            let name = || vec![self.host_name(at)];
            for step in timeline.steps.iter().filter(|_| self.part.has_intervals) {
                let facts = step.sums.facts();
                lines.push(self.line(LineKind::Interval, Some(step.interval), at, name(), &facts));
            }
            if !timeline.steps.is_empty() {
                lines.push(self.line(LineKind::All, None, at, name(), &timeline.total.facts()));
            }
        }
        lines
    }

    pub(crate) fn guest_labels(&self) -> Vec<&'static str> {
        match self.options.by {
            By::Guest => vec!["host", "guest", "class"],
            By::Class => vec!["host", "class"],
            By::Host => vec!["host"],
        }
    }

    pub(crate) fn process_labels(&self) -> Vec<&'static str> {
        match self.options.by {
            By::Guest => vec!["host", "guest", "process", "pid"],
            By::Class => vec!["host", "class", "process"],
            By::Host => vec!["host", "process"],
        }
    }

    pub(crate) fn labels_of(&self, at: usize, subject: &GuestId) -> Vec<String> {
        let host = self.host_name(at);
        match self.options.by {
            By::Guest => vec![host, self.name_of(at, subject), plain(&subject.class)],
            By::Class if subject.class.is_empty() => vec![host, "(none)".into()],
            By::Class => vec![host, plain(&subject.class)],
            By::Host => vec![host],
        }
    }

    /// Returns a guest's name, with a suffix that distinguishes guests of the same name.
    pub(crate) fn name_of(&self, at: usize, subject: &GuestId) -> String {
        let namesake = |other: &GuestId| other.name == subject.name && other != subject;
        let last = self.timelines[at].steps.last();
        let is_alone = !last.is_some_and(|step| step.guests.keys().any(namesake));
        if is_alone {
            return plain(&subject.name);
        }
        plain(&label(&subject.name, &subject.uuid))
    }

    pub(crate) fn labels_saying(&self, at: usize, what: &str, labels: usize) -> Vec<String> {
        let mut out = vec![self.host_name(at)];
        if labels > 1 {
            out.push(what.to_owned());
        }
        out.resize(labels, String::new());
        out
    }

    /// Groups guests by the subject of the rows: guest, class or host.
    pub(crate) fn subjects<'g>(
        &self,
        step: &'g Step<'g>,
    ) -> Cow<'g, BTreeMap<GuestId, Measured<'g>>> {
        let (guests, whole_ms) = (&step.guests, step.interval.host.covered_ms);
        if self.options.by == By::Guest {
            return Cow::Borrowed(guests);
        }
        let mut members: BTreeMap<GuestId, Vec<(&GuestId, &Measured<'_>)>> = BTreeMap::new();
        for (id, guest) in guests {
            members.entry(id.subject(self.options.by)).or_default().push((id, guest));
        }
        let sum = |of| together(in_turn(of, whole_ms).iter().map(|guest| &**guest));
        Cow::Owned(members.into_iter().map(|(id, of)| (id, sum(of))).collect())
    }

    /// Returns each guest, class or host over the whole time.
    pub(crate) fn over_time(&self, at: usize) -> BTreeMap<GuestId, Measured<'static>> {
        let mut found: BTreeMap<GuestId, Measured<'static>> = BTreeMap::new();
        for step in &self.timelines[at].steps {
            let subjects = self.subjects(step);
            for (id, measured) in subjects.iter() {
                match found.get_mut(id) {
                    Some(earlier) => earlier.then(measured),
                    None => {
                        found.insert(id.clone(), measured.apart());
                    }
                }
            }
        }
        found
    }

    pub(crate) fn of_guests(&self) -> Vec<Line> {
        let width = self.guest_labels().len();
        let mut lines = Vec::new();
        let mut ranked: Vec<(usize, GuestId, Line)> = Vec::new();
        for (at, timeline) in self.timelines.iter().enumerate() {
            let mut known: BTreeMap<GuestId, Vec<String>> = BTreeMap::new();
            for step in timeline.steps.iter().filter(|_| self.part.has_intervals) {
                let (interval, host) = (step.interval, &step.sums.host);
                let facts = facts_of(host, &step.sums.guests);
                let labels = self.labels_saying(at, "all", width);
                let mut line = self.line(LineKind::Interval, Some(interval), at, labels, &facts);
                // The recording of a host begins before its first guest is found. Until then there
                // may be data of the host, but no data of guests.
                let longest = step.guests.values().map(|guest| guest.over.covered_ms).max();
                line.covered_ms = line.covered_ms.min(longest.unwrap_or(0));
                lines.push(line);
                if self.options.detail == Detail::Sums {
                    continue;
                }
                for (id, guest) in self.subjects(step).iter() {
                    // The labels of a guest depend on all other guests, so they are computed once.
                    if !known.contains_key(id) {
                        known.insert(id.clone(), self.labels_of(at, id));
                    }
                    let labels = known.get(id).cloned().unwrap_or_default();
                    let facts = facts_of(host, guest);
                    let kind = LineKind::IntervalOf;
                    lines.push(self.line(kind, Some(interval), at, labels, &facts));
                }
            }
            for (id, guest) in self.over_time(at) {
                let facts = facts_of(&timeline.total.host, &guest);
                let labels = self.labels_of(at, &id);
                let mut line = self.line(LineKind::Whole, None, at, labels, &facts);
                line.covered_ms = line.covered_ms.min(guest.over.covered_ms);
                ranked.push((at, id, line));
            }
        }
        self.sort(&mut ranked, |(_, _, line)| line);
        let rest = ranked.split_off(ranked.len().min(self.options.top));
        let mut left: Vec<Vec<GuestId>> = vec![Vec::new(); self.timelines.len()];
        rest.into_iter().for_each(|(at, id, _)| left[at].push(id));
        left.iter_mut().for_each(|left| left.sort_unstable());
        lines.extend(ranked.into_iter().map(|(_, _, line)| line));
        for (at, timeline) in self.timelines.iter().enumerate() {
            if !left[at].is_empty() {
                let is_left = |id: &GuestId, _: &Measured<'_>| {
                    left[at].binary_search(&id.subject(self.options.by)).is_ok()
                };
                let sums = timeline.sum_of(is_left).unwrap_or_default();
                let what = format!("{} more", left[at].len());
                let labels = self.labels_saying(at, &what, width);
                let facts = facts_of(&timeline.total.host, &sums);
                lines.push(self.line(LineKind::Rest, None, at, labels, &facts));
            }
            if self.options.by != By::Host && !timeline.steps.is_empty() {
                let facts = facts_of(&timeline.total.host, &timeline.total.guests);
                let labels = self.labels_saying(at, "all", width);
                lines.push(self.line(LineKind::All, None, at, labels, &facts));
            }
        }
        lines
    }

    pub(crate) fn of_tiers(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut ranked = Vec::new();
        let takes = |tier: &Over<TierField>| {
            !self.part.only_compressed || tier.get(TierField::Stored).is_some()
        };
        for (at, timeline) in self.timelines.iter().enumerate() {
            let mut found: BTreeMap<&str, Over<TierField>> = BTreeMap::new();
            for step in &timeline.steps {
                for (name, tier) in step.interval.tiers.iter().filter(|(_, tier)| takes(tier)) {
                    found.entry(name).and_modify(|sum| sum.add(tier)).or_insert(tier.clone());
                    if self.part.has_intervals && self.options.detail == Detail::Each {
                        let facts = step.sums.tier_facts(tier);
                        let labels = vec![self.host_name(at), plain(name)];
                        let kind = LineKind::IntervalOf;
                        lines.push(self.line(kind, Some(step.interval), at, labels, &facts));
                    }
                }
                if self.part.has_intervals && !step.interval.tiers.is_empty() {
                    let facts = step.sums.tier_facts(&step.sums.tiers);
                    let labels = vec![self.host_name(at), "all".into()];
                    let kind = LineKind::Interval;
                    lines.push(self.line(kind, Some(step.interval), at, labels, &facts));
                }
            }
            for (name, tier) in found {
                let facts = timeline.total.tier_facts(&tier);
                let labels = vec![self.host_name(at), plain(name)];
                ranked.push(self.line(LineKind::Whole, None, at, labels, &facts));
            }
        }
        self.sort(&mut ranked, |line| line);
        ranked.truncate(self.options.top);
        lines.extend(ranked);
        lines
    }

    /// Sorts rows by the sort column, largest first and missing values last.
    pub(crate) fn sort<T>(&self, rows: &mut [T], line: impl Fn(&T) -> &Line) {
        let column = self.part.columns.iter().position(|id| *id == self.part.sort);
        let key = |row: &T| {
            let value = column.and_then(|column| line(row).values[column]);
            value.unwrap_or(f64::NEG_INFINITY)
        };
        rows.sort_by(|a, b| {
            key(b).total_cmp(&key(a)).then_with(|| line(a).labels.cmp(&line(b).labels))
        });
    }

    pub(crate) fn total(&self, at: usize) -> &Sums {
        &self.timelines[at].total
    }
}
