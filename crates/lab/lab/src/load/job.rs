//! Work inside guests, timed by the guests' own clocks: claim, tar and build.
//!
//! ```text
//!   Job ─► script (one line of shell) ─► Exec ─► output ─► Report: seconds of each round
//! ```
//!
//! The scripts need only busybox. Each round prints a line with its start and end from
//! /proc/uptime, in hundredths of a second.

use crate::load::Error;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vm::{Clock, Output};

/// Maximum size of a claim, more than any guest has.
const CLAIM_MIB_MAX: u64 = 1 << 20;
/// Maximum number of rounds, each of which is a line of the output.
const ROUNDS_MAX: u64 = 1000;
/// Maximum number of files of the tar, and of units of the build.
const FILES_MAX: u64 = 100_000;
const FILE_KIB_MAX: u64 = 1 << 20;
const PARALLEL_MAX: u64 = 256;
/// Maximum number of guests that work at once. A thread waits for each of these guests.
const THREADS_MAX: usize = 48;
/// Interval at which the watcher is called.
const WATCH: Duration = Duration::from_millis(200);
const MARK: &str = "pinhead-load ";

/// The reason why a command could not be run.
pub type ExecError = Box<dyn std::error::Error + Send + Sync>;

/// A way to run a command in a guest.
pub trait Exec: Sync {
    /// Runs one line in the guest's shell and waits for its end. This method may be called for
    /// several guests at once.
    fn exec(&self, guest: &str, line: &str, timeout: Duration) -> Result<Output, ExecError>;
}

/// Contents of claimed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Zeros, freed at once, so that only the allocation of memory takes time.
    Passing,
    /// Bytes that cannot be shared or compressed, kept until [`Job::Release`].
    Held,
}

/// Work in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Touches this much memory.
    Claim {
        /// Size of the claim, in MiB.
        mib: u64,
        /// Contents of the memory.
        claim: Claim,
    },
    /// Frees the memory of a held claim.
    Release,
    /// Writes many files, archives and unpacks them, and reads the copies.
    Tar {
        /// Number of files.
        files: u32,
        /// Size of a file, in KiB.
        kib: u32,
        /// Number of rounds.
        rounds: u32,
        /// Number of times that a round reads the unpacked files.
        reads: u32,
    },
    /// Runs many small processes that make, sort and compress text, like a kernel's build.
    Build {
        /// Number of source files.
        units: u32,
        /// Number of parallel processes.
        parallel: u32,
        /// Number of rounds.
        rounds: u32,
    },
}

impl Job {
    /// Returns an error for invalid parameters.
    pub fn check(&self) -> Result<(), Error> {
        let bounds = match *self {
            Job::Claim { mib, .. } => vec![("size", mib, CLAIM_MIB_MAX)],
            Job::Release => Vec::new(),
            Job::Tar { files, kib, rounds, reads } => vec![
                ("files", files.into(), FILES_MAX),
                ("size of files", kib.into(), FILE_KIB_MAX),
                ("rounds", rounds.into(), ROUNDS_MAX),
                ("reads", reads.into(), ROUNDS_MAX),
            ],
            Job::Build { units, parallel, rounds } => vec![
                ("units", units.into(), FILES_MAX),
                ("processes", parallel.into(), PARALLEL_MAX),
                ("rounds", rounds.into(), ROUNDS_MAX),
            ],
        };
        match bounds.into_iter().find(|(_, value, max)| !(1..=*max).contains(value)) {
            None => Ok(()),
            Some((field, value, max)) => {
                Err(Error::Job { field, reason: format!("{value} is not between 1 and {max}") })
            }
        }
    }

    /// Returns the job's shell line, for a directory of the guest. Only the directory comes from
    /// outside, and the directory is quoted.
    pub fn script(&self, dir: &str) -> String {
        let dir = base::shell_word(dir);
        let begin = "now() { read -r t _ < /proc/uptime; echo $t; }; a=$(now); ";
        let end = format!("echo \"{MARK}$a $(now)\"");
        match *self {
            // The claim is dd's buffer. dd reads zeros, which touches each page of the buffer once.
            Job::Claim { mib, claim: Claim::Passing } => {
                // A single read takes at most 2 GiB, so several processes share a large claim.
                let each = mib.min(1024);
                let count = mib.div_ceil(each);
                format!(
                    "{begin}n=0; pids=; while [ $n -lt {count} ]; do \
                     dd if=/dev/zero of=/dev/null bs={each}M count=1 2> /dev/null & \
                     pids=\"$pids $!\"; n=$((n + 1)); done; \
                     for p in $pids; do wait $p || exit 1; done; {end}"
                )
            }
            Job::Claim { mib, claim: Claim::Held } => format!(
                "{begin}dd if=/dev/urandom of=/dev/shm/pinhead-claim bs=1M count={mib} \
                 2> /dev/null || {{ rm -f /dev/shm/pinhead-claim; exit 1; }}; {end}"
            ),
            Job::Release => format!("{begin}rm -f /dev/shm/pinhead-claim; {end}"),
            Job::Tar { files, kib, rounds, reads } => format!(
                "d={dir}/pinhead-tar; rm -rf \"$d\"; mkdir -p \"$d/in\" && cd \"$d\" || exit 1; \
                 trap 'cd /; rm -rf \"$d\"' EXIT; \
                 i=0; while [ $i -lt {files} ]; do \
                 dd if=/dev/urandom of=in/$i bs=1k count={kib} 2> /dev/null || exit 1; \
                 i=$((i + 1)); done; \
                 r=0; while [ $r -lt {rounds} ]; do {begin}\
                 tar cf all.tar in && rm -rf out && mkdir out && tar xf all.tar -C out || exit 1; \
                 k=0; while [ $k -lt {reads} ]; do \
                 cat out/in/* | md5sum > /dev/null || exit 1; k=$((k + 1)); done; \
                 {end}; r=$((r + 1)); done"
            ),
            // Each of the n workers processes every n-th unit: it makes, changes, sorts and
            // compresses a source file.
            Job::Build { units, parallel, rounds } => format!(
                "d={dir}/pinhead-build; rm -rf \"$d\"; mkdir -p \"$d\" && cd \"$d\" || exit 1; \
                 trap 'cd /; rm -rf \"$d\"' EXIT; \
                 unit() {{ awk -v s=$1 'BEGIN {{ srand(s); \
                 for (i = 0; i < 400; i++) print int(rand() * 1000000), i }}' > $1.c && \
                 sed 's/7/seven/g' $1.c | sort | gzip -c > $1.o && md5sum $1.o > $1.d; }}; \
                 work() {{ u=$1; while [ $u -lt {units} ]; do unit $u || exit 1; \
                 u=$((u + {parallel})); done; }}; \
                 r=0; while [ $r -lt {rounds} ]; do {begin}pids=; w=0; \
                 while [ $w -lt {parallel} ]; do (work $w) & pids=\"$pids $!\"; w=$((w + 1)); \
                 done; for p in $pids; do wait $p || exit 1; done; \
                 cat *.o | gzip -dc | sort | md5sum > /dev/null || exit 1; rm -f *.[cod]; {end}; \
                 r=$((r + 1)); done"
            ),
        }
    }

    /// Returns the number of rounds that the output must have.
    fn rounds(&self) -> usize {
        match *self {
            Job::Claim { .. } | Job::Release => 1,
            Job::Tar { rounds, .. } | Job::Build { rounds, .. } => rounds as usize,
        }
    }
}

/// The reason why a job has no durations.
#[derive(Debug, thiserror::Error)]
pub enum JobFailure {
    #[error("The command could not be run in the guest")]
    Exec(#[source] ExecError),
    #[error("The command ended with status {code}{}", said(.text))]
    Status {
        code: i32,
        /// End of the output, which is untrusted and must be escaped before display.
        text: String,
    },
    /// The output has too few or too many valid rounds.
    #[error("The command reported {found} of {expected} rounds")]
    Output { expected: usize, found: usize },
}

fn said(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(": {text:?}"),
    }
}

/// The result of a job in one guest.
#[derive(Debug)]
pub struct Report {
    /// Name of the guest.
    pub guest: String,
    /// Seconds of each round, by the guest's own clock.
    pub rounds_s: Result<Vec<f64>, JobFailure>,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Number of guests that have ended the job.
    pub ended: usize,
}

/// Runs a job in these guests, in up to 48 guests at once, and waits for all. `dir` is a writable
/// directory of the guests. `watch` is called several times a second.
pub fn run(
    exec: &dyn Exec,
    guests: &[String],
    job: &Job,
    dir: &str,
    timeout: Duration,
    watch: &mut dyn FnMut(Progress),
) -> Result<Vec<Report>, Error> {
    job.check()?;
    if !dir.starts_with('/') || dir.contains(['\n', '\0']) {
        let reason = format!("{dir:?} is not one line that begins with a slash");
        return Err(Error::Job { field: "directory", reason });
    }
    let line = job.script(dir);
    let next = Mutex::new(guests.iter().enumerate());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = |sender: Sender<(usize, Report)>| {
        while let Some((n, guest)) = take() {
            let rounds_s = match exec.exec(guest, &line, timeout) {
                Ok(output) => read(&output, job.rounds()),
                Err(error) => Err(JobFailure::Exec(error)),
            };
            // The send cannot fail, because the receiver waits for every sender.
            let _ = sender.send((n, Report { guest: guest.clone(), rounds_s }));
        }
    };
    let clock = Clock::new();
    let mut reports = Vec::with_capacity(guests.len());
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..guests.len().min(THREADS_MAX) {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(WATCH) {
                Ok(report) => reports.push(report),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let elapsed = Duration::from_micros(clock.us());
            watch(Progress { elapsed, ended: reports.len() });
        }
    });
    reports.sort_by_key(|(n, _)| *n);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}

/// Parses the rounds in a guest's output, which is untrusted like all guest data.
pub fn read(output: &Output, rounds: usize) -> Result<Vec<f64>, JobFailure> {
    /// Maximum length of a failed command's output in the error.
    const SHOWN_CHARS: usize = 400;
    if output.code != 0 {
        let skipped = output.text.chars().count().saturating_sub(SHOWN_CHARS);
        let text = output.text.chars().skip(skipped).collect();
        return Err(JobFailure::Status { code: output.code, text });
    }
    let lines = output.text.lines().filter_map(|line| line.strip_prefix(MARK));
    let found: Vec<f64> = lines.filter_map(round).take(rounds.saturating_add(1)).collect();
    if found.len() == rounds {
        return Ok(found);
    }
    Err(JobFailure::Output { expected: rounds, found: found.len() })
}

/// Returns the seconds between two times of /proc/uptime.
fn round(text: &str) -> Option<f64> {
    let hundredths = |text: &str| {
        let (whole, part) = text.split_once('.')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() != 2 {
            return None;
        }
        whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part.parse().ok()?)
    };
    let (start, end) = text.trim().split_once(' ')?;
    Some(hundredths(end)?.checked_sub(hundredths(start)?)? as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, text: &str) -> Output {
        Output { code, text: text.to_owned() }
    }

    #[test]
    fn rounds_are_read_and_invalid_ones_are_missing() {
        let two = said(0, "noise\npinhead-load 10.50 12.75\npinhead-load 13.00 13.00\n");
        assert_eq!(read(&two, 2).unwrap(), [2.25, 0.0]);
        for (text, found) in [
            ("", 0),
            ("pinhead-load 12.00 11.00\n", 0),
            ("pinhead-load 1 2\n", 0),
            ("pinhead-load 1.00 99999999999999999999.00\n", 0),
            ("pinhead-load 1.00 -2.00\n", 0),
            ("pinhead-load 1.00 2.00\npinhead-load 1.00 2.00\n", 2),
        ] {
            let failure = read(&said(0, text), 1).unwrap_err();
            let JobFailure::Output { expected: 1, found: reported } = failure else { panic!() };
            assert_eq!(reported, found, "{text}");
        }
        let failure = read(&said(1, &"x".repeat(5000)), 1).unwrap_err().to_string();
        assert!(failure.len() < 500 && failure.contains("status 1"), "{failure}");
    }

    #[test]
    fn jobs_have_limits_and_one_line_of_shell() {
        let jobs = [
            Job::Claim { mib: 500, claim: Claim::Passing },
            Job::Claim { mib: 500, claim: Claim::Held },
            Job::Release,
            Job::Tar { files: 10, kib: 4, rounds: 2, reads: 3 },
            Job::Build { units: 8, parallel: 3, rounds: 1 },
        ];
        for job in jobs {
            job.check().unwrap();
            let line = job.script("/it's/here");
            assert!(!line.contains('\n'), "{line}");
            assert!(!line.contains("/it's"), "quoted: {line}");
        }
        for job in [
            Job::Claim { mib: 0, claim: Claim::Held },
            Job::Tar { files: 1, kib: 1, rounds: 5000, reads: 1 },
            Job::Build { units: 8, parallel: 0, rounds: 1 },
        ] {
            assert!(job.check().is_err(), "{job:?}");
        }
    }
}
