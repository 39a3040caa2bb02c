//! The reader of one row of numbers for each interval.

use std::io;
use std::path::{Path, PathBuf};

use model::counters::{Counter, CpuField, PsiField, PsiLine, PsiResource};

use crate::cpu_clock::CpuClock;
use crate::error::Error;
use crate::file::{ProcFile, Root};
use crate::parse::stat::{FIELDS, Stat, Ticks};
use crate::parse::table::{Style, skip_lines};
use crate::parse::{Malformed, cpulist, loadavg, pressure, stat};
use crate::source::{Fs, Source};
use crate::table::{Lack, Table};
use crate::window::Window;

/// EOPNOTSUPP, the error of a kernel that was built with PSI but started without it.
const NOT_SUPPORTED: i32 = 95;

/// Reads the wanted counters, from any source of their files.
#[derive(Debug)]
pub struct Reader<S = Fs> {
    source: S,
    window: Window,
    wanted: Box<[Counter]>,
    plan: Plan,
    stat: Stat,
    clock: CpuClock,
}

/// The slots of a row that each file fills.
#[derive(Debug)]
struct Plan {
    files: Vec<(ProcFile, PathBuf)>,
    time: Vec<usize>,
    online: Vec<usize>,
    loadavg: Vec<(usize, Load)>,
    cpu: Vec<(usize, CpuField)>,
    meminfo: Table,
    vmstat: Table,
    /// Indexed by the resource's position in [`PsiResource::ALL`].
    psi: [Vec<(usize, PsiLine, PsiField)>; PsiResource::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
enum Load {
    OneMinute,
    Runnable,
}

impl Reader<Fs> {
    /// Opens a reader of the files below `root`. The error names a counter that the kernel lacks.
    pub fn open(root: &Root, wanted: &[Counter]) -> Result<Reader<Fs>, Error> {
        Reader::with_source(Fs::new(root), wanted)
    }
}

impl<S: Source> Reader<S> {
    /// Creates a reader of `source`. The reader reads all files once to find the lines' positions.
    /// This first reading does not count for the CPU clock.
    pub fn with_source(source: S, wanted: &[Counter]) -> Result<Reader<S>, Error> {
        let mut reader = Reader {
            plan: Plan::new(wanted, &source),
            source,
            window: Window::new(),
            wanted: wanted.into(),
            stat: Stat::default(),
            clock: CpuClock::default(),
        };
        let mut row = vec![f64::NAN; wanted.len()];
        for index in 0..reader.plan.files.len() {
            let file = reader.plan.files[index].0;
            reader.read_file(file, 0.0, &mut row).map_err(|e| reader.no_counter(file, e))?;
        }
        reader.clock = CpuClock::default();
        Ok(reader)
    }

    /// Fills `row`, in the order of the wanted counters. `now_secs` is the time of the reading: the
    /// value of [`Counter::Time`], and the time base of the CPU clock. After an error the row is
    /// invalid; the next reading is not affected.
    pub fn read(&mut self, now_secs: f64, row: &mut [f64]) -> Result<(), Error> {
        if row.len() != self.wanted.len() {
            return Err(Error::RowWidth { wanted: self.wanted.len(), given: row.len() });
        }
        for slot in &self.plan.time {
            row[*slot] = now_secs;
        }
        for index in 0..self.plan.files.len() {
            let file = self.plan.files[index].0;
            self.read_file(file, now_secs, row)?;
        }
        Ok(())
    }

    /// Returns the paths of the files that are read, in their order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.plan.files.iter().map(|(_, path)| path.as_path())
    }

    /// Returns the source, to replace recorded texts by the next texts.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    fn read_file(&mut self, file: ProcFile, now_secs: f64, row: &mut [f64]) -> Result<(), Error> {
        match file {
            ProcFile::Stat => self.read_stat(now_secs, row),
            ProcFile::Loadavg => {
                let load = self.read_small(file, 1, loadavg::parse)?;
                for (slot, field) in &self.plan.loadavg {
                    row[*slot] = match field {
                        Load::OneMinute => load.one_minute,
                        Load::Runnable => load.runnable as f64,
                    };
                }
                Ok(())
            }
            ProcFile::OnlineCpus => {
                let count = self.read_small(file, 1, cpulist::count)?;
                for slot in &self.plan.online {
                    row[*slot] = f64::from(count);
                }
                Ok(())
            }
            ProcFile::Meminfo | ProcFile::Vmstat => self.read_table(file, row),
            ProcFile::Pressure(resource) => {
                let pressure = self.read_small(file, 2, pressure::parse)?;
                for (slot, line, field) in &self.plan.psi[resource as usize] {
                    row[*slot] = pressure.get(*line, *field).ok_or_else(|| Error::NoCounter {
                        counter: self.wanted[*slot].clone(),
                        path: self.source.path(file),
                    })?;
                }
                Ok(())
            }
        }
    }

    fn read_stat(&mut self, now_secs: f64, row: &mut [f64]) -> Result<(), Error> {
        let file = ProcFile::Stat;
        self.window.start(&mut self.source, file, usize::MAX)?;
        loop {
            let (bytes, at_end) = (self.window.bytes(), self.window.at_end());
            let complete = stat::parse(bytes, at_end, &mut self.stat);
            if complete.map_err(|e| malformed(&self.source, file, e))? {
                break;
            }
            self.window.more(&mut self.source, file)?;
        }
        let total = self.clock.advance(&self.stat, now_secs);
        for (slot, field) in &self.plan.cpu {
            row[*slot] = cpu_value(total, *field);
        }
        Ok(())
    }

    /// Reads a file of a few `lines`, which one read usually returns completely. If fewer lines
    /// arrive, the file is read to its end before it is rejected.
    fn read_small<T>(
        &mut self,
        file: ProcFile,
        lines: u32,
        parse: impl Fn(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, Error> {
        self.window.start(&mut self.source, file, usize::MAX)?;
        if skip_lines(self.window.bytes(), 0, lines).is_none() {
            self.window.finish(&mut self.source, file)?;
        }
        if self.window.bytes().is_empty() {
            let what = "is missing: the file is empty";
            return Err(malformed(&self.source, file, Malformed { line: 1, what }));
        }
        parse(self.window.bytes()).map_err(|e| malformed(&self.source, file, e))
    }

    fn read_table(&mut self, file: ProcFile, row: &mut [f64]) -> Result<(), Error> {
        let table = match file {
            ProcFile::Meminfo => &mut self.plan.meminfo,
            _ => &mut self.plan.vmstat,
        };
        self.window.start(&mut self.source, file, table.ask())?;
        if table.fill(self.window.bytes(), self.window.at_end(), row) {
            return Ok(());
        }
        self.window.finish(&mut self.source, file)?;
        table.learn(self.window.bytes(), row).map_err(|lack| match lack {
            Lack::Name(slot) => Error::NoCounter {
                counter: self.wanted[slot].clone(),
                path: self.source.path(file),
            },
            Lack::Value(line) => malformed(
                &self.source,
                file,
                Malformed { line, what: "has a value that is no number" },
            ),
        })
    }

    /// Converts the error of a missing or unsupported file at the start into the error of a missing
    /// counter. At a later time the error would mean that the file vanished.
    fn no_counter(&self, file: ProcFile, error: Error) -> Error {
        let Error::Read { path, source } = error else { return error };
        let absent = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported)
            || source.raw_os_error() == Some(NOT_SUPPORTED);
        match self.wanted.iter().find(|counter| file_of(counter) == Some(file)) {
            Some(counter) if absent => Error::NoCounter { counter: counter.clone(), path },
            _ => Error::Read { path, source },
        }
    }
}

impl Plan {
    fn new<S: Source>(wanted: &[Counter], source: &S) -> Plan {
        let mut plan = Plan {
            files: Vec::new(),
            time: Vec::new(),
            online: Vec::new(),
            loadavg: Vec::new(),
            cpu: Vec::new(),
            meminfo: Table::new(Style::Colon),
            vmstat: Table::new(Style::Blank),
            psi: Default::default(),
        };
        for (slot, counter) in wanted.iter().enumerate() {
            match counter {
                Counter::Time => plan.time.push(slot),
                Counter::OnlineCpus => plan.online.push(slot),
                Counter::LoadAvg => plan.loadavg.push((slot, Load::OneMinute)),
                Counter::RunnableProc => plan.loadavg.push((slot, Load::Runnable)),
                Counter::Cpu(field) => plan.cpu.push((slot, *field)),
                Counter::Meminfo(name) => plan.meminfo.want(name, slot),
                Counter::Vmstat(name) => plan.vmstat.want(name, slot),
                Counter::Psi(resource, line, field) => {
                    plan.psi[*resource as usize].push((slot, *line, *field));
                }
                // Kernels do not provide this counter, so it stays missing.
                Counter::Host(_) => {}
            }
        }
        plan.files = ProcFile::ALL
            .into_iter()
            .filter(|file| wanted.iter().any(|counter| file_of(counter) == Some(*file)))
            .map(|file| (file, source.path(file)))
            .collect();
        plan
    }
}

fn file_of(counter: &Counter) -> Option<ProcFile> {
    match counter {
        Counter::Time | Counter::Host(_) => None,
        Counter::OnlineCpus => Some(ProcFile::OnlineCpus),
        Counter::LoadAvg | Counter::RunnableProc => Some(ProcFile::Loadavg),
        Counter::Cpu(_) => Some(ProcFile::Stat),
        Counter::Meminfo(_) => Some(ProcFile::Meminfo),
        Counter::Vmstat(_) => Some(ProcFile::Vmstat),
        Counter::Psi(resource, _, _) => Some(ProcFile::Pressure(*resource)),
    }
}

fn cpu_value(total: &Ticks, field: CpuField) -> f64 {
    match field {
        CpuField::TotalTicks => total.iter().fold(0_i64, |sum, t| sum.saturating_add(*t)) as f64,
        // The indexes of the fields follow the order of the line, and the sum is the last field.
        _ => total[(field as usize).min(FIELDS - 1)] as f64,
    }
}

fn malformed<S: Source>(source: &S, file: ProcFile, error: Malformed) -> Error {
    Error::Malformed { path: source.path(file), line: error.line, what: error.what }
}
