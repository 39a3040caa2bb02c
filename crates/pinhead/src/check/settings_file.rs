//! Check of a farm's file or the manager's settings, which are TOML.

use crate::Error;
use crate::rulesfile::RulesText;
use manager::config::{self, Place};
use rules::{Diagnostic, Severity, Span};
use settings::{Fault, Reader, Section};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Farm,
    Manager,
}

impl Kind {
    /// Recognises the kind by the names at the top of the file. A file that could be of both kinds
    /// is a farm's, unless it has the name of the manager's settings file.
    fn of(path: &Path, text: &str) -> Kind {
        let unknown = |sections: &[Section]| {
            let mut reader = Reader::new(text);
            reader.tree(sections);
            reader.finish(()).map_or_else(|faults| faults.len(), |()| 0)
        };
        let (farm, manager) = (unknown(farm::config::SECTIONS), unknown(config::SECTIONS));
        let is_default = path.file_name() == Path::new(config::DEFAULT_PATH).file_name();
        if manager < farm || (manager == farm && is_default) { Kind::Manager } else { Kind::Farm }
    }
}

pub(super) fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml")
}

/// Checks a file in TOML. Returns its text, its errors, and a description of its kind.
pub(super) fn file(path: &Path) -> Result<(RulesText, Vec<Diagnostic>, &'static str), Error> {
    let text = settings::load(path)?;
    let kind = Kind::of(path, &text);
    let faults = match kind {
        Kind::Farm => farm::config::parse(&text, "farm").err(),
        Kind::Manager => config::parse(&text, &Place::of_this_process(None)).err(),
    };
    let found = faults.unwrap_or_default().into_iter().map(diagnostic).collect();
    let name = path.display().to_string();
    let what = match kind {
        Kind::Farm => "a farm's file",
        Kind::Manager => "the manager's settings",
    };
    Ok((RulesText { name, text: text.into_bytes() }, found, what))
}

fn diagnostic(fault: Fault) -> Diagnostic {
    let Fault { span, key, message, help, .. } = fault;
    Diagnostic {
        severity: Severity::Error,
        code: "settings",
        span: Span::new(span.start, span.end),
        message: if key.is_empty() { message } else { format!("{key}: {message}") },
        label: String::new(),
        help,
    }
}
