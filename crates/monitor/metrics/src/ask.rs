//! Queries of a Prometheus-compatible server, and their responses.

use crate::client::{Call, post};
use crate::{Error, Url};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use std::fmt::{self, Write};
use std::time::Duration;

/// Time limit for a response. The limit is long because a server reads the data of many hosts from
/// disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum size of a response with raw samples. Two thousand guests of a host need half of this
/// size.
const SAMPLES_MAX: usize = 128 << 20;
/// Maximum size of a response with sums. A thousand guests with a line each need a quarter of this
/// size.
const SUMS_MAX: usize = 32 << 20;

/// Labels that are read from a value. An empty label counts as missing. All other labels are
/// ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Labels {
    pub(crate) host: String,
    pub(crate) guest: String,
    pub(crate) class: String,
    pub(crate) uuid: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Point {
    #[serde(rename = "metric")]
    pub(crate) labels: Labels,
    /// Seconds since 1970, and the value.
    value: (f64, Number),
}

impl Point {
    pub(crate) fn value(&self) -> f64 {
        self.value.1.0
    }
}

/// A number as text, because JSON has no infinity. Any other text becomes NaN.
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
    result: T,
}

/// Returns the result of a response, or the error as part of a sentence.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let answer: Answer<T> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => Ok(data.result),
        _ => Err(format!("the query failed: {}", answer.error)),
    }
}

/// Returns the values of a query at a time. Values that are not finite are left out.
pub(crate) fn instant(url: &Url, query: &str, at_ms: i64) -> Result<Vec<Point>, Error> {
    let body = post_form(url, QUERY, query, &[("time", at_ms)], SUMS_MAX)?;
    points(&body).map_err(|reason| Error::Answer { url: format!("{url}{QUERY}"), reason })
}

/// Returns the finite values of a response.
fn points(body: &[u8]) -> Result<Vec<Point>, String> {
    let mut points: Vec<Point> = read(body)?;
    points.retain(|point| point.value().is_finite());
    Ok(points)
}

/// Parses a response of either kind and returns the number of its values, for fuzzing.
pub fn count(body: &[u8]) -> usize {
    let lines: Vec<Line> = read(body).unwrap_or_default();
    let values = lines.iter().map(|line| line.values().count());
    points(body).map_or(0, |points| points.len()) + values.sum::<usize>()
}

/// A series of values at equal distances.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    #[serde(rename = "metric")]
    pub(crate) labels: Labels,
    values: Vec<(f64, Number)>,
}

impl Line {
    /// Returns times in milliseconds since 1970, with values.
    pub(crate) fn values(&self) -> impl Iterator<Item = (i64, f64)> {
        let finite = |(at, number): &(f64, Number)| {
            number.0.is_finite().then(|| ((at * 1000.0).round() as i64, number.0))
        };
        self.values.iter().filter_map(finite)
    }
}

/// Returns the values of a query at each step of a time range.
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

/// Path for a query about one time.
pub(crate) const QUERY: &str = "/api/v1/query";
/// Path for a query about a range of time.
const RANGE: &str = "/api/v1/query_range";

/// Returns the unparsed response to a query for raw samples.
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
    // By default VictoriaMetrics holds back the data of the last half minute. In newer versions the
    // option `latency_offset` prevents this, and in version 1.79 the option `nocache`.
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
    fn a_response_contains_values_with_labels() {
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"host":"a"},"value":[1.5,"2.5"]},{"metric":{},"value":[1,"NaN"]}]}}"#;
        let found = points(body).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].labels.host.as_str(), found[0].labels.guest.as_str()), ("a", ""));
        assert!((found[0].value() - 2.5).abs() < 1e-9);
        let failed = points(br#"{"status":"error","error":"no"}"#).unwrap_err();
        assert_eq!(failed, "the query failed: no");
        for bad in
            ["", "{}", r#"{"status":"success","data":{"result":[{"metric":{},"value":[1,2]}]}}"#]
        {
            assert!(points(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
