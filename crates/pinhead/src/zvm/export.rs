//! Export of recordings to a MONWRITE file.

use super::args::ExportArgs;
use crate::why::recorded_between;
use crate::{Error, RecordingsError};
use base::duration::MINUTE_MS;
use base::{counted, plain};
use model::{Interval, Parts};
use reports::recorded;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use store::{Records, Span};
use zmon::file::Writer;
use zvm::Exporter;

/// Maximum number of renamed guests that are reported one by one.
const RENAMED_MAX: usize = 20;
/// Mode of the file, which is the mode of the manager's own recordings.
const FILE_MODE: u32 = 0o640;

pub(super) fn run(args: &ExportArgs) -> Result<String, Error> {
    let now = ::why::now();
    let (from_ms, to_ms) = recorded_between(&args.from, &args.to, now.ms, &args.dir, &now)?;
    let records = Records::open(&recorded::dir(args.dir.as_deref())?)?;
    let Some((first_ms, last_ms)) = records.extent()? else {
        return Err(RecordingsError::Empty.into());
    };
    let unwritten = |source| Error::step(format!("Cannot write {}", args.file.display()), source);
    let making = NewFile::make(&args.file).map_err(unwritten)?;
    let mut out = BufWriter::new(&making.file);
    let mut failed = None;
    let mut writer = Writer::new(|page: &[u8]| {
        if let Err(error) = out.write_all(page) {
            failed.get_or_insert(error);
        }
    });
    let mut exporter = Exporter::default();
    let mut count = 0_u64;
    let from_ms = from_ms.max(first_ms).div_euclid(MINUTE_MS) * MINUTE_MS;
    let span = Span { from_ms, to_ms: to_ms.min(last_ms), step_ms: MINUTE_MS };
    // A guest that first appears in an interval begins at the end of the previous interval. Each
    // interval therefore waits for the next.
    let mut waiting: Option<Interval> = None;
    let mut write = |interval: &Interval, next: Option<&Interval>| {
        count += 1;
        let records = exporter.interval(interval, next);
        writer.interval(records.iter().map(Vec::as_slice));
    };
    records.visit(span, Parts::ALL, |interval| {
        if interval.host.covered_ms > 0
            && let Some(before) = waiting.replace(interval)
        {
            write(&before, waiting.as_ref());
        }
        ControlFlow::Continue(())
    })?;
    if let Some(last) = waiting {
        write(&last, None);
    }
    if let Some(error) = failed {
        return Err(unwritten(error));
    }
    out.flush().map_err(unwritten)?;
    if count == 0 {
        return Err(RecordingsError::EmptyTime.into());
    }
    drop(out);
    making.keep();
    Ok(told(&exporter, count, args))
}

/// A new file. If it is not completed, it is removed.
struct NewFile<'a> {
    file: File,
    path: &'a Path,
    is_whole: bool,
}

impl NewFile<'_> {
    /// Creates the file. Other users may not read it, because it contains names of guests.
    fn make(path: &Path) -> io::Result<NewFile<'_>> {
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(NewFile { file, path, is_whole: false })
    }

    fn keep(mut self) {
        self.is_whole = true;
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(self.path);
        }
    }
}

fn told(exporter: &Exporter, count: u64, args: &ExportArgs) -> String {
    let mut text = format!("{} in {}\n", counted(count, "interval"), args.file.display());
    let renamed: Vec<(&str, &str)> = exporter.renamed().collect();
    for (guest, user) in renamed.iter().take(RENAMED_MAX) {
        let _ = writeln!(text, "guest {} has the user name {}", plain(guest, 64), plain(user, 8));
    }
    if renamed.len() > RENAMED_MAX {
        let more = counted((renamed.len() - RENAMED_MAX) as u64, "more guest");
        let _ = writeln!(text, "and {more}");
    }
    text
}
