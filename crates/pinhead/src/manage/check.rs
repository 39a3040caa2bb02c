//! `pinhead host --check`: the settings as a manager would have them.

use super::HostArgs;
use super::run::{options, to_error};
use crate::Error;
use manager::config::{DEFAULT_PATH, SECTIONS};
use std::path::Path;

/// Checks the settings, and returns those that would be in force.
pub fn check(args: &HostArgs) -> Result<String, Error> {
    let loaded = manager::check(args.config.as_deref(), options(args)).map_err(to_error)?;
    let (text, name) = match &loaded.path {
        Some(path) => (settings::load(path)?, base::plain(&path.display().to_string(), 4096)),
        None => (String::new(), format!("No file {DEFAULT_PATH}, all defaults")),
    };
    let mut out = format!("# {name}: no errors\n");
    let mut in_force = settings::in_force(&text, SECTIONS);
    if let Some(budget) = args.budget {
        out.push_str(&format!("# --budget {budget} overrides `budget` in [host]\n"));
        in_force = with_budget(&in_force, &budget.to_string());
    }
    let control = &loaded.settings.control;
    let places = [
        ("socket", control.socket.as_deref()),
        ("journal", loaded.settings.journal.path.as_deref()),
        ("recordings", loaded.settings.monitor.dir.as_deref()),
    ];
    for (name, path) in places {
        let shown =
            path.map_or_else(|| "none".to_owned(), |path: &Path| path.display().to_string());
        out.push_str(&format!("# {name}: {}\n", base::plain(&shown, 4096)));
    }
    Ok(out + &in_force)
}

/// Replaces the budget in printed settings. No other section has a key of this name.
fn with_budget(in_force: &str, budget: &str) -> String {
    let is_budget = |line: &str| {
        let line = line.trim_start_matches(['#', ' ']);
        line.strip_prefix("budget").is_some_and(|rest| rest.starts_with([' ', ':']))
    };
    let line = |line: &str| match is_budget(line) {
        true => format!("budget = {}\n", settings::quoted(budget)),
        false => format!("{line}\n"),
    };
    in_force.lines().map(line).collect()
}
