//! Target for a guest that is found by its QEMU's monitor, with all processing of QEMU's answers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use base::Bytes;
use hypervisor::{Event, Hypervisor, Id, IdSource, QmpSource, Trust};
use model::GuestField as G;
use qmp::Value;
use vm::Scratch;

use crate::input::texts;

/// Maximum number of rounds of an input, and the time between two rounds. The monitor client
/// repeats all queries after a minute.
const ROUNDS_MAX: usize = 4;
const ROUND_MS: u64 = 70_000;
/// Turns in which both sides send their messages.
const TURNS: usize = 24;
const GREETING: &str = concat!(
    r#"{"QMP":{"version":{"qemu":{"micro":0,"minor":2,"major":7},"package":""},"#,
    r#""capabilities":[]}}"#,
    "\r\n"
);
/// Answers of a healthy QEMU. The key is the command, or the property or path that the command
/// names.
const HEALTHY: [(&str, &str); 19] = [
    ("qmp_capabilities", "{}"),
    ("query-name", r#"{"name":"web1"}"#),
    ("query-uuid", r#"{"UUID":"00112233-4455-6677-8899-aabbccddeeff"}"#),
    ("query-memory-size-summary", r#"{"base-memory":536870912,"plugged-memory":0}"#),
    ("query-status", r#"{"running":true,"status":"running"}"#),
    ("query-balloon", r#"{"actual":536870912}"#),
    ("query-cpus-fast", r#"[{"cpu-index":0,"thread-id":71}]"#),
    ("query-chardev", r#"[{"label":"port","filename":"unix:/run/web1.port,server=on"}]"#),
    ("query-migrate", "{}"),
    (
        "query-blockstats",
        r#"[{"stats":{"rd_operations":3,"rd_bytes":4,"wr_operations":2,"wr_bytes":1}}]"#,
    ),
    ("/machine/peripheral", r#"[{"name":"b","type":"child<virtio-balloon-pci>"}]"#),
    ("/machine/peripheral-anon", r#"[{"name":"device[0]","type":"child<virtserialport>"}]"#),
    ("deflate-on-oom", "true"),
    ("guest-stats-polling-interval", "0"),
    ("guest-stats", r#"{"stats":{"stat-free-memory":4096},"last-update":7}"#),
    ("name", r#""org.pinhead.0""#),
    ("chardev", r#""port""#),
    ("balloon", "{}"),
    ("qom-set", "{}"),
];

/// Runs a monitor connection in rounds. The input contains QEMU's answers. An empty text separates
/// two rounds. A text `COMMAND JSON` replaces the answer of a healthy QEMU. No guest may be listed
/// twice, and a guest's values must be within its memory.
pub(crate) fn monitor_answers(data: &[u8]) {
    let Ok(tree) = Scratch::new("fuzz-qmp") else { return };
    if fs::create_dir(tree.join("run")).is_ok() {
        let _ = converse(tree.path(), data);
    }
}

fn converse(tree: &Path, data: &[u8]) -> std::io::Result<()> {
    // This process replaces QEMU's process.
    let own = tree.join(format!("proc/{}", std::process::id()));
    fs::create_dir_all(own.join("task/71"))?;
    let stat = "7 (qemu) S 1 1 1 0 -1 0 900 0 12 0 0 6 0 0 20 0 3 0 777 1\n";
    fs::write(own.join("stat"), stat)?;
    fs::write(own.join("task/71/schedstat"), "1 1 1\n")?;
    let mut qemu = Qemu::bind(&tree.join("run/web1.qmp"))?;
    let pattern = format!("{}/run/*.qmp", tree.display());
    let source = QmpSource::under(tree.into(), &[pattern], Trust::default(), IdSource::new());
    let Ok(mut source) = source else { panic!("the pattern is one") };
    let mut known: BTreeMap<Id, Bytes> = BTreeMap::new();
    let mut now_ms = 0;
    let texts: Vec<&[u8]> = texts(data).collect();
    for round in texts.split(|text| text.is_empty()).take(ROUNDS_MAX) {
        for (command, value) in round.iter().filter_map(|text| answer(text)) {
            qemu.answers.insert(command, value);
        }
        now_ms += ROUND_MS;
        for id in known.keys().copied() {
            source.ask_stats(id, now_ms);
            source.ask_actual(id, now_ms);
            source.ask_blocks(id, now_ms);
            source.set_target(id, Bytes::mib(100), now_ms);
        }
        for _ in 0..TURNS {
            now_ms += 1;
            let mut events = Vec::new();
            source.turn(None, now_ms, &mut events);
            events.iter().for_each(|event| check(event, &mut known));
            qemu.serve()?;
        }
    }
    Ok(())
}

/// Parses the answer to a command. A value that is not JSON is a text.
fn answer(text: &[u8]) -> Option<(String, Value)> {
    let (command, value) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((command.to_owned(), value.parse().unwrap_or_else(|_| Value::String(value.to_owned()))))
}

fn check(event: &Event, known: &mut BTreeMap<Id, Bytes>) {
    match event {
        Event::Found(id, found) => {
            assert!(known.insert(*id, found.memory).is_none(), "{id:?} twice");
            assert!(found.memory > Bytes::ZERO, "{found:?}");
            assert!(found.vcpu_tids.len() <= qmp::VCPUS_MAX && found.has_monitor());
        }
        Event::Machine(id, machine) => {
            assert!(machine.memory > Bytes::ZERO, "{machine:?}");
            assert!(known.insert(*id, machine.memory).is_some());
        }
        Event::Stats(id, stats) => {
            let memory = known.get(id).copied().unwrap_or_default();
            let sizes = [G::BalloonTotal, G::BalloonFree, G::BalloonAvailable, G::BalloonCached];
            let is_within = |field| stats.get(field).is_none_or(|size| size <= memory.0);
            assert!(sizes.into_iter().all(is_within), "{stats:?}");
            assert!(stats.get(G::BalloonTime) != Some(0));
        }
        Event::Gone(id, why) => {
            assert!(known.remove(id).is_some() && !why.is_empty());
        }
        Event::Refused(id, why) | Event::Stays(id, why) => {
            assert!(known.contains_key(id) && why.len() <= 4096, "{why}");
        }
        Event::Rebooted(id)
        | Event::State(id, _)
        | Event::Actual(id, _)
        | Event::Blocks(id, _)
        | Event::Devices(id, ..)
        | Event::Configured(id, _)
        | Event::Taken(id, _)
        | Event::Answers(id, _) => assert!(known.contains_key(id), "{event:?}"),
        Event::Counted(..) | Event::Trouble(_) => {}
    }
}

/// QEMU's side of its monitor.
struct Qemu {
    listener: UnixListener,
    stream: Option<UnixStream>,
    heard: Vec<u8>,
    answers: BTreeMap<String, Value>,
}

impl Qemu {
    fn bind(path: &PathBuf) -> std::io::Result<Qemu> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let parsed = |(name, json): &(&str, &str)| Some(((*name).to_owned(), json.parse().ok()?));
        let answers = HEALTHY.iter().filter_map(parsed).collect();
        Ok(Qemu { listener, stream: None, heard: Vec::new(), answers })
    }

    /// Accepts the client if it has connected, and answers its commands.
    fn serve(&mut self) -> std::io::Result<()> {
        if let Ok((mut stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.write_all(GREETING.as_bytes())?;
            self.heard.clear();
            self.stream = Some(stream);
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            self.heard.extend_from_slice(&chunk[..count]);
        }
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            let asked: Value = String::from_utf8_lossy(&line).trim().parse().unwrap_or_default();
            let named =
                ["property", "path"].iter().find_map(|name| asked["arguments"][name].as_str());
            let command = asked["execute"].as_str().unwrap_or_default();
            let of = match command {
                "qom-get" | "qom-list" => named.unwrap_or_default(),
                command => command,
            };
            let reply = match self.answers.get(of) {
                Some(value) => format!(r#""return":{value}"#),
                None => r#""error":{"class":"GenericError","desc":"not found"}"#.to_owned(),
            };
            // A client that has disconnected gets no answer.
            let _ = stream.write_all(format!("{{{reply},\"id\":{}}}\r\n", asked["id"]).as_bytes());
        }
        Ok(())
    }
}
