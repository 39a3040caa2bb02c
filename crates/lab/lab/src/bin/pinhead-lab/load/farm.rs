//! Guests of a running farm, as targets of requests and as places for jobs.

use super::args::TargetArgs;
use crate::Error;
use farm::service;
use lab::load::{ExecError, Target};
use manager::control::FarmGuest;
use pinhead::farm_cmds::{self, GRACE};
use std::path::PathBuf;
use std::time::Duration;
use vm::{Deadline, Output};

pub(super) struct Farm {
    socket: PathBuf,
    guests: Vec<FarmGuest>,
}

impl Farm {
    /// Queries the farm with this name, or the only farm.
    pub(super) fn ask(named: Option<&str>) -> Result<Farm, Error> {
        let socket = farm_cmds::socket(named)?;
        let guests = service::table(&socket)?.guests;
        Ok(Farm { socket, guests })
    }

    /// Returns the guests of these classes, or of all classes if none is given.
    fn of_classes(&self, classes: &[String]) -> Result<Vec<&FarmGuest>, Error> {
        let is_there = |class: &&String| self.guests.iter().any(|guest| guest.class == **class);
        if let Some(unknown) = classes.iter().find(|class| !is_there(class)) {
            return Err(Error::NoClass(unknown.escape_debug().to_string()));
        }
        let is_meant = |guest: &&FarmGuest| classes.is_empty() || classes.contains(&guest.class);
        Ok(self.guests.iter().filter(is_meant).collect())
    }

    /// Returns the named guests. Without names, returns the guests of the classes.
    pub(super) fn names(&self, named: &[String], classes: &[String]) -> Result<Vec<String>, Error> {
        let found = self.of_classes(classes)?;
        let found: Vec<String> = found.into_iter().map(|guest| guest.name.clone()).collect();
        if let Some(unknown) = named.iter().find(|name| !found.contains(name)) {
            return Err(Error::NoGuest(unknown.escape_debug().to_string()));
        }
        Ok(if named.is_empty() { found } else { named.to_vec() })
    }
}

pub(super) fn targets(args: &TargetArgs) -> Result<Vec<Target>, Error> {
    let farm = Farm::ask(args.farm.as_deref())?;
    let guests = farm.of_classes(&args.class)?;
    let found: Vec<Target> =
        guests.into_iter().filter_map(|guest| target(guest, args.port, &args.path)).collect();
    if found.is_empty() {
        let port = args.port.map_or("a port".to_owned(), |port| format!("port {port}"));
        return Err(Error::NoPort(port));
    }
    Ok(found)
}

/// Returns a guest's server on the host's loopback. Returns `None` if the guest has no such port.
fn target(guest: &FarmGuest, port: Option<u16>, path: &str) -> Option<Target> {
    Some(Target {
        name: guest.name.clone(),
        class: guest.class.clone(),
        address: guest.reached_at(port)?,
        path: path.to_owned(),
    })
}

impl lab::load::Exec for Farm {
    fn exec(&self, guest: &str, line: &str, timeout: Duration) -> Result<Output, ExecError> {
        // The command must end by itself, because the host cannot end a command in a guest.
        let seconds = timeout.as_secs().max(1);
        let command = format!("timeout -s KILL {seconds} sh -c {}", base::shell_word(line));
        let deadline = Deadline::after(timeout + GRACE);
        Ok(service::run(&self.socket, guest, &command, deadline)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manager::control::ServedPort;

    fn farm() -> Farm {
        let guest = |name: &str, class: &str, ports: &[(u16, u16)]| FarmGuest {
            name: name.to_owned(),
            class: class.to_owned(),
            ports: ports.iter().map(|&(guest, host)| ServedPort { guest, host }).collect(),
            ..FarmGuest::default()
        };
        let guests =
            vec![guest("web1", "web", &[(80, 18000), (22, 19000)]), guest("db1", "db", &[])];
        Farm { socket: PathBuf::new(), guests }
    }

    #[test]
    fn a_guests_server_is_found_by_its_port_on_the_host() {
        let farm = farm();
        let found = target(&farm.guests[0], None, "/page").unwrap();
        assert_eq!((found.name.as_str(), found.class.as_str()), ("web1", "web"));
        assert_eq!(
            (found.address.to_string().as_str(), found.path.as_str()),
            ("127.0.0.1:18000", "/page")
        );
        let found = target(&farm.guests[0], Some(22), "/").unwrap();
        assert_eq!(found.address.port(), 19000);
        assert_eq!(target(&farm.guests[0], Some(23), "/"), None);
        assert_eq!(target(&farm.guests[1], None, "/"), None);
    }

    #[test]
    fn guests_are_selected_by_name_or_class() {
        let farm = farm();
        assert_eq!(farm.names(&[], &[]).unwrap(), ["web1", "db1"]);
        assert_eq!(farm.names(&[], &["db".to_owned()]).unwrap(), ["db1"]);
        assert_eq!(farm.names(&["web1".to_owned()], &[]).unwrap(), ["web1"]);
        let error = farm.names(&["web2".to_owned()], &[]).unwrap_err().to_string();
        assert!(error.contains("no guest `web2`"), "{error}");
        let error = farm.names(&[], &["app".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no class `app`"), "{error}");
    }
}
