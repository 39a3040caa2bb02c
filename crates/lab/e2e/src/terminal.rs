//! A program in a real terminal, driven like a user's: keys go in, the screen comes out.
//!
//! The terminal is a tmux session. The tmux server is private, with a socket in a private
//! directory, so that no other session is seen or touched.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use crate::manager::wait_until;
use crate::scratch;
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;
use vm::Scratch;

/// Timeout of a wait for a screen. Other tests use the machine, too.
const PATIENCE: Duration = Duration::from_secs(60);
/// File with the exit status.
const STATUS: &str = "status";
/// Settings of tmux. The screen stays readable after the program has ended.
const SETTINGS: &str = "set -g remain-on-exit on\nset -g status off\nset -sg escape-time 0\n\
                        set -g default-terminal screen-256color\n";

/// A program in a terminal. Dropping this value ends the program and the terminal.
#[derive(Debug)]
pub struct Terminal {
    dir: Scratch,
}

impl Terminal {
    /// Starts a program in a terminal of this many columns and lines, with additional environment
    /// variables.
    pub fn start(
        (width, height): (u16, u16),
        environment: &[(&str, &str)],
        command: &[&str],
    ) -> Terminal {
        let terminal = Terminal { dir: scratch("terminal") };
        fs::write(terminal.dir.join("tmux.conf"), SETTINGS).unwrap();
        let mut words = vec!["new-session".to_owned(), "-d".to_owned()];
        words.extend(["-x".to_owned(), width.to_string(), "-y".to_owned(), height.to_string()]);
        for (name, value) in environment {
            words.extend(["-e".to_owned(), format!("{name}={value}")]);
        }
        // tmux sometimes never reports the exit status of a program, so the shell writes the status
        // to a file.
        let status = terminal.dir.join(STATUS).display().to_string();
        let shell = "status=$1; shift; \"$@\"; echo $? > \"$status.part\"; \
                     mv \"$status.part\" \"$status\"";
        words.extend(["sh", "-c", shell, "sh", &status].map(str::to_owned));
        words.extend(command.iter().map(|word| (*word).to_owned()));
        terminal.tmux(&words.iter().map(String::as_str).collect::<Vec<_>>());
        terminal
    }

    fn try_tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.dir.join("socket")).arg("-f").arg(self.dir.join("tmux.conf"));
        // The terminal uses UTF-8, times are in UTC, and settings of the user have no effect.
        command.args(words).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env("TERM", "xterm");
        command.env_remove("TMUX").env_remove("NO_COLOR").output().unwrap()
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = self.try_tmux(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {words:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the text on the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the screen with its escape sequences.
    pub fn painted(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Types characters.
    pub fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Presses a key by name, such as Enter.
    pub fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Resizes the terminal.
    pub fn resize(&self, (width, height): (u16, u16)) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Waits until the screen satisfies a condition, and returns the screen.
    pub fn until(&self, what: &str, so: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let there = wait_until(PATIENCE, || {
            screen = self.screen();
            so(&screen)
        });
        assert!(there.is_some(), "not within {PATIENCE:?}: {what}\n{screen}");
        screen
    }

    /// Waits until a text is on the screen, and returns the whole screen.
    pub fn until_shown(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits for the program's exit, and returns its status. Values above 128 mean a signal.
    pub fn end(&self) -> i32 {
        let path = self.dir.join(STATUS);
        let mut status = None;
        let ended = wait_until(PATIENCE, || {
            status = fs::read_to_string(&path).ok();
            status.is_some()
        });
        assert!(ended.is_some(), "the program does not end\n{}", self.screen());
        status.and_then(|text| text.trim().parse().ok()).unwrap_or(-1)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.try_tmux(&["kill-server"]);
    }
}
