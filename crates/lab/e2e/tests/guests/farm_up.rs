//! `pinhead up` as a user runs it: its output, and the absence of leftovers.

use agent::Port;
use e2e::PATIENCE;
use e2e::farms::Up;
use farm::service::{self, SOCKET};
use manager::control::{Answer, Ask, Lent};
use qmp::{Command as Qmp, Reply};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use vm::{Deadline, Monitor};
use wire::{Grant, Sample, ToGuest, ToHost, Welcome};

/// Starts `pinhead up` next to the guests of other tests.
fn start(args: &str) -> Up {
    Up::start(args, || e2e::share(2))
}

/// Returns the output of `explain` for the first guest, or an empty text if the command fails.
fn explained(up: &Up) -> String {
    String::from_utf8(up.explain().stdout).expect("text")
}

/// Returns the number that follows these words in the output of `explain` for the first guest.
fn explained_number(up: &Up, words: &str) -> Option<u64> {
    let text = explained(up);
    let (_, rest) = text.split_once(words)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// In one run, memory moves in both directions, one guest is explained, and the QEMU of another
/// guest crashes. The report is printed at the end.
#[test]
fn guests_gain_and_return_memory_and_crash_independently() {
    let mut up = start("--guests 2 --format json");
    up.until("two guests run", |up| up.qemus().len() == 2);
    let qemus = up.qemus();
    up.until("a guest can be explained", |up| up.explain().status.success());
    let text = explained(&up);
    for part in ["guest g1", "HOTPLUG = ", "CP_ActiveAVG = ", "meminfo.MemFree = ", "CPU: "] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let said = up.run(&["exec", &up.guest("g1"), "--", "hostname"]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "g1\n", "{said:?}");
    let log = up.run(&["logs", &up.guest("g1")]);
    assert!(String::from_utf8_lossy(&log.stdout).contains("g1 is up"), "{log:?}");
    // The second QEMU has the higher process id, because ids ascend.
    let second = qemus.iter().max().expect("two of them").to_string();
    assert!(Command::new("kill").args(["-9", &second]).status().expect("kill").success());

    // The guest's CPU load starts and stops by itself. On a busy host, the default rule never
    // requests a third CPU.
    up.until("one CPU is left", |up| explained_number(up, "onumcpus = ") == Some(1));
    up.until("a CPU has come", |up| explained_number(up, "onumcpus = ") > Some(1));
    // The guest's free memory goes to the pool, and the report contains the pool's growth.
    up.until("the pool stands", |up| explained(up).contains("MEMUNPLUG = false"));
    up.signal("INT");
    let text = up.output();
    assert!(up.child.wait().expect("its end").success());
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let guests = report["guests"].as_array().expect("guests");
    assert_eq!(guests.len(), 2);
    let (g1, g2) = (&guests[0], &guests[1]);
    assert_eq!(
        (&g1["name"], &g1["arch"], &g1["state"]),
        (&"g1".into(), &"x86_64".into(), &"up".into())
    );
    assert_eq!((&g1["cpus_present"], &g1["cpus_online_min"]), (&4.into(), &1.into()));
    assert!(g1["cpus_online_max"].as_u64() >= Some(3), "{g1}");
    assert!(g1["cpu_plugs"].as_u64() >= Some(1) && g1["cpu_unplugs"].as_u64() >= Some(3), "{g1}");
    assert!(g1["pool_grows"].as_u64() >= Some(1) && g1["pool_pages_max"].as_u64() > Some(1000));
    assert!(g1["pool_shrinks"].is_u64(), "{g1}");
    assert_eq!(g2["state"], "ended", "{g2}");
    up.nothing_is_left(&qemus);
}

fn receive(up: &mut Up, port: &mut Port, what: &str, is: impl Fn(&ToHost) -> bool) -> ToHost {
    let mut message = None;
    up.until(what, |_| {
        port.receive().expect("the port");
        message = std::iter::from_fn(|| port.next()).find(&is);
        message.is_some()
    });
    message.expect("a message")
}

fn balloon_mib(monitor: &mut Monitor) -> u64 {
    match monitor.call(Qmp::QueryBalloon, Deadline::after(PATIENCE)) {
        Ok(Reply::Balloon { actual_bytes }) => actual_bytes >> 20,
        other => panic!("{other:?}"),
    }
}

/// Returns a guest's UUID from its second monitor.
fn uuid(dir: &Path, guest: &str) -> [u8; 16] {
    let stream = UnixStream::connect(dir.join(format!("{guest}.qmp")));
    let mut monitor = Monitor::new(stream.expect("the second monitor"));
    match monitor.call(Qmp::QueryUuid, Deadline::after(PATIENCE)) {
        Ok(Reply::Uuid(uuid)) => uuid,
        other => panic!("{other:?}"),
    }
}

/// Requests the lease of all guests, and returns the connection of the lease with the response.
fn manage(up: &Up) -> Result<(UnixStream, Answer), farm::Error> {
    service::open(&up.run_dir().join(SOCKET), &Ask::Lend)
}

/// While a host manager runs, it alone owns ports and balloons.
#[test]
fn a_host_manager_takes_the_guests_and_gives_them_back() {
    // These rules do not touch memory, so only the manager moves the balloon here.
    let mut up = start("--guests 2 --idle --rules cpu-real-load --format json");
    up.until("both can be explained", |up| {
        ["g1", "g2"].iter().all(|guest| up.explain_guest(guest).status.success())
    });
    assert!(up.run_dir().join(qmp::RULES_ONLY).exists(), "managers of other farms may take them");
    for turn in 0..2 {
        let dir = up.run_dir();
        let (lease, managed) = manage(&up).expect("the guests");
        let classes = ["g1", "g2"].map(|guest| (guest.to_owned(), "g".to_owned())).into();
        assert_eq!(managed, Answer::Lend(Lent { classes }));
        let second = manage(&up).expect_err("there is one");
        assert!(second.to_string().contains("manages these guests already"), "{second}");
        let refused = String::from_utf8(up.explain().stderr).expect("text");
        assert!(refused.contains("g1 is managed by a host manager"), "{refused}");

        let mut port = Port::connect(&dir.join("g1.port"), 0).expect("the port");
        let welcome = Welcome { memory_pages: 65_536, grants: true, paces: true };
        port.send(&ToGuest::Welcome(welcome)).expect("a word");
        receive(&mut up, &mut port, "a hello", |m| matches!(m, ToHost::Hello(_)));
        port.send(&ToGuest::Sample(Sample { sequence: 5 })).expect("a word");
        let memory = receive(&mut up, &mut port, "its memory", |m| matches!(m, ToHost::Memory(_)));
        let ToHost::Memory(memory) = memory else { panic!("{memory:?}") };
        assert!(memory.sequence == 5 && memory.available_kib > Some(0), "{memory:?}");

        let (first, second) = (uuid(&dir, "g1"), uuid(&dir, "g2"));
        assert!(first != second && first != [0; 16] && second != [0; 16]);

        let monitor = UnixStream::connect(dir.join("g1.qmp"));
        let mut monitor = Monitor::new(monitor.expect("the second monitor"));
        let shrink = Qmp::Balloon { value_bytes: 192 << 20 };
        monitor.call(shrink, Deadline::after(PATIENCE)).expect("a balloon");
        up.until("the guest has given memory", |_| balloon_mib(&mut monitor) == 192);
        let grant = Grant { sequence: 0, pages: 16_384, reason: "g2 needs it".into() };
        port.send(&ToGuest::Grant(grant)).expect("a word");

        // The two connections of a manager may close in either order.
        if turn == 0 {
            drop((lease, port));
        } else {
            drop((port, lease));
        }
        up.until("the guest has its memory", |_| balloon_mib(&mut monitor) == 256);
        up.until("both are explained again", |up| {
            ["g1", "g2"].iter().all(|guest| up.explain_guest(guest).status.success())
        });
    }
    let qemus = up.qemus();
    up.signal("TERM");
    let report: Value = serde_json::from_str(&up.output()).expect("its report");
    for guest in report["guests"].as_array().expect("guests") {
        assert_eq!(guest["state"], "up", "{guest}");
        assert!(guest["cpu_unplugs"].as_u64() < Some(20), "counted once: {guest}");
    }
    assert!(up.child.wait().expect("its end").success());
    up.nothing_is_left(&qemus);
}

#[test]
fn impossible_start_is_refused_with_a_reason() {
    let refused = |args: &str| {
        let program = e2e::program();
        let output = Command::new(program).arg("up").args(args.split(' ')).output();
        let output = output.expect("it runs");
        assert!(!output.status.success(), "{args}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(refused("--rules no-such-preset").contains("`pinhead presets` lists them"));
    assert!(refused("--guests 0").contains("--guests"));
    assert!(refused("--arch vax").contains("s390x"));
    let dir = e2e::scratch("rules");
    let file = dir.join("bad");
    std::fs::write(&file, "UPDATE=\"1\"\nHOTPLUG=\"idel > 1\"\n").expect("a file");
    let text = refused(&format!("--rules {}", file.display()));
    assert!(text.contains("did you mean `idle`?"), "{text}");
}
