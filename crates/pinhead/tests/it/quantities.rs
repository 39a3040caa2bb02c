//! Quantities of options: one grammar for all of them.

use clap::{CommandFactory, Parser};
use pinhead::cli::Cli;

/// A command line with `{}` for the value, and a number without a unit with the value that it
/// means.
type Row = (&'static str, Option<(&'static str, &'static str)>);

const SIZES: [Row; 5] = [
    ("up --memory {}", Some(("300", "300M"))),
    ("reserve {}", Some(("300", "300M"))),
    ("host --budget {}", None),
    ("replay --host {}", None),
    ("simulate --host {}", None),
];
const SPANS: [Row; 20] = [
    ("up --for {}", Some(("90", "1m30s"))),
    ("host --for {}", Some(("90", "1m30s"))),
    ("top --for {}", Some(("90", "1m30s"))),
    ("top --replay x --step {}", Some(("120", "2m"))),
    ("farm-service x --for {}", Some(("90", "1m30s"))),
    ("idle g1 --for {}", Some(("90", "1m30s"))),
    ("exec g1 --timeout {} -- true", Some(("90", "1m30s"))),
    ("reserve 1 --timeout {}", Some(("90", "1m30s"))),
    ("reserve 1 --hold {}", Some(("90", "1m30s"))),
    ("explain x --interval {}", Some(("1500", "1.5s"))),
    ("cache refresh --older-than {}", Some(("3600", "1h"))),
    ("why g1 --last {}", None),
    ("host diff --last {}", None),
    ("fleet --from x --last {}", None),
    ("fleet watch x --every {}", None),
    ("report --interval {}", None),
    ("size --enough {}", None),
    ("tune --enough {}", None),
    ("simulate --enough {}", None),
    ("zvm hypfs --to x --every {}", None),
];
const PERCENTS: [Row; 3] =
    [("size --percentile {}", None), ("size --headroom {}", None), ("simulate --grow {}", None)];

/// Returns the parsed command line as text, or the error's message.
fn parsed(call: &str, value: &str) -> Result<String, String> {
    let words = call.split(' ').map(|word| if word == "{}" { value } else { word });
    let parsed = Cli::try_parse_from(std::iter::once("pinhead").chain(words));
    parsed.map(|cli| format!("{cli:?}")).map_err(|error| error.to_string())
}

fn check(rows: &[Row], same: &[&str], wrong: &[&str]) {
    for (call, bare) in rows {
        for value in same {
            assert!(parsed(call, value).is_ok(), "{call}: {:?}", parsed(call, value));
        }
        for value in wrong {
            assert!(parsed(call, value).is_err(), "{call}: {value}");
        }
        match bare {
            Some((bare, unit)) => assert_eq!(parsed(call, bare), parsed(call, unit), "{call}"),
            None => {
                let refused = parsed(call, "90").expect_err("a number without a unit");
                assert!(refused.contains("no known unit: write"), "{call}: {refused}");
            }
        }
    }
}

#[test]
fn every_size_has_one_grammar() {
    check(&SIZES, &["256M", "256 MiB", "1GiB", "1.5g", "1048576K"], &["1GB", "M", "1X", "", "-1G"]);
    let (call, _) = SIZES[1];
    assert_eq!(parsed(call, "1.5G"), parsed(call, "1536 MiB"));
    for budget in ["50%", "12.5 %"] {
        assert!(parsed("host --budget {}", budget).is_ok(), "{budget}");
    }
}

#[test]
fn every_time_has_one_grammar() {
    let same = ["60s", "2m", "1min", "1 min", "0.5h", "1h30m"];
    check(&SPANS, &same, &["1M", "m", "1 year", "", "-1m"]);
    let (call, _) = SPANS[0];
    assert_eq!(parsed(call, "1h30m"), parsed(call, "90 min"));
}

#[test]
fn every_percentage_has_one_grammar() {
    check(&PERCENTS, &["25%", "12.5 %", "0%", "100%"], &["12.55%", "%", "-1%", "10k"]);
}

#[test]
fn every_option_with_quantity_is_in_the_table() {
    fn options(command: &clap::Command, found: &mut [usize; 3]) {
        for arg in command.get_arguments() {
            let name = arg.get_value_names().and_then(|names| names.first());
            let at =
                ["SIZE", "SPAN", "PERCENT"].iter().position(|it| name.is_some_and(|n| n == it));
            at.into_iter().for_each(|at| found[at] += 1);
            let takes = ["SECONDS", "MS", "MIB"].iter().all(|it| name.is_none_or(|n| n != it));
            assert!(takes, "{}: a quantity has no fixed unit", arg.get_id());
        }
        command.get_subcommands().for_each(|below| options(below, found));
    }
    let mut found = [0; 3];
    options(&Cli::command(), &mut found);
    assert_eq!(found, [SIZES.len(), SPANS.len(), PERCENTS.len()]);
}
