//! Guests that are parked on disk. Their QEMU ends, and a client gets each guest back in the same
//! state.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::farms::{Farm, are_gone, connect, page, text};
use e2e::manager::wait_until;
use e2e::{PATIENCE, share};
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::SystemTime;
use vm::images;

const CLASSES: &str = "[[class]]\nname = \"web\"\ncount = 2\nimage = \"web\"\ntemplate = true\n\
                       memory = \"128 MiB\"\npark_to = \"disk\"\n\
                       ports = [{ guest = 80, host = 27420 }]\n";
const CLOCK_S: u64 = 2;
const FILE_MAX: u64 = 8 << 20;

fn until(farm: &Farm, what: &str, so: impl Fn(&[String]) -> bool) {
    let found = wait_until(PATIENCE, || so(&farm.states()));
    assert!(found.is_some(), "never {what}: {:?}", farm.states());
}

fn pids(farm: &Farm) -> Vec<u32> {
    let table = farm.table();
    let guests = table["guests"].as_array().unwrap().iter();
    guests.filter_map(|guest| u32::try_from(guest["pid"].as_u64()?).ok()).collect()
}

/// Returns the directory of the farm's parked guests.
fn files(farm: &Farm) -> PathBuf {
    images::Cache::from_environment().unwrap().root().join("parked").join(&farm.name)
}

fn exec(farm: &Farm, guest: &str, line: &str) -> String {
    farm.succeed(&["exec", &farm.guest(guest), "--", "sh", "-c", line]).trim().to_owned()
}

#[test]
fn a_guest_on_disk_has_no_process_and_comes_back_as_it_was() {
    let farm = Farm::new("disk", CLASSES, share(2));
    farm.succeed(&["up", "--detach", &farm.file()]);
    let random = "head -c 1000000 /dev/urandom > /run/kept; md5sum < /run/kept; hostname";
    let before = exec(&farm, "web1", random);
    exec(&farm, "web1", "date -s @$(($(date +%s) - 3600))");
    let (web1, web2) = (farm.guest("web1"), farm.guest("web2"));
    let qemus = pids(&farm);
    let silent = TcpStream::connect("127.0.0.1:27421").unwrap();
    // Before the relay has accepted the client, the guest may begin to park. The client then wakes
    // the guest.
    let refused = || text(&farm.run(&["park", &web2]).stderr).contains("clients are connected");
    assert!(wait_until(PATIENCE, refused).is_some(), "the guest is parked despite its client");
    assert_eq!(farm.states()[1], "up");
    drop(silent);
    let parked = || farm.run(&["park", &web1, &web2]).status.success();
    assert!(wait_until(PATIENCE, parked).is_some(), "a client that has gone keeps it awake");
    assert_eq!(farm.states(), ["parked", "parked"]);
    are_gone(&qemus);
    for guest in ["web1", "web2"] {
        let file = files(&farm).join(format!("{guest}.park"));
        let length = file.metadata().unwrap().len();
        println!("{guest}: {length} bytes");
        assert!((1..FILE_MAX).contains(&length), "{guest}: {length} bytes");
    }

    // Several clients connect at once, before a QEMU exists.
    let clients: Vec<_> = (0..6).map(|_| std::thread::spawn(|| page(connect(27_420)))).collect();
    for client in clients {
        let page = client.join().unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    }
    assert_eq!(farm.states(), ["up", "parked"]);
    assert_eq!(exec(&farm, "web1", "md5sum < /run/kept; hostname"), before);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let clock: u64 = exec(&farm, "web1", "date +%s").parse().unwrap();
    assert!(clock.abs_diff(now) <= CLOCK_S, "its clock says {clock}, the host's {now}");
    let log = exec(&farm, "web1", "dmesg").to_lowercase();
    let bad = ["soft lockup", "detected stall", "marking clocksource", "blocked for more than"];
    assert!(!bad.iter().any(|words| log.contains(words)), "{log}");
    // A command also wakes the guest, and the guest can be parked and woken repeatedly.
    assert_eq!(exec(&farm, "web2", "hostname"), "web2");
    farm.succeed(&["park", &web2]);
    let explained = farm.run(&["explain", "default", "--interval", "300", "--guest", &web2]);
    assert!(explained.status.success(), "{explained:?}");
    farm.succeed(&["park", &web2]);
    let mut console = farm.command(&["console", &web2]).stdin(Stdio::piped()).spawn().unwrap();
    until(&farm, "awake for its console", |states| states[1] == "up");
    let refused = text(&farm.run(&["park", &web2]).stderr);
    assert!(refused.contains("cannot be parked: a "), "{refused}");
    console.kill().unwrap();
    console.wait().unwrap();
    for _ in 0..3 {
        assert!(farm.succeed(&["park", &web1]).contains("parked"));
        assert!(farm.succeed(&["wake", &web1]).contains("awake"));
    }
    assert_eq!(exec(&farm, "web1", "md5sum < /run/kept; hostname"), before);

    // The firmware is not part of the state. A machine that is reset boots from scratch.
    let reset = ["exec", &web1, "--", "sh", "-c", "reboot -f || echo b > /proc/sysrq-trigger"];
    farm.run(&reset);
    let is_new = || {
        let line = ["exec", &web1, "--", "sh", "-c", "test ! -e /run/kept && hostname"];
        text(&farm.run(&line).stdout).trim() == "web1"
    };
    assert!(wait_until(PATIENCE, is_new).is_some(), "the guest does not return from its reset");
    assert!(page(connect(27_420)).starts_with("HTTP/1.1 200 OK"));
    farm.succeed(&["park", &web1]);
    let dir = files(&farm);
    farm.succeed(&["down", &farm.name]);
    assert!(!dir.exists(), "an orderly end leaves nothing to go on from");
}

#[test]
fn crashed_guest_resumes_from_disk_or_boots_if_damaged() {
    let classes = CLASSES.replace("27420", "27430");
    let farm = Farm::new("crash", &classes, share(2));
    let crash = || {
        let pid = farm.table()["pid"].to_string();
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        are_gone(&[pid.parse().unwrap()]);
    };
    farm.succeed(&["up", "--detach", &farm.file()]);
    let (web1, web2) = (farm.guest("web1"), farm.guest("web2"));
    for (guest, name) in [("web1", &web1), ("web2", &web2)] {
        exec(&farm, guest, "echo older > /run/kept");
        farm.succeed(&["park", name]);
    }
    // Later changes are only in memory.
    exec(&farm, "web1", "echo later > /run/kept");
    let file = files(&farm).join("web2.park");
    crash();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let told = farm.run(&["up", "--detach", &farm.file()]);
    assert!(told.status.success(), "{told:?}");
    assert_eq!(exec(&farm, "web1", "cat /run/kept; hostname"), "older\nweb1");
    assert_eq!(exec(&farm, "web2", "test -e /run/kept || hostname"), "web2");
    let said = text(&[told.stdout, told.stderr].concat());
    assert!(said.contains("web2 starts from its template") && said.contains("web2.park"), "{said}");
    for port in [27_430, 27_431] {
        assert!(page(connect(port)).starts_with("HTTP/1.1 200 OK"));
    }
}

#[test]
fn failed_wake_is_retried_and_silent_client_keeps_none_awake() {
    let classes = CLASSES.replace("27420", "27450").replace("count = 2", "count = 1");
    let farm = Farm::new("hurt", &classes, share(1));
    farm.succeed(&["up", "--detach", &farm.file()]);
    let web1 = farm.guest("web1");
    exec(&farm, "web1", "echo mine > /run/kept");
    farm.succeed(&["park", &web1]);
    // The guest's file cannot be read for a while.
    let (file, aside) = (files(&farm).join("web1.park"), files(&farm).join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    let client = std::thread::spawn(|| page(connect(27_450)));
    until(&farm, "wanted", |states| states != ["parked"] || client.is_finished());
    std::fs::rename(&aside, &file).unwrap();
    let page = client.join().unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert_eq!(exec(&farm, "web1", "cat /run/kept"), "mine");

    // After a silent client has woken it, the guest parks again without a command.
    let parked = || farm.run(&["park", &web1]).status.success();
    assert!(wait_until(PATIENCE, parked).is_some());
    let silent = TcpStream::connect("127.0.0.1:27450").unwrap();
    until(&farm, "woken by a client", |states| states == ["up"]);
    until(&farm, "parked, as all clients are silent", |states| states == ["parked"]);
    let mut silent = silent;
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    silent.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut page = Vec::new();
    silent.read_to_end(&mut page).unwrap();
    assert!(page.starts_with(b"HTTP/1.1 200 OK"), "a late request is served");
}

/// Replacement for QEMU. It fails and counts the attempt in the file `refuses` while this file
/// exists.
const STAND_IN: &str = "#!/bin/sh\n[ ! -e DIR/refuses ] || { echo >> DIR/refuses; exit 1; }\n\
                        exec /usr/bin/qemu-system-x86_64 \"$@\"\n";
/// Number of failures. An earlier version gave up a guest after fewer failures.
const REFUSED: usize = 8;

/// Returns the address at which a guest's QEMU listens, from its command line.
fn listens_at(pid: u32) -> SocketAddrV4 {
    let words = text(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap());
    let (_, address) = words.split_once("hostfwd=tcp:").unwrap();
    address.split('-').next().unwrap().parse().unwrap()
}

#[test]
fn finding2_01_a_parked_guest_keeps_its_ports_and_memory() {
    let classes = CLASSES.replace("27420", "27460").replace("count = 2", "count = 1");
    let farm = Farm::new("bound", &classes, share(1));
    let qemu = farm.dir.join("qemu-system-x86_64");
    let dir = farm.dir.display().to_string();
    std::fs::write(&qemu, STAND_IN.replace("DIR", &dir)).unwrap();
    std::fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&farm.dir, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{dir}:{}", std::env::var("PATH").unwrap());
    let up = farm.command(&["up", "--detach", &farm.file()]).env("PATH", path).status();
    assert!(up.unwrap().success());
    let web1 = farm.guest("web1");
    exec(&farm, "web1", "echo mine > /run/kept");
    let qemus = pids(&farm);
    let before = listens_at(qemus[0]);
    farm.succeed(&["park", &web1]);
    are_gone(&qemus);

    // If another process takes the previous address, this does no harm.
    let _squatter = TcpListener::bind(before).unwrap();
    assert!(page(connect(27_460)).starts_with("HTTP/1.1 200 OK"));
    assert_ne!(listens_at(pids(&farm)[0]), before);
    let parked = || farm.run(&["park", &web1]).status.success();
    assert!(wait_until(PATIENCE, parked).is_some(), "a client that has gone keeps it awake");

    // The guest is kept, even if its QEMU fails to start many times.
    let refuses = farm.dir.join("refuses");
    std::fs::write(&refuses, "").unwrap();
    std::fs::set_permissions(&refuses, PermissionsExt::from_mode(0o666)).unwrap();
    let client = std::thread::spawn(|| page(connect(27_460)));
    let refused = || std::fs::read_to_string(&refuses).unwrap().len();
    for times in 1..=REFUSED {
        // A request makes the next attempt earlier.
        let mut wakes = farm.command(&["wake", &web1]).spawn().unwrap();
        let tried = wait_until(PATIENCE, || refused() >= times);
        wakes.kill().unwrap();
        wakes.wait().unwrap();
        assert!(tried.is_some(), "{times}: {:?}", farm.table());
    }
    assert_eq!(farm.states(), ["waking"]);
    assert!(TcpListener::bind("127.0.0.1:27460").is_err(), "its port is free");
    std::fs::remove_file(&refuses).unwrap();
    farm.succeed(&["wake", &web1]);
    let page = client.join().unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert_eq!(exec(&farm, "web1", "cat /run/kept"), "mine");
}
