//! Processes of guests, by the host's truth.
//!
//! A guest counts CPU time by its own clock. Where its virtual CPUs are held up, or emulated,
//! its seconds are not the host's: what it counts is multiplied by what it got over what it
//! believes to have used. Both are known as of the moment when it told of its processes.

use crate::Facts;
use crate::build::{Line, LineKind, Work};
use crate::gather::{By, GuestId, Measured, beside, together};
use crate::plain::plain;
use crate::sums::facts_of;
use model::{GuestField, Over, ProcessField, ProcessName};
use std::collections::BTreeMap;

/// A process of a guest, or all of one name in several guests.
type Key = (GuestId, ProcessName);

pub(crate) fn lines(work: &Work<'_>) -> Vec<Line> {
    let mut ranked: Vec<(usize, Line, f64)> = Vec::new();
    for at in 0..work.courses.len() {
        let guests = work.over_time(at);
        for ((id, name), over) in over_time(work, at) {
            let none = Measured::default();
            let guest = guests.get(&id).unwrap_or(&none);
            let facts = Facts { process: &over, ..facts_of(&work.total(at).host, guest) };
            let labels = labels(work, at, &id, &name);
            let line = work.line(LineKind::Whole, None, at, labels, &facts);
            let prorated = facts.process_ns().zip(facts.scale()).map_or(0.0, |(ns, f)| ns * f);
            ranked.push((at, line, prorated));
        }
    }
    work.sort(&mut ranked, |(_, line, _)| line);
    ranked.truncate(work.options.top);
    let mut listed = vec![0.0; work.courses.len()];
    ranked.iter().for_each(|(at, _, prorated)| listed[*at] += prorated);
    let mut lines: Vec<Line> = ranked.into_iter().map(|(_, line, _)| line).collect();
    for (at, listed) in listed.into_iter().enumerate() {
        lines.extend(sums(work, at, listed));
    }
    lines
}

/// What is not listed, and what all guests used together: those that told of their processes.
fn sums(work: &Work<'_>, at: usize, listed: f64) -> Vec<Line> {
    let mut sum: Option<Measured<'_>> = None;
    for turn in &work.courses[at].turns {
        let tells = |guest: &&Measured<'_>| guest.over.get(GuestField::OwnBusy).is_some();
        let mut telling = turn.guests.values().filter(tells).peekable();
        if telling.peek().is_none() {
            continue;
        }
        let here = together(telling, turn.interval.host.covered_ms);
        match &mut sum {
            None => sum = Some(here),
            Some(sum) => sum.then(&here),
        }
    }
    let Some(sum) = sum else { return Vec::new() };
    let facts = facts_of(&work.total(at).host, &sum);
    let (Some(own), Some(scale)) = (facts.own_ns(), facts.scale()) else {
        return Vec::new();
    };
    let line = |kind, what: &str, ns: f64| {
        let labels = sum_labels(work, at, what);
        work.line(kind, None, at, labels, &Facts { unlisted_ns: Some(ns), ..facts })
    };
    let rest = if scale > 0.0 { (own - listed / scale).max(0.0) } else { 0.0 };
    vec![line(LineKind::Rest, "not listed", rest), line(LineKind::All, "all", own)]
}

fn sum_labels(work: &Work<'_>, at: usize, what: &str) -> Vec<String> {
    let host = plain(&work.hosts[at].name);
    match work.options.by {
        By::Guest => vec![host, what.into(), String::new(), String::new()],
        By::Class => vec![host, what.into(), String::new()],
        By::Host => vec![host, what.into()],
    }
}

fn labels(work: &Work<'_>, at: usize, id: &GuestId, name: &ProcessName) -> Vec<String> {
    let pid = if name.pid == 0 { String::new() } else { name.pid.to_string() };
    let (host, process) = (plain(&work.hosts[at].name), plain(&name.name));
    match work.options.by {
        By::Guest => vec![host, work.name_of(at, id), process, pid],
        By::Class if id.class.is_empty() => vec![host, "(none)".into(), process],
        By::Class => vec![host, plain(&id.class), process],
        By::Host => vec![host, process],
    }
}

/// Processes over the whole time. Of several guests, those of one name are one.
fn over_time(work: &Work<'_>, at: usize) -> BTreeMap<Key, Over<ProcessField>> {
    let by = work.options.by;
    let mut found: BTreeMap<Key, Over<ProcessField>> = BTreeMap::new();
    for turn in &work.courses[at].turns {
        let mut here: BTreeMap<Key, Over<ProcessField>> = BTreeMap::new();
        for (who, processes) in &turn.interval.processes {
            if work.options.pattern.is_some_and(|pattern| !pattern.takes(who)) {
                continue;
            }
            let id = GuestId::of(who);
            for (name, over) in processes {
                let pid = if by == By::Guest { name.pid } else { 0 };
                let key = (id.subject(by), ProcessName { name: name.name.clone(), pid });
                beside(here.entry(key).or_default(), over);
            }
        }
        for (key, over) in here {
            found.entry(key).and_modify(|sum| sum.add(&over)).or_insert(over);
        }
    }
    found
}
