//! Sums computed by metrics servers match the pushed samples. Very many hosts with long names fit
//! into one response.

use e2e::engines::{Engine, Kind};
use metrics::Url;
use metrics::fleet::{Glance, Loudest, Steps, glance, guest_lines, lines};
use metrics::push::send;
use metrics::write::encode;
use model::{GuestField as G, GuestIdentity, HostField as H, Moment, Row};

const MIB: u64 = 1 << 20;
const NS: u64 = 1_000_000;
const MINUTES: i64 = 10;

fn who(name: &str) -> GuestIdentity {
    GuestIdentity { name: name.into(), class: "web".into(), ..GuestIdentity::default() }
}

/// Returns a sample for this time. The host's CPUs were busy for a quarter of the time, and each
/// guest ran for a tenth of the time.
fn moment(at_ms: i64, ms: u64, guests: &[&str]) -> Moment {
    let mut moment = Moment { at_ms, ..Moment::default() };
    moment.host.extend([
        (H::Cpus, Some(2)),
        (H::User, Some(ms * NS / 4)),
        (H::System, Some(ms * NS / 4)),
        (H::Spare, Some(700 * MIB)),
    ]);
    for name in guests {
        let mut row = Row::default();
        row.extend([
            (G::VcpuRun, Some(ms * NS / 10)),
            (G::OtherRun, Some(0)),
            (G::Private, Some(30 * MIB)),
        ]);
        moment.guests.insert(who(name), row);
    }
    moment
}

fn asked(to_ms: i64, like: &str) -> Glance {
    Glance {
        from_ms: to_ms - MINUTES * 60_000,
        to_ms,
        hosts: vec![H::Cpus, H::User, H::System, H::Spare],
        together: vec![G::VcpuRun, G::OtherRun],
        loudest: Loudest {
            most: 250,
            of_each: false,
            by: vec![G::VcpuRun, G::OtherRun],
            like: like.into(),
            fields: vec![G::VcpuRun, G::OtherRun, G::Private],
        },
    }
}

fn push(url: &Url, host: &str, moment: &Moment) {
    for body in encode(moment, host, "test") {
        send(url, &body).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Returns true if a value is near the expected value. An engine may extrapolate beyond the first
/// and the last sample.
fn is_near(value: Option<u64>, expected: u64) -> bool {
    value.is_some_and(|value| value.abs_diff(expected) <= expected / 50)
}

#[test]
fn sums_of_both_engines_match_the_pushed_samples() {
    for kind in Kind::ALL {
        let Some(mut engine) = Engine::start(kind, None) else { continue };
        let to_ms = why::now().ms;
        let about = engine.asked();
        engine.until("an answer", || about.query("1", to_ms));
        let (base, url) = (engine.url(), engine.write_url());
        // Samples before the requested time cover its beginning.
        let first_ms = to_ms - (MINUTES + 2) * 60_000;
        let odd = "a\"b\\c.*|{d}";
        for step in 0..=(MINUTES + 2) * 12 {
            let (at_ms, ms) = (first_ms + step * 5_000, (step * 5_000).unsigned_abs());
            // One idle guest is reported only once a minute.
            let seldom = step % 12 == 0;
            let all = [odd, "often", "seldom"];
            push(&url, "left.example", &moment(at_ms, ms, &all[..if seldom { 3 } else { 2 }]));
            push(&url, "right", &moment(at_ms, ms, &["often"]));
        }
        engine.show_all();
        let url = base;
        let found = glance(&url, &asked(to_ms, "")).unwrap();
        assert_eq!((found.found, found.hosts.len()), (4, 2), "{kind:?}");
        let length = MINUTES.unsigned_abs() * 60_000;
        for (name, host) in &found.hosts {
            assert_eq!(host.guests, if name == "right" { 1 } else { 3 }, "{kind:?} {name}");
            assert!(is_near(Some(host.over.covered_ms), length), "{kind:?} {host:?}");
            assert!(is_near(host.over.get(H::User), length * NS / 4), "{kind:?} {host:?}");
            assert!(is_near(host.over.get(H::Spare), 700 * MIB), "{kind:?} {host:?}");
            assert!(to_ms - host.last_ms <= 5_000, "{kind:?} {host:?}");
            assert!((4_000..6_000).contains(&host.spacing_ms()), "{kind:?} {host:?}");
            for (who, over) in &host.loudest {
                // The rarely reported guest is included.
                assert!(is_near(Some(over.covered_ms), length), "{kind:?} {who:?} {over:?}");
                assert!(over.get(G::VcpuRun).is_some_and(|ns| ns >= length * NS / 12), "{over:?}");
                assert_eq!(over.get(G::Private), Some(30 * MIB), "{kind:?}");
            }
        }
        // A name with any characters is matched as plain text.
        let found = glance(&url, &asked(to_ms, "C.*|{")).unwrap();
        assert_eq!(found.found, 1, "{kind:?}");
        assert_eq!(found.hosts["left.example"].loudest[0].0.name, odd);
        let steps = Steps { from_ms: to_ms - 300_000, to_ms, step_ms: 60_000 };
        let hosts = lines(&url, steps, &["left.example", "right"], &[H::Spare]).unwrap();
        assert_eq!((hosts.len(), hosts["right"].len()), (2, 5), "{kind:?}");
        assert!(hosts["right"].iter().all(|over| over.get(H::Spare) == Some(700 * MIB)));
        let guests = guest_lines(&url, steps, "left.example", &[G::Private, G::VcpuRun]).unwrap();
        assert_eq!(guests.len(), 3, "{kind:?}");
    }
}

#[test]
fn four_hundred_long_names_are_one_answer() {
    let Some(mut engine) = Engine::start(Kind::VictoriaMetrics, None) else { return };
    let to_ms = why::now().ms;
    let about = engine.asked();
    engine.until("an answer", || about.query("1", to_ms));
    let (base, url) = (engine.url(), engine.write_url());
    let name = |number: u64| format!("node-{number:04}.rack-01.dc1.example.com");
    for number in 0..400 {
        for (at_ms, ms) in [(to_ms - 60_000, 0), (to_ms - 1_000, 59_000)] {
            let long = format!("{}-{number}", "-.".repeat(100));
            push(&url, &name(number), &moment(at_ms, ms, &[&long, "g"]));
        }
    }
    engine.show_all();
    let found = glance(&base, &asked(to_ms, "")).unwrap();
    let loudest: usize = found.hosts.values().map(|host| host.loudest.len()).sum();
    assert_eq!((found.found, found.hosts.len(), loudest), (800, 400, 250));
    let names: Vec<String> = (0..400).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let steps = Steps { from_ms: to_ms - 120_000, to_ms, step_ms: 60_000 };
    assert_eq!(lines(&engine.url(), steps, &names, &[H::Spare]).unwrap().len(), 400);
}
