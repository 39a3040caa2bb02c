//! `pinhead web` as a person has it: it prints the address that opens its pages.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use crate::browser::Browser;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// How often a page is opened to see when it is there; the median counts.
const TIMES: usize = 5;

/// The width and height of a window.
pub const WIDE: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (400, 800);
/// A picture is no taller.
const TALL: f64 = 3_000.0;

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// What its pictures are called by.
    pub name: &'static str,
    window: (u32, u32),
    is_dark: bool,
}

/// Light, dark and on a phone.
pub const LOOKS: [Look; 3] = [
    Look { name: "light", window: WIDE, is_dark: false },
    Look { name: "dark", window: WIDE, is_dark: true },
    Look { name: "phone", window: PHONE, is_dark: false },
];

/// Where pictures go.
pub fn gallery() -> PathBuf {
    let dir = crate::daemon_dir().with_file_name("web-pages");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A running `pinhead web`. It ends with this value.
#[derive(Debug)]
pub struct Pages {
    child: Child,
    /// Nobody may be stopped by a pipe that is not read.
    told: BufReader<ChildStdout>,
    /// Opens the pages, once if it has a token.
    pub door: String,
}

/// What a page takes.
#[derive(Clone, Debug)]
pub struct Weight {
    /// All that it asks for, compressed, in bytes.
    pub bytes: f64,
    /// Until something of it is painted, in milliseconds, from the soonest on.
    pub paints_ms: Vec<f64>,
}

impl Pages {
    /// Starts it at an address of its own, with more words.
    pub fn start<T: AsRef<OsStr>>(words: impl IntoIterator<Item = T>) -> Pages {
        let mut command = Command::new(crate::program());
        command.args(["web", "--listen", "127.0.0.1:0"]).args(words).env("TZ", "UTC");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap());
        let mut pages = Pages { child, told, door: String::new() };
        pages.door = pages.next_door();
        pages
    }

    /// Waits for the next address.
    fn next_door(&mut self) -> String {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        line.trim().rsplit(' ').next().unwrap().to_owned()
    }

    /// What all addresses begin with.
    pub fn base(&self) -> &str {
        self.door.split("/?").next().unwrap().trim_end_matches('/')
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a page, keeps a picture of it, and gives what axe finds wrong with it, and whether it
    /// is wider than its window.
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

    /// Opens a page some times, with nothing kept from one to the next.
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
    /// The median of the paints, in milliseconds.
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
