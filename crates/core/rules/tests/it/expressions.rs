//! The semantics of expressions: numbers, operators and their order, types, keywords.

use crate::common::value;

/// Checks each expression's value, or the error that refuses it.
fn check(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(value("", expression), *expected, "{expression}");
    }
}

#[test]
fn numbers_are_digits_with_a_fraction_and_an_exponent() {
    check(&[
        ("12", "12"),
        ("007", "7"),
        ("3.", "3"),
        ("0.75", "0.75"),
        ("2.5e-1", "0.25"),
        ("1E+2", "100"),
        ("1 000", "1000"),
        ("1e 2", "100"),
        ("0.1 + 0.2", "0.30000000000000004"),
        (".5", "error[syntax] ."),
        ("0x1F", "error[syntax] x"),
        ("1e", "error[syntax] e"),
        ("1e400", "error[number] 1e400"),
        ("1.5.2", "error[syntax] ."),
    ]);
}

#[test]
fn operators_bind_in_five_levels_and_group_to_the_left() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("10 - 4 - 3", "3"),
        ("64 / 4 / 2", "8"),
        ("2 * 3 / 4 * 2", "3"),
        ("(1 + 2) * 3", "9"),
        ("1 + 1 < 3", "true"),
        ("3 < 1 + 1", "false"),
        ("1 | 0 & 0", "true"),
        ("(1 | 0) & 0", "false"),
        ("1 < 2 & 3 > 4", "false"),
        ("1 < 2 | 3 > 4", "true"),
        ("2 - 1 & 0 | 5", "true"),
    ]);
}

#[test]
fn minus_and_not_take_all_that_binds_tighter_than_their_left() {
    check(&[
        // At the start, or after a parenthesis, no operator is on the left.
        ("-(1) + 2", "-3"),
        ("(-(1) + 2) * 10", "-30"),
        ("-(1) + 2 * 3", "-7"),
        ("5 - -(1) + 2", "8"),
        ("5 * -(1) + 2", "-3"),
        ("5 + -(1) * 2", "3"),
        ("5 + -(2) * 3 + 4", "3"),
        ("-user + 1", "-101"),
        ("--3", "3"),
        ("-(-(3))", "3"),
        ("!1 & 0", "true"),
        ("!(1) & 0", "true"),
        ("(!1) & 0", "false"),
        ("!1 | 1", "false"),
        ("1 | !1 & 0", "true"),
        ("1 & !0 & 0", "false"),
        ("1 & !1 | 1", "true"),
        ("!1 < 2", "false"),
        ("!2 - 2", "true"),
        ("!!5", "true"),
        ("!-(1) + 1", "false"),
        // A minus before a comparison applies to the comparison, and therefore has no value.
        ("-(1) < 2", "error[type] (1) < 2"),
        ("-(1) | 0", "error[type] (1) | 0"),
    ]);
}

#[test]
fn a_minus_before_a_digit_is_its_sign() {
    check(&[
        ("-1 + 2", "1"),
        ("- 1 + 2", "1"),
        ("-1 < 2", "true"),
        ("5 - -1 + 2", "8"),
        ("5--1", "6"),
        ("2 * -3 + 1", "-5"),
        ("-2 * 3", "-6"),
    ]);
}

#[test]
fn a_number_is_true_where_it_is_not_zero() {
    check(&[
        ("0 | 0", "false"),
        ("0.5 & -1", "true"),
        ("!0", "true"),
        ("!0.25", "false"),
        ("user - 100 | 0", "false"),
    ]);
}

#[test]
fn decided_expression_is_not_evaluated_further() {
    check(&[
        ("0 & 1 / 0", "false"),
        ("1 | 1 / 0", "true"),
        ("1 & 1 / 0", "Division by zero"),
        ("0 | 1 / 0", "Division by zero"),
        ("(0 & 1 / 0) | 1", "true"),
        ("1 < 2 | 1 / 0 & 1 / 0", "true"),
    ]);
}

#[test]
fn an_expression_without_a_value_is_a_fault_and_never_a_number() {
    check(&[
        ("1 / 0", "Division by zero"),
        ("0 / 0", "Division by zero"),
        ("1 / (user - 100)", "Division by zero"),
        ("1e308 * 10", "Result too large"),
        ("1e308 + 1e308", "Result too large"),
        ("1 / 1e-300 / 1e-300", "Result too large"),
    ]);
}

#[test]
fn a_truth_value_is_not_a_number() {
    check(&[
        ("(1 < 2) + 3", "error[type] 1 < 2"),
        ("3 * (1 & 2)", "error[type] 1 & 2"),
        ("1 < 2 < 3", "error[type] 1 < 2"),
        ("(1 | 2) > 0", "error[type] 1 | 2"),
        ("1 + !0", "error[type] !0"),
        ("1 < !0", "error[type] !0"),
        ("-(1 > 2)", "error[type] 1 > 2"),
        ("-!1", "error[type] !1"),
        ("((1) < (2)) + 3", "error[type] (1) < (2)"),
        ("1 < 2 & (3 < 4) - 1", "error[type] 3 < 4"),
        // The operand is never evaluated, but refused nevertheless.
        ("0 & (1 < 2) + 3", "error[type] 1 < 2"),
        ("(1 < 2) & (3 > 4) | !(5 > 6)", "true"),
    ]);
}

#[test]
fn keywords_are_derived_from_two_readings() {
    check(&[
        ("loadavg", "1.5"),
        ("runnable_proc", "3"),
        ("onumcpus", "4"),
        ("user", "100"),
        ("system", "50"),
        ("idle", "200"),
        ("steal", "50"),
        ("nice + iowait + irq + softirq + guest + guest_nice", "0"),
        ("freemem", "100"),
        ("swaprate", "3"),
        ("apcr", "80"),
        ("time", "1000"),
        ("users", "error[unknown-name] users"),
        ("User", "error[unknown-name] User"),
        ("total_ticks", "error[unknown-name] total_ticks"),
        ("idle[1]", "error[syntax] ["),
    ]);
}

#[test]
fn counters_have_a_history() {
    check(&[
        ("cpustat.user", "9000"),
        ("cpustat.user[0]", "9000"),
        ("cpustat.user[3]", "8700"),
        ("cpustat.user [ 3 ]", "8700"),
        ("cpustat.user[007]", "8300"),
        ("cpustat.total_ticks - cpustat.total_ticks[1]", "400"),
        ("cpustat.loadavg[2]", "1"),
        ("cpustat.runnable_proc[5]", "3"),
        ("cpustat.onumcpus[1]", "4"),
        ("time - time[100]", "200"),
        ("time[101]", "error[history] [101]"),
        ("time[99999999999999999999]", "error[history] [99999999999999999999]"),
        ("time[]", "error[syntax] ["),
        ("time[-1]", "error[syntax] ["),
        ("time[1", "error[syntax] [1"),
        ("meminfo.MemFree[2] - meminfo.MemFree", "2048"),
        ("vmstat.pgpgin - vmstat.pgpgin[10]", "1000"),
        ("cpustat.none", "error[unknown-counter] cpustat.none"),
        ("meminfo.", "error[syntax] meminfo."),
        ("meminfo", "error[unknown-name] meminfo"),
    ]);
}

#[test]
fn a_counter_may_have_any_name_that_the_kernel_prints() {
    check(&[
        ("meminfo.Active(anon)", "11"),
        ("meminfo.Active(anon)[1] + 1", "12"),
        ("meminfo.DirectMap1M", "12"),
        ("(meminfo.MemFree)", "102400"),
        ("meminfo.Active(anon", "error[syntax] ("),
        ("vmstat.pgpgin(x)", "error[syntax] ("),
    ]);
}

#[test]
fn a_broken_expression_is_refused_where_it_breaks() {
    check(&[
        ("1 +", "error[syntax] \""),
        ("(1 + 2", "error[syntax] ("),
        ("1 + 2)", "error[syntax] )"),
        ("()", "error[syntax] )"),
        ("1 2 a", "error[syntax] a"),
        ("* 3", "error[syntax] *"),
        ("1 && 2", "error[syntax] &"),
        ("a.b", "error[unknown-name] a"),
        ("1 % 2", "error[syntax] %"),
    ]);
}
