//! Overview of several hosts. The server computes the sums, and only displayed values are fetched.
//!
//! ```text
//!   hosts:  increase or mean of a field over the time          one value a host
//!           the same of its guests, added up                   one value a host
//!   guests: topk(N, ranking value) ─► selected guests ─► their fields only
//! ```
//!
//! [`read`](crate::read) fetches every sample, and is exact for a few hosts. For a thousand hosts
//! the samples take gigabytes, so this module uses the server's functions over the whole time:
//! `increase` for counters, and `avg_over_time` for gauges.

use crate::ask::{Labels, Point, instant, range};
use crate::names::{GUEST_INFO, Metric, SAMPLED, Scale, Table};
use crate::select::{escaped, labels_of, one_of, pieces, quoted};
use crate::{Error, Url};
use model::{Field, GuestField, GuestIdentity, HostField, Kind, Over, Row};
use std::collections::{BTreeMap, BTreeSet};

/// Request for an overview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Start in milliseconds since 1970.
    pub from_ms: i64,
    /// End, in milliseconds since 1970.
    pub to_ms: i64,
    /// Fields of hosts.
    pub hosts: Vec<HostField>,
    /// Fields of guests that are summed for each host.
    pub together: Vec<GuestField>,
    /// Selection of guests.
    pub loudest: Loudest,
}

impl Glance {
    fn length_ms(&self) -> i64 {
        self.to_ms - self.from_ms
    }
}

/// Selection of the guests with the highest values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loudest {
    /// Number of guests.
    pub most: usize,
    /// True if `most` applies to each host separately.
    pub of_each: bool,
    /// Fields to rank the guests by. The rank depends on the sum of these fields.
    pub by: Vec<GuestField>,
    /// Text that a guest's name or class must contain. Case does not matter.
    pub like: String,
    /// Fields of the selected guests.
    pub fields: Vec<GuestField>,
}

/// A host over the time range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Time of the last sample before the time range, or else of the first sample in the range.
    pub first_ms: i64,
    /// Time of the last sample.
    pub last_ms: i64,
    /// Number of samples in the time range.
    pub samples: f64,
    /// Number of guests in the time range.
    pub guests: u64,
    /// Fields of the host.
    pub over: Over<HostField>,
    /// Sums of the fields of the host's guests.
    pub together: Over<GuestField>,
    /// Selected guests of the host, with their fields.
    pub loudest: Vec<(GuestIdentity, Over<GuestField>)>,
}

impl Host {
    /// Returns the mean distance between samples.
    pub fn spacing_ms(&self) -> i64 {
        ((self.last_ms - self.first_ms) as f64 / self.samples.max(1.0)) as i64
    }
}

/// All hosts of a fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// Hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// Number of guests that match the request.
    pub found: u64,
}

/// Minimum length of the period before the time range that is searched for samples of guests. A
/// sample in this period proves that the guest existed before the range.
const BEFORE_MS: i64 = 3_600_000;
/// Length of the period before the time range that is searched for a host's last sample. A host
/// with a sample in this period has data from the start of the range.
const LEAD_MS: i64 = 150_000;
/// Maximum number of steps of a line.
const STEPS_MAX: usize = 1_000;
/// Maximum number of steps of all lines together, enough for two thousand guests with 250 steps
/// each.
const LINES_STEPS_MAX: usize = 500_000;
/// Maximum number of hosts in an overview.
const HOSTS_MAX: usize = 50_000;
/// Labels that identify a guest.
const GUEST_BY: &str = "host,guest,class,uuid";

/// Queries over a time range.
struct Asker<'a> {
    url: &'a Url,
    to_ms: i64,
    /// Length of the time range, in PromQL's notation.
    span: String,
    /// True if all hosts push their metrics, with CPU times in whole nanoseconds. Scraped hosts
    /// give CPU times in seconds.
    is_exact: bool,
}

type Who = (String, GuestIdentity);

impl<'a> Asker<'a> {
    fn new(url: &'a Url, to_ms: i64, span: String) -> Result<Asker<'a>, Error> {
        let mut asker = Asker { url, to_ms, span, is_exact: false };
        let exact = HostField::metrics()[HostField::User.index()].exact.as_deref();
        let count = |name: &str| -> Result<f64, Error> {
            let query = format!("count(count by (host) (count_over_time({name}[{}])))", asker.span);
            Ok(asker.ask(&query)?.first().map_or(0.0, |point| point.value()))
        };
        asker.is_exact = count(exact.unwrap_or(SAMPLED))? >= count(SAMPLED)?;
        Ok(asker)
    }

    fn ask(&self, query: &str) -> Result<Vec<Point>, Error> {
        instant(self.url, query, self.to_ms)
    }

    /// Returns the expression of a field over the time range, for series with these labels.
    fn over<F: Table>(&self, field: F, labels: &str) -> String {
        let (function, span) = (function(field), &self.span);
        let over = |name: &str| format!("{function}({name}{{{labels}}}[{span}])");
        let metric: &Metric = &F::metrics()[field.index()];
        match &metric.exact {
            Some(exact) if self.is_exact => over(exact),
            Some(exact) => format!("({} or {} * 1e9)", over(exact), over(&metric.name)),
            None => over(&metric.name),
        }
    }

    /// Sets a value of each known host.
    fn of_hosts(
        &self,
        query: &str,
        hosts: &mut BTreeMap<String, Host>,
        set: impl Fn(&mut Host, f64),
    ) -> Result<(), Error> {
        for point in self.ask(query)? {
            if let Some(host) = hosts.get_mut(point.labels.host.as_str()) {
                set(host, point.value());
            }
        }
        Ok(())
    }

    /// Returns a value of each guest.
    fn of_guests(&self, query: &str) -> Result<Vec<(Who, f64)>, Error> {
        let who = |labels: &Labels| (labels.host.clone(), identity(labels));
        Ok(self.ask(query)?.iter().map(|point| (who(&point.labels), point.value())).collect())
    }
}

/// Returns the scale between a field's value and the value in its series.
fn scale_of<F: Table>(field: F) -> Scale {
    let metric: &Metric = &F::metrics()[field.index()];
    if metric.exact.is_some() { Scale::One } else { metric.scale }
}

fn function<F: Field>(field: F) -> &'static str {
    match field.kind() {
        Kind::Counter => "increase",
        Kind::Gauge => "avg_over_time",
    }
}

fn set<F: Table>(row: &mut Row<F>, field: F, value: f64) {
    row.set(field, scale_of(field).field(value));
}

/// Returns all hosts and the selected guests over a time range.
pub fn glance(url: &Url, asked: &Glance) -> Result<Fleet, Error> {
    if asked.from_ms >= asked.to_ms || asked.from_ms < 0 {
        return Err(Error::Span { reason: "the end is before the start" });
    }
    let span = format!("{}ms", asked.to_ms - asked.from_ms);
    let asker = Asker::new(url, asked.to_ms, span)?;
    let mut fleet = Fleet::default();
    hosts(&asker, asked, &mut fleet.hosts)?;
    guests(&asker, asked, &mut fleet)?;
    Ok(fleet)
}

/// Equal steps of a time range. The last step ends at the end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Start in milliseconds since 1970.
    pub from_ms: i64,
    /// End, in milliseconds since 1970.
    pub to_ms: i64,
    /// Length of a step.
    pub step_ms: i64,
}

impl Steps {
    fn count(self) -> Result<usize, Error> {
        let count = (self.to_ms - self.from_ms).checked_div(self.step_ms).unwrap_or(0);
        let count = usize::try_from(count).ok().filter(|count| (1..=STEPS_MAX).contains(count));
        count.ok_or(Error::Span {
            reason: "it has no whole step, or too many steps: choose another span or step",
        })
    }

    /// Creates a query with the length of a step.
    fn asker(self, url: &Url) -> Result<Asker<'_>, Error> {
        let whole = Asker::new(url, self.to_ms, format!("{}ms", self.to_ms - self.from_ms))?;
        Ok(Asker { span: format!("{}ms", self.step_ms), ..whole })
    }

    /// Returns fields per step for series with these labels, by key. A series without a key is left
    /// out. A step without data has a covered time of 0.
    fn lines<F: Table, K: Ord>(
        self,
        asker: &Asker<'_>,
        fields: &[F],
        labels: &str,
        key: impl Fn(&Labels) -> Option<K>,
    ) -> Result<BTreeMap<K, Vec<Over<F>>>, Error> {
        let Steps { to_ms, step_ms, .. } = self;
        let count = self.count()?;
        // The first step ends one step after the start.
        let first_ms = to_ms - step_ms * (count as i64 - 1);
        let mut lines: BTreeMap<K, Vec<Over<F>>> = BTreeMap::new();
        for field in fields {
            for line in range(asker.url, &asker.over(*field, labels), (first_ms, to_ms), step_ms)? {
                let Some(key) = key(&line.labels) else { continue };
                if !lines.contains_key(&key) && (lines.len() + 1) * count > LINES_STEPS_MAX {
                    return Err(Error::Span {
                        reason: "it has too much data: choose longer steps",
                    });
                }
                let steps = lines.entry(key).or_insert_with(|| vec![Over::default(); count]);
                for (at_ms, value) in line.values() {
                    let at = usize::try_from(at_ms.saturating_sub(first_ms).div_euclid(step_ms));
                    let Some(over) = at.ok().and_then(|at| steps.get_mut(at)) else { continue };
                    over.covered_ms = step_ms.unsigned_abs();
                    set(&mut over.row, *field, value);
                }
            }
        }
        Ok(lines)
    }
}

/// Returns fields of some hosts over time.
pub fn lines(
    url: &Url,
    steps: Steps,
    hosts: &[&str],
    fields: &[HostField],
) -> Result<BTreeMap<String, Vec<Over<HostField>>>, Error> {
    let (asker, mut all) = (steps.asker(url)?, BTreeMap::new());
    for piece in pieces(hosts.iter().map(|host| [*host])) {
        let labels = format!("host=~{}", one_of(piece.into_iter().map(|[host]| host).collect()));
        // The server may return hosts that were not requested.
        let host = |labels: &Labels| {
            Some(labels.host.clone()).filter(|host| hosts.contains(&host.as_str()))
        };
        all.append(&mut steps.lines(&asker, fields, &labels, host)?);
    }
    Ok(all)
}

/// Returns fields of a host's guests over time.
pub fn guest_lines(
    url: &Url,
    steps: Steps,
    host: &str,
    fields: &[GuestField],
) -> Result<BTreeMap<GuestIdentity, Vec<Over<GuestField>>>, Error> {
    let labels = format!("host={}", quoted(host));
    steps.lines(&steps.asker(url)?, fields, &labels, |labels| Some(identity(labels)))
}

fn identity(labels: &Labels) -> GuestIdentity {
    GuestIdentity {
        name: labels.guest.clone(),
        class: labels.class.clone(),
        uuid: labels.uuid.clone(),
        ..GuestIdentity::default()
    }
}

fn hosts(
    asker: &Asker<'_>,
    asked: &Glance,
    hosts: &mut BTreeMap<String, Host>,
) -> Result<(), Error> {
    let span = &asker.span;
    // A sample from before 1970 or after the requested time is invalid, and is clamped.
    let latest_ms = asker.to_ms;
    let to_ms = |seconds: f64| ((seconds * 1000.0).round() as i64).clamp(0, latest_ms);
    for first in asker.ask(&format!("min_over_time({SAMPLED}[{span}])"))? {
        if hosts.len() >= HOSTS_MAX {
            let reason = format!("it has more than {HOSTS_MAX} hosts");
            return Err(Error::Answer { url: asker.url.to_string(), reason });
        }
        let host = hosts.entry(first.labels.host.clone()).or_default();
        host.first_ms = to_ms(first.value());
        // The response with the last times may lack a host.
        host.last_ms = host.first_ms;
    }
    // The growth of counters is measured from the last value before the range.
    let before = format!("last_over_time({SAMPLED}[{LEAD_MS}ms] offset {span})");
    asker
        .of_hosts(&before, hosts, |host, value| host.first_ms = to_ms(value).min(host.first_ms))?;
    let last = format!("max_over_time({SAMPLED}[{span}])");
    asker.of_hosts(&last, hosts, |host, value| host.last_ms = to_ms(value).max(host.first_ms))?;
    let count = format!("count_over_time({SAMPLED}[{span}])");
    asker.of_hosts(&count, hosts, |host, value| host.samples = value)?;
    for host in hosts.values_mut() {
        let covered_ms = (host.last_ms - host.first_ms).unsigned_abs();
        (host.over.covered_ms, host.together.covered_ms) = (covered_ms, covered_ms);
    }
    let each = format!("count by ({GUEST_BY}) (count_over_time({GUEST_INFO}[{span}]))");
    let guests = format!("count by (host) ({each})");
    asker.of_hosts(&guests, hosts, |host, value| host.guests = value as u64)?;
    for field in &asked.hosts {
        let query = asker.over(*field, "");
        asker.of_hosts(&query, hosts, |host, value| set(&mut host.over.row, *field, value))?;
    }
    for field in &asked.together {
        let query = format!("sum by (host) ({})", asker.over(*field, ""));
        asker.of_hosts(&query, hosts, |host, value| set(&mut host.together.row, *field, value))?;
    }
    Ok(())
}

/// Returns the expression for the sum of a guest's fields, for series with these labels.
fn rank(asker: &Asker<'_>, by: &[GuestField], labels: &[String]) -> String {
    // A guest that lacks a field is ranked by its other fields. An added label distinguishes the
    // series of the sum.
    let of = |(at, field): (usize, &GuestField)| {
        let each = labels.iter().map(move |labels| {
            format!("label_replace({},\"field\",\"{at}\",\"\",\"\")", asker.over(*field, labels))
        });
        each.collect::<Vec<_>>()
    };
    let all: Vec<String> = by.iter().enumerate().flat_map(of).collect();
    format!("sum by ({GUEST_BY}) ({})", all.join(" or "))
}

fn guests(asker: &Asker<'_>, asked: &Glance, fleet: &mut Fleet) -> Result<(), Error> {
    let loudest = &asked.loudest;
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
    fleet.found = found.first().map_or(0, |point| point.value() as u64);
    if loudest.by.is_empty() || fleet.found == 0 {
        return Ok(());
    }
    let ranked = rank(asker, &loudest.by, &like);
    let by = if loudest.of_each { "by (host) " } else { "" };
    let chosen = asker.of_guests(&format!("topk {by}({}, {ranked})", loudest.most))?;
    // A guest without a known host is left out.
    let mut places: BTreeMap<Who, usize> = BTreeMap::new();
    // The server may return more guests than requested.
    let most = loudest.most.saturating_mul(if loudest.of_each { fleet.hosts.len() } else { 1 });
    for (who, _) in chosen.into_iter().take(most) {
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
    // An idle guest is not in every sample, so its number of samples does not show its covered
    // time. The number counts only if the guest has no sample before the time range.
    let before = format!("[{}ms] offset {span}", asked.length_ms().max(BEFORE_MS));
    for labels in &labels {
        let old =
            format!("count by ({GUEST_BY}) (count_over_time({GUEST_INFO}{{{labels}}}{before}))");
        let old: BTreeSet<Who> = asker.of_guests(&old)?.into_iter().map(|(who, _)| who).collect();
        let seen =
            format!("sum by ({GUEST_BY}) (count_over_time({GUEST_INFO}{{{labels}}}[{span}]))");
        for (who, count) in asker.of_guests(&seen)? {
            let is_old = old.contains(&who);
            give(&who, &|over, host| {
                let part = if is_old { 1.0 } else { (count / host.samples.max(1.0)).min(1.0) };
                over.covered_ms = (host.over.covered_ms as f64 * part).round() as u64;
            });
        }
        for field in &loudest.fields {
            let query = format!("sum by ({GUEST_BY}) ({})", asker.over(*field, labels));
            for (who, value) in asker.of_guests(&query)? {
                give(&who, &|over, _| set(&mut over.row, *field, value));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_and_gauges_have_a_mean() {
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        let asker = Asker { url: &url, to_ms: 0, span: "60000ms".into(), is_exact: true };
        let by = [GuestField::VcpuRun, GuestField::Private];
        assert_eq!(
            rank(&asker, &by, &["guest=~\"a\"".to_owned()]),
            "sum by (host,guest,class,uuid) (label_replace(\
             increase(pinhead_guest_vcpu_run_nanoseconds_total{guest=~\"a\"}[60000ms]),\
             \"field\",\"0\",\"\",\"\") or label_replace(\
             avg_over_time(pinhead_guest_private_bytes{guest=~\"a\"}[60000ms]),\
             \"field\",\"1\",\"\",\"\"))"
        );
        // Scraped hosts provide seconds.
        let scraped = Asker { is_exact: false, ..asker };
        assert_eq!(
            scraped.over(GuestField::VcpuRun, ""),
            "(increase(pinhead_guest_vcpu_run_nanoseconds_total{}[60000ms]) or \
             increase(pinhead_guest_vcpu_run_seconds_total{}[60000ms]) * 1e9)"
        );
    }
}
