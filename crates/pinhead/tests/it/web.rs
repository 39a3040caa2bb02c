//! `pinhead web` replaces itself with the program that serves the pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with a copy of `pinhead`. Dropping this value removes the directory.
struct Alone(PathBuf);

impl Alone {
    fn new(name: &str) -> Alone {
        let dir = std::env::temp_dir().join(format!("pinhead-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let alone = Alone(dir);
        alone.install(Path::new(env!("CARGO_BIN_EXE_pinhead")), "pinhead");
        alone
    }

    /// Puts a program into the directory, by another process. If this process wrote the program, a
    /// child of another test could hold the file open for writing. Such a program could not be
    /// started.
    fn install(&self, program: &Path, name: &str) {
        let mut command = Command::new("install");
        command.args(["-m", "755"]).arg(program).arg(self.0.join(name));
        assert!(command.status().expect("install runs").success(), "{name}");
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
    let script = alone.0.join("script");
    fs::write(&script, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").expect("a script");
    alone.install(&script, "pinhead-web");
    let output = alone.web();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "<--listen><unix:/run/x><--name><a b>");
    assert_eq!(output.status.code(), Some(7), "the exit status is the program's");
}

#[test]
fn pinhead_web_names_what_makes_the_program_when_it_is_missing() {
    let output = Alone::new("missing").web();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains(
            "/usr/libexec/pinhead/pinhead-web. The package pinhead contains it; in a checkout, \
             run `make build`"
        ),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(2));
}
