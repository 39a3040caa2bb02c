//! Target for `procfs::Reader`, with all files of a guest's kernel at once.

use model::counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};
use procfs::{ProcFile, Reader};

use crate::input::texts;
use crate::kernel::{self, Files};

/// Maximum number of readings. More readings show nothing new, and cost many reads of one byte.
const MOMENTS_MAX: usize = 8;

/// Reads the files of a kernel several times, with eight texts each time. An empty text leaves a
/// file healthy. A row must contain only numbers, and an error must name its file.
pub(crate) fn reader(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let wanted = wanted();
    let healthy = Files::new(usize::from(*first) + 1);
    let Ok(mut reader) = Reader::with_source(healthy.clone(), &wanted) else {
        panic!("the healthy kernel lacks a counter");
    };
    let mut row = vec![f64::NAN; wanted.len()];
    let texts: Vec<&[u8]> = texts(data).collect();
    for (second, moment) in texts.chunks(ProcFile::ALL.len()).take(MOMENTS_MAX).enumerate() {
        let mut files = healthy.clone();
        for (file, text) in ProcFile::ALL.into_iter().zip(moment).filter(|(_, t)| !t.is_empty()) {
            files.put(file, text);
        }
        *reader.source_mut() = files.clone();
        row.fill(f64::NAN);
        let known = reader.read(second as f64, &mut row);
        check(&known, &row);
        // A new reader remembers no positions in these files.
        row.fill(f64::NAN);
        let fresh = Reader::with_source(files, &wanted)
            .and_then(|mut reader| reader.read(second as f64, &mut row));
        check(&fresh, &row);
    }
}

fn check(read: &Result<(), procfs::Error>, row: &[f64]) {
    match read {
        Ok(()) => assert!(row.iter().all(|number| number.is_finite()), "{row:?}"),
        Err(error) => kernel::names_its_file(error, &ProcFile::ALL),
    }
}

/// Returns counters of every file.
fn wanted() -> Vec<Counter> {
    let mut wanted = vec![
        Counter::Time,
        Counter::OnlineCpus,
        Counter::LoadAvg,
        Counter::RunnableProc,
        Counter::meminfo("SwapFree"),
        Counter::meminfo("MemFree"),
        Counter::vmstat("pswpout"),
        Counter::vmstat("nr_free_pages"),
    ];
    wanted.extend(CpuField::ALL.iter().map(|field| Counter::Cpu(*field)));
    let full = |resource: &PsiResource| Counter::Psi(*resource, PsiLine::Full, PsiField::Total);
    wanted.extend(PsiResource::ALL.iter().map(full));
    wanted
}
