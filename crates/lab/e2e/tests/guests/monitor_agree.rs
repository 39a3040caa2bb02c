//! Recordings of the monitor agree with independent tools over the same time. A guest's CPU time is
//! compared with libvirt, the host's CPU time with `sar`, and the host's memory with /proc.
//!
//! ```text
//!   a busy guest of a real libvirt ─┬─► pinhead host ─► recordings, at the tools' times ─┐
//!                                   └─► virsh domstats, sar, /proc/meminfo ────────────┴─► 1 %
//! ```
//!
//! Two tools never read at the same moment. The recordings are therefore interpolated to the other
//! tool's time, between the samples a second before and after. The time span is long.

use e2e::is_there;
use e2e::libvirtd::{self, Daemon, NAME};
use e2e::manager::{Manager, Place, Size, observe, wait_until};
use e2e::{PATIENCE, share};
use model::{Field, GuestField, HostField, Kind, Moment, Over, Row};
use reports::{Added, Facts, Scope, field};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::time::Duration;
use store::Records;
use why::now;

/// Length of the observation, in seconds.
const SECONDS: u64 = 30;
/// Time for which samples are recorded before the first and after the last figure of sar.
const AROUND: Duration = Duration::from_secs(3);
/// Maximum relative difference.
const APART: f64 = 0.01;
/// Maximum duration of a libvirt response. A slower query is repeated, because the moment of its
/// value is unknown.
const ANSWER_MS: i64 = 60;
const TRIES: u32 = 20;
/// Computes for a quarter of the time, so that idle time is counted as well.
const LOAD: &str = "(while :; do n=0; while [ $n -lt 2000 ]; do n=$((n + 1)); done; \
                    usleep 60000; done) &\nsleep 400\npoweroff -f\n";

/// A value from a tool, and its time: the middle of the tool's run.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at_ms: i64,
    value: f64,
}

/// Returns the CPU time of the domain's only virtual CPU, in nanoseconds, as libvirt reports it.
fn vcpu_time(daemon: &Daemon) -> Reading {
    let mut best: Option<(i64, Reading)> = None;
    for _ in 0..TRIES {
        let before_ms = now().ms;
        let text = daemon.virsh(&["domstats", "--vcpu", NAME]);
        let took_ms = now().ms - before_ms;
        let value = text.lines().find_map(|line| line.trim().strip_prefix("vcpu.0.time="));
        let value = value.and_then(|number| number.trim().parse().ok());
        let value = value.unwrap_or_else(|| panic!("no time of a virtual CPU: {text}"));
        let reading = Reading { at_ms: before_ms + took_ms / 2, value };
        if best.is_none_or(|(least_ms, _)| took_ms < least_ms) {
            best = Some((took_ms, reading));
        }
        if took_ms <= ANSWER_MS {
            return reading;
        }
    }
    best.expect("an answer").1
}

/// Returns MemAvailable in bytes, from /proc.
fn available() -> Reading {
    let text = std::fs::read_to_string("/proc/meminfo").expect("its memory");
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<f64>().ok());
    Reading { at_ms: now().ms, value: kib.expect("a number") * 1024.0 }
}

/// Returns the host's busy CPU time in percent from `sar`, with the start and end of the run. Calls
/// `meanwhile` repeatedly during the run.
fn sar(mut meanwhile: impl FnMut()) -> (f64, i64, i64) {
    let mut command = Command::new("sar");
    command.args(["-u", "ALL", &SECONDS.to_string(), "1"]).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let (from_ms, from_ticks) = (now().ms, ticks());
    let mut child = command.spawn().expect("sar");
    let ended = wait_until(Duration::from_secs(SECONDS + 30), || {
        meanwhile();
        child.try_wait().expect("its state").is_some()
    });
    let (to_ms, to_ticks) = (now().ms, ticks());
    if ended.is_none() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && ended.is_some(), "{text}");
    let head: Vec<&str> = text
        .lines()
        .find(|line| line.contains("%idle"))
        .map(|line| line.split_ascii_whitespace().skip_while(|word| *word != "CPU").collect())
        .unwrap_or_else(|| panic!("no head: {text}"));
    let average = text.lines().find(|line| line.starts_with("Average:"));
    let row: Vec<&str> = average
        .map(|line| line.split_ascii_whitespace().skip(1).collect())
        .unwrap_or_else(|| panic!("no average: {text}"));
    let column = |name: &str| {
        let at = head.iter().position(|word| *word == name);
        let number = at.and_then(|at| row.get(at)?.parse::<f64>().ok());
        number.unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    let busy = 100.0 - column("%idle") - column("%iowait") - column("%steal");
    // The percentages of sar refer to counted ticks. A host that is itself a guest may count up to
    // a tenth more or fewer ticks than the elapsed time contains.
    let possible = (to_ms - from_ms) as f64 / 10.0 * f64::from(to_ticks.1);
    let counted = (to_ticks.0 - from_ticks.0) as f64 / possible;
    println!("{:.2} % of all ticks were counted", counted * 100.0);
    (busy * counted, from_ms, to_ms)
}

/// Returns the ticks that this host has counted on all CPUs, and the number of its CPUs.
fn ticks() -> (u64, u32) {
    let text = std::fs::read_to_string("/proc/stat").expect("the host's ticks");
    let mut lines = text.lines().filter(|line| line.starts_with("cpu"));
    // Guest time is already part of user time.
    let all = lines.next().expect("all CPUs").split_ascii_whitespace().skip(1).take(8);
    (all.map(|word| word.parse::<u64>().expect("ticks")).sum(), lines.count() as u32)
}

/// Returns a counter at a point in time, interpolated between the samples before and after it.
fn at<F: Field>(rows: &[(i64, Row<F>)], field: F, at_ms: i64) -> f64 {
    let value = |row: &Row<F>| row.get(field).unwrap_or_else(|| panic!("no {field:?}")) as f64;
    let after = rows.iter().position(|(ms, _)| *ms >= at_ms);
    let after = after.unwrap_or_else(|| panic!("nothing is recorded after {at_ms}"));
    let (late_ms, late) = &rows[after];
    let (early_ms, early) = &rows[after.checked_sub(1).expect("a sample before")];
    let part = (at_ms - early_ms) as f64 / (late_ms - early_ms) as f64;
    value(early) + (value(late) - value(early)) * part
}

/// Returns the host's busy CPU time in percent, as the reports compute it.
fn busy_percent(rows: &[(i64, Row<HostField>)], from_ms: i64, to_ms: i64) -> f64 {
    let row = |at_ms| {
        let mut row = rows[0].1.clone();
        let counters = HostField::ALL.iter().filter(|field| field.kind() == Kind::Counter);
        for field in counters.filter(|field| rows[0].1.get(**field).is_some()) {
            row.set(*field, Some(at(rows, *field, at_ms) as u64));
        }
        row
    };
    let over = Over::between(&row(from_ms), &row(to_ms), to_ms.abs_diff(from_ms));
    let facts = Facts {
        host: &over,
        guest: &Over::default(),
        tier: &Over::default(),
        process: &Over::default(),
        added: &Added::default(),
        on: None,
        active: None,
        unlisted_ns: None,
        idle_wakes: None,
    };
    let field = field(Scope::Host, "busy_percent").expect("a field");
    field.value(&facts).expect("a value")
}

fn apart(ours: f64, theirs: f64) -> f64 {
    (ours - theirs).abs() / theirs.abs().max(f64::MIN_POSITIVE)
}

#[test]
fn the_numbers_are_those_of_libvirt_sar_and_proc() {
    let missing = libvirtd::missing().or((!is_there("sar")).then_some("sar"));
    if let Some(program) = missing {
        e2e::skipped_without(program);
        return;
    }
    let _share = share(1);
    let daemon = Daemon::start();
    let listens = wait_until(PATIENCE, || daemon.try_virsh(&["list"]).status.success());
    assert!(listens.is_some(), "{}", daemon.log());
    daemon.create_domain(LOAD);
    let booted = wait_until(PATIENCE, || daemon.console().contains("lv1 is up"));
    assert!(booted.is_some(), "{}", daemon.log());

    let place = Place::new();
    let records = place.dir().join("records");
    let monitor = format!("\n[monitor]\ndir = \"{}\"\n", records.display());
    let size = Size { budget_mib: 4096, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let settings = place.settings(&size, &monitor);
    let text = std::fs::read_to_string(&settings).expect("the settings");
    let (socket, user) = (daemon.socket(), daemon.user());
    let uri = format!("libvirt = [\"qemu:///session?socket={}\"]", socket.display());
    let uri = format!("{uri}\nusers = [\"{user}\"]");
    std::fs::write(&settings, text.replace("libvirt = []", &uri)).expect("written");
    let manager = Manager::start(&place, &settings);
    manager.until("it runs", PATIENCE, |ps| {
        let busy = |percent: f64| percent > 10.0;
        ps.guests
            .iter()
            .any(|guest| guest.name == daemon.guest() && guest.cpu_percent.is_some_and(busy))
    });
    observe(AROUND);
    let first = vcpu_time(&daemon);
    let mut memory = Vec::new();
    let (busy, from_ms, to_ms) = sar(|| memory.push(available()));
    let last = vcpu_time(&daemon);
    observe(AROUND);
    drop(manager);

    let (mut host, mut guest) = (Vec::new(), Vec::new());
    let take = |moment: Moment| {
        let at_ms = moment.at_ms;
        host.push((at_ms, moment.host));
        let of = moment.guests.into_iter().find(|(who, _)| who.name == daemon.guest());
        guest.extend(of.map(|(_, row)| (at_ms, row)));
        ControlFlow::Continue(())
    };
    let recorded = Records::open(&records).expect("recordings");
    recorded.raw(i64::MIN, i64::MAX, take).expect("samples");
    println!("{} samples of the host, {} of the guest", host.len(), guest.len());

    let run = |reading: Reading| at(&guest, GuestField::VcpuRun, reading.at_ms);
    let (ours, theirs) = (run(last) - run(first), last.value - first.value);
    let seconds = (last.at_ms - first.at_ms) as f64 / 1e3;
    println!(
        "virtual CPU in {seconds:.1} s: {:.3} s by us, {:.3} s by libvirt, {:.2} % apart",
        ours / 1e9,
        theirs / 1e9,
        apart(ours, theirs) * 100.0
    );
    assert!(apart(ours, theirs) <= APART, "{ours} and {theirs} ns");

    let ours = busy_percent(&host, from_ms, to_ms);
    let by = apart(ours, busy) * 100.0;
    println!("host busy: {ours:.2} % by us, {busy:.2} % by sar, {by:.2} % apart");
    assert!(apart(ours, busy) <= APART, "{ours} and {busy} %");

    let nearest = |at_ms: i64| memory.iter().min_by_key(|reading| (reading.at_ms - at_ms).abs());
    let mut all: Vec<f64> = host
        .iter()
        .filter(|(at_ms, _)| (from_ms..to_ms).contains(at_ms))
        .filter_map(|(at_ms, row)| {
            let ours = row.get(HostField::Available)? as f64;
            Some(apart(ours, nearest(*at_ms)?.value))
        })
        .collect();
    all.sort_by(f64::total_cmp);
    let middle = *all.get(all.len() / 2).expect("samples of memory");
    println!("memory available: {:.3} % apart in the middle of {}", middle * 100.0, all.len());
    assert!(all.len() as u64 >= SECONDS / 2 && middle <= APART, "{all:?}");
    let total = |row: &Row<HostField>| row.get(HostField::Total);
    let text = std::fs::read_to_string("/proc/meminfo").expect("its memory");
    let kib = text.split_ascii_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    assert_eq!(total(&host[0].1), kib.map(|kib| kib * 1024));
}
