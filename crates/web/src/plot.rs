//! Charts for pages: the picture, what its colours mean, and the same as a table behind it, of
//! which each row leads to its minute.

use crate::past::{PastHost, Track};
use crate::span::{Span, between};
use crate::who::path_of;
use maud::{Markup, PreEscaped, html};
use reports::chart::{Frame, Mark, Series, key};
use reports::{Scope, Zone, clock_text, date_text, field, shown};

/// How values lie in a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lines,
    /// On top of each other.
    Stack,
}

/// A chart.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
    /// Derived fields, from the bottom up.
    pub(crate) fields: &'static [&'static str],
    pub(crate) host: &'a PastHost,
    /// Whom it is about; the host if nobody.
    pub(crate) guest: Option<&'a Track>,
    pub(crate) marks: &'a [Mark],
}

/// What charts of one page share.
pub(crate) struct Canvas<'a> {
    pub(crate) span: &'a Span,
    pub(crate) zone: &'a dyn Zone,
    /// Charts so far: each has a number of its own.
    pub(crate) count: usize,
}

impl Canvas<'_> {
    /// Draws one; nothing where nothing is known.
    pub(crate) fn draw(&mut self, plot: &Plot<'_>) -> Markup {
        let scope = if plot.guest.is_some() { Scope::Guest } else { Scope::Host };
        let known = plot.fields.iter().filter_map(|id| field(scope, id)).map(|one| {
            let values = match plot.guest {
                Some(track) => plot.host.guest_series(track, one.id),
                None => plot.host.host_series(one.id),
            };
            (one, values)
        });
        let series: Vec<Series<'_>> = known
            .filter(|(_, values)| values.iter().any(Option::is_some))
            .enumerate()
            .map(|(number, (one, values))| Series::of(one, number, values))
            .collect();
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
        let place = plot.guest.map_or_else(|| "/".to_owned(), guest_path);
        html! {
            figure class="chart" data-from=(self.span.from_ms) data-to=(self.span.to_ms)
                data-step=(self.span.step_ms) data-place=(place) {
                figcaption { (plot.title) }
                (PreEscaped(picture))
                (PreEscaped(key(&series)))
                (self.table(&series, &spans, &place))
            }
        }
    }

    /// The same values as a table.
    fn table(&self, series: &[Series<'_>], spans: &[(i64, u64)], place: &str) -> Markup {
        let is_long = self.span.to_ms - self.span.from_ms > 86_400_000;
        let time = |at_ms: i64| {
            let clock = clock_text(at_ms, self.zone);
            match is_long {
                true => format!("{} {clock}", date_text(at_ms, self.zone)),
                false => clock,
            }
        };
        html! {
            details {
                summary { "As a table, each time with its reports and decisions" }
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
                                        a href=(format!("{place}?{}", between(*from_ms, end))) {
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

/// Where the page of a guest is.
pub(crate) fn guest_path(track: &Track) -> String {
    path_of(&track.name, &track.uuid)
}

/// A small line of values, for a row of a table. Nothing is said of its scale: it ends at its own
/// highest value.
pub(crate) fn spark(values: &[Option<f64>], title: &str) -> Markup {
    const WIDTH: f64 = 100.0;
    const HEIGHT: f64 = 20.0;
    let most = values.iter().flatten().copied().fold(0.0_f64, f64::max);
    let step = WIDTH / (values.len().max(2) - 1) as f64;
    let mut path = String::new();
    let mut is_drawing = false;
    for (at, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        let (x, y) = (at as f64 * step, HEIGHT - 1.0 - share * (HEIGHT - 2.0));
        let letter = if is_drawing { 'L' } else { 'M' };
        path.push_str(&format!("{letter}{x:.0} {y:.1}"));
        is_drawing = true;
    }
    html! {
        @if path.is_empty() { "-" } @else {
            svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img"
                aria-label=(format!("{title}: at most {}", shown(Some(most), 1))) {
                path class="line s0" d=(path) {}
            }
        }
    }
}
