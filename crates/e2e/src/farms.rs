//! `pinhead up` and farms as a person runs them.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use crate::{LOOK, PATIENCE, Share, scratch};
use procfs::children;
use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vm::{Deadline, Scratch, wait_for_exit};

/// `pinhead explain` looks for a guest in every `pinhead up` of its user, and their guests have the
/// same names.
static ONE_UP: Mutex<()> = Mutex::new(());

/// A running `pinhead up` of two guests. Both end with this value.
#[derive(Debug)]
pub struct Up {
    /// Its process.
    pub child: Child,
    /// What `explain` said to standard error when it failed last.
    refusal: RefCell<String>,
    dir: Scratch,
    _share: Share,
    _one: MutexGuard<'static, ()>,
}

impl Up {
    /// Starts it with a directory for temporary files of its own, once there are places.
    pub fn start(args: &str, share: fn() -> Share) -> Up {
        let one = ONE_UP.lock().unwrap_or_else(PoisonError::into_inner);
        let share = share();
        let dir = scratch("up");
        let mut command = Command::new(crate::program());
        command.arg("up").args(args.split_whitespace()).env("TMPDIR", dir.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        Up { child, refusal: RefCell::default(), dir, _share: share, _one: one }
    }

    /// The QEMUs that it has started.
    pub fn qemus(&self) -> Vec<u32> {
        children(self.child.id()).expect("/proc")
    }

    /// Waits until a condition holds, by looking again and again.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&mut Up) -> bool) {
        let deadline = Deadline::after(PATIENCE);
        while !so(self) {
            let ended = self.child.try_wait().expect("its state");
            assert!(ended.is_none(), "it ended before {what}");
            let refusal = self.refusal.borrow();
            assert!(deadline.remaining().is_some(), "never {what}: {refusal}");
            // Waits for its end, which does not come, instead of sleeping.
            let _ = wait_for_exit(self.child.id(), LOOK);
        }
    }

    /// Explains its first guest.
    pub fn explain(&self) -> Output {
        self.explain_guest("g1")
    }

    /// Explains a guest of its own: other tests have guests of the same names.
    pub fn explain_guest(&self, guest: &str) -> Output {
        let guest = format!("{}/{guest}", self.child.id());
        let mut command = Command::new(crate::program());
        command.args(["explain", "default", "--interval", "300", "--guest", &guest]);
        let output = command.env("TMPDIR", self.dir.path()).output().expect("explain runs");
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            *self.refusal.borrow_mut() = format!("{guest}: {text}");
        }
        output
    }

    /// Sends a signal to it.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-s", name, &pid]).status().expect("kill");
        assert!(done.success());
    }

    /// All that it writes until its end.
    pub fn output(&mut self) -> String {
        let mut text = String::new();
        let mut out = self.child.stdout.take().expect("its output");
        out.read_to_string(&mut text).expect("text");
        text
    }

    /// Where its guests' sockets are, as the processes that serve them know.
    pub fn run_dir(&self) -> PathBuf {
        run_dir(self.child.id(), "g1.qmp")
    }

    /// It has left no process and no file.
    pub fn nothing_is_left(&self, qemus: &[u32]) {
        are_gone(qemus);
        let left: Vec<_> = fs::read_dir(self.dir.path()).expect("the directory").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A farm's file, and what is to be ended when the test is over.
#[derive(Debug)]
pub struct Farm {
    /// Its name.
    pub name: String,
    /// Where its file is.
    pub dir: PathBuf,
    _share: Share,
}

impl Farm {
    /// Other farms of this user may run on the machine: this one has a name of its own.
    pub fn new(test: &str, classes: &str, share: Share) -> Farm {
        let name = format!("test-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(format!("pinhead-{name}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("FARM.toml"), format!("name = \"{name}\"\n{classes}")).unwrap();
        Farm { name, dir, _share: share }
    }

    /// The path of its file.
    pub fn file(&self) -> String {
        self.dir.join("FARM.toml").display().to_string()
    }

    /// A command of the program.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::program());
        command.args(args).env("TMPDIR", &self.dir).stdin(Stdio::null());
        command
    }

    /// What came of a command.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The output of a command that has to succeed.
    pub fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out
    }

    /// A guest by its whole name.
    pub fn guest(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// What `ps` knows of it.
    pub fn table(&self) -> Value {
        let all = self.succeed(&["ps", "--farm", &self.name, "--format", "json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        all["farms"][0].clone()
    }

    /// The farm's process, and its guests'.
    pub fn processes(&self) -> (u32, Vec<u32>) {
        let table = self.table();
        let number = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
        let guests = table["guests"].as_array().unwrap().iter();
        (number(&table["pid"]), guests.map(|guest| number(&guest["pid"])).collect())
    }

    /// The directory of the farm's sockets, by the processes that have them open.
    pub fn run_dir(&self, farm: u32) -> PathBuf {
        // It is bound by that name, and renamed.
        run_dir(farm, "control.new")
    }
}

/// The directory of a process's sockets, by one that is in it.
fn run_dir(pid: u32, socket: &str) -> PathBuf {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let end = format!("/up/{pid}/{socket}");
    let mut paths = sockets.lines().filter_map(|line| line.split_ascii_whitespace().last());
    let path = paths.find(|path| path.ends_with(&end)).expect("a socket");
    Path::new(path).parent().unwrap().to_path_buf()
}

impl Drop for Farm {
    fn drop(&mut self) {
        let _ = self.run(&["down", &self.name]);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Connects to a port of the loopback.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks a web server for its page, and reads the answer to its end.
pub fn page(mut client: TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut page = Vec::new();
    client.read_to_end(&mut page).unwrap();
    text(&page)
}

/// Text for people.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until processes have ended.
pub fn are_gone(pids: &[u32]) {
    for pid in pids {
        assert!(wait_for_exit(*pid, PATIENCE).unwrap(), "process {pid} lives");
    }
}
