//! `pinhead capacity`: every level that this system can see above itself, and how many CPUs it has
//! at most because of that.

use crate::Error;
use crate::args::Format;
use crate::cells::{number, percent};
use crate::escape::json;
use base::{Table, left, plain, right};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zmon::sysinfo::{Level, bound, levels};

const NAME_MAX: usize = 24;

/// `pinhead capacity`
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// What the kernel knows of the levels above it
    #[arg(long, value_name = "FILE", default_value = "/proc/sysinfo")]
    pub sysinfo: PathBuf,
    /// How to answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// A level for programs.
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
}

#[derive(Serialize)]
struct Document<'a> {
    levels: Vec<Row<'a>>,
    cpus: Option<u64>,
    because: Option<&'a str>,
}

/// Shows the levels.
pub fn run(args: &CapacityArgs) -> Result<String, Error> {
    let found = levels(&text(&args.sysinfo)?);
    if found.is_empty() {
        let message = format!("{} names no level", args.sysinfo.display());
        return Err(Error::Message(message));
    }
    match args.format {
        Format::Text => Ok(shown(&found)),
        Format::Json => json(&document(&found)),
    }
}

fn text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Message(format!(
            "{} is not there: only s390x kernels have it, and elsewhere a guest cannot see what it \
             runs on",
            path.display()
        )),
        _ => Error::Read { path: path.into(), source },
    })
}

fn shown(levels: &[Level]) -> String {
    let columns = [
        left("LEVEL").most(NAME_MAX),
        left("NAME").most(NAME_MAX),
        right("CPUS"),
        right("CONFIGURED"),
        right("STANDBY"),
        right("RESERVED"),
        right("DEDICATED"),
        right("SHARED"),
        right("AT MOST %"),
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
        ]);
    }
    let mut text = table.text();
    if let Some((level, cpus)) = bound(levels) {
        let called = called(level);
        text.push_str(&format!(
            "\nAt most {cpus} CPUs, because {called} has no more configured.\n"
        ));
    }
    text
}

fn called(level: &Level) -> String {
    let what = plain(&level.what, NAME_MAX);
    match (&level.name, level.what.as_str()) {
        (_, "machine") | (None, _) => format!("the {what}"),
        (Some(name), "LPAR") => format!("the LPAR {}", plain(name, NAME_MAX)),
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
    });
    let bound = bound(levels);
    Document {
        levels: rows.collect(),
        cpus: bound.map(|(_, cpus)| cpus),
        because: bound.map(|(level, _)| level.what.as_str()),
    }
}
