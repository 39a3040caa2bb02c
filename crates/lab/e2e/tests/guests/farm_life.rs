//! Farms as a user runs them: `up FARM.toml`, `ps`, `exec`, `logs`, `console`, `down`. Nothing is
//! left at the end.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::PATIENCE;
use e2e::farms::{Farm, are_gone, text};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use vm::images;
use vm::{Deadline, wait_for_exit};

/// Starts `pinhead console` in a terminal.
fn console(farm: &Farm, guest: &str) -> (File, Child, BufReader<std::process::ChildStdout>) {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keys).unwrap();
    unlockpt(&keys).unwrap();
    let name = ptsname(&keys, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = farm.command(&["console", guest]);
    command.stdin(Stdio::from(terminal)).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let shown = BufReader::new(child.stdout.take().unwrap());
    (File::from(keys), child, shown)
}

fn shows(shown: &mut impl Read, wanted: &str) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !text(&seen).contains(wanted) {
        assert_eq!(shown.read(&mut byte).unwrap(), 1, "never {wanted:?}: {}", text(&seen));
        seen.push(byte[0]);
    }
}

#[test]
fn a_detached_farm_is_used_and_ends_with_nothing_left() {
    let farm = Farm::new(
        "life",
        "[[class]]\nname = 'a'\ncount = 2\nimage = 'web'\n\
         command = 'echo class-command in $(hostname)'\n\
         ports = [{ guest = 80, host = 27180 }]\n\
         [[class]]\nname = 'b'\ndaemon = false\n[[class]]\nname = 'never'\n",
        e2e::share(3),
    );
    let output = farm.succeed(&["up", &farm.file(), "--detach", "--only", "a", "--only", "b"]);
    assert!(output.contains("3 of 3 guests ready"), "{output}");
    assert!(output.contains("a1 to a2: http://127.0.0.1:27180 to 27181 (port 80)"), "{output}");
    let mut web = TcpStream::connect("127.0.0.1:27181").unwrap();
    web.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut page = Vec::new();
    web.read_to_end(&mut page).unwrap();
    assert!(page.starts_with(b"HTTP/1.1 200 OK") && page.len() > images::PAGE_BYTES);

    let table = farm.table();
    let guests = table["guests"].as_array().unwrap();
    let names: Vec<&str> = guests.iter().map(|guest| guest["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a1", "a2", "b1"]);
    for guest in guests {
        assert_eq!(guest["ready"], true, "{guest}");
        assert!(guest["resident_kib"].as_u64() > Some(10_000), "{guest}");
    }
    assert_eq!((&guests[0]["state"], &guests[2]["state"]), (&"up".into(), &"unmanaged".into()));
    assert_eq!(
        (&guests[1]["address"], &guests[1]["ports"][0]["host"]),
        (&"10.1.0.2".into(), &27181.into())
    );
    let shown = farm.succeed(&["ps", "--farm", &farm.name]);
    assert!(shown.contains("3 guests in ") && shown.contains("127.0.0.1:27181>80"), "{shown}");

    let again = farm.run(&["up", &farm.file(), "--detach", "--only", "b"]);
    let (wanted, error) =
        (format!("A farm called {} runs already", farm.name), text(&again.stderr));
    assert!(!again.status.success() && error.contains(&wanted), "{error}");

    what_exec_does(&farm);
    let log = farm.succeed(&["logs", &farm.guest("a2")]);
    assert!(log.contains("a2 is up") && log.contains("class-command in a2"), "{log}");
    assert!(!log.contains(['\u{1b}', '\r']), "{log:?}");
    assert_eq!(farm.succeed(&["console", "--log", &farm.guest("a2")]), log);

    let (mut keys, mut child, mut shown) = console(&farm, &farm.guest("b1"));
    shows(&mut shown, "# ");
    keys.write_all(b"echo sum is $((40 + 2))\r").unwrap();
    shows(&mut shown, "sum is 42");
    keys.write_all(b"\x1d").unwrap();
    assert!(child.wait().unwrap().success());

    let (service, guests) = farm.processes();
    let run_dir = farm.run_dir(service);
    let output = farm.succeed(&["down", &farm.file()]);
    assert!(output.contains("3 guests ended in"), "{output}");
    are_gone(&guests);
    are_gone(&[service]);
    assert!(!run_dir.exists(), "{}", run_dir.display());
    let left: Vec<_> = fs::read_dir(&farm.dir).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(!farm.run(&["ps", "--farm", &farm.name]).status.success());
}

fn what_exec_does(farm: &Farm) {
    let (a1, b1) = (farm.guest("a1"), farm.guest("b1"));
    assert_eq!(farm.succeed(&["exec", &a1, "--", "hostname"]), "a1\n");
    let failed = farm.run(&["exec", &b1, "--", "sh", "-c", "echo 'out  put'; exit 7"]);
    assert_eq!((failed.status.code(), text(&failed.stdout).as_str()), (Some(7), "out  put\n"));
    // A pipe receives any bytes unchanged.
    let bytes = farm.run(&["exec", &a1, "--", "printf", "\\001\\377\\033[2J\\r\\n"]);
    assert_eq!(bytes.stdout, b"\x01\xff\x1b[2J\r\n");
    let large = farm.run(&["exec", &a1, "--", "seq", "100000"]);
    assert!(large.stdout.ends_with(b"\n99999\n100000\n"));
    assert_eq!(large.stdout.len(), 588_895);
    // The reader of the output leaves (`| head`), and the command ends with its first write.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = farm.command(&["exec", &a1, "--", "seq", "1000"]);
    let unread = unread.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!((unread.status.code(), text(&unread.stderr).as_str()), (Some(0), ""));
    let killed = farm.run(&["exec", "--timeout", "1", &a1, "--", "sleep", "1000"]);
    assert_eq!(killed.status.code(), Some(128 + 9), "{}", text(&killed.stderr));
    assert_eq!(farm.succeed(&["exec", &a1, "--", "echo", "alive"]), "alive\n");
    // A command that runs while its guest reboots never ends, and blocks no other command.
    let gone = farm.run(&["exec", &a1, "--", "sh", "-c", "reboot -f; sleep 600"]);
    assert_eq!(gone.status.code(), Some(125), "{}", text(&gone.stderr));
    assert_eq!(farm.succeed(&["exec", &a1, "--", "echo", "back"]), "back\n");
    let nobody = farm.run(&["exec", &farm.guest("a3"), "--", "true"]);
    assert_eq!(nobody.status.code(), Some(125));
    assert!(text(&nobody.stderr).contains("no guest \"a3\""), "{}", text(&nobody.stderr));
}

/// If the command that waits for a start is ended, the start ends as well.
#[test]
fn abandoned_start_is_given_up() {
    // No process listens on port 81, so the guests are never ready, even if this test checks late.
    let classes = "[[class]]\nname = 'a'\ncount = 2\nports = [{ guest = 81, host = 27380 }]\n";
    let farm = Farm::new("left", classes, e2e::share(2));
    let mut command = farm.command(&["up", &farm.file(), "--detach"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let starts = lines.map_while(Result::ok).find(|line| line.contains("0 of 2 guests ready"));
    assert!(starts.is_some());
    let (service, _) = {
        let deadline = Deadline::after(PATIENCE);
        loop {
            // The line is printed while the first guests are being started.
            let output = farm.run(&["ps", "--farm", &farm.name, "--format", "json"]);
            let table: Option<Value> = serde_json::from_slice(&output.stdout).ok();
            if let Some(pid) = table.and_then(|all| all["farms"][0]["pid"].as_u64()) {
                break (u32::try_from(pid).unwrap(), ());
            }
            assert!(deadline.remaining().is_some(), "{}", text(&output.stderr));
        }
    };
    let run_dir = farm.run_dir(service);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_for_exit(service, PATIENCE).unwrap());
    assert!(!run_dir.exists(), "{}", run_dir.display());
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_places() {
    let farm =
        Farm::new("wrong", "[[class]]\nname = 'web'\ncuont = 3\nimage = 'x'\n", e2e::share(0));
    for args in [["up", &farm.file(), "--detach"].as_slice(), &["up", &farm.file()]] {
        let refused = farm.run(args);
        let output = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{output}");
        assert!(output.contains("FARM.toml:4:1: class: no key `cuont`"), "{output}");
        assert!(output.contains("FARM.toml:5:9: class.image: no image `x`"), "{output}");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/FARM.toml");
    let parsed = farm::config::load(&example).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((parsed.name.as_str(), parsed.guests()), ("example", 12));
    let none = farm.run(&["up", &example.display().to_string(), "--only", "wbe"]);
    assert!(text(&none.stderr).contains("the classes are web, job"), "{}", text(&none.stderr));
    let mixed = farm.run(&["up", &farm.file(), "--guests", "2"]);
    assert!(text(&mixed.stderr).contains("cannot be used with"), "{}", text(&mixed.stderr));
}
