//! Which farm is meant, and which of its guests.

use crate::Error;
use crate::up::rundir;
use farm::service::{self, SOCKET};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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

/// All farms of this user that run.
pub(super) fn farms() -> Vec<Found> {
    let dirs = rundir::living().into_iter();
    let found = dirs.filter_map(|(pid, dir)| {
        let (name, socket) = (rundir::farm_name(&dir)?, dir.join(SOCKET));
        socket.exists().then_some(Found { name, pid, socket })
    });
    found.collect()
}

/// The farm of a name; a farm's file has its name in it. Without a name the only one.
pub(super) fn farm(named: Option<&str>) -> Result<Found, Error> {
    let mut all = farms();
    let names: Vec<String> = all.iter().map(|farm| farm.name.clone()).collect();
    if all.is_empty() {
        return Err(Error::Message("No farm runs: `pinhead up FARM.toml` starts one".into()));
    }
    let Some(named) = named else {
        return match all.len() {
            1 => Ok(all.swap_remove(0)),
            _ => {
                Err(Error::Message(format!("Several farms run: name one of {}", names.join(", "))))
            }
        };
    };
    let name = match named.ends_with(".toml") {
        true => farm::config::load(Path::new(named))?.name,
        false => named.to_owned(),
    };
    let same: Vec<Found> = all.into_iter().filter(|farm| farm.name == name).collect();
    match <[Found; 1]>::try_from(same) {
        Ok([one]) => Ok(one),
        Err(none) if none.is_empty() => Err(Error::Message(format!(
            "No farm `{}` runs; there are {}",
            name.escape_debug(),
            names.join(", ")
        ))),
        // A name may be used twice; a process id not.
        Err(several) => Err(Error::Message(format!(
            "{} farms are called {name}, with the process ids {}: end one with `kill`",
            several.len(),
            several.iter().map(|farm| farm.pid.to_string()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// The farm that has a guest. `FARM/GUEST` says which, where several have one of that name.
pub(super) fn guest(named: &str) -> Result<At, Error> {
    if let Some((name, guest)) = named.split_once('/') {
        let found = farm(Some(name))?;
        return Ok(At { socket: found.socket, guest: guest.to_owned() });
    }
    let all = farms();
    if all.is_empty() {
        return Err(Error::Message("No farm runs: `pinhead up FARM.toml` starts one".into()));
    }
    let mut having = Vec::new();
    let mut near = Vec::new();
    for found in &all {
        let Ok((_, table)) = service::ask(&found.socket, &json!({ "ps": true })) else { continue };
        let guests = table.get("guests").and_then(Value::as_array).into_iter().flatten();
        let names = guests.filter_map(|row| row.get("name").and_then(Value::as_str));
        for name in names {
            if name == named {
                having.push(found);
            } else if near.len() < 5 {
                near.push(name.to_owned());
            }
        }
    }
    match having.as_slice() {
        [one] => Ok(At { socket: one.socket.clone(), guest: named.to_owned() }),
        [] => Err(Error::Message(format!(
            "No guest `{}` runs in a farm; there are {} and others",
            named.escape_debug(),
            near.join(", ")
        ))),
        several => {
            let farms: Vec<String> =
                several.iter().map(|farm| format!("{}/{named}", farm.name)).collect();
            Err(Error::Message(format!("Several farms have one: {}", farms.join(", "))))
        }
    }
}
