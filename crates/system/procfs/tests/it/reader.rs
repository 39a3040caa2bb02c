//! The reader on trees of files and on recorded texts.

use std::error::Error as _;
use std::path::PathBuf;

use model::counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};
use procfs::testing::{FakeKernel, MEMINFO, PRESSURE, STAT_LINE, VMSTAT};
use procfs::{Error, Fs, MAX_FILE_BYTES, ProcFile, Reader, Root, Source, Texts, kernel_names};

fn psi(resource: PsiResource, line: PsiLine, field: PsiField) -> Counter {
    Counter::Psi(resource, line, field)
}

/// Returns one counter of each kind. The counters are not in the order of the files, and some occur
/// twice.
fn one_of_each() -> Vec<Counter> {
    vec![
        Counter::vmstat("pswpout"),
        Counter::meminfo("Active(anon)"),
        Counter::Time,
        Counter::Cpu(CpuField::TotalTicks),
        Counter::RunnableProc,
        Counter::meminfo("MemFree"),
        Counter::LoadAvg,
        Counter::OnlineCpus,
        Counter::vmstat("nr_dirty"),
        psi(PsiResource::Io, PsiLine::Full, PsiField::Total),
        Counter::Cpu(CpuField::User),
        Counter::Cpu(CpuField::GuestNice),
        psi(PsiResource::Cpu, PsiLine::Some, PsiField::Avg60),
        Counter::meminfo("MemFree"),
        Counter::meminfo("HugePages_Total"),
    ]
}

const ONE_OF_EACH: [f64; 15] = [
    641_887.0, 157_286.0, 12.5, 1196.0, 9.0, 59_903.0, 1.26, 2.0, 7.0, 4711.0, 100.0, 1.0, 0.29,
    59_903.0, 0.0,
];

fn read(reader: &mut Reader, width: usize) -> Result<Vec<f64>, Error> {
    let mut row = vec![f64::NAN; width];
    reader.read(12.5, &mut row).map(|()| row)
}

fn open_error(kernel: &FakeKernel, counter: Counter) -> Error {
    Reader::open(&kernel.root(), &[counter]).expect_err("the counter is not there")
}

#[test]
fn a_row_has_every_counter_in_the_order_asked_for() {
    let kernel = FakeKernel::new(2, 4);
    let wanted = one_of_each();
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    for _ in 0..3 {
        assert_eq!(read(&mut reader, wanted.len()).unwrap(), ONE_OF_EACH);
    }
}

#[test]
fn each_field_of_the_cpu_line_has_its_own_number() {
    let kernel = FakeKernel::new(1, 1);
    let wanted: Vec<_> = CpuField::ALL.iter().map(|field| Counter::Cpu(*field)).collect();
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    let mut expect: Vec<f64> = STAT_LINE.split(' ').map(|n| n.parse().unwrap()).collect();
    expect.push(expect.iter().sum());
    assert_eq!(read(&mut reader, wanted.len()).unwrap(), expect);
}

#[test]
fn only_files_that_are_wanted_are_read() {
    let kernel = FakeKernel::new(2, 4);
    let files = |wanted: &[Counter]| {
        let reader = Reader::open(&kernel.root(), wanted).unwrap();
        reader.files().map(PathBuf::from).collect::<Vec<_>>()
    };
    assert!(files(&[Counter::Time]).is_empty());
    let wanted = [Counter::meminfo("MemFree"), Counter::LoadAvg, Counter::meminfo("MemTotal")];
    let expect = [kernel.path("proc/loadavg"), kernel.path("proc/meminfo")];
    assert_eq!(files(&wanted), expect);
    // The other files need not exist.
    for gone in ["proc/stat", "proc/vmstat", "proc/pressure", "sys"] {
        kernel.remove(gone);
    }
    assert_eq!(files(&wanted), expect);
}

#[test]
fn the_next_row_has_the_next_numbers() {
    let kernel = FakeKernel::new(2, 4);
    let wanted = [Counter::meminfo("SwapFree"), Counter::vmstat("pgpgin")];
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    assert_eq!(read(&mut reader, 2).unwrap(), [1_044_922.0, 584_546.0]);
    // The text before the wanted lines gets longer numbers, and additional lines.
    kernel.write("proc/meminfo", &MEMINFO.replace("59903", "59903000000"));
    kernel.write("proc/vmstat", &format!("nr_new 1\nnr_newer 2\n{VMSTAT}"));
    assert_eq!(read(&mut reader, 2).unwrap(), [1_044_922.0, 584_546.0]);
    kernel.write("proc/vmstat", &VMSTAT.replace("584546", "584547"));
    assert_eq!(read(&mut reader, 2).unwrap(), [1_044_922.0, 584_547.0]);
}

#[test]
fn a_counter_that_the_kernel_lacks_is_named_at_the_start() {
    let kernel = FakeKernel::new(2, 4);
    let check = |error: Error, text: String| {
        assert!(matches!(error, Error::NoCounter { .. }), "{error:?}");
        assert_eq!(error.to_string(), text);
    };
    let missing = |counter: &str, file: &str| {
        format!("This kernel has no {counter} in {}", kernel.path(file).display())
    };
    check(
        open_error(&kernel, Counter::vmstat("kswapd_steal")),
        missing("vmstat.kswapd_steal", "proc/vmstat"),
    );
    check(
        // A part of a counter's name does not name the counter.
        open_error(&kernel, Counter::meminfo("MemFre")),
        missing("meminfo.MemFre", "proc/meminfo"),
    );
    let full = psi(PsiResource::Cpu, PsiLine::Full, PsiField::Avg10);
    kernel.write("proc/pressure/cpu", PRESSURE.lines().next().unwrap());
    check(open_error(&kernel, full.clone()), missing("psi.cpu.full.avg10", "proc/pressure/cpu"));
    kernel.remove("proc/pressure");
    check(open_error(&kernel, full), missing("psi.cpu.full.avg10", "proc/pressure/cpu"));
}

#[test]
fn a_file_that_cannot_be_read_is_no_missing_counter() {
    let kernel = FakeKernel::new(2, 4);
    kernel.break_file("proc/loadavg");
    let error = open_error(&kernel, Counter::LoadAvg);
    assert!(matches!(error, Error::Read { .. }), "{error:?}");
    assert_eq!(error.path(), Some(&*kernel.path("proc/loadavg")));
    assert!(error.source().is_some());
}

#[test]
fn a_line_that_vanishes_later_is_an_error_until_it_is_back() {
    let kernel = FakeKernel::new(2, 4);
    let wanted = [Counter::vmstat("nr_dirty"), Counter::vmstat("pswpin")];
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    kernel.write("proc/vmstat", &VMSTAT.replace("nr_dirty", "nr_other"));
    let error = read(&mut reader, 2).unwrap_err();
    assert!(matches!(&error, Error::NoCounter { counter, .. } if *counter == wanted[0]));
    kernel.write("proc/vmstat", VMSTAT);
    assert_eq!(read(&mut reader, 2).unwrap(), [7.0, 335_996.0]);
}

#[test]
fn texts_that_are_not_a_kernels_are_errors_with_their_line() {
    let kernel = FakeKernel::new(2, 4);
    let wanted = one_of_each();
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    let cases = [
        ("proc/stat", "", 1),
        ("proc/stat", "cpu  1 2 3 4\ncpu0 1 2 x 4\n", 2),
        ("proc/loadavg", "", 1),
        ("proc/loadavg", "high\n", 1),
        ("proc/meminfo", "MemTotal: 1 kB\nMemFree: kB\n", 2),
        ("proc/vmstat", "pswpout 1\nnr_dirty \u{e9}\n", 2),
        ("sys/devices/system/cpu/online", "0-\n", 1),
        ("sys/devices/system/cpu/online", "", 1),
        ("proc/pressure/io", "some avg10=0.12\n", 1),
    ];
    for (file, text, expect) in cases {
        let good = kernel.read(file);
        kernel.write(file, text);
        let error = read(&mut reader, wanted.len()).unwrap_err();
        assert_eq!(error.path(), Some(&*kernel.path(file)), "{text:?}: {error}");
        assert!(matches!(error, Error::Malformed { line, .. } if line == expect), "{error}");
        kernel.write(file, &good);
        assert_eq!(read(&mut reader, wanted.len()).unwrap(), ONE_OF_EACH, "after {text:?}");
    }
}

#[test]
fn a_file_longer_than_the_buffer_is_read_to_what_is_wanted() {
    let kernel = FakeKernel::new(1, 1);
    let filler: String = (0..40_000).map(|n| format!("nr_{n} {n}\n")).collect();
    kernel.write("proc/vmstat", &format!("{filler}last 9"));
    let wanted = [Counter::vmstat("nr_39999"), Counter::vmstat("last"), Counter::vmstat("nr_0")];
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    assert_eq!(read(&mut reader, 3).unwrap(), [39_999.0, 9.0, 0.0]);
    assert_eq!(read(&mut reader, 3).unwrap(), [39_999.0, 9.0, 0.0]);
}

#[test]
fn cpu_lines_longer_than_the_buffer_are_all_read() {
    let kernel = FakeKernel::new(700, 700);
    let wanted = [Counter::Cpu(CpuField::Idle), Counter::OnlineCpus];
    let mut reader = Reader::open(&kernel.root(), &wanted).unwrap();
    assert_eq!(read(&mut reader, 2).unwrap(), [1000.0, 700.0]);
    // A CPU in the last buffer goes offline, and the sum jumps. Only the CPU lines show the cause.
    kernel.write_cpu(699, "online", "0\n");
    kernel.settle();
    let stat = kernel.read("proc/stat");
    kernel.write("proc/stat", &stat.replacen(" 1000 ", " 7000 ", 1));
    assert_eq!(read(&mut reader, 2).unwrap(), [1000.0, 699.0]);
}

#[test]
fn a_file_without_an_end_is_given_up() {
    let kernel = FakeKernel::new(1, 1);
    kernel.write("proc/loadavg", &"1".repeat(MAX_FILE_BYTES + 1));
    let error = open_error(&kernel, Counter::LoadAvg);
    assert!(matches!(error, Error::TooLarge { limit_bytes: MAX_FILE_BYTES, .. }), "{error:?}");
}

#[test]
fn a_handle_that_fails_is_opened_again() {
    let kernel = FakeKernel::new(1, 1);
    let mut fs = Fs::new(&kernel.root());
    let mut buf = [0; 4];
    // A directory can be opened but not read, like a handle of a vanished object.
    kernel.break_file("proc/loadavg");
    assert!(fs.read_at(ProcFile::Loadavg, &mut buf, 0).is_err());
    kernel.remove("proc/loadavg");
    kernel.write("proc/loadavg", "0.50 0 0 1/2 3\n");
    assert_eq!(fs.read_at(ProcFile::Loadavg, &mut buf, 0).unwrap(), 4);
    assert_eq!(&buf, b"0.50");
    // A working handle is kept, even if the name is removed.
    kernel.remove("proc/loadavg");
    assert_eq!(fs.read_at(ProcFile::Loadavg, &mut buf, 0).unwrap(), 4);
}

#[test]
fn a_row_of_another_width_is_refused() {
    let kernel = FakeKernel::new(1, 1);
    let mut reader = Reader::open(&kernel.root(), &[Counter::LoadAvg]).unwrap();
    let error = reader.read(0.0, &mut [0.0; 2]).unwrap_err();
    assert!(matches!(error, Error::RowWidth { wanted: 1, given: 2 }));
    assert_eq!(error.path(), None);
}

#[test]
fn recorded_texts_go_through_the_same_reader() {
    let stat = format!("cpu  {STAT_LINE}\ncpu0 {STAT_LINE}\nbtime 1290000000\n");
    let load = "1.26 1.14 1.01 9/186 25839\n";
    let mut wanted = one_of_each();
    let mut expect = ONE_OF_EACH.to_vec();
    // Pressure was not recorded.
    for slot in [12, 9] {
        wanted.remove(slot);
        expect.remove(slot);
    }
    let texts = Texts::new(&stat, load, MEMINFO, VMSTAT, 2);
    let mut reader = Reader::with_source(texts, &wanted).unwrap();
    let mut row = vec![f64::NAN; wanted.len()];
    reader.read(12.5, &mut row).unwrap();
    assert_eq!(row, expect);

    *reader.source_mut() = Texts::new(&stat, "0.1 0 0 3/9 1", MEMINFO, VMSTAT, 1);
    reader.read(13.5, &mut row).unwrap();
    assert_eq!((row[2], row[4], row[6], row[7]), (13.5, 3.0, 0.1, 1.0));
    assert_eq!(row[3], 1196.0, "the first reading is the raw one, and nothing has passed");

    let some = psi(PsiResource::Memory, PsiLine::Some, PsiField::Avg10);
    let texts = Texts::new(&stat, load, MEMINFO, VMSTAT, 1);
    let error = Reader::with_source(texts, &[some]).unwrap_err();
    assert!(matches!(error, Error::NoCounter { .. }), "{error:?}");
}

#[test]
fn the_kernels_names_are_listed_in_its_order() {
    let kernel = FakeKernel::new(1, 1);
    let names = kernel_names(&kernel.root()).unwrap();
    assert_eq!((names.meminfo.len(), names.vmstat.len(), names.psi), (9, 10, true));
    assert_eq!((&*names.meminfo[5], &*names.vmstat[0]), ("Active(anon)", "nr_free_pages"));
    kernel.write("proc/pressure/io", "");
    assert!(!kernel_names(&kernel.root()).unwrap().psi, "there, and yet it says nothing");
    kernel.remove("proc/pressure");
    assert!(!kernel_names(&kernel.root()).unwrap().psi);
    kernel.remove("proc/vmstat");
    let error = kernel_names(&kernel.root()).unwrap_err();
    assert_eq!(error.path(), Some(&*kernel.path("proc/vmstat")));
    assert!(kernel_names(&Root::at(kernel.path("nowhere"))).is_err());
}
