//! Numbers of guests under KVM. They match the host's kernel, and nothing is counted twice.

use std::collections::BTreeMap;

use e2e::kvm_host::KvmHost;
use serde_json::Value;

/// Time for which both loops run before the recordings are read, in seconds.
const LOADED_S: u32 = 100;
/// Minimum time that a row covers, in seconds. A row that covers less has just begun.
const ROW_S: f64 = 20.0;

fn report(host: &mut KvmHost, name: &str) -> Value {
    let text = host.sh(&format!("pinhead report {name} --interval 1m --top 100 --format json"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"))
}

/// Returns the rows of this kind in the first table that cover enough time, the newest last.
fn rows<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = report["tables"][0]["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let measured = |row: &&Value| row["row"] == kind && number(row, "covered_s") >= ROW_S;
    all.iter().filter(measured).collect()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("there is no {name}: {row}"))
}

/// Returns the numbers by name. Each line has a name and a number.
fn numbers(text: &str) -> BTreeMap<&str, f64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name, number.trim().parse().ok()?)))
        .collect()
}

#[test]
fn busy_time_has_names_and_steal_is_run_delay() {
    let mut host = KvmHost::installed();
    host.domain("busy", 160, "busy steal");
    host.until("grep -q steal /srv/busy.console");
    for loops in ["loop1", "loop2"] {
        host.spawn(loops, "while :; do :; done");
    }
    host.until(&format!("[ $(($(date +%s) - $(stat -c %Y /srv/loop2.log))) -gt {LOADED_S} ]"));

    // Guest time is a part of user time. If guest time were counted twice, the sum would exceed
    // busy time by a third. The kernel counts busy time in ticks, and the time of a process by the
    // clock. An emulated host loses some ticks.
    let main = report(&mut host, "main");
    let all = rows(&main, "all").pop().unwrap_or_else(|| panic!("{main}"));
    let (busy, named) = (number(all, "busy_percent"), number(all, "attributed_percent"));
    println!("busy {busy} %, {named} % of it named");
    assert!((99.0..=105.0).contains(&named), "{named} % of busy time has a name: {all}");
    assert!(busy <= 100.1, "{all}");

    let state = report(&mut host, "state");
    let summaries = rows(&state, "summary");
    let row = summaries.into_iter().find(|row| row["guest"] == "busy");
    let row = row.unwrap_or_else(|| panic!("{state}"));
    let sum = number(row, "states_percent");
    println!("states of its virtual CPU: {sum} %");
    assert!((sum - 100.0).abs() <= 0.5, "{sum}: {row}");

    // In stolen time, a virtual CPU is ready on the host and does not run. Both counters are read
    // as soon as the guest has printed its number.
    let line = "c=/srv/busy.console; n=$(wc -l < $c); \
                until [ $(wc -l < $c) -gt $n ]; do sleep 0.1; done; \
                q=$(pgrep -f guest=busy,); for t in /proc/$q/task/*; do \
                grep -q /KVM $t/comm && awk '{ print \"delay\", $2 / 1e9 }' $t/schedstat; done; \
                tail -n 1 $c";
    let text = host.sh(line);
    let found = numbers(&text);
    let of = |name: &str| found.get(name).copied().unwrap_or_else(|| panic!("{name}: {text}"));
    let (delay, steal) = (of("delay"), of("steal"));
    println!("ready and not running: {delay} s on the host, stolen {steal} s in the guest");
    assert!(delay > 10.0, "a guest and two loops have two CPUs: {delay} s");
    assert!((steal - delay).abs() <= 0.02 * delay + 2.0, "{steal} or {delay} s");
    host.is_sound();
}
