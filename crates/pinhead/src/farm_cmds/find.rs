//! Search for the farm or guest that an argument names. Guests without a farm's file are named by
//! the process id of their `pinhead up`.

use crate::{Error, FarmCommandError};
use farm::running::{self, Running};
use farm::service;
use manager::control::FarmGuest;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) socket: PathBuf,
    pub(crate) guest: String,
}

/// Returns all running farms of this user, at least one.
pub(super) fn farms() -> Result<Vec<Running>, Error> {
    let found = running::all()?;
    if found.is_empty() { Err(FarmCommandError::NoFarm.into()) } else { Ok(found) }
}

/// Returns the farm with this name or process id, or the only farm if no name is given. The name
/// may be the path of a farm's file. Guests without a farm's file have only the process id.
pub(super) fn farm(named: Option<&str>) -> Result<Running, Error> {
    let name = match named {
        None => return only(farms()?),
        Some(file) if file.ends_with(".toml") => farm::config::load(Path::new(file))?.name,
        Some(name) => name.to_owned(),
    };
    chosen(&name, running::all()?)
}

fn only(mut found: Vec<Running>) -> Result<Running, Error> {
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        _ => {
            let names = listed(found.iter().map(|farm| farm.name.clone()));
            Err(FarmCommandError::SeveralFarms { names }.into())
        }
    }
}

fn chosen(name: &str, mut all: Vec<Running>) -> Result<Running, Error> {
    let hint = base::correction(name, all.iter().map(|found| &*found.name));
    let is_none = all.is_empty();
    all.retain(|found| found.name == name || found.pid.to_string() == name);
    let name = name.to_owned();
    Err(match all.len() {
        1 => return Ok(all.swap_remove(0)),
        0 if is_none => FarmCommandError::NoFarm,
        0 => FarmCommandError::UnknownFarm { name, hint },
        count => {
            let pids = listed(all.iter().map(|found| found.pid.to_string()));
            FarmCommandError::SameName { name, count, pids }
        }
    }
    .into())
}

/// Returns the farm that has a guest. `FARM/GUEST` or `PID/GUEST` selects the farm if several have
/// a guest of that name.
pub(crate) fn guest(named: &str) -> Result<At, Error> {
    match named.split_once('/') {
        Some((name, guest)) => Ok(At { socket: farm(Some(name))?.socket, guest: guest.to_owned() }),
        None => having(named, farms()?),
    }
}

fn having(named: &str, among: Vec<Running>) -> Result<At, Error> {
    let mut having = Vec::new();
    let mut near = Vec::new();
    let mut failed = None;
    for found in among {
        let table = match service::table(&found.socket) {
            Ok(table) => table,
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        let (same, others): (Vec<FarmGuest>, Vec<FarmGuest>) =
            table.guests.into_iter().partition(|guest| guest.name == named);
        having.extend(same.iter().map(|_| found.clone()));
        near.extend(others.into_iter().map(|guest| guest.name));
    }
    // A farm that returned no table may have this guest.
    if let (0, Some(error)) = (having.len(), failed) {
        return Err(error.into());
    }
    let name = named.to_owned();
    Err(match having.len() {
        1 => return Ok(At { socket: having.swap_remove(0).socket, guest: name }),
        0 if near.is_empty() => FarmCommandError::NoGuest { name },
        0 => {
            let hint = base::correction(named, near.iter().map(String::as_str));
            FarmCommandError::UnknownGuest { name, hint }
        }
        _ => {
            let places = listed(having.iter().map(|farm| format!("{}/{named}", farm.name)));
            FarmCommandError::SeveralGuests { name, places }
        }
    }
    .into())
}

fn listed(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use manager::control::{Answer, FarmTable, encode_answer};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;

    /// Starts a fake `pinhead up` with these guests. The fake answers one request.
    fn up(dir: &Path, pid: u32, guests: &[&str]) -> (Running, std::thread::JoinHandle<()>) {
        let socket = dir.join(pid.to_string());
        let listener = UnixListener::bind(&socket).unwrap();
        let row = |name: &&str| FarmGuest { name: (*name).to_owned(), ..FarmGuest::default() };
        let guests = guests.iter().map(row).collect();
        let table = Answer::Farm(FarmTable { farm: None, pid, uptime_ms: 0, guests });
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(&encode_answer(Some(1), &Ok(table))).unwrap();
        });
        (found(&pid.to_string(), pid, socket), answering)
    }

    fn found(name: &str, pid: u32, socket: PathBuf) -> Running {
        Running { name: name.to_owned(), pid, socket }
    }

    fn asked(guest: &str, guests_of: [&[&str]; 2]) -> Result<PathBuf, String> {
        let dir = vm::Scratch::new("find").unwrap();
        let (one, first) = up(dir.path(), 11, guests_of[0]);
        let (other, second) = up(dir.path(), 12, guests_of[1]);
        let found = having(guest, vec![one, other]);
        first.join().unwrap();
        second.join().unwrap();
        let name = |at: At| at.socket.file_name().unwrap().into();
        found.map(name).map_err(|error| error.to_string())
    }

    #[test]
    fn guest_is_found_when_exactly_one_farm_has_it() {
        assert_eq!(asked("g2", [&["g1"], &["g1", "g2"]]), Ok("12".into()));
        assert_eq!(
            asked("g1", [&["g1"], &["g1"]]),
            Err("Several farms have a guest `g1`: use one of 11/g1, 12/g1".into())
        );
        let none = "No guest `g9` runs: did you mean `g1` or `g2`?";
        assert_eq!(asked("g9", [&["g1"], &["g2"]]), Err(none.into()));
        assert_eq!(asked("g9", [&[], &[]]), Err("No guest `g9` runs".into()));
    }

    #[test]
    fn farm_without_table_is_named_when_no_other_has_the_guest() {
        let dir = vm::Scratch::new("find-silent").unwrap();
        let (one, answering) = up(dir.path(), 11, &["g1"]);
        let gone = found("12", 12, dir.path().join("12"));
        let error = having("g9", vec![one, gone]).unwrap_err();
        answering.join().unwrap();
        assert!(base::chain(&error).contains("/12 does not run"), "{error}");
    }

    #[test]
    fn a_farm_is_called_by_its_name_or_its_process_id() {
        let one = |name: &str, pid| found(name, pid, PathBuf::new());
        let all = || vec![one("shop", 11), one("shop", 12), one("test", 13), one("14", 14)];
        let pid = |name| chosen(name, all()).map(|found| found.pid).map_err(|e| e.to_string());
        assert_eq!((pid("test"), pid("12"), pid("14")), (Ok(13), Ok(12), Ok(14)));
        let twice = "2 farms are called shop: use a process ID, 11, 12";
        assert_eq!(pid("shop"), Err(twice.into()));
        let none = "No farm `15` runs: did you mean `14`?";
        assert_eq!(pid("15"), Err(none.into()));
        assert!(
            chosen("15", Vec::new())
                .unwrap_err()
                .to_string()
                .starts_with("You have no running farm")
        );
        let several = only(all()).unwrap_err().to_string();
        assert_eq!(several, "Several farms run: add the name of one: shop, shop, test, 14");
    }
}
