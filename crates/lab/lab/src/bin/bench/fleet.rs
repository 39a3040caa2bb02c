//! The time to show a thousand hosts on one page.
//!
//! ```text
//!   made-up hosts ─► remote write ─► VictoriaMetrics ─► pinhead web --from ─► a browser
//! ```
//!
//! Each host has twenty guests, and has pushed its metrics once a minute for an hour. The page
//! reads one value a minute of each field that it shows.

use crate::error::Error;
use crate::table::{Row, figure};
use e2e::browser::{Browser, PROGRAM};
use e2e::engines::{Engine, Kind};
use e2e::pages::Pages;
use metrics::push::send;
use metrics::{Url, write};
use model::{GuestField as G, GuestIdentity, HostField as H, Moment, Row as Fields};
use std::ffi::OsStr;

const HOSTS: u64 = 1_000;
const GUESTS: u64 = 20;
const MINUTES: u64 = 60;
const MINUTE_MS: u64 = 60_000;
const NS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
/// The promised time of the overview.
const PROMISE_S: f64 = 2.0;
/// Number of loads of a page. The median counts.
const TIMES: usize = 5;

/// Returns a guest's fields `ms` milliseconds after the start. Pseudo-random parts of the values
/// are the same in each run.
fn guest(host: u64, number: u64, ms: u64) -> Fields<G> {
    let chance = (host * 7_919 + number * 104_729) % 1_000;
    let some = chance * MIB / 16;
    let mut row = Fields::default();
    row.extend([
        (G::Vcpus, Some(1)),
        // Up to a tenth of a CPU.
        (G::VcpuRun, Some(ms * chance * NS / 10_000)),
        (G::OtherRun, Some(ms * chance * NS / 100_000)),
        (G::VcpuDelay, Some(ms * chance * NS / 100_000)),
        (G::VcpuGuest, Some(some)),
        (G::VcpuDispatches, Some(ms * chance / 1_000)),
        (G::Memory, Some(512 * MIB)),
        (G::Actual, Some((128 + chance / 4) * MIB)),
        (G::OwnAvailable, Some(some)),
        (G::OwnActiveFile, Some(some)),
        (G::Private, Some(some)),
        (G::Compressed, Some(some)),
        (G::Swapped, Some(some)),
        (G::OwnPsiSome, Some(some)),
    ]);
    row
}

fn moment(host: u64, at_ms: i64, ms: u64) -> Moment {
    let mut moment = Moment { at_ms, ..Moment::default() };
    let busy = ms * (host % 100) * NS / 100;
    moment.host.extend([
        (H::Cpus, Some(4)),
        (H::User, Some(busy * 2)),
        (H::System, Some(busy)),
        (H::Nice, Some(0)),
        (H::Interrupts, Some(0)),
        (H::SoftInterrupts, Some(busy / 50)),
        (H::Guest, Some(0)),
        (H::Total, Some(24 << 30)),
        (H::Spare, Some((host % 24) << 30)),
        (H::SetPoint, Some(2 << 30)),
        (H::PsiCpuSome, Some(busy / 10)),
        (H::PsiMemorySome, Some(busy / 100)),
        (H::PsiIoSome, Some(busy / 50)),
    ]);
    for number in 1..=GUESTS {
        let who = GuestIdentity {
            name: format!("web{host}-{number}"),
            class: "web".into(),
            uuid: format!("{host:08x}-0000-4000-8000-{number:012x}"),
            ..GuestIdentity::default()
        };
        moment.guests.insert(who, guest(host, number, ms));
    }
    moment
}

fn fill(url: &Url, now_ms: i64) -> Result<(), Error> {
    for minute in 0..=MINUTES {
        let ms = minute * MINUTE_MS;
        let at_ms = now_ms - ((MINUTES - minute) * MINUTE_MS).cast_signed();
        for host in 0..HOSTS {
            for body in write::encode(&moment(host, at_ms, ms), &format!("host{host}"), "bench") {
                send(url, &body).map_err(|error| Error::Usage(base::chain(&error)))?;
            }
        }
    }
    Ok(())
}

pub fn rows() -> Result<Vec<Row>, Error> {
    if !e2e::is_there(PROGRAM) {
        return Err(Error::Usage(format!("{PROGRAM} is not installed: it opens the pages")));
    }
    let Some(mut engine) = Engine::start(Kind::VictoriaMetrics, None) else {
        return Err(Error::Usage("VictoriaMetrics is not installed: it stores the metrics".into()));
    };
    let asked = engine.asked();
    engine.until("an answer", || asked.query("1", why::now().ms));
    fill(&engine.write_url(), why::now().ms)?;
    let url = engine.url().to_string();
    let words: [&OsStr; 2] = ["--from".as_ref(), url.as_ref()];
    let pages = Pages::start(words);
    let mut browser = Browser::start(1280, 900);
    browser.open(&pages.door);
    let title = browser.text("document.querySelector('h1').innerText");
    if title != format!("Overview of {HOSTS} hosts") {
        return Err(Error::Usage(format!("the page has the title {title:?}")));
    }
    let mut opened = |path: &str| -> f64 {
        let mut times: Vec<f64> = (0..TIMES)
            .map(|_| {
                browser.open(&format!("{}{path}", pages.base()));
                browser.number("performance.getEntriesByType('navigation')[0].duration") / 1_000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[TIMES / 2]
    };
    let mut rows = Vec::new();
    for (name, path) in [
        ("the overview of 1,000 hosts with 20 guests each", "/"),
        ("the same, sorted by what guests hold", "/?sort=private_mib"),
        ("the same, of guests whose name has a text in it", "/?filter=web77"),
    ] {
        rows.push(Row::promised(name, figure(opened(path), 2, " s"), PROMISE_S));
    }
    let weight = pages.weight(&mut browser, "/");
    rows.push(Row::plain(
        "everything that the page loads, compressed",
        &figure(weight.bytes / 1_000.0, 1, " kB").text(),
    ));
    Ok(rows)
}
