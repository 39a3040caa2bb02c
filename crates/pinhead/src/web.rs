//! `pinhead web`: the pages, and what they are given to show.

use crate::Error;
use crate::args::Format;
use crate::farm_cmds;
use crate::manage::{SocketArg, ask_manager};
use crate::report;
use crate::tell::say;
use crate::tune::{self, TuneArgs};
use crate::why::{default_recordings, journal_of};
use ::web::{
    Certificate, Fleet, Glance, Glanced, Hosts, Lines, Listen, Settings, Sources, Wanted,
    write_password,
};
use base::chain;
use clap::Args;
use metrics::fleet;
use model::{HostField, Over};
use reports::Needs;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// What Ctrl-C sends.
const INTERRUPT: u8 = 3;
/// More is no password.
const PASSWORD_MAX: u64 = 1_024;

/// `pinhead web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Where browsers come: an address, unix:PATH, or systemd for the socket of a socket unit
    ///
    /// At an address the pages are opened by the token in the address that is printed; each token
    /// opens them once, and the next one is printed then. A unix socket lets in whom its mode lets
    /// in: its owner and root. An address that other machines reach is refused without a password
    /// file and a certificate.
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:8420")]
    pub listen: String,
    /// A name by which browsers ask for the pages, if a proxy is in front of them; may be given
    /// more than once
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// A password opens the pages too: a file with a line that --new-password makes
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Ask for a password, write it to a file for --password-file, and end
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub new_password: Option<PathBuf>,
    /// Speak TLS at an address, with this certificate and those that it was signed with, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
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
    if let Some(path) = &args.new_password {
        return new_password(path);
    }
    let listen = Listen::parse(&args.listen).map_err(Error::Web)?;
    let certificate = args.tls_cert.clone().zip(args.tls_key.clone());
    let settings = Settings {
        listen,
        names: args.names.clone(),
        certificate: certificate.map(|(chain, key)| Certificate { chain, key }),
        password_file: args.password_file.clone(),
        allow_changes: args.allow_changes,
        sources: sources(args)?,
        tell: Box::new(|address| {
            let mut out = std::io::stdout();
            // Nobody may read it, and the pages are there all the same.
            let _ = writeln!(out, "The pages are at {address}").and_then(|()| out.flush());
        }),
    };
    ::web::serve(settings).map_err(Error::Web)
}

/// Asks for a password, at a terminal twice and unseen, and writes its file.
fn new_password(path: &Path) -> Result<(), Error> {
    let stdin = std::io::stdin();
    let unread = |source| Error::Read { path: "the password".into(), source };
    let password = if stdin.is_terminal() {
        let first = unseen("Password: ").map_err(unread)?;
        if unseen("Again: ").map_err(unread)? != first {
            return Err(Error::Message("Nothing was written: the second was another".into()));
        }
        first
    } else {
        line(b"\n").map_err(unread)?
    };
    write_password(path, &password).map_err(Error::Web)?;
    say(&format!("{} has it\n", path.display()))
}

/// A line of what is typed, without its end, which is one of these bytes.
fn line(ends: &[u8]) -> io::Result<String> {
    let mut input = io::stdin().lock().take(PASSWORD_MAX + 1);
    let mut line = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        let end = bytes.iter().position(|byte| ends.contains(byte));
        let taken = end.map_or(bytes.len(), |at| at + 1);
        line.extend(&bytes[..taken]);
        input.consume(taken);
        if end.is_some() || taken == 0 {
            break;
        }
    }
    let line = String::from_utf8(line).map_err(|_| io::Error::other("it is no UTF-8"))?;
    let line = line.trim_end_matches(['\n', '\r']);
    if line.len() as u64 >= PASSWORD_MAX {
        return Err(io::Error::other(format!("it has more than {} bytes", PASSWORD_MAX - 1)));
    }
    Ok(line.to_owned())
}

/// The same, asked for at a terminal that shows nothing of it.
fn unseen(question: &str) -> io::Result<String> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes -= LocalModes::ECHO;
    hidden.local_modes |= LocalModes::ECHONL;
    // A process that a key ends leaves the terminal as it is: here the key ends the line instead.
    hidden.local_modes -= LocalModes::ISIG;
    hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
    let mut err = io::stderr();
    write!(err, "{question}")?;
    err.flush()?;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let read = line(&[b'\n', INTERRUPT]);
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    match read {
        Ok(text) if text.ends_with(char::from(INTERRUPT)) => {
            Err(io::Error::new(io::ErrorKind::Interrupted, "Ctrl-C was pressed"))
        }
        read => read,
    }
}

fn sources(args: WebArgs) -> Result<Sources, Error> {
    let WebArgs { dir, journal, from, host, socket, .. } = args;
    if let Some(url) = from {
        // One host alone is no fleet.
        let hosts: Option<Box<dyn Hosts>> = match host {
            None => Some(Box::new(Engine(metrics::Url::parse(&url)?))),
            Some(_) => None,
        };
        let recorded = move |wanted: &Wanted| {
            let host = wanted.host.clone().or_else(|| host.clone());
            report::engine(&url, host, &of(wanted)).map_err(|error| chain(&error))
        };
        return Ok(Sources {
            manager: None,
            recorded: Box::new(recorded),
            hosts,
            journal: None,
            tune: None,
            farms: None,
            clock: Box::new(::why::now),
        });
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
    let farms = || {
        let all = farm_cmds::tables().map_err(|error| chain(&error))?;
        serde_json::to_string(&all).map_err(|error| chain(&error))
    };
    Ok(Sources {
        manager: Some(Box::new(move |ask| {
            ask_manager(&socket, ask).map_err(|error| chain(&error))
        })),
        recorded: Box::new(recorded),
        journal: Some(journal),
        hosts: None,
        tune: Some(Box::new(tune)),
        farms: Some(Box::new(farms)),
        clock: Box::new(::why::now),
    })
}

/// An engine's hosts.
struct Engine(metrics::Url);

impl Hosts for Engine {
    fn glance(&self, wanted: &Glance) -> Result<Fleet, String> {
        let Glance { from_ms, to_ms, hosts, together, most, by, like, guests } = wanted.clone();
        let loudest = fleet::Loudest { most, of_each: false, by, like, fields: guests };
        let asked = fleet::Glance { from_ms, to_ms, hosts, together, loudest };
        let found = fleet::glance(&self.0, &asked).map_err(|error| chain(&error))?;
        let host = |(name, host): (String, fleet::Host)| {
            let spacing_ms = host.spacing_ms();
            let fleet::Host { last_ms, guests, over, together, loudest, .. } = host;
            Glanced { name, last_ms, spacing_ms, guests, over, together, loudest }
        };
        Ok(Fleet { hosts: found.hosts.into_iter().map(host).collect(), found: found.found })
    }

    fn lines(&self, wanted: &Lines) -> Result<BTreeMap<String, Vec<Over<HostField>>>, String> {
        let hosts: Vec<&str> = wanted.hosts.iter().map(String::as_str).collect();
        let (from_ms, to_ms) = wanted.times_ms;
        let steps = fleet::Steps { from_ms, to_ms, step_ms: wanted.step_ms };
        fleet::lines(&self.0, steps, &hosts, &wanted.fields).map_err(|error| chain(&error))
    }
}

fn of(wanted: &Wanted) -> report::Wanted {
    let Wanted { from_ms, to_ms, step_ms, guests, processes, .. } = wanted.clone();
    report::Wanted { from_ms, to_ms, step_ms, needs: Needs { guests, processes } }
}
