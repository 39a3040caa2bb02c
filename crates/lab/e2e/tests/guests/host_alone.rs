//! `pinhead host` without guests or without permission. It prints one clear sentence for each case.

use e2e::manager::{Manager, Place, Size};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// User id of `nobody`, the owner of no files.
const NOBODY: u32 = 65534;

const SIZE: Size =
    Size { budget_mib: 2000, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a manager without guests for some seconds, and returns its messages.
fn runs(config: &Path) -> String {
    let mut command = Command::new(e2e::program());
    command.args(["host", "--for", "5", "--config"]).arg(config).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn no_guest_is_reported_once() {
    let place = Place::new();
    let text = runs(&place.settings(&SIZE, "[ksm]\nmode = \"leave\"\n"));
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("No guest found")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("No guest found yet"), "{text}");
    assert!(lines[0].contains(&place.dir().display().to_string()), "{text}");
}

#[test]
fn manager_clears_leftovers_of_dead_farms_at_its_end() {
    let place = Place::new();
    // No process has this id, and no process holds the lock of the directory.
    let left = farm::rundir::base().expect("a place").join(u32::MAX.to_string());
    std::fs::create_dir_all(&left).expect("a directory");
    runs(&place.settings(&SIZE, "[ksm]\nmode = \"leave\"\n"));
    assert!(!left.exists(), "{}", left.display());
}

#[test]
fn no_libvirt_is_reported_once() {
    let place = Place::new();
    let path = place.settings(&SIZE, "[ksm]\nmode = \"leave\"\n");
    let settings = std::fs::read_to_string(&path).expect("the settings");
    let socket = place.dir().join("libvirt-sock");
    let uri = format!("libvirt = [\"qemu+unix:///system?socket={}\"]", socket.display());
    std::fs::write(&path, settings.replace("libvirt = []", &uri)).expect("the settings");
    let text = runs(&path);
    let name = socket.display().to_string();
    let lines = text.lines().filter(|line| line.contains(&name) && !line.contains("found yet in"));
    assert_eq!(lines.count(), 1, "{text}");
}

/// Copies the program to a place where every user can run it.
fn for_all(place: &Place) -> PathBuf {
    let program = place.dir().join("pinhead");
    std::fs::copy(e2e::program(), &program).expect("a copy");
    for (path, mode) in [(program.as_path(), 0o755), (place.dir(), 0o755)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("rights");
    }
    program
}

fn as_nobody(program: &Path, words: &[&str], place: &Place) -> Output {
    let mut command = Command::new(program);
    command.args(words).uid(NOBODY).gid(NOBODY).env_remove("XDG_RUNTIME_DIR");
    // This user has no directory for temporary files either.
    command.env("TMPDIR", place.dir());
    command.env("HOME", place.dir()).current_dir("/").stdin(Stdio::null());
    command.output().expect("it runs")
}

#[test]
fn no_right_is_reported_in_a_sentence() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        e2e::skipped("only root can try it as another user");
        return;
    }
    let place = Place::new();
    let program = for_all(&place);
    let config = place.settings(&SIZE, "[ksm]\nmode = \"leave\"\n");
    let manager = Manager::start(&place, &config);
    let socket = place.socket().display().to_string();
    let sentence = |words: &[&str]| {
        let output = as_nobody(&program, words, &place);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(sentence(&["ps", "--socket", &socket]).contains("No permission to use the manager"));
    let config = config.display().to_string();
    let text = sentence(&["host", "--config", &config]);
    assert!(text.contains("Permission denied") || text.contains("manages this machine"), "{text}");
    // Without a settings file and a runtime directory, there is no default path for a socket.
    let text = sentence(&["host"]);
    assert!(text.contains("XDG_RUNTIME_DIR is not set"), "{text}");
    drop(manager);
    assert!(sentence(&["ps", "--socket", &socket]).contains("No manager runs here"));
}
