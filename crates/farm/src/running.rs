//! The farms of this user that run, and their tables of guests.

use std::path::PathBuf;
use std::time::Duration;

use manager::control::FarmTable;

use crate::service::{self, SOCKET};
use crate::{Error, rundir};

/// A process of `pinhead up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The farm's name; the process id where there is no farm's file.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Its control socket.
    pub socket: PathBuf,
    /// Whether it has a farm's file.
    pub has_file: bool,
}

/// Returns all that this user's `pinhead up` run.
pub fn all() -> Result<Vec<Running>, Error> {
    let running = rundir::living()?.into_iter().filter_map(|(pid, dir)| {
        let (farm, socket) = (rundir::farm_name(&dir), dir.join(SOCKET));
        let has_file = farm.is_some();
        let name = farm.unwrap_or_else(|| pid.to_string());
        socket.exists().then_some(Running { name, pid, socket, has_file })
    });
    Ok(running.collect())
}

/// The tables of all that run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Farms {
    /// Farms, and guests without a farm's file.
    pub farms: Vec<FarmTable>,
    /// A line for each that gave no table.
    pub silent: Vec<String>,
}

/// Asks all that run for their tables.
pub fn tables() -> Result<Farms, Error> {
    tables_within(service::PATIENCE)
}

/// The same; each answer may take so long.
pub fn tables_within(patience: Duration) -> Result<Farms, Error> {
    let mut all = Farms::default();
    for found in self::all()? {
        match service::table_within(&found.socket, patience) {
            Ok(table) => all.farms.push(table),
            // It may just be ending; the others are there all the same.
            Err(error) => all.silent.push(format!("{}: {}", found.name, base::chain(&error))),
        }
    }
    Ok(all)
}
