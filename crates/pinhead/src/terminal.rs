//! The terminal's width, and texts that are broken between words to fit this width. Other output is
//! not broken, so that scripts can read it line by line.

use base::wrapped;
use clap::error::{ContextKind, ErrorKind};
use rustix::termios::tcgetwinsize;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::exit;

/// Maximum width of a help text. Longer lines are harder to read.
const HELP_WIDTH: usize = 100;
/// Width of a help text that does not go to a terminal.
const PAGER_WIDTH: usize = 80;
/// Indent of the further lines of a message.
const INDENT: usize = 2;

/// Returns the columns of a terminal; `None` for other output.
pub fn width(of: impl AsFd) -> Option<usize> {
    #[cfg(test)]
    if let Some(columns) = testing::WIDTH.get() {
        return Some(columns);
    }
    let size = tcgetwinsize(of).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Breaks messages into lines of this width. Without a width, returns the text unchanged.
pub fn fitted(text: &str, width: Option<usize>) -> String {
    width.map_or_else(|| text.to_owned(), |width| wrapped(text, width, INDENT))
}

/// Breaks messages to fit standard output, if that is a terminal.
pub fn fitted_to_stdout(text: &str) -> String {
    fitted(text, width(std::io::stdout()))
}

/// Writes a message to standard error in one call, so that no other process can write into the
/// message. A missing reader is not an error.
pub fn complain(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(fitted(&format!("{text}\n"), width(&stderr)).as_bytes());
}

/// Prints the help that was requested, or an error of the command line, and ends the process.
pub fn leave(mut error: clap::Error) -> ! {
    if error.kind() == ErrorKind::UnknownArgument {
        // No argument of pinhead begins with a dash, so clap's advice to put `--` first misleads.
        error.remove(ContextKind::Suggested);
    }
    let text = error.render().to_string();
    if error.use_stderr() {
        complain(text.trim_end());
    } else {
        let mut stdout = std::io::stdout();
        // A pager is usually as wide as the terminal, which is unknown here.
        let width = width(&stdout).map_or(PAGER_WIDTH, |width| width.min(HELP_WIDTH));
        let _ = stdout.write_all(wrapped(&text, width, 0).as_bytes());
    }
    exit(error.exit_code())
}

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        /// Width of the made-up terminal of this thread's test, if the test has one.
        pub(super) static WIDTH: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Returns the result of a function that runs on a terminal of this width.
    pub(crate) fn on_terminal<T>(width: usize, run: impl FnOnce() -> T) -> T {
        let before = WIDTH.replace(Some(width));
        let result = run();
        WIDTH.set(before);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_is_broken_between_words() {
        fn check(command: &mut clap::Command, path: &str) {
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                for width in [40, 80, 100] {
                    let shown = wrapped(&help, width, 0);
                    let same = shown.split_whitespace().eq(help.split_whitespace());
                    assert!(same, "{path}: a word is broken at {width}:\n{shown}");
                    let is_wide =
                        |line: &&str| line.chars().count() > width && line.trim().contains(' ');
                    let wide = shown.lines().find(|line| width >= 80 && is_wide(line));
                    assert_eq!(wide, None, "{path} at {width}");
                }
            }
            for below in command.get_subcommands_mut() {
                let path = format!("{path} {}", below.get_name());
                check(below, &path);
            }
        }
        let mut command = crate::cli::command();
        command.build();
        check(&mut command, "pinhead");
        let mut help = |name| command.find_subcommand_mut(name).unwrap().render_help().to_string();
        let (up, report) = (help("up"), help("report"));
        assert!(up.contains("\nOptions for a farm file:\n"), "{up}");
        assert!(up.contains("\nOptions for identical guests:\n"), "{up}");
        assert!(["Rows", "Time", "Source"].iter().all(|of| report.contains(&format!("\n{of}:\n"))));
    }

    #[test]
    fn messages_are_broken_on_a_terminal_only() {
        let text = "pinhead: No guest `g9` runs; there are g1, g2\n";
        assert_eq!(fitted(text, None), text);
        assert_eq!(fitted(text, Some(30)), "pinhead: No guest `g9` runs;\n  there are g1, g2\n");
        assert_eq!(width(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
