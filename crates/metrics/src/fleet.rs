//! A fleet at a glance: the engine adds up, and only what is shown is fetched.
//!
//! ```text
//!   hosts:  increase or mean of a field over the time          one value a host
//!           the same of its guests, added up                   one value a host
//!   guests: topk(N, what is ranked by) ─► which ones ─► their fields alone
//! ```
//!
//! [`read`](crate::read) fetches every sample, and is exact for a host or a few. Of a thousand
//! hosts that is gigabytes, so here the engine's own functions are asked: `increase` for counters,
//! and `avg_over_time` for gauges, over the whole time.

use crate::ask::{Line, Point, instant, range};
use crate::names::{GUEST_INFO, Metric, SAMPLED, Scale, Table};
use crate::{Error, Url};
use model::{Field, GuestField, GuestIdentity, HostField, Kind, Over, Row};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// From when, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when.
    pub to_ms: i64,
    /// Fields of hosts.
    pub hosts: Vec<HostField>,
    /// Fields of guests that are added up for their host.
    pub together: Vec<GuestField>,
    /// Which guests are wanted.
    pub loudest: Loudest,
}

/// The guests that have most of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loudest {
    /// How many.
    pub most: usize,
    /// By what: the sum of these fields.
    pub by: Vec<GuestField>,
    /// Only those whose name or class has this in it, in letters of either size.
    pub like: String,
    /// Their fields.
    pub fields: Vec<GuestField>,
}

/// A host over the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// When it was heard of first and last in the time.
    pub first_ms: i64,
    pub last_ms: i64,
    /// Its guests in the time.
    pub guests: u64,
    /// Its own fields.
    pub over: Over<HostField>,
    /// Those of its guests, added up.
    pub together: Over<GuestField>,
    /// Those of its guests that are among the loudest.
    pub loudest: Vec<(GuestIdentity, Over<GuestField>)>,
}

/// All hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// By name.
    pub hosts: BTreeMap<String, Host>,
    /// How many guests are like the ones that are asked for.
    pub found: u64,
}

/// Steps of a line.
const STEPS_MAX: usize = 1_000;
/// Labels of a guest.
const GUEST_BY: &str = "host,guest,class,uuid";

/// A question over a time.
struct Asker<'a> {
    url: &'a Url,
    to_ms: i64,
    /// As the engines write it.
    span: String,
}

/// Who a value is of.
type Who = (String, GuestIdentity);

impl Asker<'_> {
    fn ask(&self, query: &str) -> Result<Vec<Point>, Error> {
        instant(self.url, query, self.to_ms)
    }

    /// What a field was over the time, of series with these labels.
    fn over<F: Table>(&self, field: F, labels: &str) -> String {
        let (name, _) = metric_of(field);
        let (function, span) = (function(field), &self.span);
        format!("{function}({name}{{{labels}}}[{span}])")
    }

    /// A value of each host.
    fn of_hosts(&self, query: &str, mut take: impl FnMut(&str, f64)) -> Result<(), Error> {
        for point in self.ask(query)? {
            take(point.label("host"), point.value);
        }
        Ok(())
    }

    /// A value of each guest.
    fn of_guests(&self, query: &str) -> Result<Vec<(Who, f64)>, Error> {
        let who =
            |point: &Point| (point.label("host").to_owned(), identity(|name| point.label(name)));
        Ok(self.ask(query)?.iter().map(|point| (who(point), point.value)).collect())
    }
}

/// A field's name in the engine, and how its numbers become the field's.
fn metric_of<F: Table>(field: F) -> (&'static str, Scale) {
    let metric: &Metric = &F::metrics()[field.index()];
    match &metric.exact {
        Some(exact) => (exact, Scale::One),
        None => (&metric.name, metric.scale),
    }
}

fn function<F: Field>(field: F) -> &'static str {
    match field.kind() {
        Kind::Counter => "increase",
        Kind::Gauge => "avg_over_time",
    }
}

fn set<F: Table>(row: &mut Row<F>, field: F, value: f64) {
    let (_, scale) = metric_of(field);
    row.set(field, scale.field(value));
}

/// What all hosts and the loudest guests were like in a time.
pub fn glance(url: &Url, asked: &Glance) -> Result<Fleet, Error> {
    if asked.from_ms >= asked.to_ms || asked.from_ms < 0 {
        return Err(Error::Span { reason: "it ends before it begins" });
    }
    let span = format!("{}ms", asked.to_ms - asked.from_ms);
    let asker = Asker { url, to_ms: asked.to_ms, span };
    let mut fleet = Fleet::default();
    hosts(&asker, asked, &mut fleet)?;
    guests(&asker, &asked.loudest, &mut fleet)?;
    Ok(fleet)
}

/// Equal steps of a time, which end at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// From when, in milliseconds since 1970.
    pub from_ms: i64,
    /// Until when.
    pub to_ms: i64,
    /// How long a step is.
    pub step_ms: i64,
}

impl Steps {
    fn count(self) -> Result<usize, Error> {
        let count = (self.to_ms - self.from_ms).checked_div(self.step_ms).unwrap_or(0);
        let count = usize::try_from(count).ok().filter(|count| (1..=STEPS_MAX).contains(count));
        count.ok_or(Error::Span { reason: "it has no steps, or too many" })
    }

    /// Fields of what has these labels in each step, by whom they are of. What nothing is known
    /// of covers nothing.
    fn lines<F: Table, K: Ord>(
        self,
        url: &Url,
        fields: &[F],
        labels: &str,
        key: impl Fn(&Line) -> K,
    ) -> Result<BTreeMap<K, Vec<Over<F>>>, Error> {
        let Steps { to_ms, step_ms, .. } = self;
        let count = self.count()?;
        let asker = Asker { url, to_ms, span: format!("{step_ms}ms") };
        // The first step ends one step after the beginning.
        let first_ms = to_ms - step_ms * (count as i64 - 1);
        let mut lines: BTreeMap<K, Vec<Over<F>>> = BTreeMap::new();
        for field in fields {
            for line in range(url, &asker.over(*field, labels), (first_ms, to_ms), step_ms)? {
                let steps = lines.entry(key(&line)).or_insert_with(|| vec![Over::default(); count]);
                for (at_ms, value) in line.values() {
                    let at = usize::try_from((at_ms - first_ms).div_euclid(step_ms));
                    let Some(over) = at.ok().and_then(|at| steps.get_mut(at)) else { continue };
                    over.covered_ms = step_ms.unsigned_abs();
                    set(&mut over.row, *field, value);
                }
            }
        }
        Ok(lines)
    }
}

/// Fields of some hosts over time.
pub fn lines(
    url: &Url,
    steps: Steps,
    hosts: &[&str],
    fields: &[HostField],
) -> Result<BTreeMap<String, Vec<Over<HostField>>>, Error> {
    let labels = format!("host=~{}", one_of(hosts.to_vec()));
    steps.lines(url, fields, &labels, |line| line.label("host").to_owned())
}

/// Fields of a host's guests over time.
pub fn guest_lines(
    url: &Url,
    steps: Steps,
    host: &str,
    fields: &[GuestField],
) -> Result<BTreeMap<GuestIdentity, Vec<Over<GuestField>>>, Error> {
    let labels = format!("host={}", quoted(host));
    steps.lines(url, fields, &labels, |line| identity(|name| line.label(name)))
}

/// Who a guest is, by its labels.
fn identity<'a>(label: impl Fn(&str) -> &'a str) -> GuestIdentity {
    GuestIdentity {
        name: label("guest").to_owned(),
        class: label("class").to_owned(),
        uuid: label("uuid").to_owned(),
        ..GuestIdentity::default()
    }
}

fn hosts(asker: &Asker<'_>, asked: &Glance, fleet: &mut Fleet) -> Result<(), Error> {
    let span = &asker.span;
    let to_ms = |seconds: f64| (seconds * 1000.0).round() as i64;
    asker.of_hosts(&format!("min_over_time({SAMPLED}[{span}])"), |host, value| {
        let first_ms = to_ms(value).max(asked.from_ms);
        let host = fleet.hosts.entry(host.to_owned()).or_default();
        (host.first_ms, host.last_ms) = (first_ms, first_ms);
    })?;
    asker.of_hosts(&format!("max_over_time({SAMPLED}[{span}])"), |host, value| {
        if let Some(host) = fleet.hosts.get_mut(host) {
            host.last_ms = to_ms(value).max(host.first_ms);
        }
    })?;
    for host in fleet.hosts.values_mut() {
        let covered_ms = (host.last_ms - host.first_ms).unsigned_abs();
        (host.over.covered_ms, host.together.covered_ms) = (covered_ms, covered_ms);
    }
    let is_info = format!("count by ({GUEST_BY}) (count_over_time({GUEST_INFO}[{span}]))");
    asker.of_hosts(&format!("count by (host) ({is_info})"), |host, value| {
        if let Some(host) = fleet.hosts.get_mut(host) {
            host.guests = value as u64;
        }
    })?;
    for field in &asked.hosts {
        asker.of_hosts(&asker.over(*field, ""), |host, value| {
            if let Some(host) = fleet.hosts.get_mut(host) {
                set(&mut host.over.row, *field, value);
            }
        })?;
    }
    for field in &asked.together {
        let query = format!("sum by (host) ({})", asker.over(*field, ""));
        asker.of_hosts(&query, |host, value| {
            if let Some(host) = fleet.hosts.get_mut(host) {
                set(&mut host.together.row, *field, value);
            }
        })?;
    }
    Ok(())
}

/// The sum of a guest's fields, of series with these labels.
fn rank(asker: &Asker<'_>, by: &[GuestField], labels: &[String]) -> String {
    let of = |field: &GuestField| {
        let each = labels.iter().map(|labels| asker.over(*field, labels));
        format!("sum by ({GUEST_BY}) ({})", each.collect::<Vec<_>>().join(" or "))
    };
    by.iter().map(of).collect::<Vec<_>>().join(" + ")
}

fn guests(asker: &Asker<'_>, loudest: &Loudest, fleet: &mut Fleet) -> Result<(), Error> {
    let like = match loudest.like.is_empty() {
        true => vec![String::new()],
        false => {
            let has = quoted(&format!("(?i).*{}.*", escaped(&loudest.like)));
            vec![format!("guest=~{has}"), format!("class=~{has}")]
        }
    };
    let span = &asker.span;
    let info =
        like.iter().map(|labels| format!("count_over_time({GUEST_INFO}{{{labels}}}[{span}])"));
    let info = info.collect::<Vec<_>>().join(" or ");
    let found = asker.ask(&format!("count(count by ({GUEST_BY}) ({info}))"))?;
    fleet.found = found.first().map_or(0, |point| point.value as u64);
    if loudest.by.is_empty() || fleet.found == 0 {
        return Ok(());
    }
    let ranked = rank(asker, &loudest.by, &like);
    let chosen = asker.of_guests(&format!("topk({}, {ranked})", loudest.most))?;
    // Whose host is not heard of itself is nobody's.
    let mut places: BTreeMap<Who, usize> = BTreeMap::new();
    for (who, _) in chosen {
        let Some(host) = fleet.hosts.get_mut(&who.0) else { continue };
        host.loudest.push((who.1.clone(), Over::default()));
        places.insert(who, host.loudest.len() - 1);
    }
    let labels = labels_of(places.keys());
    let mut give = |who: &Who, set: &dyn Fn(&mut Over<GuestField>, &Host)| {
        let Some(at) = places.get(who) else { return };
        let Some(host) = fleet.hosts.get_mut(&who.0) else { return };
        let mut over = std::mem::take(&mut host.loudest[*at].1);
        set(&mut over, host);
        host.loudest[*at].1 = over;
    };
    // A guest that came later, or went, is known for its part of the host's time.
    let heads = asker.ask(&format!("count_over_time({SAMPLED}[{span}])"))?;
    let heads: BTreeMap<&str, f64> =
        heads.iter().map(|point| (point.label("host"), point.value)).collect();
    let seen = format!("sum by ({GUEST_BY}) (count_over_time({GUEST_INFO}{{{labels}}}[{span}]))");
    for (who, count) in asker.of_guests(&seen)? {
        let all = heads.get(who.0.as_str()).copied().unwrap_or(count).max(1.0);
        let part = (count / all).min(1.0);
        give(&who, &|over, host| {
            over.covered_ms = (host.over.covered_ms as f64 * part).round() as u64;
        });
    }
    for field in &loudest.fields {
        let query = format!("sum by ({GUEST_BY}) ({})", asker.over(*field, &labels));
        for (who, value) in asker.of_guests(&query)? {
            give(&who, &|over, _| set(&mut over.row, *field, value));
        }
    }
    Ok(())
}

/// Labels that at least these guests have, and few others.
fn labels_of<'a>(all: impl Iterator<Item = &'a Who>) -> String {
    let mut hosts: Vec<&str> = Vec::new();
    let mut guests: Vec<&str> = Vec::new();
    for (host, who) in all {
        hosts.push(host);
        guests.push(&who.name);
    }
    format!("host=~{},guest=~{}", one_of(hosts), one_of(guests))
}

/// An expression that is one of these names.
fn one_of(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.dedup();
    quoted(&names.into_iter().map(escaped).collect::<Vec<_>>().join("|"))
}

/// A text as a regular expression that is that text alone.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if letter.is_ascii_punctuation() && letter != '_' {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A text as the engines' language has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\\' | '"' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' => out.push_str("\\n"),
            // Nothing of this can fail: it is a text.
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_itself_and_no_expression() {
        assert_eq!(escaped("web_1.a|b"), "web_1\\.a\\|b");
        assert_eq!(quoted("a\"b\\c\nd\u{1}"), "\"a\\\"b\\\\c\\nd\\u0001\"");
        let who = |host: &str, name: &str| {
            (host.to_owned(), GuestIdentity { name: name.into(), ..GuestIdentity::default() })
        };
        let all = [who("a", "g1"), who("b", "g1"), who("a", "x\"y")];
        assert_eq!(labels_of(all.iter()), r#"host=~"a|b",guest=~"g1|x\\\"y""#);
    }

    #[test]
    fn counters_grow_and_gauges_have_a_mean() {
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        let asker = Asker { url: &url, to_ms: 0, span: "60000ms".into() };
        let by = [GuestField::VcpuRun, GuestField::Private];
        let like = ["guest=~\"a\"".to_owned(), "class=~\"a\"".to_owned()];
        assert_eq!(
            rank(&asker, &by, &like),
            "sum by (host,guest,class,uuid) \
             (increase(pinhead_guest_vcpu_run_nanoseconds_total{guest=~\"a\"}[60000ms]) or \
             increase(pinhead_guest_vcpu_run_nanoseconds_total{class=~\"a\"}[60000ms])) + \
             sum by (host,guest,class,uuid) \
             (avg_over_time(pinhead_guest_private_bytes{guest=~\"a\"}[60000ms]) or \
             avg_over_time(pinhead_guest_private_bytes{class=~\"a\"}[60000ms]))"
        );
    }
}
