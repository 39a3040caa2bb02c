//! `pinhead park` and `pinhead wake`: stop and resume guests. A farm parks its own guests, and a
//! manager parks guests outside farms.

use super::{ParkArgs, find};
use crate::manage::{ask_manager, unexpected};
use crate::waiting::Task;
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

impl Host {
    fn guest(&self) -> &str {
        match self {
            Host::Farm(at) => &at.guest,
            Host::Manager(guest) => guest,
        }
    }
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
        let task = Task::new(format!("waiting until {} is {done}", base::plain(host.guest(), 60)));
        let answer = match host {
            Host::Farm(at) => service::ask_within(&at.socket, &ask(at.guest), PATIENCE)?,
            Host::Manager(guest) => ask_manager(&args.socket, &ask(guest))?,
        };
        drop(task);
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
    match args.socket.socket {
        // If the guest is unknown, the manager's own error is the most helpful.
        Some(_) => Ok(Host::Manager(guest.to_owned())),
        None => find::guest(guest)
            .map(Host::Farm)
            .or_else(|error| at_manager(guest, error, ask_manager(&args.socket, &Ask::Ps))),
    }
}

/// Returns the manager if its answer to `ps` has the guest. `error` is that of the farms.
fn at_manager(guest: &str, error: Error, answer: Result<Answer, Error>) -> Result<Host, Error> {
    let name = guest.to_owned();
    let Ok(Answer::Ps(ps)) = answer else {
        return Err(match error {
            Error::FarmCommand(FarmCommandError::NoFarm) => FarmCommandError::NoManager.into(),
            error => error,
        });
    };
    let is_it = |row: &GuestRow| [&row.name, &row.uuid, &row.source].contains(&&name);
    match error {
        _ if ps.guests.iter().any(is_it) => Ok(Host::Manager(name)),
        Error::FarmCommand(FarmCommandError::NoFarm | FarmCommandError::NoGuest { .. }) => {
            let hint = base::correction(guest, ps.guests.iter().map(|row| &*row.name));
            Err(FarmCommandError::UnknownGuest { name, hint }.into())
        }
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manager::control::{HostRow, KsmRow, Ps};

    #[test]
    fn unknown_guest_is_told_with_what_runs() {
        let told = |guest: &str, answer| match at_manager(
            guest,
            FarmCommandError::NoFarm.into(),
            answer,
        ) {
            Ok(Host::Manager(guest)) => guest,
            Ok(Host::Farm(at)) => panic!("{at:?}"),
            Err(error) => error.to_string(),
        };
        let row = GuestRow { name: "g1".into(), ..GuestRow::default() };
        let (host, ksm) = (HostRow::default(), KsmRow::default());
        let ps = Answer::Ps(Ps { host, ksm, guests: vec![row] });
        assert_eq!(
            told("nosuch", Err(FarmCommandError::NoFarm.into())),
            FarmCommandError::NoManager.to_string()
        );
        assert_eq!(told("nosuch", Ok(ps.clone())), "No guest `nosuch` runs: there are g1");
        assert_eq!(told("g1", Ok(ps)), "g1");
    }
}
