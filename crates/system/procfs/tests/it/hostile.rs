//! Arbitrary bytes: a reader returns a row of numbers or an error with its position, and never
//! panics. The fuzzer does the same for longer; this test is the part that fits into each test run.

use std::io;

use model::counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};
use procfs::testing::{MEMINFO, PRESSURE, STAT_LINE, VMSTAT};
use procfs::{CpuClock, Error, ProcFile, Reader, Source, parse};

/// A source with one text for every file, in pieces of any size.
struct Bytes {
    text: Vec<u8>,
    piece: usize,
}

impl Source for Bytes {
    fn read_at(&mut self, _: ProcFile, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = &self.text[self.text.len().min(at as usize)..];
        let count = rest.len().min(buf.len()).min(self.piece);
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A small random generator: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

const PATCHES: [&[u8]; 14] = [
    b"\n",
    b" ",
    b":",
    b"-",
    b",",
    b"0",
    b"99999999999999999999",
    b"cpu",
    b"cpu1 ",
    b"\xff\xfe",
    b"\0",
    b".",
    b"some ",
    b"=",
];

fn mutate(dice: &mut Dice, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        let until = (at + dice.below(12)).min(bytes.len());
        let patch = PATCHES[dice.below(PATCHES.len())];
        match dice.below(4) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..until, [])),
            2 => drop(bytes.splice(at..at, patch.iter().copied())),
            _ => drop(bytes.splice(at..until, patch.iter().copied())),
        }
    }
    bytes
}

fn wanted(file: ProcFile) -> Vec<Counter> {
    match file {
        ProcFile::Stat => CpuField::ALL.iter().map(|field| Counter::Cpu(*field)).collect(),
        ProcFile::Loadavg => vec![Counter::LoadAvg, Counter::RunnableProc],
        ProcFile::Meminfo => vec![Counter::meminfo("SwapFree"), Counter::meminfo("Buffers")],
        ProcFile::Vmstat => vec![Counter::vmstat("pswpout"), Counter::vmstat("nr_dirty")],
        ProcFile::OnlineCpus => vec![Counter::OnlineCpus],
        ProcFile::Pressure(_) => {
            vec![Counter::Psi(PsiResource::Io, PsiLine::Full, PsiField::Total)]
        }
    }
}

#[test]
fn any_bytes_give_a_row_or_an_error_with_its_place() {
    let stat = format!("cpu  {STAT_LINE}\ncpu0 {STAT_LINE}\ncpu7 {STAT_LINE}\nintr 219532 0 0\n");
    let files = [
        (ProcFile::Stat, stat.as_str()),
        (ProcFile::Loadavg, "1.26 1.14 1.01 9/186 25839\n"),
        (ProcFile::Meminfo, MEMINFO),
        (ProcFile::Vmstat, VMSTAT),
        (ProcFile::OnlineCpus, "0-3,5,7-9\n"),
        (ProcFile::Pressure(PsiResource::Io), PRESSURE),
    ];
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for (file, text) in files {
        let (mut rows, mut errors) = (0, 0);
        let wanted = wanted(file);
        let source = Bytes { text: text.into(), piece: usize::MAX };
        let mut reader = Reader::with_source(source, &wanted).unwrap();
        for turn in 0..4000 {
            reader.source_mut().text = mutate(&mut dice, text);
            reader.source_mut().piece = 1 + dice.below(300);
            let mut row = vec![f64::NAN; wanted.len()];
            match reader.read(f64::from(turn), &mut row) {
                Ok(()) => {
                    assert!(row.iter().all(|number| number.is_finite()), "{file:?} {row:?}");
                    rows += 1;
                }
                Err(error) => {
                    assert!(error.path().is_some_and(|p| p.ends_with(file.relative())), "{error}");
                    assert!(!matches!(error, Error::Read { .. }), "{error}");
                    errors += 1;
                }
            }
        }
        // Both results occurred often, so both are tested.
        assert!(rows > 400 && errors > 400, "{file:?}: {rows} rows, {errors} errors");
    }
}

#[test]
fn clock_takes_any_readings_and_never_falls_on_a_changed_set() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut clock = CpuClock::default();
    let (mut stat, mut last) = (parse::stat::Stat::default(), parse::stat::Stat::default());
    let mut before = *clock.advance(&stat, 0.0);
    let mut changes = 0;
    for turn in 1..8000 {
        let mut text = format!("cpu  {turn} 2 3 {} 5\n", dice.below(1 << 40));
        for cpu in 0..5 {
            if dice.below(8) > 0 {
                let (a, b) = (dice.below(100_000), dice.below(1 << 40) * dice.below(2));
                text += &format!("cpu{cpu} {a} 0 {turn} {b} {a}\n");
            }
        }
        if parse::stat::parse(&mutate(&mut dice, &text), true, &mut stat) != Ok(true) {
            continue;
        }
        let seconds = [f64::from(turn), -1.0, f64::NAN, 1e300][dice.below(4)];
        let after = *clock.advance(&stat, seconds);
        let ids = |stat: &parse::stat::Stat| stat.cpus.iter().map(|c| c.0).collect::<Vec<_>>();
        if ids(&last) != ids(&stat) {
            changes += 1;
            assert!(before.iter().zip(&after).all(|(b, a)| b <= a), "{last:?} {stat:?}");
        }
        last.clone_from(&stat);
        before = after;
    }
    assert!(changes > 1000, "{changes}");
}
