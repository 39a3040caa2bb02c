//! `pinhead web`: its command line. A separate program, `pinhead-web`, serves the pages. No other
//! command therefore loads a web server and TLS, and a build of `pinhead` compiles neither.

use crate::Error;
use crate::manage::SocketArg;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that serves the pages: next to this one, or where packages install it.
const PROGRAM: &str = "pinhead-web";
const INSTALLED: &str = "/usr/libexec/pinhead";

/// `pinhead web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Where browsers come: an address, unix:PATH, or systemd for the socket of a socket unit
    ///
    /// At an address the pages are opened by the token in the address that is printed. It opens
    /// them once, within ten minutes; the signal SIGUSR1 has another one printed. With a password
    /// file there is no token. A unix socket lets in whom its mode lets in: its owner and root. An
    /// address that other machines reach is refused without a password file and a certificate.
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:8420")]
    pub listen: String,
    /// A name by which browsers ask for the pages, if a proxy is in front of them; may be given
    /// more than once
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// A password opens the pages, and no token does: a file with a line that --new-password makes
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Ask for a password, write it to a file for --password-file, and end
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub new_password: Option<PathBuf>,
    /// Speak TLS at an address, with this certificate and those that it was signed with, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, in PEM, in a file that its owner alone may read
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
    pub socket: SocketArg,
}

/// Replaces this process by `pinhead-web`, with the same options. Returns only if that fails.
pub fn run(options: impl Iterator<Item = OsString>) -> Error {
    let beside = match std::env::current_exe() {
        Ok(own) => own.with_file_name(PROGRAM),
        Err(e) => return Error::step("Cannot find the directory of this program", e),
    };
    let installed = Path::new(INSTALLED).join(PROGRAM);
    let Some(program) = [&beside, &installed].into_iter().find(|path| path.is_file()) else {
        return Error::Message(format!(
            "There is no {PROGRAM}: looked for {} and {}; `make build` makes it",
            beside.display(),
            installed.display()
        ));
    };
    let failed = Command::new(program).args(options).exec();
    Error::step(format!("Cannot run {}", program.display()), failed)
}
