//! MONWRITE files as recordings.

use super::args::ImportArgs;
use super::recording::{Recording, told};
use crate::Error;
use crate::report::Place;
use reports::{clock_text, date_text};
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use zmon::file::{Gap, Reader};
use zmon::frame::FRAME_BYTES;
use zvm::Monitor;

/// Pages that are read at once.
const PAGES: usize = 256;
/// Gaps of a file that are told one by one.
const GAPS_MAX: usize = 10;

pub(super) fn run(args: &ImportArgs) -> Result<String, Error> {
    if args.to.exists() {
        let message = format!(
            "{} is there already: name a directory that is not, so that nothing is mixed up",
            args.to.display()
        );
        return Err(Error::Message(message));
    }
    let part = Part::beside(&args.to)?;
    let mut recording = Recording::to(&part.0);
    let mut monitor = Monitor::default();
    let mut gaps = Vec::new();
    let mut bytes = 0;
    for path in &args.files {
        let (length, found) = file(path, &mut monitor, &mut recording)?;
        bytes += length;
        gaps.push((path, found));
    }
    let Some((first_ms, last_ms)) = recording.span_ms else {
        return Err(Error::Message(format!(
            "No interval ends in {}: {}; is it a file of MONWRITE, in binary?",
            if args.files.len() == 1 { "it" } else { "them" },
            told(monitor.counts())
        )));
    };
    let (moments, guests) = (recording.moments, recording.guests);
    recording.end()?;
    part.becomes(&args.to)?;
    let now = ::why::now();
    let zone = Place(&now.zone);
    let stamp = |ms| format!("{} {}", date_text(ms, &zone), clock_text(ms, &zone));
    let mut text = format!(
        "{} bytes, {}.\n{moments} intervals from {} to {}, {guests} guests at most: {}\n",
        bytes,
        told(monitor.counts()),
        stamp(first_ms),
        stamp(last_ms),
        args.to.display()
    );
    for (path, gaps) in gaps {
        tell(&mut text, path, &gaps);
    }
    Ok(text)
}

fn tell(text: &mut String, path: &Path, gaps: &[Gap]) {
    for gap in gaps.iter().take(GAPS_MAX) {
        let (at, bytes, what) = (gap.at, gap.bytes, gap.what);
        let _ = writeln!(text, "{}: at byte {at}, {bytes} bytes: {what}", path.display());
    }
    if gaps.len() > GAPS_MAX {
        let _ = writeln!(text, "{}: and {} gaps more", path.display(), gaps.len() - GAPS_MAX);
    }
}

fn file(
    path: &Path,
    monitor: &mut Monitor,
    recording: &mut Recording,
) -> Result<(u64, Vec<Gap>), Error> {
    let unread = |source| Error::Read { path: path.into(), source };
    let mut file = File::open(path).map_err(unread)?;
    let mut reader = Reader::default();
    let mut buffer = vec![0; PAGES * FRAME_BYTES];
    let mut length = 0;
    loop {
        let mut filled = 0;
        // A pipe gives less at once than a page.
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..]).map_err(unread)? {
                0 => break,
                more => filled += more,
            }
        }
        length += filled as u64;
        for page in buffer[..filled].chunks(FRAME_BYTES) {
            let mut moments = Vec::new();
            reader.page(page, |found| moments.extend(monitor.take(&found)));
            moments.iter().try_for_each(|moment| recording.add(moment))?;
        }
        if filled < buffer.len() {
            return Ok((length, reader.end()));
        }
    }
}

/// A directory beside the one that is wanted. It goes if it does not become that one.
struct Part(PathBuf);

impl Part {
    fn beside(to: &Path) -> Result<Part, Error> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let path = to.with_file_name(name);
        if path.exists() {
            let message = format!(
                "{} is there: an import is at work, or one was killed; remove it if none is",
                path.display()
            );
            return Err(Error::Message(message));
        }
        fs::create_dir_all(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        Ok(Part(path))
    }

    fn becomes(self, to: &Path) -> Result<(), Error> {
        fs::rename(&self.0, to).map_err(|source| Error::Read { path: to.into(), source })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has another name by now where all went well.
        let _ = fs::remove_dir_all(&self.0);
    }
}
