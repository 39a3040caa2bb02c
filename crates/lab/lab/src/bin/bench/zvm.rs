//! The import of a file of MONWRITE into a recording: its speed and its memory. The file has a day
//! of z/VM with a hundred Linux guests.

use crate::clock::now;
use crate::day::{children_s, program};
use crate::error::{Error, scratch};
use crate::table::{Row, figure};
use procfs::parse::value_of;
use sim::zvm::System;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Number of guests, and of the processes of each guest. The file of a day then has about one GiB.
const GUESTS: usize = 100;
const TASKS: u32 = 12;
const INTERVALS: u32 = 1_440;
/// Midnight of 2026-11-21, UTC.
const MIDNIGHT_MS: i64 = 1_795_219_200_000;
/// The promised input in MiB per second of CPU, and the maximum memory, in MiB.
const SPEED: f64 = 100.0;
const MEMORY: f64 = 200.0;
/// Interval of the memory samples.
const LOOK: Duration = Duration::from_millis(20);
const MIB: f64 = 1_048_576.0;

pub fn rows() -> Result<Vec<Row>, Error> {
    let scratch = scratch("zvm")?;
    let file = scratch.path().join("monwrite");
    let bytes = make(&file)?;
    let program = program()?;
    let (start, before_s) = (now(), children_s()?);
    let mut child = Command::new(&program)
        .args(["zvm", "import"])
        .arg(&file)
        .arg("--to")
        .arg(scratch.path().join("recordings"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|source| Error::Start { program: program.clone(), source })?;
    let mut peak_kib = 0;
    let status = loop {
        let status = Path::new("/proc").join(child.id().to_string()).join("status");
        // The process may have ended meanwhile.
        let found = std::fs::read(&status).ok().and_then(|text| value_of(&text, "VmHWM"));
        peak_kib = peak_kib.max(found.unwrap_or(0));
        match child.try_wait().map_err(|source| Error::file(&status, source))? {
            Some(status) => break status,
            None => thread::sleep(LOOK),
        }
    };
    let seconds = now().duration_since(start).as_secs_f64();
    if !status.success() {
        let said = "zvm import".to_owned();
        return Err(Error::Ended { name: "pinhead", status: status.to_string(), said });
    }
    let cpu_s = children_s()? - before_s;
    let mib = bytes as f64 / MIB;
    let most_s = mib / SPEED;
    let name = format!("{mib:.0} MiB of MONWRITE imported, of CPU");
    Ok(vec![
        Row::promised(&name, figure(cpu_s, 2, " s"), most_s)
            .note(&format!("{:.0} MiB a second; {seconds:.1} s in all", mib / cpu_s)),
        Row::promised("memory for the import", figure(peak_kib as f64 / 1024.0, 1, " MiB"), MEMORY),
    ])
}

/// Makes the file, and returns its length.
fn make(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error::file(path, source);
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    let mut system = System::new(16, GUESTS, TASKS);
    let mut bytes = 0;
    for _ in 0..INTERVALS {
        let pages = system.interval(MIDNIGHT_MS);
        bytes += pages.len() as u64;
        out.write_all(&pages).map_err(failed)?;
    }
    out.flush().map_err(failed)?;
    Ok(bytes)
}
