//! Rights of a guest that has taken over its QEMU: none. Farms started by root are inspected from
//! outside, and attacked by a process with the user id of a QEMU.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::farms::{Farm, Up, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the words of each line of `/proc/PID/status`, by the name of the line.
fn status(pid: u32) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = |line: &str| {
        let (name, words) = line.split_once(':')?;
        Some((name.to_owned(), words.split_ascii_whitespace().map(str::to_owned).collect()))
    };
    text.lines().filter_map(line).collect()
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        base::skipped!("without root, guests run as the user of this process");
    }
    is_root
}

/// Returns the user id of a QEMU, and asserts that it has no rights.
fn user_without_rights(pid: u32) -> String {
    let status = status(pid);
    let user = status["Uid"][0].clone();
    assert_ne!(user, "0", "process {pid} is root's");
    for name in ["Uid", "Gid"] {
        assert_eq!(status[name], vec![user.clone(); 4], "{name} of process {pid}");
    }
    let kvm = status["Groups"].len();
    assert!(kvm == 0 || Path::new("/dev/kvm").exists() && kvm == 1, "{:?}", status["Groups"]);
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[name], ["0000000000000000"], "{name} of process {pid}");
    }
    assert_eq!(
        (&*status["NoNewPrivs"], &*status["Seccomp"]),
        (&["1".into()][..], &["2".into()][..])
    );
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let stat: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(stat[3..5], [&pid.to_string(), "0"], "session and terminal of process {pid}");
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!text(&environment).contains("HOME="), "{}", text(&environment));
    user
}

/// Runs a shell with a QEMU's user id, as an attacker in that QEMU could, and returns the output.
fn escaped(user: &str, script: &str) -> String {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"]);
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    let output = command.args(["sh", "-c", script]).output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns the file behind a clone's memory.
fn memory(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/fd/0")).unwrap()
}

#[test]
fn finding_03_each_qemu_of_a_farm_is_a_user_without_rights() {
    if !is_root() {
        return;
    }
    let farm = Farm::new(
        "rights",
        "[[class]]\nname = 'clone'\ncount = 2\ntemplate = true\n\
         [[class]]\nname = 'copy'\ntemplate = true\ncopy = true\n\
         [[class]]\nname = 'plain'\ncpus = 2\n\
         [[class]]\nname = 'other'\narch = 's390x'\n",
        e2e::share(5),
    );
    let output = farm.succeed(&["up", &farm.file(), "--detach"]);
    assert!(output.contains("5 of 5 guests ready"), "{output}");
    let (ours, guests) = farm.processes();
    let users: Vec<String> = guests.iter().map(|pid| user_without_rights(*pid)).collect();
    let different: BTreeSet<&String> = users.iter().collect();
    assert_eq!(different.len(), 5, "each has a user of its own: {users:?}");

    // The attacker has taken over the QEMU of the first clone.
    let (clone, next, user) = (guests[0], guests[1], &users[0]);
    let run_dir = farm.run_dir(ours).display().to_string();
    let memory = memory(clone);
    assert!(memory.extension().is_some_and(|end| end == "memory"), "{}", memory.display());
    let before = fs::read(&memory).unwrap();
    assert!(escaped(user, &format!("kill -0 {clone} && echo is-itself")).contains("is-itself"));
    for attack in [
        format!("kill -0 {next}"),
        format!("kill -0 {ours}"),
        format!("head -c 1 /proc/{next}/mem"),
        format!("head -c 1 /proc/{ours}/environ"),
        format!("ls {run_dir}"),
        format!("echo x > /proc/{clone}/fd/0"),
        format!("exec 5<> /proc/{clone}/fd/0; echo x >&5"),
        format!("truncate -s 0 /proc/{clone}/fd/0"),
        "head -c 1 /etc/shadow".to_owned(),
    ] {
        let text = escaped(user, &format!("({attack}) && echo it-works"));
        assert!(!text.contains("it-works"), "{attack}: {text}");
    }
    assert!(fs::read(&memory).unwrap() == before, "the template of all clones was written to");

    if Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
        let places = fs::read_to_string(format!("/proc/{clone}/cgroup")).unwrap();
        assert_eq!(places.matches("/guest-clone1\n").count(), 2, "memory and pids: {places}");
    }
    farm.succeed(&["exec", &farm.guest("plain1"), "--", "true"]);
    farm.succeed(&["down", &farm.name]);
    e2e::farms::are_gone(&guests);
}

/// Without the capability to end another user's process, root could not end its guests.
#[test]
fn finding_03_a_farm_reports_qemus_that_stay_roots() {
    if !is_root() {
        return;
    }
    let farm = Farm::new("rootly", "[[class]]\nname = 'plain'\n", e2e::share(1));
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-kill"]).arg(e2e::program());
    command.args(["up", &farm.file(), "--detach", "--no-manager"]).env("TMPDIR", &farm.dir);
    let output = command.output().unwrap();
    let output = text(&output.stdout) + &text(&output.stderr);
    let why = "Guests' QEMUs run as root: pinhead needs CAP_KILL to start QEMU as another user";
    assert!(output.contains("1 of 1 guest ready") && output.contains(why), "{output}");
    let guests = farm.processes().1;
    let status = status(guests[0]);
    assert_eq!((&*status["Uid"][0], &*status["CapEff"][0]), ("0", "0000000000000000"));
    farm.succeed(&["down", &farm.name]);
    e2e::farms::are_gone(&guests);
}

#[test]
fn finding_03_each_qemu_of_up_is_a_user_without_rights() {
    if !is_root() {
        return;
    }
    let mut up = Up::start("--guests 2", || e2e::share(2));
    up.until("both have started", |up| up.qemus().len() == 2);
    // A newly started QEMU is a copy of `pinhead up` until the copy executes QEMU.
    let has_started = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("qemu")
    };
    up.until("both are QEMUs", |up| up.qemus().iter().all(has_started));
    let mut users = BTreeSet::new();
    up.until("both have their filter", |up| {
        up.qemus().iter().all(|pid| status(*pid)["Seccomp"] == ["2"])
    });
    for pid in up.qemus() {
        users.insert(user_without_rights(pid));
    }
    assert_eq!(users.len(), 2, "{users:?}");
}
