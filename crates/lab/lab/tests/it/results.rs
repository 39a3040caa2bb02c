//! Results written, read again, shown and compared.

use base::Spread;
use lab::outcome::{FORMAT, Machine, Measure, Phase, Run};
use lab::view::{Bar, Chart, Group, Table};
use lab::{Asked, Bench, Error, Finding, Outcome, View, catalog, shelf};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) fn outcome() -> Outcome {
    Outcome {
        format: FORMAT,
        experiment: "none".into(),
        quick: false,
        command: "pinhead experiment none".into(),
        commit: Some("abc".into()),
        program: None,
        started: "2026-11-21T12:00:00Z".into(),
        seconds: 0.0,
        machine: Machine { processor: "<P/390>".into(), cpus: 1, ..Machine::default() },
        settings: BTreeMap::new(),
        runs: Vec::new(),
        notes: Vec::new(),
    }
}

fn run(case: &str, repetition: u32, phase: Phase) -> Run {
    let phases = vec![phase];
    Run { case: case.into(), repetition, seed: None, finished: false, phases }
}

pub(crate) fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("lab-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

pub(crate) fn asked(out: PathBuf) -> Asked {
    let tools = lab::site::Tools::default();
    Asked {
        quick: false,
        guests: None,
        repetitions: None,
        requests: None,
        sizes: None,
        cases: Vec::new(),
        out,
        tools,
    }
}

#[test]
fn a_phase_that_fails_keeps_what_it_measured() {
    let out = directory("phases");
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    let mut bench = Bench::new(asked(out.clone()), outcome(), catalog::view, &mut progress);
    let done = bench.case("plain", 1).phase("wipe", |measures| {
        measures.note("p99", "s", 0.5);
        Ok(7)
    });
    assert_eq!(done.unwrap(), Some(7));
    let failed: Option<()> = bench
        .case("plain", 1)
        .phase("squeeze", |measures| {
            measures.note("guests", "", 3.0);
            measures.note("nothing", "", f64::NAN);
            Err(Error::Failed("the host went away".into()))
        })
        .unwrap();
    assert_eq!(failed, None);
    let found = shelf::list(&out).unwrap();
    let [(path, Ok(read))] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(read.values("plain", "squeeze", "guests"), [(1, 3.0)]);
    assert_eq!(read.values("plain", "squeeze", "nothing"), []);
    // A run with a failed phase supports no claim, whichever phase failed.
    assert_eq!(read.values("plain", "wipe", "p99"), [(1, 0.5)]);
    assert!(read.spread("plain", "wipe", "p99").is_some());
    assert_eq!(read.interval("plain", "wipe", "p99"), None);
    assert_eq!(read.ratio("plain", "plain", "wipe", "p99"), None);
    assert_eq!(read.failures(), ["plain, repetition 1, squeeze: the host went away"]);
    assert_eq!(read.runs.len(), 1, "the phases of a case are in one run");
    assert!(path.with_extension("html").is_file());
    assert!(lines[1].contains("FAILED: the host went away"), "{lines:?}");
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn only_the_cases_that_were_asked_for() {
    let mut progress = |_: &str| {};
    let cases = vec!["balloon".to_owned()];
    let asked = Asked { cases, ..asked(directory("cases")) };
    let bench = Bench::new(asked, outcome(), catalog::view, &mut progress);
    let all = ["nothing", "balloon", "both"];
    assert_eq!(bench.choose(&all, &["nothing", "both"]).unwrap(), ["balloon"]);
    let error = bench.choose(&["nothing", "both"], &[]).unwrap_err().to_string();
    assert_eq!(error, "There is no case \"balloon\"; the cases are \"nothing\", \"both\"");
    let asked = self::asked(directory("cases"));
    let bench = Bench::new(asked, self::outcome(), catalog::view, &mut progress);
    assert_eq!(bench.choose(&all, &["both", "nothing"]).unwrap(), ["nothing", "both"]);
}

#[test]
fn impossible_case_is_left_out_with_its_reason_once() {
    let mut progress = |_: &str| {};
    let mut bench =
        Bench::new(asked(directory("left-out")), outcome(), catalog::view, &mut progress);
    for _ in 0..2 {
        let left = bench.leave_out(vec!["a", "b"], |case| case == "b", "there is no lever");
        assert_eq!(left, ["a"]);
    }
    assert_eq!(bench.outcome().notes, ["\"b\" is left out: there is no lever."]);
}

#[test]
fn invalid_result_is_refused_with_a_reason() {
    let json = serde_json::to_string(&outcome()).unwrap();
    let error = shelf::parse(json.replace("\"format\":2", "\"format\":9").as_bytes()).unwrap_err();
    assert_eq!(error, "its field `format` is 9, but this program reads 1 to 2");
    let error = shelf::parse(json.replace("\"quick\"", "\"quack\"").as_bytes()).unwrap_err();
    assert!(error.contains("quack") && error.contains("line 1"), "{error}");
    assert!(shelf::parse(b"[1").is_err());
}

#[test]
fn results_of_the_first_layout_are_read_and_shown() {
    let first = r#"{"format":1,"experiment":"swap","quick":false,"command":"experiment swap",
        "commit":"29058ea","started":"2026-11-21T22:50:11Z","seconds":455.0,
        "machine":{"processor":"P/390","cpus":2,"memory_mib":24105,"kernel":"6.1","qemu":"7.2"},
        "settings":{"rounds":"3"},"runs":[{"case":"large guest","repetition":1,"phases":[
            {"name":"the tar runs","seconds":9.5,"measures":[
                {"name":"average","unit":"s","value":0.123}]}]}],"notes":[]}"#;
    let read = shelf::parse(first.as_bytes()).unwrap();
    assert_eq!(read.values("large guest", "the tar runs", "average"), [(1, 0.123)]);
    let view = catalog::view(&read);
    assert!(lab::page(&read, &view).contains("0.123"));
    assert!(!lab::summary(&view.findings).is_empty());
}

#[test]
fn results_in_docs_open_and_documents_name_only_those() {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs"));
    let dir = docs.join("results");
    let mut kept = BTreeSet::new();
    for (path, outcome) in shelf::list(&dir).unwrap() {
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!lab::summary(&catalog::view(&outcome).findings).is_empty());
        let name = shelf::file_name(&outcome);
        assert_eq!(path, dir.join(format!("{name}.json")));
        let page = dir.join(format!("{}.md", outcome.experiment));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(&format!("({name}.json)")), "{} has no {name}", page.display());
        kept.insert(name);
    }
    assert!(kept.len() >= 5, "{kept:?}");
    for dir in [docs, dir.as_path()] {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") {
                for name in names(&std::fs::read_to_string(&path).unwrap()) {
                    assert!(kept.contains(&name), "{} names {name}", path.display());
                }
            }
        }
    }
}

/// Returns the names of results in a document, such as `swap-20261126T201725`.
fn names(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_name = |word: &&str| {
        let Some((experiment, time)) = word.split_once('-') else { return false };
        let is_time = time.len() == 15 && time.as_bytes()[8] == b'T';
        is_time && catalog::ALL.iter().any(|one| one.name == experiment)
    };
    words.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn finding_16_a_pipe_among_results_is_not_waited_for() {
    let dir = directory("fifo");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("x.json");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (told, heard) = std::sync::mpsc::channel();
    let listed = dir.clone();
    std::thread::spawn(move || told.send(shelf::list(&listed).map_err(|e| e.to_string())));
    let found = heard.recv_timeout(std::time::Duration::from_secs(30)).expect("the listing hangs");
    let reasons: Vec<String> =
        found.unwrap().into_iter().map(|(_, one)| one.unwrap_err().to_string()).collect();
    assert!(reasons.len() == 1 && reasons[0].contains("not a regular file"), "{reasons:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_page_stands_alone_and_takes_no_markup_from_a_result() {
    let mut outcome = outcome();
    let measure = Measure { name: "p99".into(), unit: "s".into(), value: 0.25 };
    let phase = Phase { name: "wipe".into(), seconds: 1.0, failed: None, measures: vec![measure] };
    outcome.runs.push(run("<b>", 1, phase));
    let bar = Bar { value: 2.0, spread: Some((1.0, 3.0)) };
    let view = View {
        about: "About <it>".into(),
        findings: vec![
            Finding::at_most("first wipe", Spread::interval([1.26; 6]), 1.5, "x"),
            Finding::at_least("throughput", Spread::interval([98.0; 6]), 99.0, "%"),
            Finding::at_most("<p95>", Spread::interval([98.0; 3]), 99.0, "%"),
            Finding::at_most("later", None, 1.0, "x"),
        ],
        tables: vec![Table {
            title: "T".into(),
            heads: vec!["what".into(), "ours".into()],
            rows: vec![vec!["first".into(), "1 s".into()]],
            note: String::new(),
        }],
        charts: vec![Chart {
            title: "C".into(),
            series: vec!["a".into(), "b".into()],
            groups: vec![Group { name: "g".into(), bars: vec![Some(bar), None] }],
        }],
    };
    let page = lab::page(&outcome, &view);
    for part in ["About &lt;it&gt;", "&lt;b&gt;", "&lt;P/390&gt;", "<svg", "class=\"refuted\""] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<script") && !page.contains("http-equiv=\"refresh"));
    let text = lab::text(&outcome, &view, None);
    assert!(text.contains("shown         first wipe: 1.26 (1.26-1.26) x\n"), "{text}");
    assert!(text.contains("refuted       throughput: 98.0 (98.0-98.0) %\n"), "{text}");
    assert!(
        text.contains("not shown     <p95>: 98.0 (98.0-98.0) % (3 rounds are too few"),
        "{text}"
    );
    assert!(text.contains("not measured  later: not measured\n"), "{text}");
    let paragraph = "Shown: first wipe: 1.26 (1.26-1.26) x. Not shown: <p95>: 98.0 (98.0-98.0) \
                     %, 3 rounds are too few";
    assert!(text.contains(paragraph), "{text}");
    let paragraph = paragraph.replace('<', "&lt;").replace('>', "&gt;");
    assert!(page.contains(&format!("<p>{paragraph}")), "{page}");
}

#[test]
fn two_results_are_compared_measure_by_measure() {
    let with = |value: f64, extra: bool| {
        let mut outcome = outcome();
        let mut measures = vec![Measure { name: "rate".into(), unit: "1/s".into(), value }];
        if extra {
            measures.push(Measure { name: "more".into(), unit: String::new(), value: 1.0 });
        }
        let phase = Phase { name: "load".into(), seconds: 1.0, failed: None, measures };
        outcome.runs.push(run("ours", 1, phase));
        outcome
    };
    let table = lab::compare(&with(100.0, false), &with(150.0, true));
    assert_eq!(table.rows, [["ours: load: rate", "1/s", "100", "150", "1.50", "apart"]]);
    assert_eq!(table.note, "0 measures are only in the first result, 1 only in the second.");
}

#[test]
fn other_result_is_taken_over_once_and_replaces_open_runs() {
    let run = |rate, finished| {
        let (name, unit) = ("rate".to_owned(), "1/s".to_owned());
        let measures = vec![Measure { name, unit, value: rate }];
        let phase = Phase { name: "found".to_owned(), seconds: 1.0, failed: None, measures };
        let (case, phases) = ("search".to_owned(), vec![phase]);
        Run { case, repetition: 1, seed: None, finished, phases }
    };
    let mut head = outcome();
    head.runs = vec![run(1.0, false)];
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());
    let mut bench = Bench::new(asked(directory("taken-over")), head, catalog::view, &mut progress);
    for rate in [2.0, 3.0] {
        bench.take_over(run(rate, true), &outcome());
        assert_eq!(bench.outcome().values("search", "found", "rate"), [(1, 2.0)], "{rate}");
    }
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// Returns the results that the documents contain.
fn published_results() -> Vec<Outcome> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/results");
    let listed = shelf::list(&dir).expect("a directory").into_iter();
    listed.map(|(_, outcome)| outcome.expect("an outcome")).collect()
}

#[test]
fn text_of_a_result_fits_the_width_and_keeps_every_word() {
    let words =
        |text: &str| -> BTreeSet<String> { text.split_whitespace().map(str::to_owned).collect() };
    let check = |whole: String, fitted: String, width: usize| {
        let wide = fitted.lines().find(|line| base::columns(line) > width);
        assert_eq!(wide, None, "{width} columns:\n{fitted}");
        let lost: Vec<_> = words(&whole).difference(&words(&fitted)).cloned().collect();
        assert_eq!(lost, [""; 0], "{width} columns lack words:\n{fitted}");
    };
    let results = published_results();
    assert!(results.len() >= 5, "{}", results.len());
    for outcome in &results {
        let view = catalog::view(outcome);
        let compared = lab::compare(outcome, outcome);
        for width in [60, 80, 120] {
            let text = |width| lab::text(outcome, &view, width);
            check(text(None), text(Some(width)), width);
            check(lab::table(&compared, None), lab::table(&compared, Some(width)), width);
        }
    }
}

#[test]
fn wide_table_is_divided_and_long_notes_stay_whole() {
    let heads = ["Case", "First of all", "Second of all"].map(str::to_owned).to_vec();
    let row = |name: &str| [name, "1 (1-2)", "3 (3-4)"].map(str::to_owned).to_vec();
    let table =
        Table { title: "T".into(), heads, rows: vec![row("a"), row("b")], note: "end".into() };
    let lines = [
        "T",
        "Case  First of all",
        "a          1 (1-2)",
        "b          1 (1-2)",
        "",
        "Case  Second of all",
        "a           3 (3-4)",
        "b           3 (3-4)",
        "end",
    ];
    assert_eq!(lab::table(&table, Some(24)).lines().collect::<Vec<_>>(), lines);
    assert_eq!(lab::table(&table, Some(80)), lab::table(&table, None));
    let long = Table { note: "word ".repeat(300), ..table };
    assert!(lab::table(&long, None).lines().all(|line| line.len() <= 400));
}
