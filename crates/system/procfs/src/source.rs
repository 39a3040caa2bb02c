//! The sources of bytes: files that stay open, or recorded texts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::file::{ProcFile, Root};

/// A source of the bytes of the kernel's files. It offers only `pread`. The window decides the
/// number and size of reads and handles short reads, so the same code runs for every source,
/// including faulty ones.
pub trait Source {
    /// Reads bytes of `file` from byte `at` on into `buf` and returns their number; 0 is the end of
    /// the file.
    fn read_at(&mut self, file: ProcFile, buf: &mut [u8], at: u64) -> io::Result<usize>;

    /// Returns the path of `file` for errors.
    fn path(&self, file: ProcFile) -> PathBuf {
        PathBuf::from(file.relative())
    }
}

/// The files below a root, opened at the first read and kept open.
#[derive(Debug)]
pub struct Fs {
    root: Root,
    open: [Option<File>; ProcFile::ALL.len()],
}

impl Fs {
    /// Creates a source of the files below `root`, without opening a file.
    pub fn new(root: &Root) -> Fs {
        Fs { root: root.clone(), open: Default::default() }
    }
}

impl Source for Fs {
    fn read_at(&mut self, file: ProcFile, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let slot = &mut self.open[file.index()];
        let handle = match slot {
            Some(handle) => handle,
            None => slot.insert(File::open(self.root.join(file.relative()))?),
        };
        let read = handle.read_at(buf, at);
        // A handle of a vanished object fails forever, for example after a remount of /proc or the
        // removal of a device. The file is therefore opened again next time.
        if read.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted) {
            *slot = None;
        }
        read
    }

    fn path(&self, file: ProcFile) -> PathBuf {
        self.root.join(file.relative())
    }
}

/// The recorded texts of the files at one moment.
#[derive(Clone, Debug, Default)]
pub struct Texts<'a> {
    stat: &'a str,
    loadavg: &'a str,
    meminfo: &'a str,
    vmstat: &'a str,
    online: String,
}

impl<'a> Texts<'a> {
    /// Creates a source from the four files of /proc and the number of online CPUs. Recordings
    /// contain only the number of these CPUs, which suffices for the counter.
    pub fn new(
        stat: &'a str,
        loadavg: &'a str,
        meminfo: &'a str,
        vmstat: &'a str,
        online_cpus: u32,
    ) -> Texts<'a> {
        let online = match online_cpus {
            0 => String::from("\n"),
            1 => String::from("0\n"),
            n => format!("0-{}\n", n - 1),
        };
        Texts { stat, loadavg, meminfo, vmstat, online }
    }
}

impl Source for Texts<'_> {
    fn read_at(&mut self, file: ProcFile, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let text = match file {
            ProcFile::Stat => self.stat,
            ProcFile::Loadavg => self.loadavg,
            ProcFile::Meminfo => self.meminfo,
            ProcFile::Vmstat => self.vmstat,
            ProcFile::OnlineCpus => &self.online,
            // Recordings are older than pressure files, so such a file is missing.
            ProcFile::Pressure(_) => return Err(io::ErrorKind::NotFound.into()),
        };
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
        let rest = &text.as_bytes()[start..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}
