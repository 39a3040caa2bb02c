//! Allowed but probably unintended constructs: one example of each, with a correct neighbour.

use crate::common::{REST, file, place};
use rules::{Diagnostic, PRESETS, compile, has_errors, lint, parse};

fn linted(text: &str) -> Vec<Diagnostic> {
    let (file, found) = parse(text.as_bytes());
    let more = compile(&file, &rules::Machine::default()).1;
    assert!(!has_errors(&found) && !has_errors(&more), "{text}\n{found:?}\n{more:?}");
    lint(&file)
}

/// Checks the warnings of HOTPLUG, as `code underlined text`.
fn check(lines: &str, expression: &str, expected: &[&str]) {
    let text = file(lines, expression);
    let found: Vec<String> = linted(&text)
        .iter()
        .map(|d| place(&text, d))
        .map(|p| p.split_once("warning[").map_or(p.clone(), |(_, rest)| rest.replacen(']', "", 1)))
        .collect();
    assert_eq!(found, expected, "{expression}");
}

/// Checks the codes of the memory rules' warnings.
fn check_memory(lines: &str, expected: &[&str]) {
    // The last setting counts.
    let text = format!("{REST}HOTPLUG=\"0\"\nCMM_INC=\"0\"\n{lines}");
    let codes: Vec<&str> = linted(&text).iter().map(|d| d.code).collect();
    assert_eq!(codes, expected, "{lines}");
}

#[test]
fn a_sign_that_takes_more_than_its_neighbour() {
    check("", "idle > -(loadavg) + user", &["precedence -(loadavg) + user"]);
    check("", "idle - -(loadavg) + user > 9", &[]);
    check("", "(-(loadavg) + 1) > -9", &["precedence -(loadavg) + 1"]);
    check("", "(-((loadavg) + 1)) < 0", &["always-true HOTPLUG=\"(-((loadavg) + 1)) < 0"]);
    check("", "!loadavg & idle > 5", &["precedence !loadavg & idle > 5"]);
    check("", "!(loadavg & idle > 5)", &[]);
    check("", "(!loadavg) & idle > 5", &[]);
    check("", "idle > 5 & !loadavg", &[]);
    check("spare=\"-(idle) + user\"", "spare > -5", &["precedence -(idle) + user"]);
}

#[test]
fn stolen_time_that_counts_as_load() {
    check("", "user + steal > 80", &["steal-as-active steal"]);
    check("busy=\"100 - idle + steal\"", "busy > 80", &["steal-as-active steal"]);
    check("", "80 < user + system + steal", &["steal-as-active steal"]);
    check("", "!(user + steal < 80)", &["steal-as-active steal"]);
    check("", "cpustat.steal - cpustat.steal[1] > 5", &["steal-as-active cpustat.steal"]);
    // Steal is correct as idle time, or as a part that lowers the load.
    check("", "idle + steal < 80", &[]);
    check("", "user > 80 & steal < 10", &[]);
    check("", "user - steal > 80", &[]);
}

#[test]
fn a_rule_that_is_decided_before_it_is_asked() {
    check("", "loadavg < 0", &["never-true HOTPLUG=\"loadavg < 0"]);
    check("", "idle > 5 & user < 0", &["never-true HOTPLUG=\"idle > 5 & user < 0"]);
    check("", "onumcpus < 1", &["never-true HOTPLUG=\"onumcpus < 1"]);
    check("", "loadavg < 1 | onumcpus > 0", &["always-true HOTPLUG=\"loadavg < 1 | onumcpus > 0"]);
    check(
        "",
        "vmstat.pgpgin - vmstat.pgpgin[1] < 0",
        &["never-true HOTPLUG=\"vmstat.pgpgin - vmstat.pgpgin[1] < 0"],
    );
    check("", "vmstat.nr_dirty - vmstat.nr_dirty[1] < 0", &[]);
    check("", "vmstat.pgpgin[1] - vmstat.pgpgin < 0", &[]);
    check("", "meminfo.MemTotal - meminfo.MemFree < 0", &[]);
    check("", "loadavg > 0", &[]);
    check("", "onumcpus > 1", &[]);
    // A constant is written on purpose.
    check("", "0", &[]);
    check("", "1", &[]);
}

#[test]
fn a_keyword_of_the_other_group() {
    check("", "freemem > 100", &["other-group freemem"]);
    check("", "swaprate > 1 & apcr > 2", &["other-group swaprate", "other-group apcr"]);
    check("", "meminfo.MemFree > 100", &[]);
    check_memory("MEMPLUG=\"loadavg > 1\"\n", &["other-group"]);
    check_memory("MEMPLUG=\"cpustat.loadavg > 1\"\n", &[]);
    check_memory("MEMPLUG=\"freemem < 10 & swaprate > 5\"\n", &[]);
}

#[test]
fn a_rate_by_the_clock() {
    check(
        "",
        "(vmstat.pgpgin - vmstat.pgpgin[1]) / (time - time[1]) > 5",
        &["per-second time - time[1]"],
    );
    let ticks = "(vmstat.pgpgin - vmstat.pgpgin[1]) / (cpustat.idle - cpustat.idle[1]) > 5";
    check("", ticks, &[]);
}

#[test]
fn steps_of_the_pool() {
    check_memory("CMM_INC=\"500\"\n", &["fixed-inc"]);
    check_memory("CMM_INC=\"meminfo.MemFree / 40\"\n", &["no-dec"]);
    check_memory("CMM_INC=\"meminfo.MemFree / 40\"\nCMM_DEC=\"5000\"\n", &[]);
    check_memory("MEMUNPLUG=\"meminfo.Cached > 5\"\n", &["shared-in-cache"]);
    check_memory("MEMUNPLUG=\"meminfo.Cached - meminfo.Shmem > 5\"\n", &[]);
}

#[test]
fn names_that_the_original_takes_for_its_own() {
    let warned = |line: &str| {
        let (_, found) = parse(format!("{line}\n").as_bytes());
        found.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; ")
    };
    assert!(warned("update_rate=\"1\"").contains("for UPDATE"), "{}", warned("update_rate=\"1\""));
    assert!(warned("HOTPLUG_OLD=\"1\"").contains("for HOTPLUG"));
    assert!(warned("HOTPLUGG=\"1\"").contains("for HOTPLUG"));
    assert!(warned("CMM_MAXX=\"1\"").contains("for CMM_MAX"));
    assert!(warned("CPUMAX=\"1\"").contains("not a setting"));
    assert_eq!(warned("cpumax=\"1\""), "");
    assert_eq!(warned("my_update=\"1\""), "");
}

#[test]
fn the_presets_are_told_only_what_they_deserve() {
    for preset in &PRESETS {
        let codes: Vec<&str> = linted(&preset.text()).iter().map(|d| d.code).collect();
        // The study's preset `memory-1` counts shared memory as cache, and is kept unchanged.
        let deserved: &[&str] = match preset.name {
            "memory-1" => &["shared-in-cache"],
            _ => &[],
        };
        assert_eq!(codes, deserved, "{}", preset.name);
    }
}
