use super::*;
use crate::listing::testing::check_widths;
use crate::terminal;
use crate::terminal::testing::on_terminal;
use jiff::tz::TimeZone;
use model::{
    GuestField as G, GuestIdentity, HostField as H, Moment, ProcessField, ProcessName, Row,
};
use std::fs;
use std::path::Path;
use store::{Keep, Recorder};

const BEGIN_MS: i64 = 1_795_500_000_000;
const MINUTES: u64 = 240;
const MIB: u64 = 1 << 20;

fn now() -> Now {
    Now { ms: BEGIN_MS + (MINUTES.cast_signed() + 1) * STEP_MS, zone: TimeZone::UTC }
}

/// A fault that is planted in a farm of four healthy guests.
type Plant = fn(second: u64, number: usize, row: &mut Row<G>, host: &mut Row<H>);

/// Records four hours of a farm with the planted fault.
fn farm(name: &str, plant: Plant, waker: Option<(&str, u64)>) -> String {
    farm_since(name, plant, waker, None, Format::Text).unwrap()
}

fn farm_since(
    name: &str,
    plant: Plant,
    waker: Option<(&str, u64)>,
    since: Option<&str>,
    format: Format,
) -> Result<String, Error> {
    let dir = std::env::temp_dir().join(format!("pinhead-tune-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    record(&dir, plant, waker);
    let args = TuneArgs {
        from: Some("2026-11-24".into()),
        to: None,
        since: since.map(str::to_owned),
        enough: "1h".into(),
        format,
        dir: Some(dir.clone()),
    };
    let text = tune(&args, &Sources::default(), &now());
    fs::remove_dir_all(&dir).unwrap();
    text
}

fn record(dir: &Path, plant: Plant, waker: Option<(&str, u64)>) {
    let mut recorder = Recorder::new(dir, Keep::USUAL);
    for step in 0..=MINUTES * 6 {
        let second = step * 10;
        let mut host = Row::default();
        host.extend([
            (H::Total, Some(2048 * MIB)),
            (H::Cpus, Some(2)),
            (H::Available, Some(400 * MIB)),
            (H::SetPoint, Some(200 * MIB)),
            (H::PsiMemorySome, Some(0)),
            (H::KsmRun, Some(second * 1_000_000)),
            (H::KsmSharing, Some(50_000 + second)),
            (H::PageOutRun, Some(second * 100_000)),
            (H::PagedOut, Some(second * 100_000)),
            (H::CameBack, Some(0)),
        ]);
        let at_ms = BEGIN_MS + (second * 1000).cast_signed();
        let mut moment = Moment { at_ms, ..Moment::default() };
        for number in 1..=4usize {
            let mut row = Row::default();
            row.extend([
                (G::Memory, Some(256 * MIB)),
                (G::Actual, Some(256 * MIB)),
                (G::Vcpus, Some(1)),
                (G::OwnAvailable, Some(36 * MIB)),
                (G::Private, Some(240 * MIB)),
                (G::OwnPsiSome, Some(0)),
                (G::OwnOomKills, Some(0)),
                (G::VcpuRun, Some(second * 3_000_000)),
                (G::VcpuDispatches, Some(second * 2)),
                (G::OwnPlugs, Some(second / 3000)),
                (G::OwnUnplugs, Some(second / 3000)),
                (G::OwnGrows, Some(second / 3000)),
                (G::OwnShrinks, Some(0)),
            ]);
            plant(second, number, &mut row, &mut host);
            let who = GuestIdentity { name: format!("g{number}"), ..GuestIdentity::default() };
            if let Some((name, a_second)) = waker.filter(|_| number == 2) {
                let mut process = Row::default();
                process.set(ProcessField::Dispatches, Some(second * a_second));
                process.set(ProcessField::Run, Some(second * 1_000_000));
                let name = ProcessName { name: name.into(), pid: 0 };
                moment.processes.insert(who.clone(), [(name, process)].into());
            }
            moment.guests.insert(who, row);
        }
        moment.host = host;
        assert!(recorder.record(&moment).is_none());
    }
    recorder.close().unwrap();
}

fn first(text: &str) -> &str {
    text.lines().next().unwrap()
}

#[test]
fn a_farm_without_a_fault_has_an_empty_list() {
    let text = farm("none", |_, _, _, _| {}, None);
    assert_eq!(text, "No suggestions for 4 guests.\n");
}

#[test]
fn a_guest_that_is_twice_too_large_is_first() {
    let text = farm(
        "large",
        |_, number, row, _| {
            if number == 3 {
                row.set(G::OwnAvailable, Some(150 * MIB));
            }
        },
        None,
    );
    assert!(first(&text).starts_with("1. g3: too large. Potential gain: 1"), "{text}");
    assert!(text.contains("\n   pinhead set g3 max \"120 MiB\"\n"), "{text}");
    assert!(!text.contains("\n2. "), "{text}");
}

#[test]
fn suggestions_fit_every_width() {
    let dir = std::env::temp_dir().join(format!("pinhead-tune-widths-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    record(
        &dir,
        |second, number, row, host| match number {
            2 => {
                row.set(G::VcpuDispatches, Some(second * 100));
                row.set(G::VcpuRun, Some(second * 30_000_000));
            }
            3 => row.set(G::OwnAvailable, Some((150 - second / 600) * MIB)),
            4 => host.set(H::PsiMemorySome, Some(second * 80_000_000)),
            _ => {}
        },
        Some(("poller", 90)),
    );
    let records = Records::open(&dir).unwrap();
    let (from_ms, to_ms) = (BEGIN_MS, now().ms);
    let found = backtest::tune(&records, (from_ms, to_ms), 60 * STEP_MS.unsigned_abs()).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    assert!(found.all.len() >= 3, "{found:?}");
    let none = Sources::default();
    let text = || show::since(&found, &found, from_ms, &none, Format::Text, &now()).unwrap();
    check_widths(|width| on_terminal(width, || terminal::fitted_to_stdout(&text())));
    let shown = on_terminal(40, text);
    let charts: Vec<&str> = shown.lines().filter(|line| line.contains('█')).collect();
    assert!(!charts.is_empty(), "{shown}");
    assert!(charts.iter().all(|chart| base::columns(chart) <= 40), "{charts:?}");
}

#[test]
fn advice_since_a_change_reports_its_outcome() {
    // g3 is too large for the first two hours, and g2 is woken all the time.
    let plant: Plant = |second, number, row, _| match number {
        3 if second < 7200 => row.set(G::OwnAvailable, Some(150 * MIB)),
        2 => {
            row.set(G::VcpuDispatches, Some(second * 100));
            row.set(G::VcpuRun, Some(second * 30_000_000));
        }
        _ => {}
    };
    let done =
        |since, format| farm_since("since", plant, Some(("poller", 90)), Some(since), format);
    let text = done("2026-11-24 08:00", Format::Text).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("Found before 08:00"), "{text}");
    let large = lines.next().unwrap();
    assert!(large.starts_with("   g3: too large. Potential gain: "), "{text}");
    assert!(large.ends_with(" MiB. Since then the fault is gone"), "{text}");
    let woken = lines.next().unwrap();
    assert!(woken.starts_with("   g2: woken. Potential gain: 3.0 % of a CPU."), "{text}");
    assert!(woken.ends_with("the fault remains. Potential gain: 3.0 % of a CPU."), "{text}");
    assert!(text.contains("\n\n1. g2: woken."), "{text}");
    let json = done("2026-11-24 08:00", Format::Json).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["earlier"][0]["since"], serde_json::Value::Null);
    assert_eq!(json["earlier"][1]["since"]["guest"], "g2");
    assert_eq!(json["findings"][0]["guest"], "g2");
    // The farm's last minute ends at 10:01.
    for since in ["2026-11-25 08:00", "2026-11-24 10:00"] {
        let error = done(since, Format::Text).unwrap_err().to_string();
        assert!(error.contains("between --from and --to"), "{since}: {error}");
    }
}

#[test]
fn too_little_history_is_the_reason_for_no_advice() {
    let dir = std::env::temp_dir().join(format!("pinhead-tune-young-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    // Every guest oscillates and is woken, but only for four hours.
    let plant: Plant = |second, _, row, host| {
        row.set(G::OwnPlugs, Some(second / 10));
        row.set(G::OwnUnplugs, Some(second / 10));
        host.set(H::PsiMemorySome, Some(second * 80_000_000));
    };
    record(&dir, plant, Some(("poller", 90)));
    let args = TuneArgs {
        from: Some("2026-11-24".into()),
        to: None,
        since: None,
        enough: "5h".into(),
        format: Format::Text,
        dir: Some(dir.clone()),
    };
    let text = tune(&args, &Sources::default(), &now()).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let found =
        "No suggestions yet: 4 of 4 guests reported for 4 h at most; at least 5 h is needed.\n";
    assert_eq!(text, found);
}

#[test]
fn guest_that_is_gone_gets_no_advice() {
    let dir = std::env::temp_dir().join(format!("pinhead-tune-gone-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    let mut recorder = Recorder::new(&dir, Keep::USUAL);
    // After two hours the guest is restarted with the same name and another UUID. The guest always
    // has twice the memory that it needs.
    for step in 0..=MINUTES * 6 {
        let uuid = if step < MINUTES * 3 { "dead" } else { "alive" };
        let who = GuestIdentity { name: "g2".into(), uuid: uuid.into(), ..Default::default() };
        let mut row = Row::default();
        row.extend([
            (G::Memory, Some(256 * MIB)),
            (G::Actual, Some(256 * MIB)),
            (G::OwnAvailable, Some(150 * MIB)),
            (G::Private, Some(240 * MIB)),
        ]);
        let mut host = Row::default();
        host.set(H::Total, Some(2048 * MIB));
        let at_ms = BEGIN_MS + (step * 10_000).cast_signed();
        let guests = [(who, row)].into();
        assert!(recorder.record(&Moment { at_ms, host, guests, ..Moment::default() }).is_none());
    }
    recorder.close().unwrap();
    let args = TuneArgs {
        from: Some("2026-11-24".into()),
        to: None,
        since: None,
        enough: "1h".into(),
        format: Format::Text,
        dir: Some(dir.clone()),
    };
    let text = tune(&args, &Sources::default(), &now()).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    assert!(text.starts_with("1. g2: too large.") && !text.contains("\n2. "), "{text}");
}

#[test]
fn a_poller_is_named_with_its_guest() {
    let text = farm(
        "woken",
        |second, number, row, _| {
            if number == 2 {
                row.set(G::VcpuDispatches, Some(second * 100));
                row.set(G::VcpuRun, Some(second * 30_000_000));
            }
        },
        Some(("poller", 90)),
    );
    assert!(first(&text).starts_with("1. g2: woken. Potential gain: 3.0 % of a CPU"), "{text}");
    assert!(text.contains("pinhead exec g2 -- pkill -x poller"), "{text}");
    assert!(!text.contains("\n2. "), "{text}");
}

#[test]
fn advice_never_ends_pinheads_own_daemon() {
    let woken: Plant = |second, number, row, _| {
        if number == 2 {
            row.set(G::VcpuDispatches, Some(second * 100));
            row.set(G::VcpuRun, Some(second * 30_000_000));
        }
    };
    for (name, own) in [("daemon", "pinheadd"), ("shell", "pinhead-guest")] {
        let text = farm(name, woken, Some((own, 90)));
        assert!(text.starts_with("No suggestions"), "{own}: {text}");
    }
}

#[test]
fn ksm_that_gains_nothing_is_to_rest() {
    let text = farm(
        "ksm",
        |second, _, _, host| {
            host.set(H::KsmRun, Some(second * 80_000_000));
            host.set(H::KsmSharing, Some(500));
        },
        None,
    );
    assert!(
        first(&text).starts_with("1. the host: KSM gains nothing. Potential gain: 8.0 %"),
        "{text}"
    );
    assert!(text.contains("[ksm] mode = \"off\""), "{text}");
}

#[test]
fn rules_that_undo_what_they_did_are_to_act_less_often() {
    let text = farm(
        "oscillates",
        |second, number, row, _| {
            if number == 4 {
                row.set(G::OwnPlugs, Some(second / 10));
                row.set(G::OwnUnplugs, Some(second / 10));
            }
        },
        None,
    );
    assert!(first(&text).starts_with("1. g4: rules oscillate."), "{text}");
    assert!(text.contains("360") && text.contains("UPDATE"), "{text}");
}

#[test]
fn a_host_that_waits_for_memory_wants_more_of_it_free() {
    let text = farm(
        "set-point",
        |second, _, _, host| host.set(H::PsiMemorySome, Some(second * 80_000_000)),
        None,
    );
    assert!(first(&text).starts_with("1. the host: set point too low."), "{text}");
    assert!(text.contains("[host] set_point = \"400 MiB\""), "{text}");
}

#[test]
fn a_starving_guest_that_could_have_more_gets_a_minimum() {
    let text = farm(
        "starved",
        |second, number, row, _| {
            if number == 1 {
                row.set(G::Actual, Some(100 * MIB));
                row.set(G::OwnAvailable, Some(2 * MIB));
                row.set(G::OwnPsiSome, Some(second * 200_000_000));
            }
        },
        None,
    );
    assert!(
        first(&text).starts_with("1. g1: starved. Potential gain: needs met for another 100.0 %"),
        "{text}"
    );
    assert!(text.contains("pinhead set g1 min \"112 MiB\""), "{text}");
}

#[test]
fn advice_never_stops_kernel_threads() {
    let plant: Plant = |second, number, row, _| {
        if number == 2 {
            row.set(G::VcpuDispatches, Some(second * 100));
            row.set(G::VcpuRun, Some(second * 30_000_000));
        }
    };
    let text = farm("kernel", plant, Some(("rcu_preempt", 90)));
    assert!(text.starts_with("No suggestions"), "{text}");
}
