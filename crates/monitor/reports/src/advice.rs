//! Advice: rules over derived fields, and their findings.

use crate::Facts;
use crate::fields::{Derived, Raw, Scope, field};
use crate::gather::{By, GuestId, Measured};
use crate::lines::TableInput;
use crate::number::shown;
use crate::plain::plain;
use crate::report::{Line, LineKind};
use crate::sums::facts_of;
use crate::time::moment_text;
use std::collections::BTreeMap;

/// A rule: a field that should stay on one side of a limit.
#[derive(Debug)]
pub struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// Subject of the rule: guests, or the host.
    pub scope: Scope,
    /// Derived field that the rule checks.
    pub field: &'static str,
    /// Last value that is still acceptable.
    pub limit: f64,
    /// Condition under which the rule reports a finding.
    pub when: When,
    /// Meaning of a finding, and the remedy.
    pub advice: &'static str,
}

/// Condition under which a rule reports a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The value is above the limit.
    Above,
    /// The value is above the limit while the guest uses less than 1 % of a CPU.
    AboveIdle,
    /// The value is above the limit while the guest uses at least 1 % of a CPU.
    AboveBusy,
    /// The value differs from 1 by more than the limit while the guest uses at least 5 % of a CPU.
    /// Below 5 % the guest's kernel counts too few ticks for a ratio.
    OffBusy,
}

macro_rules! rules {
    ($($name:literal, $scope:ident $field:literal, $when:ident $limit:literal, $advice:literal;)+)
    => {
        /// All rules.
        pub static RULES: &[Rule] = &[$(Rule {
            name: $name,
            scope: Scope::$scope,
            field: $field,
            limit: $limit,
            when: When::$when,
            advice: $advice,
        }),+];
    };
}

rules! {
    "overhead", Guest "t_v_ratio", AboveBusy 1.5,
        "the overhead exceeds half of the guest's own CPU time: check the guest's devices and \
         exits";
    "page-wait", Guest "page_wait_percent", Above 5.0,
        "the guest waits for the host to bring in memory: give the guest more memory, \
         or free memory on the host";
    "cpu-wait", Guest "cpu_wait_percent", Above 10.0,
        "the guest waits for CPUs: the host has too few CPUs, or its CPUs have too much work";
    "io-wait", Guest "io_wait_percent", Above 10.0, "the guest waits for storage";
    "tight", Guest "tight_ratio", Above 1.0,
        "the guest's working set is larger than its memory: raise the minimum with \
         `pinhead set GUEST min SIZE`";
    "clock", Guest "prorate_ratio", OffBusy 0.05,
        "the guest's own CPU figures differ from the host's: use those of `pinhead report PROC`";
    "wakes", Guest "wakes_per_min", AboveIdle 300.0,
        "something wakes the guest while it is idle: run `pinhead idle GUEST`";
    "killed", Guest "own_oom_kills", Above 0.0,
        "the guest's kernel killed processes because memory ran out";
    "load", Host "load_ratio", Above 0.9,
        "working sets nearly fill the host's memory: the host is about to thrash";
    "capture", Host "others_percent", Above 10.0, "processes other than guests use the host's CPUs";
    "short", Host "psi_memory_percent", Above 10.0, "the host itself waits for memory";
}

pub(crate) const LABELS: [&str; 6] = ["host", "rule", "who", "field", "at", "evidence"];

/// CPU use in percent below which a guest counts as idle.
const IDLE_PERCENT: f64 = 1.0;
/// CPU use in percent from which a guest has enough ticks for a ratio.
const TICKS_PERCENT: f64 = 5.0;

/// Observations of one rule for one guest or host.
#[derive(Default)]
struct Seen {
    known: u32,
    held: u32,
    worst: Option<(f64, i64, String)>,
}

impl Rule {
    fn field(&self) -> Option<&'static Derived> {
        field(self.scope, self.field)
    }

    fn speaks(&self, value: f64, facts: &Facts<'_>) -> bool {
        let cpu = || facts.cpu_ns().and_then(|ns| facts.g_share(ns));
        match self.when {
            When::Above => value > self.limit,
            When::AboveIdle => {
                value > self.limit && cpu().is_some_and(|percent| percent < IDLE_PERCENT)
            }
            When::AboveBusy => {
                value > self.limit && cpu().is_some_and(|percent| percent >= IDLE_PERCENT)
            }
            When::OffBusy => {
                (value - 1.0).abs() > self.limit
                    && cpu().is_some_and(|percent| percent >= TICKS_PERCENT)
            }
        }
    }

    /// Returns the severity of a value: larger is worse.
    fn badness(&self, value: f64) -> f64 {
        match self.when {
            When::Above | When::AboveIdle | When::AboveBusy => value,
            When::OffBusy => (value - 1.0).abs(),
        }
    }

    /// Returns true if the observations last long enough for a finding. A finding about idle
    /// wake-ups or a wrong clock needs at least half of the intervals. Any other finding needs one
    /// interval.
    fn lasts(&self, seen: &Seen) -> bool {
        !matches!(self.when, When::AboveIdle | When::OffBusy) || seen.held * 2 >= seen.known
    }

    /// Evaluates the rule's field for one interval.
    fn look(&self, field: &Derived, facts: &Facts<'_>, at_ms: i64, seen: &mut Seen) {
        let Some(value) = field.value(facts) else { return };
        seen.known += 1;
        if !self.speaks(value, facts) {
            return;
        }
        seen.held += 1;
        let is_worse =
            |(worst, ..): &(f64, i64, String)| self.badness(value) > self.badness(*worst);
        if seen.worst.as_ref().is_none_or(is_worse) {
            seen.worst = Some((value, at_ms, evidence(field, facts)));
        }
    }
}

/// Returns the raw values behind a derived value.
fn evidence(field: &Derived, facts: &Facts<'_>) -> String {
    let one = |raw: &Raw| raw.value(facts).map(|value| format!("{}={value}", raw.name()));
    field.sources.iter().filter_map(one).collect::<Vec<_>>().join(" ")
}

pub(crate) fn lines(input: &TableInput<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for at in 0..input.timelines.len() {
        let guests = Guests::look(input, at);
        for (rule, seen) in RULES.iter().zip(&guests.seen) {
            if rule.scope == Scope::Host {
                let mut seen = Seen::default();
                let Some(field) = rule.field() else { continue };
                for step in &input.timelines[at].steps {
                    rule.look(field, &step.sums.facts(), step.interval.from_ms, &mut seen);
                }
                let whole = input.total(at).facts();
                lines.extend(finding(input, at, rule, "host".into(), &seen, &whole));
                continue;
            }
            // Each rule has its own top rows, so a rule that always matches does not hide the
            // findings of other rules.
            let mut found = guests.findings(input, at, rule, seen);
            input.sort(&mut found, |line| line);
            found.truncate(input.options.top);
            lines.extend(found);
        }
    }
    lines
}

/// Observations of guests by rule, and the guests over the whole time.
struct Guests {
    seen: Vec<BTreeMap<GuestId, Seen>>,
    whole: BTreeMap<GuestId, Measured<'static>>,
}

impl Guests {
    fn look(input: &TableInput<'_>, at: usize) -> Guests {
        let mut seen: Vec<BTreeMap<GuestId, Seen>> =
            RULES.iter().map(|_| BTreeMap::new()).collect();
        let of_guests = |rule: &&Rule| rule.scope != Scope::Host;
        let fields: Vec<Option<&Derived>> =
            RULES.iter().map(|rule| Some(rule).filter(of_guests)?.field()).collect();
        for step in &input.timelines[at].steps {
            let (host, from_ms) = (&step.sums.host, step.interval.from_ms);
            for (id, guest) in input.subjects(step).iter() {
                let facts = facts_of(host, guest);
                for ((rule, field), seen) in RULES.iter().zip(&fields).zip(&mut seen) {
                    let Some(field) = field else { continue };
                    if !seen.contains_key(id) {
                        seen.insert(id.clone(), Seen::default());
                    }
                    if let Some(seen) = seen.get_mut(id) {
                        rule.look(field, &facts, from_ms, seen);
                    }
                }
            }
        }
        Guests { seen, whole: input.over_time(at) }
    }

    fn findings(
        &self,
        input: &TableInput<'_>,
        at: usize,
        rule: &Rule,
        seen: &BTreeMap<GuestId, Seen>,
    ) -> Vec<Line> {
        let none = Measured::default();
        let one = |(id, seen): (&GuestId, &Seen)| {
            let who = match input.options.by {
                By::Guest => input.name_of(at, id),
                By::Class => plain(&id.class),
                By::Host => plain(&input.hosts[at].name),
            };
            let facts = facts_of(&input.total(at).host, self.whole.get(id).unwrap_or(&none));
            finding(input, at, rule, who, seen, &facts)
        };
        seen.iter().filter_map(one).collect()
    }
}

fn finding(
    input: &TableInput<'_>,
    at: usize,
    rule: &Rule,
    who: String,
    seen: &Seen,
    whole: &Facts<'_>,
) -> Option<Line> {
    let field = rule.field()?;
    let (worst, at_ms, evidence) = seen.worst.as_ref().filter(|_| rule.lasts(seen))?;
    let held = f64::from(seen.held) * 100.0 / f64::from(seen.known);
    let unit = match field.unit.text() {
        "" => field.heading(),
        _ => format!("{} [{}]", field.id, field.unit.text()),
    };
    let labels = vec![
        plain(&input.hosts[at].name),
        rule.name.into(),
        who,
        unit,
        moment_text(*at_ms, input.options.zone),
        evidence.clone(),
    ];
    let (from_ms, length_ms, covered_ms) = input.whole_time(at);
    let values = vec![Some(rule.limit), field.value(whole), Some(*worst), Some(held)];
    let kind = LineKind::Whole;
    Some(Line { kind, from_ms, length_ms, covered_ms, labels, values })
}

pub(crate) fn limit_text(rule: &Rule) -> String {
    let limit = shown(Some(rule.limit), 2);
    match rule.when {
        When::Above => format!("above {limit}"),
        When::AboveIdle => format!("above {limit} while idle"),
        When::AboveBusy => format!("above {limit} while busy"),
        When::OffBusy => format!("differs from 1 by more than {limit} while busy"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_field() {
        for rule in RULES {
            assert!(rule.field().is_some(), "{}", rule.name);
            assert!(!limit_text(rule).is_empty() && !rule.advice.is_empty());
        }
    }
}
