//! Table of the tasks that wake a guest.

use super::{Kind, Waker, Wakers};
use crate::listing::{OTHER_OUTPUT, fitted_table};
use crate::terminal::fitted;
use base::{Table, plain, prose, right};
use std::fmt::Write as _;

/// Maximum length of a name.
const NAME: usize = 34;

/// Formats a number: `-` for an unknown number, `0` for none, and `0.0` for a number below the
/// resolution.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => format!("{value:.1}"),
    }
}

/// Formats the table with at most `top` rows, on a terminal within its width. The remaining rows
/// are summed.
pub(super) fn show(wakers: &Wakers, top: usize, width: Option<usize>) -> String {
    let [head, foot] = [head(wakers), foot(wakers)].map(|text| fitted(&text, width));
    head + &fitted_table(&table(wakers, top), width, OTHER_OUTPUT) + &foot
}

fn head(wakers: &Wakers) -> String {
    let seconds = wakers.window_ms as f64 / 1000.0;
    format!(
        "{}: {} wake-ups a minute, watched for {seconds:.1} s\n",
        plain(&wakers.guest, 40),
        number(Some(wakers.wakes_a_minute)),
    )
}

fn table(wakers: &Wakers, top: usize) -> Table {
    let heads = ["wakes/min", "us/wake", "ms/min", "saves ms"];
    let [wakes, us, ms, saves] = heads.map(|head| right(head).least(9).gap(1));
    let mut table = Table::new(&[wakes, us, ms, saves, prose("who")]);
    let named = wakers.rows.iter().filter(|row| row.kind != Kind::Unknown).count();
    let shown = named.min(top);
    let (rows, others) = wakers.rows.split_at(shown);
    rows.iter().for_each(|row| line(&mut table, row, &who(row)));
    let (unknown, others): (Vec<&Waker>, Vec<&Waker>) =
        others.iter().partition(|row| row.kind == Kind::Unknown);
    if !others.is_empty() {
        line(&mut table, &sum(&others), &format!("{} others", others.len()));
    }
    unknown.into_iter().for_each(|row| line(&mut table, row, &who(row)));
    let all: Vec<&Waker> = wakers.rows.iter().collect();
    line(&mut table, &sum(&all), "all");
    table
}

fn foot(wakers: &Wakers) -> String {
    let mut out = String::new();
    let how = if wakers.counted { "" } else { " (estimated: not counted by its kernel)" };
    let _ = writeln!(
        out,
        "\nThe rows explain {:.1} % of the guest's dispatches{how}",
        wakers.attributed_percent
    );
    let _ = writeln!(
        out,
        "CPU time a minute: {} ms by the guest's own count, {} ms on the host (ratio {})",
        number(wakers.own_ms_a_minute),
        number(wakers.host_ms_a_minute),
        wakers.factor.map_or("-".into(), |factor| format!("{factor:.2}")),
    );
    let _ = writeln!(
        out,
        "on the host, a minute: the guest's virtual CPUs are dispatched {} times; the \
         other threads of its QEMU {} times, and they use {} ms of CPU",
        number(wakers.vcpu_wakes_a_minute),
        number(wakers.other_wakes_a_minute),
        number(wakers.other_ms_a_minute),
    );
    let _ = writeln!(
        out,
        "in the guest: {} interrupts and {} timers a minute, {} tasks",
        number(wakers.interrupts_a_minute),
        number(wakers.timers_a_minute),
        wakers.tasks.map_or("-".into(), |tasks| tasks.to_string()),
    );
    let _ = writeln!(
        out,
        "caused by the manager: {} readings, {} samples, {} scans (the last: {} us)",
        wakers.looks,
        wakers.samples,
        wakers.scans,
        wakers.scan_us.map_or("-".into(), |us| us.to_string()),
    );
    out
}

fn line(table: &mut Table, row: &Waker, who: &str) {
    let cells =
        [Some(row.wakes_a_minute), row.us_a_wake, row.host_ms_a_minute, row.saves_ms_a_minute];
    table.row(cells.map(number).into_iter().chain([who.to_owned()]));
}

fn who(row: &Waker) -> String {
    let number = match row.kind {
        Kind::Process | Kind::Thread | Kind::Children => format!(" ({})", row.tid.max(row.pid)),
        Kind::Kernel | Kind::Rest | Kind::Unknown => String::new(),
    };
    let name = plain(&row.name, NAME);
    let name = if row.kind == Kind::Kernel { format!("[{name}]") } else { name };
    match &row.waits_in {
        Some(place) => format!("{name}{number}, waits in {}", plain(place, 24)),
        None => format!("{name}{number}"),
    }
}

fn sum(rows: &[&Waker]) -> Waker {
    let all =
        |of: fn(&Waker) -> Option<f64>| rows.iter().filter_map(|row| of(row)).reduce(|a, b| a + b);
    let wakes_a_minute: f64 = rows.iter().map(|row| row.wakes_a_minute).sum();
    let own_ms = all(|row| row.own_ms_a_minute);
    Waker {
        wakes_a_minute,
        us_a_wake: own_ms.filter(|_| wakes_a_minute > 0.0).map(|ms| ms * 1000.0 / wakes_a_minute),
        own_ms_a_minute: own_ms,
        host_ms_a_minute: all(|row| row.host_ms_a_minute),
        saves_ms_a_minute: all(|row| row.saves_ms_a_minute),
        ..Waker::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, check_fits};

    fn row(kind: Kind, name: &str, wakes: f64) -> Waker {
        Waker {
            kind,
            name: name.into(),
            pid: 7,
            tid: 8,
            wakes_a_minute: wakes,
            us_a_wake: Some(50.0),
            own_ms_a_minute: Some(wakes / 20.0),
            host_ms_a_minute: Some(wakes / 10.0),
            saves_ms_a_minute: Some(wakes / 8.0),
            ..Waker::default()
        }
    }

    #[test]
    fn names_are_escaped_and_hidden_rows_are_summed() {
        let wakers = Wakers {
            guest: "g\x1b[2J".into(),
            window_ms: 60_000,
            wakes_a_minute: 700.0,
            attributed_percent: 99.0,
            counted: true,
            rows: vec![
                row(Kind::Thread, "server/\x1b]0;x", 600.0),
                row(Kind::Kernel, "rcu_sched", 60.0),
                row(Kind::Process, "c", 33.0),
                Waker {
                    wakes_a_minute: 7.0,
                    kind: Kind::Unknown,
                    name: "not known".into(),
                    ..Waker::default()
                },
            ],
            ..Wakers::default()
        };
        let text = show(&wakers, 1, Some(80));
        assert!(!text.contains('\x1b'), "{text}");
        let lines: Vec<&str> = text.lines().skip(2).take(4).collect();
        assert_eq!(
            lines,
            [
                "    600.0      50.0      60.0      75.0  server/\u{fffd}]0;x (8)",
                "     93.0      50.0       9.3      11.6  2 others",
                "      7.0         -         -         -  not known",
                "    700.0      49.5      69.3      86.6  all",
            ]
        );
        for width in WIDTHS {
            let fitted = show(&wakers, 1, Some(width));
            check_fits(&fitted, width, ["the other threads of its QEMU", "2 others"]);
        }
        assert_eq!(
            (number(Some(0.0)), number(Some(0.01)), number(None)),
            ("0".into(), "0.0".into(), "-".into())
        );
    }
}
