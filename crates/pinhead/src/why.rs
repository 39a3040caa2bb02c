//! `pinhead why` and `pinhead host diff`: what was decided and why, from the manager's journal.

use crate::Error;
use crate::args::Format;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use store::{Journal, Policy};
use why::{Question, Time, diff, printed};

/// `pinhead why`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A guest: its name, a pattern with * and ?, or its UUID
    pub guest: String,
    /// What was in force then, and what was decided in that minute or second: 14:03,
    /// 14:03:20, "2026-11-21 14:03", 2026-11-21T14:03:20+01:00, "5m ago"
    #[arg(long, value_name = "TIME", conflicts_with = "last")]
    pub at: Option<String>,
    /// What was decided in the last 30s, 5m, 1h, 2d
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    pub last: String,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// The journal, if not the one where the manager writes it by itself
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Whose decisions
    #[arg(long, value_enum, default_value = "active")]
    pub policy: PolicyArg,
}

/// Which policy's decisions to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The one that moves memory
    Active,
    /// The one that runs beside it to be compared
    Shadow,
}

/// `pinhead host diff`
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// How far to look back: 30s, 5m, 1h, 2d
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    pub last: String,
    /// Only these guests: a name, a pattern with * and ?, or a UUID
    #[arg(long, value_name = "GUEST")]
    pub guest: Option<String>,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// The journal, if not the one where the manager writes it by itself
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// Tells what was decided about a guest, as text or JSON with its line end.
pub fn run(args: &WhyArgs) -> Result<String, Error> {
    let question = Question {
        guest: args.guest.clone(),
        time: match &args.at {
            Some(at) => Time::At(at.clone()),
            None => Time::Last(args.last.clone()),
        },
        policy: match args.policy {
            PolicyArg::Active => Policy::Active,
            PolicyArg::Shadow => Policy::Shadow,
        },
    };
    let answer = why::answer(&open(args.journal.as_ref())?, &question, why::now())?;
    Ok(match args.format {
        Format::Text => answer.text(),
        Format::Json => printed(&answer.json()),
    })
}

/// Tells where the policies part, as text or JSON with its line end.
pub fn run_diff(args: &DiffArgs) -> Result<String, Error> {
    let journal = open(args.journal.as_ref())?;
    let answer = diff::answer(&journal, &args.last, args.guest.as_deref(), why::now())?;
    Ok(match args.format {
        Format::Text => answer.text(),
        Format::Json => printed(&answer.json()),
    })
}

/// Opens a journal to read it: the one that is named, or the default one.
pub fn open(path: Option<&PathBuf>) -> Result<Journal, Error> {
    let default = path.is_none();
    let path = path.cloned().unwrap_or_else(default_journal);
    if default && !path.exists() {
        return Err(Error::Message(format!(
            "There is no journal at {}: `pinhead host` writes it; if yours is elsewhere, name it \
             with --journal",
            path.display()
        )));
    }
    Ok(Journal::read_only(&path)?)
}

/// Where the manager writes its journal by itself: for root below /var/lib, for others in
/// their own directory for what programs keep.
pub fn default_journal() -> PathBuf {
    let home = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    journal_of(rustix::process::geteuid().is_root(), home("XDG_STATE_HOME"), home("HOME"))
}

fn journal_of(is_root: bool, state: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let state = state.or_else(|| home.map(|home| home.join(".local/state")));
    match state {
        Some(state) if !is_root => state.join("pinhead/journal.db"),
        _ => PathBuf::from("/var/lib/pinhead/journal.db"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_is_not_there_is_named() {
        let missing = std::env::temp_dir().join("pinhead-no-such-journal.db");
        let error = open(Some(&missing)).expect_err("it is not there");
        assert!(error.to_string().contains("pinhead-no-such-journal.db"), "{error}");
    }

    #[test]
    fn the_journal_is_where_its_owner_may_write() {
        let [state, home] = ["/state", "/home/a"].map(|path| Some(PathBuf::from(path)));
        let check = |is_root, state: &Option<PathBuf>, home: &Option<PathBuf>, expected: &str| {
            let found = journal_of(is_root, state.clone(), home.clone());
            assert_eq!(found, PathBuf::from(expected));
        };
        check(true, &state, &home, "/var/lib/pinhead/journal.db");
        check(false, &state, &home, "/state/pinhead/journal.db");
        check(false, &None, &home, "/home/a/.local/state/pinhead/journal.db");
        check(false, &None, &None, "/var/lib/pinhead/journal.db");
    }
}
