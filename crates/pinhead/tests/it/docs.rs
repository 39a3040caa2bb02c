//! Checks of the documents against pinhead: options, codes, names, numbers, and the tests that
//! promises refer to. If one side changes, a test here fails until the other side follows.

use model::clause::Clause;
use model::counters::CpuField;
use rules::{FileKind, Function, PRESETS};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns every text between backticks, outside of blocks of code.
fn quoted(markdown: &str) -> Vec<&str> {
    let prose = markdown.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

/// Returns the texts between backticks in the first column of a table. The table is between this
/// heading and the next.
fn first_column<'a>(markdown: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let start = markdown.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = &markdown[start + heading.len() + 1..];
    let section = &section[..section.find("\n## ").unwrap_or(section.len())];
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

fn assert_same(what: &str, documented: &BTreeSet<&str>, real: &BTreeSet<&str>) {
    let missing: Vec<_> = real.difference(documented).collect();
    let stale: Vec<_> = documented.difference(real).collect();
    assert!(missing.is_empty() && stale.is_empty(), "{what}: missing {missing:?}, stale {stale:?}");
}

#[test]
fn every_diagnostics_code_is_in_the_manual_and_no_other() {
    let manual = read("docs/rules-language.md");
    let real = rules::CODES.iter().copied().collect();
    assert_same("codes", &first_column(&manual, "## Diagnostics"), &real);
}

#[test]
fn the_manual_knows_every_word_of_the_language() {
    let manual = read("docs/rules-language.md");
    let page = read("man/pinheadd.conf.5");
    let quoted = quoted(&manual).join(" ");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let words: BTreeSet<&str> = quoted.split(|c| !is_word(c)).collect();
    let page: BTreeSet<&str> = page.split(|c| !is_word(c)).collect();
    let settings = FileKind::Guest.names().iter().map(|n| n.name());
    let fields = CpuField::ALL.iter().map(|f| f.name());
    let functions = Function::ALL.iter().map(|f| f.name());
    let keywords = ["loadavg", "runnable_proc", "onumcpus", "freemem", "swaprate", "apcr"];
    for word in settings.chain(fields).chain(functions).chain(keywords) {
        assert!(words.contains(word), "docs/rules-language.md does not know {word}");
        assert!(page.contains(word), "man/pinheadd.conf.5 does not know {word}");
    }
    for preset in &PRESETS {
        assert!(words.contains(preset.name), "no preset {}", preset.name);
    }
}

/// Readers copy the rules files in a document, so these files must have no errors.
#[test]
fn the_manuals_examples_are_without_errors() {
    let manual = read("docs/rules-language.md");
    let page = read("man/pinheadd.conf.5");
    let example = page.split(".nf\n").nth(1).and_then(|rest| rest.split(".fi").next());
    let of_page = example.expect("an example").replace("\\-", "-");
    let blocks = manual.split("```").skip(1).step_by(2);
    let examples: Vec<&str> = blocks.filter(|b| b.contains("UPDATE=")).collect();
    assert_eq!(examples.len(), 2);
    for text in examples.into_iter().chain([of_page.as_str()]) {
        let text = text.trim_start_matches('\n');
        let found = pinhead::check::text(text.as_bytes(), &rules::Machine::default());
        assert!(!rules::has_errors(&found), "{found:#?}\n{text}");
    }
    assert_eq!(read("packaging/pinheadd.conf"), PRESETS[0].text(), "pinhead presets default");
}

/// Reads a manual page without the escapes of its hyphens.
fn page(path: &str) -> String {
    read(path).replace("\\-", "-")
}

/// Returns the long options that a page explains. The options are the words with two hyphens in the
/// page's tagged lines.
fn options(page: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = page.lines().collect();
    let tags = lines.windows(2).filter(|pair| pair[0] == ".TP").map(|pair| pair[1]);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = tags.flat_map(|tag| tag.split(move |c| !is_word(c)));
    words.filter(|word| word.starts_with("--")).collect()
}

/// The page has a section of its own for the clauses of decisions, with the meaning of each.
#[test]
fn the_page_of_pinhead_has_every_clause_with_its_meaning() {
    let page = read("man/pinhead.1");
    let (head, rest) = page.split_once("\n.SH CLAUSES\n").expect("a section of clauses");
    let (intro, rest) = rest.split_once(".TP\n").expect("a list");
    let (_, tail) = rest.split_once("\n.SH ").expect("a section after it");
    let row = |clause: &Clause| {
        format!(".TP\n.B {}\n{}\n", clause.name().replace('-', "\\-"), clause.meaning())
    };
    let rows: String = Clause::ALL.iter().map(row).collect();
    let made = format!("{head}\n.SH CLAUSES\n{intro}{rows}.SH {tail}");
    if made != page {
        if std::env::var_os("PINHEAD_WRITE_DOCS").is_none() {
            panic!("CLAUSES in man/pinhead.1 is stale: run this test with PINHEAD_WRITE_DOCS=1");
        }
        std::fs::write(root().join("man/pinhead.1"), made).expect("written");
    }
}

/// The unit starts the manager's command, and the keeper can outlive the manager.
#[test]
fn the_managers_unit_fits_the_manager() {
    let unit = read("packaging/pinhead-host.service");
    for line in ["ExecStart=/usr/bin/pinhead host\n", "KillMode=process\n", "$MAINPID\n"] {
        assert!(unit.contains(line), "packaging/pinhead-host.service: {line}");
    }
    let page = page("man/pinhead.1");
    for place in [manager::config::DEFAULT_PATH, "/var/lib/pinhead/journal.db", "host.sock"] {
        assert!(page.contains(place), "man/pinhead.1 does not know {place}");
    }
}

#[test]
fn the_page_of_the_daemon_has_its_options() {
    let source = read("crates/guest/pinheadd/src/args.rs");
    let flags = source.split("const FLAGS").nth(1).and_then(|rest| rest.split("];").next());
    let flags = flags.expect("the table of options").split("flag(").skip(1);
    let names: Vec<String> =
        flags.filter_map(|flag| Some(format!("--{}", flag.split('"').nth(1)?))).collect();
    assert!(names.len() >= 10, "{names:?}");
    let real = names.iter().map(String::as_str).collect();
    let page = page("man/pinheadd.8");
    assert_same("man/pinheadd.8", &options(&page), &real);
    let unit = read("packaging/pinheadd.service");
    for line in ["Type=notify", "WatchdogSec=", "pinheadd -f -c /etc/pinheadd.conf"] {
        assert!(unit.contains(line), "packaging/pinheadd.service: {line}");
    }
    // The lines of the status file are found in the source that writes them: `name={value}`.
    let writer = read("crates/guest/pinheadd/src/status.rs");
    let before = writer.match_indices("={").map(|(at, _)| &writer[..at]);
    let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
    let keys: Vec<&str> = before.filter_map(|text| text.rsplit(|c| !is_word(c)).next()).collect();
    assert!(keys.len() >= 9, "{keys:?}");
    for key in keys {
        // In the source a line end is written as `\n`. The letter n is not part of the name.
        let key = key.strip_prefix('n').filter(|_| !page.contains(key)).unwrap_or(key);
        assert!(page.contains(key), "man/pinheadd.8 does not know {key}");
    }
}

/// The document contains every key of a farm's file with its default, and no other key.
#[test]
fn the_farms_document_has_its_keys() {
    let text = read("docs/farm.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once("` | ")).collect();
    let mut known = BTreeSet::new();
    for section in farm::config::SECTIONS {
        for key in section.keys {
            let is_documented = |(name, rest): &(&str, &str)| {
                *name == key.name && rest.starts_with(&format!("{} |", key.default))
            };
            assert!(rows.iter().any(is_documented), "docs/farm.md: {} ({})", key.name, key.default);
            known.insert(key.name);
        }
    }
    for image in farm::config::Builtin::ALL {
        assert!(rows.iter().any(|(name, _)| *name == image.name()), "docs/farm.md: {image:?}");
        known.insert(image.name());
    }
    // Verbs of requests to the farm's socket.
    known.extend(manager::control::VERBS);
    known.insert("do");
    let documented: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
    let stale: Vec<_> = documented.difference(&known).collect();
    assert!(stale.is_empty(), "docs/farm.md: {stale:?}");
}

/// Every `crates/x/tests/y.rs::name` in a document is the name of an existing test.
#[test]
fn tests_that_promises_name_exist() {
    for (document, fewest) in [("ARCHITECTURE.md", 30), ("SPECIFICATION.md", 20)] {
        let text = read(document);
        let named: Vec<(&str, &str)> = quoted(&text)
            .into_iter()
            .filter(|piece| piece.starts_with("crates/"))
            .filter_map(|piece| piece.split_once("::"))
            .collect();
        assert!(named.len() >= fewest, "{document} names {} tests", named.len());
        for test in named {
            assert!(is_test(test), "{document}: there is no test {test:?}");
        }
    }
}

/// Returns true if a file has a test of this name.
fn is_test((file, test): (&str, &str)) -> bool {
    let source = read(file);
    source.contains(&format!("#[test]\nfn {test}("))
        || source.contains(&format!("#[test]\n    fn {test}("))
}

/// Each row in the tables of the first two audits has a test with the row's number in its name.
/// Rows of the later table name their tests.
#[test]
fn each_attack_of_the_security_page_has_a_test_of_its_number() {
    let page = read("docs/security.md");
    let (first, second) = page.split_once("Found in a second audit").expect("two tables");
    let (second, later) = second.split_once("Found in a third").expect("three tables");
    let numbers = |part: &str| -> Vec<u32> {
        let rows = part.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        rows.filter_map(|(first, _)| first.parse().ok()).collect()
    };
    let (first, second) = (numbers(first), numbers(second));
    assert_eq!(first, (1..=16).collect::<Vec<_>>());
    assert!(second.is_sorted_by(|a, b| a < b), "{second:?}");
    let mut sources = String::new();
    let mut pending = vec![root().join("crates")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push_str(&fs::read_to_string(path).expect("a source"));
            }
        }
    }
    let named = |audit: &str, number: &u32| format!("fn finding{audit}_{number:02}_");
    let first = first.iter().map(|number| named("", number));
    for name in first.chain(second.iter().map(|number| named("2", number))) {
        let tests = sources.matches(&format!("#[test]\n{name}")).count()
            + sources.matches(&format!("#[test]\n    {name}")).count();
        assert!(tests > 0, "no test is called {name}…");
    }
    let rows: Vec<&str> = later.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 10, "{rows:?}");
    for row in rows {
        let tests: Vec<_> =
            quoted(row).into_iter().filter_map(|piece| piece.split_once("::")).collect();
        assert!(!tests.is_empty() && tests.into_iter().all(is_test), "{row}");
    }
}

#[test]
fn invariants_are_numbered_in_order() {
    let text = read("ARCHITECTURE.md");
    let (_, rest) = text.split_once("\n## Invariants\n").expect("the invariants");
    let (section, _) = rest.split_once("\n## ").expect("a next section");
    let number = |line: &str| line.split_once(". ")?.0.parse().ok();
    let numbers: Vec<usize> = section.lines().filter_map(number).collect();
    assert!(numbers.len() > 50, "{numbers:?}");
    assert!(numbers.iter().zip(1..).all(|(number, at)| *number == at), "{numbers:?}");
}

#[test]
fn the_code_map_has_every_crate() {
    let map = read("ARCHITECTURE.md");
    let is_crate = |dir: &Path| dir.join("Cargo.toml").exists();
    let below = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let (top, folders): (Vec<_>, Vec<_>) =
        below(&root().join("crates")).into_iter().partition(|dir| is_crate(dir));
    let crates = top.into_iter().chain(folders.iter().flat_map(|folder| below(folder)));
    for dir in crates {
        let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
        let path = dir.strip_prefix(root()).expect("a crate of the workspace").display();
        let in_map = map.contains(&format!("| [`{name}`]({path}/src/"));
        assert!(in_map, "ARCHITECTURE.md has no row for {path}");
    }
}

#[test]
fn the_readme_leads_to_every_document_and_every_packaged_file() {
    let readme = read("README.md");
    let names = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(root().join(dir)).unwrap_or_else(|e| panic!("{dir}: {e}"));
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        names.map(|name| name.expect("a name")).collect()
    };
    for name in names("docs") {
        assert!(readme.contains(&format!("(docs/{name})")), "README.md: docs/{name}");
    }
    let install = read("docs/install.md");
    for name in names("packaging") {
        assert!(install.contains(&format!("`{name}`")), "docs/install.md: packaging/{name}");
    }
}

#[test]
fn make_has_the_targets_that_are_named() {
    let makefile = read("Makefile");
    let mut named = 0;
    for document in ["README.md", "CONTRIBUTING.md", "SPECIFICATION.md", "docs/benchmarks.md"] {
        let text = read(document);
        let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
        let commands = quoted(&text).into_iter().chain(blocks);
        for command in commands.filter_map(|piece| piece.strip_prefix("make ")) {
            let target = command.split([' ', '`']).next().unwrap_or_default();
            let is_there = makefile.lines().any(|l| l.starts_with(&format!("{target}:")));
            assert!(is_there || target == "GROUP", "{document}: no target {target}");
            named += 1;
        }
    }
    assert!(named >= 6, "only {named} targets are named");
}

/// The document contains the protocol's numbers and messages.
#[test]
fn the_protocol_is_as_described() {
    use wire::{Message, ToGuest, ToHost};
    let text = read("docs/protocol.md");
    let rows = |from: &'static str, rows: &'static [wire::Row]| {
        rows.iter()
            .map(move |row| format!("| {} | {} | {from} | {} |", row.kind, row.name, row.body))
    };
    let rows: Vec<String> =
        rows(ToHost::FROM, ToHost::ROWS).chain(rows(ToGuest::FROM, ToGuest::ROWS)).collect();
    let table =
        format!("| kind | message | from | body |\n|---|---|---|---|\n{}\n\n", rows.join("\n"));
    assert!(text.contains(&table), "docs/protocol.md has not this table:\n{table}");
    let mut frame = Vec::new();
    wire::encode(&ToHost::Bye, &mut frame);
    assert!(frame.starts_with(&[0x9D, 0x1E]) && text.contains("magic, 0x9D1E"));
    assert!(text.contains(&format!("| version, {} |", frame[3])));
    let thousands = |n: usize| format!("{},{:03}", n / 1000, n % 1000);
    for number in [wire::MAX_BODY, wire::MAX_CHUNK] {
        assert!(text.contains(&thousands(number)), "docs/protocol.md does not say {number}");
    }
    assert!(text.contains(&format!("`{}`", wire::PORT)));
    assert!(read("SPECIFICATION.md").contains(&thousands(wire::MAX_FRAME)));
}
