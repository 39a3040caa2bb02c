//! Numbers of guests under KVM are those that the host's kernel counts, once.

use std::collections::BTreeMap;

use e2e::kvm_host::{Domain, KvmHost};
use serde_json::Value;

/// Seconds that are recorded at least.
const RECORDED_S: u32 = 90;

fn report(host: &mut KvmHost, name: &str) -> Value {
    let text = host.sh(&format!("pinhead report {name} --interval 1m --top 100 --format json"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"))
}

/// The rows of a kind in the first table that have been measured.
fn rows<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = report["tables"][0]["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let measured = |row: &&Value| row["row"] == kind && number(row, "covered_s") > 0.0;
    all.iter().filter(measured).collect()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("there is no {name}: {row}"))
}

/// The numbers behind names, one of each in a line.
fn numbers(text: &str) -> BTreeMap<&str, f64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name, number.trim().parse().ok()?)))
        .collect()
}

#[test]
fn the_numbers_of_guests_under_kvm_are_those_of_the_host() {
    let mut host = KvmHost::installed();
    let words = "busy steal".into();
    host.domain(&Domain { words, ..Domain::new("busy", 160) });
    host.until("grep -q steal /srv/busy.console");
    for loops in ["loop1", "loop2"] {
        host.spawn(loops, "while :; do :; done");
    }
    host.until(&format!("[ $(($(date +%s) - $(stat -c %Y /srv/loop2.log))) -gt {RECORDED_S} ]"));

    // Guest time is a part of user time: a sum of both would be more than there is.
    let main = report(&mut host, "main");
    let all = rows(&main, "all")[0];
    let named = number(all, "attributed_percent");
    println!("busy {} %, named {named} %", number(all, "busy_percent"));
    assert!((99.0..=101.0).contains(&named), "{named} % of busy time has a name: {all}");
    assert!(number(all, "busy_percent") <= 100.1, "{all}");

    let state = report(&mut host, "state");
    let summaries = rows(&state, "summary");
    assert!(summaries.len() >= 2, "{state}");
    for row in summaries {
        let sum = number(row, "states_percent");
        assert!((sum - 100.0).abs() <= 0.5, "{sum}: {row}");
    }

    // Stolen time is that in which its virtual CPU was ready on the host, and did not run.
    let mut look = |name: &str| {
        let line = format!(
            "q=$(pgrep -f guest={name},); for t in /proc/$q/task/*; do \
             grep -q /KVM $t/comm && awk '{{ print \"delay\", $2 / 1e9 }}' $t/schedstat; done; \
             tail -n 1 /srv/{name}.console"
        );
        let text = host.sh(&line);
        let found = numbers(&text);
        let of = |name: &str| found.get(name).copied().unwrap_or_else(|| panic!("{name}: {text}"));
        (of("delay"), of("steal"))
    };
    let (delay, steal) = look("busy");
    println!("ready and not running: {delay} s on the host, stolen {steal} s in the guest");
    assert!(delay > 10.0, "a guest and two loops have two CPUs: {delay} s");
    // The guest says it every two seconds.
    assert!((steal - delay).abs() <= 0.02 * delay + 2.0, "{steal} or {delay} s");
    host.is_sound();
}
