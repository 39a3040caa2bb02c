//! Progress of a farm's start. The progress is a bar on a terminal and lines in other output. A
//! detached farm sends the progress as JSON to the command that waits.

use crate::tell::tell;
use crate::terminal::width;
use base::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{IsTerminal, PipeWriter, Write};
use vm::Clock;
use vm::images;

const BAR_CELLS: usize = 24;
const WIDTH: usize = 78;
/// Maximum length of a warning, which may need several lines.
const WARNING_WIDTH: usize = 400;
/// Interval between two lines if the output is not a terminal.
const LINE_MS: u64 = 2_000;

/// A step of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// An image or another resource of the guests is being made.
    Making {
        /// Name of the resource.
        making: String,
        /// Completed part, in thousandths, if known.
        permille: Option<u16>,
        /// Size of the whole in bytes, if known.
        #[serde(default)]
        bytes: Option<u64>,
    },
    /// Guests start.
    Guests {
        /// Number of guests that are up.
        up: usize,
        /// Number of guests with all services answering.
        ready: usize,
        /// Number of guests that have ended.
        ended: usize,
        /// Number of all guests.
        of: usize,
    },
    /// All guests are ready, or have ended.
    Done {
        /// The guests' addresses.
        done: String,
    },
    /// A warning for the user, independent of the start's outcome.
    Warned {
        /// Text of the warning.
        warned: String,
    },
    /// The start has failed.
    Failed {
        /// Reason.
        failed: String,
    },
}

impl Step {
    fn line(&self) -> String {
        match self {
            Step::Making { making, permille: Some(permille), bytes } => {
                let bar = bar(usize::from(*permille), 1000);
                let size = bytes.map(|all| {
                    let done = Bytes(all).permille((*permille).into());
                    format!(", {} of {} MiB", done.as_mib(), Bytes(all).as_mib())
                });
                format!("{bar} {:>3} %  {making}{}", permille / 10, size.unwrap_or_default())
            }
            Step::Making { making, permille: None, .. } => making.clone(),
            Step::Guests { up, ready, ended, of } => {
                let all = base::counted(*of as u64, "guest");
                let mut line = format!("{} {ready} of {all} ready", bar(*ready, *of));
                if up > ready {
                    line.push_str(&format!(", {} more up", up - ready));
                }
                if *ended > 0 {
                    line.push_str(&format!(", {ended} ended"));
                }
                line
            }
            Step::Done { done: text }
            | Step::Warned { warned: text }
            | Step::Failed { failed: text } => text.clone(),
        }
    }
}

fn bar(done: usize, of: usize) -> String {
    let full = (BAR_CELLS * done.min(of)).checked_div(of).unwrap_or(BAR_CELLS);
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR_CELLS - full))
}

/// The output for progress.
#[derive(Debug)]
pub struct Progress {
    out: Out,
    last: Option<Step>,
    clock: Clock,
    last_ms: u64,
    is_drawn: bool,
}

#[derive(Debug)]
enum Out {
    Terminal,
    Lines,
    Pipe(PipeWriter),
    Nobody,
}

impl Progress {
    /// Creates progress for a user. The progress goes to standard error, because standard output is
    /// for results.
    pub fn shown() -> Progress {
        let out = if std::io::stderr().is_terminal() { Out::Terminal } else { Out::Lines };
        Progress::to(out)
    }

    /// Creates progress for a user at a terminal. Other output gets nothing.
    pub fn on_terminal() -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress::to(if is_terminal { Out::Terminal } else { Out::Nobody })
    }

    /// Creates progress for a command that waits at the other end of a pipe.
    pub fn piped(pipe: PipeWriter) -> Progress {
        Progress::to(Out::Pipe(pipe))
    }

    /// Creates progress without output.
    pub fn silent() -> Progress {
        Progress::to(Out::Nobody)
    }

    fn to(out: Out) -> Progress {
        Progress { out, last: None, clock: Clock::new(), last_ms: 0, is_drawn: false }
    }

    /// Shows a step, but not the same step twice. Returns false if the reader has gone.
    pub fn report(&mut self, step: Step) -> bool {
        if self.last.as_ref() == Some(&step) {
            return true;
        }
        let written = match &mut self.out {
            Out::Terminal => {
                // If the terminal broke the line, the next line could not replace it.
                let room = width(std::io::stderr()).map_or(WIDTH, |width| width.saturating_sub(1));
                let line = base::plain(&step.line(), room.min(WIDTH));
                self.is_drawn = true;
                std::io::stderr().write_all(format!("\r{line}\x1b[K").as_bytes())
            }
            Out::Lines => {
                let now_ms = self.clock.ms();
                let is_soon = now_ms.saturating_sub(self.last_ms) < LINE_MS;
                if is_soon && self.last.as_ref().is_some_and(|last| last.is_like(&step)) {
                    return true;
                }
                self.last_ms = now_ms;
                let line = base::plain(&step.line(), WIDTH);
                std::io::stderr().write_all(format!("{line}\n").as_bytes())
            }
            Out::Pipe(pipe) => pipe.write_all(format!("{}\n", json!(step)).as_bytes()),
            Out::Nobody => Ok(()),
        };
        self.last = Some(step);
        written.is_ok()
    }

    /// Shows the progress of fetching the packages of an image.
    pub fn fetch(&mut self, image: &str, at: images::Fetch) {
        let making = format!("{image}: {}", at.what);
        let bytes = Some(at.bytes).filter(|bytes| *bytes > 0);
        self.report(Step::Making { making, permille: at.permille, bytes });
    }

    /// Shows a warning, which stays on the terminal.
    pub fn warn(&mut self, text: &str) {
        if let Out::Pipe(_) = self.out {
            self.report(Step::Warned { warned: text.to_owned() });
            return;
        }
        self.clear();
        tell("pinhead", &base::plain(text, WARNING_WIDTH));
    }

    /// Removes the bar.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            // If the terminal is gone, there is nothing to remove.
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Step {
    /// Returns true if `other` is further progress of the same phase. In lines, such progress is
    /// only shown at intervals.
    fn is_like(&self, other: &Step) -> bool {
        match (self, other) {
            (Step::Making { making: a, .. }, Step::Making { making: b, .. }) => a == b,
            (Step::Guests { .. }, Step::Guests { ready, ended, of, .. }) => ready + ended < *of,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cross_a_pipe() {
        for step in [
            Step::Making { making: "an image".into(), permille: Some(500), bytes: Some(7) },
            Step::Making { making: "a template".into(), permille: None, bytes: None },
            Step::Guests { up: 3, ready: 2, ended: 1, of: 9 },
            Step::Done { done: "http://127.0.0.1:18000".into() },
            Step::Warned { warned: "old".into() },
            Step::Failed { failed: "no".into() },
        ] {
            assert_eq!(serde_json::from_str::<Step>(&json!(step).to_string()).unwrap(), step);
        }
        for wrong in ["{\"of\": 1}", "\"x\"", "{}"] {
            assert!(serde_json::from_str::<Step>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_show_the_progress() {
        let line = Step::Guests { up: 5, ready: 3, ended: 1, of: 6 }.line();
        assert_eq!(line, "[############............] 3 of 6 guests ready, 2 more up, 1 ended");
        let line = Step::Guests { up: 1, ready: 1, ended: 0, of: 1 }.line();
        assert!(line.ends_with("] 1 of 1 guest ready"), "{line}");
        let line = Step::Making { making: "x".into(), permille: Some(1000), bytes: None }.line();
        assert_eq!(line, "[########################] 100 %  x");
        let bytes = Some(64 << 20);
        let line = Step::Making { making: "x".into(), permille: Some(250), bytes }.line();
        assert_eq!(line, "[######..................]  25 %  x, 16 of 64 MiB");
        assert_eq!(bar(0, 0), format!("[{}]", "#".repeat(BAR_CELLS)));
    }
}
