//! `pinhead why` and `pinhead host diff`: decisions and their reasons, from the manager's journal.

use crate::args::Format;
use crate::escape::json;
use crate::quantities::span;
use crate::{Error, RecordingsError, TimeError};
use clap::{Args, ValueEnum};
use reports::recorded;
use std::path::{Path, PathBuf};
use store::{Journal, Policy};
use why::when::{self, Now};
use why::{Question, Time, diff};

const USUAL: &str = "1h";

/// `pinhead why`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Guest name, pattern with * and ?, or UUID
    pub guest: String,
    /// Time to explain: 14:03, 14:03:20, "2026-11-21 14:03", 2026-11-21T14:03:20+01:00, "5m ago"
    ///
    /// Shows the decision in force then, and the decisions of that minute or second.
    #[arg(long, value_name = "TIME", conflicts_with = "last")]
    pub at: Option<String>,
    /// Time span to look back: 30s, 5m, 1h, 2d
    ///
    /// The default is the last hour of a guest's present run. With a span, or with --at, earlier
    /// runs of the guest are shown too.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub last: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Journal file instead of the manager's
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Policy to explain
    #[arg(long, value_enum, default_value = "active")]
    pub policy: PolicyArg,
}

/// Policy to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The policy that moves memory
    Active,
    /// The policy that only runs for comparison
    Shadow,
}

/// `pinhead host diff`
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Time span to look back: 30s, 5m, 1h, 2d
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span)]
    pub last: String,
    /// Only these guests: name, pattern with * and ?, UUID, monitor path
    #[arg(long, value_name = "GUEST")]
    pub guest: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Journal file instead of the manager's
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// Returns the decisions about a guest, as text or JSON with its line end.
pub fn run(args: &WhyArgs) -> Result<String, Error> {
    let question = Question {
        guest: args.guest.clone(),
        time: match (&args.at, &args.last) {
            (Some(at), _) => Time::At(at.clone()),
            (None, Some(last)) => Time::Last(last.clone()),
            (None, None) => Time::Recent(USUAL.into()),
        },
        policy: match args.policy {
            PolicyArg::Active => Policy::Active,
            PolicyArg::Shadow => Policy::Shadow,
        },
    };
    let answer = why::answer(&open(args.journal.as_ref())?, &question, why::now())?;
    match args.format {
        Format::Text => Ok(answer.text()),
        Format::Json => json(&answer.json()),
    }
}

/// Returns the differences between the policies, as text or JSON with its line end.
pub fn run_diff(args: &DiffArgs) -> Result<String, Error> {
    let journal = open(args.journal.as_ref())?;
    let answer = diff::answer(&journal, &args.last, args.guest.as_deref(), why::now())?;
    match args.format {
        Format::Text => Ok(answer.text()),
        Format::Json => json(&answer.json()),
    }
}

/// Opens a journal for reading: the journal at this path, or the default journal.
pub fn open(path: Option<&PathBuf>) -> Result<Journal, Error> {
    let default = path.is_none();
    let path = path.cloned().unwrap_or_else(recorded::usual_journal);
    if default && !path.exists() {
        return Err(RecordingsError::NoJournal { path }.into());
    }
    Ok(Journal::read_only(&path)?)
}

/// Parses the start and the end of a time span. Without `to` the span ends now. Without `from` it
/// begins `usual_ms` before its end.
pub(crate) fn time_between(
    from: &Option<String>,
    to: &Option<String>,
    usual_ms: i64,
    now: &Now,
) -> Result<(i64, i64), Error> {
    let at = |time: &Option<String>| time.as_ref().map(|text| when::begin(text, now)).transpose();
    let to_ms = at(to)?.unwrap_or(now.ms);
    let from_ms = at(from)?.unwrap_or(to_ms.saturating_sub(usual_ms));
    if from_ms < to_ms { Ok((from_ms, to_ms)) } else { Err(TimeError::Backwards.into()) }
}

/// Returns the end of the recordings in a named directory, which takes the place of the present for
/// times such as `14:03` and `3h ago`.
pub(crate) fn recorded_now(dir: Option<&Path>, now: &Now) -> Result<Now, Error> {
    let ms = recorded::usual_end(dir, now.ms)?;
    Ok(Now { ms, ..now.clone() })
}

/// Returns [`time_between`] for recordings in `dir`, at the time of [`recorded_now`].
pub(crate) fn recorded_between(
    from: &Option<String>,
    to: &Option<String>,
    usual_ms: i64,
    dir: &Option<PathBuf>,
    now: &Now,
) -> Result<(i64, i64), Error> {
    time_between(from, to, usual_ms, &recorded_now(dir.as_deref(), now)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::check_widths;
    use crate::terminal::fitted;
    use jiff::tz::TimeZone;
    use model::GuestIdentity;
    use store::{Decision, Word};

    #[test]
    fn reasons_fit_every_width() {
        let dir = std::env::temp_dir().join(format!("pinhead-why-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut journal = Journal::open(&dir.join("journal.db")).unwrap();
        let guest = GuestIdentity { name: "web1".into(), ..GuestIdentity::default() };
        let begin_ms = 1_795_500_000_000;
        let decided =
            [("shrink", "shortage", 200), ("hold", "unusable", 200), ("grow", "need", 256)];
        for ((action, clause, mib), minute) in decided.into_iter().zip(0..) {
            let at_ms = begin_ms + minute * 60_000;
            let key = journal.guest(&guest, at_ms).unwrap();
            let decision = Decision {
                at_ms,
                policy: Policy::Active,
                action: Word::from(action),
                clause: Word::from(clause),
                detail: "its programs wait for memory more often than those of any other".into(),
                from_bytes: 256 << 20,
                to_bytes: mib << 20,
                bounds: Vec::new(),
                inputs: Vec::new(),
                acted: true,
            };
            journal.decision(key, &decision).unwrap();
        }
        let time = Time::Last("1h".into());
        let question = Question { guest: "web1".into(), time, policy: Policy::Active };
        let now = Now { ms: begin_ms + 300_000, zone: TimeZone::UTC };
        let text = why::answer(&journal, &question, now).unwrap().text();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(text.contains("wait for memory"), "{text}");
        check_widths(|width| fitted(&text, Some(width)));
    }

    #[test]
    fn a_missing_journal_is_reported_with_its_path() {
        let missing = std::env::temp_dir().join("pinhead-no-such-journal.db");
        let error = open(Some(&missing)).expect_err("it is not there");
        assert!(error.to_string().contains("pinhead-no-such-journal.db"), "{error}");
    }
}
