//! Commands for a running farm: `down`, `ps`, `console`, `exec`, `logs`, `park`, `wake`.
//!
//! Each command finds the farm by its directory, sends a request to its socket and shows the
//! response.

mod console;
mod down;
pub mod filter;
mod find;
mod logs;
mod park;
mod ps;

pub use console::console;
pub use down::down;
pub(crate) use find::{At, guest};
pub use logs::logs;
pub use park::{park, wake};
pub(crate) use ps::{Beside, beside, is_any};
pub use ps::{ps, shown};

use crate::escape::Lines;
use crate::manage::SocketArg;
use crate::terminal::complain;
use crate::{Error, FarmCommandError, quantities};
use base::chain;
use clap::Args;
use farm::service;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use vm::Deadline;

/// Maximum output of a command in a guest, in bytes.
const OUTPUT_MAX: u64 = 256 << 20;
/// Time for which this program waits beyond the command's time limit.
pub const GRACE: Duration = Duration::from_secs(10);
/// Exit status if the guest's command could not be run at all. `docker exec` uses the same status.
const CANNOT: u8 = 125;

/// `pinhead down`
#[derive(Debug, Args)]
pub struct DownArgs {
    /// Farm name, file or process id; optional if only one farm runs
    pub farm: Option<String>,
}

/// `pinhead console`
#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// Guest, or FARM/GUEST with the farm's name or process id
    pub guest: String,
    /// Print the kept console output and exit
    #[arg(long)]
    pub log: bool,
}

/// `pinhead exec`
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Guest, or FARM/GUEST with the farm's name or process id
    pub guest: String,
    /// Kill the command in the guest after this time; a number alone means seconds
    #[arg(long, value_name = "SPAN", default_value = "60s",
          value_parser = quantities::seconds::<u32>(1..=86_400))]
    pub timeout: u32,
    /// Command and its arguments; options of pinhead come before it
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `pinhead logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Guest, or FARM/GUEST with the farm's name or process id
    pub guest: String,
    /// Print further output as it arrives, until Ctrl-C or the farm's end
    #[arg(short, long)]
    pub follow: bool,
}

/// `pinhead park` and `pinhead wake`
#[derive(Debug, Args)]
pub struct ParkArgs {
    /// Guests, each as GUEST or FARM/GUEST
    ///
    /// FARM is the farm's name or process id. For a guest outside farms, use the manager's name for
    /// it, its UUID or the path of its monitor.
    #[arg(required = true)]
    pub guests: Vec<String>,
    #[command(flatten)]
    pub socket: SocketArg,
}

/// Returns the control socket of the farm with this name, or of the only farm.
pub fn socket(named: Option<&str>) -> Result<std::path::PathBuf, Error> {
    Ok(find::farm(named)?.socket)
}

/// Runs a command in a guest, and returns the command's exit status.
pub fn exec(args: &ExecArgs) -> ExitCode {
    match run_in_guest(args) {
        // A process has no exit status above 255.
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            complain(&format!("pinhead: {}", base::plain(&chain(&error), 2000)));
            ExitCode::from(CANNOT)
        }
    }
}

fn run_in_guest(args: &ExecArgs) -> Result<i32, Error> {
    let words: Vec<String> = args.command.iter().map(|word| base::shell_word(word)).collect();
    let command = words.join(" ");
    if command.contains(['\n', '\r']) {
        return Err(FarmCommandError::SeveralLines.into());
    }
    let at = find::guest(&args.guest)?;
    let command = format!("timeout -s KILL {} {command}", args.timeout);
    let deadline = Deadline::after(Duration::from_secs(u64::from(args.timeout)) + GRACE);
    let run = |out: &mut dyn Write| {
        service::exec(&at.socket, &at.guest, &command, OUTPUT_MAX, deadline, out)
    };
    let mut stdout = std::io::stdout().lock();
    // The terminal, or the reader of the pipe, may be gone at the end.
    if stdout.is_terminal() {
        let mut lines = Lines::new(stdout);
        let code = run(&mut lines)?;
        let _ = lines.finish();
        return Ok(code);
    }
    let mut out = Watched { out: &mut stdout, has_no_reader: false };
    let code = match run(&mut out) {
        Err(_) if out.has_no_reader => return Ok(0),
        code => code?,
    };
    let _ = stdout.flush();
    Ok(code)
}

/// An output that remembers that its reader closed the pipe early (`| head`).
struct Watched<W: Write> {
    out: W,
    has_no_reader: bool,
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        self.has_no_reader |= written.as_ref().is_err_and(is_gone);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
