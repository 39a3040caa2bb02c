//! Import of MONWRITE files into recordings.

use super::args::ImportArgs;
use super::recording::{Recording, told};
use crate::making::Making;
use crate::{Error, ZvmError};
use base::counted;
use reports::moment_text;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use why::when;
use zmon::file::{Gap, Reader};
use zmon::frame::FRAME_BYTES;
use zvm::Monitor;

const PAGES: usize = 256;
/// Maximum number of gaps in a file that are reported one by one.
const GAPS_MAX: usize = 10;

pub(super) fn run(args: &ImportArgs) -> Result<String, Error> {
    if let Some(parent) = args.to.parent() {
        let made = fs::create_dir_all(parent);
        made.map_err(|error| Error::step(format!("Cannot make {}", parent.display()), error))?;
    }
    let making = Making::begin(&args.to)?;
    let mut recording = Recording::to(making.path());
    let mut monitor = Monitor::default();
    let mut gaps = Vec::new();
    let mut bytes = 0;
    for path in &args.files {
        let (length, found) = file(path, &mut monitor, &mut recording)?;
        bytes += length;
        gaps.push((path, found));
    }
    let Some((first_ms, last_ms)) = recording.span_ms else {
        let files = if args.files.len() == 1 { "it" } else { "them" };
        return Err(ZvmError::NoInterval { files, found: told(monitor.counts()) }.into());
    };
    let (moments, guests) = (counted(recording.moments, "interval"), recording.most_guests());
    recording.end()?;
    making.done()?;
    let now = ::why::now();
    let zone = |at_ms| when::offset_min(at_ms, &now.zone);
    let mut text = format!(
        "{} bytes, {}.\n{moments} from {} to {}, {guests}: {}\n",
        bytes,
        told(monitor.counts()),
        moment_text(first_ms, &zone),
        moment_text(last_ms, &zone),
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
        // A read from a pipe may return less than a page.
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
