//! Charts for pages. A chart has a picture, its legend, and a table of the same values. Each row of
//! the table links to its minute.

use crate::past::{PastHost, Track};
use crate::span::Span;
use crate::who::path_of;
use base::duration::DAY_MS;
use maud::{Markup, PreEscaped, html};
use reports::chart::{Frame, Mark, Series, key};
use reports::{Scope, Zone, clock_text, date_text, field, shown};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lines,
    /// Areas that are stacked on top of each other.
    Stack,
}

pub(crate) struct Plot<'a> {
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
    /// Derived fields, in order from the bottom up.
    pub(crate) fields: &'static [&'static str],
    pub(crate) host: &'a PastHost,
    /// The guest that the chart is about; `None` for the host.
    pub(crate) guest: Option<&'a Track>,
    pub(crate) marks: &'a [Mark],
}

/// State that the charts of one page share.
pub(crate) struct Canvas<'a> {
    pub(crate) span: &'a Span,
    pub(crate) zone: &'a dyn Zone,
    /// Number of charts so far. Each chart gets its own number.
    pub(crate) count: usize,
}

impl Canvas<'_> {
    /// Draws a chart. Without values, draws nothing.
    pub(crate) fn draw(&mut self, plot: &Plot<'_>) -> Markup {
        let scope = if plot.guest.is_some() { Scope::Guest } else { Scope::Host };
        let known = plot.fields.iter().filter_map(|id| field(scope, id)).map(|one| {
            let values = match plot.guest {
                Some(track) => plot.host.guest_series(track, one.id),
                None => plot.host.host_series(one.id),
            };
            (one, values)
        });
        let series = Series::all(known.collect());
        if series.is_empty() {
            return html! {};
        }
        self.count += 1;
        let spans = plot.host.spans();
        let frame = Frame {
            from_ms: self.span.from_ms,
            to_ms: self.span.to_ms,
            zone: self.zone,
            spans: &spans,
            title: plot.title,
            id: self.count,
            marks: plot.marks,
        };
        let picture = match plot.kind {
            Kind::Lines => frame.curves(&series),
            Kind::Stack => frame.areas(&series),
        };
        let place =
            plot.guest.map_or_else(|| "/".to_owned(), |track| path_of(&track.name, &track.uuid));
        html! {
            figure class="chart" data-from=(self.span.from_ms) data-to=(self.span.to_ms)
                data-step=(self.span.step_ms) data-place=(place) data-keep=(self.span.keep()) {
                figcaption { (plot.title) }
                (PreEscaped(picture))
                (PreEscaped(key(&series)))
                (key_of_marks(plot.marks))
                (self.table(&series, &spans, &place))
            }
        }
    }

    fn table(&self, series: &[Series<'_>], spans: &[(i64, u64)], place: &str) -> Markup {
        let is_long = self.span.to_ms - self.span.from_ms > DAY_MS;
        let time = |at_ms: i64| {
            let clock = clock_text(at_ms, self.zone);
            match is_long {
                true => format!("{} {clock}", date_text(at_ms, self.zone)),
                false => clock,
            }
        };
        html! {
            details {
                summary { "Table of the values, with links to reports and decisions" }
                div class="wide" tabindex="0" role="group" aria-label="Values" {
                    table {
                        thead { tr {
                            th scope="col" class="label" { "Time" }
                            @for one in series { th scope="col" title=(one.words) { (one.name) } }
                        } }
                        tbody {
                            @for (at, (from_ms, length_ms)) in spans.iter().enumerate() {
                                tr {
                                    th scope="row" class="label" {
                                        @let end = from_ms.saturating_add(length_ms.cast_signed());
                                        @let minute = self.span.between(*from_ms, end);
                                        a href=(format!("{place}?{minute}")) {
                                            (time(*from_ms))
                                        }
                                    }
                                    @for one in series {
                                        td { (shown(one.values[at], one.decimals)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the legend of a chart's marks: one entry for each kind that occurs.
fn key_of_marks(marks: &[Mark]) -> Markup {
    let kinds: BTreeSet<_> = marks.iter().map(|mark| (mark.colour, mark.kind)).collect();
    html! {
        @if !kinds.is_empty() {
            ul class="key" {
                @for (colour, kind) in kinds {
                    li { i class=(format!("mark s{colour}")) {} (kind) }
                }
            }
        }
    }
}

/// Returns a small chart of values for a row of a table. The chart has no scale: its top is the
/// highest value.
pub(crate) fn spark(values: &[Option<f64>], title: &str) -> Markup {
    let most = values.iter().flatten().copied().fold(0.0_f64, f64::max);
    let path = spark_path(values, most);
    let width = (values.len().max(2) as i64 - 1) * SPARK_STEP;
    html! {
        @if path.is_empty() { "-" } @else {
            svg class="spark" viewBox=(format!("0 0 {width} {SPARK_HEIGHT}"))
                preserveAspectRatio="none" role="img"
                aria-label=(format!("{title}: at most {}", shown(Some(most), 1))) {
                path class="line s0" d=(path) {}
            }
        }
    }
}

/// Width of one step in a small chart. Whole numbers keep pages short: a page may have a thousand
/// rows, and each row has two small charts.
const SPARK_STEP: i64 = 3;
const SPARK_HEIGHT: i64 = 40;

/// Returns the line as relative steps from point to point. A level part becomes one step.
fn spark_path(values: &[Option<f64>], most: f64) -> String {
    let y = |value: f64| {
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        SPARK_HEIGHT - 2 - (share * (SPARK_HEIGHT - 4) as f64).round() as i64
    };
    let mut path = String::new();
    let (mut last, mut level) = (None, 0);
    let flat = |path: &mut String, level: &mut i64| {
        if *level > 0 {
            path.push_str(&format!("h{level}"));
        }
        *level = 0;
    };
    for (at, value) in values.iter().enumerate() {
        let here = value.map(y);
        match (last, here) {
            (Some(before), Some(now)) if before == now => level += SPARK_STEP,
            (Some(before), Some(now)) => {
                flat(&mut path, &mut level);
                path.push_str(&format!("l{SPARK_STEP} {}", now - before));
            }
            (None, Some(now)) => path.push_str(&format!("M{} {now}", at as i64 * SPARK_STEP)),
            (_, None) => flat(&mut path, &mut level),
        }
        last = here;
    }
    flat(&mut path, &mut level);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_each_kind_of_mark_once() {
        let mark = |colour, kind| Mark { at_ms: 0, colour, kind, text: String::new() };
        let key = key_of_marks(&[mark(5, "shrink"), mark(4, "grow"), mark(5, "shrink")]);
        let expected = "<ul class=\"key\"><li><i class=\"mark s4\"></i>grow</li>\
                        <li><i class=\"mark s5\"></i>shrink</li></ul>";
        assert_eq!(key.into_string(), expected);
        assert_eq!(key_of_marks(&[]).into_string(), "");
    }

    #[test]
    fn small_line_stops_where_values_are_missing() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(spark_path(&some(&[0.0, 0.0, 0.0, 4.0, 2.0]), 4.0), "M0 38h6l3 -36l3 18");
        let holed = [Some(1.0), Some(1.0), None, None, Some(1.0), Some(1.0)];
        assert_eq!(spark_path(&holed, 1.0), "M0 2h3M12 2h3");
        assert_eq!(spark_path(&[None], 0.0), "");
        assert_eq!(spark_path(&some(&[0.0, 0.0]), 0.0), "M0 38h3");
    }
}
