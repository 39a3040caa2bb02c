//! Reconstruction of moments from the response to a query.
//!
//! A response is untrusted. Unknown series, invalid values, and series without the required labels
//! are left out.

use crate::ask;
use crate::names::{self, Metric, Table};
use model::{
    Field, GuestField, GuestIdentity, HostField, Moment, ProcessField, ProcessName, Row, TierField,
};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;
use std::sync::OnceLock;

/// Memory for the result of one response, in MiB. A thousand guests over five seconds need a tenth
/// of this memory.
pub const ROOM_MIB: usize = 48;
/// Size of a moment in bytes, during assembly and in the result together.
const MOMENT_BYTES: usize = 1_024;
/// Size of a guest in a moment in bytes, without its names.
const GUEST_BYTES: usize = 1_024;
/// Size of a process or a tier in a moment in bytes, without its name.
const THING_BYTES: usize = 512;
/// Size of a value in bytes.
const VALUE_BYTES: usize = 32;
/// Number of entries for which a tree allocates memory when it gets its first entry.
const NODE: usize = 5;

/// Moments by host and time.
pub type Moments = BTreeMap<String, BTreeMap<i64, Moment>>;

/// Reason why a response gives no moments.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The response is invalid, for this reason.
    NoAnswer(String),
    /// The result would need more memory than there is room for.
    TooMuch,
}

/// Result of the series of a response. The series are processed one by one, so that they are never
/// all in memory.
struct Built {
    hosts: Hosts,
    is_too_much: bool,
}

impl<'de> Deserialize<'de> for Built {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Built, D::Error> {
        from.deserialize_seq(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Built;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Built, A::Error> {
        let (mut hosts, mut room) = (Hosts::new(), Room(ROOM_MIB << 20));
        while let Some(series) = all.next_element::<Series<'de>>()? {
            if take(series, &mut hosts, &mut room).is_none() {
                while all.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Built { hosts: Hosts::new(), is_too_much: true });
            }
        }
        Ok(Built { hosts, is_too_much: false })
    }
}

/// Remaining memory for the result, in bytes.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(bytes)?;
        Some(())
    }

    /// Reserves bytes for one more entry of a tree with `count` entries.
    fn add(&mut self, bytes: usize, count: usize) -> Option<()> {
        self.take(if count == 0 { NODE * bytes } else { bytes })
    }
}

#[derive(Deserialize)]
struct Series<'a> {
    metric: HashMap<String, String>,
    /// Times in seconds, and numbers as text, since JSON has neither NaN nor infinity.
    #[serde(borrow, default)]
    values: Vec<(f64, &'a str)>,
}

fn bytes(names: &[&String]) -> usize {
    names.iter().map(|name| name.len()).sum()
}

/// Field or other meaning of a metric name.
#[derive(Clone, Copy)]
enum Meaning {
    Host(HostField, Exactness),
    Guest(GuestField, Exactness),
    Tier(TierField, Exactness),
    Process(ProcessField, Exactness),
    Info,
    Sampled,
}

/// Unit of a series: the metric's unit, or whole nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exactness {
    Scaled,
    Exact,
}

/// Labels common to all metrics of a guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    class: String,
    uuid: String,
}

#[derive(Default)]
struct Guest {
    who: Option<GuestIdentity>,
    row: Row<GuestField>,
    processes: BTreeMap<ProcessName, Row<ProcessField>>,
}

/// A moment during assembly.
#[derive(Default)]
struct Parts {
    sampled_ms: Option<i64>,
    host: Row<HostField>,
    tiers: BTreeMap<String, Row<TierField>>,
    guests: BTreeMap<Rc<Key>, Guest>,
}

type Hosts = BTreeMap<String, BTreeMap<i64, Parts>>;

/// Parses a response.
pub fn moments(body: &[u8]) -> Result<Moments, Wrong> {
    let built: Built = ask::read(body).map_err(Wrong::NoAnswer)?;
    if built.is_too_much {
        return Err(Wrong::TooMuch);
    }
    Ok(built.hosts.into_iter().map(|(host, parts)| (host, finished(parts))).collect())
}

fn meanings() -> &'static HashMap<&'static str, Meaning> {
    static MEANINGS: OnceLock<HashMap<&'static str, Meaning>> = OnceLock::new();
    MEANINGS.get_or_init(|| {
        let mut all = HashMap::new();
        all.insert(names::GUEST_INFO, Meaning::Info);
        all.insert(names::SAMPLED, Meaning::Sampled);
        insert(&mut all, Meaning::Host);
        insert(&mut all, Meaning::Guest);
        insert(&mut all, Meaning::Tier);
        insert(&mut all, Meaning::Process);
        all
    })
}

fn insert<F: Table>(all: &mut HashMap<&str, Meaning>, meaning: fn(F, Exactness) -> Meaning) {
    for (field, metric) in F::ALL.iter().zip(F::metrics()) {
        all.insert(&metric.name, meaning(*field, Exactness::Scaled));
        if let Some(exact) = &metric.exact {
            all.insert(exact, meaning(*field, Exactness::Exact));
        }
    }
}

/// Adds a series, or returns `None` if there is no room for the series.
fn take(series: Series<'_>, hosts: &mut Hosts, room: &mut Room) -> Option<()> {
    let Series { mut metric, values } = series;
    let mut label = |name: &str| metric.remove(name).unwrap_or_default();
    let name = label("__name__");
    let Some(meaning) = meanings().get(name.as_str()).copied() else { return Some(()) };
    let host = label("host");
    if !hosts.contains_key(&host) {
        room.take(MOMENT_BYTES + 2 * host.len())?;
    }
    let times = hosts.entry(host).or_default();
    let tier = label("tier");
    let process =
        ProcessName { name: label("process"), pid: label("pid").parse().unwrap_or_default() };
    let key = Rc::new(Key { name: label("guest"), class: label("class"), uuid: label("uuid") });
    let who = GuestIdentity {
        uuid: key.uuid.clone(),
        name: key.name.clone(),
        class: key.class.clone(),
        pid: (process.pid > 0).then_some(process.pid),
        start_ticks: label("start_ticks").parse().ok(),
        boot: label("boot"),
    };
    // The estimate includes all copies of a guest's names: in the moment, with its processes, and
    // with its last sample.
    let guest_bytes = GUEST_BYTES + 4 * bytes(&[&who.name, &who.class, &who.uuid, &who.boot]);
    for (seconds, text) in values {
        let (Some(at_ms), Ok(value)) = (milliseconds(seconds), text.parse::<f64>()) else {
            continue;
        };
        // Prometheus and VictoriaMetrics both mark the end of a series by NaN.
        if !value.is_finite() {
            continue;
        }
        room.take(VALUE_BYTES)?;
        if !times.contains_key(&at_ms) {
            room.add(MOMENT_BYTES, times.len())?;
        }
        let parts = times.entry(at_ms).or_default();
        let is_of_guest =
            matches!(meaning, Meaning::Guest(..) | Meaning::Process(..) | Meaning::Info);
        if is_of_guest && !parts.guests.contains_key(&key) {
            room.add(guest_bytes, parts.guests.len())?;
        }
        let guests = &mut parts.guests;
        match meaning {
            Meaning::Host(field, exactness) => set(&mut parts.host, field, exactness, value),
            Meaning::Tier(field, exactness) => {
                if !parts.tiers.contains_key(&tier) {
                    room.add(THING_BYTES + 2 * tier.len(), parts.tiers.len())?;
                }
                set(parts.tiers.entry(tier.clone()).or_default(), field, exactness, value);
            }
            Meaning::Guest(field, exactness) => {
                set(&mut guest(guests, &key).row, field, exactness, value);
            }
            Meaning::Process(field, exactness) => {
                let processes = &mut guest(guests, &key).processes;
                if !processes.contains_key(&process) {
                    room.add(THING_BYTES + 2 * process.name.len(), processes.len())?;
                }
                set(processes.entry(process.clone()).or_default(), field, exactness, value);
            }
            Meaning::Info => {
                let known = &mut guest(guests, &key).who;
                if known.as_ref() != Some(&who) {
                    room.take(guest_bytes)?;
                    *known = Some(who.clone());
                }
            }
            Meaning::Sampled => parts.sampled_ms = milliseconds(value),
        }
    }
    Some(())
}

fn guest<'a>(guests: &'a mut BTreeMap<Rc<Key>, Guest>, key: &Rc<Key>) -> &'a mut Guest {
    guests.entry(Rc::clone(key)).or_default()
}

/// Sets a field. An exact value replaces a value in seconds. A value in seconds never replaces an
/// exact value.
fn set<F: Table>(row: &mut Row<F>, field: F, exactness: Exactness, value: f64) {
    let metric: &Metric = &F::metrics()[field.index()];
    let scale = match exactness {
        Exactness::Exact => names::Scale::One,
        Exactness::Scaled if row.get(field).is_some() && metric.exact.is_some() => return,
        Exactness::Scaled => metric.scale,
    };
    if let Some(value) = scale.field(value) {
        row.set(field, Some(value));
    }
}

/// Converts the time of a server, or returns `None` if the time is invalid.
fn milliseconds(seconds: f64) -> Option<i64> {
    let is_time = seconds.is_finite() && (0.0..1e12).contains(&seconds);
    is_time.then(|| (seconds * 1000.0).round() as i64)
}

/// Gives each moment the time at which its values were read. Scrapes and pushes of the same moment
/// become one moment.
fn finished(parts: BTreeMap<i64, Parts>) -> BTreeMap<i64, Moment> {
    let mut last: BTreeMap<Rc<Key>, GuestIdentity> = BTreeMap::new();
    let mut all: BTreeMap<i64, Moment> = BTreeMap::new();
    for (engine_ms, Parts { sampled_ms, host, tiers, guests }) in parts {
        let at_ms = sampled_ms.unwrap_or(engine_ms);
        let moment = all.entry(at_ms).or_insert_with(|| Moment { at_ms, ..Moment::default() });
        fill(&mut moment.host, &host);
        for (tier, row) in tiers {
            fill(moment.tiers.entry(tier).or_default(), &row);
        }
        for (key, guest) in guests {
            let who = match (guest.who, last.get(&key)) {
                (Some(who), _) => {
                    last.insert(Rc::clone(&key), who.clone());
                    who
                }
                (None, Some(who)) => who.clone(),
                (None, None) => GuestIdentity {
                    uuid: key.uuid.clone(),
                    name: key.name.clone(),
                    class: key.class.clone(),
                    ..GuestIdentity::default()
                },
            };
            for (process, row) in guest.processes {
                let processes = moment.processes.entry(who.clone()).or_default();
                fill(processes.entry(process).or_default(), &row);
            }
            fill(moment.guests.entry(who).or_default(), &guest.row);
        }
    }
    all
}

fn fill<F: Field>(row: &mut Row<F>, with: &Row<F>) {
    for field in F::ALL {
        if row.get(*field).is_none() {
            row.set(*field, with.get(*field));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
      {"metric":{"__name__":"pinhead_host_cpus","host":"a","instance":"x"},
       "values":[[10.001,"2"],[15.001,"NaN"]]},
      {"metric":{"__name__":"pinhead_host_sampled_timestamp_seconds","host":"a"},
       "values":[[10.001,"9.75"]]},
      {"metric":{"__name__":"pinhead_guest_info","host":"a","guest":"g","pid":"7","boot":"b"},
       "values":[[10.001,"1"]]},
      {"metric":{"__name__":"pinhead_guest_vcpu_run_seconds_total","host":"a","guest":"g"},
       "values":[[10.001,"1.5"],[15.001,"2.000000001"]]},
      {"metric":{"__name__":"pinhead_guest_vcpu_run_nanoseconds_total","host":"a","guest":"g"},
       "values":[[10.001,"1500000001"]]},
      {"metric":{"__name__":"other","host":"b"},"values":[[10.001,"2"]]}]}}"#;

    #[test]
    fn series_become_moments() {
        let hosts = moments(ANSWER.as_bytes()).unwrap();
        assert_eq!(hosts.keys().collect::<Vec<_>>(), ["a"]);
        let found: Vec<_> = hosts["a"].values().collect();
        let [first, second] = found[..] else { panic!("{found:?}") };
        assert_eq!((first.at_ms, second.at_ms), (9750, 15_001));
        assert_eq!(first.host.get(HostField::Cpus), Some(2));
        let (who, row) = first.guests.first_key_value().unwrap();
        assert_eq!((who.name.as_str(), who.pid, who.boot.as_str()), ("g", Some(7), "b"));
        assert_eq!(row.get(GuestField::VcpuRun), Some(1_500_000_001), "the exact one wins");
        let (again, row) = second.guests.first_key_value().unwrap();
        assert_eq!((again, row.get(GuestField::VcpuRun)), (who, Some(2_000_000_001)));
    }

    #[test]
    fn invalid_responses_are_errors_and_odd_values_are_dropped() {
        assert!(moments(b"").is_err());
        assert!(moments(b"[]").is_err());
        let failed = moments(br#"{"status":"error","error":"too much"}"#);
        assert_eq!(failed, Err(Wrong::NoAnswer("the query failed: too much".to_owned())));
        let odd = br#"{"status":"success","data":{"result":[{"metric":{"__name__":
            "pinhead_host_cpus"},"values":[[1e300,"1"],[-1,"1"],[1,"-5"],[2,"x"],[3,"1e400"]]}]}}"#;
        assert!(moments(odd).unwrap()[""].values().all(|m| m.host == Row::default()));
    }

    /// Returns a response with these values for each of these guests.
    fn answer(guests: &[String], values: &[String]) -> String {
        let values = values.join(",");
        let series = guests.iter().map(|guest| {
            format!(
                r#"{{"metric":{{"__name__":"pinhead_guest_info","host":"a","guest":"{guest}"}},
                "values":[{values}]}}"#
            )
        });
        let series: Vec<String> = series.collect();
        format!(r#"{{"status":"success","data":{{"result":[{}]}}}}"#, series.join(","))
    }

    fn values(count: usize, apart_ms: usize) -> Vec<String> {
        (1..=count).map(|at| format!("[{:.3},\"1\"]", (at * apart_ms) as f64 / 1e3)).collect()
    }

    #[test]
    fn finding2_05_times_a_millisecond_apart_are_too_much() {
        let found = moments(answer(&["g".to_owned()], &values(60_000, 1)).as_bytes());
        assert_eq!(found, Err(Wrong::TooMuch));
    }

    #[test]
    fn finding2_05_long_name_that_is_seen_often_is_too_much() {
        let found = moments(answer(&["g".repeat(1_000_000)], &values(1_000, 1_000)).as_bytes());
        assert_eq!(found, Err(Wrong::TooMuch));
    }

    #[test]
    fn finding2_05_guests_of_a_large_host_have_room() {
        let guests: Vec<String> = (0..1_000).map(|guest| format!("guest-{guest}")).collect();
        let hosts = moments(answer(&guests, &values(15, 5_000)).as_bytes()).unwrap();
        assert!(hosts["a"].values().all(|moment| moment.guests.len() == 1_000));
        assert_eq!(hosts["a"].len(), 15);
    }

    #[test]
    fn finding2_05_series_may_arrive_in_any_order() {
        let start = ANSWER.find("{\"metric\"").unwrap();
        let end = ANSWER.rfind("]}}").unwrap();
        let mut series: Vec<&str> = ANSWER[start..end].split(",\n      {\"metric\"").collect();
        series[0] = series[0].strip_prefix("{\"metric\"").unwrap();
        series.reverse();
        let series: Vec<String> = series.iter().map(|rest| format!("{{\"metric\"{rest}")).collect();
        let turned = format!("{}{}{}", &ANSWER[..start], series.join(","), &ANSWER[end..]);
        assert_eq!(moments(turned.as_bytes()), moments(ANSWER.as_bytes()));
    }
}
