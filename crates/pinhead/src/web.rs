//! `pinhead web`: the command line only. A separate program, `pinhead-web`, serves the pages. Other
//! commands therefore need not load a web server and TLS, and a build of `pinhead` compiles neither
//! of them.

use crate::Error;
use crate::manage::SocketArg;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Program that serves the pages. The program is next to `pinhead`, or in the directory into which
/// packages install it.
const PROGRAM: &str = "pinhead-web";
const INSTALLED: &str = "/usr/libexec/pinhead";

/// `pinhead web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Address to listen on, unix:PATH, or systemd for a socket unit's socket
    ///
    /// For an address, the printed URL contains a token that opens the pages. A token works once,
    /// within ten minutes; on SIGUSR1 the program prints a new token. With a password file there is
    /// no token. A Unix socket admits only its owner and root. An address that other machines can
    /// reach needs a password file and a certificate.
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:8420")]
    pub listen: String,
    /// Host name of the pages behind a proxy; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Password file written by --new-password; a password replaces the token
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Prompt for a password, write it for --password-file, and exit
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub new_password: Option<PathBuf>,
    /// TLS certificate with its chain for the listen address, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate, in PEM
    ///
    /// Only the owner of the file may have access to it.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Let the pages change guests: set, pin, release, reserve
    ///
    /// The manager must also permit the user of this process.
    #[arg(long)]
    pub allow_changes: bool,
    /// Directory of recordings instead of the manager's
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub dir: Option<PathBuf>,
    /// Journal file, if it is not next to the recordings
    #[arg(long, value_name = "PATH", conflicts_with = "from")]
    pub journal: Option<PathBuf>,
    /// Show data of a Prometheus-compatible metrics server: http://127.0.0.1:8428
    ///
    /// No manager is queried then, and there is no journal.
    #[arg(long, value_name = "URL", conflicts_with_all = ["socket", "allow_changes"])]
    pub from: Option<String>,
    /// Only this host of the metrics server
    ///
    /// Recordings do not contain the name of their host. They are shown under this name, instead of
    /// this machine's.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    #[command(flatten)]
    pub socket: SocketArg,
}

/// Replaces this process by `pinhead-web`, with the same options. The call returns only if it
/// fails.
pub fn run(options: impl Iterator<Item = OsString>) -> Error {
    let beside = match std::env::current_exe() {
        Ok(own) => own.with_file_name(PROGRAM),
        Err(e) => return Error::step("Cannot find the directory of this program", e),
    };
    let installed = Path::new(INSTALLED).join(PROGRAM);
    let Some(program) = [&beside, &installed].into_iter().find(|path| path.is_file()) else {
        return Error::NoProgram { name: PROGRAM, beside, installed };
    };
    let failed = Command::new(program).args(options).exec();
    Error::step(format!("Cannot run {}", program.display()), failed)
}
