//! The files that are read, and their paths.

use std::path::{Path, PathBuf};

use model::counters::PsiResource;

/// The directory that replaces `/`. Every reader takes such a root, so that no test reads the
/// kernel of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Creates a root at `dir`.
    pub fn at(dir: impl Into<PathBuf>) -> Root {
        Root(dir.into())
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of `relative` (`proc/stat`) below the root. A leading `/` is dropped,
    /// because it would otherwise replace the root.
    pub fn join(&self, relative: &str) -> PathBuf {
        self.0.join(relative.trim_start_matches('/'))
    }
}

/// The root of the running kernel: `/`.
impl Default for Root {
    fn default() -> Root {
        Root::at("/")
    }
}

/// A file with counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcFile {
    /// /proc/stat.
    Stat,
    /// /proc/loadavg.
    Loadavg,
    /// /proc/meminfo.
    Meminfo,
    /// /proc/vmstat.
    Vmstat,
    /// The list of CPUs online.
    OnlineCpus,
    /// A file of /proc/pressure.
    Pressure(PsiResource),
}

impl ProcFile {
    /// All files, in the order of [`ProcFile::index`].
    pub const ALL: [ProcFile; 8] = [
        ProcFile::Stat,
        ProcFile::Loadavg,
        ProcFile::Meminfo,
        ProcFile::Vmstat,
        ProcFile::OnlineCpus,
        ProcFile::Pressure(PsiResource::Cpu),
        ProcFile::Pressure(PsiResource::Memory),
        ProcFile::Pressure(PsiResource::Io),
    ];

    /// Returns the file's index in [`ProcFile::ALL`].
    pub fn index(self) -> usize {
        match self {
            ProcFile::Stat => 0,
            ProcFile::Loadavg => 1,
            ProcFile::Meminfo => 2,
            ProcFile::Vmstat => 3,
            ProcFile::OnlineCpus => 4,
            ProcFile::Pressure(resource) => 5 + resource as usize,
        }
    }

    /// Returns the file's path below the root.
    pub fn relative(self) -> &'static str {
        match self {
            ProcFile::Stat => "proc/stat",
            ProcFile::Loadavg => "proc/loadavg",
            ProcFile::Meminfo => "proc/meminfo",
            ProcFile::Vmstat => "proc/vmstat",
            ProcFile::OnlineCpus => "sys/devices/system/cpu/online",
            ProcFile::Pressure(PsiResource::Cpu) => "proc/pressure/cpu",
            ProcFile::Pressure(PsiResource::Memory) => "proc/pressure/memory",
            ProcFile::Pressure(PsiResource::Io) => "proc/pressure/io",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_place_in_all() {
        for (place, file) in ProcFile::ALL.iter().enumerate() {
            assert_eq!(file.index(), place, "{file:?}");
        }
    }

    #[test]
    fn an_absolute_path_stays_below_the_root() {
        let root = Root::at("/fake");
        assert_eq!(root.join("/proc/stat"), Path::new("/fake/proc/stat"));
        assert_eq!(root.join("proc/stat"), Path::new("/fake/proc/stat"));
        assert_eq!(Root::default().join("proc/stat"), Path::new("/proc/stat"));
    }
}
