//! `pinhead capacity`: shows the levels above this system, such as the machine, the partition and
//! the hypervisor. It also shows the maximum number of CPUs that these levels leave to the system.

use crate::args::Format;
use crate::cells::{number, percent};
use crate::escape::json;
use crate::listing::{OTHER_OUTPUT, fitted_table};
use crate::terminal::{self, fitted};
use crate::{Error, ZvmError};
use base::{Table, left, plain, right};
use clap::Args;
use model::quantity;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use zmon::sthyi;
use zmon::sysinfo::{Level, bound, levels};

const NAME_MAX: usize = 24;

/// `pinhead capacity`
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// File with the kernel's description of the machine, partition and hypervisor
    #[arg(long, value_name = "FILE", default_value = "/proc/sysinfo")]
    pub sysinfo: PathBuf,
    /// STHYI response page, as the system call s390_sthyi returns it
    #[arg(long, value_name = "FILE")]
    pub sthyi: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// A level, for the JSON output.
#[derive(Serialize)]
struct Row<'a> {
    level: &'a str,
    name: Option<&'a str>,
    total: Option<u64>,
    configured: Option<u64>,
    standby: Option<u64>,
    reserved: Option<u64>,
    dedicated: Option<u64>,
    shared: Option<u64>,
    adjustment_permille: Option<u64>,
    general_only: bool,
    threads: Option<u64>,
    capped_by_weight: bool,
    cap_cpus: Option<f64>,
}

#[derive(Serialize)]
struct Document<'a> {
    levels: Vec<Row<'a>>,
    cpus: Option<f64>,
    because: Option<&'a str>,
    capped: Option<bool>,
}

/// Shows the levels.
pub fn run(args: &CapacityArgs) -> Result<String, Error> {
    let mut found = match text(&args.sysinfo) {
        Ok(text) => levels(&text),
        // A STHYI page may come from another machine. A missing `sysinfo` file is then no error.
        Err(_) if args.sthyi.is_some() && !args.sysinfo.exists() => Vec::new(),
        Err(error) => return Err(error),
    };
    if let Some(path) = &args.sthyi {
        let bytes = page(path).map_err(|source| Error::Read { path: path.into(), source })?;
        let info = sthyi::read(&bytes).map_err(|source| match source {
            zmon::Error::Empty { .. } => ZvmError::EmptySthyi { path: path.clone() },
            source => ZvmError::Sthyi { path: path.clone(), source },
        })?;
        info.add_to(&mut found);
    }
    if found.is_empty() {
        let read = args.sthyi.as_ref().filter(|_| !args.sysinfo.exists());
        return Err(ZvmError::NoLevel { path: read.unwrap_or(&args.sysinfo).clone() }.into());
    }
    match args.format {
        Format::Text => Ok(shown(&found, terminal::width(std::io::stdout()))),
        Format::Json => json(&document(&found)),
    }
}

/// Reads one page. The read is limited, because the file may be endless.
fn page(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(sthyi::PAGE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ZvmError::NoSysinfo { path: path.into() }.into(),
        _ => Error::Read { path: path.into(), source },
    })
}

/// Formats the levels, on a terminal within its width.
fn shown(levels: &[Level], width: Option<usize>) -> String {
    let columns = [
        left("LEVEL").most(NAME_MAX),
        left("NAME").most(NAME_MAX),
        right("CPUS"),
        right("CONFIGURED").rank(3),
        right("STANDBY").rank(6),
        right("RESERVED").rank(7),
        right("DEDICATED").rank(5),
        right("SHARED").rank(4),
        right("AT MOST %").rank(2),
        right("CAP").rank(1),
    ];
    let mut table = Table::new(&columns);
    for level in levels {
        table.row([
            plain(&level.what, NAME_MAX),
            level.name.as_deref().map_or_else(|| "-".into(), |name| plain(name, NAME_MAX)),
            number(level.total),
            number(level.configured),
            number(level.standby),
            number(level.reserved),
            number(level.dedicated),
            number(level.shared),
            level.adjustment.map_or_else(|| "-".into(), percent),
            level.cap.map_or_else(|| "-".into(), cpus),
        ]);
    }
    let mut text = String::new();
    if let Some(bound) = bound(levels) {
        let (called, most) = (called(bound.level), cpus(bound.cpus));
        let cores = match bound.level.threads {
            Some(threads) if threads > 1 => format!(" ({} cores)", cpus(bound.cpus / threads)),
            _ => String::new(),
        };
        let why = if bound.is_capped { "has this cap" } else { "has no more CPUs configured" };
        text.push_str(&format!("\nAt most {most} CPUs{cores}, because {called} {why}.\n"));
    }
    for level in levels {
        if level.is_general_only {
            text.push_str(
                "The machine's CONFIGURED counts only general CPUs, and no CPUs for Linux (IFL): \
                 --sthyi shows both.\n",
            );
        }
        if level.what == "LPAR" && level.threads.is_some_and(|threads| threads > 1) {
            let cpus = number(level.threads);
            text.push_str(&format!(
                "The LPAR and the levels above it count cores of {cpus} CPUs each.\n"
            ));
        }
        if level.is_limited && level.cap.is_none() {
            let called = called(level).replacen("the", "The", 1);
            text.push_str(&format!("{called} is capped by its weight: --sthyi shows the limit.\n"));
        }
    }
    fitted_table(&table, width, OTHER_OUTPUT) + &fitted(&text, width)
}

/// Formats thousandths of CPUs: "2", "2.5".
fn cpus(thousandths: u64) -> String {
    quantity::short(thousandths as f64 / 1000.0)
}

fn called(level: &Level) -> String {
    let what = plain(&level.what, NAME_MAX);
    match (&level.name, level.what.as_str()) {
        (_, "machine") | (None, _) => format!("the {what}"),
        (Some(name), "LPAR" | "LPAR group" | "hypervisor" | "pool" | "guest") => {
            format!("the {what} {}", plain(name, NAME_MAX))
        }
        (Some(name), _) => format!("{} under {what}", plain(name, NAME_MAX)),
    }
}

fn document(levels: &[Level]) -> Document<'_> {
    let rows = levels.iter().map(|level| Row {
        level: &level.what,
        name: level.name.as_deref(),
        total: level.total,
        configured: level.configured,
        standby: level.standby,
        reserved: level.reserved,
        dedicated: level.dedicated,
        shared: level.shared,
        adjustment_permille: level.adjustment,
        general_only: level.is_general_only,
        threads: level.threads,
        capped_by_weight: level.is_limited,
        cap_cpus: level.cap.map(|thousandths| level.cpus(thousandths) as f64 / 1000.0),
    });
    let bound = bound(levels);
    Document {
        levels: rows.collect(),
        cpus: bound.map(|bound| bound.cpus as f64 / 1000.0),
        because: bound.map(|bound| bound.level.what.as_str()),
        capped: bound.map(|bound| bound.is_capped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, check_fits};

    #[test]
    fn levels_fit_every_width() {
        let level = |what: &str, name: &str, configured: u64| Level {
            what: what.into(),
            name: Some(name.into()),
            total: Some(configured),
            configured: Some(configured),
            ..Level::default()
        };
        let machine = Level { is_general_only: true, ..level("machine", "8561", 12) };
        let levels = [machine, level("LPAR", "LP1", 6), level("z/VM    7.3.0", "LINUX01", 3)];
        for width in WIDTHS {
            let why = "At most 3 CPUs, because LINUX01 under z/VM 7.3.0 has no more";
            check_fits(&shown(&levels, Some(width)), width, ["LP1", why]);
        }
    }
}
