//! Rules of the host's manager: their counters, their verdicts and their diagnostics.

use crate::common::{self, places};
use model::counters::{History, HostCounter};
use rules::host::{self, HostProgram, HostWords};
use rules::{FaultKind, FileKind, Language, MAX_FILE, Name, Severity, Value, has_errors, lint};

/// Returns the values `age` passes ago of a guest that shrinks by 8 MiB in each pass, and swaps.
fn reading(counter: HostCounter, age: usize) -> f64 {
    let age = age as f64;
    match counter {
        HostCounter::GuestActual => 1024.0,
        HostCounter::GuestUsed => 600.0 + 8.0 * age,
        HostCounter::GuestAvailable => 424.0 - 8.0 * age,
        HostCounter::GuestSwapin => 3.0 + age,
        HostCounter::GuestShares => 0.0,
        HostCounter::HostAvailable => 2048.0,
        HostCounter::HostTotal => 16_384.0,
        // A guest without the daemon reports no pressure.
        HostCounter::GuestPressure => f64::NAN,
        _ => 1.0,
    }
}

fn history(program: &HostProgram) -> History {
    let mut history = program.history();
    for age in (0..=program.intervals).rev() {
        let row: Vec<f64> = program.counters.iter().map(|c| reading(*c, age)).collect();
        history.advance().copy_from_slice(&row);
    }
    history
}

fn program(text: &str) -> HostProgram {
    let (program, found) = host::load(text.as_bytes());
    program.unwrap_or_else(|| panic!("{text}\nis refused: {found:#?}"))
}

fn words(text: &str) -> HostWords {
    let program = program(text);
    program.evaluate(&history(&program))
}

/// Returns all diagnostics of a text, its lints included.
fn found(text: &str) -> Vec<String> {
    let (file, mut found) = host::parse(text.as_bytes());
    if !has_errors(&found) {
        found.extend(lint(&file));
    }
    found.extend(host::compile(&file).1);
    found.sort_by_key(|d| (d.span.start, d.span.end));
    places(text, &found)
}

/// Returns the message of the first error of a rule, and its advice.
fn advice(expression: &str) -> (String, String) {
    let text = format!("SHRINKGUEST=\"{expression}\"");
    let (program, found) = host::load(text.as_bytes());
    assert!(program.is_none(), "{text}");
    let first = found.into_iter().find(|d| d.severity == Severity::Error).expect("an error");
    (format!("{}: {}", first.code, first.message), first.help.unwrap_or_default())
}

#[test]
fn each_rule_is_optional_and_says_its_own() {
    let words = words(
        "low=\"host.available < host.total / 5\"  # of the host\n\
         SHRINKGUEST=\"low & guest.available > 0.2 * guest.actual\"\n\
         growguest=\"low & guest.swapin > 10\"\n\
         SHRINKSIZE=\"guest.actual * 0.05\"\n",
    );
    assert_eq!(words.shrink_guest, Some(Ok(true)));
    assert_eq!(words.grow_guest, Some(Ok(false)));
    assert_eq!((words.may_shrink, words.may_grow, words.grow_mib), (None, None, None));
    assert_eq!(words.shrink_mib, Some(Ok(51)), "51.2 MiB without their fraction");
}

#[test]
fn guards_and_sizes_are_read_too() {
    let words = words("MAYSHRINK=\"!guest.strained\"\nMAYGROW=\"1\"\nGROWSIZE=\"-2.5\"\n");
    assert_eq!((words.may_shrink, words.may_grow), (Some(Ok(false)), Some(Ok(true))));
    assert_eq!(words.grow_mib, Some(Ok(-2)));
    assert_eq!((words.shrink_guest, words.grow_guest, words.shrink_mib), (None, None, None));
}

#[test]
fn the_history_is_that_of_the_passes() {
    let text = "SHRINKGUEST=\"guest.used[3] == 624 & delta(guest.used, 4) == -32\"\n\
                MAYSHRINK=\"over(guest.swapin < 8, 5) & max(guest.swapin, 5) == 7\"\n";
    let program = program(text);
    assert_eq!(program.intervals, 4);
    assert_eq!(program.counters, [HostCounter::GuestUsed, HostCounter::GuestSwapin]);
    let words = program.evaluate(&history(&program));
    assert_eq!((words.shrink_guest, words.may_shrink), (Some(Ok(true)), Some(Ok(true))));
    // A program that uses no past values needs one row.
    assert_eq!(self::program("MAYGROW=\"guest.need > 1\"").intervals, 0);
}

#[test]
fn missing_counter_is_a_fault_of_its_own_rule_only() {
    let text = "SHRINKGUEST=\"guest.pressure < 5\"\n\
                MAYSHRINK=\"guest.swapin > 100 & guest.pressure[2] < 5\"\n\
                GROWSIZE=\"guest.used / guest.shares\"\n";
    let program = program(text);
    let words = program.evaluate(&history(&program));
    let Some(Err(fault)) = words.shrink_guest else { panic!("{words:?}") };
    assert!(matches!(fault.kind, FaultKind::Missing { age: 0, .. }), "{fault:?}");
    assert_eq!(program.reason(&fault), "guest.pressure is not known now");
    assert_eq!(words.may_shrink, Some(Ok(false)), "the first side decides");
    let Some(Err(fault)) = words.grow_mib else { panic!("{words:?}") };
    assert_eq!(program.reason(&fault), "Division by zero");
    // A guest that has just started has no past.
    let mut young = program.history();
    young.advance().fill(1000.0);
    let words = program.evaluate(&young);
    let Some(Err(fault)) = words.may_shrink else { panic!("{words:?}") };
    assert_eq!(program.reason(&fault), "guest.pressure was not known 2 passes ago");
    // With an empty history, no rule has a value.
    let words = program.evaluate(&program.history());
    assert!(matches!(words.shrink_guest, Some(Err(_))));
}

#[test]
fn every_counter_can_be_used() {
    for counter in HostCounter::ALL {
        let text = format!("GROWGUEST=\"{0} > {0}[100]\"", counter.name());
        let program = program(&text);
        assert_eq!((program.counters.as_slice(), program.intervals), (&[*counter][..], 100));
    }
}

#[test]
fn a_file_without_any_of_the_rules_is_refused() {
    for text in ["", "x=\"guest.used\"\n", "# SHRINKGUEST=\"1\"\n", "MAYGROW=\"\"\n"] {
        let (program, found) = host::load(text.as_bytes());
        assert!(program.is_none() && found.iter().any(|d| d.code == "nothing-to-do"), "{text}");
    }
}

#[test]
fn a_misspelt_counter_is_answered_with_the_nearest() {
    let near = |expression: &str| advice(expression).1;
    assert_eq!(near("guest.availabel > 1"), "did you mean `guest.available`?");
    assert_eq!(near("guest.clod > 1"), "did you mean `guest.cold`?");
    assert_eq!(near("avalable > 1"), "did you mean `guest.available` or `host.available`?");
    assert_eq!(near("guest.setpoint > 1"), "did you mean `host.setpoint`?");
    assert_eq!(near("host.Total > 1"), "did you mean `host.total`?");
    assert_eq!(near("available > 1"), "did you mean `guest.available` or `host.available`?");
    assert_eq!(near("swapin > 1"), "did you mean `guest.swapin` or `host.swapin`?");
    assert!(near("host.zzzzzzzzzzz > 1").starts_with("host. has total available setpoint"));
    assert!(near("guest. > 1").starts_with("its counters: actual min max used"));
    assert_eq!(near("zzzzz > 1"), "counters are written guest.NAME or host.NAME");
    assert!(near("guest > 1").starts_with("write `guest.` and one of the names actual min max"));
    assert_eq!(
        advice("guest.wss > 1").0,
        "unknown-counter: There is no `guest.wss`",
        "a short name is near to nothing"
    );
}

#[test]
fn a_guests_own_names_are_refused_with_the_reason() {
    for name in ["meminfo.MemFree", "vmstat.pswpin", "cpustat.idle", "loadavg", "time", "swaprate"]
    {
        let (message, help) = advice(&format!("{name} > 1"));
        assert!(message.contains("is a counter of the guest's kernel"), "{message}");
        assert!(help.contains("guest. and host. counters"), "{help}");
    }
    let (message, help) = advice("rate(guest.used, 5) > 1");
    assert!(message.starts_with("unknown-name: `rate` is not available"), "{message}");
    assert!(help.contains("delta(guest.used, 5)"));
}

#[test]
fn types_and_shapes_are_checked_as_in_a_guests_file() {
    assert!(advice("(guest.used > 1) + 1").0.starts_with("type: A comparison"));
    assert!(advice("min(guest.used + 1, 5) > 1").0.starts_with("type: "));
    assert!(advice("guest.used[101] > 1").0.starts_with("history: "));
    assert!(advice("guest.used[x] > 1").1.contains("guest.available[1]"));
    let advised = advice("min(guest.used) > 1").1;
    assert!(advised.contains("min(guest.available, N)"), "{advised}");
    assert!(advice("guest.used.x > 1").1.contains("guest.NAME"));
    assert!(advice("host.used > guest.used").0.contains("host.used"));
    assert_eq!(found("SHRINKSIZE=\"guest.used > 1\""), ["1:13 error[type] guest.used > 1"]);
    assert_eq!(
        found("guest=\"1\"\nSHRINKGUEST=\"1 > guest.used\"\n"),
        ["1:1 error[name] guest"],
        "a variable must not hide the counters"
    );
}

#[test]
fn names_of_the_other_kind_of_file_are_told() {
    assert_eq!(
        found("SHRINKGUEST=\"guest.cold > 9\"\nHOTPLUG=\"loadavg > 1\"\nupdate=\"1\"\n"),
        ["2:1 error[wrong-file] HOTPLUG", "3:1 error[wrong-file] update"]
    );
    let guest = "SHRINKGUEST=\"1\"\nUPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n\
                 HOTPLUG=\"loadavg > SHRINKGUEST\"\nHOTUNPLUG=\"0\"\nmayGrow=\"2\"\n";
    let (program, found) = common::compiled(guest, &rules::Machine::default());
    let told: Vec<_> = places(guest, &found).into_iter().filter(|p| p.contains("wrong")).collect();
    assert_eq!(told, ["1:1 warning[wrong-file] SHRINKGUEST"]);
    assert!(program.is_some(), "it is a variable there, as it always was");
}

#[test]
fn a_guests_rule_is_told_where_such_counters_are_known() {
    for expression in ["guest.available > 1", "host.available > 1"] {
        let text = common::file("", expression);
        let (program, found) = common::compiled(&text, &rules::Machine::default());
        let help =
            found.iter().find(|d| d.severity == Severity::Error).and_then(|d| d.help.clone());
        assert!(program.is_none());
        assert!(help.is_some_and(|h| h.contains("a host's rules file")), "{found:#?}");
    }
    // In a guest's rules, `guest` is the CPU time of the guest's own guests.
    assert_eq!(common::value("", "guest"), "0");
}

#[test]
fn the_kind_of_a_file_is_seen_by_its_names() {
    let kind = |text: &str| host::recognise(text.as_bytes());
    assert_eq!(kind("MAYSHRINK=\"guest.cold > 9\"\n"), FileKind::Host);
    assert_eq!(kind("maygrow=\"\n\" nonsense"), FileKind::Guest, "a line without its quotes");
    assert_eq!(kind("growsize=\"1\"\nHOTPLUG=\"1\"\n"), FileKind::Host);
    assert_eq!(kind("growsize=\"1\"\nUPDATE=\"1\"\n"), FileKind::Host);
    assert_eq!(kind("growsize=\"1\"\nUPDATE=\"1\"\nHOTPLUG=\"1\"\n"), FileKind::Guest);
    assert_eq!(kind(""), FileKind::Guest);
    for preset in &rules::PRESETS {
        assert_eq!(kind(&preset.text()), FileKind::Guest);
    }
}

#[test]
fn the_additions_are_there_without_a_word() {
    let text = "SHRINKGUEST=\"later >= 2 & \\\n  guest.cold != 0\"\nlater=\"guest.hot + 1\"\n";
    let (file, found) = host::parse(text.as_bytes());
    assert!(found.is_empty(), "{found:?}");
    assert_eq!((file.kind, file.language), (FileKind::Host, Language::Extended));
    assert!(found_codes("LANGUAGE=\"2\"\nMAYGROW=\"guest.need>=1\"\n").is_empty());
    assert_eq!(found_codes("LANGUAGE=\"1\"\nMAYGROW=\"guest.need>1\"\n"), ["language"]);
    assert_eq!(found_codes("LANGUAGE=\"3\"\nMAYGROW=\"guest.need>1\"\n"), ["language"]);
}

fn found_codes(text: &str) -> Vec<&'static str> {
    host::load(text.as_bytes()).1.iter().map(|d| d.code).collect()
}

#[test]
fn probable_mistakes_are_reported() {
    assert_eq!(
        found("SHRINKGUEST=\"guest.pressure > 1000\"\nMAYGROW=\"!guest.cold > 1 & guest.hot > 1\""),
        [
            "1:1 warning[never-true] SHRINKGUEST=\"guest.pressure > 1000",
            "2:10 warning[precedence] !guest.cold > 1 & guest.hot > 1"
        ]
    );
    assert_eq!(
        found("SHRINKGUEST=\"host.ksm >= 0\"\nSHRINKGUSET=\"guest.cold\"\n"),
        ["1:1 warning[always-true] SHRINKGUEST=\"host.ksm >= 0", "2:1 warning[name] SHRINKGUSET"]
    );
    assert_eq!(
        found("SHRINKSIZE=\"-(guest.cold)\"\nGROWSIZE=\"guest.need - 8\"\n"),
        ["1:1 warning[no-step] SHRINKSIZE=\"-(guest.cold)"]
    );
    assert_eq!(
        found("MAYGROW=\"guest.need>1\"\nMAYGROW=\"guest.need>2\"\n"),
        ["1:1 warning[overruled] MAYGROW"]
    );
}

#[test]
fn explained_values_are_those_that_decide() {
    let text = "fair=\"guest.actual / 4\"\nSHRINKGUEST=\"guest.available[1] > fair\"\n\
                MAYSHRINK=\"guest.pressure < 3\"\nSHRINKSIZE=\"fair / 10\"\n";
    let (file, _) = host::parse(text.as_bytes());
    let program = program(text);
    let explanation = host::explain(&file, &program, &history(&program));
    assert_eq!(explanation.variables[0].0, "fair");
    assert_eq!(explanation.variables[0].1.value, Value::Number(256.0));
    let names: Vec<Name> = explanation.rules.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [Name::ShrinkGuest, Name::MayShrink, Name::ShrinkSize]);
    assert_eq!(explanation.rules[0].1.value, Value::Truth(true));
    assert_eq!(explanation.rules[0].1.pieces[0].value, Value::Number(416.0));
    assert!(matches!(explanation.rules[1].1.value, Value::Fault(_)));
    assert_eq!(explanation.rules[2].1.value, Value::Number(25.6));
}

#[test]
fn hostile_files_are_refused_soon() {
    let mut doubling = String::from("v0=\"guest.used\"\n");
    for n in 1..40 {
        doubling += &format!("v{n}=\"v{}+v{}\"\n", n - 1, n - 1);
    }
    assert_eq!(found_codes(&format!("{doubling}GROWSIZE=\"v39\"\n")), ["too-large"]);
    assert_eq!(found_codes("a=\"b\"\nb=\"a\"\nMAYGROW=\"a\"\n"), ["recursion"]);
    let deep = format!("MAYGROW=\"{}guest.need\"", "(".repeat(1500));
    assert_eq!(found_codes(&deep), ["too-deep"]);
    let long = format!("MAYGROW=\"{}\"", "guest.need+".repeat(300));
    assert!(found_codes(&long).contains(&"line-too-long"));
    let many = "MAYGROW=\"guest.x\"\n".repeat(20_000);
    assert!(found_codes(&many).contains(&"unknown-counter"));
    let large = vec![b'x'; MAX_FILE + 1];
    assert!(host::load(&large).1.iter().any(|d| d.code == "too-large"));
    assert_eq!(host::recognise(&large), FileKind::Guest);
    for byte in 0..=255_u8 {
        let text = [b"SHRINKGUEST=\"guest.", &[byte][..], b"used > 1\"\n"].concat();
        let (program, found) = host::load(&text);
        assert_eq!(program.is_none(), has_errors(&found), "{byte}");
    }
}

#[test]
fn a_size_that_is_no_number_of_mib_is_a_fault() {
    let words = words("SHRINKSIZE=\"1e300 * guest.used\"\nGROWSIZE=\"1e308 * guest.used\"\n");
    let kind = |size: Option<Result<i64, rules::Fault>>| size.and_then(Result::err).map(|f| f.kind);
    assert_eq!(kind(words.shrink_mib), Some(FaultKind::Invalid));
    assert_eq!(kind(words.grow_mib), Some(FaultKind::Overflow));
}
