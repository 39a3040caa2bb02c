//! How far a farm's start is: a bar on a terminal, lines elsewhere, JSON from a farm that was
//! detached to the command that waits for it.

use serde_json::{Value, json};
use std::io::{IsTerminal, PipeWriter, Write};

/// Cells of a bar.
const BAR_CELLS: usize = 24;
/// A line is no wider, so that it is not broken on any terminal.
const WIDTH: usize = 78;
/// Between two lines where nobody watches the bar grow.
const LINE_MS: u64 = 2_000;

/// What can be told of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something is made that guests need.
    Making {
        /// What.
        what: String,
        /// How much of it is done, in thousandths, if that is known.
        permille: Option<u16>,
    },
    /// Guests start.
    Guests {
        /// How many are up.
        up: usize,
        /// Of how many all services answer.
        ready: usize,
        /// How many have ended.
        ended: usize,
        /// How many there are.
        of: usize,
    },
    /// All are ready, or have ended; how they are reached.
    Done(String),
    /// The start has failed.
    Failed(String),
}

impl Step {
    /// One line of JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Step::Making { what, permille } => json!({ "making": what, "permille": permille }),
            Step::Guests { up, ready, ended, of } => {
                json!({ "of": of, "up": up, "ready": ready, "ended": ended })
            }
            Step::Done(text) => json!({ "done": text }),
            Step::Failed(text) => json!({ "failed": text }),
        }
    }

    /// The step of such a line.
    pub fn from_json(value: &Value) -> Option<Step> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let count = |key: &str| number(key).and_then(|n| usize::try_from(n).ok());
        if let Some(what) = text("making") {
            let permille = number("permille").map(|n| n.min(1000) as u16);
            return Some(Step::Making { what, permille });
        }
        if let Some(of) = count("of") {
            let (up, ready, ended) = (count("up")?, count("ready")?, count("ended")?);
            return Some(Step::Guests { up, ready, ended, of });
        }
        text("done").map(Step::Done).or_else(|| text("failed").map(Step::Failed))
    }

    /// The step in a line for people.
    fn line(&self) -> String {
        match self {
            Step::Making { what, permille: Some(permille) } => {
                format!("{} {:>3} %  {what}", bar(usize::from(*permille), 1000), permille / 10)
            }
            Step::Making { what, permille: None } => what.clone(),
            Step::Guests { up, ready, ended, of } => {
                let mut line = format!("{} {ready} of {of} guests ready", bar(*ready, *of));
                if up > ready {
                    line.push_str(&format!(", {} more up", up - ready));
                }
                if *ended > 0 {
                    line.push_str(&format!(", {ended} ended"));
                }
                line
            }
            Step::Done(text) | Step::Failed(text) => text.clone(),
        }
    }
}

fn bar(done: usize, of: usize) -> String {
    let full = (BAR_CELLS * done.min(of)).checked_div(of).unwrap_or(BAR_CELLS);
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR_CELLS - full))
}

/// Where progress is told.
#[derive(Debug)]
pub struct Progress {
    out: Out,
    last: Option<Step>,
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
    /// For a person: on standard error, so that the output stays what was asked for.
    pub fn shown() -> Progress {
        let out = if std::io::stderr().is_terminal() { Out::Terminal } else { Out::Lines };
        Progress::to(out)
    }

    /// For a command that waits at the other end of a pipe.
    pub fn piped(pipe: PipeWriter) -> Progress {
        Progress::to(Out::Pipe(pipe))
    }

    /// For nobody.
    pub fn silent() -> Progress {
        Progress::to(Out::Nobody)
    }

    fn to(out: Out) -> Progress {
        Progress { out, last: None, last_ms: 0, is_drawn: false }
    }

    /// Tells of a step; one that says nothing new is not told again. False: nobody listens any
    /// more.
    pub fn tell(&mut self, step: Step, now_ms: u64) -> bool {
        if self.last.as_ref() == Some(&step) {
            return true;
        }
        let told = match &mut self.out {
            Out::Terminal => {
                let line = base::plain(&step.line(), WIDTH);
                self.is_drawn = true;
                std::io::stderr().write_all(format!("\r{line}\x1b[K").as_bytes())
            }
            Out::Lines => {
                let is_soon = now_ms.saturating_sub(self.last_ms) < LINE_MS;
                if is_soon && self.last.as_ref().is_some_and(|last| last.is_like(&step)) {
                    return true;
                }
                self.last_ms = now_ms;
                let line = base::plain(&step.line(), WIDTH);
                std::io::stderr().write_all(format!("{line}\n").as_bytes())
            }
            Out::Pipe(pipe) => pipe.write_all(format!("{}\n", step.to_json()).as_bytes()),
            Out::Nobody => Ok(()),
        };
        self.last = Some(step);
        told.is_ok()
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            // A terminal that is gone needs no cleaning.
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Step {
    /// Whether both tell of the same thing, further or less far.
    fn is_like(&self, other: &Step) -> bool {
        match (self, other) {
            (Step::Making { what: a, .. }, Step::Making { what: b, .. }) => a == b,
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
            Step::Making { what: "an image".into(), permille: Some(500) },
            Step::Making { what: "a template".into(), permille: None },
            Step::Guests { up: 3, ready: 2, ended: 1, of: 9 },
            Step::Done("http://127.0.0.1:18000".into()),
            Step::Failed("no".into()),
        ] {
            assert_eq!(Step::from_json(&step.to_json()), Some(step));
        }
        assert_eq!(Step::from_json(&json!({ "of": 1 })), None);
        assert_eq!(Step::from_json(&json!("x")), None);
    }

    #[test]
    fn lines_show_how_far_it_is() {
        let line = Step::Guests { up: 5, ready: 3, ended: 1, of: 6 }.line();
        assert_eq!(line, "[############............] 3 of 6 guests ready, 2 more up, 1 ended");
        let line = Step::Making { what: "x".into(), permille: Some(1000) }.line();
        assert_eq!(line, "[########################] 100 %  x");
        assert_eq!(bar(0, 0), format!("[{}]", "#".repeat(BAR_CELLS)));
    }
}
