//! The diagnostics of a file, their positions and their advice.

use crate::common::{REST, compiled, file, machine, place, places};
use base::Kib;
use model::counters::KernelNames;
use rules::{Diagnostic, Machine, Severity, line_column, one_line};

fn found(text: &str, machine: &Machine) -> Vec<Diagnostic> {
    compiled(text, machine).1
}

/// Returns the diagnostic with that code, which must be the only one with it.
fn only(text: &str, machine: &Machine, code: &str) -> Diagnostic {
    let mut of: Vec<_> = found(text, machine).into_iter().filter(|d| d.code == code).collect();
    assert_eq!(of.len(), 1, "{code}: {of:#?}");
    of.remove(0)
}

#[test]
fn several_mistakes_are_reported_in_one_run() {
    let text = "UPDATE=\"0\"\n\
                a=\"1\"\n\
                \ta=\"2\"\n\
                HOTPLUG = \"(loadavg > 1\"\n\
                HOTUNPLUG=\"idel > 50\"\n\
                CPU_MIN=\"4\"\n\
                CPU_MAX=\"2\"\n\
                CMM_MIN=\"0\"\nCMM_MAX=\"9\"\nCMM_INC=\"a > 1\"\nMEMPLUG=\"1\"\nMEMUNPLUG=\"1\"\n";
    let places = places(text, &found(text, &Machine::default()));
    assert_eq!(
        places,
        [
            "1:9 error[number] 0",
            "3:2 error[defined-twice] a",
            "4:12 error[syntax] (",
            "5:12 error[unknown-name] idel",
            "7:10 error[cpu-bounds] 2",
            "10:10 error[type] a > 1",
        ]
    );
}

#[test]
fn advice_names_what_was_probably_meant() {
    let help = |expression: &str, code: &str| {
        only(&file("spare=\"1\"", expression), &machine(), code).help.unwrap_or_default()
    };
    assert_eq!(help("idel > 1", "unknown-name"), "did you mean `idle`?");
    assert_eq!(help("sapre > 1", "unknown-name"), "did you mean `spare`?");
    assert_eq!(help("total_ticks", "unknown-name"), "write cpustat.total_ticks");
    assert_eq!(help("cpustat.usre", "unknown-counter"), "did you mean `user`?");
    assert_eq!(help("meminfo.Memfree", "unknown-counter"), "did you mean `MemFree`?");
    assert_eq!(
        help("meminfo.Quux", "unknown-counter"),
        "`cat /proc/meminfo` shows the names that it has"
    );
    assert!(help("vmstat.pgsteal_kswap > 1", "unknown-counter").contains("`pgsteal_kswapd`"));
    assert!(help("1 >= 2", "syntax").contains("LANGUAGE=\"2\""));
    assert!(help("1 & 2 && 3", "syntax").contains("a single `&`"));
    assert!(help("max(time, 3)", "unknown-name").contains("LANGUAGE=\"2\""));
    assert!(help("(1", "syntax").contains("`)`"));
    assert!(help("1)", "syntax").contains("`(`"));
}

#[test]
fn a_type_error_says_which_result_is_no_number() {
    let message = |expression: &str| {
        only(&file("LANGUAGE=\"2\"", expression), &Machine::default(), "type").message
    };
    assert_eq!(message("(1 < 2) + 1"), "A comparison is not a number");
    assert_eq!(message("1 - !2"), "A negation with `!` is not a number");
    assert_eq!(message("(1 | 2) * 2"), "The result of `&` or `|` is not a number");
    assert_eq!(message("over(1 < 2, 3) * 2"), "The result of `over` is not a number");
}

#[test]
fn a_type_error_inside_a_variable_is_shown_there() {
    let text = file("cond = \"1 < 2\"", "cond + 1");
    assert_eq!(place(&text, &only(&text, &Machine::default(), "type")), "1:9 error[type] 1 < 2");
}

#[test]
fn lines_and_columns_count_from_one() {
    let text = b"ab\n\ncd";
    let at = |offset| line_column(text, offset);
    assert_eq!([at(0), at(2), at(3), at(4), at(5)], [(1, 1), (1, 3), (2, 1), (3, 1), (3, 2)]);
    assert_eq!(at(999), (3, 3));
    let diagnostic = Diagnostic::warning("syntax", rules::Span::new(4, 5), "It is so").help("do");
    assert_eq!(one_line("f", text, &diagnostic), "f:3:1: warning[syntax]: It is so; do");
}

#[test]
fn a_group_without_all_that_it_needs_is_off() {
    let cpu = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"1\"\nHOTUNPLUG=\"0\"\n";
    let (program, found) = compiled(cpu, &Machine::default());
    let program = program.expect("CPU management is complete");
    assert!(program.cpu.is_some() && program.memory.is_none());
    assert_eq!(
        found[0].message,
        "Memory management is off: CMM_MIN, CMM_MAX, CMM_INC, MEMPLUG, MEMUNPLUG are not set"
    );
    for name in ["CPU_MIN", "CPU_MAX", "HOTPLUG", "HOTUNPLUG"] {
        let text = cpu.replace(name, &format!("not_{name}"));
        let codes: Vec<&str> =
            compiled(&text, &Machine::default()).1.iter().map(|d| d.code).collect();
        assert!(codes.contains(&"nothing-to-do"), "without {name}: {codes:?}");
    }
    for name in ["CMM_MIN", "CMM_MAX", "CMM_INC", "MEMPLUG", "MEMUNPLUG"] {
        let text = file("", "1").replace(name, &format!("not_{name}"));
        let (program, found) = compiled(&text, &Machine::default());
        let program = program.unwrap_or_else(|| panic!("without {name}: {found:?}"));
        assert!(program.cpu.is_some() && program.memory.is_none(), "without {name}");
    }
}

#[test]
fn bounds_that_contradict_each_other() {
    let with = |lines: &str| format!("{}{lines}", file("", "1"));
    let (program, found) = compiled(&with("CMM_MIN=\"2000\"\n"), &Machine::default());
    assert!(program.is_some_and(|p| p.memory.is_none() && p.cpu.is_some()));
    assert!(found[0].message.contains("CMM_MAX 1000 is below CMM_MIN 2000"), "{found:?}");

    let text = with("CPU_MIN=\"3\"\nCPU_MAX=\"2\"\n");
    assert_eq!(only(&text, &Machine::default(), "cpu-bounds").severity, Severity::Error);
    assert_eq!(compiled(&with("CPU_MIN=\"3\"\n"), &Machine::default()).1, []);

    let few = Machine { cpus_usable: Some(2), ..Machine::default() };
    assert_eq!(only(&with("CPU_MIN=\"3\"\n"), &few, "cpu-bounds").severity, Severity::Error);
    // If CPUs are not managed, their number does not matter.
    let (program, _) = compiled(&with("CPU_MIN=\"3\"\nHOTPLUG=\"\"\n"), &few);
    assert!(program.is_some_and(|p| p.cpu.is_none() && p.memory.is_some()));
    // A maximum that no machine reaches means no maximum.
    let (program, _) = compiled(&with("CPU_MAX=\"99999999999\"\n"), &few);
    assert_eq!(program.and_then(|p| p.cpu).map(|c| c.max), Some(u32::MAX));
}

#[test]
fn update_is_asked_for() {
    let text = file("", "1").replace("UPDATE=\"1\"\n", "");
    assert_eq!(only(&text, &Machine::default(), "update").severity, Severity::Error);
}

#[test]
fn a_pool_that_is_not_there_or_too_small() {
    let text = format!("{}CMM_MAX=\"200000\"\n", file("", "1"));
    let none = Machine { pool: Some(false), ..Machine::default() };
    let (program, found) = compiled(&text, &none);
    assert!(program.is_some_and(|p| p.memory.is_none() && p.cpu.is_some()), "{found:?}");
    assert_eq!(only(&text, &none, "no-pool").severity, Severity::Warning);

    let memory = |mib: u64| Machine { memory: Some(Kib(mib * 1024)), ..Machine::default() };
    let warning = only(&text, &memory(512), "cmm-max");
    assert!(place(&text, &warning).ends_with("warning[cmm-max] 200000"), "{warning:?}");
    assert_eq!(found_codes(&text, &memory(1024)), Vec::<&str>::new());
}

fn found_codes(text: &str, machine: &Machine) -> Vec<&'static str> {
    found(text, machine).iter().map(|d| d.code).filter(|c| *c != "overruled").collect()
}

#[test]
fn retired_counters_read_what_counts_the_same_today() {
    let text = file(
        "scans=\"vmstat.pgscan_direct_dma + vmstat.pgscan_direct_normal\"\n\
         then=\"vmstat.pgscan_direct_dma[1] + vmstat.pgscan_direct_normal[1]\"",
        "scans - then > vmstat.pgsteal_normal + vmstat.kswapd_steal",
    );
    let found = found(&text, &machine());
    // Each name is reported once, at its first position, for any number of reads.
    assert_eq!(
        places(&text, &found),
        [
            "1:8 warning[retired-counter] vmstat.pgscan_direct_dma",
            "1:35 warning[retired-counter] vmstat.pgscan_direct_normal",
            "3:25 warning[retired-counter] vmstat.pgsteal_normal",
            "3:49 warning[retired-counter] vmstat.kswapd_steal",
        ]
    );
    assert!(
        found[1].message.ends_with("the rule uses pgscan_direct instead"),
        "{}",
        found[1].message
    );
    assert!(
        found[2].message.ends_with("pgsteal_kswapd + pgsteal_direct instead"),
        "{}",
        found[2].message
    );
    assert!(found[3].message.contains("uses 0"), "{}", found[3].message);
    let read = compiled(&text, &machine()).0.map(|p| p.counters.len());
    assert_eq!(read, Some(3), "pgscan_direct and the two that pgsteal_normal reads");
}

#[test]
fn report_g06_rules_for_kernels_3_4_to_4_7_are_read() {
    let mut machine = machine();
    let names = machine.names.as_mut().expect("names");
    names.vmstat.extend(["allocstall_dma", "allocstall_movable"].map(Into::into));
    let text = file(
        "stolen=\"vmstat.pgsteal_kswapd_normal + vmstat.pgsteal_direct_normal + \
         vmstat.pgsteal_kswapd_dma + vmstat.pgsteal_direct_dma\"",
        "(stolen > 2) | (vmstat.allocstall > vmstat.allocstall[1])",
    );
    let (program, found) = compiled(&text, &machine);
    let told = |name: &str| {
        let name = format!("vmstat.{name};");
        let found = found.iter().find(|d| d.message.contains(&name));
        &found.unwrap_or_else(|| panic!("{name}")).message
    };
    assert!(told("pgsteal_kswapd_normal").ends_with("uses pgsteal_kswapd instead"));
    assert!(told("pgsteal_direct_dma").contains("the rule uses 0"));
    assert!(told("allocstall").ends_with("uses allocstall_dma + allocstall_movable instead"));
    // pgsteal_kswapd, pgsteal_direct, and the counters of `allocstall` for the two zones of this
    // kernel.
    assert_eq!(program.map(|program| program.counters.len()), Some(4));
    // For a kernel without any of these counters there is an error, and no counter counts as 0.
    let names = machine.names.as_mut().expect("names");
    names.vmstat.retain(|name| !name.starts_with("allocstall"));
    let unknown = "This kernel has no `allocstall` in /proc/vmstat";
    assert!(compiled(&text, &machine).1.iter().any(|d| d.message == unknown));
}

#[test]
fn existing_zone_counters_are_used() {
    let mut old = KernelNames::default();
    old.vmstat.extend(["pgscan_direct_dma".into(), "pgscan_direct_normal".into()]);
    let old = Machine { names: Some(old), ..Machine::default() };
    let text = file("", "vmstat.pgscan_direct_dma + vmstat.pgscan_direct_normal > 1");
    let (program, found) = compiled(&text, &old);
    assert_eq!(found, []);
    assert_eq!(program.map(|p| p.counters.len()), Some(2));
    // A counter of a zone that this kernel lacks gets the same warning as a retired counter.
    let text = file("", "vmstat.pgscan_direct_high > 1");
    assert_eq!(found_codes(&text, &old), ["retired-counter"]);
}

#[test]
fn missing_counter_is_refused_only_where_it_is_read() {
    let lacking = format!("HOTPLUG=\"1\"\nCMM_INC=\"meminfo.NoSuch\"\n{REST}");
    assert_eq!(only(&lacking, &machine(), "unknown-counter").severity, Severity::Error);
    let off = lacking.replace("CMM_MAX", "not_max");
    let (program, found) = compiled(&off, &machine());
    assert!(program.is_some_and(|p| p.counters.is_empty()), "{found:?}");
    assert_eq!(only(&off, &machine(), "unknown-counter").severity, Severity::Warning);
    // A counter that both groups read is refused for the active group, and reported once.
    let shared = format!("{REST}v=\"meminfo.NoSuch\"\nHOTPLUG=\"v > 1\"\nCMM_INC=\"v\"\n");
    let shared = shared.replace("CPU_MIN=\"1\"\n", "");
    assert_eq!(only(&shared, &machine(), "group-off").severity, Severity::Warning);
    assert_eq!(only(&shared, &machine(), "unknown-counter").severity, Severity::Error);
    // A type error is reported in all cases, because it does not depend on the machine.
    let wrong = off.replace("meminfo.NoSuch", "1 + (2 > 1)");
    assert_eq!(only(&wrong, &machine(), "type").severity, Severity::Error);
    // Unused variables and overruled rules read no counters.
    let unused = file("spare=\"meminfo.NoSuch\"\nHOTPLUG=\"meminfo.NoSuch\"", "1");
    assert_eq!(found_codes(&unused, &machine()), Vec::<&str>::new());
}

#[test]
fn pressure_is_refused_where_the_kernel_has_none() {
    let text = file("LANGUAGE=\"2\"", "psi.memory.some.avg10 > 5");
    assert_eq!(found(&text, &machine()), []);
    let mut without = machine();
    without.names.as_mut().expect("the test's machine has names").psi = false;
    let error = only(&text, &without, "unknown-counter");
    assert!(error.help.is_some_and(|help| help.contains("psi=1")));
}
