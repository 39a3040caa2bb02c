//! From the answer to a query to moments: what was exposed or pushed, read back.
//!
//! Everything in an answer comes from outside. Series that are none of ours, values that can be
//! none of theirs, and labels that are missing are left out.

use crate::names::{self, Metric, Table};
use model::{
    Field, GuestField, GuestIdentity, HostField, Moment, ProcessField, ProcessName, Row, TierField,
};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::OnceLock;

/// Moments of hosts, by host and time.
pub type Moments = BTreeMap<String, BTreeMap<i64, Moment>>;

/// An answer of `/api/v1/query`.
#[derive(Deserialize)]
struct Answer<'a> {
    status: String,
    #[serde(default)]
    error: String,
    #[serde(borrow)]
    data: Option<Data<'a>>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<Series<'a>>,
}

#[derive(Deserialize)]
struct Series<'a> {
    metric: HashMap<String, String>,
    /// Times in seconds, and numbers, which are text since JSON has none that is no number.
    #[serde(borrow, default)]
    values: Vec<(f64, &'a str)>,
}

/// Which field of which table a name stands for.
#[derive(Clone, Copy)]
enum Meaning {
    Host(HostField, Exactness),
    Guest(GuestField, Exactness),
    Tier(TierField, Exactness),
    Process(ProcessField, Exactness),
    Info,
    Sampled,
}

/// Whether a series is in the metric's unit, or counts nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exactness {
    Scaled,
    Exact,
}

/// What all metrics of a guest have in common.
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

/// A moment as it is put together.
#[derive(Default)]
struct Parts {
    sampled_ms: Option<i64>,
    host: Row<HostField>,
    tiers: BTreeMap<String, Row<TierField>>,
    guests: BTreeMap<Rc<Key>, Guest>,
}

type Hosts = BTreeMap<String, BTreeMap<i64, Parts>>;

/// Reads an answer. What is wrong with it is told as a clause.
pub fn moments(body: &[u8]) -> Result<Moments, String> {
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let data = match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => data,
        _ => return Err(format!("it failed: {}", answer.error)),
    };
    let mut hosts = Hosts::new();
    // What is exact comes first, and the same in seconds does not replace it.
    let (exact, scaled): (Vec<Series<'_>>, Vec<Series<'_>>) =
        data.result.into_iter().partition(|series| {
            let name = series.metric.get("__name__");
            name.is_some_and(|name| name.ends_with("_nanoseconds_total"))
        });
    exact.into_iter().chain(scaled).for_each(|series| take(series, &mut hosts));
    Ok(hosts.into_iter().map(|(host, parts)| (host, finished(parts))).collect())
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

fn take(series: Series<'_>, hosts: &mut Hosts) {
    let Series { mut metric, values } = series;
    let mut label = |name: &str| metric.remove(name).unwrap_or_default();
    let name = label("__name__");
    let Some(meaning) = meanings().get(name.as_str()).copied() else { return };
    let times = hosts.entry(label("host")).or_default();
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
    for (seconds, text) in values {
        let (Some(at_ms), Ok(value)) = (milliseconds(seconds), text.parse::<f64>()) else {
            continue;
        };
        // Both kinds of engine mark the end of a series by a value that is no number.
        if !value.is_finite() {
            continue;
        }
        let parts = times.entry(at_ms).or_default();
        let guests = &mut parts.guests;
        match meaning {
            Meaning::Host(field, exactness) => set(&mut parts.host, field, exactness, value),
            Meaning::Tier(field, exactness) => {
                set(parts.tiers.entry(tier.clone()).or_default(), field, exactness, value);
            }
            Meaning::Guest(field, exactness) => {
                set(&mut guest(guests, &key).row, field, exactness, value);
            }
            Meaning::Process(field, exactness) => {
                let row = guest(guests, &key).processes.entry(process.clone()).or_default();
                set(row, field, exactness, value);
            }
            Meaning::Info => guest(guests, &key).who = Some(who.clone()),
            Meaning::Sampled => parts.sampled_ms = milliseconds(value),
        }
    }
}

fn guest<'a>(guests: &'a mut BTreeMap<Rc<Key>, Guest>, key: &Rc<Key>) -> &'a mut Guest {
    guests.entry(Rc::clone(key)).or_default()
}

fn set<F: Table>(row: &mut Row<F>, field: F, exactness: Exactness, value: f64) {
    let metric: &Metric = &F::metrics()[field.index()];
    match exactness {
        Exactness::Exact => row.set(field, names::Scale::One.field(value)),
        Exactness::Scaled if row.get(field).is_some() && metric.exact.is_some() => {}
        Exactness::Scaled => row.set(field, metric.scale.field(value)),
    }
}

/// Times as the engines write them; what cannot be one is left out.
fn milliseconds(seconds: f64) -> Option<i64> {
    let is_time = seconds.is_finite() && (0.0..1e12).contains(&seconds);
    is_time.then(|| (seconds * 1000.0).round() as i64)
}

/// Gives moments the time at which their values were read. Several scrapes of one moment are
/// one, and so is a moment that was both scraped and pushed.
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
    fn what_is_no_answer_is_told() {
        assert!(moments(b"").is_err());
        assert!(moments(b"[]").is_err());
        let failed = moments(br#"{"status":"error","error":"too much"}"#);
        assert_eq!(failed, Err("it failed: too much".to_owned()));
        let odd = br#"{"status":"success","data":{"result":[{"metric":{"__name__":
            "pinhead_host_cpus"},"values":[[1e300,"1"],[-1,"1"],[1,"-5"],[2,"x"],[3,"1e400"]]}]}}"#;
        assert!(moments(odd).unwrap()[""].values().all(|m| m.host == Row::default()));
    }
}
