//! The command line and the environment.

use crate::error::Error;
use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};

const ENVIRONMENT: &str = "\
Environment:
  SOAK_COUNT, SOAK_S390X_COUNT
                     number of guests that --soak boots (default 1000 and 300)
  SOAK_AT_ONCE       guests booted at the same time (default 4)
  SOAK_CPUS          CPUs of each guest (default 4)
  SOAK_LIMIT         seconds after which a boot counts as a hang (default 300)
  SOAK_KERNEL        extra kernel arguments: maxcpus=64 starts all CPUs during the boot,
                     as without the workaround for QEMU before 8.1
  SOAK_FLIPS         number of changes of the kernel's code after the boot, while all CPUs
                     run it: on QEMU before 8.1 most guests hang
  PINHEAD_GUEST_DIR  directory of the daemons: x86_64/pinheadd and s390x/pinheadd
  PINHEAD_PROGRAM    path of pinhead
  ORIGINAL           path of IBM's cpuplugd, built for this machine, to compare with pinheadd;
                     needs root, for a mount namespace in which cpuplugd cannot change anything
  BEFORE             path of another pinheadd to compare with

The exit status is 0 if everything could be measured, even if a promise is missed.
";

/// Measure the guest daemon on this machine, and print each figure with its promised limit
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "bench", after_help = ENVIRONMENT)]
pub struct Args {
    /// Seconds to measure the daemon, at least 10: two windows to compare
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(10..))]
    pub seconds: u64,
    /// Measure only this part
    #[arg(long, value_enum)]
    pub only: Option<Part>,
    /// Measure only the cost of collecting for the host, without a daemon
    #[arg(long)]
    pub collect: bool,
    /// Boot guests and count those that hang
    #[arg(long, conflicts_with = "collect")]
    pub soak: bool,
    /// Directory that keeps the recorded day for the next run
    #[arg(long = "dir", value_name = "DIR")]
    pub day: Option<PathBuf>,
    /// Number of idle guests or web servers
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub guests: u32,
    /// Runs as a process that only reads these files: see [`crate::baseline`].
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    pub preads: Vec<PathBuf>,
    /// Runs as a process with this many threads, as a replacement of a guest's: see
    /// [`crate::collect`].
    #[arg(long, hide = true)]
    pub threads: Option<usize>,
}

/// A part that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The host manager with idle guests of 128 MiB: 40 minutes, 150 MiB of memory for each
    Idle,
    /// Web servers of 96 MiB from one template, with temporary memory limits, zram and KSM (root)
    Farm,
    /// A day of 100 guests recorded, and every report over it
    Day,
    /// The daemon's cost of a scan of all tasks
    Scan,
    /// Cost of `pinhead top` with 100 guests
    Top,
    /// Time until a browser shows a thousand hosts with twenty guests each
    Fleet,
    /// Time to convert a day of z/VM to a recording
    Zvm,
    /// Time until a browser shows the pages of 100 and 1,000 guests
    Pages,
}

/// Returns the directory with the daemons, by architecture.
pub fn guest_dir() -> Result<PathBuf, Error> {
    given("PINHEAD_GUEST_DIR", "the daemons are")
}

pub fn program() -> Result<PathBuf, Error> {
    given("PINHEAD_PROGRAM", "pinhead is")
}

/// Returns the path of this program.
pub fn this_program() -> Result<PathBuf, Error> {
    let us = Path::new("/proc/self/exe");
    std::fs::read_link(us).map_err(|source| Error::file(us, source))
}

fn given(variable: &str, what: &str) -> Result<PathBuf, Error> {
    path(variable).ok_or_else(|| {
        Error::Usage(format!("{variable} must contain the path where {what}; use `make bench`"))
    })
}

/// Returns a path from the environment. An empty variable counts as not set.
pub fn path(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<Args, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Args::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_select_the_parts() {
        let all = args("").unwrap();
        assert_eq!((all.seconds, all.guests, all.only), (60, 100, None));
        let idle = args("--only idle --guests 7 --seconds 12").unwrap();
        assert_eq!((idle.seconds, idle.guests, idle.only), (12, 7, Some(Part::Idle)));
        let day = args("--only day --dir /d").unwrap();
        assert_eq!((day.only, day.day), (Some(Part::Day), Some("/d".into())));
        assert!(args("--collect").unwrap().collect);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("--seconds", "a value is required for '--seconds <N>'"),
            ("--seconds 9", "9 is not in 10.."),
            ("--quick", "unexpected argument '--quick'"),
            ("--only", "possible values: idle, farm, day, scan, top"),
            ("--dir", "a value is required for '--dir <DIR>'"),
            ("--guests 0", "0 is not in 1.."),
            ("--threads", "a value is required for '--threads"),
        ] {
            let message = args(line).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn hidden_arguments_start_processes_of_the_benchmark() {
        assert_eq!(args("--threads 5").unwrap().threads, Some(5));
        let files = [PathBuf::from("/a"), PathBuf::from("--help")];
        assert_eq!(args("--preads /a --help").unwrap().preads, files);
    }
}
