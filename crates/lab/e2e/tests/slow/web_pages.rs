//! Pages in a real browser, with a hundred real guests. The tests cover the pages' appearance,
//! their use by mouse or keys alone, and their cost. Pictures of every page are kept for review in
//! `target/web-pages`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use e2e::browser::{self, Browser, Key, axe};
use e2e::farms::{Farm, text};
use e2e::manager::{Manager, Place, Size, observe, wait_until};
use e2e::pages::{CONTINUED, LOOKS, Pages, WIDE, gallery};
use e2e::{alone, skipped_without};
use procfs::parse::task::{StatField, TaskStat};
use procfs::parse::value_of;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const GUESTS: usize = 100;
const CLASSES: &str = "[[class]]\nname = \"web\"\ncount = 100\nimage = \"web\"\n\
                       template = true\nmemory = \"96 MiB\"\nmemory_min = \"48 MiB\"\n";
/// Time for which a guest computes. It covers whole recorded minutes, whenever the load begins.
const LOUD_S: u64 = 130;
/// Duration of a measurement, with or without a viewer.
const LOOK: Duration = Duration::from_secs(10);
/// Number of cycles. A cycle has two measurements with a viewer, and two without a viewer.
const LOOKS_AND_NOT: usize = 3;
/// Maximum ratio of the guests' wake-ups with a viewer to those without a viewer. When each guest
/// got a single request for tasks during a measurement, the ratio was 1.7 to 1.9.
const WOKEN_MORE: f64 = 1.2;
/// Maximum size of the first page and of everything that it loads, as transferred.
const FIRST_PAGE_BYTES: f64 = 100_000.0;
const FIRST_PAINT_MS: f64 = 500.0;
const ATTACK: Duration = Duration::from_secs(10);
/// Maximum CPU time that a viewer costs, as a part of a core.
const VIEWER_CPU: f64 = 0.01;

fn pages_of(place: &Place) -> Pages {
    let (socket, dir) = (place.socket(), place.dir());
    let (records, journal) = (dir.join("recordings"), dir.join("journal.db"));
    let words: [&OsStr; 7] = [
        "--allow-changes".as_ref(),
        "--socket".as_ref(),
        socket.as_ref(),
        "--dir".as_ref(),
        records.as_ref(),
        "--journal".as_ref(),
        journal.as_ref(),
    ];
    Pages::start(words)
}

fn report(place: &Place, name: &str, times: [&str; 2]) -> Value {
    let mut command = Command::new(e2e::program());
    command.args(["report", name, "--class", "web7", "--from", times[0], "--to", times[1]]);
    command.args(["--format", "json", "--dir"]).arg(place.dir().join("recordings"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the CPU time of a process, including its ended threads.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap();
    let ticks = [StatField::UserTicks, StatField::SystemTicks];
    let ticks = TaskStat::parse(&stat).unwrap().numbers(ticks).unwrap();
    Duration::from_millis(10) * u32::try_from(ticks.iter().sum::<u64>()).unwrap()
}

/// Returns the number of voluntary sleeps of the threads of some processes, which equals the number
/// of wake-ups. Dispatches would include preemptions by other load.
fn sleeps(pids: &[u32]) -> u64 {
    let of_task = |task: &Path| {
        let text = fs::read(task.join("status")).unwrap();
        value_of(&text, "voluntary_ctxt_switches").unwrap()
    };
    let of = |pid: &u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.map(|task| of_task(&task.unwrap().path())).sum::<u64>()
    };
    pids.iter().map(of).sum()
}

/// Returns the cell at a row and a column. The first table that has both is used.
fn cell(browser: &mut Browser, row: &str, column: &str) -> String {
    browser.text(&format!(
        "(() => {{ for (const table of document.querySelectorAll('table')) {{
           const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
           const at = heads.findIndex((head) => head.textContent.trim().startsWith('{column}'));
           const is = (row) => row.cells[0].textContent.trim() === '{row}';
           const row = [...table.tBodies[0].rows].find(is);
           if (at >= 0 && row) return row.cells[at].textContent.trim();
         }} return 'not there'; }})()"
    ))
}

/// Number of pages with a special layout. The same code draws all other pages.
const FEW: usize = 12;

/// Returns the pages with the names of their pictures.
fn pages_with(minute: &str) -> Vec<(&'static str, String)> {
    let mut pages: Vec<(&str, String)> = vec![
        ("overview", "/".into()),
        ("guest", "/guest/web1".into()),
        ("minute", format!("/guest/web1?{minute}")),
        ("decisions", "/decisions".into()),
        ("reports", "/reports".into()),
        ("tune", "/tune".into()),
        ("farms", "/farms".into()),
        ("about", "/about".into()),
        ("nowhere", "/nowhere".into()),
    ];
    let reports = ["HDR", "MAIN", "GUEST1", "GUEST2", "STATE", "QUEUE", "STORE1", "STORE2"];
    let more = ["LEVERS", "PAGE", "CACHE", "VDISK", "GIO", "PROC", "IDLE", "LNXS", "ADV"];
    pages.extend(reports.into_iter().chain(more).map(|name| (name, format!("/report/{name}"))));
    pages
}

#[test]
fn page_of_a_hundred_guests_explains_a_peak_and_wakes_none() {
    if !e2e::is_there(browser::PROGRAM) {
        return skipped_without(browser::PROGRAM);
    }
    let Some(axe) = axe() else { return skipped_without("npm") };
    let farm = Farm::new("pages", CLASSES, alone());
    farm.succeed(&["up", "--detach", &farm.file()]);
    let (service, qemus) = farm.processes();
    assert_eq!(qemus.len(), GUESTS);
    let place = Place::new();
    let size = Size { budget_mib: 16_384, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let settings = place.settings(&size, "");
    let own = format!("{}/*.qmp", place.dir().display());
    let theirs = format!("{}/*.qmp", farm.run_dir(service).display());
    let changed = fs::read_to_string(&settings).unwrap().replace(&own, &theirs);
    fs::write(&settings, changed).unwrap();
    let manager = Manager::start(&place, &settings);
    manager.knows(GUESTS);
    let pages = pages_of(&place);
    let mut browser = Browser::start(WIDE.0, WIDE.1);

    first_page(&mut browser, &pages);
    sorts_and_filters(&mut browser);
    let minute = peak(&mut browser, &pages, &farm, &manager);
    agrees(&mut browser, &pages, &place, &farm);
    changes(&mut browser, &pages, &manager);
    by_keyboard_alone(&mut browser, &pages);
    looked_at(&mut browser, &pages, &minute, &axe);
    costs(&mut browser, &pages, &qemus);
    attacked(&pages, &manager);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Attackers hold a thousand connections and send requests at full speed. The number of the
/// manager's passes stays the same.
fn attacked(pages: &Pages, manager: &Manager<'_>) {
    let address = pages.base().trim_start_matches("http://");
    let passes = || {
        let before = manager.status().passes;
        observe(ATTACK);
        manager.status().passes - before
    };
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let ask = || {
        while !is_over.load(Ordering::Relaxed) {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            stream.set_read_timeout(Some(ATTACK)).unwrap();
            let guess = asked.fetch_add(1, Ordering::Relaxed);
            // A client that is rejected earlier has also sent a request.
            let _ = write!(stream, "GET /?token={guess} HTTP/1.1\r\nHost: {address}\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    };
    let alone = passes();
    let beside = std::thread::scope(|scope| {
        let idle: Vec<_> = (0..1_000).map(|_| TcpStream::connect(address)).collect();
        let busy: Vec<_> = (0..2).map(|_| scope.spawn(ask)).collect();
        let beside = passes();
        is_over.store(true, Ordering::Relaxed);
        busy.into_iter().for_each(|one| one.join().unwrap());
        drop(idle);
        beside
    });
    let asked = asked.load(Ordering::Relaxed);
    println!("passes in {ATTACK:?}: {alone}, and {beside} while strangers asked {asked} times");
    assert!(beside * 10 >= alone * 9, "{alone}, {beside}");
}

fn first_page(browser: &mut Browser, pages: &Pages) {
    browser.open(&pages.door);
    assert_eq!(browser.text("location.search"), "", "the token stays in no address");
    let weight = pages.weight(browser, "/");
    println!("first page: {} bytes; first paint {:.0?} ms", weight.bytes, weight.paints_ms);
    assert!(weight.bytes <= FIRST_PAGE_BYTES, "{weight:?}");
    assert!(weight.paint_ms() <= FIRST_PAINT_MS, "{weight:?}");
    for address in browser.requests() {
        let is_own = address.starts_with(pages.base()) || address.starts_with("data:");
        assert!(is_own, "{address} is asked for");
    }
}

fn sorts_and_filters(browser: &mut Browser) {
    assert_eq!(browser.number("document.querySelectorAll('#guests tr').length"), GUESTS as f64);
    browser.click("[data-sort=name]");
    assert_eq!(browser.text("document.querySelector('#guests tr th').innerText"), "web1");
    browser.click("[data-sort=name]");
    assert_eq!(browser.text("document.querySelector('#guests tr th').innerText"), "web100");
    assert!(browser.text("location.search").contains("sort=name"), "the address has the order");
    browser.click("#filter");
    browser.types("web7");
    // The matches are web7 and web70 to web79.
    browser.until(
        "[...document.querySelectorAll('#guests tr')].filter((row) => !row.hidden).length === 11",
    );
    assert_eq!(browser.text("document.querySelector('#shown').innerText"), "11 of 100");
}

/// A guest has computed, and was shrunk in the meantime. The test goes from the list to the guest,
/// from the peak in the guest's chart to that minute, and to the reason.
fn peak(browser: &mut Browser, pages: &Pages, farm: &Farm, manager: &Manager<'_>) -> String {
    let loop_of = format!("timeout {LOUD_S} sh -c 'while :; do :; done' > /dev/null 2>&1 &");
    farm.succeed(&["exec", &farm.guest("web1"), "--", "sh", "-c", &loop_of]);
    manager.succeed(&["set", "web1", "max", "80 MiB"]);
    // The busiest guest comes first by default.
    let loud = wait_until(Duration::from_secs(60), || {
        browser.open(&format!("{}/", pages.base()));
        browser.text("document.querySelector('#guests tr th').innerText") == "web1"
    });
    assert!(loud.is_some(), "{}", browser.text("document.querySelector('#guests').innerText"));
    browser.follow(|browser| browser.click("#guests tr th a"));
    assert_eq!(browser.text("document.querySelector('h1').innerText"), "web1");
    browser.until("Number(document.querySelector('[data-now=cpu_percent]').innerText) > 30");
    let address = browser.text("location.href");
    // A whole minute of the load has been recorded.
    let is_there = wait_until(Duration::from_secs(180), || {
        browser.open(&address);
        browser.value(LOUDEST).is_object()
    });
    assert!(is_there.is_some(), "{}", browser.text("document.body.innerText"));
    let loudest = browser.value(LOUDEST);
    let share = loudest["share"].as_f64().unwrap();
    browser.follow(|browser| browser.click_at("figure.chart svg[role=img]", share));
    let shown = browser.text("location.search");
    assert!(shown.starts_with("?from="), "{shown}");
    assert_eq!(browser.text("document.querySelector('#state').innerText"), "Recorded");
    let cpu = browser.number("Number(document.querySelector('[data-now=cpu_percent]').innerText)");
    assert!(cpu > 30.0, "{cpu}");
    // The reason is on the page of the hour and on the page of decisions.
    browser.open(&address);
    let told = browser.text("document.querySelector('.told').innerText");
    assert!(told.contains("80 MiB"), "{told}");
    browser.open(&format!("{}/decisions?guest=web1", pages.base()));
    let told = browser.text("document.querySelector('.told').innerText");
    assert!(told.contains("80 MiB"), "{told}");
    manager.succeed(&["set", "web1", "max", "96 MiB"]);
    shown.trim_start_matches('?').to_owned()
}

/// Finds the interval in which the guest ran most, in the table of the first chart. Returns the
/// interval's position in the chart. The guest must have run for more than a third of the interval.
const LOUDEST: &str = "(() => {
    const figure = document.querySelector('figure.chart');
    const table = figure?.querySelector('table');
    if (!table) return null;
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
    const at = heads.findIndex((head) => head.startsWith('Run'));
    const rows = [...table.tBodies[0].rows].map((row) => Number(row.cells[at]?.textContent) || 0);
    const most = Math.max(...rows);
    // The last interval is not over yet.
    if (most < 33 || rows.indexOf(most) === rows.length - 1) return null;
    const { from, to } = figure.dataset;
    const link = table.tBodies[0].rows[rows.indexOf(most)].querySelector('a').href;
    const begin = Date.parse(new URL(link).searchParams.get('from'));
    const part = (begin + 20000 - Number(from)) / (Number(to) - Number(from));
    const picture = figure.querySelector('svg[role=img]');
    const width = picture.getBoundingClientRect().width;
    const style = getComputedStyle(picture);
    const [left, right] = [style.paddingLeft, style.paddingRight].map(Number.parseFloat);
    return { share: (left + part * (width - left - right)) / width };
})()";

/// Checks that the page of a report matches the command's output and the guest's own kernel.
fn agrees(browser: &mut Browser, pages: &Pages, place: &Place, farm: &Farm) {
    // Later rows do not change a whole minute.
    let to_ms = why::now().ms.div_euclid(60_000) * 60_000;
    let times = [to_ms - 60_000, to_ms].map(|ms| reports::rfc3339(ms, &reports::Utc));
    let query = format!("class=web7&from={}&to={}", times[0], times[1]);
    browser.open(&format!("{}/report/LNXS?{query}", pages.base()));
    let shown = ["Total", "Avail", "Cache"].map(|column| cell(browser, "web7", column));
    let report = report(place, "LNXS", [&times[0], &times[1]]);
    let tables = report["tables"].as_array().unwrap();
    let is_it = |row: &&Value| row["guest"] == "web7" && row["own_total_mib"].is_number();
    let mut rows = tables.iter().flat_map(|table| table["rows"].as_array().unwrap());
    let row = rows.find(is_it).unwrap_or_else(|| panic!("{report}"));
    let said = ["own_total_mib", "own_available_mib", "own_cached_mib"]
        .map(|name| format!("{:.0}", row[name].as_f64().unwrap()));
    assert_eq!(shown, said);
    let own = farm.succeed(&["exec", &farm.guest("web7"), "--", "cat", "/proc/meminfo"]);
    let kib = |name: &str| -> f64 {
        let line = own.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    println!("web7: total, available, cache: page {shown:?}, report {said:?}, guest\n{own}");
    for (shown, name) in shown.iter().zip(["MemTotal:", "MemAvailable:", "Cached:"]) {
        let apart = (shown.parse::<f64>().unwrap() - kib(name) / 1024.0).abs();
        assert!(apart <= 1.5, "{name} is {} KiB, and {shown} MiB is shown", kib(name));
    }
}

/// Checks that a user's change reaches the manager, and that the manager's response reaches the
/// user.
fn changes(browser: &mut Browser, pages: &Pages, manager: &Manager<'_>) {
    browser.open(&format!("{}/guest/web9", pages.base()));
    browser.value("document.querySelector('select[name=what]').value = 'max'");
    browser.click("form[action$='/set'] input[name=value]");
    browser.types("88 MiB");
    browser.follow(|browser| browser.click("form[action$='/set'] button"));
    let said = browser.text("document.querySelector('.notice').innerText");
    println!("said to a change: {said}");
    let so = wait_until(Duration::from_secs(10), || manager.row("web9").max_bytes == 88 << 20);
    assert!(so.is_some(), "{said}: {:?}", manager.row("web9"));
    browser.click("form[action$='/set'] input[name=value]");
    browser.types("a lot");
    browser.follow(|browser| browser.click("form[action$='/set'] button"));
    let said = browser.text("document.querySelector('.notice').innerText");
    assert!(said.contains("a lot"), "{said}");
}

/// Checks that the tab key reaches every action of a page in order, and that a key triggers the
/// action.
fn by_keyboard_alone(browser: &mut Browser, pages: &Pages) {
    const ACTIONS: &str = "[...document.querySelectorAll('a[href], button, select, summary, \
        input:not([type=hidden]), [tabindex=\"0\"]')] \
        .filter((it) => it.checkVisibility() && !it.disabled)";
    for path in ["/", "/guest/web1", "/decisions", "/reports", "/report/GUEST1", "/about"] {
        browser.open(&format!("{}{path}", pages.base()));
        browser.value(&format!("window.actions = {ACTIONS}; window.reached = new Set(); 1"));
        let all = browser.number("actions.length");
        for _ in 0..all as usize + 2 {
            browser.press(Key::Tab);
            browser.value("reached.add(document.activeElement); 1");
        }
        let missed = browser.text(
            "actions.filter((it) => it.isConnected && !reached.has(it)) \
               .map((it) => it.outerHTML).join('\\n')",
        );
        assert_eq!(missed, "", "{path}: not reached by the keyboard");
    }
    // The first tab stop skips the bar and leads to the contents.
    browser.open(&format!("{}/guest/web1", pages.base()));
    browser.press(Key::Tab);
    assert_eq!(browser.text("document.activeElement.className"), "skip");
    browser.press(Key::Enter);
    browser.until("location.hash === '#main'");
    // Without a mouse, the table of a chart is opened and the link of a time is followed.
    browser.value("document.querySelector('figure.chart summary').focus()");
    browser.press(Key::Space);
    browser.until("document.querySelector('figure.chart details').open");
    browser.value("document.querySelector('figure.chart tbody tr:last-child a').focus()");
    browser.follow(|browser| browser.press(Key::Enter));
    assert!(browser.text("location.search").starts_with("?from="));
    // A key sorts the table.
    browser.open(&format!("{}/", pages.base()));
    browser.value("document.querySelector('[data-sort=name]').focus()");
    browser.press(Key::Enter);
    browser
        .until("document.querySelector('[data-sort=name]').closest('th').ariaSort === 'ascending'");
    browser.press(Key::BackTab);
    assert_ne!(browser.text("document.activeElement.dataset.sort ?? ''"), "name");
}

/// Checks every page, light, dark and on a phone. A picture is saved, and axe must find no faults.
fn looked_at(browser: &mut Browser, pages: &Pages, minute: &str, axe: &str) {
    let mut faults = Vec::new();
    for look in LOOKS {
        let most = if look.name == "light" { usize::MAX } else { FEW };
        for (name, path) in pages_with(minute).into_iter().take(most) {
            faults.extend(pages.faults(browser, axe, look, (name, &path)));
        }
    }
    // The last page, a report on a phone, has a table with more columns than the phone shows.
    assert!(browser.number(CONTINUED) > 0.0, "{}", browser.text("document.body.innerText"));
    browser.prefer_dark(false);
    browser.resize(WIDE.0, WIDE.1);
    // For an address that does not exist, the browser itself logs an error.
    browser.complaints().retain(|one| !one.contains("404"));
    let gallery = gallery();
    println!("{} pictures are in {}", fs::read_dir(&gallery).unwrap().count(), gallery.display());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Measures the cost of a viewed page to the server and the guests. Measurements with and without a
/// viewer alternate in the order yes, no, no, yes, so that other changes affect both kinds. All
/// guests act at once in each minute, and when they are five minutes old. Some measured times are
/// therefore one and a half or two times as long as others. Other load also slows the server. The
/// minima are compared, because every measurement with a viewer includes the viewer's cost.
fn costs(browser: &mut Browser, pages: &Pages, qemus: &[u32]) {
    let measure = || {
        let before = (cpu_time(pages.pid()), sleeps(qemus));
        observe(LOOK);
        let after = (cpu_time(pages.pid()), sleeps(qemus));
        ((after.0 - before.0).as_secs_f64() / LOOK.as_secs_f64(), after.1 - before.1)
    };
    let (mut watched, mut alone) = (Vec::new(), Vec::new());
    for is_watched in [true, false, false, true].repeat(LOOKS_AND_NOT) {
        if is_watched {
            browser.open(&format!("{}/", pages.base()));
            let shown = browser.text("document.querySelector('#at').innerText");
            browser.until(&format!("document.querySelector('#at').innerText !== '{shown}'"));
            watched.push(measure());
        } else {
            browser.open("about:blank");
            alone.push(measure());
        }
    }
    let cpu = |all: &[(f64, u64)]| all.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let woken = |all: &[(f64, u64)]| all.iter().map(|one| one.1).min().unwrap() as f64;
    let more = woken(&watched) / woken(&alone);
    println!(
        "a viewer: {:.2} % of a core, nobody: {:.2} %; guests were woken {watched:?} and \
         {alone:?}, {more:.3} times as often",
        cpu(&watched) * 100.0,
        cpu(&alone) * 100.0
    );
    assert!(cpu(&watched) <= VIEWER_CPU, "{watched:?}");
    assert!(more < WOKEN_MORE, "{watched:?} and {alone:?}");
}
