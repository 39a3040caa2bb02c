//! A fake QEMU behind its monitor.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use serde_json::{Value, json};

pub(super) const MIB: u64 = 1 << 20;

/// State of the fake QEMU, for a test to change, and the commands that it received.
pub(super) struct Qemu {
    listener: UnixListener,
    stream: Option<UnixStream>,
    received: Vec<u8>,
    pub(super) name: &'static str,
    pub(super) has_balloon: bool,
    /// True if the guest has a port for a daemon.
    pub(super) has_port: bool,
    pub(super) status: &'static str,
    pub(super) tids: Vec<u32>,
    /// Memory that was plugged at run time.
    pub(super) plugged: u64,
    /// Memory that the balloon reports in addition to the memory that exists.
    pub(super) balloon_lies: u64,
    pub(super) asked: Vec<String>,
    /// Memory that virtio-mem has plugged.
    pub(super) virtio_mem: u64,
    /// True if the guest's driver responds to requests for statistics.
    pub(super) driver_answers: bool,
    pub(super) interval_s: u64,
    pub(super) intervals: Vec<u64>,
    pub(super) updated_s: u64,
    pub(super) targets: Vec<u64>,
    pub(super) refusal: Option<&'static str>,
    /// True if no request gets a response, as from a stopped QEMU.
    pub(super) is_stopped: bool,
    pub(super) migration: Option<&'static str>,
    /// True if a host device is passed through.
    pub(super) has_passed_device: bool,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.close();
    }
}

impl Qemu {
    pub(super) fn bind(path: &Path) -> Qemu {
        let _ = std::fs::remove_file(path);
        Qemu {
            listener: UnixListener::bind(path).unwrap(),
            stream: None,
            received: Vec::new(),
            name: "web1",
            has_balloon: true,
            has_port: true,
            status: "running",
            tids: vec![71, 72],
            plugged: 0,
            balloon_lies: 0,
            asked: Vec::new(),
            virtio_mem: 0,
            driver_answers: true,
            interval_s: 0,
            intervals: Vec::new(),
            updated_s: 0,
            targets: Vec::new(),
            refusal: None,
            is_stopped: false,
            migration: None,
            has_passed_device: false,
        }
    }

    /// Accepts the client that has connected.
    pub(super) fn accept(&mut self) {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        self.received.clear();
        self.stream = Some(stream);
    }

    /// Closes the connection. Another test may have started a process that still has a copy of the
    /// connection, so the connection is shut down first.
    pub(super) fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            // The client may have closed the connection before.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns true if the client has closed the connection.
    pub(super) fn stream_is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.as_mut().is_none_or(|stream| stream.read_to_end(&mut rest).is_ok())
    }

    pub(super) fn greet(&mut self) {
        let qemu = json!({ "micro": 0, "minor": 2, "major": 7 });
        let version = json!({ "qemu": qemu, "package": "" });
        self.send(&json!({ "QMP": { "version": version, "capabilities": [] } }));
    }

    pub(super) fn send(&mut self, line: &Value) {
        self.send_bytes(format!("{line}\r\n").as_bytes());
    }

    /// Sends as much as there is room for.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.as_mut().is_some_and(|stream| stream.write_all(bytes).is_ok())
    }

    pub(super) fn event(&mut self, name: &str, data: &Value) {
        let timestamp = json!({ "seconds": 1, "microseconds": 0 });
        self.send(&json!({ "event": name, "data": data, "timestamp": timestamp }));
    }

    pub(super) fn serve(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        if self.is_stopped {
            return;
        }
        let mut chunk = [0; 4096];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let asked: Value = serde_json::from_slice(&line).unwrap();
            let name = asked["execute"].as_str().unwrap().to_owned();
            self.asked.push(name.clone());
            let answer = match self.answer(&name, &asked["arguments"]) {
                Ok(value) => json!({ "return": value, "id": asked["id"] }),
                Err(words) => {
                    let error = json!({ "class": "GenericError", "desc": words });
                    json!({ "error": error, "id": asked["id"] })
                }
            };
            self.send(&answer);
        }
    }

    fn answer(&mut self, name: &str, arguments: &Value) -> Result<Value, &'static str> {
        let no_balloon = "No balloon device has been activated";
        match name {
            "qmp_capabilities" => Ok(json!({})),
            "query-name" => Ok(json!({ "name": self.name })),
            "query-uuid" => Ok(json!({ "UUID": "00112233-4455-6677-8899-aabbccddeeff" })),
            "query-memory-size-summary" => {
                let plugged = self.plugged + self.virtio_mem;
                Ok(json!({ "base-memory": 512 * MIB, "plugged-memory": plugged }))
            }
            "query-memdev" => Ok([512 * MIB, self.plugged, self.virtio_mem.min(1) * 1024 * MIB]
                .into_iter()
                .filter(|size| *size > 0)
                .map(|size| json!({ "id": "ram", "size": size }))
                .collect()),
            "query-memory-devices" => Ok(json!([
                { "type": "dimm", "data": { "size": self.plugged } },
                { "type": "virtio-mem", "data": { "size": self.virtio_mem } },
            ])),
            "query-status" => {
                Ok(json!({ "running": self.status == "running", "status": self.status }))
            }
            "query-balloon" if !self.has_balloon => Err(no_balloon),
            "query-balloon" => {
                Ok(json!({ "actual": 512 * MIB + self.plugged + self.balloon_lies }))
            }
            "balloon" => {
                self.targets.push(arguments["value"].as_u64().unwrap());
                self.refusal.map_or(Ok(json!({})), Err)
            }
            "query-cpus-fast" => {
                let cpu = |(n, tid)| json!({ "cpu-index": n, "thread-id": tid });
                Ok(self.tids.iter().enumerate().map(cpu).collect())
            }
            "query-chardev" => Ok(json!([
                { "label": "port", "filename": "disconnected:unix:/run/web1.port,server=on" },
            ])),
            "query-migrate" => Ok(self.migration.map_or(json!({}), |s| json!({ "status": s }))),
            "query-blockstats" => {
                let one = json!({"rd_operations": 3, "rd_bytes": 4096, "wr_operations": 2,
                    "wr_bytes": 1024});
                Ok(json!([{"device": "a", "stats": one}, {"device": "b", "stats": one}]))
            }
            "qom-list" => Ok(self.devices(arguments["path"].as_str().unwrap())),
            "qom-get" => self.property(&arguments["path"], arguments["property"].as_str().unwrap()),
            "qom-set" => {
                self.set_interval(arguments["value"].as_u64().unwrap());
                Ok(json!({}))
            }
            _ => Err("The command has not been found"),
        }
    }

    fn devices(&self, path: &str) -> Value {
        let mut list = vec![json!({ "name": "type", "type": "string" })];
        if path == "/machine/peripheral" && self.has_balloon {
            list.push(json!({ "name": "balloon0", "type": "child<virtio-balloon-pci>" }));
        }
        if path == "/machine/peripheral" && self.has_passed_device {
            list.push(json!({ "name": "hostdev0", "type": "child<vfio-pci>" }));
        }
        if path == "/machine/peripheral-anon" {
            list.push(json!({ "name": "device[0]", "type": "child<virtserialport>" }));
            if self.has_port {
                list.push(json!({ "name": "device[1]", "type": "child<virtserialport>" }));
            }
        }
        Value::Array(list)
    }

    fn property(&self, path: &Value, property: &str) -> Result<Value, &'static str> {
        let is_second = path == "/machine/peripheral-anon/device[1]";
        match property {
            "deflate-on-oom" => Ok(json!(true)),
            "free-page-reporting" => Err("Property not found"),
            "guest-stats-polling-interval" => Ok(json!(self.interval_s)),
            "guest-stats" => {
                let stats = json!({
                    "stat-total-memory": 500 * MIB,
                    "stat-free-memory": 900 * MIB,
                    "stat-available-memory": u64::MAX,
                    "stat-swap-in": 4096,
                    "stat-major-faults": 9,
                });
                Ok(json!({ "stats": stats, "last-update": self.updated_s }))
            }
            "name" if is_second => Ok(json!("org.pinhead.0")),
            "name" => Ok(json!("org.qemu.guest_agent.0")),
            "chardev" if is_second => Ok(json!("port")),
            "chardev" => Ok(json!("agent")),
            _ => Err("Property not found"),
        }
    }

    /// Sets the interval. Like QEMU, it requests statistics from the guest at once when the
    /// interval becomes nonzero.
    fn set_interval(&mut self, seconds: u64) {
        self.intervals.push(seconds);
        if self.interval_s == 0 && seconds > 0 && self.driver_answers {
            self.updated_s += 1;
        }
        self.interval_s = seconds;
    }
}
