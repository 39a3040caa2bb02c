//! `pinhead up` and farms, run as a user runs them.

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

/// Lock that lets one `pinhead up` run at a time. `pinhead explain` searches every `pinhead up` of
/// its user, and the guests of each `pinhead up` have the same names.
static ONE_UP: Mutex<()> = Mutex::new(());

/// A running `pinhead up` of two guests. Dropping this value ends it and its guests.
#[derive(Debug)]
pub struct Up {
    /// Process of `pinhead up`.
    pub child: Child,
    /// Standard error of the last failed `explain`.
    refusal: RefCell<String>,
    dir: Scratch,
    _share: Share,
    _one: MutexGuard<'static, ()>,
}

impl Up {
    /// Starts `pinhead up` once `share` has granted places for its guests. The program gets its own
    /// temporary directory and no manager, because a manager would also manage the guests of other
    /// tests.
    pub fn start(args: &str, share: fn() -> Share) -> Up {
        Up::begin(Command::new(crate::program()), &format!("--no-manager {args}"), share)
    }

    /// Starts `pinhead up` with a manager. Both get their own /run and /var/lib, so this process
    /// must be root.
    pub fn managed(args: &str, share: fn() -> Share) -> Up {
        let mut command = Command::new("unshare");
        let mount =
            "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && exec \"$0\" \"$@\"";
        command.args(["--mount", "sh", "-c", mount, crate::program()]);
        Up::begin(command, args, share)
    }

    fn begin(mut command: Command, args: &str, share: fn() -> Share) -> Up {
        let one = ONE_UP.lock().unwrap_or_else(PoisonError::into_inner);
        let share = share();
        let dir = scratch("up");
        command.arg("up").args(args.split_whitespace()).env("TMPDIR", dir.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        Up { child, refusal: RefCell::default(), dir, _share: share, _one: one }
    }

    /// Returns the temporary directory of `pinhead up`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the QEMU processes that `pinhead up` has started.
    pub fn qemus(&self) -> Vec<u32> {
        children(self.child.id()).expect("/proc")
    }

    /// Polls until a condition holds.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&mut Up) -> bool) {
        let deadline = Deadline::after(PATIENCE);
        while !so(self) {
            let ended = self.child.try_wait().expect("its state");
            assert!(ended.is_none(), "`pinhead up` ended before {what}");
            let refusal = self.refusal.borrow();
            assert!(deadline.remaining().is_some(), "never {what}: {refusal}");
            // The pause also ends when the program exits.
            let _ = wait_for_exit(self.child.id(), LOOK);
        }
    }

    /// Runs `explain` for the first guest.
    pub fn explain(&self) -> Output {
        self.explain_guest("g1")
    }

    /// Runs `explain` for a guest.
    pub fn explain_guest(&self, guest: &str) -> Output {
        let guest = self.guest(guest);
        let output = self.run(&["explain", "default", "--interval", "300", "--guest", &guest]);
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            *self.refusal.borrow_mut() = format!("{guest}: {text}");
        }
        output
    }

    /// Returns the full name of a guest, which differs from the names in other tests.
    pub fn guest(&self, guest: &str) -> String {
        format!("{}/{guest}", self.child.id())
    }

    /// Runs a command of `pinhead`.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(crate::program());
        command.args(args).env("TMPDIR", self.dir.path()).output().expect("it runs")
    }

    /// Returns a command of `pinhead` that sees the same files as a program of [`Up::managed`].
    pub fn inside(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.child.id().to_string();
        command.args(["--mount", "--target", &pid, crate::program()]).args(args);
        command.env("TMPDIR", self.dir.path());
        command
    }

    /// Sends a signal to the process.
    pub fn signal(&self, name: &str) {
        crate::manager::signal(self.child.id(), name);
    }

    /// Reads the output until the process ends.
    pub fn output(&mut self) -> String {
        let mut text = String::new();
        let mut out = self.child.stdout.take().expect("its output");
        out.read_to_string(&mut text).expect("text");
        text
    }

    /// Returns the directory of the guests' sockets, found in the kernel's list of sockets.
    pub fn run_dir(&self) -> PathBuf {
        run_dir(self.child.id(), "g1.qmp")
    }

    /// Asserts that no process and no file is left.
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

/// A farm's file. Dropping this value ends the farm.
#[derive(Debug)]
pub struct Farm {
    /// Name of the farm.
    pub name: String,
    /// Directory of the farm's file.
    pub dir: PathBuf,
    _share: Share,
}

impl Farm {
    /// Writes a farm's file with a unique name, because this user may run other farms on the
    /// machine.
    pub fn new(test: &str, classes: &str, share: Share) -> Farm {
        let name = format!("test-{test}-{}", std::process::id());
        let dir = std::env::temp_dir().join(format!("pinhead-{name}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("FARM.toml"), format!("name = \"{name}\"\n{classes}")).unwrap();
        Farm { name, dir, _share: share }
    }

    /// Returns the path of the farm's file.
    pub fn file(&self) -> String {
        self.dir.join("FARM.toml").display().to_string()
    }

    /// Builds a command of pinhead.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::program());
        command.args(args).env("TMPDIR", &self.dir).stdin(Stdio::null());
        if args.first() == Some(&"up") {
            // A manager that the test's farm starts would also manage the guests of other tests.
            command.arg("--no-manager");
        }
        command
    }

    /// Runs a command of pinhead.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out
    }

    /// Returns the full name of a guest.
    pub fn guest(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Returns the farm's entry of `pinhead ps`.
    pub fn table(&self) -> Value {
        let all = self.succeed(&["ps", "--farm", &self.name, "--format", "json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        all["farms"][0].clone()
    }

    /// Returns the states of the guests.
    pub fn states(&self) -> Vec<String> {
        let table = self.table();
        let guests = table["guests"].as_array().unwrap().iter();
        guests.map(|guest| guest["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the process ids of the farm and of its guests.
    pub fn processes(&self) -> (u32, Vec<u32>) {
        let table = self.table();
        let number = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
        let guests = table["guests"].as_array().unwrap().iter();
        (number(&table["pid"]), guests.map(|guest| number(&guest["pid"])).collect())
    }

    /// Returns the directory of the farm's sockets, found in the kernel's list of sockets.
    pub fn run_dir(&self, farm: u32) -> PathBuf {
        // The socket is bound under this name, and renamed afterwards.
        run_dir(farm, "control.new")
    }
}

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

/// Requests a web server's page, and returns the whole response.
pub fn page(mut client: TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut page = Vec::new();
    client.read_to_end(&mut page).unwrap();
    text(&page)
}

/// Converts bytes to text, lossily.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until processes have ended.
pub fn are_gone(pids: &[u32]) {
    for pid in pids {
        assert!(wait_for_exit(*pid, PATIENCE).unwrap(), "process {pid} is alive");
    }
}
