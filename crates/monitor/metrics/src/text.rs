//! Moments as text: OpenMetrics 1.0 and the older text format of Prometheus.

use crate::labels::{self, Labels};
use crate::names::{GUEST_INFO, HOST_INFO, Metric, SAMPLED, Scale, Table};
use model::{GuestField, HostField, Kind, Moment, ProcessField, Row, TierField};
use std::fmt::Write;

/// Format of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format that a client prefers, by its `Accept` header.
    pub fn accepted(header: Option<&str>) -> Format {
        let mut best = (Format::Prometheus, 0u32);
        for range in header.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next() {
                Some("application/openmetrics-text") => Format::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Format::Prometheus,
                _ => continue,
            };
            let mut weight = 1000;
            let mut is_ours = true;
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match (name.trim(), value.trim()) {
                    ("q", q) => weight = thousandths(q),
                    ("version", version) => {
                        is_ours = matches!(version, "1.0.0" | "0.0.1" | "0.0.4");
                    }
                    _ => {}
                }
            }
            if is_ours && weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    /// Returns the `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

fn thousandths(quality: &str) -> u32 {
    let quality: f64 = quality.parse().unwrap_or(0.0);
    // NaN becomes 0, and values out of range are clamped.
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

/// Renders all values of a moment.
pub fn render(moment: &Moment, host: &str, version: &str, format: Format) -> String {
    let mut writer = Writer { out: String::new(), format };
    let of_host = labels::of_host(host);
    let mut with_version = of_host.clone();
    with_version.push(("version", version.to_owned()));
    writer.info(HOST_INFO, "Version of the pinhead that watches the host", [with_version].iter());
    writer.family(SAMPLED, SAMPLED, "gauge", "seconds", "Time at which the values were read");
    let sampled = u64::try_from(moment.at_ms).unwrap_or(0);
    writer.sample(SAMPLED, &between(&of_host), Scale::Places(3), sampled);
    writer.table::<HostField>(&[(between(&of_host), &moment.host)]);

    let tiers = moment.tiers.iter();
    let tiers: Vec<_> =
        tiers.map(|(tier, row)| (between(&labels::of_tier(host, tier)), row)).collect();
    writer.table::<TierField>(&tiers);

    let guests = labels::of_guests(host, moment.guests.keys());
    let info: Vec<_> = guests.iter().map(|(who, of)| labels::info(of, who)).collect();
    writer.info(GUEST_INFO, "Identity of a guest's current start", info.iter());
    let rows: Vec<_> = guests.iter().map(|(who, of)| (between(of), &moment.guests[*who])).collect();
    writer.table::<GuestField>(&rows);

    let mut rows = Vec::new();
    for (who, processes) in &moment.processes {
        let Some(of) = guests.get(who) else { continue };
        for (process, row) in processes {
            rows.push((between(&labels::of_process(of, process)), row));
        }
    }
    writer.table::<ProcessField>(&rows);
    if format == Format::OpenMetrics {
        writer.out.push_str("# EOF\n");
    }
    writer.out
}

/// Returns the labels between the braces.
fn between(labels: &Labels) -> String {
    let mut out = String::new();
    for (name, value) in labels {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
    }
    out
}

struct Writer {
    out: String,
    format: Format,
}

impl Writer {
    fn table<F: Table>(&mut self, rows: &[(String, &Row<F>)]) {
        for (field, metric) in F::ALL.iter().zip(F::metrics()) {
            let mut is_begun = false;
            for (labels, row) in rows {
                let Some(value) = row.get(*field) else { continue };
                if !is_begun {
                    self.begin(metric);
                    is_begun = true;
                }
                self.sample(&metric.name, labels, metric.scale, value);
            }
        }
    }

    fn begin(&mut self, metric: &Metric) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.family(&metric.name, &metric.family, kind, metric.unit, &metric.help);
    }

    fn family(&mut self, name: &str, family: &str, kind: &str, unit: &str, help: &str) {
        let name = match self.format {
            Format::Prometheus => name,
            Format::OpenMetrics => family,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {help}.");
        let _ = writeln!(self.out, "# TYPE {name} {kind}");
        if self.format == Format::OpenMetrics && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
    }

    fn info<'a>(&mut self, name: &str, help: &str, all: impl Iterator<Item = &'a Labels>) {
        let family = name.strip_suffix("_info").unwrap_or(name);
        let kind = if self.format == Format::OpenMetrics { "info" } else { "gauge" };
        for (index, labels) in all.enumerate() {
            if index == 0 {
                self.family(name, family, kind, "", help);
            }
            self.sample(name, &between(labels), Scale::One, 1);
        }
    }

    fn sample(&mut self, name: &str, labels: &str, scale: Scale, value: u64) {
        let _ = write!(self.out, "{name}{{{labels}}} ");
        scale.write(value, &mut self.out);
        self.out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::GuestIdentity;

    fn moment() -> Moment {
        let mut moment = Moment { at_ms: 1_700_000_000_250, ..Moment::default() };
        moment.host.set(HostField::Cpus, Some(2));
        let who = GuestIdentity {
            name: "a\"\\\nb".into(),
            class: "web".into(),
            ..GuestIdentity::default()
        };
        let mut row = Row::default();
        row.set(GuestField::VcpuRun, Some(1_000_000_001));
        moment.guests.insert(who, row);
        moment
    }

    #[test]
    fn both_formats() {
        let text = render(&moment(), "h", "1.0", Format::OpenMetrics);
        let expected = r##"# HELP pinhead_host Version of the pinhead that watches the host.
# TYPE pinhead_host info
pinhead_host_info{host="h",version="1.0"} 1
# HELP pinhead_host_sampled_timestamp_seconds Time at which the values were read.
# TYPE pinhead_host_sampled_timestamp_seconds gauge
# UNIT pinhead_host_sampled_timestamp_seconds seconds
pinhead_host_sampled_timestamp_seconds{host="h"} 1700000000.25
# HELP pinhead_host_cpus CPUs that are online (stat).
# TYPE pinhead_host_cpus gauge
pinhead_host_cpus{host="h"} 2
# HELP pinhead_guest Identity of a guest's current start.
# TYPE pinhead_guest info
pinhead_guest_info{class="web",guest="a\"\\\nb",host="h"} 1
# HELP pinhead_guest_vcpu_run_seconds Run time of the virtual CPUs (task/TID/schedstat).
# TYPE pinhead_guest_vcpu_run_seconds counter
# UNIT pinhead_guest_vcpu_run_seconds seconds
pinhead_guest_vcpu_run_seconds_total{class="web",guest="a\"\\\nb",host="h"} 1.000000001
# EOF
"##;
        assert_eq!(text, expected);
        let text = render(&moment(), "h", "1.0", Format::Prometheus);
        assert!(text.contains("\n# TYPE pinhead_guest_vcpu_run_seconds_total counter\n"), "{text}");
        assert!(text.contains("\n# TYPE pinhead_guest_info gauge\n"), "{text}");
        assert!(!text.contains("UNIT") && !text.contains("EOF"), "{text}");
    }

    #[test]
    fn the_format_follows_the_accept_header() {
        let check = |header, expected| assert_eq!(Format::accepted(header), expected, "{header:?}");
        check(None, Format::Prometheus);
        check(Some("*/*"), Format::Prometheus);
        check(Some("application/openmetrics-text"), Format::OpenMetrics);
        let prometheus = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,\
            */*;q=0.1";
        check(Some(prometheus), Format::OpenMetrics);
        check(Some("text/plain, application/openmetrics-text;q=0.5"), Format::Prometheus);
        check(Some("application/openmetrics-text;version=9"), Format::Prometheus);
        check(Some("application/openmetrics-text;q=nan, ;;=,q"), Format::Prometheus);
    }
}
