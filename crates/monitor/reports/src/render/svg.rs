//! Charts as self-contained SVG: lines, stacked areas, bars.
//!
//! A chart is as wide as its page, and its text keeps its size. Horizontal positions are therefore
//! percentages, and a nested picture stretches the lines and areas. Colours are CSS classes, so
//! that the page's style chooses them for light and dark.

use crate::fields::Derived;
use crate::number::shown;
use crate::time::{Zone, clock_text, date_text};
use base::duration::{DAY_MS, HOUR_MS, MINUTE_MS};
use base::{clip, html::escaped};
use std::fmt::Write;

/// Width of the coordinates that are stretched to the width of the page.
const WIDTH: f64 = 1000.0;
/// Height of a chart in pixels, as in the page's style, and the room above and below the values.
const HEIGHT: f64 = 240.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;
/// Maximum number of time labels below a chart.
const TIMES: i64 = 8;
/// Possible distances between the time labels, in milliseconds.
const STEPS_MS: [i64; 18] = [
    1_000,
    5_000,
    10_000,
    30_000,
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    4 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    60 * DAY_MS,
];
/// Maximum number of marks; a chart with more marks is unreadable.
const MARKS_MAX: usize = 500;
/// Height of a bar, and of a row with the text above its bar, in pixels.
const BAR: f64 = 8.0;
const ROW: f64 = 34.0;

/// Values of one quantity over time.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Name with the unit.
    pub name: String,
    /// Meaning of the values.
    pub words: &'a str,
    /// Digits after the decimal point.
    pub decimals: u8,
    /// Index of the colour in the page's style.
    pub colour: usize,
    /// Values, one for each interval of the frame.
    pub values: Vec<Option<f64>>,
}

impl Series<'_> {
    /// Returns the series of a chart's fields, without fields that have no values. A field keeps
    /// its colour if another field has no values.
    pub fn all(fields: Vec<(&'static Derived, Vec<Option<f64>>)>) -> Vec<Series<'static>> {
        let colours = colours(&fields.iter().map(|(field, _)| *field).collect::<Vec<_>>());
        let known = fields.into_iter().zip(colours);
        known
            .filter(|((_, values), _)| values.iter().any(Option::is_some))
            .map(|((field, values), colour)| Series {
                name: field.heading(),
                words: field.words,
                decimals: field.decimals,
                colour,
                values,
            })
            .collect()
    }
}

/// An event, marked below a chart.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Time in milliseconds since 1970.
    pub at_ms: i64,
    /// Index of the colour in the page's style.
    pub colour: usize,
    /// Kind of the event. Events of one kind have one colour.
    pub kind: &'static str,
    /// Description of the event.
    pub text: String,
}

/// Properties that all charts over time share.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// Start of the chart, in milliseconds since 1970.
    pub from_ms: i64,
    /// End of the chart.
    pub to_ms: i64,
    /// Time zone of the times shown.
    pub zone: &'a dyn Zone,
    /// Start and length of each interval.
    pub spans: &'a [(i64, u64)],
    /// Title of the chart.
    pub title: &'a str,
    /// Number that distinguishes the charts of a page.
    pub id: usize,
    /// Events during the time of the chart.
    pub marks: &'a [Mark],
}

impl Frame<'_> {
    fn x(&self, at_ms: i64) -> f64 {
        let whole = (self.to_ms - self.from_ms).max(1) as f64;
        (at_ms - self.from_ms) as f64 / whole * WIDTH
    }

    fn middle(&self, at: usize) -> f64 {
        let (from_ms, length_ms) = self.spans[at];
        let half = i64::try_from(length_ms / 2).unwrap_or(0);
        self.x(from_ms.saturating_add(half))
    }

    /// Returns true if the interval follows the previous interval without a gap.
    fn follows(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.spans[before]) else { return false };
        let end = before.0.saturating_add(i64::try_from(before.1).unwrap_or(0));
        self.spans[at].0 <= end.saturating_add(1)
    }

    fn open(&self, series: &[Series<'_>]) -> String {
        let mut out = String::new();
        let (id, title) = (self.id, escaped(self.title));
        let _ = write!(
            out,
            "<svg class=\"plot\" role=\"img\" \
             aria-labelledby=\"t{id} d{id}\"><title id=\"t{id}\">{title}</title><desc id=\"d{id}\">"
        );
        for one in series {
            let known: Vec<f64> = one.values.iter().flatten().copied().collect();
            let least = known.iter().copied().fold(f64::INFINITY, f64::min);
            let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let digits = one.decimals;
            let (least, most) = (shown(Some(least), digits), shown(Some(most), digits));
            let name = escaped(&one.name);
            let _ = write!(out, "{name}: from {least} to {most}. ");
        }
        out.push_str("</desc>");
        out
    }

    /// Draws horizontal lines with their values, and times below.
    fn axes(&self, top: f64) -> String {
        let mut out = String::new();
        for step in 0..=4 {
            let value = top * f64::from(step) / 4.0;
            let y = y(value, top);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"0\" y1=\"{y:.1}\" x2=\"100%\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"-8\" y=\"{:.1}\">{}</text>",
                y + 4.0,
                tick(value, top)
            );
        }
        let is_dates = self.to_ms - self.from_ms > 2 * DAY_MS;
        let times = round_times(self.from_ms, self.to_ms, self.zone);
        for (at_ms, at) in times.into_iter().zip(0..) {
            let text = if is_dates {
                date_text(at_ms, self.zone).get(5..).unwrap_or_default().to_owned()
            } else {
                clock_text(at_ms, self.zone)
            };
            let x = self.x(at_ms);
            let place = if x > WIDTH - 30.0 { "end" } else { "mid" };
            // A narrow page has room for every other time label only.
            let odd = if at % 2 == 1 { " odd" } else { "" };
            let _ = write!(
                out,
                "<text class=\"{place}{odd}\" x=\"{:.2}%\" y=\"{:.1}\">{text}</text>",
                percent(x),
                HEIGHT - 8.0
            );
        }
        out
    }

    /// Draws the events as small triangles on the time axis.
    fn marked(&self) -> String {
        let mut out = String::new();
        let is_in = |mark: &&Mark| (self.from_ms..=self.to_ms).contains(&mark.at_ms);
        for mark in self.marks.iter().filter(is_in).take(MARKS_MAX) {
            let (x, foot) = (self.x(mark.at_ms), HEIGHT - BOTTOM);
            let _ = write!(
                out,
                "<svg class=\"mark\" x=\"{:.2}%\" y=\"{:.1}\"><path class=\"area s{}\" \
                 d=\"M0 0l5 9h-10Z\"><title>{}</title></path></svg>",
                percent(x),
                foot - 9.0,
                mark.colour,
                escaped(&mark.text)
            );
        }
        out
    }

    /// Draws one line per series.
    pub fn curves(&self, series: &[Series<'_>]) -> String {
        let highest = series.iter().flat_map(|one| &one.values).flatten();
        let top = nice(highest.copied().fold(0.0, f64::max));
        let mut out = self.open(series);
        out.push_str(&self.axes(top));
        out.push_str(&stretched());
        for one in series {
            let mut path = String::new();
            let mut is_drawing = false;
            for (at, value) in one.values.iter().enumerate() {
                let Some(value) = value else {
                    is_drawing = false;
                    continue;
                };
                let (x, y) = (self.middle(at), y(*value, top));
                let is_on = is_drawing && self.follows(at);
                let _ = write!(path, "{}{x:.1} {y:.1}", if is_on { 'L' } else { 'M' });
                let is_on_next =
                    one.values.get(at + 1).is_some_and(Option::is_some) && self.follows(at + 1);
                // An isolated point becomes a line as long as its interval.
                if !is_on && !is_on_next {
                    let (from_ms, length_ms) = self.spans[at];
                    let end_ms = from_ms.saturating_add(i64::try_from(length_ms).unwrap_or(0));
                    let _ = write!(path, "M{:.1} {y:.1}H{:.1}", self.x(from_ms), self.x(end_ms));
                }
                is_drawing = true;
            }
            let _ = write!(out, "<path class=\"line s{}\" d=\"{path}\"/>", one.colour);
        }
        out.push_str("</svg>");
        out.push_str(&self.marked());
        out.push_str("</svg>");
        out
    }

    /// Draws stacked areas. An interval without values is a gap.
    pub fn areas(&self, series: &[Series<'_>]) -> String {
        let sum_at = |at: usize| series.iter().filter_map(|one| one.values[at]).sum::<f64>();
        let highest = (0..self.spans.len()).map(sum_at).fold(0.0, f64::max);
        // Shares sum to 100, and rounding must not enlarge the scale to 125.
        let is_share = (highest - 100.0).abs() < 0.5;
        let top = if is_share { 100.0 } else { nice(highest) };
        let mut out = self.open(series);
        out.push_str(&self.axes(top));
        out.push_str(&stretched());
        let mut below = vec![0.0_f64; self.spans.len()];
        for one in series {
            let mut path = String::new();
            for (at, (from_ms, length_ms)) in self.spans.iter().enumerate() {
                let Some(value) = one.values[at] else { continue };
                let length = i64::try_from(*length_ms).unwrap_or(0);
                let (from, to) = (self.x(*from_ms), self.x(from_ms.saturating_add(length)));
                let (low, high) = (y(below[at], top), y(below[at] + value.max(0.0), top));
                let _ = write!(path, "M{from:.1} {low:.1}V{high:.1}H{to:.1}V{low:.1}Z");
                below[at] += value.max(0.0);
            }
            let _ = write!(out, "<path class=\"area s{}\" d=\"{path}\"/>", one.colour);
        }
        out.push_str("</svg>");
        out.push_str(&self.marked());
        out.push_str("</svg>");
        out
    }
}

/// Opens the nested picture, which is stretched to the width of its chart.
fn stretched() -> String {
    format!(
        "<svg width=\"100%\" height=\"100%\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         preserveAspectRatio=\"none\">"
    )
}

fn percent(x: f64) -> f64 {
    x / WIDTH * 100.0
}

/// Number of line colours in the page's style, and the indexes of two greys. The further colours of
/// families follow the greys.
const COLOURS: usize = 7;
const UNUSED: usize = 7;
const OTHER: usize = 8;

/// Owners of the host's memory, from the bottom of a chart up. Their sum is the total memory.
pub const OWNERS: &[&str] = &[
    "guests_mib",
    "hypervisors_mib",
    "together_mib",
    "zram_mib",
    "manager_mib",
    "processes_mib",
    "cache_mib",
    "shared_mib",
    "buffers_mib",
    "slab_mib",
    "tables_mib",
    "kernel_mib",
    "zswap_mib",
    "huge_mib",
    "lists_mib",
    "other_mib",
    "free_mib",
];

/// States of the virtual CPUs. Their sum is the virtual CPUs' whole time.
pub const STATES: &[&str] = &[
    "run_percent",
    "emulation_percent",
    "halt_poll_percent",
    "cpu_wait_percent",
    "page_wait_percent",
    "io_wait_percent",
    "limit_percent",
    "async_io_percent",
    "parked_percent",
    "idle_short_percent",
    "idle_percent",
    "other_percent",
];

/// Fields that share a chart and have the same colour in every chart. Unused parts, which come
/// last, are grey.
const FAMILIES: [&[&str]; 2] = [OWNERS, STATES];

/// Returns the colours of a chart's fields. Fields of a family keep their colours in every chart.
pub fn colours(fields: &[&Derived]) -> Vec<usize> {
    let grey = |field: &Derived| match field.id {
        "free_mib" | "idle_percent" => Some(UNUSED),
        "other_mib" | "other_percent" => Some(OTHER),
        _ => None,
    };
    let of_family = |family: &[&str], field: &Derived| {
        let place = family.iter().position(|id| *id == field.id)?;
        Some(if place < COLOURS { place } else { place + OTHER + 1 - COLOURS })
    };
    let in_family = |family: &&[&str]| -> Option<Vec<usize>> {
        fields.iter().map(|field| grey(field).or_else(|| of_family(family, field))).collect()
    };
    let by_place = || {
        let numbered = fields.iter().enumerate();
        numbered.map(|(at, field)| grey(field).unwrap_or(at % COLOURS)).collect()
    };
    FAMILIES.iter().find_map(in_family).unwrap_or_else(by_place)
}

/// Draws a row for each value: the name and the value above, and the bar below.
pub(super) fn bars(rows: &[(String, f64)], field: &Derived, title: &str, id: usize) -> String {
    let height = rows.len() as f64 * ROW;
    let most = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let title = escaped(title);
    let mut out = format!(
        "<svg height=\"{height}\" role=\"img\" aria-labelledby=\"t{id}\">\
         <title id=\"t{id}\">{title}</title>"
    );
    for (at, (name, value)) in rows.iter().enumerate() {
        let y = at as f64 * ROW;
        let length = if most > 0.0 { value.max(0.0) / most * 100.0 } else { 0.0 };
        let _ = write!(
            out,
            "<text class=\"start name\" x=\"0\" y=\"{:.1}\">{}</text>\
             <text class=\"end\" x=\"100%\" y=\"{:.1}\">{} {}</text>\
             <rect class=\"area s0\" x=\"0\" y=\"{:.1}\" width=\"{length:.2}%\" \
             height=\"{BAR}\"/>",
            y + 14.0,
            escaped(&clip(name, 26)),
            y + 14.0,
            shown(Some(*value), field.decimals),
            field.unit.text(),
            y + 19.0
        );
    }
    out.push_str("</svg>");
    out
}

fn y(value: f64, top: f64) -> f64 {
    let share = if top > 0.0 { value.clamp(0.0, top) / top } else { 0.0 };
    HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
}

/// Returns evenly spaced round times between two times, no more than a chart has room for.
fn round_times(from_ms: i64, to_ms: i64, zone: &dyn Zone) -> Vec<i64> {
    let length_ms = (to_ms - from_ms).max(1);
    let fits = |step: &&i64| length_ms / **step < TIMES;
    let step_ms = STEPS_MS.iter().find(fits).copied().unwrap_or(length_ms);
    let ahead_ms = zone.offset_min(from_ms).saturating_mul(60_000);
    let local = from_ms.saturating_add(ahead_ms);
    let first = from_ms.saturating_add((step_ms - local.rem_euclid(step_ms)) % step_ms);
    (0..=TIMES).map(|at| first.saturating_add(at * step_ms)).filter(|at| *at <= to_ms).collect()
}

/// Formats the value at a horizontal line with as few digits as the step needs.
fn tick(value: f64, top: f64) -> String {
    let step = top / 4.0;
    let is_whole = |digits: &usize| {
        let scaled = step * 10_f64.powi(i32::try_from(*digits).unwrap_or(0));
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    let digits = (0..6).find(is_whole).unwrap_or(3);
    if value == 0.0 { "0".into() } else { format!("{value:.digits$}") }
}

/// Returns a round number that is not below the value.
fn nice(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let fits = |step: &&f64| **step * power >= value * 0.9999;
    steps.iter().find(fits).map_or(10.0 * power, |step| step * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn times_below_a_chart_are_round_where_they_are_shown() {
        let half_past = |_: i64| 330;
        let times = |from: i64, to: i64| {
            let times = round_times(from, to, &half_past);
            times.into_iter().map(|at| clock_text(at, &half_past)).collect::<Vec<_>>()
        };
        // 00:00 to 01:00 UTC are 05:30 to 06:30 local time.
        assert_eq!(
            times(0, HOUR_MS),
            ["05:30", "05:40", "05:50", "06:00", "06:10", "06:20", "06:30"]
        );
        assert_eq!(times(130_000, 250_000), ["05:32:30", "05:33", "05:33:30", "05:34"]);
        assert_eq!(times(0, DAY_MS).first().map(String::as_str), Some("08:00"));
        assert_eq!(times(5, 5).len(), 0);
    }

    #[test]
    fn field_keeps_its_colour_when_another_has_no_values() {
        let field = |id| crate::fields::field(crate::fields::Scope::Host, id).unwrap();
        let own = colours(&OWNERS.iter().map(|id| field(id)).collect::<Vec<_>>());
        assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), OWNERS.len(), "{own:?}");
        // A chart of a few owners, and a chart in which the guests have no values.
        let few = colours(&[field("cache_mib"), field("free_mib")]);
        assert_eq!(few, [6, UNUSED]);
        let known = |id| (field(id), vec![Some(1.0)]);
        let series = Series::all(vec![(field("guests_mib"), vec![None]), known("cache_mib")]);
        assert_eq!(series.iter().map(|one| one.colour).collect::<Vec<_>>(), [6]);
        // Fields without a family get colours by their position.
        let lines = colours(&[field("busy_percent"), field("cache_mib")]);
        assert_eq!(lines, [0, 1]);
    }

    #[test]
    fn scales_end_on_round_numbers() {
        let check = |value, expected: f64| assert!((nice(value) - expected).abs() < 1e-9);
        check(0.0, 1.0);
        check(0.7, 0.8);
        check(100.0, 100.0);
        check(101.0, 120.0);
        check(3456.0, 4000.0);
        assert_eq!(tick(15.0, 20.0), "15");
        assert_eq!(tick(0.3, 0.4), "0.3");
        assert_eq!(tick(0.0, 0.4), "0");
    }
}
