//! Groups of bars as SVG, with whiskers for the intervals.

use crate::figure::figure;
use crate::view::{Bar, Chart};
use base::html::escaped;
use std::fmt::Write;

/// Width of a chart, and room for the names on its left and for the figures on its right.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 230.0;
const FIGURES: f64 = 130.0;
/// Height of a bar, and the gap between groups.
const BAR: f64 = 18.0;
const GAP: f64 = 10.0;
/// Maximum number of characters of a name, which must fit into `NAMES`.
const NAME_CHARS: usize = 32;
const COLOURS: usize = 7;

/// `number` is the chart's number on its page.
pub(crate) fn svg(chart: &Chart, number: usize) -> String {
    let bars = |group: &crate::view::Group| group.bars.len() as f64 * BAR + GAP;
    let height: f64 = chart.groups.iter().map(bars).sum::<f64>() + GAP;
    let all = chart.groups.iter().flat_map(|group| group.bars.iter().flatten());
    let most = all.map(|bar| bar.spread.map_or(bar.value, |(_, high)| high)).fold(0.0, f64::max);
    let scale = if most > 0.0 { (WIDTH - NAMES - FIGURES) / most } else { 0.0 };
    let title = escaped(&chart.title);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"t{number}\">\
         <title id=\"t{number}\">{title}</title>"
    );
    let mut top = GAP;
    for group in &chart.groups {
        let name: String = group.name.chars().take(NAME_CHARS).collect();
        let _ = write!(
            out,
            "<text class=\"end\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            top + 13.0,
            escaped(&name)
        );
        for (at, bar) in group.bars.iter().enumerate() {
            if let Some(bar) = bar {
                draw(&mut out, *bar, at % COLOURS, top, scale);
            }
            top += BAR;
        }
        top += GAP;
    }
    out.push_str("</svg>");
    out
}

fn draw(out: &mut String, bar: Bar, colour: usize, top: f64, scale: f64) {
    let length = bar.value.max(0.0) * scale;
    let _ = write!(
        out,
        "<rect class=\"area s{colour}\" x=\"{NAMES}\" y=\"{top:.1}\" width=\"{length:.1}\" \
         height=\"{:.1}\"/>",
        BAR - 4.0
    );
    let mut end = NAMES + length;
    if let Some((low, high)) = bar.spread {
        let (low, high) = (NAMES + low.max(0.0) * scale, NAMES + high.max(0.0) * scale);
        let middle = top + (BAR - 4.0) / 2.0;
        let _ = write!(
            out,
            "<path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v6\
             M{high:.1} {:.1}v6\"/>",
            middle - 3.0,
            middle - 3.0
        );
        end = end.max(high);
    }
    let _ = write!(
        out,
        "<text class=\"start\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        end + 6.0,
        top + 12.0,
        figure(bar.value)
    );
}
