//! Three managers with ten real guests each push to one metrics server, and the pages show all of
//! them. The pages show busy guests, silent hosts, and the same numbers as a host's own pages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use e2e::browser::{self, Browser, Key, axe};
use e2e::engines::{Engine, Kind};
use e2e::farms::Farm;
use e2e::manager::{Manager, Place, Size, observe, wait_until};
use e2e::pages::{LOOKS, Pages, WIDE};
use e2e::{alone, scratch, skipped_without};
use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::Duration;

const HOSTS: [&str; 3] = ["a", "b", "c"];
const EACH: usize = 10;
/// Time limit for showing the overview.
const OVERVIEW_MS: f64 = 2_000.0;
/// Timeout until a killed host is shown as silent, including the time of a poll.
const SILENT: Duration = Duration::from_secs(65);
/// Duration that covers two whole minutes, whenever it begins.
const RECORDED: Duration = Duration::from_secs(125);

fn class(name: &str) -> String {
    format!(
        "[[class]]\nname = \"{name}\"\ncount = {EACH}\nimage = \"web\"\ntemplate = true\n\
         memory = \"96 MiB\"\nmemory_min = \"48 MiB\"\n"
    )
}

/// Returns the cells of a guest in a table. The keys are the beginnings of the column headings.
fn row(browser: &mut Browser, guest: &str) -> Vec<String> {
    let cells = browser.value(&format!(
        "(() => {{ const is_it = (table) => table.tHead.innerText.trim().startsWith('Guest');
           const table = [...document.querySelectorAll('table.guests')].find(is_it);
           const heads = [...table.tHead.rows[0].cells].map((head) => head.innerText.trim());
           const is = (row) => row.cells[0].innerText.trim() === '{guest}';
           const row = [...table.tBodies[0].rows].find(is);
           return ['CPU %', 'Size', 'Has', 'WSS', 'Priv'].map((name) =>
             row.cells[heads.findIndex((head) => head.startsWith(name))].innerText); }})()"
    ));
    cells.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
}

#[test]
fn fleet_is_one_page_and_killed_host_is_silent_in_a_minute() {
    if !e2e::is_there(browser::PROGRAM) {
        return skipped_without(browser::PROGRAM);
    }
    let Some(axe) = axe() else { return skipped_without("npm") };
    let Some(engine) = Engine::start(Kind::VictoriaMetrics, None) else { return };
    let classes: String = HOSTS.iter().map(|name| class(name)).collect();
    let farm = Farm::new("fleet", &classes, alone());
    farm.succeed(&["up", "--detach", &farm.file()]);
    let (service, _) = farm.processes();
    let run_dir = farm.run_dir(service);
    let places = HOSTS.map(|_| Place::new());
    let size = Size { budget_mib: 4_096, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    // This host's budget exceeds the guests' use. But its set point requires more free memory than
    // this budget leaves.
    let short = Size { budget_mib: 1_200, set_point_mib: 1_100, ..size };
    let mut managers: Vec<Manager<'_>> = HOSTS
        .iter()
        .zip(&places)
        .map(|(name, place)| {
            let metrics = format!(
                "\n[metrics]\nremote_write = \"{}\"\nhost = \"{name}\"\n",
                engine.write_url()
            );
            let settings = place.settings(if *name == "a" { &short } else { &size }, &metrics);
            let own = format!("{}/*.qmp", place.dir().display());
            let theirs = format!("{}/{name}*.qmp", run_dir.display());
            let text = fs::read_to_string(&settings).unwrap().replace(&own, &theirs);
            fs::write(&settings, text).unwrap();
            let manager = Manager::start(place, &settings);
            manager.knows(EACH);
            manager
        })
        .collect();
    let url = engine.url().to_string();
    let words: [&OsStr; 2] = ["--from".as_ref(), url.as_ref()];
    let pages = Pages::start(words);
    let mut browser = Browser::start(1280, 900);
    browser.open(&pages.door);
    observe(RECORDED);

    browser.open(&format!("{}/", pages.base()));
    assert_eq!(browser.text("document.querySelector('h1').innerText"), "Overview of 3 hosts");
    let states = "[...document.querySelectorAll('table')][0].tBodies[0].innerText";
    assert_eq!(browser.text(states).matches("live").count(), 3, "{}", browser.text(states));
    let guests = "[...document.querySelectorAll('table')][1].tBodies[0].rows.length";
    assert_eq!(browser.number(guests), 30.0);
    let took_ms = browser.number("performance.getEntriesByType('navigation')[0].duration");
    println!("three hosts with ten guests each: {took_ms:.0} ms");
    assert!(took_ms <= OVERVIEW_MS, "{took_ms}");

    proposes(&url);
    looked_at(&mut browser, &pages, &axe);
    logs_in(&mut browser, &url, &axe);
    same_numbers(&mut browser, &pages, &places[1]);
    browser.open(&format!("{}/", pages.base()));
    // The page refreshes its tables without a reload.
    browser.value("window.kept = 1; document.querySelector('#hosts').dataset.old = ''; 1");
    let renewed = wait_until(RENEWED, || browser.number(OLD) == 0.0);
    assert!(renewed.is_some(), "the table of hosts was not renewed");
    assert_eq!(browser.number("window.kept ?? 0"), 1.0, "the page was reloaded");
    assert_eq!(browser.text(states).matches("live").count(), 3);
    managers[2].signal("KILL");
    managers[2].end(Duration::from_secs(20));
    let silent = wait_until(SILENT, || {
        browser.open(&format!("{}/", pages.base()));
        browser.text(states).contains("silent since")
    });
    println!("a host that was killed is shown as silent after {silent:.0?}");
    let shown = browser.text(states);
    assert!(silent.is_some(), "{shown}");
    assert!(shown.trim_start().starts_with('c'), "the silent host comes first: {shown}");
    assert_eq!(shown.matches("live").count(), 2, "{shown}");
}

/// Counts the tables of hosts that were not refreshed.
const OLD: &str = "document.querySelectorAll('#hosts[data-old]').length";
/// Timeout until a page is refreshed. A page refreshes every half minute.
const RENEWED: Duration = Duration::from_secs(60);

/// Checks the page of all hosts, light, dark and on a phone.
fn looked_at(browser: &mut Browser, pages: &Pages, axe: &str) {
    for look in LOOKS {
        let faults = pages.faults(browser, axe, look, ("fleet", "/"));
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

/// Checks that a user with the password reaches the requested page by keyboard.
fn logs_in(browser: &mut Browser, url: &str, axe: &str) {
    let dir = scratch("password");
    let file = dir.join("password");
    web::write_password(&file, "correct horse").unwrap();
    let words: [&OsStr; 4] =
        ["--from".as_ref(), url.as_ref(), "--password-file".as_ref(), file.as_ref()];
    let pages = Pages::start(words);
    for look in LOOKS {
        let faults = pages.faults(browser, axe, look, ("login", "/reports"));
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
    browser.prefer_dark(false);
    browser.resize(WIDE.0, WIDE.1);
    for (word, title) in [("wrong horse", "Sign in"), ("correct horse", "Reports")] {
        browser.click("input[type=password]");
        browser.types(word);
        browser.follow(|browser| browser.press(Key::Enter));
        assert_eq!(browser.text("document.querySelector('h1').innerText"), title);
    }
    assert_eq!(browser.text("location.pathname"), "/reports");
}

/// Checks that guests of the short host are proposed for a move, each with its command.
fn proposes(url: &str) {
    let asked = |format: &str| {
        let words = ["fleet", "--from", url, "--last", "2m", "--moves", "3", "--format", format];
        let output = Command::new(e2e::program()).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    println!("{}", asked("text"));
    let told: serde_json::Value = serde_json::from_str(&asked("json")).unwrap();
    let hosts = told["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), HOSTS.len());
    for host in hosts {
        assert_eq!(host["guests"], EACH);
        let spare = host["spare_mib"].as_f64().unwrap();
        let set_point = host["set_point_mib"].as_f64().unwrap();
        assert_eq!(spare < set_point, host["host"] == "a", "{host}");
    }
    let moves = told["moves"].as_array().unwrap();
    assert!(!moves.is_empty(), "{told}");
    for one in moves {
        let guest = one["guest"].as_str().unwrap();
        assert!(one["from"] == "a" && guest.starts_with('a') && one["to"] != "a", "{one}");
        // The guest's need is a small part of its size.
        let needs = one["needs_bytes"].as_u64().unwrap();
        assert!((1 << 20..96 << 20).contains(&needs), "{one}");
        assert!(one["to_keeps_bytes"].as_u64() > one["to_set_point_bytes"].as_u64(), "{one}");
        let command = one["command"].as_str().unwrap();
        assert!(command.starts_with("virsh --connect qemu+ssh://a/system migrate"), "{command}");
    }
}

/// Compares a host's page from pushed data with a page from the host's own recordings. Both pages
/// show the same minute.
fn same_numbers(browser: &mut Browser, pages: &Pages, place: &Place) {
    let minute_ms = why::now().ms.div_euclid(60_000) * 60_000;
    let time = |ms: i64| reports::rfc3339(ms, &reports::Utc);
    let query = format!("from={}&to={}", time(minute_ms - 60_000), time(minute_ms));
    let records = place.dir().join("recordings");
    let socket = place.socket();
    let words: [&OsStr; 4] =
        ["--dir".as_ref(), records.as_ref(), "--socket".as_ref(), socket.as_ref()];
    let own = Pages::start(words);
    browser.open(&own.door);
    browser.open(&format!("{}/?{query}", own.base()));
    let names = || (1..=EACH).map(|number| format!("b{number}"));
    let recorded: Vec<Vec<String>> = names().map(|name| row(browser, &name)).collect();
    browser.open(&format!("{}/?{query}&host=b", pages.base()));
    let pushed: Vec<Vec<String>> = names().map(|name| row(browser, &name)).collect();
    // A third source is the metrics server's sums, which are on the page of all hosts.
    browser.open(&format!("{}/?{query}", pages.base()));
    let added: Vec<Vec<String>> = names().map(|name| row(browser, &name)).collect();
    println!("recorded {:?}, pushed {:?}, added up {:?}", recorded[0], pushed[0], added[0]);
    let both = recorded.iter().zip(&pushed).chain(recorded.iter().zip(&added));
    for (recorded, pushed) in both {
        for (ours, theirs) in recorded.iter().zip(pushed) {
            // Numbers are pushed every five seconds, and recorded each second.
            let is_near = match (ours.parse::<f64>(), theirs.parse::<f64>()) {
                (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= 1.0,
                _ => ours == theirs,
            };
            assert!(is_near, "{recorded:?}, {pushed:?}");
        }
    }
}
