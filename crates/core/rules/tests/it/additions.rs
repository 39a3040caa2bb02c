//! pinhead's additions to the language, each only in a file with LANGUAGE="2".

use crate::common::{file, program, value};

const EXTENDED: &str = "LANGUAGE=\"2\"";

/// Checks each expression's value in the extended language, and that the original's language
/// refuses the expression.
fn check(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(value(EXTENDED, expression), *expected, "{expression}");
        let original = value("", expression);
        assert!(original.starts_with("error["), "{expression} without LANGUAGE: {original}");
    }
}

/// Checks expressions that the extended language refuses too.
fn check_refused(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(value(EXTENDED, expression), *expected, "{expression}");
    }
}

#[test]
fn comparisons_with_equality() {
    check(&[
        ("1 <= 1", "true"),
        ("2 <= 1", "false"),
        ("1 >= 1", "true"),
        ("1 >= 2", "false"),
        ("1 == 1.0", "true"),
        ("1 == 2", "false"),
        ("1 != 2", "true"),
        ("1 + 1 == 2 & 3 >= 3", "true"),
        ("!1 == 2", "true"),
        ("(1 == 2) + 1", "error[type] 1 == 2"),
    ]);
}

#[test]
fn pressure_counters() {
    check(&[
        ("psi.cpu.some.avg10", "12.5"),
        ("psi.memory.full.avg60[1]", "12"),
        ("psi.io.some.avg300", "12.5"),
        ("psi.cpu.some.total - psi.cpu.some.total[3]", "1.5"),
        ("psi.cpu.some.avg15", "error[unknown-counter] psi.cpu.some.avg15"),
        ("psi.disk.some.avg10", "error[unknown-counter] psi.disk.some.avg10"),
        ("psi.cpu.some", "error[unknown-counter] psi.cpu.some"),
    ]);
}

#[test]
fn functions_look_back_over_intervals() {
    check(&[
        // nr_dirty reads 7 3 9 5 6 7 ..., newest first.
        ("min(vmstat.nr_dirty, 3)", "3"),
        ("max(vmstat.nr_dirty, 3)", "9"),
        ("avg(vmstat.nr_dirty, 4)", "6"),
        ("min(vmstat.nr_dirty, 1)", "7"),
        ("max(vmstat.nr_dirty[3], 2)", "6"),
        ("delta(vmstat.pgpgin, 5)", "500"),
        ("rate(vmstat.pgpgin, 5)", "50"),
        ("rate(vmstat.pgpgin[2], 1) * 2", "100"),
        ("delta(time, 100)", "200"),
        ("over(vmstat.nr_dirty > 2, 5)", "true"),
        ("over(vmstat.nr_dirty > 3, 2)", "false"),
        ("over(vmstat.nr_dirty > 6, 1)", "true"),
        ("over(user > 99 & idle < 201, 4)", "true"),
        ("!over(user > 100, 2)", "true"),
        ("over(vmstat.nr_dirty > 2, 5) & 1", "true"),
    ]);
}

#[test]
fn functions_say_what_they_need() {
    check_refused(&[
        ("min(user, 3)", "error[type] user"),
        ("avg(meminfo.MemFree + 1, 3)", "error[type] meminfo.MemFree + 1"),
        ("min(time)", "error[syntax] min(time"),
        ("min(time, 0)", "error[syntax] min(time, 0)"),
        ("min(time, 101)", "error[syntax] min(time, 101)"),
        ("delta(time[1], 100)", "error[history] delta(time[1], 100)"),
        ("over(user > 1, 101)", "error[syntax] over(user > 1, 101)"),
        ("over(time[50] > 1, 52)", "error[history] over(time[50] > 1, 52)"),
        ("over(user > 1, 3) + 1", "error[type] over(user > 1, 3)"),
        ("median(time, 3)", "error[unknown-name] median"),
    ]);
}

#[test]
fn the_history_is_as_deep_as_the_functions_look_back() {
    let intervals =
        |expression: &str| program(&file(EXTENDED, &format!("{expression} > 0"))).intervals;
    assert_eq!(intervals("min(vmstat.pgpgin, 5)"), 4);
    assert_eq!(intervals("delta(vmstat.pgpgin, 5)"), 5);
    assert_eq!(intervals("max(vmstat.pgpgin[2], 5)"), 6);
    assert_eq!(program(&file(EXTENDED, "over(user > 1, 5)")).intervals, 5);
    assert_eq!(program(&file(EXTENDED, "over(time[3] > 1, 5)")).intervals, 7);
}

#[test]
fn functions_are_no_reserved_words() {
    let lines = "LANGUAGE=\"2\"\nmin=\"41\"";
    assert_eq!(value(lines, "min + 1"), "42");
    assert_eq!(value("min=\"41\"", "min + 1"), "42");
}

#[test]
fn a_comment_may_end_a_line() {
    let text = "LANGUAGE=\"2\" # the additions\nlow=\"10\" # percent = \"50\"\n";
    assert_eq!(value(text, "low + 1"), "11");
    // In the original's language the value extends to the last quote of the line.
    let original = value("low=\"10\" # percent = \"50\"", "low + 1");
    assert_eq!(original, "error[syntax] \"");
    // A `#` between quotes is text.
    assert_eq!(value("LANGUAGE=\"2\"\nlow=\"10 # 3\"", "low"), "error[syntax] #");
    assert_eq!(value("LANGUAGE=\"2\"\n  # an indented comment = \"x\"\n", "1"), "1");
}

#[test]
fn a_line_may_go_on_in_the_next() {
    let text = "LANGUAGE=\"2\"\nsum=\"1 + \\\n  2 + \\ \n 3\"\n";
    assert_eq!(value(text, "sum"), "6");
    let original = value("sum=\"1 + \\\n2\"", "1");
    assert_eq!(original, "error[quotes] \"");
}

#[test]
fn variables_may_be_defined_further_down() {
    let down = "\"\nlater=\"42";
    assert_eq!(value(EXTENDED, &format!("later + 1{down}")), "43");
    assert_eq!(value("", &format!("later + 1{down}")), "error[used-before-defined] later");
}

#[test]
fn the_language_is_chosen_by_the_first_setting_only() {
    assert_eq!(value("# first\n\nLANGUAGE = \"2\"", "1 >= 1"), "true");
    assert_eq!(value("LANGUAGE=\"1\"", "1 >= 1"), "error[syntax] =");
    assert_eq!(value("LANGUAGE=\"3\"", "1"), "error[language] 3");
    let late = "x=\"1\"\nLANGUAGE=\"2\"";
    assert_eq!(value(late, "1 >= 1"), "error[syntax] =");
    // Below another setting, LANGUAGE is a variable, as in the original.
    assert_eq!(value(late, "LANGUAGE + x"), "3");
}
