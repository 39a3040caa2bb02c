//! `pinhead web` as a user sees it. The program prints the address of its pages.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use crate::browser::Browser;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Number of loads of a page. The median of the times counts.
const TIMES: usize = 5;

/// Width and height of a window.
pub const WIDE: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (390, 800);
/// Minimum height of a chart's labels, in pixels.
const LABEL: f64 = 12.0;
/// Maximum height of a picture.
const TALL: f64 = 3_000.0;

/// Expression for the height of the smallest label in all charts of a page, in pixels.
const SMALLEST_LABEL: &str = "Math.min(99, ...[...document.querySelectorAll('svg text')].map(
    (text) => parseFloat(getComputedStyle(text).fontSize) * (text.getScreenCTM()?.d ?? 1)))";

/// Expression for the number of tables that continue beyond the edge of the window.
pub const CONTINUED: &str = "[...document.querySelectorAll('.wide')].filter(
    (one) => one.scrollWidth > one.clientWidth).length";
/// Expression for the number of these tables without a cue. The cue is a shadow at each edge, and a
/// cover for each shadow that scrolls with the table.
const WITHOUT_CUE: &str = "[...document.querySelectorAll('.wide')].filter((one) => {
    const style = getComputedStyle(one);
    const shades = style.backgroundImage.match(/linear-gradient/g) ?? [];
    const has = shades.length === 4
        && style.backgroundAttachment === 'local, local, scroll, scroll';
    return one.scrollWidth > one.clientWidth && !has;
}).length";

/// A window's size and color scheme.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Prefix of the names of pictures.
    pub name: &'static str,
    window: (u32, u32),
    is_dark: bool,
}

/// Light, dark and phone.
pub const LOOKS: [Look; 3] = [
    Look { name: "light", window: WIDE, is_dark: false },
    Look { name: "dark", window: WIDE, is_dark: true },
    Look { name: "phone", window: PHONE, is_dark: false },
];

/// Returns the directory for pictures.
pub fn gallery() -> PathBuf {
    let dir = crate::daemon_dir().with_file_name("web-pages");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A running `pinhead web`. Dropping this value ends it.
#[derive(Debug)]
pub struct Pages {
    child: Child,
    /// Standard output, kept open so that the program can write to it.
    told: BufReader<ChildStdout>,
    /// Address that opens the pages. An address with a token is valid once.
    pub door: String,
}

/// Cost of loading a page.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Size of all responses, compressed, in bytes.
    pub bytes: f64,
    /// Times until the first paint, in milliseconds, in ascending order.
    pub paints_ms: Vec<f64>,
}

impl Pages {
    /// Starts `pinhead web` at a free address, with additional arguments.
    pub fn start<T: AsRef<OsStr>>(words: impl IntoIterator<Item = T>) -> Pages {
        let mut command = Command::new(crate::program());
        command.args(["web", "--listen", "127.0.0.1:0"]).args(words).env("TZ", "UTC");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        let mut pages = Pages { child, told, door: String::new() };
        pages.door = pages.next_door();
        pages
    }

    fn next_door(&mut self) -> String {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        line.trim().rsplit(' ').next().unwrap().to_owned()
    }

    /// Returns the common prefix of all addresses.
    pub fn base(&self) -> &str {
        self.door.split("/?").next().unwrap().trim_end_matches('/')
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a page, saves a picture of it, and returns its faults. Faults are findings of axe,
    /// small labels, a page that is wider than its window, and tables that continue without a cue.
    pub fn faults(
        &self,
        browser: &mut Browser,
        axe: &str,
        look: Look,
        (name, path): (&str, &str),
    ) -> Vec<String> {
        let ((width, height), look_name) = (look.window, look.name);
        let mut faults = Vec::new();
        browser.prefer_dark(look.is_dark);
        browser.resize(width, height);
        browser.open(&format!("{}{path}", self.base()));
        let across = browser.number("document.documentElement.scrollWidth");
        if across > f64::from(width) {
            faults.push(format!("{look_name} {name}: {across} pixels wide"));
        }
        let tables = browser.number(WITHOUT_CUE);
        if tables > 0.0 {
            faults.push(format!("{look_name} {name}: {tables} tables continue without a cue"));
        }
        let label = browser.number(SMALLEST_LABEL);
        if label < LABEL {
            faults.push(format!("{look_name} {name}: labels of {label} pixels"));
        }
        browser.value(axe);
        let found = browser.text(
            "axe.run().then((all) => all.violations.map((one) => \
               `${one.id}: ${one.nodes[0].html.slice(0, 200)}`).join('\\n'))",
        );
        if !found.is_empty() {
            faults.push(format!("{look_name} {name}: {found}"));
        }
        let tall = browser.number("document.documentElement.scrollHeight").min(TALL);
        browser.resize(width, tall as u32);
        browser.picture(&gallery().join(format!("{name}-{look_name}.png")));
        faults
    }

    /// Opens a page several times, without a cache between the loads.
    pub fn weight(&self, browser: &mut Browser, path: &str) -> Weight {
        let mut paints_ms = Vec::new();
        for _ in 0..TIMES {
            browser.open(&format!("{}{path}", self.base()));
            browser.until("performance.getEntriesByName('first-contentful-paint').length");
            paints_ms.push(
                browser
                    .number("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
            );
        }
        paints_ms.sort_by(f64::total_cmp);
        let bytes = browser.number(
            "['resource', 'navigation'].flatMap((kind) => performance.getEntriesByType(kind)) \
               .reduce((sum, one) => sum + (one.encodedBodySize || one.transferSize), 0)",
        );
        Weight { bytes, paints_ms }
    }
}

impl Weight {
    /// Returns the median of the paint times, in milliseconds.
    pub fn paint_ms(&self) -> f64 {
        self.paints_ms[TIMES / 2]
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
