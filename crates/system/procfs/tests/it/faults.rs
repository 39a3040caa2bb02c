//! Every read fails once, and bytes arrive in pieces of every size.

use model::counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};
use procfs::testing::{FakeKernel, Faulty, VMSTAT};
use procfs::{Fs, ProcFile, Reader};

fn wanted() -> Vec<Counter> {
    vec![
        Counter::Cpu(CpuField::Idle),
        Counter::LoadAvg,
        Counter::meminfo("SwapFree"),
        Counter::vmstat("pgscan_direct"),
        Counter::OnlineCpus,
        Counter::Psi(PsiResource::Cpu, PsiLine::Full, PsiField::Avg10),
        Counter::Psi(PsiResource::Memory, PsiLine::Some, PsiField::Avg10),
        Counter::Psi(PsiResource::Io, PsiLine::Full, PsiField::Total),
    ]
}

const ROW: [f64; 8] = [1000.0, 1.26, 1_044_922.0, 271_743.0, 2.0, 0.01, 0.12, 4711.0];

/// Creates a reader that gets at most `most_bytes` bytes in each read.
fn reader(kernel: &FakeKernel, most_bytes: usize, interrupts: bool) -> Reader<Faulty<Fs>> {
    let mut source = Faulty::new(Fs::new(&kernel.root()));
    (source.most_bytes, source.interrupts) = (most_bytes, interrupts);
    Reader::with_source(source, &wanted()).expect("the tree is whole")
}

#[test]
fn known_lines_need_one_read_a_file() {
    let kernel = FakeKernel::new(2, 4);
    let mut reader = reader(&kernel, usize::MAX, false);
    for _ in 0..3 {
        reader.source_mut().reads = 0;
        let mut row = [f64::NAN; 8];
        reader.read(1.0, &mut row).unwrap();
        assert_eq!(row, ROW);
        assert_eq!(reader.source_mut().reads, ProcFile::ALL.len());
    }
}

#[test]
fn pieces_of_any_size_and_interrupts_change_nothing() {
    let kernel = FakeKernel::new(2, 4);
    for most_bytes in (1..80).chain([100, 128, 191, 512, 4096]) {
        for interrupts in [false, true] {
            let mut reader = reader(&kernel, most_bytes, interrupts);
            let mut row = [f64::NAN; 8];
            for _ in 0..2 {
                row.fill(f64::NAN);
                reader.read(1.0, &mut row).unwrap();
                assert_eq!(row, ROW, "{most_bytes} bytes, interrupts: {interrupts}");
            }
        }
    }
}

#[test]
fn any_failed_read_gives_its_path_and_the_next_row_is_right() {
    let kernel = FakeKernel::new(2, 4);
    // Small pieces cause many reads of each file, with relearning between them.
    for most_bytes in [usize::MAX, 40] {
        let mut reader = reader(&kernel, most_bytes, false);
        let mut failed = Vec::new();
        for number in 0.. {
            // Moves the wanted line, so that every other reading has to relearn it.
            let moved = if number % 2 == 0 { "nr_new 1\n" } else { "" };
            kernel.write("proc/vmstat", &format!("{moved}{VMSTAT}"));
            reader.source_mut().reads = 0;
            reader.source_mut().fail_at = Some(number);
            let mut row = [f64::NAN; 8];
            let result = reader.read(1.0, &mut row);
            let tried = reader.source_mut().reads;
            reader.source_mut().fail_at = None;
            match result {
                Ok(()) => {
                    assert!(tried <= number, "the fault was met and not reported");
                    break;
                }
                Err(error) => failed.push(error.path().unwrap().to_path_buf()),
            }
            row.fill(f64::NAN);
            reader.read(1.0, &mut row).unwrap();
            assert_eq!(row, ROW, "after the failure of read {number}");
        }
        failed.dedup();
        let files = ProcFile::ALL.map(|file| kernel.path(file.relative()));
        assert_eq!(failed, files, "every file failed, in the order of reading");
    }
}

#[test]
fn any_failed_read_at_the_start_gives_its_path() {
    let kernel = FakeKernel::new(2, 4);
    for number in 0.. {
        let mut source = Faulty::new(Fs::new(&kernel.root()));
        (source.most_bytes, source.fail_at) = (64, Some(number));
        match Reader::with_source(source, &wanted()) {
            Err(error) => assert!(error.path().is_some_and(|p| p.starts_with(kernel.path("")))),
            Ok(mut reader) => {
                assert!(reader.source_mut().reads <= number && number > ProcFile::ALL.len());
                break;
            }
        }
    }
}

#[test]
fn a_cpu_that_is_plugged_does_not_make_the_total_jump() {
    let kernel = FakeKernel::new(2, 4);
    let mut reader = reader(&kernel, usize::MAX, false);
    let mut row = [f64::NAN; 8];
    reader.read(1.0, &mut row).unwrap();
    kernel.write_cpu(2, "online", "1\n");
    kernel.settle();
    let stat = kernel.read("proc/stat").replacen(" 1000 ", " 900000 ", 1);
    kernel.write("proc/stat", &stat.replacen(" 1000 ", " 1040 ", 1));
    reader.read(2.0, &mut row).unwrap();
    // cpu0 was idle for 40 ticks more; the sum's 899,000 ticks have another origin.
    assert_eq!((row[0], row[4]), (1040.0, 3.0));
}
