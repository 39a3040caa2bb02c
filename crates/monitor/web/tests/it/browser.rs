//! A server with generated guests, and a client that sends the given bytes.

use crate::guests::{MINUTE_MS, glance, interval, interval_of, now, ps, pushed, recorded, small};
use farm::running::Farms;
use manager::control::{self, Answer, Ask, Entitled, Failure, Passed, Reserved, Status};
use metrics::fleet::{Fleet, Glance, Steps};
use model::HostField;
use reports::recorded::Wanted;
use reports::{HostData, testing};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use web::{Certificate, Lines, Listen, Settings, Source, SourceError};
use whatif::backtest::Findings;
use why::when::Now;

/// Timeout that exceeds the time of any response.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Requests for changes that the manager has received.
pub type Orders = Arc<Mutex<Vec<String>>>;

pub struct Server {
    pub address: SocketAddr,
    /// Address that the server reported at its start.
    pub first: String,
    told: Mutex<Receiver<String>>,
    pub orders: Orders,
    /// Number of requests for current data that the manager has received.
    pub asked: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub heads: BTreeMap<String, String>,
    pub body: String,
}

/// Starts a server over recordings of `guests` guests, without a manager.
pub fn start_recorded(guests: usize) -> Server {
    let recorded = move |wanted: &Wanted| {
        let mut hosts = recorded(wanted)?;
        for interval in &mut hosts[0].intervals {
            *interval = interval_of(guests, interval.from_ms, interval.length_ms);
        }
        Ok(hosts)
    };
    serve(Allowed::default(), MadeUp::alone(recorded))
}

/// Numbers of concurrent readers of recordings: the current and the highest.
#[derive(Clone, Default)]
pub struct Reads(Arc<(Mutex<(usize, usize)>, Condvar)>);

impl Reads {
    fn change(&self, change: impl FnOnce(&mut (usize, usize))) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// Waits until at least `count` readers run.
    pub fn until(&self, count: usize) {
        let now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, _) = self
            .0
            .1
            .wait_timeout_while(now, PATIENCE, |(now, _)| *now < count)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(now.0 >= count, "{} read", now.0);
    }

    /// Returns the highest number of concurrent readers.
    pub fn most(&self) -> usize {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Starts a server with recordings that block until the returned sender is dropped.
pub fn start_slow() -> (Server, Reads, Sender<()>) {
    let (reads, (open, gate)) = (Reads::default(), channel::<()>());
    let (count, closed) = (reads.clone(), Arc::new((Mutex::new(true), Condvar::new())));
    let opened = closed.clone();
    std::thread::spawn(move || {
        // No message is ever sent, so this call waits until the sender is dropped.
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
    (serve(Allowed::default(), MadeUp::alone(slow)), reads, open)
}

/// Tables of farms.
const FARMS: &str = include_str!("fixtures/farms.json");

type Hosts = Result<Vec<HostData>, SourceError>;
type Recorded = dyn Fn(Option<&str>, &Wanted) -> Hosts + Send + Sync;

struct MadeUp {
    recorded: Box<Recorded>,
    is_fleet: bool,
    manager: Option<(Orders, Arc<AtomicUsize>)>,
    /// True if the manager does not respond.
    is_silent: bool,
}

impl MadeUp {
    /// Returns hosts that push to a metrics server, without a manager.
    fn fleet() -> MadeUp {
        MadeUp { recorded: Box::new(pushed), is_fleet: true, manager: None, is_silent: false }
    }

    /// Returns recordings of one host, without a manager.
    fn alone(recorded: impl Fn(&Wanted) -> Hosts + Send + Sync + 'static) -> MadeUp {
        let recorded = Box::new(move |_: Option<&str>, wanted: &Wanted| recorded(wanted));
        MadeUp { recorded, is_fleet: false, manager: None, is_silent: false }
    }
}

/// Starts a server with the data that hosts pushed to a metrics server.
pub fn start_fleet() -> Server {
    serve(Allowed::default(), MadeUp::fleet())
}

/// Returns settings without any options.
pub fn settings() -> Settings {
    Settings {
        listen: Listen::parse("127.0.0.1:0").expect("a place"),
        names: Vec::new(),
        certificate: None,
        password_file: None,
        allow_changes: false,
        source: Arc::new(MadeUp::fleet()),
        tell: Box::new(|_| {}),
    }
}

/// Starts the same server with a password, with or without TLS.
pub fn start_guarded(password_file: &Path, certificate: Option<Certificate>) -> Server {
    let allowed =
        Allowed { password_file: Some(password_file.into()), certificate, changes: false };
    serve(allowed, MadeUp::fleet())
}

/// Serves the same pages on a Unix socket under these names, until the process ends. Returns the
/// receiver of a failure.
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

/// Starts a server that allows changes or not.
pub fn start(allow_changes: bool) -> Server {
    let manager = Some((Orders::default(), Arc::default()));
    let allowed = Allowed { changes: allow_changes, ..Allowed::default() };
    serve(allowed, MadeUp { manager, ..MadeUp::alone(recorded) })
}

/// Starts a server with a manager that does not respond.
pub fn start_silent() -> Server {
    let manager = Some((Orders::default(), Arc::default()));
    serve(Allowed::default(), MadeUp { manager, is_silent: true, ..MadeUp::alone(recorded) })
}

impl Source for MadeUp {
    fn recorded(&self, host: Option<&str>, wanted: &Wanted) -> Hosts {
        (self.recorded)(host, wanted)
    }

    fn has_manager(&self) -> bool {
        self.manager.is_some()
    }

    fn ask(&self, ask: &Ask) -> Result<Answer, SourceError> {
        let manager = self.manager.as_ref().filter(|_| !self.is_silent);
        let (orders, asked) = manager.ok_or(SourceError::NoManager)?;
        let order = |text| orders.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        match ask {
            Ask::Interval { .. } => {
                asked.fetch_add(1, Ordering::Relaxed);
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
                order(format!("{guest} {change:?}"));
                match guest.as_str() {
                    "web7" => {
                        let failure =
                            Failure::new("User 990 may only read from this manager: `set`");
                        Err(control::Error::Refused(failure).into())
                    }
                    _ => Ok(Answer::Set(Entitled {
                        guest: guest.clone(),
                        shares: 7,
                        ..Entitled::default()
                    })),
                }
            }
            Ask::Reserve { mib, hold_ms, .. } => {
                order(format!("reserve {mib}"));
                Ok(Answer::Reserve(Reserved { reservation: 3, mib: *mib, hold_ms: *hold_ms }))
            }
            other => panic!("{other:?} was not expected"),
        }
    }

    fn tune(&self, _: (i64, i64)) -> Option<Result<Findings, SourceError>> {
        let all = ["web1", "web5"].map(small).into();
        self.has_manager().then(|| Ok(Findings { all, ..Findings::default() }))
    }

    fn farms(&self) -> Option<Result<Farms, SourceError>> {
        self.manager.as_ref()?;
        let mut told: serde_json::Value = serde_json::from_str(FARMS).expect("JSON");
        let farms = serde_json::from_value(told["farms"].take()).expect("farms");
        let silent = serde_json::from_value(told["silent"].take()).expect("lines");
        Some(Ok(Farms { farms, silent }))
    }

    fn glance(&self, asked: &Glance) -> Option<Result<Fleet, SourceError>> {
        self.is_fleet.then(|| glance(asked))
    }

    fn lines(&self, steps: Steps, hosts: &[&str], _: &[HostField]) -> Result<Lines, SourceError> {
        let over = interval(0, steps.step_ms.unsigned_abs()).host;
        Ok(hosts.iter().map(|host| ((*host).to_owned(), vec![over.clone(); 24])).collect())
    }

    fn now(&self) -> Now {
        now()
    }
}

#[derive(Default)]
struct Allowed {
    changes: bool,
    password_file: Option<PathBuf>,
    certificate: Option<Certificate>,
}

fn serve(allowed: Allowed, source: MadeUp) -> Server {
    let (sender, told) = channel();
    let (orders, asked) = source.manager.clone().unwrap_or_default();
    let settings = Settings {
        certificate: allowed.certificate,
        password_file: allowed.password_file,
        allow_changes: allowed.changes,
        source: Arc::new(source),
        tell: Box::new(move |address| {
            let _ = sender.send(address.to_owned());
        }),
        ..settings()
    };
    // This thread ends with the process.
    std::thread::spawn(move || web::serve(settings));
    let first = told.recv_timeout(PATIENCE).expect("an address");
    let address = first.split("://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.and_then(|text| text.parse().ok()).expect("an address of this machine");
    Server { address, first, told: Mutex::new(told), orders, asked }
}

impl Server {
    /// Returns the token of the server's address.
    pub fn token(&self) -> &str {
        self.first.split("token=").nth(1).expect("a token")
    }

    /// Checks that the server has reported no further address.
    pub fn tells_no_more(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(told.try_recv().is_err());
    }

    /// Sends a request byte for byte, and reads until the server closes the connection.
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

    /// Requests a page with additional headers.
    pub fn get(&self, path: &str, more: &str) -> Response {
        let host = self.address;
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"))
    }

    /// Requests a page repeatedly until there is a place for the connection.
    #[allow(clippy::disallowed_methods, reason = "a deadline for the server")]
    pub fn get_in_the_end(&self, path: &str, more: &str) -> Response {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut stream = self.connect();
            let heads = format!("Host: {}\r\nConnection: close\r\n{more}", self.address);
            // A connection without a place may be closed before this request is sent.
            let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\n{heads}\r\n").as_bytes());
            let answer = read(&mut stream);
            if answer.status != 0 || Instant::now() > until {
                return answer;
            }
        }
    }

    pub fn post(&self, path: &str, more: &str, form: &str) -> Response {
        let (host, length) = (self.address, form.len());
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\
             {more}\r\n{form}"
        ))
    }

    /// Starts a session, and returns the header line with its cookie.
    pub fn enter(&self) -> String {
        let token = self.token();
        let answer = self.get(&format!("/?token={token}"), "");
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = &answer.heads["set-cookie"];
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
        format!("Cookie: {}\r\n", cookie.split(';').next().expect("a cookie"))
    }
}

/// Reads a response to its end.
pub fn read(stream: &mut impl Read) -> Response {
    let mut bytes = Vec::new();
    // Data received before a reset count as the response.
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
