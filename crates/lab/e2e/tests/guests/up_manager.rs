//! The manager of `pinhead up`, and a `pinhead host` next to it.

use e2e::PATIENCE;
use e2e::farms::{Up, text};
use e2e::manager::{signal, wait_until};
use serde_json::Value;
use std::process::{Child, Stdio};

/// Size to which a guest is pinned, and its full size, in bytes.
const PINNED: u64 = 192 << 20;
const FULL: u64 = 256 << 20;
/// Path of another manager's socket, in the directories that `pinhead up` sees.
const OTHER: &str = "/run/other.sock";

/// Returns the guests of the manager at this socket, or at the default socket.
fn guests(up: &Up, socket: Option<&str>) -> Vec<Value> {
    let mut command = up.inside(&["ps", "--format", "json"]);
    if let Some(path) = socket {
        command.args(["--socket", path]);
    }
    let output = command.output().expect("it runs");
    let table: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // Without a manager, `ps` shows the farms.
    match table["host"].is_null() {
        true => Vec::new(),
        false => table["guests"].as_array().cloned().unwrap_or_default(),
    }
}

/// Waits until the manager has both guests with their daemons, and the first guest has this size.
fn has(up: &mut Up, socket: Option<&str>, what: &str, bytes: u64) {
    let so = |guests: &[Value]| {
        guests.len() == 2
            && guests.iter().all(|guest| guest["daemon"] == true && guest["cpus_online"].is_u64())
            && guests[0]["actual_bytes"].as_u64() == Some(bytes)
    };
    let mut last = Vec::new();
    let found = wait_until(PATIENCE, || {
        last = guests(up, socket);
        so(&last)
    });
    assert!(found.is_some(), "{what}: {last:#?}");
}

fn status(up: &Up) -> Value {
    let status = up.inside(&["ps", "--status", "--format", "json"]).output();
    serde_json::from_slice(&status.expect("it runs").stdout).unwrap_or_default()
}

fn pin(up: &Up) {
    let set = up.inside(&["set", "g1", "pin", "192 MiB"]).output().expect("it runs");
    assert!(set.status.success(), "{}", text(&set.stderr));
}

/// A `pinhead host` that sees the files of `pinhead up`.
struct Host(Child);

impl Host {
    fn start(up: &Up, args: &[&str]) -> Host {
        let mut command = up.inside(&["host"]);
        command.args(args).stdout(Stdio::null());
        Host(command.spawn().expect("it runs"))
    }

    fn end(mut self) {
        signal(self.0.id(), "TERM");
        assert!(self.0.wait().expect("its end").success());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One command starts guests and manages them. A `pinhead host` takes the guests over, at the same
/// socket or at another socket. When the `pinhead host` ends, the guests come back. The memory that
/// was taken from a guest is returned each time.
#[test]
fn up_manages_its_guests_until_a_host_takes_them_over() {
    if !rustix::process::geteuid().is_root() {
        return base::skipped!("only root can mount the directories of this test's manager");
    }
    // These rules do not touch memory.
    let args = "--guests 2 --idle --cpus 1 --rules cpu-real-load --format json";
    // While other tests run, tasks of the host may wait for memory. A manager then takes memory
    // from idle guests.
    let mut up = Up::managed(args, e2e::alone);
    has(&mut up, None, "its own manager has the guests", FULL);
    pin(&up);
    has(&mut up, None, "the operator's size", PINNED);

    let other = format!("[control]\nsocket = \"{OTHER}\"\n[journal]\npath = \"/run/other.db\"\n");
    let settings = up.dir().join("other.toml");
    std::fs::write(&settings, other).expect("a file");
    let settings = settings.display().to_string();
    let host = Host::start(&up, &["--config", &settings]);
    has(&mut up, Some(OTHER), "a manager at another socket has the guests", FULL);
    let own = wait_until(PATIENCE, || guests(&up, None).is_empty());
    assert!(own.is_some(), "its own manager has ended");
    host.end();
    has(&mut up, None, "its own manager has the guests again", FULL);

    pin(&up);
    has(&mut up, None, "the operator's size", PINNED);
    // A keeper would end a `pinhead up` that is stopped for long, and its guests.
    let keeper = status(&up)["lease"]["keeper_pid"].take();
    assert!(keeper.is_null(), "{keeper}");
    let dry = up.inside(&["host", "--dry-run"]).output().expect("it runs");
    assert!(text(&dry.stderr).contains("Another `pinhead host`"), "a dry run takes nothing over");
    has(&mut up, None, "the operator's size", PINNED);
    let host = Host::start(&up, &[]);
    let host_pid = u64::from(host.0.id());
    let is_there = wait_until(PATIENCE, || status(&up)["pid"].as_u64() == Some(host_pid));
    assert!(is_there.is_some(), "{:#}", status(&up));
    has(&mut up, None, "a host at the same socket has the guests", FULL);
    let log = text(&up.inside(&["logs", "g1"]).output().expect("it runs").stdout);
    let gone = log.split_once("The host's manager is gone").expect(&log);
    assert!(gone.1.contains("The host's manager is connected"), "{log}");
    host.end();
    has(&mut up, None, "its own manager has the guests again", FULL);

    let qemus = up.qemus();
    up.signal("INT");
    let report: Value = serde_json::from_str(&up.output()).expect("a report");
    for guest in report["guests"].as_array().expect("guests") {
        assert_eq!((&guest["cpus_online_max"], &guest["state"]), (&1.into(), &"managed".into()));
    }
    e2e::farms::are_gone(&qemus);
}
