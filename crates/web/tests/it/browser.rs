//! A server with made-up guests, and a client that sends what it is told to.

use jiff::tz::TimeZone;
use manager::control::{
    Answer, Ask, Entitled, Failure, GuestRow, GuestRunState, Passed, Ps, Reserved, Status,
};
use model::{GuestField, GuestIdentity, HostField, Interval, Over, Row};
use reports::{HostData, testing};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use web::{Certificate, Fleet, Glance, Glanced, Hosts, Lines, Listen, Settings, Sources, Wanted};
use why::when::Now;

/// Longer than any answer takes.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const GUESTS: usize = 100;
const MINUTE_MS: i64 = 60_000;
const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// What the manager was asked to do.
pub type Orders = Arc<Mutex<Vec<String>>>;

/// A server.
pub struct Server {
    pub address: SocketAddr,
    /// The addresses that it tells: each opens the pages once.
    told: Receiver<String>,
    pub orders: Orders,
    /// How often the manager was asked what is now.
    pub asked: Arc<AtomicUsize>,
}

/// What came back.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub heads: BTreeMap<String, String>,
    pub body: String,
}

/// The made-up guests: the first has a name that would be markup.
pub fn name(number: usize) -> String {
    if number == 0 { "<script>alert(1)</script>".into() } else { format!("web{number}") }
}

fn who(number: usize) -> GuestIdentity {
    GuestIdentity {
        name: name(number),
        class: if number.is_multiple_of(2) { "web" } else { "db" }.into(),
        // Started by hand: a UUID of zeros is none.
        uuid: NO_UUID.into(),
        pid: Some(1_000 + u32::try_from(number).expect("a number")),
        ..GuestIdentity::default()
    }
}

fn seen(number: usize, length_ms: u64) -> Over<GuestField> {
    let mut row = Row::default();
    let share = (number as u64 + 1) * 1_000;
    row.set(GuestField::VcpuRun, Some(share * length_ms));
    row.set(GuestField::OtherRun, Some(0));
    row.set(GuestField::VcpuDelay, Some(share * length_ms / 10));
    row.set(GuestField::Vcpus, Some(1));
    row.set(GuestField::Actual, Some((64 + number as u64) << 20));
    row.set(GuestField::Private, Some((20 + number as u64) << 20));
    Over { covered_ms: length_ms, row }
}

/// What happened in a time.
pub fn interval(from_ms: i64, length_ms: u64) -> Interval {
    interval_of(GUESTS, from_ms, length_ms)
}

/// The same to so many guests.
fn interval_of(guests: usize, from_ms: i64, length_ms: u64) -> Interval {
    let mut host = Row::default();
    host.set(HostField::Cpus, Some(2));
    host.set(HostField::User, Some(length_ms * 500_000));
    host.set(HostField::System, Some(length_ms * 100_000));
    host.set(HostField::Total, Some(24 << 30));
    host.set(HostField::Available, Some(12 << 30));
    host.set(HostField::Free, Some(10 << 30));
    host.set(HostField::Anonymous, Some(6 << 30));
    host.set(HostField::Cached, Some(4 << 30));
    Interval {
        from_ms,
        length_ms,
        host: Over { covered_ms: length_ms, row: host },
        guests: (0..guests).map(|number| (who(number), seen(number, length_ms))).collect(),
        ..Interval::default()
    }
}

fn ps() -> Ps {
    let guest = |number: usize| GuestRow {
        id: number as u64,
        name: name(number),
        uuid: NO_UUID.into(),
        pid: who(number).pid,
        class: Some(who(number).class),
        state: GuestRunState::Running,
        asleep: number > 50,
        memory_bytes: 256 << 20,
        min_bytes: 64 << 20,
        max_bytes: 256 << 20,
        shares: 100,
        reason: Some("nobody needs <anything>".into()),
        ..GuestRow::default()
    };
    Ps {
        host: Default::default(),
        ksm: Default::default(),
        guests: (0..GUESTS).map(guest).collect(),
    }
}

fn recorded(wanted: &Wanted) -> Result<Vec<HostData>, String> {
    if wanted.from_ms < testing::DAY_MS {
        return Err("There are no recordings in /var/lib/pinhead/recordings".into());
    }
    let step = wanted.step_ms.unsigned_abs();
    let mut host = HostData { name: "host<1>".into(), ..HostData::default() };
    let mut at_ms = wanted.from_ms;
    while at_ms < wanted.to_ms && host.intervals.len() < 2_000 {
        host.add(interval(at_ms, step));
        at_ms += wanted.step_ms;
    }
    Ok(vec![host])
}

/// What an engine has of three hosts, of which the last was killed five minutes ago.
fn pushed(wanted: &Wanted) -> Result<Vec<HostData>, String> {
    let all = ["one", "two", "three & last"];
    let meant = all.iter().filter(|name| wanted.host.as_ref().is_none_or(|host| host == *name));
    let hosts: Vec<HostData> = meant
        .map(|name| {
            let mut host = recorded(wanted)?.remove(0);
            host.name = (*name).into();
            if name.starts_with("three") {
                host.intervals.retain(|interval| interval.from_ms < now().ms - 5 * MINUTE_MS);
            }
            for interval in &mut host.intervals {
                let left_ms = (now().ms - interval.from_ms).min(wanted.step_ms);
                interval.host.covered_ms = left_ms.unsigned_abs();
            }
            Ok(host)
        })
        .collect::<Result<_, String>>()?;
    Ok(hosts)
}

/// The same, added up.
struct Engine;

impl Hosts for Engine {
    fn glance(&self, wanted: &Glance) -> Result<Fleet, String> {
        let Glance { from_ms, to_ms, .. } = *wanted;
        let asked = Wanted {
            from_ms,
            to_ms,
            step_ms: MINUTE_MS,
            host: None,
            guests: Vec::new(),
            processes: Vec::new(),
        };
        let glanced = |host: HostData| {
            let mut whole = Interval::default();
            let known = host.intervals.iter().filter(|one| one.host.covered_ms > 0);
            known.for_each(|interval| whole.add(interval));
            let covered_ms = whole.host.covered_ms;
            let mut together = Over { covered_ms, ..Over::default() };
            whole.guests.values().for_each(|over| together.add_concurrent(over));
            let mut loudest: Vec<_> = whole.guests.into_iter().collect();
            loudest.retain(|(who, _)| format!("{} {}", who.name, who.class).contains(&wanted.like));
            let all = loudest.len();
            loudest.sort_by_key(|(_, over)| Reverse(over.get(GuestField::VcpuRun)));
            // Of three hosts that are alike each has a third.
            loudest.truncate(wanted.most / 3);
            let host = Glanced {
                name: host.name,
                last_ms: whole.from_ms + covered_ms.cast_signed(),
                spacing_ms: 5_000,
                guests: all as u64,
                over: whole.host,
                together,
                loudest,
            };
            (host, all as u64)
        };
        let (hosts, all): (Vec<Glanced>, Vec<u64>) =
            pushed(&asked)?.into_iter().map(glanced).unzip();
        Ok(Fleet { hosts, found: all.iter().sum() })
    }

    fn lines(&self, wanted: &Lines) -> Result<BTreeMap<String, Vec<Over<HostField>>>, String> {
        let over = interval(0, wanted.step_ms.unsigned_abs()).host;
        Ok(wanted.hosts.iter().map(|host| (host.clone(), vec![over.clone(); 24])).collect())
    }
}

fn now() -> Now {
    Now { ms: testing::DAY_MS + 720 * MINUTE_MS, zone: TimeZone::UTC }
}

/// Starts a server over recordings of so many guests, without a manager.
pub fn start_recorded(guests: usize) -> Server {
    let recorded = move |wanted: &Wanted| {
        let mut hosts = recorded(wanted)?;
        for interval in &mut hosts[0].intervals {
            *interval = interval_of(guests, interval.from_ms, interval.length_ms);
        }
        Ok(hosts)
    };
    let sources = Sources { recorded: Box::new(recorded), hosts: None, ..sources_of_fleet() };
    serve(Allowed::default(), sources, Orders::default(), Arc::default())
}

/// How many read recordings at once.
#[derive(Clone, Default)]
pub struct Reads(Arc<(Mutex<(usize, usize)>, Condvar)>);

impl Reads {
    fn change(&self, change: impl FnOnce(&mut (usize, usize))) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// Waits until so many do.
    pub fn until(&self, count: usize) {
        let now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, _) = self
            .0
            .1
            .wait_timeout_while(now, PATIENCE, |(now, _)| *now < count)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(now.0 >= count, "{} read", now.0);
    }

    /// The most that ever did.
    pub fn most(&self) -> usize {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Starts a server whose recordings are read once the last value is dropped.
pub fn start_slow() -> (Server, Reads, Sender<()>) {
    let (reads, (open, gate)) = (Reads::default(), channel::<()>());
    let (count, closed) = (reads.clone(), Arc::new((Mutex::new(true), Condvar::new())));
    let opened = closed.clone();
    std::thread::spawn(move || {
        // It says nothing, and is dropped.
        let _ = gate.recv();
        *opened.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        opened.1.notify_all();
    });
    let slow = move |wanted: &Wanted| {
        count.change(|(now, most)| {
            *now += 1;
            *most = (*most).max(*now);
        });
        let is_closed = closed.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(closed.1.wait_while(is_closed, |closed| *closed));
        count.change(|(now, _)| *now -= 1);
        recorded(wanted)
    };
    let sources = Sources { recorded: Box::new(slow), hosts: None, ..sources_of_fleet() };
    (serve(Allowed::default(), sources, Orders::default(), Arc::default()), reads, open)
}

/// What a farm tells of itself.
const FARMS: &str = include_str!("fixtures/farms.json");

/// What hosts have pushed to an engine, without a manager.
fn sources_of_fleet() -> Sources {
    Sources {
        manager: None,
        recorded: Box::new(pushed),
        hosts: Some(Box::new(Engine)),
        journal: None,
        tune: None,
        farms: None,
        clock: Box::new(now),
    }
}

/// Starts a server over what hosts have pushed to an engine.
pub fn start_fleet() -> Server {
    serve(Allowed::default(), sources_of_fleet(), Orders::default(), Arc::default())
}

/// Settings without anything special.
pub fn settings() -> Settings {
    Settings {
        listen: Listen::parse("127.0.0.1:0").expect("a place"),
        names: Vec::new(),
        certificate: None,
        password_file: None,
        allow_changes: false,
        sources: sources_of_fleet(),
        tell: Box::new(|_| {}),
    }
}

/// Starts the same for who knows a password, with or without TLS.
pub fn start_guarded(password_file: &Path, certificate: Option<Certificate>) -> Server {
    let allowed =
        Allowed { password_file: Some(password_file.into()), certificate, changes: false };
    serve(allowed, sources_of_fleet(), Orders::default(), Arc::default())
}

/// Serves the same at a unix socket, for those who ask by these names, until the process ends; or
/// why not.
pub fn serve_at(path: &Path, names: &[&str], password_file: Option<&Path>) -> Receiver<web::Error> {
    let settings = Settings {
        listen: Listen::parse(&format!("unix:{}", path.display())).expect("a place"),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        password_file: password_file.map(Path::to_owned),
        tell: Box::new(|address| panic!("a socket has no address to open: {address}")),
        ..settings()
    };
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        if let Err(error) = web::serve(settings) {
            let _ = sender.send(error);
        }
    });
    ended
}

/// Starts a server; with or without changes.
pub fn start(allow_changes: bool) -> Server {
    let orders = Orders::default();
    let asked = Arc::new(AtomicUsize::new(0));
    let (log, count) = (orders.clone(), asked.clone());
    let manager = move |ask: &Ask| -> Result<Answer, String> {
        match ask {
            Ask::Interval { .. } => {
                count.fetch_add(1, Ordering::Relaxed);
                let second = interval(testing::DAY_MS + MINUTE_MS, 1_000);
                Ok(Answer::Interval(Box::new(Passed::of(&second, 1_000))))
            }
            Ask::Ps => Ok(Answer::Ps(ps())),
            Ask::Status => Ok(Answer::Status(Box::new(Status {
                version: "0.1.0".into(),
                troubles: vec!["a <b>trouble</b>".into()],
                ..Status::default()
            }))),
            Ask::Set { guest, change } => {
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(format!("{guest} {change:?}"));
                match guest.as_str() {
                    "web7" => {
                        Err(Failure::new("User 990 may ask this manager and not `set`").to_string())
                    }
                    _ => Ok(Answer::Set(Entitled {
                        guest: guest.clone(),
                        shares: 7,
                        ..Entitled::default()
                    })),
                }
            }
            Ask::Reserve { mib, hold_ms, .. } => {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(format!("reserve {mib}"));
                Ok(Answer::Reserve(Reserved { reservation: 3, mib: *mib, hold_ms: *hold_ms }))
            }
            other => Err(format!("{other:?} was not expected")),
        }
    };
    let sources = Sources {
        manager: Some(Box::new(manager)),
        recorded: Box::new(recorded),
        hosts: None,
        journal: None,
        tune: Some(Box::new(|_, _| Ok("[]".into()))),
        farms: Some(Box::new(|| Ok(FARMS.into()))),
        clock: Box::new(now),
    };
    let allowed = Allowed { changes: allow_changes, ..Allowed::default() };
    serve(allowed, sources, orders, asked)
}

/// What is allowed, and to whom.
#[derive(Default)]
struct Allowed {
    changes: bool,
    password_file: Option<PathBuf>,
    certificate: Option<Certificate>,
}

fn serve(allowed: Allowed, sources: Sources, orders: Orders, asked: Arc<AtomicUsize>) -> Server {
    let (sender, told) = channel();
    let settings = Settings {
        certificate: allowed.certificate,
        password_file: allowed.password_file,
        allow_changes: allowed.changes,
        sources,
        tell: Box::new(move |address| {
            let _ = sender.send(address.to_owned());
        }),
        ..settings()
    };
    // It ends with the process.
    std::thread::spawn(move || web::serve(settings));
    let first = told.recv_timeout(PATIENCE).expect("an address");
    let address = first.split("://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.and_then(|text| text.parse().ok()).expect("an address of this machine");
    let (again, told_again) = channel();
    again.send(first).expect("it is kept");
    // The first address and those that follow, in one line.
    std::thread::spawn(move || {
        while let Ok(next) = told.recv() {
            let _ = again.send(next);
        }
    });
    Server { address, told: told_again, orders, asked }
}

impl Server {
    /// The token of the newest address.
    pub fn token(&self) -> String {
        self.told().split("token=").nth(1).expect("a token").to_owned()
    }

    /// The newest address.
    pub fn told(&self) -> String {
        self.told.recv_timeout(PATIENCE).expect("an address")
    }

    /// Sends a request as it stands, and reads until the server closes the connection.
    pub fn raw(&self, request: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it is taken");
        read(&mut stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Asks for a page, with more heads.
    pub fn get(&self, path: &str, more: &str) -> Response {
        let host = self.address;
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"))
    }

    /// Sends a form.
    pub fn post(&self, path: &str, more: &str, form: &str) -> Response {
        let (host, length) = (self.address, form.len());
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\
             {more}\r\n{form}"
        ))
    }

    /// Is let in, and gives the line of the cookie.
    pub fn enter(&self) -> String {
        let token = self.token();
        let answer = self.get(&format!("/?token={token}"), "");
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = &answer.heads["set-cookie"];
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
        format!("Cookie: {}\r\n", cookie.split(';').next().expect("a cookie"))
    }
}

/// Reads an answer to its end.
pub fn read(stream: &mut impl Read) -> Response {
    let mut bytes = Vec::new();
    // A connection that is cut has said what it had to say.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|n| n.parse().ok());
    let heads = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Response { status: status.unwrap_or(0), heads, body: body.to_owned() }
}
