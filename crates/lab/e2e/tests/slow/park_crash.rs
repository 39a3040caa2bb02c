//! A farm that is killed while a guest is written to disk or read from disk.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use base::Rng;
use e2e::farms::{Farm, are_gone, text};
use e2e::manager::wait_until;
use e2e::{PATIENCE, share};
use std::process::{Command, Stdio};
use std::time::Duration;
use vm::wait_for_exit;

const CLASS: &str = "[[class]]\nname = \"web\"\nimage = \"web\"\ntemplate = true\n\
                     memory = \"96 MiB\"\npark_to = \"disk\"\n\
                     ports = [{ guest = 80, host = 27440 }]\n";
const MOMENTS: u64 = 50;
/// Range of the moments of a kill. It exceeds the duration of parking (50 to 100 ms here) and of
/// waking (300 ms here).
const PARK_US: u64 = 300_000;
const WAKE_US: u64 = 500_000;

/// Fills some of the guest's memory with lines. Each line repeats a number a hundred times.
fn fill(number: u64) -> String {
    let line = format!("{number},").repeat(100);
    format!("yes {line} | head -c 2000000 > /run/kept; echo filled")
}

/// Prints the size of the filled file, and the numbers in this file.
const READ: &str = "wc -c < /run/kept; sed '$d' /run/kept | uniq | cut -d, -f1 | tr '\\n' ' '";

#[test]
fn farm_killed_at_any_moment_leaves_older_or_newer_state() {
    let farm = Farm::new("parkcrash", CLASS, share(1));
    let web1 = farm.guest("web1");
    let exec = |line: &str| farm.succeed(&["exec", &web1, "--", "sh", "-c", line]);
    let up = || farm.succeed(&["up", "--detach", &farm.file()]);
    // The client that checked the server may still be connected.
    let park = || {
        let parked = || farm.run(&["park", &web1]).status.success();
        assert!(wait_until(PATIENCE, parked).is_some(), "it cannot be parked");
    };
    let mut rng = Rng::new(20_261_124);
    up();
    exec(&fill(0));
    park();
    let (mut kept, mut older, mut newer) = (0, 0, 0);
    for number in 1..=MOMENTS {
        exec(&fill(number));
        let wakes = number % 2 == 0;
        if wakes {
            park();
        }
        let (command, most_us) = if wakes { ("wake", WAKE_US) } else { ("park", PARK_US) };
        let farm_pid = farm.table()["pid"].to_string();
        let mut asked = farm.command(&[command, &web1]);
        let mut asked = asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let after = Duration::from_micros(rng.within(0, most_us));
        // The farm does not end by itself, so the call waits for the whole time.
        let _ = wait_for_exit(farm_pid.parse().unwrap(), after);
        assert!(Command::new("kill").args(["-9", &farm_pid]).status().unwrap().success());
        are_gone(&[farm_pid.parse().unwrap()]);
        asked.wait().unwrap();

        let said = up();
        assert!(!said.contains("starts from its template"), "moment {number}: {said}");
        let mut found = String::new();
        let is_read = || {
            let output = farm.run(&["exec", &web1, "--", "sh", "-c", READ]);
            found = text(&output.stdout);
            output.status.success()
        };
        assert!(wait_until(PATIENCE, is_read).is_some(), "moment {number}: {found}");
        let is = |number: u64| found.trim() == format!("2000000\n{number}");
        assert!(is(number) || (!wakes && is(kept)), "moment {number}, of {kept}: {found}");
        if is(number) {
            newer += 1;
            kept = number;
        } else {
            older += 1;
        }
    }
    println!("{older} times the older state, {newer} times the newer");
    assert!(older > 0 && newer > MOMENTS / 2, "{older} older, {newer} newer: no moments between");
}
