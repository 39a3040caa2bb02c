//! The cost of collecting and recording samples of a hundred guests once a second.
//!
//! The guests are processes with as many threads as an emulator has. Reading a process costs the
//! same whatever the process does, so these processes sleep. The collector reads them first as
//! running guests, and then as sleeping guests. Rounds are a second apart, as in the manager.
//! Without pauses a round would find everything in the CPU's caches, and would cost only a fifth.
//! The recorded counters grow by a different amount each second, like the counters of busy guests.

use crate::args;
use crate::clock::{now, sleep_until};
use crate::error::{Error, scratch};
use crate::meter::{self, Used};
use crate::subject::Subject;
use crate::table::{Row, figure};
use base::Rng;
use collect::{Care, Collector, GuestProcess};
use hypervisor::ProcessId;
use model::{GuestField, GuestIdentity, Moment};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use store::{Keep, Recorder};

const GUESTS: u64 = 100;
/// Threads of an emulator: two virtual CPUs, its main loop, RCU, a worker.
const THREADS_EACH: usize = 5;
/// Number of virtual CPUs among these threads.
const VCPUS: usize = 2;
/// Measured rounds, enough to include the reads that are made every fifteen seconds.
const ROUNDS: u64 = 30;
/// Time limit for the start of a process and all of its threads.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit of open files, higher than needed.
const FILES_MAX: usize = 100_000;

/// Counters of a busy guest, and their maximum growth per second.
const GROWING: &[(GuestField, u64)] = &[
    (GuestField::VcpuRun, 500_000_000),
    (GuestField::VcpuDelay, 90_000_000),
    (GuestField::VcpuDispatches, 3_000),
    (GuestField::OtherRun, 20_000_000),
    (GuestField::OtherDelay, 9_000_000),
    (GuestField::OtherDispatches, 900),
    (GuestField::MinorFaults, 500),
    (GuestField::ReadBytes, 1 << 20),
    (GuestField::WriteBytes, 1 << 20),
    (GuestField::ReadCalls, 500),
    (GuestField::WriteCalls, 500),
    (GuestField::OwnFree, 100 << 20),
    (GuestField::OwnAvailable, 100 << 20),
    (GuestField::OwnCached, 100 << 20),
    (GuestField::OwnBusy, 100),
    (GuestField::OwnIdle, 100),
];
/// Start time. A minute ends in the middle of the rounds, so every run writes the rows of a minute
/// exactly once.
const FROM_MS: i64 = 1_800_000_000_000 - 15_000;

/// Promised maximum costs, as multiples of the cost of reading the same files without any
/// processing.
const RUN_TIMES: f64 = 1.5;
const ASLEEP_TIMES: f64 = 1.0;
const RECORDED_TIMES: f64 = 2.5;
/// Time from a round to the bare reads.
const HALF: Duration = Duration::from_millis(500);

/// Runs as a guest's process, with threads that sleep until the process is ended from outside.
pub fn be_guest(threads: usize) -> ! {
    for _ in 1..threads {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
    loop {
        std::thread::park();
    }
}

pub fn rows() -> Result<Vec<Row>, Error> {
    let us = args::this_program()?;
    vm::raise_files().map_err(|source| Error::file(Path::new("RLIMIT_NOFILE"), source))?;
    let mut guests = Vec::new();
    for _ in 0..GUESTS {
        let mut command = Command::new(&us);
        command.args(["--threads", &THREADS_EACH.to_string()]);
        guests.push(Subject::start("guest", &mut command, Path::new("/dev/null"))?);
    }
    let known = guests.iter().map(|guest| known(guest.id())).collect::<Result<Vec<_>, _>>()?;
    let awake = measure(&known, Care::AsIfAwake, None)?;
    let asleep = measure(&known, Care::Usual, None)?;
    let scratch = scratch("collect")?;
    let recorder = Recorder::new(scratch.path(), Keep::USUAL);
    let recorded = measure(&known, Care::AsIfAwake, Some(recorder))?;
    let note = format!(
        "{GUESTS} processes of {THREADS_EACH} threads, {VCPUS} of them virtual CPUs, {ROUNDS} \
         rounds a second apart; {} files stay open",
        awake.files
    );
    Ok(vec![
        awake.row("collecting, all guests run, against bare reads", RUN_TIMES).note(&note),
        asleep.row("the same, all guests sleep", ASLEEP_TIMES),
        recorded
            .row("the same, all guests run, with recording", RECORDED_TIMES)
            .note("rows of one minute, written every thirty seconds to the temporary directory"),
    ])
}

fn known(pid: u32) -> Result<GuestProcess, Error> {
    let tasks = format!("/proc/{pid}/task");
    let until = now() + PATIENCE;
    let what = |what| Error::Content { path: tasks.clone().into(), what };
    let mut tids = Vec::new();
    while tids.len() < THREADS_EACH {
        if now() > until {
            return Err(what("a thread for each that was asked for"));
        }
        sleep_until(now() + Duration::from_millis(5));
        let entries = std::fs::read_dir(&tasks).map_err(|e| Error::file(Path::new(&tasks), e))?;
        tids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    }
    let name = format!("guest-{pid}");
    Ok(GuestProcess {
        id: u64::from(pid),
        who: GuestIdentity { name, ..GuestIdentity::default() }.into(),
        process: Some(ProcessId::of(pid).ok_or_else(|| what("a process"))?),
        vcpu_tids: tids.get(1..=VCPUS).unwrap_or_default().into(),
        vcpus_ran: Vec::new(),
    })
}

/// Advances the guests by a second.
fn later(known: &mut Moment, rng: &mut Rng) {
    for row in known.guests.values_mut() {
        for (field, most) in GROWING {
            let before = row.get(*field).unwrap_or(1 << 30);
            row.set(*field, Some(before + rng.within(0, most - 1)));
        }
    }
}

/// CPU use of a round, and of the bare reads half a second later. The bare reads are one `pread` of
/// each file that the collector keeps open.
struct Cost {
    percent: f64,
    bare_percent: f64,
    files: usize,
}

impl Cost {
    fn row(&self, name: &str, at_most: f64) -> Row {
        let percents =
            format!("{:.3} % of a CPU; the bare reads {:.3} %", self.percent, self.bare_percent);
        Row::promised(name, figure(self.percent / self.bare_percent, 2, "x"), at_most)
            .note(&percents)
    }
}

/// Opens a second descriptor for each file below /proc and /sys that this process has open.
fn kernel_files() -> Result<Vec<File>, Error> {
    let own = Path::new("/proc/self/fd");
    let entries = fs::read_dir(own).map_err(|e| Error::file(own, e))?;
    let targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_kernels = |path: &PathBuf| ["/proc", "/sys"].iter().any(|root| path.starts_with(root));
    Ok(targets.filter(is_kernels).filter_map(|path| File::open(path).ok()).collect())
}

fn measure(
    guests: &[GuestProcess],
    care: Care,
    mut recorder: Option<Recorder>,
) -> Result<Cost, Error> {
    let mut known = Moment::default();
    for guest in guests {
        let row = known.guests.entry(GuestIdentity::clone(&guest.who)).or_default();
        row.set(GuestField::Memory, Some(1 << 30));
    }
    let mut rng = Rng::new(1);
    let mut collector = Collector::open(Path::new("/"), FILES_MAX);
    let mut round = |number: u64| {
        let now_ms = number * 1000;
        known.at_ms = FROM_MS + i64::try_from(now_ms).unwrap_or(0);
        if recorder.is_some() {
            later(&mut known, &mut rng);
        }
        let moment = collector.collect(known.clone(), guests.to_vec(), now_ms, care);
        let news = recorder.as_mut().and_then(|recorder| recorder.record(&moment));
        match news {
            Some(_) => Err(Error::Content { path: "recordings".into(), what: "all moments" }),
            None => Ok(moment),
        }
    };
    // The first round opens everything.
    let moment = round(0)?;
    let resident = |row: &model::Row<GuestField>| row.get(GuestField::Resident);
    if moment.guests.len() as u64 != GUESTS || moment.guests.values().any(|r| resident(r).is_none())
    {
        return Err(Error::Content { path: "/proc".into(), what: "every guest's memory" });
    }
    let (us, files) = (std::process::id(), kernel_files()?);
    let mut buffer = vec![0; 64 * 1024];
    let (mut used, mut bare) = (Used::default(), Used::default());
    let start = now();
    for number in 1..=ROUNDS {
        sleep_until(start + Duration::from_secs(number));
        let before = meter::used(us)?;
        round(number)?;
        let after = meter::used(us)?;
        used = [used, after - before].into_iter().sum();
        sleep_until(start + Duration::from_secs(number) + HALF);
        let before = meter::used(us)?;
        for file in &files {
            // A directory returns no bytes.
            let _ = file.read_at(&mut buffer, 0);
        }
        bare = [bare, meter::used(us)? - before].into_iter().sum();
    }
    let percent = |used: Used| used.cpu_ns as f64 / 1e7 / ROUNDS as f64;
    let (percent, bare_percent) = (percent(used), percent(bare));
    Ok(Cost { percent, bare_percent, files: collector.files() })
}
