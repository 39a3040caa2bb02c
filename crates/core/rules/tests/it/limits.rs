//! Files that are too large, too deep or circular. Each gets an error quickly, on the stack of a
//! test's thread.

use crate::common::{compiled, file, value};
use model::counters::KernelNames;
use rules::{MAX_FILE, Machine, lint, parse};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Returns the codes of a file's errors, each once.
fn codes(text: &str) -> Vec<&'static str> {
    let (program, found) = compiled(text, &Machine::default());
    let errors = found.iter().filter(|d| d.severity == rules::Severity::Error);
    let mut codes: Vec<&str> = errors.map(|d| d.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(program.is_none(), !codes.is_empty(), "{found:?}");
    codes
}

#[test]
fn parentheses_and_signs_are_bounded() {
    let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(value("", &nested(99)), "1");
    assert_eq!(value("", &nested(100)), "error[too-deep] 1");
    assert_eq!(value("", &nested(900)), "error[too-deep] (");
    assert_eq!(value("", &format!("{}1", "!".repeat(99))), "false");
    assert_eq!(codes(&file("", &"!".repeat(2000))), ["too-deep"]);
    assert_eq!(codes(&file("", &"-".repeat(2000))), ["too-deep"]);
    assert_eq!(codes(&file("", &"(".repeat(2000))), ["too-deep"]);
}

#[test]
fn a_chain_of_operators_is_bounded() {
    let chain = |n: usize| format!("1{}", "+1".repeat(n));
    // All operators that fit into a line of the original.
    assert_eq!(value("", &chain(1000)), "1001");
    let variable = format!("v=\"{}\"\n", chain(600));
    assert_eq!(codes(&file(&variable, &format!("v{}", "+1".repeat(600)))), ["too-deep"]);
    // The operators `&` and `|` keep no more values on the stack than `+`.
    assert_eq!(value("", &format!("1{}", "&1".repeat(1000))), "true");
    assert_eq!(value("", &format!("0{}", "|0".repeat(1000))), "false");
}

#[test]
fn continued_lines_do_not_make_deeper_trees() {
    let chain = "+1\\\n".repeat(100_000);
    let text = file("LANGUAGE=\"2\"", &format!("1{chain}"));
    assert!(text.len() < MAX_FILE);
    assert_eq!(codes(&text), ["too-deep"]);
}

#[test]
fn variables_within_variables_add_up() {
    // Variables fill all of their space, with chains of operators and chains of variables.
    let mut lines = String::from("v0=\"1\"\n");
    for n in 1..60 {
        lines += &format!("v{n}=\"v{}{}\"\n", n - 1, "+1".repeat(28));
    }
    assert_eq!(value(&lines, "v10 + 1"), "282");
    assert_eq!(codes(&file(&lines, "v59 + 1")), ["too-deep"]);
    // The first use is shallow, the second one is too deep.
    let deep = format!("v10 > 0 & v10{} > 0", "+1".repeat(1000));
    assert_eq!(codes(&file(&lines, &deep)), ["too-deep"]);
    let fits = format!("v10 > 0 & v10{} > 0", "+1".repeat(150));
    assert_eq!(value(&lines, &fits), "true");
}

#[test]
fn a_variable_that_needs_its_own_value_is_refused() {
    assert_eq!(value("a=\"a\"", "a"), "error[recursion] a");
    assert_eq!(value("a=\"b + 1\"\nb=\"c * 2\"\nc=\"1 - a\"", "c"), "error[recursion] c");
    assert_eq!(value("LANGUAGE=\"2\"\na=\"over(a > 1, 5)\"", "a"), "error[recursion] a");
    // If no rule uses the variable, it is ignored.
    assert_eq!(value("a=\"a\"", "1"), "1");
}

#[test]
fn chains_of_variables_are_bounded_by_their_room_alone() {
    let chain = |n: usize| {
        let mut lines = String::from("v0=\"1\"\n");
        for n in 1..n {
            lines += &format!("v{n}=\"v{}\"\n", n - 1);
        }
        lines
    };
    assert_eq!(value(&chain(100), "v99"), "1");
    assert_eq!(value(&chain(150), "v149"), "1");
}

#[test]
fn variables_that_double_are_refused_soon() {
    let mut lines = String::from("v0=\"steal + time[1]\"\n");
    for n in 1..60 {
        lines += &format!("v{n}=\"v{0} - v{0}\"\n", n - 1);
    }
    // The rule has 2^59 steps, and the checks of higher layers would visit all of them.
    let text = file(&lines, "v59 > 1");
    assert_eq!(codes(&text), ["too-large"]);
    let (rules, found) = parse(text.as_bytes());
    assert_eq!(found, []);
    assert!(lint(&rules).iter().any(|d| d.code == "steal-as-active"));

    // Truth values double in the same way, and also expressions without steps.
    let both = lines.replace(" - ", " & ");
    assert_eq!(codes(&file(&both, "v59")), ["too-large"]);
    let wrong = both.replace("steal + time[1]", "1 < 2");
    assert_eq!(codes(&file(&wrong, "v59 + 1")), ["type"]);
}

#[test]
fn functions_that_multiply_are_refused() {
    let extended = "LANGUAGE=\"2\"\na=\"over(user > 1 & user > 2 & user > 3 & user > 4, 100)\"";
    assert_eq!(value(extended, "over(user > 1, 2)"), "true");
    let many = vec!["over(user + nice + idle > 1, 100)"; 20].join(" | ");
    assert_eq!(codes(&file("LANGUAGE=\"2\"", &many)), ["too-large"]);
    // The history of expressions that `over` shifts adds up, through variables and nesting.
    let nested = "over(over(over(time > 1, 60), 60), 60)";
    assert_eq!(codes(&file("LANGUAGE=\"2\"", nested)), ["history"]);
    let hidden = "LANGUAGE=\"2\"\na=\"over(time > 1, 60)\"";
    assert_eq!(codes(&file(hidden, "over(a, 60)")), ["history"]);
}

#[test]
fn names_that_nobody_knows_are_soon_refused() {
    // Each lookup compares the name with every other name, so a file must not cause many lookups.
    let variables: String = (0..60).map(|n| format!("{}{n:02}=\"1\"\n", "a".repeat(60))).collect();
    let rule = format!("HOTPLUG=\"{}xxx\"\n", "a".repeat(60));
    let (_, found) = parse(format!("{variables}{}", rule.repeat(13_000)).as_bytes());
    assert_eq!(found.iter().filter(|d| d.code == "unknown-name").count(), 100);

    let name = |n| format!("a_counter_with_a_name_as_long_as_that_{n:03}").into();
    let names = KernelNames { vmstat: (0..200).map(name).collect(), ..KernelNames::default() };
    let machine = Machine { names: Some(names), ..Machine::default() };
    let mut both = String::from("v0=\"vmstat.a_counter_with_a_name_as_long_as_that_xyz\"");
    (1..13).for_each(|n| both += &format!("\nv{n}=\"v{m} + v{m}\"", m = n - 1));
    let (program, found) = compiled(&file(&both, "v12 > 1"), &machine);
    assert!(program.is_none());
    assert_eq!(found.iter().filter(|d| d.code == "unknown-counter").count(), 1, "{found:?}");
}

#[test]
fn a_file_that_is_no_rules_file_is_refused_unread() {
    let found = parse(&vec![b'#'; MAX_FILE + 1]).1;
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["too-large"]);
    let zeros = parse(&vec![0; 10_000]).1;
    assert_eq!(zeros.iter().map(|d| d.code).collect::<Vec<_>>(), ["encoding"]);
    let long = parse(&vec![b'x'; 10_000]).1;
    assert!(long.iter().any(|d| d.code == "line-too-long"), "{long:?}");
}

/// Time limit for any text, on a busy machine and with an unoptimised build. Most texts take some
/// microseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads all these texts, each within the time limit.
fn read_in_time(texts: impl Iterator<Item = Vec<u8>> + Send + 'static) {
    let (done, next) = mpsc::channel();
    let reading = thread::spawn(move || {
        for text in texts {
            let (file, found) = parse(&text);
            assert!(found.iter().all(|d| d.span.start < d.span.end), "{found:?}");
            rules::compile(&file, &Machine::default());
            let beginning = text[..text.len().min(40)].to_vec();
            if done.send(beginning).is_err() {
                return;
            }
        }
    });
    let mut last = Vec::new();
    loop {
        match next.recv_timeout(PATIENCE) {
            Ok(beginning) => last = beginning,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("the text after {:?} takes too long", String::from_utf8_lossy(&last));
            }
        }
    }
    reading.join().expect("each text is read");
}

/// All bytes with a meaning in the language.
const MEANING: &[u8] = b"a_1.[](){}-!<=>+*/&|\"# \t\n\\\0\xff";

#[test]
fn any_bytes_are_read_to_their_end() {
    // Every byte before each byte with a meaning: as a line, as a name and as a value.
    read_in_time((0..=255u8).flat_map(|a| {
        MEANING.iter().map(move |&b| {
            let mut text = vec![a, b, b'\n'];
            text.extend([a, b, b'=', b'"', a, b, b'"', b'\n']);
            text.extend([b"HOTPLUG=\"".as_slice(), &[a, b], b"\"\n"].concat());
            text
        })
    }));
}

#[test]
fn the_longest_files_are_read_in_time() {
    // Files of the maximum size with long lines that repeat one of these pieces.
    let pieces = MEANING.iter().map(|byte| vec![*byte]).chain([
        b"a+".to_vec(),
        b"(1".to_vec(),
        b"!-".to_vec(),
        b"a=\"b\"\n".to_vec(),
        b"a[1]*".to_vec(),
    ]);
    read_in_time(pieces.flat_map(|piece| {
        ["x", "HOTPLUG"].map(|name| {
            let value = piece.repeat(1_000 / piece.len());
            let line = [name.as_bytes(), b"=\"", &value, b"\"\n"].concat();
            line.repeat(MAX_FILE / line.len())
        })
    }));
}
