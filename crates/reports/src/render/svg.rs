//! Charts, as SVG that needs nothing else: lines, stacked areas, bars.
//!
//! Colours are classes, so that the page's style chooses them for light and for dark.

use crate::fields::Derived;
use crate::number::shown;
use crate::report::{Line, Report};
use crate::time::{Zone, clock_text, date_text};
use base::{clip, html::escaped};
use std::fmt::Write;

/// The size of a chart, and the room for its axes.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;
/// Times written below a chart.
const TIMES: usize = 6;
/// Height of a bar with its gap, and room for the names.
const BAR: f64 = 22.0;
const NAMES: f64 = 190.0;

/// Values of one column over time.
pub(super) struct Series<'a> {
    pub field: &'a Derived,
    pub values: Vec<Option<f64>>,
}

/// What all charts over time share.
pub(super) struct Frame<'a> {
    pub report: &'a Report,
    pub zone: &'a dyn Zone,
    pub lines: &'a [&'a Line],
    pub title: &'a str,
    /// Distinguishes one chart of a page from the next.
    pub id: usize,
}

impl Frame<'_> {
    fn x(&self, at_ms: i64) -> f64 {
        let whole = (self.report.to_ms - self.report.from_ms).max(1) as f64;
        LEFT + (at_ms - self.report.from_ms) as f64 / whole * (WIDTH - LEFT - RIGHT)
    }

    /// The middle of an interval.
    fn middle(&self, line: &Line) -> f64 {
        let half = i64::try_from(line.length_ms / 2).unwrap_or(0);
        self.x(line.from_ms.saturating_add(half))
    }

    /// A line that follows on the one before it, without a hole between them.
    fn follows(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.lines[before]) else { return false };
        let end = before.from_ms.saturating_add(i64::try_from(before.length_ms).unwrap_or(0));
        self.lines[at].from_ms <= end.saturating_add(1)
    }

    fn open(&self, series: &[Series<'_>]) -> String {
        let mut out = String::new();
        let (id, title) = (self.id, escaped(self.title));
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-labelledby=\"t{id} d{id}\"><title id=\"t{id}\">{title}</title><desc id=\"d{id}\">"
        );
        for one in series {
            let known: Vec<f64> = one.values.iter().flatten().copied().collect();
            let least = known.iter().copied().fold(f64::INFINITY, f64::min);
            let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let digits = one.field.decimals;
            let (least, most) = (shown(Some(least), digits), shown(Some(most), digits));
            let name = escaped(&one.field.heading());
            let _ = write!(out, "{name}: from {least} to {most}. ");
        }
        out.push_str("</desc>");
        out
    }

    /// Lines across, with their values, and times below.
    fn axes(&self, top: f64) -> String {
        let mut out = String::new();
        let right = WIDTH - RIGHT;
        for step in 0..=4 {
            let value = top * f64::from(step) / 4.0;
            let y = y(value, top);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                tick(value, top)
            );
        }
        let (from, to) = (self.report.from_ms, self.report.to_ms);
        let is_long = to - from > 2 * 86_400_000;
        for step in 0..=TIMES {
            let at_ms = from + (to - from) / TIMES as i64 * step as i64;
            let text = if is_long {
                date_text(at_ms, self.zone).get(5..).unwrap_or_default().to_owned()
            } else {
                clock_text(at_ms, self.zone)
            };
            let place = match step {
                0 => "start",
                TIMES => "end",
                _ => "mid",
            };
            let _ = write!(
                out,
                "<text class=\"{place}\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                self.x(at_ms),
                HEIGHT - 8.0
            );
        }
        out
    }

    /// A line a column.
    pub(super) fn curves(&self, series: &[Series<'_>]) -> String {
        let highest = series.iter().flat_map(|one| &one.values).flatten();
        let top = nice(highest.copied().fold(0.0, f64::max));
        let mut out = self.open(series);
        out.push_str(&self.axes(top));
        for (number, one) in series.iter().enumerate() {
            let mut path = String::new();
            let mut is_drawing = false;
            for (at, value) in one.values.iter().enumerate() {
                let Some(value) = value else {
                    is_drawing = false;
                    continue;
                };
                let (x, y) = (self.middle(self.lines[at]), y(*value, top));
                let is_on = is_drawing && self.follows(at);
                let _ = write!(path, "{}{x:.1} {y:.1}", if is_on { 'L' } else { 'M' });
                // A point alone has no line: a stroke of no length with round ends shows it.
                if !is_on {
                    let _ = write!(path, "h0");
                }
                is_drawing = true;
            }
            let _ =
                write!(out, "<path class=\"line s{}\" d=\"{path}\"/>", colour(one.field, number));
        }
        out.push_str("</svg>");
        out
    }

    /// Areas on top of each other. An interval without values is a hole.
    pub(super) fn areas(&self, series: &[Series<'_>]) -> String {
        let sum_at = |at: usize| series.iter().filter_map(|one| one.values[at]).sum::<f64>();
        let highest = (0..self.lines.len()).map(sum_at).fold(0.0, f64::max);
        // Shares are of 100, and rounding must not make that 125.
        let is_share = (highest - 100.0).abs() < 0.5;
        let top = if is_share { 100.0 } else { nice(highest) };
        let mut out = self.open(series);
        out.push_str(&self.axes(top));
        let mut below = vec![0.0_f64; self.lines.len()];
        for (number, one) in series.iter().enumerate() {
            let mut path = String::new();
            for (at, line) in self.lines.iter().enumerate() {
                let Some(value) = one.values[at] else { continue };
                let length = i64::try_from(line.length_ms).unwrap_or(0);
                let (from, to) = (self.x(line.from_ms), self.x(line.from_ms + length));
                let (low, high) = (y(below[at], top), y(below[at] + value.max(0.0), top));
                let _ = write!(path, "M{from:.1} {low:.1}V{high:.1}H{to:.1}V{low:.1}Z");
                below[at] += value.max(0.0);
            }
            let _ =
                write!(out, "<path class=\"area s{}\" d=\"{path}\"/>", colour(one.field, number));
        }
        out.push_str("</svg>");
        out
    }
}

/// Colours for what is of interest; two more, of no colour, are for what is not.
const COLOURS: usize = 7;

/// The colour of a column: what is not used is grey, whatever place it has.
pub(super) fn colour(field: &Derived, number: usize) -> usize {
    match field.id {
        "free_mib" | "idle_percent" => COLOURS,
        "other_mib" | "other_percent" => COLOURS + 1,
        _ => number % COLOURS,
    }
}

/// A bar for each of some rows.
pub(super) fn bars(rows: &[(String, f64)], field: &Derived, title: &str, id: usize) -> String {
    let height = rows.len() as f64 * BAR + 8.0;
    let most = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let room = WIDTH - NAMES - 90.0;
    let title = escaped(title);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"t{id}\">\
         <title id=\"t{id}\">{title}</title>"
    );
    for (at, (name, value)) in rows.iter().enumerate() {
        let y = at as f64 * BAR + 4.0;
        let length = if most > 0.0 { value.max(0.0) / most * room } else { 0.0 };
        let _ = write!(
            out,
            "<text class=\"end name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"area s0\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{length:.1}\" \
             height=\"{:.1}\"/><text class=\"start\" x=\"{:.1}\" y=\"{:.1}\">{} {}</text>",
            NAMES - 8.0,
            y + 13.0,
            escaped(&clip(name, 26)),
            BAR - 6.0,
            NAMES + length + 6.0,
            y + 13.0,
            shown(Some(*value), field.decimals),
            field.unit.text()
        );
    }
    out.push_str("</svg>");
    out
}

fn y(value: f64, top: f64) -> f64 {
    let share = if top > 0.0 { value.clamp(0.0, top) / top } else { 0.0 };
    HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
}

/// The value at a line across, with as few digits as its step needs.
fn tick(value: f64, top: f64) -> String {
    let step = top / 4.0;
    let is_whole = |digits: &usize| {
        let scaled = step * 10_f64.powi(i32::try_from(*digits).unwrap_or(0));
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    let digits = (0..6).find(is_whole).unwrap_or(3);
    if value == 0.0 { "0".into() } else { format!("{value:.digits$}") }
}

/// A round number that is not below the value.
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
