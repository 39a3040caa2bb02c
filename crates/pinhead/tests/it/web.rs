//! `pinhead web` becomes the program that serves the pages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A directory with a copy of `pinhead`, which goes with this value.
struct Alone(PathBuf);

impl Alone {
    fn new(name: &str) -> Alone {
        let dir = std::env::temp_dir().join(format!("pinhead-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        fs::copy(env!("CARGO_BIN_EXE_pinhead"), dir.join("pinhead")).expect("a copy");
        Alone(dir)
    }

    fn web(&self) -> Output {
        let mut command = Command::new(self.0.join("pinhead"));
        command.args(["web", "--listen", "unix:/run/x", "--name", "a b"]).output().expect("it runs")
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn pinhead_web_gets_the_options_as_they_were_typed() {
    let alone = Alone::new("beside");
    let program = alone.0.join("pinhead-web");
    fs::write(&program, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let output = alone.web();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "<--listen><unix:/run/x><--name><a b>");
    assert_eq!(output.status.code(), Some(7), "its exit status is that of the program");
}

#[test]
fn pinhead_web_names_what_makes_the_program_when_it_is_missing() {
    let output = Alone::new("missing").web();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("/usr/libexec/pinhead/pinhead-web; `make build` makes it"), "{text}");
    assert_eq!(output.status.code(), Some(2));
}
