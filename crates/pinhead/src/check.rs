//! `pinhead check`: errors and warnings, as text and as JSON.

mod settings_file;

use crate::rulesfile::{self, RulesText};
use crate::{Error, machine, terminal};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use base::{broken, counted};
use policy::steady::{self, Oscillation};
use procfs::Root;
use rules::{Diagnostic, FileKind, Machine, Name, RuleFile, Severity, line_column};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;

/// Columns that the renderer needs around a mark and its label in a line that is cut.
const AROUND: usize = 24;

/// The findings of one file.
#[derive(Debug)]
pub struct Checked {
    /// The file.
    pub rules: RulesText,
    /// The findings, in the file's order.
    pub found: Vec<Diagnostic>,
    /// Description of the file's kind, if the file has no rules.
    pub what: Option<&'static str>,
}

impl Checked {
    /// Returns the number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.found.iter().filter(|d| d.severity == severity).count()
    }
}

/// The target to check against.
#[derive(Clone, Debug)]
pub enum Against {
    /// The language alone.
    Nothing,
    /// The machine below this root.
    Machine(Root),
    /// The host's manager, even if the file sets no name that marks host rules.
    Host,
}

/// Checks one file.
pub fn file(path: &Path, against: &Against) -> Result<Checked, Error> {
    if settings_file::is_toml(path) && !matches!(against, Against::Host) {
        let (rules, found, what) = settings_file::file(path)?;
        return Ok(Checked { rules, found, what: Some(what) });
    }
    let rules = rulesfile::read(path)?;
    // Rules of the host's manager are recognised by the names that they set, and need no machine.
    let is_host = rules::host::recognise(&rules.text) == FileKind::Host;
    let found = match against {
        Against::Host => host_text(&rules.text),
        _ if is_host => host_text(&rules.text),
        Against::Nothing => text(&rules.text, &Machine::default()),
        Against::Machine(root) => text(&rules.text, &machine::of(root)?),
    };
    Ok(Checked { rules, found, what: None })
}

/// Checks the text of a host's rules.
pub fn host_text(text: &[u8]) -> Vec<Diagnostic> {
    let (file, mut found) = rules::host::parse(text);
    if !rules::has_errors(&found) {
        found.extend(rules::lint(&file));
    }
    found.extend(rules::host::compile(&file).1);
    found.sort_by_key(|d| (d.span.start, d.span.end, d.severity));
    found.dedup();
    found
}

/// Checks the text of a guest's rules.
pub fn text(text: &[u8], machine: &Machine) -> Vec<Diagnostic> {
    let (file, mut found) = rules::parse(text);
    let parsed = !rules::has_errors(&found);
    let (program, more) = rules::compile(&file, machine);
    found.extend(more);
    if parsed {
        found.extend(rules::lint(&file));
        if let Some(program) = program {
            let present = machine.cpus_usable.unwrap_or(4).clamp(2, 16);
            found.extend(steady::cpu(&program, present).and_then(|o| swinging_cpus(&file, o)));
            found.extend(steady::memory(&program).and_then(|o| swinging_pool(&file, o)));
        }
    }
    found.sort_by_key(|d| (d.span.start, d.span.end, d.severity));
    found.dedup();
    found
}

fn swinging_cpus(file: &RuleFile, o: Oscillation) -> Option<Diagnostic> {
    let rule = file.rule(Name::Hotunplug)?;
    let message = format!(
        "HOTPLUG and HOTUNPLUG take turns: at a steady load of {:.2} CPUs they change direction \
         {} times in {} intervals",
        o.load, o.reversals, o.intervals
    );
    Some(
        Diagnostic::warning("oscillation", rule.name.to(rule.expr.span), message)
            .label("undoes what HOTPLUG did")
            .help("widen the distance between the two limits, or average over more intervals"),
    )
}

fn swinging_pool(file: &RuleFile, o: Oscillation) -> Option<Diagnostic> {
    let rule = file.rule(Name::Memunplug)?;
    let message = format!(
        "MEMPLUG and MEMUNPLUG take turns: with {:.0} % of the memory in use they change \
         direction {} times in {} intervals",
        o.load * 100.0,
        o.reversals,
        o.intervals
    );
    Some(
        Diagnostic::warning("oscillation", rule.name.to(rule.expr.span), message)
            .label("takes memory that MEMPLUG then returns")
            .help("let MEMUNPLUG stop earlier, or make CMM_INC a share of the free memory"),
    )
}

/// Formats the findings as compilers do. With a width, sentences are broken between words, and a
/// long line of the file is cut around its finding.
pub fn render(checked: &Checked, color: bool, width: Option<usize>) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = width.map_or(renderer.clone(), |width| renderer.term_width(width));
    // The renderer aligns the further lines of a sentence with its first line.
    let fitted = |kind: &str, text: &str| {
        let Some(width) = width else { return text.to_owned() };
        broken(text, [width.saturating_sub(kind.len()); 2]).join("\n")
    };
    // Spans count bytes, so each byte that is not text is replaced by one byte.
    let source: String = checked
        .rules
        .text
        .iter()
        .map(|&b| {
            if b.is_ascii() && (b == b'\n' || b == b'\t' || !b.is_ascii_control()) {
                char::from(b)
            } else {
                '?'
            }
        })
        .collect();
    let mut out = String::new();
    for diagnostic in &checked.found {
        let end = (diagnostic.span.end as usize).min(source.len());
        let start = (diagnostic.span.start as usize).min(end);
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let label = diagnostic.label.as_str();
        let is_beside = width.is_none_or(|width| has_room(&source, start..end, label, width));
        let annotation = AnnotationKind::Primary.span(start..end);
        let annotation = if is_beside { annotation.label(label) } else { annotation };
        let snippet = Snippet::source(&source).path(&checked.rules.name).annotation(annotation);
        let kind = format!("{}[{}]: ", diagnostic.severity, diagnostic.code);
        let message = fitted(&kind, &diagnostic.message);
        let title = level.primary_title(message).id(diagnostic.code);
        let mut report = vec![title.element(snippet)];
        if !is_beside && !label.is_empty() {
            report.push(Group::with_title(Level::NOTE.secondary_title(fitted("note: ", label))));
        }
        if let Some(help) = &diagnostic.help {
            report.push(Group::with_title(Level::HELP.secondary_title(fitted("help: ", help))));
        }
        out.push_str(&renderer.render(&report));
        out.push_str("\n\n");
    }
    let (errors, warnings) = (checked.count(Severity::Error), checked.count(Severity::Warning));
    let verdict = match (errors, warnings) {
        (0, 0) => "no errors, no warnings".to_owned(),
        _ => [counted(errors as u64, "error"), counted(warnings as u64, "warning")].join(", "),
    };
    let what = checked.what.map(|what| format!(" ({what})")).unwrap_or_default();
    out + &terminal::fitted(&format!("{}{what}: {verdict}\n", checked.rules.name), width)
}

/// Returns true if a label fits behind the mark below a line of the file.
fn has_room(source: &str, mark: Range<usize>, label: &str, width: usize) -> bool {
    let columns = |text: &str| text.len() + 3 * text.matches('\t').count();
    let begin = source[..mark.start].rfind('\n').map_or(0, |at| at + 1);
    let line = source[begin..].lines().next().unwrap_or_default();
    let Some(before) = line.get(..mark.end - begin) else { return false };
    // The number of the line, and the bar behind the number.
    let margin = (source[..begin].matches('\n').count() + 1).to_string().len() + 3;
    if columns(line) + margin <= width {
        columns(before) + 1 + label.len() + margin <= width
    } else {
        mark.len() + label.len() + AROUND <= width
    }
}

/// Formats the errors among the findings as compilers do, for standard error.
pub fn errors(rules: RulesText, mut found: Vec<Diagnostic>) -> String {
    found.retain(|d| d.severity == Severity::Error);
    render(&Checked { rules, found, what: None }, false, terminal::width(std::io::stderr()))
}

/// Converts the findings of all files to one JSON object.
pub fn to_json(all: &[Checked]) -> Value {
    let files: Vec<Value> = all
        .iter()
        .map(|checked| {
            let text = &checked.rules.text;
            let found: Vec<Value> = checked
                .found
                .iter()
                .map(|d| {
                    let (line, column) = line_column(text, d.span.start);
                    let (end_line, end_column) = line_column(text, d.span.end);
                    json!({
                        "severity": d.severity.to_string(),
                        "code": d.code,
                        "message": d.message,
                        "label": d.label,
                        "help": d.help,
                        "line": line,
                        "column": column,
                        "end_line": end_line,
                        "end_column": end_column,
                    })
                })
                .collect();
            json!({
                "file": checked.rules.name,
                "errors": checked.count(Severity::Error),
                "warnings": checked.count(Severity::Warning),
                "diagnostics": found,
            })
        })
        .collect();
    json!({ "files": files })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::check_fits;

    #[test]
    fn findings_fit_the_width_with_all_words() {
        let check = |hotplug: &str, beside: &str, width: usize| {
            let rules = format!(
                "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTUNPLUG=\"idle > 5\"\n\
                 HOTPLUG=\"idle < 10 & loadavg > onumcpus + 0.75 & {hotplug}\"\n"
            );
            let found = text(rules.as_bytes(), &Machine::default());
            let rules = RulesText { name: "r.conf".into(), text: rules.into() };
            let checked = Checked { rules, found, what: None };
            let shown = render(&checked, false, Some(width));
            let parts = |found: &'_ Diagnostic| {
                [found.message.clone(), found.label.clone(), found.help.clone().unwrap_or_default()]
            };
            let parts: Vec<String> = checked.found.iter().flat_map(parts).collect();
            check_fits(&shown, width, parts.iter().map(String::as_str));
            assert!(shown.contains(beside), "{shown}");
        };
        for width in [60, 80, 120] {
            let long = "meminfo.MemFree > meminfo.MemTotal / 10 & swaprate > 10";
            check(long, "help: in a CPU rule, ", width);
            check("idel > 10 & idle > 5 & idle > 6 & idle > 7 & idle > 8", "^^^^", width);
        }
        check("idel > 10", "^^^^ neither a variable of this file nor a keyword", 120);
        check("idel > 10", "\nnote: neither a variable of this file nor a keyword\n", 60);
    }
}
