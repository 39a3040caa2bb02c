//! Recorded decisions of the original daemon, repeated by the library.

use flate2::read::MultiGzDecoder;
use pinhead::conform::{Report, run, scenarios};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the path of 300 scenarios that the original daemon decided or rejected.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cpuplugd-decisions.jsonl.gz")
}

fn lines() -> Vec<String> {
    let file = fs::File::open(recorded()).expect("the recorded scenarios are in the tree");
    let mut text = String::new();
    MultiGzDecoder::new(file).read_to_string(&mut text).expect("they are gzipped text");
    text.lines().map(str::to_owned).collect()
}

/// A file of scenarios that is removed with the test.
struct Scenarios(PathBuf);

impl Scenarios {
    fn new(text: &str) -> Scenarios {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-conform-{}-{serial}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("the temporary directory can be written to");
        Scenarios(path)
    }

    fn run(&self) -> Result<Report, String> {
        run(&self.0).map_err(|e| e.to_string())
    }
}

impl Drop for Scenarios {
    fn drop(&mut self) {
        // Leftover files do no harm.
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn all_recorded_decisions_are_decided_again() {
    let report = run(&recorded()).expect("the recorded scenarios can be read");
    assert_eq!(report.differences, Vec::<String>::new());
    assert_eq!((report.agree, report.total), (300, 300));
}

#[test]
fn a_file_need_not_be_packed_and_may_have_empty_lines() {
    let three = lines()[..3].join("\n\n");
    let report = Scenarios::new(&three).run().expect("they are scenarios");
    assert_eq!((report.agree, report.total), (3, 3));
    // "0 of 0 agree" would look like a success.
    let none = Scenarios::new("\n").run().expect_err("there is nothing to agree with");
    assert!(none.contains("contains no scenario"), "{none}");
}

#[test]
fn a_broken_line_is_named_with_its_column() {
    let good = &lines()[0];
    let broken = Scenarios::new(&format!("{good}\n{{\"id\": \"x\", \"config\": 5}}\n"));
    let error = broken.run().expect_err("5 is no rules file");
    let place = format!("{}:2:", broken.0.display());
    let rest = error.strip_prefix(&place).unwrap_or_else(|| panic!("{error} is not at {place}"));
    assert!(rest.starts_with("23: "), "{error}");

    let cut = Scenarios::new(&format!("\n\n{}\n", &good[..good.len() / 2]));
    let error = cut.run().expect_err("half a scenario is none");
    assert!(error.starts_with(&format!("{}:3:", cut.0.display())), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = run(Path::new("/nonexistent/decisions")).expect_err("it is not there");
    assert!(error.to_string().contains("/nonexistent/decisions"), "{error}");
}

#[test]
fn a_wrong_expectation_is_a_disagreement() {
    let all = lines();
    let mut decided = None;
    let mut refused = None;
    for line in &all {
        let scenario: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
        let slot = if scenario["expect"].is_null() { &mut refused } else { &mut decided };
        slot.get_or_insert(scenario);
    }
    let (decided, refused) = (decided.expect("one is decided"), refused.expect("one is refused"));

    let mut more_cpus = decided.clone();
    more_cpus["expect"][1]["online"] = 64.into();
    let mut never_refused = decided.clone();
    never_refused["expect"] = serde_json::Value::Null;
    let mut accepted = refused;
    accepted["expect"] = serde_json::json!([]);
    let text = format!("{more_cpus}\n{decided}\n{never_refused}\n{accepted}\n");

    let report = Scenarios::new(&text).run().expect("they are scenarios");
    assert_eq!((report.agree, report.total, report.differences.len()), (1, 4, 3));
    let [first, second, third] = &report.differences[..] else { panic!("three of them") };
    assert!(first.contains("snapshot 1: expected") && first.contains("64"), "{first}");
    assert!(second.contains("pinhead accepts the rules, but must refuse them"), "{second}");
    assert!(third.contains("pinhead refuses the rules, but cpuplugd runs them"), "{third}");
    assert!(third.contains("error[type]"), "{third}");
}

/// An endless input of blank lines of almost a MiB each.
struct Blank(usize);

impl Read for Blank {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(b' ');
        self.0 += buffer.len();
        if self.0 >= 1_000_000 {
            self.0 = 0;
            buffer[0] = b'\n';
        }
        Ok(buffer.len())
    }
}

#[test]
fn a_line_and_a_text_without_end_are_refused() {
    let path = Path::new("scenarios.jsonl");
    let refused = |text: Box<dyn Read>| scenarios(text, path).unwrap_err().to_string();
    let line = refused(Box::new(std::io::repeat(b'x')));
    assert_eq!(line, "scenarios.jsonl:1:1: The line of a scenario must have at most 1 MiB");
    let text = refused(Box::new(Blank(0)));
    assert!(text.ends_with("The scenarios have more than 256 MiB, unpacked"), "{text}");

    // When packed, 8 MiB without a line end take only some KiB.
    let packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut packed = std::io::BufWriter::with_capacity(1 << 20, packed);
    std::io::copy(&mut std::io::repeat(b'x').take(8 << 20), &mut packed).unwrap();
    let packed = packed.into_inner().unwrap().finish().unwrap();
    let file = Scenarios::new("");
    fs::write(&file.0, packed).unwrap();
    assert!(file.run().unwrap_err().contains("at most 1 MiB"));
}
