//! Idle guests of a farm are parked, and the first client wakes them.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::farms::{Farm, connect, page, text};
use e2e::manager::{Manager, Place, Size, wait_until};
use e2e::{PATIENCE, share};
use procfs::parse::task::TaskStat;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};
use vm::wait_for_exit;

const PORT: u16 = 27_280;
const CLASSES: &str = "[[class]]\nname = \"web\"\ncount = 2\nimage = \"web\"\ntemplate = true\n\
                       memory = \"128 MiB\"\npark = \"5s\"\n\
                       ports = [{ guest = 80, host = 27280 }]\n";
const SIZE: Size =
    Size { budget_mib: 4096, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
/// Time for which a parked guest is observed. The guest's clock would be late by this time if the
/// daemon did not set the clock.
const WATCHED: Duration = Duration::from_secs(6);
const CLOCK_S: u64 = 2;
/// Time longer than the time for which a silent client keeps a guest awake.
const STARED_AT: Duration = Duration::from_secs(13);

fn until(farm: &Farm, what: &str, so: impl Fn(&[String]) -> bool) {
    let found = wait_until(PATIENCE, || so(&farm.states()));
    if found.is_some() {
        return;
    }
    // The list of the guests and the response to a park command show the reason.
    let table = farm.table();
    let names = table["guests"].as_array().into_iter().flatten();
    let names = names.filter_map(|guest| guest["name"].as_str());
    let said = names.map(|name| farm.run(&["park", &farm.guest(name)]));
    panic!("never {what}: {table:#}\n{:?}", said.collect::<Vec<_>>());
}

fn dispatches(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: fs::DirEntry| fs::read(task.path().join("schedstat")).unwrap();
    tasks.map(|task| procfs::parse::schedstat::parse(&of(task.unwrap())).unwrap().dispatches).sum()
}

fn is_stopped(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: fs::DirEntry| fs::read(task.path().join("stat")).unwrap();
    tasks.map(|task| of(task.unwrap())).all(|text| TaskStat::parse(&text).unwrap().state == b'T')
}

#[test]
fn parked_guest_costs_nothing_and_answers_clients() {
    let farm = Farm::new("parked", CLASSES, share(2));
    farm.succeed(&["up", "--detach", &farm.file()]);
    until(&farm, "parked", |states| states == ["parked", "parked"]);

    let (_, qemus) = farm.processes();
    // Each thread is dispatched once more in order to stop.
    let stopped = || qemus.iter().all(|pid| is_stopped(*pid));
    assert!(wait_until(PATIENCE, stopped).is_some(), "a thread of a parked guest goes on");
    let before: Vec<u64> = qemus.iter().map(|pid| dispatches(*pid)).collect();
    assert!(!wait_for_exit(qemus[0], WATCHED).unwrap());
    let after: Vec<u64> = qemus.iter().map(|pid| dispatches(*pid)).collect();
    assert_eq!(before, after, "a parked guest gets no CPU");

    // Several clients connect before the guest has served the first.
    let clients = [(); 6].map(|()| connect(PORT));
    for client in clients {
        let page = page(client);
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    }
    until(&farm, "the second still sleeps", |states| {
        states[1] == "parked" && states[0] != "parked"
    });

    // The guest's clock is right again, and its log contains no complaints.
    let web1 = farm.guest("web1");
    let clock: u64 = farm.succeed(&["exec", &web1, "--", "date", "+%s"]).trim().parse().unwrap();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(clock.abs_diff(now) <= CLOCK_S, "its clock says {clock}, the host's {now}");
    let log = farm.succeed(&["exec", &web1, "--", "dmesg"]).to_lowercase();
    let bad = ["soft lockup", "detected stall", "marking clocksource", "blocked for more than"];
    assert!(!bad.iter().any(|words| log.contains(words)), "{log}");
}

#[test]
fn guest_is_parked_by_hand_unless_a_client_is_connected() {
    let classes = CLASSES.replace("park = \"5s\"\n", "").replace("27280", "27290");
    let farm = Farm::new("park", &classes, share(2));
    farm.succeed(&["up", "--detach", &farm.file()]);
    let (web1, web2) = (farm.guest("web1"), farm.guest("web2"));

    let client = TcpStream::connect("127.0.0.1:27290").unwrap();
    let refused = farm.run(&["park", &web1]);
    assert!(text(&refused.stderr).contains("clients are connected"), "{refused:?}");
    drop(client);
    let parked = || farm.run(&["park", &web1]).status.success();
    assert!(wait_until(PATIENCE, parked).is_some(), "a client that has gone keeps nothing awake");
    assert_eq!(farm.states(), ["parked", "up"]);

    // The date is set as if the guest had been parked for an hour with its clock stopped.
    let clock = |command: &str| farm.succeed(&["exec", &web2, "--", "sh", "-c", command]);
    clock("date -s @$(($(date +%s) - 3600))");
    assert!(farm.succeed(&["park", &web1, &web2]).contains("web2: parked after "));
    assert!(farm.succeed(&["wake", &web2]).starts_with("web2: awake after "));
    let right = || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        clock("date +%s").trim().parse::<u64>().unwrap().abs_diff(now) <= CLOCK_S
    };
    assert!(wait_until(PATIENCE, right).is_some(), "its clock is an hour late");
    assert_eq!(farm.states(), ["parked", "up"]);
    assert_eq!(farm.succeed(&["exec", &web1, "--", "hostname"]).trim(), "web1");
    assert_eq!(farm.states(), ["up", "up"]);
    let mut exec = farm.command(&["exec", &web1, "--", "sleep", "1000"]).spawn().unwrap();
    let refused = || text(&farm.run(&["park", &web1]).stderr).contains("a command runs in it");
    assert!(wait_until(PATIENCE, refused).is_some(), "a guest in use is parked");
    exec.kill().unwrap();
    exec.wait().unwrap();

    // The monitor of a parked guest is hidden until the guest runs, because a stopped QEMU sends no
    // greeting to a manager.
    farm.succeed(&["park", &web2]);
    let (service, _) = farm.processes();
    let monitor = farm.run_dir(service).join("web2.qmp");
    let error = UnixStream::connect(&monitor).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    farm.succeed(&["wake", &web2]);
    UnixStream::connect(&monitor).unwrap();

    farm.succeed(&["park", &web2]);
    let (_, qemus) = farm.processes();
    farm.succeed(&["down", &farm.name]);
    e2e::farms::are_gone(&qemus);
}

#[test]
fn guest_parks_with_silent_client_and_only_for_its_limit() {
    let options = "park = \"5s\"\npark_at_most = \"20s\"\npark_with_connections = true\n";
    let classes = CLASSES.replace("park = \"5s\"\n", options).replace("27280", "27300");
    let farm = Farm::new("silent", &classes.replace("count = 2", "count = 1"), share(1));
    farm.succeed(&["up", "--detach", &farm.file()]);
    // A job becomes due by the clock while the guest is parked. The job polls, as cron does.
    let due = "due=$(($(date +%s) + 12)); (while [ $(date +%s) -lt $due ]; do sleep 8; done; \
               date +%s > /run/done) < /dev/null > /dev/null 2>&1 & echo $due";
    let exec = |command: &str| {
        let said = farm.succeed(&["exec", &farm.guest("web1"), "--", "sh", "-c", command]);
        said.trim().parse::<u64>().unwrap()
    };
    let due = exec(due);
    let client = connect(27_300);
    until(&farm, "parked beside a client", |states| states == ["parked"]);
    until(&farm, "woken by the clock", |states| states != ["parked"]);
    until(&farm, "parked again", |states| states == ["parked"]);
    let done = exec("until [ -s /run/done ]; do sleep 1; done; cat /run/done");
    assert!((due..=due + 60).contains(&done), "due at {due}, done at {done}");
    let page = page(client);
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
}

/// The job is only in cron's table, and is not declared to the farm. The guest is parked in memory
/// or on disk.
#[test]
fn guest_is_woken_in_time_for_its_cron_job() {
    let in_memory = CLASSES.replace("27280", "27340").replace("count = 2", "count = 1");
    let on_disk = in_memory.replace("27340", "27350").replace("\"web\"\ncount", "\"disk\"\ncount");
    let on_disk = on_disk.replace("park = \"5s\"", "park = \"5s\"\npark_to = \"disk\"");
    let farm = Farm::new("cron", &format!("{in_memory}{on_disk}"), share(2));
    farm.succeed(&["up", "--detach", &farm.file()]);
    is_woken_for_cron(&farm, &["web1", "disk1"]);
}

/// A manager is connected to the port of the guest's daemon. The manager passes on the daemon's
/// next timer and its files.
#[test]
fn guest_of_a_manager_is_woken_in_time_for_its_cron_job() {
    let classes = CLASSES.replace("27280", "27370").replace("count = 2", "count = 1");
    let farm = Farm::new("cronhost", &classes, share(1));
    farm.succeed(&["up", "--detach", &farm.file()]);
    let place = Place::new();
    let sockets = farm.run_dir(farm.processes().0);
    let manager = Manager::start(&place, &place.settings_for(&sockets, &SIZE, ""));
    manager.knows(1);
    until(&farm, "taken by the manager", |states| states != ["up"]);
    let (guest, socket) = (farm.guest("web1"), place.socket().display().to_string());
    let explain = ["explain", "default", "--guest", &guest, "--socket", &socket];
    let is_explained = || farm.run(&explain).status.success();
    assert!(wait_until(PATIENCE, is_explained).is_some(), "{:?}", farm.run(&explain));
    is_woken_for_cron(&farm, &["web1"]);
    assert_eq!(manager.ps().guests.len(), 1);
}

/// Gives each guest a job that is due within the next two minutes, and waits until all guests have
/// been parked, woken and parked again.
fn is_woken_for_cron(farm: &Farm, guests: &[&str]) {
    let exec = |guest: &str, line: &str| {
        let said = farm.succeed(&["exec", &farm.guest(guest), "--", "sh", "-c", line]);
        said.trim().parse::<u64>().unwrap()
    };
    // The job's time is far enough ahead that the guest is parked before.
    let begin = |guest: &&str| {
        let line = "mkdir -p /var/spool/cron/crontabs; due=$((($(date +%s) + 89) / 60 * 60)); \
                    echo \"$(date -d @$due '+%M %H') * * * date +%s > /run/done\" \
                    > /var/spool/cron/crontabs/root; busybox crond > /dev/null 2>&1; echo $due";
        exec(guest, line)
    };
    let due: Vec<u64> = guests.iter().map(begin).collect();
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let are_parked = |states: &[String]| states.iter().all(|state| state == "parked");
    until(farm, "parked", are_parked);
    assert!(now() < due[0], "parked only at {}, with a line at {}", now(), due[0]);
    until(farm, "woken by the clock", |states| !states.contains(&"parked".to_owned()));
    let woken = now();
    // The guest stays awake for the whole minute, because cron checks its table at its own times.
    until(farm, "parked again", are_parked);
    for (guest, due) in guests.iter().zip(due) {
        let done = exec(guest, "cat /run/done");
        println!("{guest}: due at {due}, all woken at {woken}, done at {done}");
        assert!(woken + 3 >= due, "woken {} s too soon", due - woken);
        assert!((due..due + 60).contains(&done), "due at {due}, done at {done}");
    }
}

#[test]
fn silent_client_keeps_guest_awake_shorter_than_active_one() {
    let classes = CLASSES.replace("park = \"5s\"\n", "").replace("27280", "27310");
    let farm = Farm::new("stared", &classes.replace("count = 2", "count = 1"), share(1));
    farm.succeed(&["up", "--detach", &farm.file()]);
    let web1 = farm.guest("web1");
    farm.succeed(&["park", &web1]);
    let (silent, gone) = (connect(27_310), connect(27_310));
    until(&farm, "woken by a client", |states| states == ["up"]);
    until(&farm, "parked, as all clients are silent", |states| states == ["parked"]);

    // A client that disconnects does not wake the guest.
    let (_, qemus) = farm.processes();
    assert!(wait_until(PATIENCE, || is_stopped(qemus[0])).is_some(), "a thread still runs");
    let before = dispatches(qemus[0]);
    drop(gone);
    assert!(!wait_for_exit(qemus[0], Duration::from_secs(2)).unwrap());
    assert_eq!(dispatches(qemus[0]), before, "woken by a disconnected client");

    // A late request is served.
    let page = page(silent);
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    farm.succeed(&["park", &web1]);
    let mut client = connect(27_310);
    client.write_all(b"GET / HTTP/1.1\r\nHost: web1\r\n\r\n").unwrap();
    assert!(client.read(&mut [0; 64]).unwrap() > 0);
    assert!(!wait_for_exit(qemus[0], STARED_AT).unwrap());
    assert_eq!(farm.states(), ["up"], "parked beside a client that had an answer");
}

/// Web servers on IBM Z. One guest boots, the others resume its state, and any client wakes them.
#[test]
fn s390x_parked_web_server_answers_clients() {
    let classes = CLASSES.replace("27280", "27360").replace("image", "arch = \"s390x\"\nimage");
    let farm = Farm::new("zweb", &classes, share(2));
    farm.succeed(&["up", "--detach", &farm.file()]);
    until(&farm, "parked", |states| states == ["parked", "parked"]);
    for port in [27_360, 27_361] {
        let page = page(connect(port));
        assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    }
    let said = farm.succeed(&["exec", &farm.guest("web2"), "--", "uname", "-m"]);
    assert_eq!(said.trim(), "s390x");
}
