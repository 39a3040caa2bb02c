//! Selection of guests by name, pattern or UUID.

use super::words::NAME_WIDTH;
use crate::Error;
use base::duration::MINUTE_MS;
use base::{glob, natural, plain};
use model::{has_uuid, label};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use store::{Found, GuestKey, GuestRow, Range, kinds};

/// Number of similar names in an error.
const NEAREST: usize = 3;

/// A guest with all its boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Last name of the guest.
    pub name: String,
    /// UUID of the guest.
    pub uuid: String,
    /// Label in sentences: the name, with the UUID if another guest has the same name.
    pub label: String,
    /// Keys in the journal.
    pub keys: Vec<GuestKey>,
}

/// Returns the guests that a text selects, or an error with similar names.
pub fn choose(text: &str, rows: &[GuestRow]) -> Result<Vec<Chosen>, Error> {
    let all = guests(rows);
    let exact = |guest: &Chosen| guest.name == text || guest.uuid.eq_ignore_ascii_case(text);
    let mut found: Vec<Chosen> = all.iter().filter(|guest| exact(guest)).cloned().collect();
    if found.is_empty() {
        // A guest is also found by an earlier name.
        let had = |guest: &Chosen| {
            let mut names = rows.iter().filter(|row| guest.keys.contains(&row.key));
            names.any(|row| glob::matches(text, &row.guest.name))
        };
        found = all.iter().filter(|guest| had(guest)).cloned().collect();
    }
    if found.is_empty() {
        return Err(unknown(text, &all));
    }
    Ok(found)
}

/// Compares guests in the natural order of their names, then by UUID.
fn by_name(a: &Chosen, b: &Chosen) -> Ordering {
    natural(&a.name, &b.name).then_with(|| a.uuid.cmp(&b.uuid))
}

/// Returns all guests of a journal, sorted by name.
pub fn guests(rows: &[GuestRow]) -> Vec<Chosen> {
    let mut all: BTreeMap<(String, String), Chosen> = BTreeMap::new();
    for row in rows {
        let (uuid, name) = (&row.guest.uuid, &row.guest.name);
        // Guests without a UUID are distinguished by name only.
        let group = (uuid.clone(), if has_uuid(uuid) { String::new() } else { name.clone() });
        let chosen = all.entry(group).or_insert_with(|| Chosen {
            name: name.clone(),
            uuid: uuid.clone(),
            label: String::new(),
            keys: Vec::new(),
        });
        // Rows are in the order in which guests were first seen.
        chosen.name.clone_from(name);
        chosen.keys.push(row.key);
    }
    let mut all: Vec<Chosen> = all.into_values().collect();
    all.sort_by(by_name);
    distinguish(&mut all);
    all
}

/// Sets the labels. A label contains the UUID only if two guests have the same name.
fn distinguish(all: &mut [Chosen]) {
    let names: Vec<String> = all.iter().map(|guest| guest.name.clone()).collect();
    for guest in all {
        let shared = names.iter().filter(|name| **name == guest.name).count() > 1;
        guest.label = guest.name.clone();
        if shared {
            guest.label = label(&guest.name, &guest.uuid);
        }
    }
}

/// Ends of guests, as far as the journal has them. A guest's last entry is no proof of its end,
/// because the journal has no entries about a quiet guest.
#[derive(Debug, Default)]
pub struct Ends {
    gone: HashSet<GuestKey>,
    /// Last start of a manager. A manager that starts finds every guest that still runs.
    started_ms: Option<i64>,
}

impl Ends {
    /// Collects the ends from events.
    pub fn of(events: &[Found]) -> Ends {
        let gone = events.iter().filter(|found| found.event.kind == kinds::GONE);
        let starts = events.iter().filter(|found| found.event.kind == kinds::MANAGER_START);
        Ends {
            gone: gone.filter_map(|found| found.guest).collect(),
            started_ms: starts.map(|found| found.event.at_ms).max(),
        }
    }

    fn has(&self, row: &GuestRow) -> bool {
        let seen_ms = row.last_ms.saturating_add(MINUTE_MS);
        self.gone.contains(&row.key) || self.started_ms.is_some_and(|at_ms| at_ms > seen_ms)
    }
}

/// Leaves out guests that ended before a range, if another guest of the same name ran in the range.
pub fn within(chosen: Vec<Chosen>, rows: &[GuestRow], range: Range, ends: &Ends) -> Vec<Chosen> {
    let ran = |guest: &Chosen| {
        let mut of_it = rows.iter().filter(|row| guest.keys.contains(&row.key));
        of_it.any(|row| {
            let is_seen = row.last_ms.saturating_add(MINUTE_MS) >= range.from_ms;
            row.first_ms <= range.to_ms && (is_seen || !ends.has(row))
        })
    };
    let (mut in_time, rest): (Vec<Chosen>, Vec<Chosen>) = chosen.into_iter().partition(ran);
    let is_named = |guest: &Chosen| in_time.iter().any(|other| other.name == guest.name);
    let alone: Vec<Chosen> = rest.into_iter().filter(|guest| !is_named(guest)).collect();
    in_time.extend(alone);
    in_time.sort_by(by_name);
    distinguish(&mut in_time);
    in_time
}

/// Returns the guests without their earlier runs. A guest keeps only the boots of its last process.
/// A guest that ended before another guest of its name began is left out.
pub fn present(chosen: &[Chosen], rows: &[GuestRow], ends: &Ends) -> Vec<Chosen> {
    let mut last: Vec<Chosen> = Vec::new();
    let mut times = Vec::new();
    for guest in chosen {
        let of_it = || rows.iter().filter(|row| guest.keys.contains(&row.key));
        let Some(newest) = of_it().max_by_key(|row| (row.last_ms, row.key)) else { continue };
        let of_run = || of_it().filter(|row| row.guest.is_same_process(&newest.guest));
        let keys = of_run().map(|row| row.key).collect();
        let began_ms = of_run().map(|row| row.first_ms).min().unwrap_or(0);
        times.push((began_ms, ends.has(newest).then_some(newest.last_ms)));
        last.push(Chosen { keys, ..guest.clone() });
    }
    let is_replaced = |at: usize| {
        let others = last.iter().zip(&times).enumerate();
        others
            .filter(|(other, (guest, _))| *other != at && guest.name == last[at].name)
            .any(|(_, (_, (began_ms, _)))| times[at].1.is_some_and(|end_ms| *began_ms > end_ms))
    };
    let mut kept: Vec<Chosen> =
        (0..last.len()).filter(|at| !is_replaced(*at)).map(|at| last[at].clone()).collect();
    distinguish(&mut kept);
    kept
}

fn unknown(text: &str, all: &[Chosen]) -> Error {
    let mut names: Vec<&str> = all.iter().map(|guest| guest.name.as_str()).collect();
    names.dedup();
    names.sort_by_key(|name| base::edits(text, name));
    let nearest = names.iter().take(NEAREST).map(|name| plain(name, NAME_WIDTH)).collect();
    Error::Unknown { text: plain(text, NAME_WIDTH), nearest }
}

/// Returns the index of the selected guest for each key.
pub fn places(chosen: &[Chosen]) -> HashMap<GuestKey, usize> {
    let keys = chosen.iter().enumerate();
    keys.flat_map(|(at, guest)| guest.keys.iter().map(move |key| (*key, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::GuestIdentity;

    fn row(key: i64, uuid: &str, name: &str) -> GuestRow {
        let guest = GuestIdentity {
            uuid: uuid.into(),
            name: name.into(),
            class: String::new(),
            pid: None,
            start_ticks: None,
            boot: key.to_string(),
        };
        GuestRow { key: GuestKey(key), guest, first_ms: 0, last_ms: 0 }
    }

    fn rows() -> Vec<GuestRow> {
        vec![
            row(1, "aa", "web1"),
            row(2, "bb", "web2"),
            row(3, "aa", "web1"),
            row(4, "00-00", "mail"),
            row(5, "00-00", "db"),
            row(6, "cc", "old"),
            row(7, "cc", "new"),
        ]
    }

    fn check(text: &str, expected: &[(&str, &[i64])]) {
        let found = choose(text, &rows()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let found: Vec<(&str, Vec<i64>)> = found
            .iter()
            .map(|guest| (guest.label.as_str(), guest.keys.iter().map(|key| key.0).collect()))
            .collect();
        let expected: Vec<(&str, Vec<i64>)> =
            expected.iter().map(|(name, keys)| (*name, keys.to_vec())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn guests_are_found_by_name_pattern_and_uuid() {
        check("web1", &[("web1", &[1, 3])]);
        check("web?", &[("web1", &[1, 3]), ("web2", &[2])]);
        check("BB", &[("web2", &[2])]);
        check("mail", &[("mail", &[4])]);
        check("old", &[("new", &[6, 7])]);
    }

    #[test]
    fn guests_are_in_natural_order() {
        let rows = [row(1, "aa", "web10"), row(2, "bb", "web2"), row(3, "cc", "web1")];
        let names = |all: Vec<Chosen>| all.into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(guests(&rows)), ["web1", "web2", "web10"]);
        let chosen = choose("web*", &rows).unwrap();
        let time = Range { from_ms: 0, to_ms: 1 };
        let chosen = within(chosen, &rows, time, &Ends::default());
        assert_eq!(names(chosen), ["web1", "web2", "web10"]);
    }

    #[test]
    fn guests_of_one_name_are_distinguished() {
        let rows = [row(1, "aaaaaaaa-1", "web"), row(2, "bbbbbbbb-1", "web")];
        let labels: Vec<String> = guests(&rows).into_iter().map(|guest| guest.label).collect();
        assert_eq!(labels, ["web [aaaaaaaa]", "web [bbbbbbbb]"]);
    }

    #[test]
    fn earlier_runs_and_ended_namesakes_are_not_present() {
        let run = |key, uuid: &str, pid, (first_ms, last_ms)| {
            let mut row = row(key, uuid, "web");
            (row.guest.pid, row.first_ms, row.last_ms) = (Some(pid), first_ms, last_ms);
            row
        };
        let rows = [
            run(1, "aa", 1, (0, 100)),
            run(2, "bb", 2, (200, 300)),
            run(3, "bb", 3, (400, 500)),
            run(4, "bb", 3, (500, 900)),
        ];
        let ends = Ends { gone: [GuestKey(1)].into(), started_ms: None };
        let found = present(&choose("web", &rows).unwrap(), &rows, &ends);
        let keys = |found: &[Chosen]| -> Vec<(String, Vec<i64>)> {
            let keys = |guest: &Chosen| guest.keys.iter().map(|key| key.0).collect();
            found.iter().map(|guest| (guest.label.clone(), keys(guest))).collect()
        };
        assert_eq!(keys(&found), [("web".to_owned(), vec![3, 4])]);
        let time = Range { from_ms: 100_000, to_ms: 200_000 };
        let rows = [run(1, "aa", 1, (0, 30_000)), run(2, "bb", 2, (90_000, 95_000))];
        let found = within(choose("web", &rows).unwrap(), &rows, time, &ends);
        assert_eq!(keys(&found), [("web".to_owned(), vec![2])], "aa ended before the time");
        let rows = [run(1, "aaaaaaaa-1", 1, (0, 100)), run(2, "bbbbbbbb-1", 2, (200, 900))];
        let ends = Ends { gone: HashSet::new(), started_ms: Some(90) };
        let found = present(&choose("web", &rows).unwrap(), &rows, &ends);
        let both = [("web [aaaaaaaa]".to_owned(), vec![1]), ("web [bbbbbbbb]".to_owned(), vec![2])];
        assert_eq!(keys(&found), both, "a guest without an end is present, however quiet");
    }

    #[test]
    fn report_h13_namesakes_are_told_apart_by_their_monitors() {
        let rows = [row(1, "/run/a/q.qmp", "windows"), row(2, "/run/b/q.qmp", "windows")];
        let found = choose("/run/b/q.qmp", &rows).unwrap();
        let keys: Vec<_> = found.iter().map(|guest| (&*guest.label, guest.keys.len())).collect();
        assert_eq!(keys, [("windows [/run/b/q.qmp]", 1)]);
        assert_eq!(choose("windows", &rows).unwrap().len(), 2);
    }

    #[test]
    fn an_unknown_guest_is_answered_with_the_nearest_names() {
        let error = choose("wbe2", &rows()).expect_err("unknown").to_string();
        assert!(error.contains(" wbe2; the nearest names are web2, "), "{error}");
        let error = choose("a\u{1b}b", &rows()).expect_err("unknown").to_string();
        assert!(error.contains(" a\u{fffd}b;"), "{error}");
        let error = choose("x", &[]).expect_err("unknown").to_string();
        assert!(error.ends_with("the journal contains no guests yet"), "{error}");
    }
}
