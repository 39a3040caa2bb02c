//! The daemon as a process, on a kernel made of plain files.

use procfs::testing::FakeKernel;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Timeout for a daemon's answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rules that always request one CPU less, and one page more in the pool.
const SHRINKING: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\n\
                         HOTUNPLUG=\"1\"\nCMM_MIN=\"0\"\nCMM_MAX=\"1000\"\nCMM_INC=\"1\"\n\
                         MEMPLUG=\"0\"\nMEMUNPLUG=\"1\"\n";

fn dir(kernel: &FakeKernel) -> PathBuf {
    kernel.root().path().to_path_buf()
}

fn daemon(kernel: &FakeKernel, rules: &str, words: &[&str]) -> Command {
    kernel.write("rules.conf", rules);
    let dir = dir(kernel);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinheadd"));
    command.arg("-c").arg(dir.join("rules.conf"));
    command.arg("--root").arg(&dir).arg("--run-dir").arg(&dir);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Reads the output until a condition holds.
fn read_until(out: &mut impl Read, so: impl Fn(&str) -> bool) -> String {
    let mut output = String::new();
    while !so(&output) {
        let mut buffer = [0; 512];
        let count = out.read(&mut buffer).expect("its words");
        assert!(count > 0, "it ended: {output}");
        output.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    output
}

/// A running daemon, which ends with its test even if the test fails. A remaining daemon would keep
/// the test run's output open.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().expect("it starts"))
    }

    /// Ends the daemon as an administrator would, and expects success.
    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().expect("kill").success());
        assert!(self.0.wait().expect("its end").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The daemon may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns every file below a directory, to detect changes.
fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let content = std::fs::read(&path).unwrap_or_default();
                all.push((path, content));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn wrong_file_is_refused_with_its_position_and_a_correction() {
    let kernel = FakeKernel::new(2, 4);
    let rules = SHRINKING.replace("HOTPLUG=\"0\"", "HOTPLUG=\"meminfo.MemFre > 1\"");
    let output = daemon(&kernel, &rules, &["-f"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("rules.conf:4:10: error[unknown-counter]"), "{text}");
    assert!(text.contains("did you mean `MemFree`?"), "{text}");
    assert!(!dir(&kernel).join("pinheadd.undo").exists(), "nothing was begun");
}

#[test]
fn a_dry_run_decides_and_changes_nothing() {
    let kernel = FakeKernel::new(2, 4);
    kernel.write("proc/sys/vm/cmm_pages", "0\n");
    let mut command = daemon(&kernel, SHRINKING, &["-f", "--dry-run"]);
    let before = tree(&dir(&kernel));
    let mut child = Running::start(&mut command);
    let mut out = child.0.stdout.take().expect("its output");
    let output = read_until(&mut out, |output| output.matches("dry run: MEMUNPLUG").count() == 2);
    assert!(output.contains("dry run: HOTUNPLUG: one CPU less"), "{output}");
    child.stop();
    let after = tree(&dir(&kernel));
    let changed = after.iter().filter(|file| !before.contains(file));
    let names: Vec<_> = changed.filter_map(|(path, _)| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["pinheadd.lock"]);
}

#[test]
fn the_service_manager_is_notified_and_its_watchdog_is_fed() {
    let kernel = FakeKernel::new(2, 4);
    kernel.write("proc/sys/vm/cmm_pages", "7\n");
    let path = dir(&kernel).join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let mut command = daemon(&kernel, SHRINKING, &["-f"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let child = Running::start(&mut command);
    let next = || {
        let mut buffer = [0; 256];
        // A call with a timeout is not restarted after a signal.
        let is_interrupted =
            |got: &io::Result<usize>| matches!(got, Err(e) if e.kind() == ErrorKind::Interrupted);
        let mut tries = std::iter::repeat_with(|| socket.recv(&mut buffer));
        let count = tries.find(|got| !is_interrupted(got)).expect("a try").expect("a word in time");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    assert_eq!(next(), "READY=1");
    for _ in 0..4 {
        assert_eq!(next(), "WATCHDOG=1");
    }
    child.stop();
    let last = std::iter::from_fn(|| Some(next())).find(|word| word != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert_eq!(kernel.read("proc/sys/vm/cmm_pages"), "7\n", "the pool is as it was found");
    assert!(!dir(&kernel).join("pinheadd.undo").exists());
}

#[test]
fn a_machine_that_dispatches_vertically_keeps_its_cpus() {
    let kernel = FakeKernel::new(2, 4);
    kernel.write("sys/devices/system/cpu/dispatching", "1\n");
    kernel.write("proc/sys/vm/cmm_pages", "0\n");
    let mut child = Running::start(&mut daemon(&kernel, SHRINKING, &["-f", "-V"]));
    let mut out = child.0.stdout.take().expect("its output");
    let changed = "changing number of pages permanently reserved to 1";
    let output = read_until(&mut out, |output| output.contains(changed));
    assert!(output.contains("the daemon does not change them"), "{output}");
    assert!(!output.contains("will be disabled"), "{output}");
    child.stop();
}

/// Without a host, a port is always readable but has no data. A daemon that continued to read would
/// keep a CPU busy forever. In this test, an empty file replaces the port, because poll reports
/// such a file as readable at once.
#[test]
fn a_port_without_a_host_costs_nothing() {
    let (closed_ns, none_ns) = (three_intervals_ns(Port::Closed), three_intervals_ns(Port::None));
    println!("{closed_ns} ns of CPU in two seconds with a closed port, {none_ns} without one");
    // The limit, half a percent of a core, is enough to open the port and to find that it is
    // closed.
    assert!(closed_ns <= none_ns + 10_000_000, "{closed_ns} ns with a port, {none_ns} without");
}

enum Port {
    None,
    Closed,
}

/// Returns the CPU time that the daemon has used at the beginning of its third interval.
fn three_intervals_ns(port: Port) -> u64 {
    let kernel = FakeKernel::new(2, 4);
    kernel.write("proc/sys/vm/cmm_pages", "0\n");
    kernel.write("port", "");
    let port_path = dir(&kernel).join("port");
    let mut words = vec!["-f", "-V"];
    if matches!(port, Port::Closed) {
        words.extend(["--port", port_path.to_str().expect("a path")]);
    }
    let mut child = Running::start(&mut daemon(&kernel, SHRINKING, &words));
    let mut out = child.0.stdout.take().expect("its output");
    // A daemon in an endless loop never reaches its third interval.
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        told.send(read_until(&mut out, |output| output.matches("New interval").count() == 3))
    });
    let output = heard.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _ = child.0.kill();
        panic!("no third interval in {PATIENCE:?}")
    });
    assert_eq!(output.contains("but no host answers"), matches!(port, Port::Closed), "{output}");
    let path = format!("/proc/{}/schedstat", child.0.id());
    let text = std::fs::read_to_string(path).expect("its run time");
    child.stop();
    text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

#[test]
fn the_balloon_is_shown_without_rules_and_without_a_daemon() {
    let kernel = FakeKernel::new(1, 1);
    let ask = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinheadd"));
        command.arg("--balloon").arg("--run-dir").arg(dir(&kernel));
        command.output().expect("it runs")
    };
    let output = ask();
    assert!(output.status.success());
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output, "No host has reported a balloon to this guest.\n");
    kernel.write("pinheadd.balloon", "no such file\n");
    let output = ask();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("pinheadd.balloon is not written by pinheadd")
    );
}

/// As long as the rules have not changed the pool, the pool keeps the size that another manager
/// set.
#[test]
fn a_pool_that_was_not_changed_is_not_put_back() {
    let kernel = FakeKernel::new(2, 4);
    kernel.write("proc/sys/vm/cmm_pages", "100\n");
    let rules = SHRINKING.replace("MEMUNPLUG=\"1\"", "MEMUNPLUG=\"0\"");
    let mut child = Running::start(&mut daemon(&kernel, &rules, &["-f", "-V"]));
    let mut out = child.0.stdout.take().expect("its output");
    read_until(&mut out, |output| output.contains("cmm_pages: 100"));
    kernel.write("proc/sys/vm/cmm_pages", "500\n");
    child.stop();
    assert_eq!(kernel.read("proc/sys/vm/cmm_pages"), "500\n");
}

/// Rules that always request one CPU more.
const GROWING: &str =
    "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"1\"\nHOTUNPLUG=\"0\"\n";

#[test]
fn report_g05_cpus_that_are_not_configured_are_told() {
    let kernel = FakeKernel::s390x(1, 4, 0);
    (1..4).for_each(|cpu| kernel.write_cpu(cpu, "configure", "0\n"));
    let mut command = daemon(&kernel, GROWING, &["-f"]);
    let mut child = Running::start(command.stderr(Stdio::piped()));
    let mut words = child.0.stderr.take().expect("its errors");
    let expected = "one CPU more, but 3 CPUs are present and not configured";
    read_until(&mut words, |output| output.contains(expected));
    child.stop();
    let few = GROWING.replace("CPU_MIN=\"1\"", "CPU_MIN=\"3\"");
    let output = daemon(&kernel, &few, &["-f"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("CPU_MIN is 3, but only 1 CPU can be online"), "{text}");
}

#[test]
fn report_g05_a_cpu_that_is_added_later_is_plugged() {
    let kernel = FakeKernel::new(2, 2);
    let mut child = Running::start(&mut daemon(&kernel, GROWING, &["-f", "-V"]));
    let mut out = child.0.stdout.take().expect("its output");
    read_until(&mut out, |output| output.contains("onumcpus"));
    kernel.write_cpu(2, "online", "0\n");
    kernel.write("sys/devices/system/cpu/present", "0-2\n");
    read_until(&mut out, |output| output.contains("cpu2 will be enabled"));
    child.stop();
}

#[test]
fn report_g11_isolated_cpus_are_left_alone() {
    let kernel = FakeKernel::new(4, 4);
    kernel.write("sys/devices/system/cpu/isolated", "2-3\n");
    kernel.write("proc/sys/vm/cmm_pages", "0\n");
    let mut child = Running::start(&mut daemon(&kernel, SHRINKING, &["-f", "-V"]));
    let mut out = child.0.stdout.take().expect("its output");
    let output = read_until(&mut out, |output| output.contains(" will be disabled"));
    assert!(output.contains("cpu1 will be disabled"), "{output}");
    assert!(output.contains("CPUs 2-3 are isolated"), "{output}");
    child.stop();
}
