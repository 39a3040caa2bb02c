//! `pinhead ps --farm`: guests as the farm that runs them and the host's kernel see them.

use super::find;
use crate::Error;
use crate::args::Format;
use base::{Column, Table, left, plain, right};
use farm::service;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Lists the guests of one farm, or of all.
pub fn ps(named: Option<&str>, format: Format) -> Result<String, Error> {
    let farms = match named {
        Some(_) => vec![find::farm(named)?],
        None => find::farms(),
    };
    if farms.is_empty() {
        return Err(Error::Message("No farm runs: `pinhead up FARM.toml` starts one".into()));
    }
    let mut tables = Vec::new();
    for found in farms {
        let (_, mut table) = service::ask(&found.socket, &json!({ "ps": true }))?;
        if let Some(guests) = table.get_mut("guests").and_then(Value::as_array_mut) {
            guests.iter_mut().for_each(add_memory);
        }
        tables.push(table);
    }
    match format {
        Format::Json => crate::manage::json(&json!({ "farms": tables })),
        Format::Text => Ok(tables.iter().map(text).collect()),
    }
}

/// What the host's kernel says of a guest's memory. The farm's own process is spared that work.
fn add_memory(guest: &mut Value) {
    let pid = guest.get("pid").and_then(Value::as_u64);
    let rollup = pid.and_then(|pid| std::fs::read(format!("/proc/{pid}/smaps_rollup")).ok());
    let text = rollup.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let kib = |field: &str| text.as_deref().and_then(|text| rollup_kib(text, field));
    // Nobody knows is null and not 0.
    guest["resident_kib"] = json!(kib("Rss:"));
    guest["proportional_kib"] = json!(kib("Pss:"));
    guest["swapped_kib"] = json!(kib("Swap:"));
}

/// One number of /proc/PID/smaps_rollup.
fn rollup_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

const COLUMNS: [Column; 9] = [
    left("GUEST").width(16),
    left("CLASS").gap(1).width(12),
    right("PID").gap(1).least(8),
    left("STATE").gap(1).width(9),
    right("IN HOST").gap(1).least(7),
    right("ITS OWN").gap(1).least(7),
    right("OF").gap(1).least(6),
    right("CPU%").gap(1).least(6),
    left("ADDRESS, PORTS").most(100),
];

fn text(farm: &Value) -> String {
    let guests = farm.get("guests").and_then(Value::as_array);
    let mut table = Table::new(&COLUMNS);
    let mut sum_kib = 0;
    for guest in guests.into_iter().flatten() {
        sum_kib += guest["proportional_kib"].as_u64().unwrap_or(0);
        table.row(row(guest));
    }
    let mut out = table.text();
    let count = guests.map_or(0, Vec::len);
    let name = plain(farm["farm"].as_str().unwrap_or("-"), 60);
    let _ = writeln!(
        out,
        "farm {name}: {count} guests in {} MiB, for {} s (process {})",
        sum_kib / 1024,
        farm["uptime_ms"].as_u64().unwrap_or(0) / 1000,
        farm["pid"].as_u64().unwrap_or(0)
    );
    out
}

fn row(guest: &Value) -> [String; 9] {
    let word = |key: &str| guest[key].as_str().unwrap_or("-").to_owned();
    let number = |key: &str| guest[key].as_u64().map_or("-".to_owned(), |n| n.to_string());
    let mib = |key: &str| guest[key].as_u64().map_or("-".to_owned(), |n| (n / 1024).to_string());
    let is_ready = guest["ready"].as_bool() == Some(true);
    let state = match guest["state"].as_str() {
        Some("up" | "unmanaged" | "managed") if !is_ready => "starting".to_owned(),
        // Up without a daemon is what was asked for where there is none.
        Some("unmanaged") => "up".to_owned(),
        _ => word("state"),
    };
    let ports = guest["ports"].as_array().into_iter().flatten();
    let ports: Vec<String> =
        ports.map(|port| format!("127.0.0.1:{}>{}", port["host"], port["guest"])).collect();
    let rest = match guest["reason"].as_str() {
        Some(reason) => reason.to_owned(),
        None => format!("{} {}", word("address"), ports.join(" ")),
    };
    [
        word("name"),
        word("class"),
        number("pid"),
        state,
        mib("resident_kib"),
        mib("proportional_kib"),
        number("memory_mib"),
        guest["cpu_percent"].as_f64().map_or("-".to_owned(), |cpu| format!("{cpu:.1}")),
        rest,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_what_is_known_and_nothing_that_a_terminal_obeys() {
        let up = json!({ "name": "web1", "class": "web", "pid": 7, "state": "up", "ready": true,
            "ports": [{ "host": 18000, "guest": 80 }], "address": "10.1.0.1", "memory_mib": 96,
            "resident_kib": 51200, "proportional_kib": 20480, "cpu_percent": 0.25 });
        let ended = json!({ "name": "\u{1b}[2J", "state": "ended", "reason": "QEMU ended\u{7}" });
        let table = json!({ "farm": "f", "pid": 9, "uptime_ms": 5000, "guests": [up, ended] });
        let text = text(&table);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "web1             web                 7 up             50      20     96    0.2  \
             10.1.0.1 127.0.0.1:18000>80"
        );
        assert!(lines[2].contains("QEMU ended\u{fffd}") && !text.contains('\u{1b}'));
        assert!(lines[2].contains("       - "), "what is not known is no 0: {}", lines[2]);
        assert_eq!(lines[3], "farm f: 2 guests in 20 MiB, for 5 s (process 9)");
    }

    #[test]
    fn the_kernels_sums_are_read() {
        let text = "00400000-7ffe [rollup]\nRss:      51200 kB\nPss:   20480 kB\nSwap:  0 kB\n";
        assert_eq!(rollup_kib(text, "Rss:"), Some(51200));
        assert_eq!(rollup_kib(text, "Swap:"), Some(0));
        assert_eq!(rollup_kib(text, "Locked:"), None);
        assert_eq!(rollup_kib("Rss: many kB\n", "Rss:"), None);
    }
}
