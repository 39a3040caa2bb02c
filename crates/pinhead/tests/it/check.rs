//! `pinhead check` from the command line: exit codes, output, and each finding.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Rules without findings. The tested rule is appended, and replaces an earlier rule of the same
/// name.
const GOOD: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n\
                    HOTPLUG=\"idle < 10\"\nHOTUNPLUG=\"idle > 150\"\n";
const MEMORY: &str = "CMM_MIN=\"0\"\nCMM_MAX=\"50000\"\n\
                      CMM_INC=\"meminfo.MemFree / 40\"\nCMM_DEC=\"5000\"\n\
                      MEMPLUG=\"swaprate > 10\"\n\
                      MEMUNPLUG=\"meminfo.MemFree > meminfo.MemTotal / 10\"\n";

/// A directory with captured kernel files of a guest, and rules next to them.
struct Guest(PathBuf);

impl Guest {
    /// Creates the files of a current kernel with 4 CPUs and 512 MiB.
    fn new() -> Guest {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-check-{}-{serial}", std::process::id());
        let guest = Guest(std::env::temp_dir().join(name));
        guest.write("proc/stat", "cpu  100 10 50 1000 20 5 5 3 2 1\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        guest.write("proc/loadavg", "1.26 1.14 1.01 9/186 25839\n");
        guest.write(
            "proc/meminfo",
            "MemTotal:         524288 kB\nMemFree:           59903 kB\n\
             Cached:            35819 kB\nShmem:             12832 kB\n",
        );
        guest.write(
            "proc/vmstat",
            "pgpgin 584546\npgpgout 145549\npswpin 335996\npswpout 641887\n\
             pgscan_kswapd 559507\npgscan_direct 271743\npgsteal_kswapd 90650\n\
             pgsteal_direct 1200\n",
        );
        for file in ["present", "possible", "online"] {
            guest.write(&format!("sys/devices/system/cpu/{file}"), "0-3\n");
        }
        for cpu in 0..4 {
            guest.write(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "1\n");
        }
        guest
    }

    fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.0.join(relative);
        let parent = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).expect("the temporary directory can be written to");
        fs::write(&path, text).expect("the temporary directory can be written to");
        path
    }

    fn check(&self, rules: &str) -> Answer {
        let file = self.write("rules.conf", rules);
        let output = pinhead()
            .args(["check", "--format", "json", "--root"])
            .arg(&self.0)
            .arg(&file)
            .output()
            .expect("the binary runs");
        Answer::of(output)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Leftover files do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Answer {
    code: Option<i32>,
    file: Value,
}

impl Answer {
    fn of(output: Output) -> Answer {
        let text = String::from_utf8(output.stdout).expect("the answer is text");
        let all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        Answer { code: output.status.code(), file: all["files"][0].clone() }
    }

    fn codes(&self) -> Vec<&str> {
        let found = self.file["diagnostics"].as_array().expect("a list");
        found.iter().filter_map(|d| d["code"].as_str()).collect()
    }

    /// Returns the only finding, which must have this code.
    fn only(&self, code: &str) -> &Value {
        assert_eq!(self.codes(), [code], "{:#}", self.file);
        &self.file["diagnostics"][0]
    }
}

fn pinhead() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pinhead"))
}

/// Returns CPU rules with this HOTPLUG rule. The HOTUNPLUG rule is far apart from the HOTPLUG rule.
fn hotplug(rule: &str) -> String {
    GOOD.replace("idle < 10", rule)
}

#[test]
fn rules_without_fault_have_no_findings() {
    let answer = Guest::new().check(&format!("{GOOD}{MEMORY}"));
    assert_eq!(answer.codes(), Vec::<&str>::new(), "{:#}", answer.file);
    assert_eq!((&answer.file["errors"], &answer.file["warnings"]), (&0.into(), &0.into()));
    assert_eq!(answer.code, Some(0));
}

#[test]
fn warnings_do_not_refuse_and_errors_do() {
    let guest = Guest::new();
    let warned = guest.check(GOOD);
    warned.only("group-off");
    assert_eq!(warned.code, Some(0));
    let refused = guest.check(&format!("{GOOD}{MEMORY}CPU_MIN=\"0\"\n"));
    refused.only("number");
    assert_eq!(refused.code, Some(1));
}

#[test]
fn a_file_that_is_not_there_is_no_finding() {
    let output = pinhead().args(["check", "/nonexistent/rules"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("/nonexistent/rules") && text.contains("presets"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn refused_file_among_several_fails_the_check() {
    let guest = Guest::new();
    let good = guest.write("good.conf", &format!("{GOOD}{MEMORY}"));
    let bad = guest.write("bad.conf", "UPDATE=\"1\n");
    let output = pinhead()
        .args(["check", "--format", "json", "--no-machine"])
        .args([&good, &bad])
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let files = all["files"].as_array().expect("a list");
    assert_eq!(files.len(), 2);
    assert_eq!(files[0]["file"], good.display().to_string());
    assert_eq!((&files[0]["errors"], &files[1]["errors"]), (&0.into(), &2.into()), "{all:#}");
}

#[test]
fn a_finding_has_its_place_its_reason_and_its_advice() {
    let answer = Guest::new().check(&format!("{}{MEMORY}", hotplug("idel < 10")));
    let found = answer.only("unknown-name");
    assert_eq!(found["severity"], "error");
    assert_eq!((&found["line"], &found["column"]), (&4.into(), &10.into()));
    assert_eq!((&found["end_line"], &found["end_column"]), (&4.into(), &14.into()));
    assert_eq!(found["message"], "Nothing is named `idel`");
    assert_eq!(found["help"], "did you mean `idle`?");
    assert!(found["label"].as_str().is_some_and(|label| !label.is_empty()));
    assert_eq!(answer.code, Some(1));
}

#[test]
fn people_see_the_line_underlined() {
    let guest = Guest::new();
    let file = guest.write("rules.conf", &format!("{}{MEMORY}", hotplug("idel < 10")));
    let output = pinhead().arg("check").arg("--no-machine").arg(&file).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("error[unknown-name]: Nothing is named `idel`"), "{text}");
    assert!(text.contains("rules.conf:4:10"), "{text}");
    assert!(text.contains("HOTPLUG=\"idel < 10\""), "{text}");
    assert!(text.contains("^^^^ neither a variable"), "{text}");
    assert!(text.contains("help: did you mean `idle`?"), "{text}");
    assert!(text.ends_with("rules.conf: 1 error, 0 warnings\n"), "{text}");
    assert!(!text.contains('\x1b'), "colours without a terminal: {text}");
}

#[test]
fn a_files_bytes_do_not_reach_the_terminal_as_they_are() {
    let guest = Guest::new();
    let file = guest.write("rules.conf", "HOTPLUG=\"\x1b]0;evil\x07\"\nUPDATE=\"\u{202e}1\"\n");
    for format in ["text", "json"] {
        let arguments = ["check", "--no-machine", "--format", format];
        let output = pinhead().args(arguments).arg(&file).output().expect("the binary runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let obeyed = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
        assert!(!text.contains(obeyed), "{format}: {text:?}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_preset_is_named_by_its_name() {
    let output = pinhead().args(["check", "--no-machine", "default"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(
        (output.status.code(), text.as_str()),
        (Some(0), "<default>: no errors, no warnings\n")
    );
}

#[test]
fn precedence_that_is_not_what_a_reader_expects() {
    let rule = "!loadavg & idle < 10";
    let answer = Guest::new().check(&format!("{}{MEMORY}", hotplug(rule)));
    let found = answer.only("precedence");
    assert_eq!((&found["line"], &found["column"]), (&4.into(), &10.into()));
    assert!(found["help"].as_str().is_some_and(|help| help.contains("(!x) & y")), "{found:#}");
    assert_eq!(answer.code, Some(0));
}

#[test]
fn retired_counters_are_reported_once_each() {
    let rule = "vmstat.pgscan_direct_dma + vmstat.pgscan_direct_normal \
                - vmstat.pgscan_direct_dma[1] - vmstat.pgscan_direct_normal[1] > 5";
    let answer = Guest::new().check(&format!("{GOOD}{MEMORY}MEMPLUG=\"{rule}\"\n"));
    assert_eq!(answer.codes(), ["overruled", "retired-counter", "retired-counter"]);
    let messages = answer.file["diagnostics"].to_string();
    assert!(messages.contains("pgscan_direct_dma; the rule uses 0"), "{messages}");
    assert!(messages.contains("pgscan_direct_normal; the rule uses pgscan_direct"), "{messages}");
    assert_eq!(answer.code, Some(0));
}

#[test]
fn an_unknown_counter_is_refused_with_the_nearest_names() {
    let guest = Guest::new();
    let rules = format!("{GOOD}{MEMORY}").replace("meminfo.MemFree / 40", "meminfo.MemFre / 40");
    let answer = guest.check(&rules);
    let found = answer.only("unknown-counter");
    assert_eq!(found["message"], "This kernel has no `MemFre` in /proc/meminfo");
    assert_eq!(found["help"], "did you mean `MemFree`?");
    assert_eq!(answer.code, Some(1));

    let rules = format!("{GOOD}{MEMORY}").replace("swaprate", "vmstat.pgscan_dirct");
    let answer = guest.check(&rules);
    let help = answer.only("unknown-counter")["help"].as_str().unwrap_or_default();
    assert!(help.contains("`pgscan_direct`"), "{help}");
}

#[test]
fn rules_that_plug_and_unplug_in_turn() {
    let cpus = GOOD.replace("< 10", "< 50").replace("> 150", "> 40");
    let answer = Guest::new().check(&format!("{cpus}{MEMORY}"));
    let found = answer.only("oscillation");
    assert_eq!(found["line"], 5);
    assert!(found["message"].as_str().is_some_and(|m| m.contains("CPUs")), "{found:#}");

    let pool = MEMORY
        .replace("50000", "130000")
        .replace("meminfo.MemFree / 40", "meminfo.MemFree / 5")
        .replace("swaprate > 10", "meminfo.MemFree < meminfo.MemTotal / 9");
    let answer = Guest::new().check(&format!("{GOOD}{pool}"));
    let message = answer.only("oscillation")["message"].as_str().unwrap_or_default();
    assert!(message.contains("of the memory in use"), "{message}");
}

#[test]
fn a_rule_that_can_never_be_true() {
    let answer = Guest::new().check(&format!("{}{MEMORY}", hotplug("loadavg < 0 & idle < 10")));
    let found = answer.only("never-true");
    assert_eq!(found["message"], "HOTPLUG can never be true");
}

#[test]
fn stolen_time_that_counts_as_load() {
    let answer =
        Guest::new().check(&format!("{}{MEMORY}", hotplug("user + steal > 90 * onumcpus")));
    let found = answer.only("steal-as-active");
    assert_eq!((&found["column"], &found["end_column"]), (&17.into(), &22.into()));
}

#[test]
fn a_keyword_of_the_cpu_rules_in_a_memory_rule() {
    let rules = format!("{GOOD}{MEMORY}").replace("swaprate > 10", "iowait > 10");
    let answer = Guest::new().check(&rules);
    let found = answer.only("other-group");
    assert_eq!(found["message"], "`iowait` belongs to the CPU rules");
}

#[test]
fn a_pool_larger_than_the_guest() {
    let guest = Guest::new();
    let rules = format!("{GOOD}{MEMORY}").replace("\"50000\"", "\"131073\"");
    let answer = guest.check(&rules);
    let found = answer.only("cmm-max");
    assert_eq!((&found["severity"], &found["line"]), (&"warning".into(), &7.into()));
    assert!(found["message"].as_str().is_some_and(|m| m.contains("512 MiB")), "{found:#}");
    assert_eq!(guest.check(&rules.replace("131073", "131072")).codes(), Vec::<&str>::new());
}

#[test]
fn more_cpus_than_the_guest_has() {
    let answer = Guest::new().check(&format!("{GOOD}{MEMORY}").replace("MIN=\"1\"", "MIN=\"5\""));
    assert_eq!(answer.only("cpu-bounds")["message"], "CPU_MIN is 5, but only 4 CPUs can be online");
    assert_eq!(answer.code, Some(1));
}

#[test]
fn report_g05_cpus_that_cannot_be_online_do_not_count() {
    let guest = Guest::new();
    guest.write("sys/devices/system/cpu/online", "0\n");
    for cpu in 1..4 {
        guest.write(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "0\n");
        guest.write(&format!("sys/devices/system/cpu/cpu{cpu}/configure"), "0\n");
    }
    let answer = guest.check(&GOOD.replace("CPU_MIN=\"1\"", "CPU_MIN=\"3\""));
    let message = format!("{:#}", answer.file["diagnostics"]);
    assert!(message.contains("CPU_MIN is 3, but only 1 CPU can be online"), "{message}");
    let rules = guest.write("plug.conf", &GOOD.replace("idle < 10", "1"));
    let explain = || {
        let mut command = pinhead();
        command.args(["explain", "--root"]).arg(&guest.0).arg(&rules);
        let output = command.output().expect("the binary runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = explain();
    assert!(said.contains("one CPU more, but 3 CPUs are present and not configured"), "{said}");
    for cpu in 0..4 {
        fs::remove_file(guest.0.join(format!("sys/devices/system/cpu/cpu{cpu}/online")))
            .expect("a file");
    }
    guest.write("sys/devices/system/cpu/cpu0/configure", "1\n");
    for cpu in 1..4 {
        guest.write(&format!("sys/devices/system/cpu/cpu{cpu}/configure"), "1\n");
    }
    let said = explain();
    assert!(said.contains("one CPU more, but no CPU of this guest can be changed"), "{said}");
    // Isolated CPUs do not count as online either.
    guest.write("sys/devices/system/cpu/online", "0-3\n");
    guest.write("sys/devices/system/cpu/isolated", "1-3\n");
    let said = explain();
    assert!(said.contains("HOTPLUG is true, but CPU_MAX is reached"), "{said}");
}
