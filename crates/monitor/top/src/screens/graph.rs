//! Values over time as columns of blocks, with a scale at the left.

use super::room::{Look, size};
use base::padded;
use reports::shown;

/// Width of the label and the scale.
pub(super) const MARGIN: usize = LABEL + SCALE + 1;
/// Width of the label, and width of the scale. The widest scale is `0-99999`.
const LABEL: usize = 10;
const SCALE: usize = 7;
/// Eighths of a block, lowest first.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Characters on a terminal without blocks, by the height of the bar within the cell.
const ASCII_BLOCKS: [char; 9] = [' ', '_', '.', ':', '-', '=', '+', '*', '#'];
const EIGHTHS: usize = 8;
/// Headroom above the largest value, so that a constant value is no solid block.
const HEADROOM: f64 = 1.25;
/// Ends of scales, as multiples of powers of ten.
const ENDS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 5.0, 7.5];

#[derive(Debug)]
pub(super) struct Graph<'a> {
    /// Name and unit of the values.
    pub(super) label: &'a str,
    /// Present value, shown below the label.
    pub(super) now: String,
    /// Values, oldest first. Missing values are gaps.
    pub(super) values: Vec<Option<f32>>,
    /// Upper end of the scale, which begins at 0.
    pub(super) top: f64,
}

impl Graph<'_> {
    /// Returns the graph in exactly this many lines and columns, newest value last.
    pub(super) fn lines(&self, rows: usize, width: usize, look: &Look<'_>) -> Vec<String> {
        let cells = width.saturating_sub(MARGIN);
        let values = &self.values[self.values.len().saturating_sub(cells)..];
        let pad = cells - values.len();
        let row = |row: usize| {
            let bars: String =
                values.iter().map(|value| self.cell(*value, row, rows, look)).collect();
            padded(&format!("{} {:pad$}{bars}", self.margin(row, rows), ""), width)
        };
        (0..rows).map(row).collect()
    }

    /// Returns the left part of a row: the label, the present value, or an end of the scale.
    fn margin(&self, row: usize, rows: usize) -> String {
        let top = end_text(self.top);
        let (label, scale) = match row {
            0 if rows == 1 => (self.label, format!("0-{top}")),
            0 => (self.label, top),
            1 => (self.now.as_str(), String::new()),
            _ => ("", String::new()),
        };
        let scale = if rows > 1 && row + 1 == rows { "0".to_owned() } else { scale };
        format!("{label:<LABEL$}{scale:>SCALE$}")
    }

    /// Returns the part of a value's bar in a row. Row 0 is the highest.
    fn cell(&self, value: Option<f32>, row: usize, rows: usize, look: &Look<'_>) -> char {
        let Some(value) = value.filter(|_| self.top > 0.0) else { return ' ' };
        let blocks = if look.is_ascii { ASCII_BLOCKS } else { BLOCKS };
        let whole = (rows * EIGHTHS) as f64;
        // The lowest block means 0, so that 0 differs from a missing value.
        let level = (f64::from(value) / self.top * whole).round().clamp(1.0, whole) as usize;
        let below = (rows - 1 - row) * EIGHTHS;
        blocks[level.saturating_sub(below).min(EIGHTHS)]
    }
}

/// Returns a round upper end for a scale of all values. The end is at least `least`, and at most
/// `most` if no value exceeds `most`.
pub(super) fn end(values: &[Option<f32>], least: f64, most: Option<f64>) -> f64 {
    let largest = values.iter().flatten().fold(0.0_f32, |a, b| a.max(*b));
    let largest = f64::from(largest);
    let wanted = (largest * HEADROOM).max(least);
    let power = 10_f64.powf(wanted.log10().floor());
    let round = ENDS.iter().map(|end| end * power).find(|end| *end >= wanted);
    let round = round.unwrap_or(power * 10.0);
    most.filter(|most| *most >= largest && *most < round).unwrap_or(round)
}

fn end_text(end: f64) -> String {
    if end < 10.0 && end.fract() > 0.0 { shown(Some(end), 1) } else { size(Some(end)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::Utc;

    const LOOK: Look<'_> = Look { zone: &Utc, is_ascii: false, is_text: false };

    fn graph(values: &[Option<f32>], top: f64) -> Graph<'static> {
        Graph { label: "CPU %", now: "5.3".into(), values: values.to_vec(), top }
    }

    #[test]
    fn graph_fills_its_lines_and_names_its_scale() {
        let values = [Some(0.0), None, Some(50.0), Some(75.0), Some(100.0)];
        let lines = graph(&values, 100.0).lines(4, MARGIN + 6, &LOOK);
        assert_eq!(
            lines,
            [
                "CPU %         100      █",
                "5.3                   ██",
                "                     ███",
                "                0  ▁ ███",
            ]
        );
        let one = graph(&values, 1.5).lines(1, MARGIN + 3, &LOOK);
        assert_eq!(one, ["CPU %       0-1.5 ███"]);
        let ascii = Look { is_ascii: true, ..LOOK };
        assert_eq!(graph(&values, 100.0).lines(1, MARGIN + 5, &ascii), ["CPU %       0-100 _ -+#"]);
        assert_eq!(graph(&values, 0.0).lines(2, 5, &LOOK).len(), 2, "no room, no scale");
    }

    #[test]
    fn scale_ends_at_a_round_number_above_all_values() {
        let end_of = |value, most| end(&[None, Some(value)], 10.0, most);
        assert_eq!(end_of(0.0, None), 10.0);
        assert_eq!(end_of(12.0, None), 15.0);
        assert_eq!(end_of(75.0, None), 100.0);
        assert_eq!(end_of(99.0, None), 150.0);
        assert_eq!(end_of(900.0, Some(24_105.0)), 1_500.0);
        assert_eq!(end_of(22_000.0, Some(24_105.0)), 24_105.0);
        assert_eq!(end_of(25_000.0, Some(24_105.0)), 50_000.0);
        assert_eq!(
            [end_text(1.5), end_text(24_105.0), end_text(200_000.0)],
            ["1.5", "24105", "195G"]
        );
    }
}
