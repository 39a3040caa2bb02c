//! The pages in a browser: the size of the first page, and the time to show it.
//!
//! ```text
//!   recorded guests ─► sim::day ─► an hour of 100 guests, and of 1,000 ─► pinhead web ─► a browser
//! ```
//!
//! The page shows a recorded hour. The live page is the same, but also queries a manager.

use crate::day;
use crate::error::{Error, scratch};
use crate::table::{Row, figure};
use e2e::browser::{Browser, PROGRAM};
use e2e::pages::Pages;
use std::ffi::OsStr;

/// Number of guests, and the promised first paint, in seconds.
const SIZES: [(usize, f64); 2] = [(100, 0.5), (1_000, 1.0)];
/// The promised size of the first page of a hundred guests, in thousands of bytes.
const FIRST_KB: f64 = 100.0;
/// Address of the page of the recorded hour.
const PATH: &str = "/?from=2026-11-21T00:00:00Z&to=2026-11-21T01:00:00Z";

pub fn rows() -> Result<Vec<Row>, Error> {
    if !e2e::is_there(PROGRAM) {
        return Err(Error::Usage(format!("{PROGRAM} is not installed: it opens the pages")));
    }
    let mut rows = Vec::new();
    for (guests, paint_s) in SIZES {
        let scratch = scratch("pages")?;
        let dir = scratch.path().join("hour");
        day::hour(scratch.path(), &dir, guests)?;
        let words: [&OsStr; 2] = ["--dir".as_ref(), dir.as_ref()];
        let pages = Pages::start(words);
        let mut browser = Browser::start(1280, 900);
        browser.open(&pages.door);
        let weight = pages.weight(&mut browser, PATH);
        let paint = figure(weight.paint_ms() / 1_000.0, 2, " s");
        let size = figure(weight.bytes / 1_000.0, 1, " kB");
        rows.push(Row::promised(
            &format!("the first paint of the page of {guests} guests"),
            paint,
            paint_s,
        ));
        let name = format!("everything that the page of {guests} guests loads, compressed");
        rows.push(match guests {
            100 => Row::promised(&name, size, FIRST_KB),
            _ => Row::plain(&name, &size.text()),
        });
    }
    Ok(rows)
}
