//! A process that plays a guest and lies, beside a real one, under `pinhead host`.

use e2e::load::HOLDING;
use e2e::manager::{Manager, Place, Size, wait_until};
use e2e::{Host, Plan};
use images::Arch;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What the real guest is started with, and what the other says that it was.
const REAL_MIB: u64 = 384;
const CLAIMED_MIB: u64 = 65_536;
/// What the host has free beside the guests, in MiB.
const FREE_MIB: u64 = 200;

/// A monitor's socket behind which is no guest. It says that it has next to nothing, that its tasks
/// wait, and that it has whatever it was given last.
struct Fake {
    actual: u64,
    answers: u64,
    /// Addresses for all that it claims, none of which is ever touched.
    _mapped: Vec<Vec<u8>>,
}

impl Fake {
    fn start(socket: &Path) {
        let listener = UnixListener::bind(socket).expect("a socket");
        std::thread::spawn(move || {
            let part = (CLAIMED_MIB / 6 * MIB) as usize;
            let mapped = (0..7).map(|_| Vec::with_capacity(part)).collect();
            let mut fake = Fake { actual: 10 * MIB, answers: 0, _mapped: mapped };
            for stream in listener.incoming().map_while(Result::ok) {
                fake.converse(stream);
            }
        });
    }

    /// Until the client hangs up.
    fn converse(&mut self, mut stream: UnixStream) {
        let version = json!({ "qemu": { "micro": 0, "minor": 2, "major": 7 }, "package": "" });
        let greeting = json!({ "QMP": { "version": version, "capabilities": [] } });
        let Ok(copy) = stream.try_clone() else { return };
        if writeln!(stream, "{greeting}").is_err() {
            return;
        }
        for line in BufReader::new(copy).lines().map_while(Result::ok) {
            let asked: Value = serde_json::from_str(&line).unwrap_or_default();
            let name = asked["execute"].as_str().unwrap_or_default();
            let value = self.answer(name, &asked["arguments"]);
            if writeln!(stream, "{}", json!({ "return": value, "id": asked["id"] })).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, name: &str, arguments: &Value) -> Value {
        self.answers += 1;
        match (name, arguments["property"].as_str().unwrap_or_default()) {
            ("query-name", _) => json!({ "name": "fake" }),
            ("query-uuid", _) => json!({ "UUID": "00000000-0000-0000-0000-00000000fa4e" }),
            ("query-memory-size-summary", _) => json!({ "base-memory": CLAIMED_MIB * MIB }),
            ("query-status", _) => json!({ "running": true, "status": "running" }),
            ("query-balloon", _) => json!({ "actual": self.actual }),
            ("balloon", _) => {
                self.actual = arguments["value"].as_u64().unwrap_or(self.actual);
                json!({})
            }
            ("query-cpus-fast", _) => {
                let own = rustix::thread::gettid().as_raw_nonzero().get();
                json!([{ "cpu-index": 0, "thread-id": own }])
            }
            ("qom-list", _) if arguments["path"] == "/machine/peripheral" => {
                json!([{ "name": "balloon0", "type": "child<virtio-balloon-pci>" }])
            }
            ("query-chardev" | "qom-list", _) => json!([]),
            ("qom-get", "guest-stats") => json!({
                "last-update": self.answers,
                "stats": {
                    "stat-total-memory": CLAIMED_MIB * MIB,
                    "stat-free-memory": 0,
                    "stat-available-memory": 0,
                    "stat-disk-caches": 0,
                    "stat-swap-in": self.answers * 1024 * MIB,
                    "stat-swap-out": self.answers * 1024 * MIB,
                },
            }),
            ("qom-get", "guest-stats-polling-interval") => json!(0),
            ("qom-get", _) => json!(false),
            _ => json!({}),
        }
    }
}

#[test]
fn finding_04_a_fake_guest_takes_nothing_from_a_real_one_and_leaves_it_all_its_memory() {
    let place = Place::new();
    let mut plan = Plan::new(Arch::X86_64, "-f -c /etc/pinhead.conf --pace host");
    plan.cpus = 1;
    plan.memory_mib = REAL_MIB;
    plan.rules = HOLDING.into();
    plan.run_dir = Some(place.dir().to_path_buf());
    let host = Host::start(&[plan]);
    let mut real = host.guest(0);
    host.yield_to_manager();
    // Memory that it has touched and could spare.
    real.use_memory(200);
    real.until_used(e2e::PATIENCE);
    real.free();
    Fake::start(&place.dir().join("fake.qmp"));

    // The process that plays the fake is this one: what it holds is paid for like any guest's.
    let own_mib = 64;
    let size = Size::with_free(&host, 1, FREE_MIB + own_mib);
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.until("both are there", e2e::PATIENCE, |ps| ps.guests.len() == 2);
    manager.knows(2);
    let passes = manager.status().passes;
    let seen = wait_until(e2e::PATIENCE, || manager.status().passes >= passes + 25);
    assert!(seen.is_some());
    let ps = manager.ps();
    let fake = ps.guests.iter().find(|guest| guest.name == "fake").expect("it is there");
    let fake_mib = fake.actual_bytes.expect("its balloon") / MIB;
    println!("the fake says {} MiB, and has {fake_mib}", fake.memory_bytes / MIB);
    assert!(fake_mib < 400, "it was given {fake_mib} MiB and uses none");
    let shrinks = |manager: &Manager<'_>| {
        let all = manager.decisions("g1").into_iter();
        all.filter(|one| one.decision.action == "shrink").count()
    };
    assert_eq!(shrinks(&manager), 0, "{}", manager.journal_text());
    assert_eq!(real.balloon_mib(), 0, "it was shrunk for the fake");

    // Something else takes memory from the real one, and the manager ends.
    let wanted = FREE_MIB + own_mib + 30;
    manager.command(&["reserve", &wanted.to_string(), "--timeout", "20"]);
    let taken = wait_until(Duration::from_secs(20), || real.balloon_mib() >= 20);
    assert!(taken.is_some(), "{}", manager.journal_text());
    let taken = real.balloon_mib();
    manager.signal("KILL");
    let took = wait_until(Duration::from_secs(30), || real.balloon_mib() == 0);
    println!("{taken} MiB were back after {took:?}");
    assert!(took.is_some(), "{} MiB are missing: {}", real.balloon_mib(), manager.log());
}
