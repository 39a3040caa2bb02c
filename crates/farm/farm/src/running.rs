//! Running farms of this user, and their tables of guests.

use std::path::PathBuf;
use std::time::Duration;

use manager::control::FarmTable;

use crate::service::{self, SOCKET};
use crate::{Error, rundir};

/// A process of `pinhead up`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Name of the farm, or the process id if the farm has no file.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Control socket.
    pub socket: PathBuf,
}

/// Returns all running `pinhead up` processes of this user.
pub fn all() -> Result<Vec<Running>, Error> {
    let running = rundir::living()?.into_iter().filter_map(|(pid, dir)| {
        let name = rundir::farm_name(&dir).unwrap_or_else(|| pid.to_string());
        let socket = dir.join(SOCKET);
        socket.exists().then_some(Running { name, pid, socket })
    });
    Ok(running.collect())
}

/// Tables of all running farms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Farms {
    /// One table for each process, with or without a farm's file.
    pub farms: Vec<FarmTable>,
    /// One line for each process that returned no table, with the error.
    pub silent: Vec<String>,
}

/// Requests the tables of all running farms.
pub fn tables() -> Result<Farms, Error> {
    tables_within(service::PATIENCE)
}

/// Requests the tables with this timeout for each farm.
pub fn tables_within(patience: Duration) -> Result<Farms, Error> {
    let mut all = Farms::default();
    for found in self::all()? {
        match service::table_within(&found.socket, patience) {
            Ok(table) => all.farms.push(table),
            // A farm without an answer may be ending. The tables of the other farms are still
            // useful.
            Err(error) => all.silent.push(format!("{}: {}", found.name, base::chain(&error))),
        }
    }
    Ok(all)
}
