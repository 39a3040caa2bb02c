//! Tests of cases that take turns, and of a resumed experiment.

use crate::results::{asked, directory, outcome};
use lab::outcome::Machine;
use lab::{Bench, Error, Outcome, catalog, resumed, shelf};
use std::path::Path;

/// Runs two rounds of cases. Each run has one phase, which measures the seed. The experiment ends
/// before the turn with the number `ended_at`, counted from 1. Returns the turns taken.
fn rounds(
    dir: &Path,
    head: Outcome,
    cases: &[&str],
    ended_at: usize,
) -> (Vec<String>, Result<(), Error>) {
    let mut progress = |_: &str| {};
    let mut bench = Bench::new(asked(dir.to_path_buf()), head, catalog::view, &mut progress);
    let mut turns = Vec::new();
    let result = bench.rounds(2, cases, |run| {
        if turns.len() + 1 == ended_at {
            return Err(Error::Interrupted);
        }
        turns.push(format!("{} {}", run.name(), run.round()));
        let seed = run.seed() as f64;
        run.phase("load", |measures| {
            measures.note("seed", "", seed);
            Ok(())
        })?;
        Ok(())
    });
    let saved = bench.save();
    assert!(saved.is_ok(), "{saved:?}");
    (turns, result)
}

#[test]
fn cases_take_turns_and_those_of_a_round_have_one_seed() {
    let dir = directory("turns");
    let (turns, result) = rounds(&dir, outcome(), &["a", "b", "c"], usize::MAX);
    result.unwrap();
    assert_eq!(turns, ["a 1", "b 1", "c 1", "a 2", "b 2", "c 2"]);
    let read = shelf::list(&dir).unwrap().remove(0).1.unwrap();
    let of = |case| read.values(case, "load", "seed");
    assert!(of("a") == of("b") && of("b") == of("c"));
    assert_ne!(of("a")[0].1, of("a")[1].1, "another round, another seed");
    assert!(read.runs.iter().all(|run| run.finished && run.seed.is_some()));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn interrupted_experiment_resumes_without_finished_runs() {
    let dir = directory("resume");
    assert_eq!(resumed(&dir, &outcome()).unwrap(), None, "there is nothing to go on with");
    let (turns, result) = rounds(&dir, outcome(), &["a", "b", "c"], 5);
    assert!(matches!(result, Err(Error::Interrupted)));
    assert_eq!(turns, ["a 1", "b 1", "c 1", "a 2"]);
    let later = Outcome { started: "2026-11-21T18:00:00Z".into(), ..outcome() };
    let head = resumed(&dir, &later).unwrap().unwrap();
    assert_eq!(head.notes, ["Resumed at 2026-11-21T18:00:00Z with 4 finished runs."]);
    let (turns, result) = rounds(&dir, head, &["a", "b", "c"], usize::MAX);
    result.unwrap();
    assert_eq!(turns, ["b 2", "c 2"]);
    let found = shelf::list(&dir).unwrap();
    let [(_, Ok(read))] = found.as_slice() else { panic!("not one file: {found:?}") };
    assert_eq!(read.runs.len(), 6);
    let head = resumed(&dir, &later).unwrap().unwrap();
    assert!(rounds(&dir, head, &["a", "b", "c"], usize::MAX).0.is_empty(), "nothing is left");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn failed_or_cut_run_is_repeated_and_its_failure_is_noted() {
    let dir = directory("again");
    let mut progress = |_: &str| {};
    let mut bench = Bench::new(asked(dir.clone()), outcome(), catalog::view, &mut progress);
    let ended = bench.rounds(1, &["fails", "is cut"], |run| {
        let fails = run.name() == "fails";
        run.phase("load", |measures| {
            measures.note("p95", "s", 9.0);
            if fails { Err(Error::Failed("no answer".into())) } else { Ok(()) }
        })?;
        if fails { Ok(()) } else { Err(Error::Interrupted) }
    });
    assert!(ended.is_err());
    let head = resumed(&dir, &outcome()).unwrap().unwrap();
    let (turns, result) = rounds(&dir, head, &["fails", "is cut"], usize::MAX);
    result.unwrap();
    assert_eq!(turns, ["fails 1", "is cut 1", "fails 2", "is cut 2"]);
    let read = shelf::list(&dir).unwrap().remove(0).1.unwrap();
    assert!(read.values("fails", "load", "p95").is_empty(), "the old figures are gone");
    assert!(
        read.notes
            .contains(&"fails, repetition 1, was run again; load had failed: no answer".to_owned()),
        "{:?}",
        read.notes
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn torn_file_and_foreign_results_are_not_resumed() {
    let dir = directory("torn");
    rounds(&dir, outcome(), &["a"], usize::MAX).1.unwrap();
    let path = shelf::list(&dir).unwrap().remove(0).0;
    let whole = std::fs::read_to_string(&path).unwrap();
    let refused = |fresh: Outcome| resumed(&dir, &fresh).unwrap_err().to_string();
    let name = path.display().to_string();

    let error = refused(Outcome { program: Some("0123".into()), ..outcome() });
    assert!(error.contains("another build of the program"), "{error}");
    let error = refused(Outcome { commit: Some("def".into()), ..outcome() });
    assert!(error.starts_with(&format!("{name} cannot be resumed: ")), "{error}");
    assert!(
        error.contains("begun with a program of commit abc, but this program is of commit def")
    );
    let machine = Machine { cpus: 64, ..outcome().machine };
    let error = refused(Outcome { machine, ..outcome() });
    assert!(error.contains("another machine"), "{error}");

    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = refused(outcome());
    assert!(error.contains("EOF while parsing") && error.contains("line"), "{error}");
    assert!(error.contains("omit `--resume`, or move this file away"), "{error}");

    let old = whole.replace("\"format\": 2", "\"format\": 1");
    std::fs::write(&path, old).unwrap();
    let error = refused(outcome());
    assert!(error.contains("its old layout 1 does not mark finished runs"), "{error}");

    // Results of the quick form, or of another experiment, are not resumed.
    assert_eq!(resumed(&dir, &Outcome { quick: true, ..outcome() }).unwrap(), None);
    let other = Outcome { experiment: "other".into(), ..outcome() };
    assert_eq!(resumed(&dir, &other).unwrap(), None);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn figures_of_other_settings_are_not_mixed() {
    let dir = directory("settings");
    let mut progress = |_: &str| {};
    let mut bench = Bench::new(asked(dir.clone()), outcome(), catalog::view, &mut progress);
    bench.setting("guests", 6).unwrap();
    bench.save().unwrap();
    let head = resumed(&dir, &outcome()).unwrap().unwrap();
    let mut progress = |_: &str| {};
    let mut bench = Bench::new(asked(dir.clone()), head, catalog::view, &mut progress);
    bench.setting("guests", 6).unwrap();
    let error = bench.setting("guests", 2).unwrap_err().to_string();
    assert!(
        error.starts_with("The result was begun with 6 for \"guests\", but the value is now 2")
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn round_begun_on_other_farms_is_repeated() {
    let dir = directory("open");
    rounds(&dir, outcome(), &["a", "b"], 4).1.unwrap_err();
    let kept = resumed(&dir, &outcome()).unwrap().expect("a result");
    let mut progress = |_: &str| {};
    let mut bench = Bench::new(asked(dir.clone()), kept, catalog::view, &mut progress);
    let runs = |bench: &Bench<'_>| -> Vec<String> {
        let runs = &bench.outcome().runs;
        runs.iter().map(|run| format!("{} {}", run.case, run.repetition)).collect()
    };
    assert_eq!(runs(&bench), ["a 1", "b 1", "a 2"]);
    bench.discard_open_rounds(2, &["a", "b"]);
    assert_eq!(runs(&bench), ["a 1", "b 1"]);
    std::fs::remove_dir_all(dir).unwrap();
}
