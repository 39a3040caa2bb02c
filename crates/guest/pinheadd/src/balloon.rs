//! File with the size of the host's balloon in this guest and the host's reason for it. Users print
//! the file with `pinheadd --balloon`.

use crate::sys::ctime;
use base::{Pages, is_plain};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use wire::Grant;

const NAME: &str = "pinheadd.balloon";
/// Maximum number of bytes that are read. A daemon never writes a longer file.
const FILE_BYTES_MAX: u64 = 4096;
/// Age, in seconds, from which the date is printed along with the time of day.
const DAY_S: f64 = 86_400.0;

/// The file, rewritten only when the balloon or the host's reason changes.
#[derive(Debug)]
pub struct BalloonFile {
    path: PathBuf,
    last: Option<Grant>,
}

impl BalloonFile {
    /// Creates the writer, but not the file. The first grant creates the file.
    pub fn new(run_dir: &Path) -> BalloonFile {
        BalloonFile { path: run_dir.join(NAME), last: None }
    }

    /// Writes the host's grant, if it has changed.
    pub fn write(&mut self, grant: Grant, memory: Option<Pages>, epoch_s: f64) -> io::Result<()> {
        let same = |last: &Grant| last.pages == grant.pages && last.reason == grant.reason;
        if self.last.as_ref().is_some_and(same) {
            return Ok(());
        }
        let memory = memory.map_or(String::new(), |pages| format!("memory_pages={}\n", pages.0));
        let (pages, asked) = (grant.pages, u8::from(grant.sequence != 0));
        let reason = plain(&grant.reason);
        let text = format!(
            "pages={pages}\n{memory}since={}\nasked={asked}\nreason={reason}\n",
            epoch_s as u64
        );
        // The file is written under another name and renamed, so that every reader sees a complete
        // file.
        let beside = self.path.with_extension("balloon.new");
        fs::write(&beside, text)?;
        fs::rename(&beside, &self.path)?;
        self.last = Some(grant);
        Ok(())
    }

    /// Removes the file, because no daemon updates it any more.
    pub fn remove(&self) {
        if self.last.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the output of `pinheadd --balloon`.
pub fn show(run_dir: &Path, epoch_s: f64) -> Result<String, String> {
    let path = run_dir.join(NAME);
    let mut text = String::new();
    match File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok("No host has reported a balloon to this guest.\n".into());
        }
        Err(error) => return Err(format!("Cannot read {}: {error}", path.display())),
    }
    sentence(&text, epoch_s).ok_or_else(|| format!("{} is not written by pinheadd", path.display()))
}

/// Returns the file's content as a sentence; `None` if the content is not a daemon's.
fn sentence(text: &str, epoch_s: f64) -> Option<String> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    let pages = Pages(number("pages")?);
    let holds = match pages.0 {
        0 => "nothing".to_owned(),
        count => format!("{} MiB ({count} pages)", mib(pages)),
    };
    let of = number("memory_pages").map_or(String::new(), |m| format!("'s {} MiB", mib(Pages(m))));
    let since = since(number("since")? as f64, epoch_s);
    let reason = match (value("reason")?, number("asked")?) {
        ("", 0) => "the host gave no reason".to_owned(),
        ("", _) => "this guest's rules requested this size".to_owned(),
        (reason, _) => plain(reason),
    };
    Some(format!("The host's balloon holds {holds} of this guest{of} since {since}: {reason}.\n"))
}

fn mib(pages: Pages) -> u64 {
    pages.kib().0 / 1024
}

/// Returns the time of day, with the date if the time alone would be ambiguous.
fn since(then_s: f64, now_s: f64) -> String {
    let whole = ctime(then_s);
    let time = whole.split(' ').find(|word| word.contains(':')).map(str::to_owned);
    match time {
        Some(time) if (0.0..DAY_S).contains(&(now_s - then_s)) => time,
        _ => whole,
    }
}

/// Returns a host's text on one line, without control characters for a terminal.
fn plain(text: &str) -> String {
    let keep = |c| if is_plain(c) { c } else { '\u{fffd}' };
    text.trim_end_matches('.').chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_700_000_000.0;

    fn written(pages: u64, sequence: u32, reason: &str) -> String {
        let dir = procfs::testing::Tree::create();
        let mut file = BalloonFile::new(&dir);
        let grant = |reason: &str| Grant { sequence, pages, reason: reason.into() };
        file.write(grant(reason), Some(Pages(131_072)), NOW - 60.0).unwrap();
        // The same grant is not written a second time.
        file.write(grant(reason), Some(Pages(131_072)), NOW).unwrap();
        let shown = show(&dir, NOW).unwrap();
        file.remove();
        assert_eq!(show(&dir, NOW).unwrap(), "No host has reported a balloon to this guest.\n");
        shown
    }

    #[test]
    fn the_balloon_is_shown_with_its_reason() {
        let at = ctime(NOW - 60.0).split(' ').find(|w| w.contains(':')).unwrap().to_owned();
        assert_eq!(
            written(32_768, 0, "g2 needs it\x1b[2J\n\u{202e}."),
            format!(
                "The host's balloon holds 128 MiB (32768 pages) of this guest's 512 MiB since \
                 {at}: g2 needs it\u{fffd}[2J\u{fffd}\u{fffd}.\n"
            )
        );
        assert!(written(256, 9, "").ends_with(": this guest's rules requested this size.\n"));
        assert!(written(0, 0, "").contains("holds nothing of this guest's 512 MiB"));
    }

    #[test]
    fn foreign_file_is_refused_and_old_file_shows_its_date() {
        assert_eq!(sentence("pages=-1\nsince=1\nasked=0\nreason=\n", NOW), None);
        assert_eq!(sentence("\0\0\0", NOW), None);
        let old = sentence("pages=256\nsince=1600000000\nasked=0\nreason=r\n", NOW).unwrap();
        assert!(old.contains(" 2020: r.") && old.contains("1 MiB (256 pages) of this guest since"));
        let high = "18446744073709551615";
        let text = format!("pages={high}\nsince={high}\nasked=0\nreason=\n");
        assert!(sentence(&text, NOW).is_some());
    }
}
