use super::*;
use crate::listing::testing::check_widths;
use crate::terminal;
use crate::terminal::testing::on_terminal;
use base::MIB;
use clap::Parser;
use jiff::tz::TimeZone;
use model::{GuestIdentity, Moment, PassGuest, PassInput};
use policy::arbiter::{
    Arbiter, Config, GuestSample, HostSample, Key, Limits, Memory, Mode, PassHost, PassSample,
    Process, RuleVerdicts, Usable,
};
use policy::rivals::Kind;
use std::sync::Arc;
use store::{Decision, Journal, Keep, PassRecorder, Policy, Recorder, Word};
use vm::Scratch;

const BEGIN_MS: i64 = 1_795_500_000_000;
const SECONDS: u64 = 180;

fn now() -> Now {
    Now { ms: BEGIN_MS + 600_000, zone: TimeZone::UTC }
}

fn directory(name: &str) -> Scratch {
    let dir = Scratch::new(name).unwrap();
    std::fs::create_dir(dir.join("recordings")).unwrap();
    dir
}

#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    args: ReplayArgs,
}

fn args(dir: &Scratch, typed: &[&str]) -> ReplayArgs {
    let path = dir.join("recordings").to_string_lossy().into_owned();
    let words = [["pinhead", "--dir", path.as_str()].as_slice(), typed].concat();
    Typed::try_parse_from(words).unwrap().args
}

fn simulation(dir: &Scratch, typed: &[&str]) -> SimulateArgs {
    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        args: SimulateArgs,
    }
    let path = dir.join("recordings").to_string_lossy().into_owned();
    let words = [["pinhead", "--dir", path.as_str()].as_slice(), typed].concat();
    Typed::try_parse_from(words).unwrap().args
}

/// Returns a sample of a guest of 512 MiB with this much available memory.
fn sample(key: u64, available_mib: u64, at_ms: u64) -> GuestSample {
    let size = Bytes::mib(512);
    let memory = Memory {
        at_ms,
        clock_ms: at_ms,
        actual: size,
        free: Some(Bytes::mib(available_mib)),
        available: Some(Bytes::mib(available_mib)),
        ..Memory::default()
    };
    GuestSample {
        key: Key(key),
        limits: Limits {
            min: Bytes::mib(64),
            ordered: false,
            max: size,
            shares: 100,
            mode: Mode::Managed,
        },
        actual: Some(size),
        resident: Some(size),
        doubtful: Bytes::ZERO,
        process: Process::default(),
        swapped: None,
        runs: Some(true),
        memory: Some(memory),
        idle_since_sample: false,
        usable: Usable::Yes,
        request: None,
        asks: false,
        urgent: false,
        deflates_on_oom: true,
    }
}

/// Records three minutes of a host with a memory shortage, and the journal of its decisions. One
/// guest has spare memory, and the other guest has none. `skip` lists passes to leave out.
fn record(dir: &Scratch, skip: &[u64]) {
    record_until(dir, skip, SECONDS);
}

/// Records passes. From pass `end` on, the passes lack the first guest.
fn record_until(dir: &Scratch, skip: &[u64], end: u64) {
    let mut recorder = Recorder::new(&dir.join("recordings"), Keep::USUAL);
    assert!(recorder.record(&Moment { at_ms: BEGIN_MS, ..Moment::default() }).is_none());
    recorder.close().unwrap();
    let mut passes = PassRecorder::new(&dir.join("recordings"), i64::MAX, 1 << 30);
    let mut journal = Journal::open(&dir.join("journal.db")).unwrap();
    let mut arbiter = Arbiter::new();
    let total = Bytes::mib(2048);
    let config = Config::of_host(total);
    for number in 0..SECONDS {
        let (now_ms, at_ms) = (number * 1000, BEGIN_MS + (number * 1000).cast_signed());
        let host = HostSample {
            at_ms: now_ms,
            total,
            available: Bytes::mib(150),
            strained: false,
            page_out: Bytes::ZERO,
        };
        let samples = [sample(1, 400, now_ms), sample(2, 10, now_ms)];
        let mut verdicts = |_, _: &_| RuleVerdicts::default();
        let pass = arbiter.pass(&config, Some(&host), &samples, &mut verdicts, now_ms);
        let who = |key: u64| GuestIdentity {
            name: format!("g{key}"),
            uuid: format!("0000-{key}"),
            ..GuestIdentity::default()
        };
        for decision in pass.decisions.iter().filter(|decision| !decision.goes_on) {
            let row = Decision {
                at_ms,
                policy: Policy::Active,
                action: Word::from(decision.action.told(decision.clause).name()),
                clause: Word::from(decision.clause.name()),
                detail: decision.detail.into(),
                from_bytes: decision.from.0,
                to_bytes: decision.to.0,
                bounds: Vec::new(),
                inputs: Vec::new(),
                acted: true,
            };
            let key = journal.guest(&who(decision.key.0), at_ms).unwrap();
            journal.decision(key, &row).unwrap();
        }
        if skip.contains(&number) {
            continue;
        }
        let kept = PassHost { config, kind: Kind::Pinhead, sample: Some(host), psi_permille: None };
        let is_there = |sample: &GuestSample| sample.key != Key(1) || number < end;
        let guests = samples.into_iter().filter(is_there).map(|sample| {
            let row = PassSample { sample, verdicts: RuleVerdicts::default() }.row();
            (sample.key.0, PassGuest { who: Arc::new(who(sample.key.0)), row })
        });
        let input = PassInput {
            number,
            at_ms,
            now_ms,
            host: kept.row(),
            guests: guests.collect(),
            events: Vec::new(),
        };
        assert!(passes.record(&input).is_none());
    }
    passes.close().unwrap();
}

#[test]
fn replayed_passes_agree_with_the_journal() {
    let dir = directory("same");
    record(&dir, &[]);
    let text = replay(&args(&dir, &[]), &now()).unwrap();
    assert!(text.starts_with("180 passes from 06:00:00 to 06:02:59.\n"), "{text}");
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with("Same decisions as in the journal: "), "{text}");
    assert!(line.contains("(100%)"), "{text}");
    assert!(text.contains("recorded"), "{text}");
    let json = replay(&args(&dir, &["--format", "json"]), &now()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["agreement"]["same"], json["agreement"]["decisions"]);
    assert!(json["agreement"]["moves"].as_u64() > Some(0), "{json}");
    // Two guests of 512 MiB for three minutes.
    let had = json["recorded"]["total"]["had_byte_seconds"].as_f64().unwrap();
    assert_eq!(had, (1024 * MIB * 179) as f64);
}

#[test]
fn missing_passes_are_told() {
    let dir = directory("missing");
    record(&dir, &[7, 8, 100]);
    let text = replay(&args(&dir, &[]), &now()).unwrap();
    assert!(
        text.starts_with("177 passes from 06:00:00 to 06:02:59; 3 passes are missing.\n"),
        "{text}"
    );
}

#[test]
fn another_policy_stands_beside_with_the_place_where_they_part() {
    let dir = directory("other");
    record(&dir, &[]);
    let text = replay(&args(&dir, &["--policy", "none"]), &now()).unwrap();
    assert!(text.contains("\nnone "), "{text}");
    assert!(text.contains("First difference at 06:00:0"), "{text}");
    let none = text.lines().find(|line| line.starts_with("none ")).unwrap();
    let cells: Vec<&str> = none.split_whitespace().collect();
    assert_eq!(cells[5..7], ["0", "0"], "nothing moves: {text}");
    // With twice the memory no guest is short of memory.
    let text = replay(&args(&dir, &["--host", "4 GiB"]), &now()).unwrap();
    let other = text.lines().find(|line| line.starts_with("another host")).unwrap();
    assert!(other.contains("2198"), "150 MiB free and 2 GiB more: {text}");
}

#[test]
fn replays_fit_every_width() {
    let dir = directory("widths");
    record(&dir, &[7, 8, 100]);
    let args = args(&dir, &["--policy", "none"]);
    let source = source(&args.source, USUAL_MS, &now()).unwrap();
    let played = source.play(Change::default(), usize::MAX).unwrap();
    let agreement = agreement(&args, &played).unwrap();
    let world = World { growth_permille: 500, ..World::default() };
    let other = source.play(world.change().unwrap(), usize::MAX).unwrap();
    let other = ("a-policy-with-a-long-name".to_owned(), other);
    let fit = backtest::search(&source, &World::default(), "g1", &|_| ()).unwrap();
    let shown = || {
        let (agreement, format) = (agreement.as_ref(), Format::Text);
        let replayed = show::replay(&played, agreement, Some(&other), format, &now());
        let simulated = show::simulate(&played, &other.1, format, &now());
        [replayed, simulated, show::fit(&fit, "g1", format)].map(Result::unwrap).join("\n")
    };
    check_widths(|width| on_terminal(width, || terminal::fitted_to_stdout(&shown())));
}

#[test]
fn impossible_replay_is_refused_with_remedy() {
    let dir = directory("refused");
    let mut recorder = Recorder::new(&dir.join("recordings"), Keep::USUAL);
    assert!(recorder.record(&Moment { at_ms: BEGIN_MS, ..Moment::default() }).is_none());
    recorder.close().unwrap();
    let refused = |typed: &[&str]| replay(&args(&dir, typed), &now()).unwrap_err().to_string();
    assert!(refused(&[]).contains("This time has no passes"), "{}", refused(&[]));
    let unknown = refused(&["--policy", "proxmux"]);
    assert!(
        unknown.contains("proxmox") && unknown.contains("neither a policy nor a file"),
        "{unknown}"
    );
    let rules = dir.join("rules.toml");
    std::fs::write(dir.join("own.rules"), "MAYGROW=\"1\"\n").unwrap();
    std::fs::write(&rules, "[policy]\nrules = \"own.rules\"\n").unwrap();
    let with_rules = refused(&["--policy", &rules.to_string_lossy()]);
    assert!(with_rules.contains("cannot be replayed"), "{with_rules}");
    assert!(growth("3%") == Ok(30) && growth("2000%").is_err() && growth("3").is_err());
}

#[test]
fn tries_of_a_search_are_counted() {
    let tries = std::cell::Cell::new(0);
    assert_eq!(tried(&tries, 1), "try 1: 1 more guest");
    assert_eq!(tried(&tries, 2), "try 2: 2 more guests");
}

#[test]
fn more_guests_fit_until_a_need_is_not_met() {
    let dir = directory("fit");
    record(&dir, &[]);
    let (from, to) = ("2026-11-24 05:00", "2026-11-24 07:00");
    let simulated = |typed: &[&str]| {
        let typed = [["--from", from, "--to", to].as_slice(), typed].concat();
        simulate_at(&simulation(&dir, &typed), &now())
    };
    let error = simulated(&[]).unwrap_err().to_string();
    assert!(error.contains("No change given"), "{error}");
    let error = simulated(&["--fit", "--like", "web*"]).unwrap_err().to_string();
    assert!(error.contains("No guest web* was recorded"), "{error}");
    let error = simulated(&["--more", "1", "--like", "g11"]).unwrap_err().to_string();
    assert!(error.contains("No guest g11 was recorded in this time; did you mean g1?"), "{error}");
    let error = simulated(&["--fit", "--like", "g1"]).unwrap_err().to_string();
    assert!(error.contains("Passes were recorded for only 2 min 59 s"), "{error}");
    assert!(error.contains("1 h is needed") && error.contains("--enough"), "{error}");
    let fit = ["--fit", "--enough", "2m", "--like", "g1", "--host", "8 GiB"];
    let text = simulated(&fit).unwrap();
    assert!(text.contains(" The limit is the memory of the host: with one more "), "{text}");
    let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
    assert!((8..=60).contains(&count), "{text}");
    // At its maximum, g2 has a need that no host can meet.
    for needy in ["g2", "g*"] {
        let fit = ["--fit", "--enough", "2m", "--like", needy, "--host", "8 GiB"];
        let text = simulated(&fit).unwrap();
        let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
        assert!(count >= 1, "{needy}: {text}");
    }
    let gone = directory("fit-gone");
    record_until(&gone, &[], 90);
    let typed = [["--from", from, "--to", to].as_slice(), &fit].concat();
    let error = simulate_at(&simulation(&gone, &typed), &now()).unwrap_err().to_string();
    assert!(error.contains("No guest g1 ran at the end of this time"), "{error}");
    let text = simulated(&["--more", "3", "--like", "g1"]).unwrap();
    assert!(text.contains("g1+1") && text.contains("g1+3"), "{text}");
    let is_heads = |line: &&str| line.starts_with("POLICY") || line.starts_with("GUEST");
    let heads: Vec<&str> =
        text.lines().filter(is_heads).flat_map(|line| line.split("  ")).collect();
    let heads: Vec<&str> =
        heads.into_iter().map(str::trim).filter(|head| !head.is_empty()).collect();
    let has_unit = |head: &&str| {
        let units = ["GiB·h", "MiB·min", "MiB", "s", "moves"];
        head.rsplit_once(' ').is_some_and(|(_, unit)| units.contains(&unit))
    };
    let bare: Vec<&str> = heads.iter().copied().filter(|head| !has_unit(head)).collect();
    assert_eq!((heads.len(), &bare[..]), (19, &["POLICY", "GUEST", "POLICY"][..]), "{text}");
    let text = simulated(&["--grow", "50%"]).unwrap();
    assert!(text.contains("are not met. g2 lacks most"), "{text}");
}
