//! A question to an engine that speaks Prometheus' interface, and its answer.

use crate::client::{Call, post};
use crate::{Error, Url};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use std::fmt::{self, Write};
use std::time::Duration;

/// An answer may take so long: an engine reads from disk, for many hosts.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer with raw samples: two thousand guests of a host have half of it.
const SAMPLES_MAX: usize = 128 << 20;
/// Bytes of an answer that the engine has added up: a line of each of a thousand guests has a
/// quarter of it.
const SUMS_MAX: usize = 32 << 20;

/// The labels of a value that are asked for. An empty one is none; others are left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Labels {
    pub(crate) host: String,
    pub(crate) guest: String,
    pub(crate) class: String,
    pub(crate) uuid: String,
}

/// One value of an answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Point {
    #[serde(rename = "metric")]
    pub(crate) labels: Labels,
    /// Seconds since 1970, and the value then.
    value: (f64, Number),
}

impl Point {
    /// The value.
    pub(crate) fn value(&self) -> f64 {
        self.value.1.0
    }
}

/// A number as text: JSON itself has none for an infinity. Any other text is read as no number.
#[derive(Debug)]
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        from.deserialize_str(Digits)
    }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number as text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        Ok(Number(text.parse().unwrap_or(f64::NAN)))
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data<T>>,
}

#[derive(Deserialize)]
struct Data<T> {
    result: Vec<T>,
}

/// The results of an answer, or what is wrong with it, as a clause.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>, String> {
    let answer: Answer<T> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => Ok(data.result),
        _ => Err(format!("it failed: {}", answer.error)),
    }
}

/// What a query is at a time. Values that are no number are left out.
pub(crate) fn instant(url: &Url, query: &str, at_ms: i64) -> Result<Vec<Point>, Error> {
    let body = post_form(url, QUERY, query, &[("time", at_ms)], SUMS_MAX)?;
    points(&body).map_err(|reason| Error::Answer { url: format!("{url}{QUERY}"), reason })
}

/// The values of an answer that are numbers.
fn points(body: &[u8]) -> Result<Vec<Point>, String> {
    let mut points: Vec<Point> = read(body)?;
    points.retain(|point| point.value().is_finite());
    Ok(points)
}

/// Reads an answer of either kind, and tells how many values it has: for who tries out what comes
/// from outside.
pub fn count(body: &[u8]) -> usize {
    let lines: Vec<Line> = read(body).unwrap_or_default();
    let values = lines.iter().map(|line| line.values().count());
    points(body).map_or(0, |points| points.len()) + values.sum::<usize>()
}

/// The values of an answer at equal distances.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    #[serde(rename = "metric")]
    pub(crate) labels: Labels,
    values: Vec<(f64, Number)>,
}

impl Line {
    /// When, in milliseconds since 1970, and how much.
    pub(crate) fn values(&self) -> impl Iterator<Item = (i64, f64)> {
        let finite = |(at, number): &(f64, Number)| {
            number.0.is_finite().then(|| ((at * 1000.0).round() as i64, number.0))
        };
        self.values.iter().filter_map(finite)
    }
}

/// What a query is at each step of a time.
pub(crate) fn range(
    url: &Url,
    query: &str,
    (from_ms, to_ms): (i64, i64),
    step_ms: i64,
) -> Result<Vec<Line>, Error> {
    let times = [("start", from_ms), ("end", to_ms), ("step", step_ms)];
    let body = post_form(url, RANGE, query, &times, SUMS_MAX)?;
    read(&body).map_err(|reason| Error::Answer { url: format!("{url}{RANGE}"), reason })
}

/// Where a query is asked.
pub(crate) const QUERY: &str = "/api/v1/query";
/// And where one over a time.
const RANGE: &str = "/api/v1/query_range";

/// The answer to a query for raw samples, as it comes.
pub(crate) fn samples(url: &Url, query: &str, at_ms: i64) -> Result<Vec<u8>, Error> {
    post_form(url, QUERY, query, &[("time", at_ms)], SAMPLES_MAX)
}

fn post_form(
    url: &Url,
    path: &str,
    query: &str,
    times: &[(&str, i64)],
    answer_max: usize,
) -> Result<Vec<u8>, Error> {
    // VictoriaMetrics keeps back what came in the last half minute, unless it is told not to: by
    // the first in newer versions, by the second in 1.79.
    let mut form = format!("latency_offset=1ms&nocache=1&query={}", form_encoded(query));
    for (name, ms) in times {
        let _ = write!(form, "&{name}={}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
    }
    post(&Call {
        url,
        path,
        headers: &[("Content-Type", "application/x-www-form-urlencoded")],
        body: form.as_bytes(),
        patience: PATIENCE,
        answer_max,
    })
}

fn form_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                out.push(char::from(byte));
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded() {
        let encoded = "%7Ba%3D%7E%22b.%2B%22%7D%5B5m%5D";
        assert_eq!(form_encoded("{a=~\"b.+\"}[5m]"), encoded);
    }

    #[test]
    fn an_answer_is_values_with_labels() {
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"host":"a"},"value":[1.5,"2.5"]},{"metric":{},"value":[1,"NaN"]}]}}"#;
        let found = points(body).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].labels.host.as_str(), found[0].labels.guest.as_str()), ("a", ""));
        assert!((found[0].value() - 2.5).abs() < 1e-9);
        let failed = points(br#"{"status":"error","error":"no"}"#).unwrap_err();
        assert_eq!(failed, "it failed: no");
        for bad in
            ["", "{}", r#"{"status":"success","data":{"result":[{"metric":{},"value":[1,2]}]}}"#]
        {
            assert!(points(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
