//! A report, made from what happened: its rows, its sums, its top.

use crate::catalog::{Definition, Part};
use crate::fields::{Derived, Scope, field};
use crate::gather::{By, GuestId, HostData, Measured, Pattern, together};
use crate::header::{self, HostHeader};
use crate::plain::plain;
use crate::sums::{Course, Sums, facts_of};
use crate::time::Zone;
use crate::{Error, Facts, advice, notes, processes};
use model::{Interval, Over, TierField};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// More intervals make a report that nobody reads, and a chart with several of them in a dot.
const INTERVALS_MAX: usize = 20_000;

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// What a row tells of.
    pub by: By,
    /// Only guests of which this is the name or the class.
    pub pattern: Option<&'a Pattern>,
    /// How many rows at most, without the sums.
    pub top: usize,
    /// What the rows of intervals tell of.
    pub detail: Detail,
    /// The zone that times are shown in.
    pub zone: &'a dyn Zone,
}

/// What the rows of intervals tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The sum of all: what a person reads.
    Sums,
    /// Each guest or tier as well: what a program reads.
    Each,
}

/// A report, before it is text.
#[derive(Debug)]
pub struct Report {
    /// Which one.
    pub definition: &'static Definition,
    /// Its hosts.
    pub hosts: Vec<HostHeader>,
    /// When the first interval began, in milliseconds since 1970.
    pub from_ms: i64,
    /// When the last one ended.
    pub to_ms: i64,
    /// How long an interval is.
    pub interval_ms: u64,
    /// What a row tells of.
    pub by: By,
    /// Which guests it is about; empty for all.
    pub pattern: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What stands at its foot.
    pub notes: Vec<String>,
}

/// A table of a report.
#[derive(Debug)]
pub struct Table {
    /// Its definition.
    pub part: &'static Part,
    /// What the labels of its lines are.
    pub labels: Vec<&'static str>,
    /// Its columns.
    pub fields: Vec<&'static Derived>,
    /// Its lines: of intervals first, then of the whole time.
    pub lines: Vec<Line>,
}

/// A line of a table.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it tells of.
    pub kind: LineKind,
    /// When it begins.
    pub from_ms: i64,
    /// How long it is.
    pub length_ms: u64,
    /// How much of that is known.
    pub covered_ms: u64,
    /// Its labels. They are safe for a terminal, and no more than that.
    pub labels: Vec<String>,
    /// Its values.
    pub values: Vec<Option<f64>>,
}

/// What a line tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// All of a host in an interval.
    Interval,
    /// One guest, class or tier in an interval.
    IntervalOf,
    /// One guest, class, tier or process in the whole time.
    Whole,
    /// Those that are not among the top, in the whole time.
    Rest,
    /// All of a host in the whole time.
    All,
}

impl LineKind {
    /// Its name in CSV and JSON.
    pub fn name(self) -> &'static str {
        match self {
            LineKind::Interval | LineKind::IntervalOf => "interval",
            LineKind::Whole => "summary",
            LineKind::Rest => "rest",
            LineKind::All => "all",
        }
    }
}

/// Makes a report of one host or of many.
pub fn build(
    definition: &'static Definition,
    hosts: &[HostData],
    options: &Options<'_>,
) -> Result<Report, Error> {
    for host in hosts {
        let count = host.intervals.len();
        if count > INTERVALS_MAX {
            return Err(Error::TooManyIntervals { count, most: INTERVALS_MAX });
        }
    }
    let needs = |scope| definition.parts.iter().any(|part| part.scope == scope);
    let of = |pattern| hosts.iter().map(|host| Course::of(&host.intervals, pattern)).collect();
    // The host's own rows are about all of its guests, whatever is asked for.
    let all: Vec<Course<'_>> = match options.pattern {
        Some(_) if needs(Scope::Host) => of(None),
        _ => Vec::new(),
    };
    let chosen: Vec<Course<'_>> = of(options.pattern);
    let whole = if all.is_empty() { &chosen } else { &all };
    let headers = header::headers(hosts, whole);
    let mut tables = Vec::new();
    for part in definition.parts {
        let courses = if part.scope == Scope::Host { whole } else { &chosen };
        tables.push(table(part, hosts, courses, options));
    }
    let intervals = || hosts.iter().flat_map(|host| &host.intervals);
    let from_ms = intervals().map(|one| one.from_ms).min().unwrap_or(0);
    let mut report = Report {
        definition,
        hosts: headers,
        from_ms,
        to_ms: intervals().map(end_of).max().unwrap_or(from_ms),
        interval_ms: intervals().map(|one| one.length_ms).max().unwrap_or(0),
        by: options.by,
        pattern: options.pattern.map(|pattern| plain(pattern.text())).unwrap_or_default(),
        tables,
        notes: Vec::new(),
    };
    report.notes = notes::of(&report, &chosen, options);
    Ok(report)
}

/// When an interval ends.
pub(crate) fn end_of(interval: &Interval) -> i64 {
    interval.from_ms.saturating_add(i64::try_from(interval.length_ms).unwrap_or(i64::MAX))
}

fn table(
    part: &'static Part,
    hosts: &[HostData],
    courses: &[Course<'_>],
    options: &Options<'_>,
) -> Table {
    let fields: Vec<&'static Derived> =
        part.columns.iter().filter_map(|id| field(part.scope, id)).collect();
    let work = Work { part, fields: &fields, hosts, courses, options };
    let (labels, lines) = match part.scope {
        Scope::Host => (vec!["host"], work.of_hosts()),
        Scope::Guest => (work.guest_labels(), work.of_guests()),
        Scope::Tier => (vec!["host", "tier"], work.of_tiers()),
        Scope::Process => (work.process_labels(), processes::lines(&work)),
        Scope::Finding => (advice::LABELS.to_vec(), advice::lines(&work)),
    };
    Table { part, labels, fields, lines }
}

/// A table in the making.
pub(crate) struct Work<'a> {
    pub part: &'static Part,
    pub fields: &'a [&'static Derived],
    pub hosts: &'a [HostData],
    pub courses: &'a [Course<'a>],
    pub options: &'a Options<'a>,
}

impl Work<'_> {
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

    /// When a host's recordings begin, how long they are, and how much of it is known.
    pub(crate) fn whole_time(&self, at: usize) -> (i64, u64, u64) {
        let intervals = &self.hosts[at].intervals;
        let from = intervals.first().map_or(0, |interval| interval.from_ms);
        let to = intervals.last().map_or(from, end_of);
        let covered = self.courses[at].total.host.covered_ms;
        (from, u64::try_from(to.saturating_sub(from)).unwrap_or(0), covered)
    }

    fn host_name(&self, at: usize) -> String {
        plain(&self.hosts[at].name)
    }

    fn of_hosts(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (at, course) in self.courses.iter().enumerate() {
            let name = || vec![self.host_name(at)];
            for turn in course.turns.iter().filter(|_| self.part.has_intervals) {
                let facts = turn.sums.facts();
                lines.push(self.line(LineKind::Interval, Some(turn.interval), at, name(), &facts));
            }
            if !course.turns.is_empty() {
                lines.push(self.line(LineKind::All, None, at, name(), &course.total.facts()));
            }
        }
        lines
    }

    fn guest_labels(&self) -> Vec<&'static str> {
        match self.options.by {
            By::Guest => vec!["host", "guest", "class"],
            By::Class => vec!["host", "class"],
            By::Host => vec!["host"],
        }
    }

    fn process_labels(&self) -> Vec<&'static str> {
        match self.options.by {
            By::Guest => vec!["host", "guest", "process", "pid"],
            By::Class => vec!["host", "class", "process"],
            By::Host => vec!["host", "process"],
        }
    }

    /// The labels of a guest, a class or a host.
    pub(crate) fn labels_of(&self, at: usize, subject: &GuestId) -> Vec<String> {
        let host = self.host_name(at);
        match self.options.by {
            By::Guest => vec![host, self.name_of(at, subject), plain(&subject.class)],
            By::Class if subject.class.is_empty() => vec![host, "(none)".into()],
            By::Class => vec![host, plain(&subject.class)],
            By::Host => vec![host],
        }
    }

    /// A guest's name, with the beginning of its UUID if another has the same name.
    pub(crate) fn name_of(&self, at: usize, subject: &GuestId) -> String {
        let namesake = |other: &GuestId| other.name == subject.name && other != subject;
        let last = self.courses[at].turns.last();
        let is_alone = !last.is_some_and(|turn| turn.guests.keys().any(namesake));
        if is_alone {
            return plain(&subject.name);
        }
        let uuid: String = subject.uuid.chars().take(8).collect();
        plain(&format!("{} ({uuid})", subject.name))
    }

    fn labels_saying(&self, at: usize, what: &str, labels: usize) -> Vec<String> {
        let mut out = vec![self.host_name(at)];
        if labels > 1 {
            out.push(what.to_owned());
        } else if at < self.hosts.len() {
            out[0] = self.host_name(at);
        }
        out.resize(labels, String::new());
        out
    }

    /// The guests, classes or hosts of an interval or of any other set of guests.
    pub(crate) fn subjects<'g>(
        &self,
        guests: &'g BTreeMap<GuestId, Measured<'g>>,
        covered_ms: u64,
    ) -> Cow<'g, BTreeMap<GuestId, Measured<'g>>> {
        if self.options.by == By::Guest {
            return Cow::Borrowed(guests);
        }
        let mut members: BTreeMap<GuestId, Vec<&Measured<'_>>> = BTreeMap::new();
        for (id, guest) in guests {
            members.entry(id.subject(self.options.by)).or_default().push(guest);
        }
        Cow::Owned(members.into_iter().map(|(id, of)| (id, together(of, covered_ms))).collect())
    }

    /// Every guest, class or host over the whole time.
    pub(crate) fn over_time(&self, at: usize) -> BTreeMap<GuestId, Measured<'static>> {
        let mut found: BTreeMap<GuestId, Measured<'static>> = BTreeMap::new();
        for turn in &self.courses[at].turns {
            let subjects = self.subjects(&turn.guests, turn.interval.host.covered_ms);
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

    fn of_guests(&self) -> Vec<Line> {
        let width = self.guest_labels().len();
        let mut lines = Vec::new();
        let mut ranked: Vec<(usize, GuestId, Line)> = Vec::new();
        for (at, course) in self.courses.iter().enumerate() {
            let mut known: BTreeMap<GuestId, Vec<String>> = BTreeMap::new();
            for turn in course.turns.iter().filter(|_| self.part.has_intervals) {
                let (interval, host) = (turn.interval, &turn.sums.host);
                let facts = facts_of(host, &turn.sums.guests);
                let labels = self.labels_saying(at, "all", width);
                let mut line = self.line(LineKind::Interval, Some(interval), at, labels, &facts);
                // The host is recorded before its first guest is found: nothing is known of guests
                // then, however much is known of the host.
                let longest = turn.guests.values().map(|guest| guest.over.covered_ms).max();
                line.covered_ms = line.covered_ms.min(longest.unwrap_or(0));
                lines.push(line);
                if self.options.detail == Detail::Sums {
                    continue;
                }
                for (id, guest) in self.subjects(&turn.guests, host.covered_ms).iter() {
                    // To know a guest's labels, all others are looked at.
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
                let facts = facts_of(&course.total.host, &guest);
                let labels = self.labels_of(at, &id);
                let line = self.line(LineKind::Whole, None, at, labels, &facts);
                ranked.push((at, id, line));
            }
        }
        self.sort(&mut ranked, |(_, _, line)| line);
        let rest = ranked.split_off(ranked.len().min(self.options.top));
        let mut left: Vec<Vec<GuestId>> = vec![Vec::new(); self.courses.len()];
        rest.into_iter().for_each(|(at, id, _)| left[at].push(id));
        left.iter_mut().for_each(|left| left.sort_unstable());
        lines.extend(ranked.into_iter().map(|(_, _, line)| line));
        for (at, course) in self.courses.iter().enumerate() {
            if !left[at].is_empty() {
                let sums = self.rest(course, &left[at]);
                let what = format!("{} more", left[at].len());
                let labels = self.labels_saying(at, &what, width);
                let facts = facts_of(&course.total.host, &sums);
                lines.push(self.line(LineKind::Rest, None, at, labels, &facts));
            }
            if self.options.by != By::Host && !course.turns.is_empty() {
                let facts = facts_of(&course.total.host, &course.total.guests);
                let labels = self.labels_saying(at, "all", width);
                lines.push(self.line(LineKind::All, None, at, labels, &facts));
            }
        }
        lines
    }

    /// What those together did that are not among the top; they are in order.
    fn rest(&self, course: &Course<'_>, left: &[GuestId]) -> Measured<'static> {
        let mut sum: Option<Measured<'static>> = None;
        for turn in &course.turns {
            let is_left = |id: &GuestId| left.binary_search(&id.subject(self.options.by)).is_ok();
            let mut left_here = turn.guests.iter().filter(|(id, _)| is_left(id)).peekable();
            if left_here.peek().is_none() {
                continue;
            }
            let here = together(left_here.map(|(_, guest)| guest), turn.interval.host.covered_ms);
            match &mut sum {
                None => sum = Some(here),
                Some(sum) => sum.then(&here),
            }
        }
        sum.unwrap_or_default()
    }

    fn of_tiers(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut ranked = Vec::new();
        let takes = |tier: &Over<TierField>| {
            !self.part.only_compressed || tier.get(TierField::Stored).is_some()
        };
        for (at, course) in self.courses.iter().enumerate() {
            let mut found: BTreeMap<&str, Over<TierField>> = BTreeMap::new();
            for turn in &course.turns {
                for (name, tier) in turn.interval.tiers.iter().filter(|(_, tier)| takes(tier)) {
                    found.entry(name).and_modify(|sum| sum.add(tier)).or_insert(tier.clone());
                    if self.part.has_intervals && self.options.detail == Detail::Each {
                        let facts = turn.sums.tier_facts(tier);
                        let labels = vec![self.host_name(at), plain(name)];
                        let kind = LineKind::IntervalOf;
                        lines.push(self.line(kind, Some(turn.interval), at, labels, &facts));
                    }
                }
                if self.part.has_intervals && !turn.interval.tiers.is_empty() {
                    let facts = turn.sums.tier_facts(&turn.sums.tiers);
                    let labels = vec![self.host_name(at), "all".into()];
                    let kind = LineKind::Interval;
                    lines.push(self.line(kind, Some(turn.interval), at, labels, &facts));
                }
            }
            for (name, tier) in found {
                let facts = course.total.tier_facts(&tier);
                let labels = vec![self.host_name(at), plain(name)];
                ranked.push(self.line(LineKind::Whole, None, at, labels, &facts));
            }
        }
        self.sort(&mut ranked, |line| line);
        ranked.truncate(self.options.top);
        lines.extend(ranked);
        lines
    }

    /// The largest first; what is not known last.
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

    /// Sums of a host.
    pub(crate) fn total(&self, at: usize) -> &Sums {
        &self.courses[at].total
    }
}
