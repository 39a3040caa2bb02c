//! `pinhead check`, `host --check` and `up --check` on files of settings.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Creates a directory with a daemon for guests.
fn farm_dir() -> vm::Scratch {
    let dir = vm::Scratch::new("settings-files").expect("a directory");
    let guest = dir.join("guest/x86_64");
    fs::create_dir_all(&guest).expect("a directory");
    fs::write(guest.join("pinheadd"), "").expect("a daemon");
    dir
}

/// Runs the program in a new directory with these files. Returns its status and its output.
fn run(files: &[(&str, &str)], args: &[&str]) -> (i32, String) {
    let dir = farm_dir();
    for (name, text) in files {
        fs::write(dir.join(name), text).expect("a file");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_pinhead"))
        .args(args)
        .current_dir(dir.path())
        .env("PINHEAD_GUEST_DIR", dir.join("guest"))
        .output()
        .expect("pinhead runs");
    let mut text = String::from_utf8(output.stdout).expect("text");
    text.push_str(&String::from_utf8(output.stderr).expect("text"));
    (output.status.code().expect("a status"), text)
}

const HOST: (&str, &str) = ("host.toml", "[host]\nset_point = \"2G\"\n[ksm]\nmode = \"off\"\n");
const FARM: (&str, &str) = (
    "FARM.toml",
    "[[class]]\nname = \"web\"\ncount = 3\nmemory = \"96M\"\nrules = \"default\"\n\
     ports = [{ guest = 80, host = 18000 }]\n",
);

/// Returns printed settings as a file that also sets the defaults.
fn with_defaults(printed: &str) -> String {
    let line = |line: &str| {
        let default = line.strip_prefix('#').filter(|line| !line.starts_with(' '));
        default.unwrap_or(line).to_owned() + "\n"
    };
    printed.lines().map(line).collect()
}

#[test]
fn check_recognises_settings_and_farm_files() {
    for ((name, text), kind) in [(HOST, "the manager's settings"), (FARM, "a farm's file")] {
        let good = format!("{name} ({kind}): no errors, no warnings\n");
        assert_eq!(run(&[(name, text)], &["check", name]), (0, good));
        let wrong = format!("{text}[nosuch]\n");
        let (status, text) = run(&[(name, &wrong)], &["check", name]);
        assert_eq!(status, 1, "{text}");
        let at = format!("{name}:{}:2", wrong.lines().count());
        assert!(text.contains(&at) && text.contains("`nosuch` is known"), "{at}: {text}");
        assert!(text.contains("error[settings]"), "{text}");
    }
    let both = ("both.toml", "[[class]]\nname = \"web\"\nmatch = [\"web*\"]\nmin = \"10%\"\n");
    let (_, text) = run(&[both], &["check", "both.toml"]);
    assert!(text.contains("no key `match` is known in [class]"), "{text}");
    let (status, text) = run(&[("host.toml", both.1)], &["check", "host.toml"]);
    assert_eq!(status, 0, "{text}");
}

#[test]
fn host_check_prints_settings_in_force() {
    let (status, text) = run(&[HOST], &["host", "--check", "--config", "host.toml"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("# host.toml: no errors\n# socket: "), "{text}");
    for line in ["set_point = \"2G\"", "#reserve = \"3%\"", "mode = \"off\"", "#after = \"30s\""] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let budget = ["host", "--check", "--config", "host.toml", "--budget", "4G"];
    let (_, text) = run(&[HOST], &budget);
    assert!(text.contains("# --budget 4 GiB overrides `budget` in [host]\n"), "{text}");
    assert!(text.contains("\nbudget = \"4 GiB\"\n"), "{text}");
    let fed_back = with_defaults(&text);
    let (status, again) = run(&[("host.toml", &fed_back)], &budget);
    assert_eq!((status, with_defaults(&again)), (0, fed_back));
    let wrong = ("host.toml", "[host]\nset_point = \"2GB\"\n");
    let (status, text) = run(&[wrong], &["host", "--check", "--config", "host.toml"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("host.toml:2:13: host.set_point: `2GB`: no known unit"), "{text}");
    let rules = ("host.toml", "[policy]\nrules = \"nosuch.rules\"\n");
    let (status, text) = run(&[rules], &["host", "--check", "--config", "host.toml"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("nosuch.rules"), "{text}");
}

#[test]
fn up_check_prints_farm_in_force() {
    let (status, text) = run(&[FARM], &["up", "--check", "FARM.toml"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("# FARM.toml: no errors, 3 guests\n# name: "), "{text}");
    let fed_back = run(&[("FARM.toml", &text)], &["up", "--check", "FARM.toml"]);
    assert_eq!(fed_back, (0, text.clone()));
    let lines = ["memory = \"96M\"", "#cpus = 1", "ports = [{ guest = 80, host = 18000 }]"];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let wrong = (FARM.0, FARM.1.replace("\"default\"", "\"defalt\""));
    let (status, text) = run(&[(wrong.0, &wrong.1)], &["up", "--check", "FARM.toml"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("did you mean `default`?"), "{text}");
    let (status, text) = run(&[], &["up", "--check", "--memory", "1G", "--guests", "1"]);
    assert_eq!(status, 0, "{text}");
    let first = "# 1 guest of 4 CPUs and 1024 MiB, rules default: no errors\n";
    assert!(text.starts_with(first) && text.contains("\nmemory = \"1024 MiB\"\n"), "{text}");
    let (status, again) = run(&[("FARM.toml", &text)], &["up", "--check", "FARM.toml"]);
    assert_eq!(status, 0, "{again}");
    assert!(again.starts_with("# FARM.toml: no errors, 1 guest\n"), "{again}");
}

#[test]
fn output_without_a_reader_is_no_error() {
    let dir = farm_dir();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let settings = root.join("packaging/host.toml").display().to_string();
    for words in ["up --check", &format!("host --check --config {settings}"), "schema", "--help"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_pinhead"))
            .args(words.split(' '))
            .env("PINHEAD_GUEST_DIR", dir.join("guest"))
            .stdout(writer)
            .output()
            .expect("pinhead runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*told), (Some(0), ""), "{words}");
    }
}

#[test]
fn packaged_settings_and_example_farm_are_recognised() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, kind) in [("packaging/host.toml", "manager's"), ("examples/FARM.toml", "farm's")] {
        let file = root.join(file).display().to_string();
        let (status, text) = run(&[], &["check", &file]);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains(kind), "{text}");
    }
}
