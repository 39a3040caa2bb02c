//! Processes of guests, with CPU times by the host's clock.
//!
//! A guest counts CPU time by its own clock. If the guest's virtual CPUs are delayed or emulated,
//! this clock differs from the host's. The guest's CPU times are therefore multiplied by a factor.
//! The factor is all CPU time that the host gave the virtual CPUs, divided by the CPU time that the
//! guest counted between reports of its processes. It thereby also divides the CPU time outside of
//! these reports among the processes.

use crate::Facts;
use crate::gather::{By, GuestId, Measured};
use crate::lines::TableInput;
use crate::plain::plain;
use crate::report::{Line, LineKind};
use crate::sums::facts_of;
use model::{GuestField, Over, ProcessField, ProcessName};
use std::collections::BTreeMap;

/// A process of a guest, or all processes of one name in several guests.
type Key = (GuestId, ProcessName);

pub(crate) fn lines(input: &TableInput<'_>) -> Vec<Line> {
    let mut ranked: Vec<(usize, Line, f64)> = Vec::new();
    for at in 0..input.timelines.len() {
        let guests = input.over_time(at);
        for ((id, name), over) in over_time(input, at) {
            let none = Measured::default();
            let guest = guests.get(&id).unwrap_or(&none);
            let facts = Facts { process: &over, ..facts_of(&input.total(at).host, guest) };
            let labels = labels(input, at, &id, &name);
            let line = input.line(LineKind::Whole, None, at, labels, &facts);
            let prorated =
                facts.process_and_children_ns().zip(facts.scale()).map_or(0.0, |(ns, f)| ns * f);
            ranked.push((at, line, prorated));
        }
    }
    input.sort(&mut ranked, |(_, line, _)| line);
    ranked.truncate(input.options.top);
    let mut listed = vec![0.0; input.timelines.len()];
    ranked.iter().for_each(|(at, _, prorated)| listed[*at] += prorated);
    let mut lines: Vec<Line> = ranked.into_iter().map(|(_, line, _)| line).collect();
    for (at, listed) in listed.into_iter().enumerate() {
        lines.extend(sums(input, at, listed));
    }
    lines
}

/// Returns a line for the CPU time of unlisted processes, and a line for all guests that report
/// processes.
fn sums(input: &TableInput<'_>, at: usize, listed: f64) -> Vec<Line> {
    let reports = |_: &GuestId, guest: &Measured<'_>| guest.over.get(GuestField::OwnBusy).is_some();
    let Some(sum) = input.timelines[at].sum_of(reports) else { return Vec::new() };
    let facts = facts_of(&input.total(at).host, &sum);
    let (Some(own), Some(scale)) = (facts.own_ns(), facts.scale()) else {
        return Vec::new();
    };
    let line = |kind, what: &str, ns: f64| {
        let labels = input.labels_saying(at, what, input.process_labels().len());
        input.line(kind, None, at, labels, &Facts { unlisted_ns: Some(ns), ..facts })
    };
    let rest = if scale > 0.0 { (own - listed / scale).max(0.0) } else { 0.0 };
    vec![line(LineKind::Rest, "not listed", rest), line(LineKind::All, "all", own)]
}

fn labels(input: &TableInput<'_>, at: usize, id: &GuestId, name: &ProcessName) -> Vec<String> {
    let pid = if name.pid == 0 { String::new() } else { name.pid.to_string() };
    let (host, process) = (plain(&input.hosts[at].name), plain(&name.name));
    match input.options.by {
        By::Guest => vec![host, input.name_of(at, id), process, pid],
        By::Class if id.class.is_empty() => vec![host, "(none)".into(), process],
        By::Class => vec![host, plain(&id.class), process],
        By::Host => vec![host, process],
    }
}

/// Sums processes over the whole time. With another subject than guests, processes of one name
/// count as one process.
fn over_time(input: &TableInput<'_>, at: usize) -> BTreeMap<Key, Over<ProcessField>> {
    let by = input.options.by;
    let mut found: BTreeMap<Key, Over<ProcessField>> = BTreeMap::new();
    for step in &input.timelines[at].steps {
        // The processes of a guest that was started again are of one run after the other.
        let mut runs: BTreeMap<(GuestId, &ProcessName), Over<ProcessField>> = BTreeMap::new();
        for (who, processes) in &step.interval.processes {
            if input.options.pattern.is_some_and(|pattern| !pattern.takes(who)) {
                continue;
            }
            let id = input.timelines[at].id_of(who);
            for (name, over) in processes {
                let run = runs.entry((id.clone(), name));
                run.and_modify(|sum| sum.add(over)).or_insert_with(|| over.clone());
            }
        }
        let mut here: BTreeMap<Key, Over<ProcessField>> = BTreeMap::new();
        for ((id, name), over) in runs {
            let pid = if by == By::Guest { name.pid } else { 0 };
            let key = (id.subject(by), ProcessName { name: name.name.clone(), pid });
            here.entry(key).or_default().add_concurrent(&over);
        }
        for (key, over) in here {
            found.entry(key).and_modify(|sum| sum.add(&over)).or_insert(over);
        }
    }
    found
}
