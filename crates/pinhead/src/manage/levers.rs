//! Mechanisms that gain memory for the host, and the effect of page-out on each guest, on one
//! screen.

use crate::cells::number;
use crate::terminal::fitted;
use base::{Column, Table, duration, left, plain, prose, right};
use manager::control::{LeverRow, Levers, PagedOutRow};
use policy::pageout::PROMOTION_PERMILLE;
use std::fmt::Write as _;

const LEVERS: [Column; 8] = [
    left("LEVER").width(14),
    left("STATE").gap(2).least(8),
    right("GUESTS").gap(2).rank(4),
    right("TIMES").gap(2).rank(5),
    right("GAINED").gap(2),
    right("IN SWAP").gap(2).rank(2),
    right("BACK").gap(2).rank(3),
    prose("COST").gap(2),
];

const GUESTS: [Column; 8] = [
    left("GUEST").least(16).most(128),
    left("PAGE-OUT").gap(2).least(8),
    right("TIMES").gap(2).rank(6),
    right("GAINED").gap(2).rank(1),
    right("IN SWAP").gap(2).rank(3),
    right("BACK").gap(2).rank(4),
    right("WORKING SET").gap(2).rank(2),
    right("CPU MS").gap(2).rank(5),
];

/// Formats the screen.
pub fn show(answer: &Levers, width: Option<usize>) -> String {
    let shown = |table: &Table| width.map_or_else(|| table.text(), |width| table.fit(width).text());
    let mut levers = Table::new(&LEVERS);
    answer.levers.iter().for_each(|row| levers.row(lever(row)));
    let mut guests = Table::new(&GUESTS);
    answer.guests.iter().for_each(|row| guests.row(guest(row)));
    shown(&levers) + &fitted(&remarks(answer), width) + &shown(&guests)
}

/// Formats the lines between the two tables.
fn remarks(answer: &Levers) -> String {
    let mut out = String::new();
    for row in &answer.levers {
        if let Some(why) = &row.why {
            let _ = writeln!(out, "{} is off: {}", plain(&row.name, 20), plain(why, 300));
        }
    }
    for row in &answer.levers {
        if let Some(line) = promotion(row, answer) {
            let _ = writeln!(out, "{line}");
        }
    }
    let own = answer.manager_cpu_us as f64 / 10.0 / answer.uptime_ms.max(1) as f64;
    let up = duration::show(i64::try_from(answer.uptime_ms).unwrap_or(i64::MAX));
    let _ = writeln!(
        out,
        "The manager itself, without page-out, used {own:.2} % of a core over {up}.\n"
    );
    out
}

/// Formats the share of paged-out memory that came back more than a minute after the page-out, and
/// the allowed share.
fn promotion(row: &LeverRow, answer: &Levers) -> Option<String> {
    let (promoted, alarms) = (row.promoted_bytes?, row.alarms?);
    let working_set: u64 = answer.guests.iter().filter_map(|guest| guest.working_set_bytes).sum();
    let minutes = answer.uptime_ms as f64 / 60_000.0;
    let percent = match working_set > 0 && minutes > 0.0 {
        true => format!("{:.2} %", promoted as f64 * 100.0 / working_set as f64 / minutes),
        false => "-".to_owned(),
    };
    Some(format!(
        "Memory that came back more than a minute after its page-out: {percent} of the guests' \
         working sets a minute (allowed: {:.1} %). Page-out paused {alarms} times, because tasks \
         of the host waited for memory.",
        PROMOTION_PERMILLE as f64 / 10.0
    ))
}

fn lever(row: &LeverRow) -> [String; 8] {
    let cost = match (row.cost_us, row.cost_percent) {
        (Some(us), _) => format!("{:.1} s of CPU", us as f64 / 1e6),
        (None, Some(percent)) => format!("{percent:.1} % of a core"),
        (None, None) => "-".to_owned(),
    };
    [
        row.name.clone(),
        row.state.clone(),
        number(row.guests),
        number(row.times),
        mib(row.gained_bytes),
        mib(row.compressed_bytes),
        mib(row.came_back_bytes),
        cost,
    ]
}

fn guest(row: &PagedOutRow) -> [String; 8] {
    let cost = row.cost_us.map_or("-".to_owned(), |us| format!("{:.1}", us as f64 / 1e3));
    [
        row.name.clone(),
        row.state.clone(),
        row.times.to_string(),
        mib(row.gained_bytes),
        mib(row.compressed_bytes),
        mib(row.came_back_bytes),
        mib(row.working_set_bytes),
        cost,
    ]
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, Words, check_fits};

    #[test]
    fn levers_have_lines_and_guest_names_are_escaped() {
        let levers = vec![
            LeverRow {
                name: "page-out".into(),
                state: "off".into(),
                why: Some("this host has no swap".into()),
                gained_bytes: Some(24 << 20),
                promoted_bytes: Some(4 << 18),
                alarms: Some(2),
                cost_us: Some(1_250_000),
                ..LeverRow::default()
            },
            LeverRow {
                name: "ksm".into(),
                state: "steady".into(),
                cost_percent: Some(4.0),
                ..LeverRow::default()
            },
        ];
        let guests = vec![PagedOutRow {
            name: "web\u{1b}[2J".into(),
            state: "out".into(),
            times: 1,
            working_set_bytes: Some(8 << 20),
            ..PagedOutRow::default()
        }];
        let answer = Levers { levers, guests, manager_cpu_us: 300_000, uptime_ms: 60_000 };
        let text = show(&answer, None);
        assert!(text.contains("24.0"), "{text}");
        assert!(text.contains("1.2 s of CPU") && text.contains("4.0 % of a core"), "{text}");
        assert!(text.contains("page-out is off: this host has no swap"), "{text}");
        // Of 8 MiB, 1 MiB came back in a minute.
        assert!(text.contains("12.50 % of the guests' working sets a minute"), "{text}");
        assert!(text.contains("Page-out paused 2 times"), "{text}");
        assert!(text.contains("0.50 % of a core over 1 min"), "{text}");
        assert!(text.contains("8.0") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn levers_fit_every_width() {
        Words::each(|mut words| {
            let lever = |words: &mut Words| LeverRow {
                name: "page-reporting".into(),
                state: "incompressible".into(),
                why: Some(words.sentence()),
                gained_bytes: Some(words.number(1 << 43)),
                cost_us: Some(words.number(1 << 43)),
                ..LeverRow::default()
            };
            let levers: Vec<LeverRow> = (0..4).map(|_| lever(&mut words)).collect();
            let guest = |words: &mut Words| PagedOutRow {
                name: words.name(),
                state: "incompressible".into(),
                gained_bytes: Some(words.number(1 << 40)),
                ..PagedOutRow::default()
            };
            let guests = (0..words.number(9)).map(|_| guest(&mut words)).collect();
            let answer = Levers { levers, guests, manager_cpu_us: 300_000, uptime_ms: 60_000 };
            let texts: Vec<&str> =
                answer.levers.iter().filter_map(|row| row.why.as_deref()).collect();
            let names: Vec<&str> = answer.guests.iter().map(|row| row.name.as_str()).collect();
            for width in WIDTHS {
                check_fits(&show(&answer, Some(width)), width, texts.iter().chain(&names).copied());
            }
        });
    }
}
