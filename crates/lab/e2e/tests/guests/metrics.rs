//! Samples of hosts in the real VictoriaMetrics and the real Prometheus. Pushed and scraped samples
//! are read back to the last digit.

use e2e::engines::{Engine, Kind};
use e2e::{is_there, scratch};
use manager::{Listen, ScrapeServer};
use metrics::read::{Ask, pasts};
use metrics::text::{Format, render};
use metrics::{Processes, Pusher};
use model::{
    Field, GuestField, GuestIdentity, HostField, Interval, Kind as FieldKind, Moment, Parts, Row,
    TierField, Unit,
};
use reactor::{PollSet, Ready};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use store::{Keep, Recorder, Records};

const MINUTE_MS: i64 = 60_000;
const MINUTES: i64 = 5;
const HOSTS: [&str; 3] = ["alpha", "beta \"quoted\"", "gamma"];

/// Seed of rows without missing fields.
const FULL: u64 = 7;

/// Returns the start of a recent minute that has ended. The engines refuse samples far in the past
/// or in the future.
fn begin_ms(dir: &Path) -> i64 {
    let made = std::fs::metadata(dir).expect("a directory").modified().expect("a time");
    let since = made.duration_since(std::time::UNIX_EPOCH).expect("a time after 1970");
    let now_ms = i64::try_from(since.as_millis()).expect("a time before the year 292 million");
    (now_ms / MINUTE_MS - MINUTES - 5) * MINUTE_MS
}

fn mixed(seed: u64) -> u64 {
    // The last step of a well-known generator makes pseudo-random numbers.
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns values of a table that change like real values. Counters of nanoseconds begin in the
/// millions of seconds, and gauges move. One field in nine is missing.
fn row<F: Field>(seed: u64, second: u64) -> Row<F> {
    let mut row = Row::default();
    for (place, field) in F::ALL.iter().enumerate() {
        let of_field = mixed(seed ^ (place as u64) << 32);
        if of_field.is_multiple_of(9) && seed != FULL {
            continue;
        }
        let value = match field.kind() {
            // Ticks of a hundred CPUs over some months.
            FieldKind::Counter if field.unit() == Unit::Ticks => {
                of_field % 100_000_000_000 + second * (of_field % 10_000)
            }
            // Nanoseconds of CPU time over some days, with all digits.
            FieldKind::Counter => {
                let start = of_field % 900_000_000_000_000;
                let grown: u64 = (0..second).map(|s| mixed(of_field ^ s) % 700_000_000).sum();
                start + grown
            }
            FieldKind::Gauge => (of_field ^ mixed(second / 7)) % (1 << 36),
        };
        row.set(*field, Some(value));
    }
    row
}

fn who(name: &str, class: &str, life: u32) -> GuestIdentity {
    GuestIdentity {
        uuid: format!("00000000-0000-0000-0000-{:012}", name.len()),
        name: name.into(),
        class: class.into(),
        pid: Some(1000 + life),
        start_ticks: Some(5000 + u64::from(life)),
        boot: format!("boot-{life}"),
    }
}

/// Returns the samples of a host's monitor, one per second. One guest is idle and is reported every
/// half minute, another guest is restarted, and a third guest has a malicious name. One host has a
/// gap.
fn moments(host: usize, begin_ms: i64) -> Vec<Moment> {
    let seed = 1000 * (host as u64 + 1);
    let mut all = Vec::new();
    for second in 0..=u64::try_from(MINUTES * 60).expect("a number that fits") {
        if host == 1 && (100..130).contains(&second) {
            continue;
        }
        let jitter_ms = i64::try_from(mixed(seed ^ second) % 40).expect("a number that fits");
        let at_ms =
            begin_ms + i64::try_from(second).expect("a number that fits") * 1000 + jitter_ms;
        let mut moment =
            Moment { at_ms, host: row::<HostField>(seed, second), ..Moment::default() };
        moment.tiers.insert("/dev/zram0".into(), row::<TierField>(seed + 1, second));
        moment.guests.insert(who("web-1", "web", 1), row::<GuestField>(seed + 2, second));
        let evil = who("e\"v\\i\nl{} ü", "", 2);
        moment.guests.insert(evil, row::<GuestField>(seed + 3, second));
        let life = if second < 150 { 3 } else { 4 };
        moment.guests.insert(who("again", "web", life), row(seed + u64::from(life), second % 150));
        if second.is_multiple_of(30) {
            moment.guests.insert(who("sleeper", "web", 5), row::<GuestField>(seed + 5, 0));
        }
        all.push(moment);
    }
    all
}

/// Returns the intervals of the host's own recordings.
fn recorded(dir: &Path, moments: &[Moment], ask: &Ask) -> Vec<Interval> {
    let mut recorder = Recorder::new(dir, Keep::USUAL);
    for moment in moments {
        let news = recorder.record(moment);
        assert!(news.is_none(), "{news:?}");
    }
    recorder.close().expect("a written minute");
    let records = Records::open(dir).expect("recordings");
    records.intervals(ask.from_ms, ask.to_ms, ask.step_ms).expect("intervals")
}

fn intervals(
    url: &metrics::Url,
    ask: &Ask,
) -> Result<Vec<(String, Vec<Interval>)>, metrics::Error> {
    Ok(pasts(url, ask)?.into_iter().map(|past| (past.host, past.intervals)).collect())
}

/// Describes the first difference of two lists of intervals.
fn difference(ours: &[Interval], theirs: &[Interval]) -> Option<String> {
    for (a, b) in ours.iter().zip(theirs) {
        if a.from_ms != b.from_ms || a.length_ms != b.length_ms || a.host != b.host {
            return Some(format!("host: {a:?}\nand {b:?}"));
        }
        if !a.guests.keys().eq(b.guests.keys()) {
            return Some(format!("guests: {:?}\nand {:?}", a.guests.keys(), b.guests.keys()));
        }
        for (who, over) in &a.guests {
            for field in GuestField::ALL {
                let (x, y) = (over.get(*field), b.guests[who].get(*field));
                if x != y {
                    return Some(format!("{}: {field:?} {x:?} and {y:?}", who.name));
                }
            }
        }
        if a != b {
            return Some(format!("{:?}\nand {:?}", a, b));
        }
    }
    (ours.len() != theirs.len()).then(|| format!("{} and {}", ours.len(), theirs.len()))
}

fn pushed_is_read_back(kind: Kind) {
    let Some(mut engine) = Engine::start(kind, None) else { return };
    let dir = scratch("metrics");
    let begin_ms = begin_ms(dir.path());
    let end_ms = begin_ms + MINUTES * MINUTE_MS;
    let steps = [MINUTE_MS, 2 * MINUTE_MS];
    let asks = steps.map(|step_ms| Ask {
        from_ms: begin_ms,
        to_ms: end_ms,
        step_ms,
        host: None,
        parts: Parts::ALL,
    });
    let mut expected = Vec::new();
    for (index, host) in HOSTS.into_iter().enumerate() {
        let moments = moments(index, begin_ms);
        let dir = dir.join(index.to_string());
        std::fs::create_dir_all(&dir).expect("a directory");
        expected.push((host.to_owned(), moments, dir));
    }
    for (host, moments, _) in &expected {
        let pusher = Pusher::start(engine.write_url(), host.clone(), "1".into()).expect("a thread");
        let mut wanted = 0;
        for moment in moments {
            // Unlike a manager, this test waits while the queue is full.
            loop {
                let lost = pusher.health().lost;
                pusher.offer(moment);
                if pusher.health().lost == lost {
                    break;
                }
                engine.until("room in the queue", || {
                    let arrived = pusher.health().pushed;
                    if arrived + 30 > wanted { Ok(()) } else { Err(format!("{arrived}")) }
                });
            }
            wanted += 1;
        }
        engine.until("the last sample", || {
            let health = pusher.health();
            assert_eq!(health.refused, 0, "{health:?}");
            if health.pushed == wanted { Ok(()) } else { Err(format!("{health:?}")) }
        });
    }
    let url = engine.url();
    for (index, ask) in asks.iter().enumerate() {
        let recorded: Vec<_> = expected
            .iter()
            .map(|(host, moments, dir)| {
                (host.clone(), recorded(&dir.join(index.to_string()), moments, ask))
            })
            .collect();
        assert!(recorded.iter().all(|(_, intervals)| intervals.len() >= 3), "nothing is tried");
        engine.until("what was pushed", || {
            let found = intervals(&url, ask).map_err(|error| error.to_string())?;
            let names = |all: &[(String, Vec<Interval>)]| -> Vec<String> {
                all.iter().map(|(host, _)| host.clone()).collect()
            };
            if names(&found) != names(&recorded) {
                return Err(format!("hosts {:?}", names(&found)));
            }
            for ((host, theirs), (_, ours)) in found.iter().zip(&recorded) {
                if let Some(difference) = difference(ours, theirs) {
                    return Err(format!("{host}: {difference}"));
                }
            }
            Ok(())
        });
        if index == 0 {
            // The intervals of all hosts are correct, as just checked. One host is enough for the
            // reports.
            let (host, _, dir) = &expected[1];
            reports_agree(&engine, host, &dir.join("0"), ask);
        }
        let one = Ask { host: Some(HOSTS[1].to_owned()), ..ask.clone() };
        let found = intervals(&url, &one).expect("one host");
        assert_eq!(found, [recorded[1].clone()]);
    }
}

const REPORTS: [&str; 17] = [
    "HDR", "MAIN", "GUEST1", "GUEST2", "STATE", "QUEUE", "STORE1", "STORE2", "LEVERS", "PAGE",
    "CACHE", "VDISK", "GIO", "PROC", "IDLE", "LNXS", "ADV",
];

/// Formats a time as `pinhead report` expects it.
fn time(at_ms: i64) -> String {
    let seconds = format!("@{}", at_ms / 1000);
    let output = Command::new("date").args(["-u", "-d", &seconds, "+%Y-%m-%d %H:%M"]).output();
    String::from_utf8_lossy(&output.expect("date").stdout).trim().to_owned()
}

fn report(name: &str, format: &str, ask: &Ask, from: &[&str]) -> String {
    let output = Command::new(e2e::program())
        .args(["report", name, "--format", format, "--interval", "1m", "--top", "100"])
        .args(["--from", &time(ask.from_ms), "--to", &time(ask.to_ms)])
        .args(from)
        .env("TZ", "UTC")
        .output()
        .expect("a report");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that every report of a host is the same from its recordings and from the engine. The
/// host's kernel and processor are not compared, because only the host itself has these values.
/// Text and CSV come from the same tables, so one text report is enough.
fn reports_agree(engine: &Engine, host: &str, dir: &Path, ask: &Ask) {
    let (dir, url) = (dir.to_str().expect("a path"), engine.url().to_string());
    let all = REPORTS.map(|name| (name, "csv"));
    for (name, format) in all.into_iter().chain([("MAIN", "text")]) {
        let ours = report(name, format, ask, &["--dir", dir, "--host", host]);
        let theirs = report(name, format, ask, &["--from-prometheus", &url, "--host", host]);
        assert_eq!(ours, theirs, "{name} as {format} of {host}");
    }
}

#[test]
fn victoria_metrics_gives_back_what_was_pushed() {
    pushed_is_read_back(Kind::VictoriaMetrics);
}

#[test]
fn prometheus_gives_back_what_was_pushed() {
    pushed_is_read_back(Kind::Prometheus);
}

/// Returns every expression in the dashboard's panels, with the variables filled in.
fn expressions() -> Vec<String> {
    let text = include_str!("../../../../../packaging/grafana-pinhead.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let found = targets.filter_map(|target| target["expr"].as_str());
    let filled = found.map(|expression| {
        let filled = expression.replace("$__rate_interval", "1m").replace("$guest", "web-1");
        filled.replace("$host", "h").replace("$class", ".*")
    });
    filled.collect()
}

fn dashboard_shows_something_everywhere(kind: Kind) {
    let Some(mut engine) = Engine::start(kind, None) else { return };
    let dir = scratch("dashboard");
    let begin_ms = begin_ms(dir.path());
    let pusher = Pusher::start(engine.write_url(), "h".into(), "1".into()).expect("a thread");
    let mut at_ms = begin_ms;
    for second in (0..120).step_by(5) {
        at_ms = begin_ms + i64::try_from(second).expect("a number that fits") * 1000;
        let mut moment = Moment { at_ms, host: row(FULL, second), ..Moment::default() };
        moment.tiers.insert("/dev/zram0".into(), row(FULL, second));
        moment.guests.insert(who("web-1", "web", 1), row(FULL, second));
        pusher.offer(&moment);
    }
    engine.until("the last sample", || {
        let health = pusher.health();
        if health.pushed == 24 { Ok(()) } else { Err(format!("{health:?}")) }
    });
    let all = expressions();
    assert!(all.len() > 40);
    for expression in all {
        let asked = engine.asked();
        engine.until(&expression, || {
            let answer = asked.query(&expression, at_ms)?;
            let answer: serde_json::Value =
                serde_json::from_str(&answer).map_err(|error| error.to_string())?;
            let found = answer["data"]["result"].as_array().map_or(0, Vec::len);
            if found > 0 { Ok(()) } else { Err(answer.to_string()) }
        });
    }
}

#[test]
fn every_panel_of_the_dashboard_shows_data() {
    Kind::ALL.into_iter().for_each(dashboard_shows_something_everywhere);
}

/// The manager's server in a separate thread.
struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(moment: Moment) -> Served {
        let (sender, receiver) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let listen = Listen::parse("127.0.0.1:0").expect("an address");
            let mut scrape = ScrapeServer::open(&listen, "h".into(), "1".into(), Processes::Left)
                .expect("a server");
            scrape.publish(&moment, &|_| true);
            sender.send(scrape.address().expect("an address")).expect("a test that waits");
            let clock = vm::Clock::new();
            while !stopped.load(Ordering::Relaxed) {
                let ready = wait(&scrape);
                scrape.turn(ready.all(), clock.ms());
            }
        });
        let address = receiver.recv().expect("an address");
        Served { address, stop, thread: Some(thread) }
    }
}

fn wait(scrape: &ScrapeServer) -> Ready {
    let mut set = PollSet::new();
    scrape.fds(&mut set);
    set.wait(50).expect("a poll")
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn scraped_is_read_back(kind: Kind) {
    let dir = scratch("scrape");
    let begin_ms = begin_ms(dir.path()) + (MINUTES + 4) * MINUTE_MS;
    let mut moment = moments(0, begin_ms).remove(0);
    // VictoriaMetrics keeps 12 to 14 digits of a number with a decimal point. A push contains the
    // full value separately. The numbers in this test are short enough.
    for row in moment.guests.values_mut() {
        for field in GuestField::ALL {
            row.set(*field, row.get(*field).map(|value| value % 1_000_000_000_000));
        }
    }
    for field in HostField::ALL {
        moment.host.set(*field, moment.host.get(*field).map(|value| value % 1_000_000_000_000));
    }
    for row in moment.tiers.values_mut() {
        for field in TierField::ALL {
            row.set(*field, row.get(*field).map(|value| value % 1_000_000_000_000));
        }
    }
    let served = Served::start(moment.clone());
    let Some(mut engine) = Engine::start(kind, Some(&served.address.to_string())) else { return };
    let url = engine.url();
    let ask = Ask {
        from_ms: begin_ms,
        to_ms: begin_ms + 10 * MINUTE_MS,
        step_ms: MINUTE_MS,
        host: None,
        parts: Parts::ALL,
    };
    engine.until("a scrape", || {
        let mut seen = Vec::new();
        metrics::read::moments(&url, &ask, &mut |_, moments| {
            seen.extend_from_slice(moments);
            Some(())
        })
        .map_err(|error| error.to_string())?;
        // The sample has the time of its reading, and not the time of the scrape.
        match &seen[..] {
            [one] if *one == moment => Ok(()),
            other => Err(format!("{other:?}\ninstead of {moment:?}")),
        }
    });
}

#[test]
fn victoria_metrics_gives_back_what_it_scraped() {
    scraped_is_read_back(Kind::VictoriaMetrics);
}

#[test]
fn prometheus_gives_back_what_it_scraped() {
    scraped_is_read_back(Kind::Prometheus);
}

#[test]
fn promtool_accepts_the_metrics() {
    if !is_there("promtool") {
        e2e::skipped_without("promtool");
        return;
    }
    let moment = moments(0, 0).remove(0);
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    let text = render(&moment, "h", "1", Format::Prometheus);
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("a reader");
    let output = child.wait_with_output().expect("its end");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
}
