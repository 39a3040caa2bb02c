//! Files that users have reported, with traces of editors, of other systems, and of comments.

use crate::common::{compiled, places};
use rules::{Diagnostic, Machine, compile, lint, parse};

const RULES: &str = "HOTPLUG=\"loadavg > onumcpus\"\nHOTUNPLUG=\"idle > 150\"\n";

fn found(text: &[u8]) -> Vec<Diagnostic> {
    let (file, mut found) = parse(text);
    found.extend(compile(&file, &Machine::default()).1);
    found.retain(|d| !d.message.starts_with("Memory management is off"));
    found
}

/// Returns the codes and the help of all diagnostics.
fn helps(text: &str) -> Vec<(&'static str, String)> {
    found(text.as_bytes()).into_iter().map(|d| (d.code, d.help.unwrap_or_default())).collect()
}

fn help(text: &str) -> String {
    match &helps(text)[..] {
        [(_, help)] => help.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

fn warned(text: &str) -> Vec<String> {
    let (file, mut found) = parse(text.as_bytes());
    found.extend(lint(&file));
    found.retain(|d| d.code == "portable");
    places(text, &found)
}

#[test]
fn report_g07_a_setting_that_is_wrong_is_not_called_missing() {
    let text = "UPDATE=\"1\"   # the \"update\" interval\nCPU_MIN=\"1\"\n\
                CPU_MAX=\"0\"  # \"0\" is all\nHOTPLUG=\"1\"\n\
                HOTUNPLUG=\"idle > 100\" # more than \"one\"\n";
    let told = helps(text);
    assert_eq!(
        told.iter().map(|(code, _)| *code).collect::<Vec<_>>(),
        ["number", "number", "syntax"]
    );
    for (_, help) in told {
        assert!(help.contains("last quote of its line"), "{help}");
    }
    // Other unreadable lines: without quotes, without the second quote, too long.
    let long = format!("HOTPLUG=\"{}1\"", "1 + ".repeat(600));
    for line in ["HOTPLUG=1", "HOTPLUG=\"1", long.as_str()] {
        let text = format!("UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n{line}\nHOTUNPLUG=\"1\"\n");
        assert_eq!(helps(&text).len(), 1, "{line}: {:?}", helps(&text));
    }
    let all = "UPDATE=1\nCPU_MIN=1\nCPU_MAX=0\nHOTPLUG=1\nHOTUNPLUG=1\n";
    assert!(helps(all).iter().all(|(code, _)| *code == "quotes"), "{:?}", helps(all));
}

#[test]
fn report_g07_settings_that_are_missing_are_still_named() {
    let (program, told) =
        compiled("UPDATE=\"1\"\nCPU_MIN=\"x\"\nCPU_MAX=\"0\"\n", &Machine::default());
    let group = told.iter().find(|d| d.message.starts_with("CPU management")).expect("a warning");
    assert!(group.message.ends_with("off: HOTPLUG, HOTUNPLUG are not set"), "{}", group.message);
    assert!(program.is_none());
    let codes = |text: &str| helps(text).iter().map(|(code, _)| *code).collect::<Vec<_>>();
    assert_eq!(codes(RULES), ["update", "nothing-to-do", "group-off"]);
    // A host rules file with an unreadable rule still counts as a file with a rule.
    let (_, found) = rules::host::load(b"MAYSHRINK=1\n");
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["quotes"]);
    // A value with text behind the number does not choose a language.
    let (_, found) = parse(b"LANGUAGE=\"2\" | \"1\"\n");
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["language"]);
}

#[test]
fn report_g08_help_for_a_value_without_quotes_can_be_written() {
    let told =
        |value: &str| help(&format!("UPDATE=\"1\"\nCPU_MIN={value}\nCPU_MAX=\"0\"\n{RULES}"));
    for value in
        ["1", "'1'", "\u{201c}1\u{201d}", "\u{2018}1\u{2019}", "`1`", "1 # one CPU", "'1' # x"]
    {
        assert_eq!(told(value), "write CPU_MIN=\"1\"", "{value}");
    }
    for value in ["", "# none", "\u{fc}"] {
        assert!(told(value).contains("straight double quotes"), "{value}: {}", told(value));
    }
}

#[test]
fn report_g08_characters_of_editors_are_told_as_they_are() {
    let told = |rule: &str| {
        let text = format!(
            "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"{rule}\"\nHOTUNPLUG=\"1\"\n"
        );
        let found = found(text.as_bytes());
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
        assert!(text.is_char_boundary(found[0].span.end as usize), "{found:?}");
        (found[0].message.clone(), found[0].help.clone().unwrap_or_default())
    };
    let (message, help) = told("loadavg > onumcpus \u{2013} 1");
    assert!(
        message.starts_with("U+2013 cannot follow") && help.contains("`-`"),
        "{message} {help}"
    );
    let (message, help) = told("idle >\u{a0}150");
    assert!(message.ends_with("not U+00A0") && help.contains("blank"), "{message} {help}");
    assert!(told("loadavg > 0,75").1.contains("0.75"));
    assert!(told("idle > 10 %").1.contains("plain number"));
    assert_eq!(told("1 $ 2").0, "`$` cannot follow a complete expression");
}

#[test]
fn report_g09_a_byte_order_mark_is_skipped_and_told() {
    let text =
        format!("\u{feff}# rules\r\nCPU_MIN=\"1\"\r\nCPU_MAX=\"0\"\r\nUPDATE=\"1\"\r\n{RULES}");
    assert!(compiled(&text, &Machine::default()).0.is_some());
    assert_eq!(warned(&text), ["1:1 warning[portable] \u{feff}"]);
    assert_eq!(
        rules::host::recognise("\u{feff}MAYSHRINK=\"1\"\n".as_bytes()),
        rules::FileKind::Host
    );
}

#[test]
fn report_g09_a_file_in_another_encoding_is_told_once() {
    let text = format!("UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n{RULES}");
    let utf_16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let found = found(&utf_16);
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["encoding"]);
    assert!(found[0].message.contains("UTF-16"), "{}", found[0].message);
}

#[test]
fn report_g10_a_file_that_the_original_refuses_is_told() {
    let text = format!("UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n{RULES}");
    assert_eq!(warned(&text), [""; 0]);
    assert_eq!(warned(text.trim_end()), ["5:22 warning[portable] \""]);
    assert_eq!(warned(&text.replace("CPU_MAX=\"0\"\n", "")), ["2:10 warning[portable] 1"]);
    let named = format!("{text}MEMPLUG=\"meminfo.Active(anon) < vmstat.pgscan_direct_dma32[1]\"\n");
    let told = [
        "6:10 warning[portable] meminfo.Active(anon)",
        "6:33 warning[portable] vmstat.pgscan_direct_dma32[1]",
    ];
    assert_eq!(warned(&named), told);
    // A file with additions is meant for pinhead.
    assert_eq!(warned(&format!("LANGUAGE=\"2\"\n{}", named.trim_end())), [""; 0]);
}
