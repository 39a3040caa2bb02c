//! Record of a part of the cache: its packages, and the time at which it was made. The record is a
//! file beside the part or inside it.
//!
//! ```text
//!   pinhead packages 1
//!   made 1795000000                     seconds since 1970
//!   busybox-static 1:1.35.0-4+b3        a package and its version, by name
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::images::Error;
use crate::images::error::FileContext;
use crate::images::files::write_whole;

/// Maximum number of bytes read from a record. The record of a system with ten thousand packages
/// has half a megabyte.
const BYTES_MAX: u64 = 1 << 20;
/// Name of the record in a directory of packages.
pub(crate) const IN_DIRECTORY: &str = "pinhead.packages";
/// File name extension of a disk's record.
pub(crate) const OF_DISK: &str = "packages";

/// Option that makes dpkg's tools print the lines for [`Record::new`].
pub(crate) const SHOW_FORMAT: &str = "--showformat=${Package} ${Version}\\n";
/// Hint for a user without dpkg's tools.
pub(crate) const NOT_DPKG: &str = "it belongs to dpkg; is this Debian?";

const HEAD: &str = "pinhead packages 1";

/// Time at which a part of the cache was made, and the part's packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Time, in seconds since 1970.
    pub made_s: u64,
    /// Packages with their versions, by name.
    pub packages: Vec<(String, String)>,
}

impl Record {
    /// Parses a record. The error names the wrong line.
    pub fn parse(text: &str) -> Result<Record, String> {
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(line, _)| line != HEAD) {
            return Err(format!("line 1 must begin with {HEAD:?}"));
        }
        let made = lines.next().and_then(|(line, _)| line.strip_prefix("made ")?.parse().ok());
        let made_s = made.ok_or("line 2 must be `made` and seconds since 1970")?;
        let package = |(line, at): (&str, usize)| {
            let (name, version) = line.split_once(' ').unwrap_or((line, ""));
            let wrong = || format!("line {at} must be a Debian package and its version");
            let is_right = is_word(name, "+-.") && is_word(version, "+-.~:");
            is_right.then(|| (name.to_owned(), version.to_owned())).ok_or_else(wrong)
        };
        Ok(Record { made_s, packages: lines.map(package).collect::<Result<_, _>>()? })
    }

    /// Parses a tool's output, which has a package and its version on each line.
    pub(crate) fn new(made_s: u64, lines: &str) -> Result<Record, String> {
        let mut lines: Vec<&str> = lines.lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        Record::parse(&format!("{HEAD}\nmade {made_s}\n{}\n", lines.join("\n")))
    }

    /// Returns the record as text.
    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}\nmade {}\n", self.made_s);
        for (name, version) in &self.packages {
            text.push_str(&format!("{name} {version}\n"));
        }
        text
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_whole(path, self.text().as_bytes())
    }

    /// Reads the record in a file. Returns `None` if there is no file, as in caches of older
    /// versions.
    pub(crate) fn read(path: &Path) -> Result<Option<Record>, Error> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.file("read", path)?,
        };
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text).file("read", path)?;
        let wrong = |reason| Error::Record { path: path.to_owned(), reason };
        Record::parse(&text).map(Some).map_err(wrong)
    }

    /// Returns the record of a directory of packages, or of a disk.
    pub fn beside(part: &Path) -> Result<Record, Error> {
        match part.is_dir() {
            true => Record::of(part, &part.join(IN_DIRECTORY)),
            false => Record::of(part, &part.with_extension(OF_DISK)),
        }
    }

    /// Returns a part's record. If the part has no record, the time is that of the part's last
    /// rename, because an unpacked package keeps its original times.
    pub(crate) fn of(part: &Path, record: &Path) -> Result<Record, Error> {
        match Record::read(record) {
            Ok(Some(record)) => return Ok(record),
            // A damaged record is ignored. The part itself is still used, listed and refreshed.
            Ok(None) | Err(Error::Record { .. }) => {}
            Err(error) => return Err(error),
        }
        let data = fs::symlink_metadata(part).file("look at", part)?;
        let changed_s = data.ctime();
        Ok(Record { made_s: changed_s.max(0).cast_unsigned(), packages: Vec::new() })
    }
}

fn is_word(text: &str, marks: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    !text.is_empty() && text.len() <= 200 && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record::new(7, "nginx 1.22.1-9+deb12u3\nbusybox-static 1:1.35.0-4+b3\n");
        let record = record.unwrap();
        assert_eq!(record.packages[0].0, "busybox-static", "by name");
        assert_eq!(Record::parse(&record.text()), Ok(record));
    }

    #[test]
    fn invalid_record_is_refused_with_its_line() {
        let check = |text: &str, expected: &str| {
            let error = Record::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        };
        check("", "line 1 must");
        check("pinhead packages 2\nmade 1\n", "line 1 must");
        check("pinhead packages 1\n", "line 2 must");
        check("pinhead packages 1\nmade -1\n", "line 2 must");
        check("pinhead packages 1\nmade 1\na 1\nb\n", "line 4 must");
        check("pinhead packages 1\nmade 1\na 1 2\n", "line 3 must");
        check("pinhead packages 1\nmade 1\n\u{1b}[2J 1\n", "line 3 must");
        assert_eq!(Record::parse("pinhead packages 1\nmade 1\n").unwrap().made_s, 1);
    }
}
