//! `pinhead web`: the pages, and what they are given to show.

use crate::Error;
use crate::args::Format;
use crate::manage::{SocketArg, ask_manager};
use crate::report;
use crate::tune::{self, TuneArgs};
use crate::why::{default_recordings, journal_of};
use ::web::{Listen, Settings, Sources, Wanted};
use base::chain;
use clap::Args;
use reports::Needs;
use std::io::Write;
use std::path::PathBuf;

/// `pinhead web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Where browsers come: an address of this machine alone, or unix:PATH
    ///
    /// At an address the pages are opened by the token in the address that is printed; each token
    /// opens them once, and the next one is printed then. A unix socket lets in whom its mode lets
    /// in: its owner and root. An address that other machines reach is refused.
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:8420")]
    pub listen: String,
    /// A name by which browsers ask for the pages, if a proxy is in front of them; may be given
    /// more than once
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Let the pages change guests: set, pin, release, reserve
    ///
    /// The manager decides besides whether the user of this process may.
    #[arg(long)]
    pub allow_changes: bool,
    /// The recordings, if not those that the manager makes by itself
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub dir: Option<PathBuf>,
    /// The journal, if it is not beside the recordings
    #[arg(long, value_name = "PATH", conflicts_with = "from")]
    pub journal: Option<PathBuf>,
    /// Show what an engine holds that speaks Prometheus' interface: http://127.0.0.1:8428
    ///
    /// No manager is asked then, and there is no journal.
    #[arg(long, value_name = "URL", conflicts_with_all = ["socket", "allow_changes"])]
    pub from: Option<String>,
    /// Only this host of the engine's; or what to call the host of a directory's recordings
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Shows the pages until a signal ends the process.
pub fn run(args: WebArgs) -> Result<(), Error> {
    let listen = Listen::parse(&args.listen).map_err(Error::Web)?;
    let settings = Settings {
        listen,
        names: args.names.clone(),
        allow_changes: args.allow_changes,
        sources: sources(args),
        tell: Box::new(|address| {
            let mut out = std::io::stdout();
            // Nobody may read it, and the pages are there all the same.
            let _ = writeln!(out, "The pages are at {address}").and_then(|()| out.flush());
        }),
    };
    ::web::serve(settings).map_err(Error::Web)
}

fn sources(args: WebArgs) -> Sources {
    let WebArgs { dir, journal, from, host, socket, .. } = args;
    if let Some(url) = from {
        let recorded = move |wanted: &Wanted| {
            let host = wanted.host.clone().or_else(|| host.clone());
            report::engine(&url, host, &of(wanted)).map_err(|error| chain(&error))
        };
        return Sources {
            manager: None,
            recorded: Box::new(recorded),
            journal: None,
            tune: None,
            clock: Box::new(::why::now),
        };
    }
    let journal = journal.unwrap_or_else(|| journal_of(dir.as_deref()));
    let recordings = dir.clone().unwrap_or_else(default_recordings);
    let tune = move |from_ms: i64, to_ms: i64| {
        let moment = |ms| reports::rfc3339(ms, &reports::Utc);
        let args = TuneArgs {
            from: Some(moment(from_ms)),
            to: Some(moment(to_ms)),
            since: None,
            enough: TuneArgs::ENOUGH.to_owned(),
            format: Format::Json,
            dir: Some(recordings.clone()),
        };
        tune::run(&args).map_err(|error| chain(&error))
    };
    let recorded = move |wanted: &Wanted| {
        report::recordings(dir.as_deref(), host.clone(), &of(wanted)).map_err(|error| chain(&error))
    };
    Sources {
        manager: Some(Box::new(move |ask| {
            ask_manager(&socket, ask).map_err(|error| chain(&error))
        })),
        recorded: Box::new(recorded),
        journal: Some(journal),
        tune: Some(Box::new(tune)),
        clock: Box::new(::why::now),
    }
}

fn of(wanted: &Wanted) -> report::Wanted {
    let Wanted { from_ms, to_ms, step_ms, guests, processes, .. } = wanted.clone();
    report::Wanted { from_ms, to_ms, step_ms, needs: Needs { guests, processes } }
}
