//! Real metrics servers, each on the loopback and with a separate directory.
//!
//! VictoriaMetrics and Prometheus accept the same requests, and only their start differs. An engine
//! may be missing on a machine. A test then reports the missing engine and passes.

use crate::{is_there, scratch};
use metrics::Url;
use metrics::http::Response;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use vm::{Deadline, Process, Scratch, wait_for_exit};

/// Timeout of every wait. Both engines start within a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two polls.
const LOOK: Duration = Duration::from_millis(50);

/// The kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// VictoriaMetrics.
    VictoriaMetrics,
    /// Prometheus.
    Prometheus,
}

impl Kind {
    /// Both engines.
    pub const ALL: [Kind; 2] = [Kind::VictoriaMetrics, Kind::Prometheus];

    fn program(self) -> &'static str {
        match self {
            Kind::VictoriaMetrics => "victoria-metrics",
            Kind::Prometheus => "prometheus",
        }
    }
}

/// A running engine. Dropping this value ends it and removes its files.
pub struct Engine {
    kind: Kind,
    process: Process,
    _dir: Scratch,
    base: String,
}

impl Engine {
    /// Starts an engine that scrapes `target`, if given. Returns `None`, with a note, if the engine
    /// is not installed.
    pub fn start(kind: Kind, target: Option<&str>) -> Option<Engine> {
        let program = kind.program();
        if !is_there(program) {
            crate::skipped_without(program);
            return None;
        }
        let dir = scratch(program);
        let config = dir.join("prometheus.yml");
        let targets = target.map_or(String::new(), |target| {
            format!(
                "scrape_configs:\n- job_name: pinhead\n  scrape_interval: 1s\n  \
                 scrape_timeout: 1s\n  static_configs:\n  - targets: ['{target}']\n"
            )
        });
        fs::write(&config, targets).expect("a file of settings");
        let address = free_address();
        let command = match kind {
            Kind::VictoriaMetrics => victoria(dir.path(), &config, &address),
            Kind::Prometheus => prometheus(dir.path(), &config, &address),
        };
        let process = Process::start(command, Vec::new()).expect("a process");
        Some(Engine { kind, process, _dir: dir, base: format!("http://{address}") })
    }

    /// Returns the URL of queries.
    pub fn url(&self) -> Url {
        Url::parse(&self.base).expect("an address")
    }

    /// Returns the URL that accepts pushed samples.
    pub fn write_url(&self) -> Url {
        Url::parse(&format!("{}/api/v1/write", self.base)).expect("an address")
    }

    /// Returns a client for requests while [`Engine::until`] borrows the engine.
    pub fn asked(&self) -> Asked {
        Asked(self.base.trim_start_matches("http://").to_owned())
    }

    /// Makes all received samples visible to queries. Without this call, VictoriaMetrics shows the
    /// samples some time later, and not all at once. Prometheus shows samples immediately.
    pub fn show_all(&self) {
        if self.kind == Kind::VictoriaMetrics {
            self.asked().get("/internal/force_flush").unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// Retries until `look` succeeds. Panics with the last failure at the deadline.
    pub fn until<T>(&mut self, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let seen = match look() {
                Ok(found) => return found,
                Err(seen) => seen,
            };
            let ended = self.process.try_wait().expect("a child");
            assert!(ended.is_none(), "the engine has ended: {}", self.process.stderr());
            assert!(deadline.remaining().is_some(), "{what} never came; last seen: {seen}");
            // The pause also ends when the engine exits.
            let _ = wait_for_exit(self.process.id(), LOOK);
        }
    }
}

/// A client of an engine, by address.
pub struct Asked(String);

impl Asked {
    /// Runs a query at a point in time, and returns its JSON, or the failure as text.
    pub fn query(&self, query: &str, at_ms: i64) -> Result<String, String> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            let _ = write!(encoded, "%{byte:02X}");
        }
        self.get(&format!("/api/v1/query?query={encoded}&time={}", at_ms / 1000))
    }

    fn get(&self, path: &str) -> Result<String, String> {
        let address = &self.0;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let to_text = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(address).map_err(to_text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(to_text)?;
        stream.write_all(request.as_bytes()).map_err(to_text)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map_err(to_text)?;
        let response = Response::parse(&bytes)?;
        let body = String::from_utf8_lossy(&response.body).into_owned();
        if response.status == 200 { Ok(body) } else { Err(body) }
    }
}

fn victoria(dir: &Path, config: &Path, address: &str) -> Command {
    let mut command = Command::new(Kind::VictoriaMetrics.program());
    command
        .arg(format!("-httpListenAddr={address}"))
        .arg(format!("-storageDataPath={}", dir.join("data").display()))
        .arg(format!("-promscrape.config={}", config.display()))
        .args(["-retentionPeriod=100y", "-loggerLevel=WARN", "-memory.allowedPercent=5"]);
    command
}

fn prometheus(dir: &Path, config: &Path, address: &str) -> Command {
    let mut command = Command::new(Kind::Prometheus.program());
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .args(["--web.enable-remote-write-receiver", "--log.level=warn"]);
    command
}

fn free_address() -> String {
    format!("{}:{}", Ipv4Addr::LOCALHOST, free_port())
}

/// Returns a loopback port without a listener.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}
