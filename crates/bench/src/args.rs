//! The command line and the environment.

use crate::error::Error;
use clap::{Parser, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const ENVIRONMENT: &str = "\
Environment:
  SOAK_COUNT, SOAK_S390X_COUNT
                     guests that --soak boots (default 1000 and 300)
  SOAK_AT_ONCE       of them at the same time (default 4)
  SOAK_CPUS          CPUs of each (default 4)
  SOAK_LIMIT         seconds after which a boot counts as a hang (default 300)
  SOAK_KERNEL        more words for their kernels: maxcpus=64 lets all CPUs start in the boot,
                     as without the remedy for QEMU before 8.1
  SOAK_FLIPS         instead of a boot alone, so many changes of the kernel's code while all
                     CPUs run it: on QEMU before 8.1 most guests hang
  PINHEAD_GUEST_DIR  where the daemons are: x86_64/pinheadd and s390x/pinheadd
  ORIGINAL           IBM's cpuplugd, built for this machine, to measure beside ours; this
                     needs root, for a mount namespace in which it cannot change anything
  BEFORE             another pinheadd, to measure beside ours

The exit status is 0 when all could be measured, whether or not a promise is kept.
";

/// The first word of a process that only reads files: see [`crate::baseline`].
pub const PREADS: &str = "--preads";

/// The first word of a process that stands for a guest's: see [`crate::collect`].
pub const THREADS: &str = "--threads";

/// Measures the guest daemon on this machine and prints each figure beside its promise
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "bench", after_help = ENVIRONMENT)]
pub struct Args {
    /// How long the daemon is watched, 10 seconds at least: two windows to compare
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(10..))]
    pub seconds: u64,
    /// Measure this instead
    #[arg(long, value_enum)]
    pub only: Option<Part>,
    /// Measure only what collecting costs the host; it needs no daemon
    #[arg(long)]
    collect: bool,
    /// Boot guests, one after the other, and count those that hang
    #[arg(long, conflicts_with = "collect")]
    soak: bool,
    /// Where the day is left, and used the next time
    #[arg(long = "dir", value_name = "DIR")]
    pub day: Option<PathBuf>,
    /// How many idle guests or web servers there are
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub guests: u32,
    /// Where the daemons are, by architecture.
    #[arg(skip)]
    pub guest_dir: PathBuf,
    /// The original daemon, if it is here.
    #[arg(skip)]
    pub original: Option<PathBuf>,
    /// Another build of our daemon, to compare with.
    #[arg(skip)]
    pub before: Option<PathBuf>,
}

/// A part that is measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The host manager beside idle guests of 128 MiB: ten minutes, 150 MiB of memory a guest
    Idle,
    /// Web servers of 96 MiB from one template, with a memory cgroup, compressed memory and KSM,
    /// which are put back (root)
    Farm,
    /// A day of 100 guests recorded, and every report over it
    Day,
    /// What it costs the daemon to find out who runs
    Scan,
    /// What `pinhead top` of 100 guests costs
    Top,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print the help.
    Help(String),
    /// Be the process that the daemon is compared with.
    Preads(Vec<PathBuf>),
    /// Be a process with so many threads.
    Threads(usize),
    /// Measure only what collecting costs.
    Collect,
    /// Boot guests, one after the other.
    Soak,
    /// Measure.
    Measure(Args),
}

/// Reads the command line of this process.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Command, Error> {
    parse_with(words, |name| std::env::var_os(name))
}

fn parse_with(
    words: impl Iterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Command, Error> {
    let words: Vec<OsString> = words.collect();
    match words.first().and_then(|word| word.to_str()) {
        Some(PREADS) => {
            return Ok(Command::Preads(words.into_iter().skip(1).map(PathBuf::from).collect()));
        }
        Some(THREADS) => {
            let count = words.get(1).and_then(|count| count.to_str()?.parse().ok());
            let missing = || Error::Usage("--threads needs a number".into());
            return count.map(Command::Threads).ok_or_else(missing);
        }
        _ => {}
    }
    let args = match Args::try_parse_from(std::iter::once("bench".into()).chain(words)) {
        Ok(args) if args.soak => return Ok(Command::Soak),
        Ok(args) if args.collect => return Ok(Command::Collect),
        Ok(args) => args,
        Err(error) if error.use_stderr() => return Err(Error::Usage(error.to_string())),
        Err(help) => return Ok(Command::Help(help.to_string())),
    };
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let guest_dir = set("PINHEAD_GUEST_DIR").ok_or_else(|| {
        Error::Usage(
            "PINHEAD_GUEST_DIR does not say where the daemons are; use `make bench`".into(),
        )
    })?;
    Ok(Command::Measure(Args {
        guest_dir,
        original: set("ORIGINAL"),
        before: set("BEFORE"),
        ..args
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str, variables: &[(&str, &str)]) -> Result<Command, Error> {
        parse_with(line.split_whitespace().map(OsString::from), |name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_environment_says_what_is_measured() {
        let guest = ("PINHEAD_GUEST_DIR", "/g");
        let expected = Args {
            seconds: 60,
            only: None,
            collect: false,
            soak: false,
            day: None,
            guests: 100,
            guest_dir: PathBuf::from("/g"),
            original: None,
            before: None,
        };
        // A variable that is set to nothing is as good as not set.
        let found = command("", &[guest, ("ORIGINAL", "")]).unwrap();
        assert_eq!(found, Command::Measure(expected.clone()));
        let found = command("--seconds 12", &[guest, ("ORIGINAL", "/o")]).unwrap();
        let expected = Args { seconds: 12, original: Some("/o".into()), ..expected };
        assert_eq!(found, Command::Measure(expected.clone()));
        let found = command("--only idle --guests 7", &[guest]).unwrap();
        let idle =
            Args { seconds: 60, only: Some(Part::Idle), guests: 7, original: None, ..expected };
        assert_eq!(found, Command::Measure(idle.clone()));
        let found = command("--only day --dir /d", &[guest]).unwrap();
        let day = Args { only: Some(Part::Day), guests: 100, day: Some("/d".into()), ..idle };
        assert_eq!(found, Command::Measure(day));
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
            ("", "PINHEAD_GUEST_DIR"),
        ] {
            match command(line, &[]) {
                Err(Error::Usage(message)) => assert!(message.contains(part), "{message}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn collecting_is_measured_without_a_daemon() {
        assert_eq!(command("--collect", &[]).unwrap(), Command::Collect);
        assert_eq!(command("--threads 5", &[]).unwrap(), Command::Threads(5));
        assert!(command("--threads", &[]).is_err());
    }

    #[test]
    fn the_hidden_word_takes_all_that_follows() {
        let files = vec![PathBuf::from("/a"), PathBuf::from("--help")];
        assert_eq!(command("--preads /a --help", &[]).unwrap(), Command::Preads(files));
    }
}
