//! `pinhead park` and `pinhead wake`: stop and resume guests. A farm parks its own guests, and a
//! manager parks guests outside farms.

use super::{ParkArgs, find};
use crate::manage::{ask_manager, unexpected};
use crate::{Error, FarmCommandError};
use farm::service;
use manager::control::{Answer, Ask, GuestRow, Parked};
use std::time::Duration;
use vm::Clock;

/// Timeout for parking. Compressing even many GiB of memory takes less time.
const PATIENCE: Duration = Duration::from_secs(300);

/// Process that parks a guest.
enum Host {
    Farm(find::At),
    Manager(String),
}

/// Parks guests, one after the other. A farm's guest counts as parked when its memory is paged out.
/// A manager's guest counts as parked when it is stopped, although its memory is paged out
/// gradually afterwards.
pub fn park(args: &ParkArgs) -> Result<String, Error> {
    each(args, |guest| Ask::Park { guest }, "parked")
}

/// Wakes guests.
pub fn wake(args: &ParkArgs) -> Result<String, Error> {
    each(args, |guest| Ask::Wake { guest }, "awake")
}

/// Sends a request for each guest. All guests must be found before the first request.
fn each(args: &ParkArgs, ask: fn(String) -> Ask, done: &str) -> Result<String, Error> {
    let found: Vec<Host> =
        args.guests.iter().map(|guest| host(args, guest)).collect::<Result<_, _>>()?;
    let mut text = String::new();
    for host in found {
        let clock = Clock::new();
        let answer = match host {
            Host::Farm(at) => service::ask_within(&at.socket, &ask(at.guest), PATIENCE)?,
            Host::Manager(guest) => ask_manager(&args.socket, &ask(guest))?,
        };
        let Answer::Park(Parked { guest, kept }) = answer else { return Err(unexpected()) };
        let guest = base::plain(&guest, 60);
        let kept = match kept {
            Some(why) => format!(", but its memory stays resident: {}", base::plain(&why, 200)),
            None => String::new(),
        };
        text.push_str(&format!("{guest}: {done} after {} ms{kept}\n", clock.ms()));
    }
    Ok(text)
}

/// Returns the process that parks a guest: the farm if it has the guest, else the manager.
fn host(args: &ParkArgs, guest: &str) -> Result<Host, Error> {
    let named = guest.to_owned();
    let at_manager = |error: Error| {
        let Ok(Answer::Ps(ps)) = ask_manager(&args.socket, &Ask::Ps) else {
            return Err(match error {
                Error::FarmCommand(FarmCommandError::NoFarm) => FarmCommandError::NoManager.into(),
                error => error,
            });
        };
        let is_it = |row: &GuestRow| [&row.name, &row.uuid, &row.source].contains(&&named);
        match error {
            _ if ps.guests.iter().any(is_it) => Ok(Host::Manager(named.clone())),
            Error::FarmCommand(FarmCommandError::NoFarm | FarmCommandError::NoGuest { .. }) => {
                let hint = base::correction(guest, ps.guests.iter().map(|row| &*row.name));
                Err(FarmCommandError::UnknownGuest { name: named.clone(), hint }.into())
            }
            error => Err(error),
        }
    };
    match args.socket.socket {
        // If the guest is unknown, the manager's own error is the most helpful.
        Some(_) => Ok(Host::Manager(guest.to_owned())),
        None => find::guest(guest).map(Host::Farm).or_else(at_manager),
    }
}
