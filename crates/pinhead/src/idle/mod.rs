//! `pinhead idle GUEST`: the tasks that wake a guest, the cost of each task for the host, and the
//! saving without the task.
//!
//! ```text
//!   manager ─► scan ─► (so many seconds) ─► scan ─► wakers: what happened between ─► table, JSON
//! ```

mod table;
pub mod wakers;

pub use wakers::{Kind, Waker, Wakers};

use crate::Error;
use crate::args::Format;
use crate::escape::json;
use crate::manage::{SocketArg, ask_manager, unexpected};
use crate::quantities::seconds;
use crate::terminal::width;
use crate::waiting::Waiting;
use clap::Args;
use manager::control::{Answer, Ask, Scanned};
use std::time::Duration;

/// Minimum time to watch. The manager scans a guest at most once in ten seconds, and two scans are
/// needed.
const SECONDS_MIN: u64 = 11;
/// Maximum time to watch. No user waits longer at a terminal.
const SECONDS_MAX: u64 = 86_400;

/// `pinhead idle`
#[derive(Debug, Args)]
pub struct IdleArgs {
    /// Guest name or UUID
    pub guest: String,
    /// Time to watch the guest, such as 60s or 5m; at least 11s
    #[arg(long = "for", value_name = "SPAN", default_value = "60s",
          value_parser = seconds::<u64>(SECONDS_MIN..=SECONDS_MAX))]
    pub seconds: u64,
    /// Maximum number of tasks to show
    ///
    /// The rest is summed.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    #[command(flatten)]
    pub(crate) socket: SocketArg,
}

/// Watches a guest, and shows the tasks that woke it.
pub fn run(args: &IdleArgs) -> Result<String, Error> {
    let first = scan(args)?;
    let time = Duration::from_secs(args.seconds);
    Waiting::new(format!("watching {}", base::plain(&args.guest, 30)), time).wait(time);
    let second = scan(args)?;
    let wakers = Wakers::between(&first, &second)?;
    match args.format {
        Format::Json => json(&wakers),
        Format::Text => Ok(table::show(&wakers, args.top, width(std::io::stdout()))),
    }
}

fn scan(args: &IdleArgs) -> Result<Scanned, Error> {
    match ask_manager(&args.socket, &Ask::Scan { guest: args.guest.clone() })? {
        Answer::Scan(scanned) => Ok(*scanned),
        _ => Err(unexpected()),
    }
}
