//! A page in a real browser, driven like a user's: keys and clicks go in, the page's content comes
//! out.
//!
//! The browser is Debian's `chromium-headless-shell`, driven by the DevTools protocol over two
//! pipes, so that no port is opened. No client library is used, because such a library needs a
//! port. Compiling one for the whole protocol also takes longer than compiling the rest of this
//! crate.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use crate::manager::wait_until;
use crate::scratch;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use vm::{Deadline, Scratch};

/// The browser's program name.
pub const PROGRAM: &str = "chromium-headless-shell";
/// Version of axe-core, pinned so that an update is a separate change.
const AXE: &str = "axe-core@4.10.3";
/// Timeout of every wait. It is long because guests use the machine at the same time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of the wait for the browser's exit.
const END: Duration = Duration::from_secs(10);
/// A shell command that moves the pipes to file descriptors 3 and 4, where the browser expects
/// them.
const SHELL: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

/// A browser with one page. Dropping this value ends the browser.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    sent: u64,
    /// URLs that the page has requested.
    asked: Vec<String>,
    /// Warnings and errors that the page has reported.
    complaints: Vec<String>,
    /// Number of pages loaded.
    loaded: u64,
    _dir: Scratch,
}

/// A key of the keyboard, with its DOM name and the text that it types.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    Tab,
    BackTab,
    Enter,
    Space,
}

impl Browser {
    /// Starts a browser with an empty page of this size in pixels.
    pub fn start(width: u32, height: u32) -> Browser {
        let dir = scratch("browser");
        let mut command = Command::new("sh");
        command.args(["-c", SHELL, "sh", PROGRAM, "--remote-debugging-pipe", "--no-sandbox"]);
        command.args(["--disable-gpu", "--no-first-run", "--disable-background-networking"]);
        command.args(["--lang=en-US", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", dir.path().display())).env("TZ", "UTC");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = fs::File::create(dir.join("log")).unwrap();
        let mut child = command.stderr(log).spawn().unwrap();
        let (orders, read) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(read).split(0) {
                let Ok(value) = message.map(|bytes| serde_json::from_slice(&bytes).unwrap()) else {
                    return;
                };
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            orders,
            answers,
            session: String::new(),
            sent: 0,
            asked: Vec::new(),
            complaints: Vec::new(),
            loaded: 0,
            _dir: dir,
        };
        let target = browser.order("Target.createTarget", json!({"url": "about:blank"}));
        let to = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.order("Target.attachToTarget", to);
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.order(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width, height);
        browser
    }

    fn order(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.orders.write_all(&bytes).unwrap();
        let until = Deadline::after(PATIENCE);
        loop {
            let answer = self.next(until).unwrap_or_else(|| panic!("{method}: no answer"));
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Returns the next message if it arrives in time, and records its event.
    fn next(&mut self, until: Deadline) -> Option<Value> {
        let left = until.remaining()?;
        let message = self.answers.recv_timeout(left).ok()?;
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loaded += 1,
            "Network.requestWillBeSent" => {
                self.asked.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params.to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string());
            }
            _ => {}
        }
        Some(message)
    }

    /// Opens an address, and waits until the page is loaded.
    pub fn open(&mut self, address: &str) {
        let before = self.loaded;
        let answer = self.order("Page.navigate", json!({"url": address}));
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
        self.until_loaded(before);
    }

    /// Runs an action that leads to another page, and waits until that page is loaded.
    pub fn follow(&mut self, what: impl FnOnce(&mut Browser)) {
        let before = self.loaded;
        what(self);
        self.until_loaded(before);
    }

    fn until_loaded(&mut self, before: u64) {
        let until = Deadline::after(PATIENCE);
        while self.loaded == before {
            assert!(self.next(until).is_some(), "no page was loaded");
        }
    }

    /// Evaluates an expression in the page. If the value is a promise, waits for the result.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.order("Runtime.evaluate", params);
        let wrong = &answer["exceptionDetails"];
        assert!(wrong.is_null(), "{expression}: {wrong}");
        answer["result"]["value"].clone()
    }

    /// Evaluates an expression to a text.
    pub fn text(&mut self, expression: &str) -> String {
        match self.value(expression) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Evaluates an expression to a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        self.value(expression).as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        // The page's own timeout is shorter than the timeout of the browser's response.
        let limit = PATIENCE.as_millis() / 2;
        let so = self.value(&format!(
            "new Promise((done) => {{ const began = Date.now(); const look = () => {{
               const so = Boolean({expression});
               if (so || Date.now() - began > {limit}) done(so); else setTimeout(look, 20);
             }}; look(); }})"
        ));
        assert!(so == true, "{expression}: never so on {}", self.text("document.body.innerText"));
    }

    /// Clicks at the middle of the element that a selector matches.
    pub fn click(&mut self, selector: &str) {
        self.click_at(selector, 0.5);
    }

    /// Clicks an element at this share of its width.
    pub fn click_at(&mut self, selector: &str, share: f64) {
        let place = self.value(&format!(
            "(() => {{ const it = document.querySelector({});
               it.scrollIntoView({{block: 'center'}}); const box = it.getBoundingClientRect();
               return [box.left + box.width * {share}, box.top + box.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            self.order(
                "Input.dispatchMouseEvent",
                json!({"type": kind, "x": place[0], "y": place[1], "button": button,
                       "clickCount": u8::from(button == "left")}),
            );
        }
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: Key) {
        let (name, code, text, shift) = match key {
            Key::Tab => ("Tab", 9, "", 0),
            Key::BackTab => ("Tab", 9, "", 8),
            Key::Enter => ("Enter", 13, "\r", 0),
            Key::Space => (" ", 32, " ", 0),
        };
        let mut down = json!({"type": "keyDown", "key": name, "windowsVirtualKeyCode": code,
                              "modifiers": shift});
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.order("Input.dispatchKeyEvent", down);
        let up = json!({"type": "keyUp", "key": name, "windowsVirtualKeyCode": code,
                        "modifiers": shift});
        self.order("Input.dispatchKeyEvent", up);
    }

    /// Types a text into the focused element.
    pub fn types(&mut self, text: &str) {
        self.order("Input.insertText", json!({"text": text}));
    }

    /// Resizes the window. A narrow window counts as a phone.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
                          "mobile": width < 500});
        self.order("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred color scheme to dark or light.
    pub fn prefer_dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let wish = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.order("Emulation.setEmulatedMedia", wish);
    }

    /// Saves a screenshot of the window.
    pub fn picture(&mut self, path: &Path) {
        let shot = self.order("Page.captureScreenshot", json!({"format": "png"}));
        fs::write(path, decoded(shot["data"].as_str().unwrap())).unwrap();
    }

    /// Returns the URLs requested since the last call.
    pub fn requests(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }

    /// Returns the complaints reported since the last call.
    pub fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // When the browser closes, all its processes end, and no process writes to its directory.
        let _ = self.orders.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let has_ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        if wait_until(END, || has_ended(&mut self.child)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns axe-core, a checker for accessibility faults of pages, as its makers publish it. npm
/// downloads axe-core and verifies its checksum. Returns `None` without npm.
pub fn axe() -> Option<String> {
    if !crate::is_there("npm") {
        return None;
    }
    let dir = scratch("axe");
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("npm", &["pack", "--silent", AXE]);
    run("tar", &["-xzf", &format!("{}.tgz", AXE.replace('@', "-"))]);
    Some(fs::read_to_string(dir.join("package/axe.min.js")).unwrap())
}

fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |letter: u8| LETTERS.iter().position(|one| *one == letter).unwrap_or(0);
    let letters: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for four in letters.chunks(4) {
        let bits = four.iter().fold(0, |bits, letter| bits << 6 | value(*letter));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend((1..four.len()).map(|at| (bits >> (24 - 8 * at)) as u8));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_to_its_last_byte() {
        assert_eq!(decoded("UGVuZ3VpbnM="), b"Penguins");
        assert_eq!(decoded("UGluIGhlYWQ="), b"Pin head");
        assert_eq!(decoded("YWI="), b"ab");
        assert_eq!(decoded("YWJj"), b"abc");
    }
}
