//! Which farm is meant, and which of its guests.

use crate::Error;
use crate::up::rundir;
use farm::service::{self, GuestRow, SOCKET};
use std::path::{Path, PathBuf};

/// So many guests are named to somebody who asks for one that is not there.
const NEAR_MAX: usize = 5;

/// A farm that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) socket: PathBuf,
}

/// A guest of a farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) socket: PathBuf,
    pub(super) guest: String,
}

/// All farms of this user that run; one at least.
pub(super) fn farms() -> Result<Vec<Found>, Error> {
    let found = rundir::living().into_iter().filter_map(|(pid, dir)| {
        let (name, socket) = (rundir::farm_name(&dir)?, dir.join(SOCKET));
        socket.exists().then_some(Found { name, pid, socket })
    });
    let found: Vec<Found> = found.collect();
    match found.is_empty() {
        true => Err(Error::Message("No farm runs: `pinhead up FARM.toml` starts one".into())),
        false => Ok(found),
    }
}

/// The farm of a name; a farm's file has its name in it. Without a name the only one.
pub(super) fn farm(named: Option<&str>) -> Result<Found, Error> {
    let mut found = farms()?;
    let names = listed(found.iter().map(|farm| farm.name.clone()));
    let name = match named {
        Some(file) if file.ends_with(".toml") => Some(farm::config::load(Path::new(file))?.name),
        named => named.map(str::to_owned),
    };
    found.retain(|farm| name.as_ref().is_none_or(|name| farm.name == *name));
    Err(Error::Message(match (name, found.len()) {
        (_, 1) => return Ok(found.swap_remove(0)),
        (None, _) => format!("Several farms run: name one of {names}"),
        (Some(name), 0) => {
            format!("No farm `{}` runs; there are {names}", name.escape_debug())
        }
        // A name may be used twice; a process id not.
        (Some(name), count) => format!(
            "{count} farms are called {name}, with the process ids {}: end one with `kill`",
            listed(found.iter().map(|farm| farm.pid.to_string()))
        ),
    }))
}

/// The farm that has a guest. `FARM/GUEST` says which, where several have one of that name.
pub(super) fn guest(named: &str) -> Result<At, Error> {
    if let Some((name, guest)) = named.split_once('/') {
        let found = farm(Some(name))?;
        return Ok(At { socket: found.socket, guest: guest.to_owned() });
    }
    let mut having = Vec::new();
    let mut near = Vec::new();
    for found in farms()? {
        let Ok(table) = service::ps(&found.socket) else { continue };
        let (same, others): (Vec<GuestRow>, Vec<GuestRow>) =
            table.guests.into_iter().partition(|guest| guest.name == named);
        having.extend(same.iter().map(|_| found.clone()));
        near.extend(others.into_iter().map(|guest| guest.name));
    }
    Err(Error::Message(match having.len() {
        1 => return Ok(At { socket: having.swap_remove(0).socket, guest: named.to_owned() }),
        0 => format!(
            "No guest `{}` runs in a farm; there are {} and others",
            named.escape_debug(),
            listed(near.into_iter().take(NEAR_MAX))
        ),
        _ => format!(
            "Several farms have one: {}",
            listed(having.iter().map(|farm| format!("{}/{named}", farm.name)))
        ),
    }))
}

fn listed(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
