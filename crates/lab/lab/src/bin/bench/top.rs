//! The cost of `pinhead top` at a terminal, next to a made-up manager of a hundred guests with
//! responses that change each second.

use crate::args::{self, Args};
use crate::clock::{now, sleep_until};
use crate::error::{Error, scratch};
use crate::subject::Subject;
use crate::sys;
use crate::table::{Row, figure};
use manager::control::{Answer, Ask, GuestRow, GuestRunState, HostRow, KsmRow, Passed, Ps};
use manager::control::{SizeAction, decode_request, encode_answer};
use model::{GuestField as G, GuestIdentity, Interval, Over};
use policy::arbiter::Clause;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The promise, in percent of one core.
const CPU_PERCENT: f64 = 1.0;
const GUESTS: usize = 100;
const SECONDS_MIN: u64 = 20;
/// Time of the first screens, which is not counted.
const BEGIN: Duration = Duration::from_secs(3);
/// Minutes of an interval of the synthetic day, and the intervals of a busy hour. The manager
/// returns these intervals in turn.
const MINUTES: u64 = 15;
const ANSWERED: std::ops::Range<usize> = 40..44;
/// Screens that show all guests.
const SCREENS: [&str; 2] = ["overview", "guests"];

pub fn rows(args: &Args) -> Result<Vec<Row>, Error> {
    let program = args::program()?;
    let scratch = scratch("top")?;
    let seconds = args.seconds.max(SECONDS_MIN);
    SCREENS.iter().map(|screen| row(&program, scratch.path(), screen, seconds)).collect()
}

fn row(program: &Path, dir: &Path, screen: &str, seconds: u64) -> Result<Row, Error> {
    let socket = dir.join(format!("{screen}.sock"));
    let manager = Arc::new(Manager::new());
    listen(&socket, &manager)?;
    let mut top = Top::start(program, &socket, screen, &dir.join("log"))?;
    top.watch(BEGIN)?;
    let (before, asked) = (top.subject.used()?, manager.asked());
    let took = top.watch(Duration::from_secs(seconds))?;
    let used = top.subject.used()? - before;
    let asked = manager.asked() - asked;
    let cpu = used.cpu_ns as f64 / took.as_nanos() as f64 * 100.0;
    let figure = figure(cpu, 2, " %");
    let name = format!("`pinhead top` of {GUESTS} guests, {screen}");
    Ok(Row::promised(&name, figure, CPU_PERCENT).note(&format!(
        "of one core, in {seconds} s; {asked} requests, {:.1} ms each",
        used.cpu_ns as f64 / 1e6 / asked.max(1) as f64
    )))
}

/// The program at its terminal. Dropping this value ends it.
struct Top {
    subject: Subject,
    ours: File,
}

impl Top {
    fn start(program: &Path, socket: &Path, screen: &str, log: &Path) -> Result<Top, Error> {
        let (ours, port) = sys::terminal().map_err(|e| Error::file(Path::new("/dev/ptmx"), e))?;
        let open = || OpenOptions::new().read(true).write(true).open(&port);
        let theirs = || open().map(Stdio::from).map_err(|e| Error::file(&port, e));
        let mut command = Command::new(program);
        command.args(["top", "--screen", screen, "--socket"]).arg(socket);
        command.stdin(theirs()?).stdout(theirs()?).env("LANG", "C.UTF-8");
        let subject = Subject::spawn("pinhead top", &mut command, log)?;
        Ok(Top { subject, ours })
    }

    /// Reads the program's output for this long, and returns the elapsed time.
    fn watch(&mut self, time: Duration) -> Result<Duration, Error> {
        let begin = now();
        let mut bytes = [0; 16 * 1024];
        while now() < begin + time {
            match self.ours.read(&mut bytes) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    sleep_until(now() + Duration::from_millis(20));
                }
                Err(error) => return Err(Error::file(Path::new("pinhead top"), error)),
            }
        }
        Ok(now() - begin)
    }
}

/// A manager with made-up responses.
struct Manager {
    intervals: Vec<Interval>,
    asked: AtomicI64,
}

impl Manager {
    fn new() -> Manager {
        let day = reports::testing::day(GUESTS, MINUTES);
        let intervals = day.intervals.get(ANSWERED).unwrap_or_default().to_vec();
        Manager { intervals, asked: AtomicI64::new(0) }
    }

    /// Returns the number of requests for an interval.
    fn asked(&self) -> i64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn interval(&self, number: i64) -> Interval {
        let place = usize::try_from(number).unwrap_or(0) % self.intervals.len().max(1);
        let mut interval = self.intervals.get(place).cloned().unwrap_or_default();
        interval.from_ms += number * 1_000;
        interval
    }

    fn answer(&self, ask: &Ask) -> Answer {
        let number = self.asked();
        match ask {
            Ask::Interval { processes } => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let interval = self.interval(number);
                Answer::Interval(Box::new(Passed::with(&interval, 900, processes)))
            }
            Ask::Status => Answer::Status(Box::default()),
            _ => Answer::Ps(self.ps(number)),
        }
    }

    fn ps(&self, number: i64) -> Ps {
        let interval = self.interval(number);
        let row = |(index, (who, over)): (usize, (&GuestIdentity, &Over<G>))| {
            let moves = number % 10 == index as i64 % 10;
            GuestRow {
                id: index as u64 + 1,
                name: who.name.clone(),
                uuid: who.uuid.clone(),
                class: Some(who.class.clone()),
                pid: who.pid,
                state: GuestRunState::Running,
                daemon: true,
                memory_bytes: over.get(G::Memory).unwrap_or_default(),
                actual_bytes: over.get(G::Actual),
                target_bytes: over.get(G::Target),
                max_bytes: over.get(G::Memory).unwrap_or_default(),
                shares: 100,
                resident_bytes: over.get(G::Resident),
                available_bytes: over.get(G::OwnAvailable),
                need_bytes: Some(0),
                psi_permille: Some(number as f64 % 7.0),
                age_ms: Some(900),
                action: Some(if moves { SizeAction::Grow } else { SizeAction::Hold }),
                clause: Some(Clause::SetPoint),
                reason: Some(format!("The host is {number} MiB above its set point")),
                ..GuestRow::default()
            }
        };
        let guests = interval.guests.iter().enumerate().map(row).collect();
        Ps { host: HostRow::default(), ksm: KsmRow::default(), guests }
    }
}

/// Serves requests in threads that end with this process.
fn listen(socket: &Path, manager: &Arc<Manager>) -> Result<(), Error> {
    let listener = UnixListener::bind(socket).map_err(|e| Error::file(socket, e))?;
    let manager = Arc::clone(manager);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let manager = Arc::clone(&manager);
            std::thread::spawn(move || serve(client, &manager));
        }
    });
    Ok(())
}

/// Serves a client until it hangs up or sends an invalid request.
fn serve(mut client: UnixStream, manager: &Manager) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).ok()? > 0 {
        let request = decode_request(line.trim_ascii_end()).ok()?;
        let answer = encode_answer(Some(request.id), &Ok(manager.answer(&request.ask)));
        client.write_all(&answer).ok()?;
        line.clear();
    }
    Some(())
}
