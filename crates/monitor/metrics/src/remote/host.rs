//! A host that is queried repeatedly.

use crate::remote::rows::Rows;
use crate::remote::session::Session;
use crate::remote::ssh::Ssh;
use crate::remote::{Error, Uri};
use model::Moment;
use std::process::Command;

/// A host, accessed through its libvirt.
pub struct Host {
    uri: Uri,
    session: Option<Session>,
    rows: Rows,
}

impl Host {
    /// Creates a host without a connection.
    pub fn new(uri: Uri) -> Host {
        Host { uri, session: None, rows: Rows::default() }
    }

    /// Creates a host that is reached through this program, in place of ssh.
    pub fn behind(program: Command, uri: Uri) -> Result<Host, Error> {
        let session = Session::greet(Ssh::spawn(program)?, &uri)?;
        Ok(Host { uri, session: Some(session), rows: Rows::default() })
    }

    /// Returns true while the connection to the host is open.
    pub fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the host's name.
    pub fn name(&self) -> &str {
        self.uri.host()
    }

    /// Returns the host's current state. `now_ms` is called after all counters were read. After a
    /// failed connection, the next query connects again.
    pub fn ask(&mut self, now_ms: impl FnOnce() -> i64) -> Result<Moment, Error> {
        let mut session = match self.session.take() {
            Some(mut session) => {
                session.begin();
                session
            }
            None => Session::open(&self.uri)?,
        };
        let told = session.look(now_ms)?;
        self.session = Some(session);
        self.rows.of(&told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::fake::{FakeHost, VCPUS};
    use model::GuestField;

    #[test]
    fn each_query_has_its_time_before_single_domains_are_asked() {
        let fake = FakeHost::new().looks().tells_of_each();
        let uri = Uri::parse("qemu+ssh://b/system").unwrap();
        let mut host = Host::behind(fake.program(), uri).unwrap();
        // An earlier call used all of the host's time.
        host.session.as_mut().unwrap().use_up();
        let moment = host.ask(|| 7).unwrap();
        let vcpus = moment.guests.values().map(|row| row.get(GuestField::Vcpus));
        assert!(vcpus.eq([Some(VCPUS.into()); 2]), "{moment:?}");
    }
}
