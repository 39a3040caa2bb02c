//! The layout of a rules file: lines, names, values, settings, variables.

use crate::common::{REST, compiled, places, program, value};
use rules::{Language, Machine, Name, parse};

/// Returns a file that is complete except for the tested lines.
fn complete(lines: &str) -> String {
    format!("{REST}HOTPLUG=\"1\"\nCMM_INC=\"0\"\n{lines}")
}

/// Checks the diagnostics of a file of these lines, as `line:column severity[code] text`.
fn check(lines: &str, expected: &[&str]) {
    let (_, found) = parse(lines.as_bytes());
    assert_eq!(places(lines, &found), expected, "{lines:?}: {found:#?}");
}

#[test]
fn a_line_is_at_most_2048_characters() {
    let line = |length: usize| format!("a=\"{}\"\n", "1".repeat(length - 4));
    check(&line(2048), &[]);
    let long = line(2049);
    check(&long, &["1:2049 error[line-too-long] \""]);
    let comment = format!("#{}\nHOTPLUG=\"(\"\n", "x".repeat(2048));
    check(&comment, &["1:2049 error[line-too-long] x", "2:11 error[syntax] \""]);
}

#[test]
fn a_comment_has_its_sign_in_the_first_column() {
    check("# anything = \"at all\n", &[]);
    check("#\n", &[]);
    check("  # a=\"1\"\n", &["1:3 warning[indented-comment] # a"]);
    check("  # don't\n", &[]);
    check("  # a = b\n", &["1:7 error[quotes] = b"]);
    check("UPDATE=\"1\" # one second\n", &[]);
}

#[test]
fn a_line_without_an_equals_sign_is_ignored() {
    check("\n   \n\t\r\n", &[]);
    check("CPU_MIN \"2\"\n", &["1:1 warning[ignored-line] CPU_MIN \"2\""]);
    let (file, _) = parse(b"CPU_MIN \"2\"\n");
    assert_eq!(file.setting(Name::CpuMin), None);
}

#[test]
fn all_white_space_in_a_line_is_dropped() {
    assert_eq!(value("my var = \" 4 2 \"", "m y v a r"), "42");
    assert_eq!(value("a=\"1\t+\x0b2\"\r", "a\x0c+ 1"), "4");
    let (file, found) = parse(b" C P U _ M I N = \" 1 2 \"\r\n");
    assert_eq!(found, []);
    assert_eq!(file.setting(Name::CpuMin).map(|s| s.value), Some(12));
}

#[test]
fn the_value_stands_between_the_first_and_the_last_quote() {
    let min = |line: &str| parse(line.as_bytes()).0.setting(Name::CpuMin).map(|s| s.value);
    assert_eq!(min("CPU_MIN=\"2\" what follows is ignored\n"), Some(2));
    assert_eq!(min("CPU_MIN=\"2\""), Some(2));
    check("CPU_MIN=2\n", &["1:8 error[quotes] =2"]);
    check("CPU_MIN=\"2\n", &["1:9 error[quotes] \""]);
    check("CPU_MIN=\"2\" \"\n", &["1:10 error[number] 2\""]);
    check("CPU_MIN=x\"2\"\n", &["1:9 warning[ignored-text] x"]);
    check("a=\"b=\"1\"\"\n", &[]);
    let (_, found) = parse(b"CPU_MIN=2\n");
    assert_eq!(found[0].help.as_deref(), Some("write CPU_MIN=\"2\""));
}

#[test]
fn predefined_names_are_case_insensitive() {
    let text = "update=\"1\"\nCpu_Min=\"1\"\ncpu_max=\"0\"\nHotPlug=\"1\"\nhotunplug=\"0\"\n\
                cmm_min=\"2\"\nCMM_max=\"5\"\ncmm_INC=\"3\"\ncmm_dec=\"4\"\nMemPlug=\"0\"\n\
                memunplug=\"0\"\n";
    let program = program(text);
    assert_eq!(program.cpu.map(|cpu| (cpu.min, cpu.max)), Some((1, 0)));
    assert_eq!(program.memory.map(|memory| (memory.min, memory.max)), Some((2, 5)));
}

#[test]
fn settings_are_digits_only() {
    for wrong in ["-1", "1.5", "0x2", "two", "1e3", "+1"] {
        let line = format!("CMM_MAX=\"{wrong}\"\n");
        check(&line, &[&format!("1:10 error[number] {wrong}")]);
    }
    check("CPU_MIN=\"0\"\n", &["1:10 error[number] 0"]);
    check("UPDATE=\"0\"\n", &["1:9 error[number] 0"]);
    check("CPU_MAX=\"0\"\nCMM_MIN=\"0\"\nCMM_MAX=\"0\"\n", &[]);
    check("CMM_MAX=\"99999999999999999999\"\n", &["1:10 error[number] 99999999999999999999"]);
    // The original reads an empty number as 0.
    check("UPDATE=\"\"\n", &["1:1 error[number] UPDATE"]);
    check("CMM_MIN=\"\"\n", &["1:1 warning[empty-number] CMM_MIN"]);
    assert_eq!(parse(b"CPU_MAX=\"\"\n").0.setting(Name::CpuMax).map(|s| s.value), Some(0));
}

#[test]
fn the_last_of_two_settings_counts() {
    let program = program(&complete("CPU_MIN=\"3\"\nCPU_MAX=\"7\"\nHOTPLUG=\"0\"\n"));
    assert_eq!(program.cpu.map(|cpu| (cpu.min, cpu.max)), Some((3, 7)));
    let text = "HOTPLUG=\"1\"\nHOTPLUG=\"0\"\n";
    check(text, &["1:1 warning[overruled] HOTPLUG"]);
    // An overruled rule is still parsed, and its history counts.
    check(
        "HOTPLUG=\"(\"\nHOTPLUG=\"0\"\n",
        &["1:1 warning[overruled] HOTPLUG", "1:11 error[syntax] \""],
    );
    assert_eq!(parse(b"HOTPLUG=\"time[9]\"\nHOTPLUG=\"0\"\n").0.history, 9);
}

#[test]
fn an_empty_rule_counts_as_not_set() {
    let (program, found) = compiled(&complete("HOTPLUG=\"\"\n"), &Machine::default());
    assert!(program.is_some_and(|p| p.cpu.is_none() && p.memory.is_some()), "{found:?}");
    let codes: Vec<&str> = found.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["group-off", "overruled", "empty-rule"]);
}

#[test]
fn variables_have_names_of_letters_digits_and_underscores() {
    check("a_1=\"1\"\n_=\"1\"\n9=\"1\"\n", &[]);
    check("a-b=\"1\"\n", &["1:1 error[name] a-b"]);
    check("=\"1\"\n", &["1:1 error[name] ="]);
    check("gr\u{fc}n=\"1\"\n", &["1:1 error[name] gr\u{fc}n"]);
    let name = |length: usize| format!("{}=\"1\"\n", "n".repeat(length));
    check(&name(128), &[]);
    check(&name(129), &[&format!("1:1 error[name] {}", "n".repeat(129))]);
}

#[test]
fn variables_are_case_sensitive_and_defined_once() {
    assert_eq!(value("a=\"1\"\nA=\"2\"", "a * 10 + A"), "12");
    check("a=\"1\"\na=\"1\"\n", &["2:1 error[defined-twice] a"]);
    for keyword in ["time", "user", "guest_nice", "onumcpus", "freemem", "swaprate", "apcr"] {
        let line = format!("{keyword}=\"1\"\n");
        check(&line, &[&format!("1:1 error[name] {keyword}")]);
    }
    // These words are not keywords. In the original, a family's name ends in a dot, and
    // `total_ticks` has no short form.
    check("meminfo=\"1\"\ntotal_ticks=\"1\"\nusers=\"1\"\nTime=\"1\"\n", &[]);
}

#[test]
fn names_and_values_together_are_at_most_4096_characters() {
    // The original adds two bytes to each pair and two at the ends.
    let lines = |last: usize| {
        let value = |length| "1".repeat(length);
        format!("a=\"{}\"\nb=\"{}\"\nc=\"{}\"\n", value(2000), value(2000), value(last))
    };
    check(&lines(4096 - 4000 - 3 - 6 - 2), &[]);
    check(&lines(4096 - 4000 - 3 - 6 - 1), &["3:1 error[too-many-variables] c"]);
}

#[test]
fn a_variable_is_parsed_at_each_use_as_if_in_parentheses() {
    assert_eq!(value("sum=\"1 + 2\"", "sum * 3"), "9");
    assert_eq!(value("minus=\"-(1) + 2\"", "10 - minus"), "13");
    assert_eq!(value("both=\"1 < 2 & 3 < 4\"", "!both | 1"), "false");
    assert_eq!(value("a=\"2\"\nb=\"a * a\"\nc=\"b * b\"", "c * c"), "256");
    assert_eq!(value("cond=\"1 < 2\"", "cond + 1"), "error[type] 1 < 2");
    assert_eq!(value("cond=\"1 < 2\"", "cond & 1"), "true");
}

#[test]
fn a_variable_stands_before_the_keyword_of_its_name() {
    // `meminfo` is not a keyword, so it may be a variable, and then it hides the counters.
    assert_eq!(value("meminfo=\"1\"", "meminfo + 1"), "2");
    assert_eq!(value("meminfo=\"1\"", "meminfo.MemFree"), "error[syntax] .");
}

#[test]
fn unused_variable_is_never_parsed_and_adds_no_history() {
    let lines = "broken=\"1 + * (\"\ndeep=\"time[77]\"\nfar=\"time[999]\"\n";
    let (file, found) = parse(complete(lines).as_bytes());
    assert_eq!((found.len(), file.history, file.language), (0, 1, Language::Original));
    assert!(file.variables.iter().all(|v| v.expr.is_none()));
    assert_eq!(value(lines, "deep"), "846");
    assert_eq!(value(lines, "broken"), "error[syntax] *");
}

#[test]
fn a_variable_is_known_from_its_own_line_on() {
    assert_eq!(value("", "late\"\nlate=\"1"), "error[used-before-defined] late");
    // The position of the rule that uses the variables counts, not the order of the variables.
    assert_eq!(value("a=\"b + 1\"\nb=\"41\"", "a"), "42");
}
