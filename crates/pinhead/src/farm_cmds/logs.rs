//! `pinhead logs`: prints the kept part of a guest's console, and then further output.

use super::{LogsArgs, find};
use crate::Error;
use crate::escape::Lines;
use farm::service;
use manager::control::{Answer, Ask, ConsoleLog};
use std::io::{self, Write};
use std::time::Duration;

/// Interval between two requests for further output.
const PAUSE: Duration = Duration::from_millis(500);

/// Returns the kept part of a guest's console. With `--follow` this part and all further output are
/// printed until an error.
pub fn logs(args: &LogsArgs) -> Result<String, Error> {
    let at = find::guest(&args.guest)?;
    let mut ask = || {
        let answer = service::ask(&at.socket, &Ask::Logs { guest: at.guest.clone() })?;
        let Answer::Logs(log) = answer else { return Err(farm::Error::other(&at.socket).into()) };
        Ok(log)
    };
    if args.follow {
        return follow(&mut ask, &mut io::stdout(), PAUSE);
    }
    let mut out = Vec::new();
    let log = ask()?;
    let written = begin(&log, &mut out).and_then(Lines::finish);
    written.map_err(cannot_show)?;
    if !out.ends_with(b"\n") && !out.is_empty() {
        out.push(b'\n');
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Prints the kept output, and then further output until a request fails.
fn follow(
    ask: &mut dyn FnMut() -> Result<ConsoleLog, Error>,
    out: &mut dyn Write,
    pause: Duration,
) -> Result<String, Error> {
    let mut last = ask()?;
    let mut lines = begin(&last, out).map_err(cannot_show)?;
    loop {
        lines.flush().map_err(cannot_show)?;
        std::thread::sleep(pause);
        let next = ask()?;
        lines.write_all(further(&last, &next).as_bytes()).map_err(cannot_show)?;
        last = next;
    }
}

/// Writes the kept output.
fn begin<W: Write>(log: &ConsoleLog, mut out: W) -> io::Result<Lines<W>> {
    if log.lost_bytes > 0 {
        let kib = log.lost_bytes / 1024;
        out.write_all(format!("[{kib} KiB of earlier output are no longer kept]\n").as_bytes())?;
    }
    let mut lines = Lines::new(out);
    lines.write_all(log.text.as_bytes())?;
    Ok(lines)
}

/// Returns the output that is only in the newer log. If both logs have nothing in common, as after
/// a guest's restart, this is the whole newer log.
fn further<'a>(before: &ConsoleLog, now: &'a ConsoleLog) -> &'a str {
    let lost = usize::try_from(now.lost_bytes.saturating_sub(before.lost_bytes));
    let known = lost.ok().and_then(|lost| before.text.get(lost..)).unwrap_or_default();
    let both = known.chars().zip(now.text.chars()).take_while(|(a, b)| a == b);
    &now.text[both.map(|(a, _)| a.len_utf8()).sum()..]
}

fn cannot_show(error: io::Error) -> Error {
    Error::step("The log cannot be shown", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManageError;

    fn log(text: &str, lost_bytes: u64) -> ConsoleLog {
        ConsoleLog { text: text.into(), lost_bytes }
    }

    #[test]
    fn further_output_is_printed_once() {
        let logs = [
            log("boots\n", 2048),
            log("boots\nlogin: ", 2048),
            log("boots\nlogin: ", 2048),
            log("login: r\u{1b}oot\n", 2054),
            log("boots again\n", 0),
        ];
        let mut logs = logs.into_iter();
        let mut ask = || logs.next().ok_or_else(|| ManageError::OtherAnswer.into());
        let mut out = Vec::new();
        let ended = follow(&mut ask, &mut out, Duration::ZERO);
        assert!(ended.is_err(), "the farm has ended");
        let kept = "[2 KiB of earlier output are no longer kept]\nboots\nlogin: ";
        let told = format!("{kept}r\u{fffd}oot\nboots again\n");
        assert_eq!(String::from_utf8(out).unwrap(), told);
    }
}
