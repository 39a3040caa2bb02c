//! Moments as requests of Prometheus' remote write, version 1.0.
//!
//! ```text
//!   WriteRequest  1: TimeSeries*
//!   TimeSeries    1: Label*   (by name)      2: Sample*
//!   Label         1: name     2: value
//!   Sample        1: value (double)          2: milliseconds since 1970 (varint)
//! ```
//!
//! A request is compressed as one block of Snappy.

use crate::labels::{self, Labels};
use crate::names::{GUEST_INFO, HOST_INFO, SAMPLED, Scale, Table};
use model::{GuestField, HostField, Moment, ProcessField, Row, TierField};

/// Maximum number of series in a request: about 200 KB before compression, far below receivers'
/// limits.
const SERIES_MAX: usize = 1000;

/// Wire types of protobuf fields used here.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

/// Returns all values of a moment as compressed bodies of requests.
pub fn encode(moment: &Moment, host: &str, version: &str) -> Vec<Vec<u8>> {
    let mut writer = Writer { at_ms: moment.at_ms, ..Writer::default() };
    let of_host = labels::of_host(host);
    let mut with_version = of_host.clone();
    with_version.push(("version", version.to_owned()));
    writer.series(HOST_INFO, &encoded(&with_version), 1.0);
    let of_host = encoded(&of_host);
    let sampled = u64::try_from(moment.at_ms).unwrap_or(0);
    writer.series(SAMPLED, &of_host, Scale::Places(3).number(sampled));
    writer.row::<HostField>(&of_host, &moment.host);
    for (tier, row) in &moment.tiers {
        writer.row::<TierField>(&encoded(&labels::of_tier(host, tier)), row);
    }
    for (who, labels) in labels::of_guests(host, moment.guests.keys()) {
        writer.series(GUEST_INFO, &encoded(&labels::info(&labels, who)), 1.0);
        writer.row::<GuestField>(&encoded(&labels), &moment.guests[who]);
        for (process, row) in moment.processes.get(who).into_iter().flatten() {
            let labels = labels::of_process(&labels, process);
            writer.row::<ProcessField>(&encoded(&labels), row);
        }
    }
    writer.end();
    writer.done
}

/// Returns labels as protobuf fields of a series.
fn encoded(labels: &Labels) -> Vec<u8> {
    let mut out = Vec::new();
    labels.iter().for_each(|(name, value)| label(name, value, &mut out));
    out
}

fn label(name: &str, value: &str, out: &mut Vec<u8>) {
    let mut inner = Vec::with_capacity(name.len() + value.len() + 8);
    bytes(1, name.as_bytes(), &mut inner);
    bytes(2, value.as_bytes(), &mut inner);
    bytes(1, &inner, out);
}

fn bytes(field: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | BYTES);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[derive(Default)]
struct Writer {
    at_ms: i64,
    request: Vec<u8>,
    count: usize,
    done: Vec<Vec<u8>>,
}

impl Writer {
    fn row<F: Table>(&mut self, labels: &[u8], row: &Row<F>) {
        for (field, metric) in F::ALL.iter().zip(F::metrics()) {
            let Some(value) = row.get(*field) else { continue };
            self.series(&metric.name, labels, metric.scale.number(value));
            if let Some(exact) = &metric.exact {
                self.series(exact, labels, value as f64);
            }
        }
    }

    fn series(&mut self, name: &str, labels: &[u8], value: f64) {
        let mut series = Vec::with_capacity(labels.len() + name.len() + 40);
        // `__name__` sorts before all other labels.
        label("__name__", name, &mut series);
        series.extend_from_slice(labels);
        let mut sample = vec![1 << 3 | FIXED64];
        sample.extend_from_slice(&value.to_le_bytes());
        sample.push(2 << 3 | VARINT);
        varint(self.at_ms.cast_unsigned(), &mut sample);
        bytes(2, &sample, &mut series);
        bytes(1, &series, &mut self.request);
        self.count += 1;
        if self.count == SERIES_MAX {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.count == 0 {
            return;
        }
        // Compression fails only for more than 4 GiB.
        if let Ok(body) = snap::raw::Encoder::new().compress_vec(&self.request) {
            self.done.push(body);
        }
        self.request.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::GuestIdentity;

    #[test]
    fn a_series_is_encoded_as_the_expected_bytes() {
        let mut writer = Writer { at_ms: 300, ..Writer::default() };
        writer.series("up", &encoded(&vec![("host", "h".to_owned())]), 1.0);
        let expected = [
            &b"\x0a\x2c"[..],
            b"\x0a\x0e\x0a\x08__name__\x12\x02up",
            b"\x0a\x09\x0a\x04host\x12\x01h",
            b"\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xac\x02",
        ];
        // The length of the series is the total length of its fields.
        let inner: usize = expected[1..].iter().map(|part| part.len()).sum();
        assert_eq!(writer.request[1] as usize, inner);
        assert_eq!(writer.request[2..], expected[1..].concat());
        assert_eq!(writer.request[0], expected[0][0]);
    }

    #[test]
    fn many_series_are_several_requests() {
        let mut moment = Moment::default();
        for number in 0..300 {
            let mut row = Row::default();
            row.set(GuestField::VcpuRun, Some(number));
            row.set(GuestField::Exits, Some(number));
            let name = format!("g{number}");
            moment.guests.insert(GuestIdentity { name, ..GuestIdentity::default() }, row);
        }
        // Four series per guest: info, run time, run time in nanoseconds, exits.
        let requests = encode(&moment, "h", "1");
        assert_eq!(requests.len(), 2);
        let sizes = requests.iter().map(|body| snap::raw::decompress_len(body).unwrap());
        assert!(sizes.max().unwrap() < 400_000);
    }
}
