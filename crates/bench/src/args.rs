//! The command line and the environment.

use crate::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
Usage: bench [--seconds N] [--only idle|farm] [--guests N]
       bench --only day [--dir DIR]
       bench --only scan|top
       bench --collect
       bench --soak

Measures the guest daemon on this machine and prints each figure beside its promise.

  --seconds N  how long the daemon is watched, 10 at least (default 60)
  --collect    measure only what collecting costs the host; it needs no daemon
  --soak       boots guests, one after the other, and counts those that hang
  --only idle  instead: the host manager beside idle guests of 128 MiB, which takes some
               ten minutes and 150 MiB of memory a guest
  --only farm  instead: web servers from one template, of 96 MiB each; it sets up a memory
               cgroup, compressed memory and KSM, and puts them back (root)
  --guests N   how many of them (default 100)
  --only day   instead: a day of 100 guests recorded, and every report over it
  --only scan  only what it costs the daemon to find out who runs
  --only top   only what `pinhead top` of 100 guests costs
  --dir DIR    where the day is left, and used the next time

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

/// The shortest time that gives two windows to compare.
const MIN_SECONDS: u64 = 10;

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// How long the processes are watched.
    pub seconds: u64,
    /// Which part is measured.
    pub part: Part,
    /// Where the day of `--only day` is left.
    pub day: Option<PathBuf>,
    /// How many idle guests there are.
    pub guests: u32,
    /// Where the daemons are, by architecture.
    pub guest_dir: PathBuf,
    /// The original daemon, if it is here.
    pub original: Option<PathBuf>,
    /// Another build of our daemon, to compare with.
    pub before: Option<PathBuf>,
}

/// Which figures are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that any machine can give in minutes.
    Usual,
    /// The manager beside idle guests.
    Idle,
    /// The daemon's scan of tasks.
    Scan,
    /// The live screens.
    Top,
    /// A day of a hundred guests, and the reports over it.
    Day,
    /// Web servers from one template.
    Farm,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print the help.
    Help,
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
    mut words: impl Iterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Command, Error> {
    let (mut seconds, mut part, mut guests, mut day) = (60, Part::Usual, 100, None);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-h" | "--help") => return Ok(Command::Help),
            Some("--soak") => return Ok(Command::Soak),
            Some("--collect") => return Ok(Command::Collect),
            Some(PREADS) => return Ok(Command::Preads(words.map(PathBuf::from).collect())),
            Some(THREADS) => {
                let count = words.next().and_then(|n| n.to_str()?.parse().ok());
                let missing = || Error::Usage("--threads needs a number".into());
                return count.map(Command::Threads).ok_or_else(missing);
            }
            Some("--only") => match words.next().as_ref().and_then(|word| word.to_str()) {
                Some("idle") => part = Part::Idle,
                Some("farm") => part = Part::Farm,
                Some("day") => part = Part::Day,
                Some("scan") => part = Part::Scan,
                Some("top") => part = Part::Top,
                _ => {
                    return Err(Error::Usage(
                        "--only needs a part: idle, farm, day, scan or top".into(),
                    ));
                }
            },
            Some("--dir") => {
                let missing = || Error::Usage("--dir needs a directory".into());
                day = Some(words.next().map(PathBuf::from).ok_or_else(missing)?);
            }
            Some("--guests") => {
                let number = words.next().and_then(|n| n.to_str()?.parse().ok());
                let wrong = || Error::Usage("--guests needs a number, 1 at least".into());
                guests = number.filter(|n| *n >= 1).ok_or_else(wrong)?;
            }
            Some("--seconds") => {
                let number = words.next().and_then(|n| n.to_str()?.parse().ok());
                let number = number.filter(|n| *n >= MIN_SECONDS);
                let least = format!("--seconds needs a number, {MIN_SECONDS} at least");
                seconds = number.ok_or(Error::Usage(least))?;
            }
            _ => {
                let word = word.to_string_lossy();
                return Err(Error::Usage(format!("No such option: {word}; try --help")));
            }
        }
    }
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let guest_dir = set("PINHEAD_GUEST_DIR").ok_or_else(|| {
        Error::Usage(
            "PINHEAD_GUEST_DIR does not say where the daemons are; use `make bench`".into(),
        )
    })?;
    let (original, before) = (set("ORIGINAL"), set("BEFORE"));
    Ok(Command::Measure(Args { seconds, part, day, guests, guest_dir, original, before }))
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
        let (part, guests, day) = (Part::Usual, 100, None);
        let guest_dir = PathBuf::from("/g");
        let (original, before) = (None, None);
        let expected = Args { seconds: 60, part, day, guests, guest_dir, original, before };
        // A variable that is set to nothing is as good as not set.
        let found = command("", &[guest, ("ORIGINAL", "")]).unwrap();
        assert_eq!(found, Command::Measure(expected.clone()));
        let found = command("--seconds 12", &[guest, ("ORIGINAL", "/o")]).unwrap();
        let expected = Args { seconds: 12, original: Some("/o".into()), ..expected };
        assert_eq!(found, Command::Measure(expected.clone()));
        let found = command("--only idle --guests 7", &[guest]).unwrap();
        let idle = Args { seconds: 60, part: Part::Idle, guests: 7, original: None, ..expected };
        assert_eq!(found, Command::Measure(idle.clone()));
        let found = command("--only day --dir /d", &[guest]).unwrap();
        let day = Args { part: Part::Day, guests: 100, day: Some("/d".into()), ..idle };
        assert_eq!(found, Command::Measure(day));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("--seconds", "10 at least"),
            ("--seconds 9", "10 at least"),
            ("--quick", "No such option: --quick"),
            ("--only", "--only needs a part: idle, farm, day, scan or top"),
            ("--dir", "--dir needs a directory"),
            ("--guests 0", "1 at least"),
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
