//! The counters that this kernel offers.

use model::counters::{KernelNames, PsiResource};

use crate::error::Error;
use crate::file::{ProcFile, Root};
use crate::parse::lines;
use crate::parse::table::Style;
use crate::source::{Fs, Source};
use crate::window::Window;

/// Maximum number of names in a file. Kernels have about 60 names in /proc/meminfo, and 200 in
/// /proc/vmstat.
const MAX_NAMES: usize = 4096;

/// Reads the names in /proc/meminfo and /proc/vmstat, and checks whether pressure can be read. The
/// pressure files may exist and yet refuse reads, if the kernel was built with PSI but started
/// without it.
pub fn kernel_names(root: &Root) -> Result<KernelNames, Error> {
    names_of(&mut Fs::new(root))
}

/// Reads the names of any source, such as recorded texts.
pub fn names_of<S: Source>(source: &mut S) -> Result<KernelNames, Error> {
    let mut window = Window::new();
    let mut names = |file, style: Style| {
        window.start(source, file, usize::MAX)?;
        window.finish(source, file)?;
        Ok(lines(window.bytes())
            .filter_map(|l| style.name(l))
            .take(MAX_NAMES)
            .map(Box::from)
            .collect())
    };
    let meminfo = names(ProcFile::Meminfo, Style::Colon)?;
    let vmstat = names(ProcFile::Vmstat, Style::Blank)?;
    let psi = PsiResource::ALL.iter().all(|resource| {
        let read = window.start(source, ProcFile::Pressure(*resource), usize::MAX);
        read.is_ok() && !window.bytes().is_empty()
    });
    Ok(KernelNames { meminfo, vmstat, psi })
}
