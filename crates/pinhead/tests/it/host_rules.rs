//! Tests of host rules on the command line: checks, explanations, and their text in the manuals.

use model::counters::HostCounter;
use pinhead::check::host_text;
use pinhead::explain::Snapshot;
use rules::FileKind;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

const RULES: &str = "fair=\"guest.actual / 4\"\nSHRINKGUEST=\"guest.cold[1] > fair\"\n\
                     MAYSHRINK=\"guest.pressure < 3\"\nSHRINKSIZE=\"fair / 10\"\n";

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-host-rules-{}-{serial}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("the temporary directory can be written to");
        Dir(dir)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the temporary directory can be written to");
        path
    }

    /// Runs `explain` for rules with a snapshot.
    fn explain(&self, rules: &str, snapshot: &str, format: &str) -> Output {
        let (rules, snapshot) = (self.write("host.rules", rules), self.write("now", snapshot));
        let mut command = pinhead("explain");
        command.arg(rules).arg("--values").arg(snapshot).args(["--format", format]);
        command.output().expect("the binary runs")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // Leftover files do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pinhead(command: &str) -> Command {
    let mut pinhead = Command::new(env!("CARGO_BIN_EXE_pinhead"));
    pinhead.arg(command);
    pinhead
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Returns the exit code of `check`, and the codes of its findings.
fn check(file: &Path, more: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = pinhead("check").args(["--format", "json"]).args(more).arg(file).output();
    let output = output.expect("the binary runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = answer["files"][0]["diagnostics"].as_array().expect("a list");
    let codes = found.iter().filter_map(|d| d["code"].as_str()).map(String::from);
    (output.status.code(), codes.collect())
}

#[test]
fn a_file_is_known_by_its_names_or_by_word() {
    let dir = Dir::new();
    let none: [String; 0] = [];
    assert_eq!(check(&dir.write("good", RULES), &[]), (Some(0), none.to_vec()));
    let wrong = dir.write("wrong", "SHRINKGUEST=\"guest.clod > 1\"\nHOTPLUG=\"1\"\n");
    let (code, found) = check(&wrong, &[]);
    assert_eq!((code, found), (Some(1), vec!["unknown-counter".into(), "wrong-file".into()]));
    let nothing = dir.write("nothing", "x=\"guest.cold\"\n");
    assert_eq!(check(&nothing, &["--host"]), (Some(1), vec!["nothing-to-do".into()]));
    assert!(check(&nothing, &["--no-machine"]).1.contains(&"update".into()));
}

#[test]
fn people_see_each_piece_with_its_value() {
    let snapshot = r#"{"guest.actual": 1024, "guest.cold": [null, 300], "host.ksm": [1, 2]}"#;
    let output = Dir::new().explain(RULES, snapshot, "text");
    let answer = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for line in [
        "  fair = 256\n",
        "  guest.actual = 1024 (MiB: current memory of the guest, by its balloon)\n",
        "  guest.pressure = not known (‰: time in which at least one task of the guest waited for \
         memory)\n",
        "  SHRINKGUEST = TRUE\n",
        "      guest.cold[1] = 300\n",
        "  The guest gives memory: yes, by SHRINKGUEST\n",
        "  The guest needs memory: decided by the arbiter, because GROWGUEST is not \
         set\n",
        "  The guest may be shrunk: held, because MAYSHRINK has no value: guest.pressure is not \
         known now\n",
        "  Size of a step down: 25 MiB, by SHRINKSIZE\n",
    ] {
        assert!(answer.contains(line), "{line:?} is not in\n{answer}");
    }
}

#[test]
fn programs_get_the_same_as_json() {
    let snapshot = r#"{"guest.actual": [1024], "guest.cold": [0, 200.5], "guest.pressure": 0}"#;
    let output = Dir::new().explain(RULES, snapshot, "json");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["rules"][0]["name"], "SHRINKGUEST");
    assert_eq!(answer["rules"][0]["value"], false);
    assert_eq!(answer["rules"][0]["pieces"][0]["value"], 200.5);
    assert_eq!(answer["rules"][1]["value"], true);
    assert_eq!(answer["counters"][0]["name"], "guest.cold");
    assert_eq!(answer["counters"][0]["unit"], "MiB");
    assert_eq!(answer["now"].as_array().map(Vec::len), Some(6));
}

#[test]
fn impossible_explanation_is_refused_in_a_sentence() {
    let dir = Dir::new();
    let output = pinhead("explain").arg(dir.write("host.rules", RULES)).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--values FILE"), "{}", text(&output.stderr));
    let output = dir.explain("SHRINKGUEST=\"guest.clod > 1\"", "{}", "text");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `guest.cold`?"));
    let output = dir.explain(RULES, "{}\u{1b}[2J", "text");
    assert!(
        text(&output.stderr).contains("1:3: this is not valid JSON"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_hostile_snapshot_is_refused_by_what_is_wrong_with_it() {
    let refused = |snapshot: &str| {
        let result = Snapshot::parse("now", snapshot.as_bytes());
        result.expect_err(&snapshot[..snapshot.len().min(80)]).to_string()
    };
    assert!(refused("[]").contains("one JSON object"));
    assert!(refused(r#"{"guest.clod\u001b[2J": 1}"#).contains("`guest.clod\u{fffd}[2J`"));
    assert!(refused(r#"{"guest.cold": "1"}"#).contains("numbers, or null"));
    assert!(refused(r#"{"guest.cold": [[1]]}"#).contains("numbers, or null"));
    assert!(refused(r#"{"guest.cold": [1e999]}"#).contains("not valid JSON"));
    let many = vec!["1"; 102].join(",");
    assert!(refused(&format!("{{\"guest.cold\": [{many}]}}")).contains("more than 101"));
    assert!(refused(&"[".repeat(100_000)).contains("not valid JSON"));
    assert!(refused(&" ".repeat((1 << 20) + 1)).contains("at most 1048576 bytes"));
    let known = Snapshot::parse("now", br#"{"guest.cold": [null, 2], "host.total": 7}"#);
    let known = known.expect("a snapshot");
    let get = |counter, age| known.get(counter, age);
    assert_eq!((get(HostCounter::GuestCold, 0), get(HostCounter::GuestCold, 1)), (None, Some(2.0)));
    assert_eq!((get(HostCounter::HostTotal, 0), get(HostCounter::HostTotal, 1)), (Some(7.0), None));
    assert_eq!(get(HostCounter::GuestFree, 0), None);
}

/// The manuals contain the lines that are generated from the table of counters.
#[test]
fn the_tables_of_counters_are_those_of_the_code() {
    let mut table = String::from("| counter | unit | |\n|---|---|---|\n");
    let mut entries = String::new();
    for counter in HostCounter::ALL {
        let (name, unit, doc) = (counter.name(), counter.unit().name(), counter.doc());
        table += &format!("| `{name}` | {unit} | {doc} |\n");
        let escaped = doc.replace('-', "\\-");
        entries += &format!(".TP\n.B {name}\n{escaped} ({unit})\n");
    }
    let manual = read("docs/rules-language.md");
    let section = manual.split("### Counters of the manager\n").nth(1).expect("the section");
    let start = section.find("| counter").expect("the table");
    let end = section.find("\n\n## ").expect("the end of the section");
    assert_eq!(section[start..end].trim_end(), table.trim_end(), "docs/rules-language.md");
    let page = read("man/pinhead-host-rules.5");
    let counters = page.split(".SH COUNTERS\n").nth(1).and_then(|rest| rest.split(".SH ").next());
    let counters = counters.expect("the section");
    let start = counters.find(".TP").expect("the entries");
    assert_eq!(&counters[start..], entries, "man/pinhead-host-rules.5");
}

#[test]
fn manuals_have_every_name_and_examples_have_no_faults() {
    let manual = read("docs/rules-language.md");
    let page = read("man/pinhead-host-rules.5");
    for name in FileKind::Host.names() {
        assert!(manual.contains(&format!("\n| `{}` | ", name.name())), "{name:?}");
        assert!(page.contains(name.name()), "{name:?}");
    }
    let blocks = manual.split("```").skip(1).step_by(2).map(str::to_owned);
    let mut examples: Vec<String> = blocks.filter(|b| b.contains("SHRINKGUEST=")).collect();
    assert_eq!(examples.len(), 1);
    let of_page = page.split(".SH EXAMPLE\n.nf\n").nth(1).and_then(|rest| rest.split(".fi").next());
    examples.push(of_page.expect("an example").to_owned());
    examples.extend(["packaging/host-mom.rules", "packaging/host-guard.rules"].map(read));
    for text in examples {
        let found = host_text(text.as_bytes());
        assert!(found.is_empty(), "{found:#?}\n{text}");
        assert_eq!(rules::host::recognise(text.as_bytes()), FileKind::Host, "{text}");
    }
}
