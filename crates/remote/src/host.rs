//! A host that is asked again and again.

use crate::rows::Rows;
use crate::session::Session;
use crate::ssh::Ssh;
use crate::{Error, Uri};
use model::Moment;
use std::process::Command;

/// A host, by its libvirt.
pub struct Host {
    uri: Uri,
    session: Option<Session>,
    rows: Rows,
}

impl Host {
    /// One that was not asked yet.
    pub fn new(uri: Uri) -> Host {
        Host { uri, session: None, rows: Rows::default() }
    }

    /// One that this program speaks for, in place of ssh.
    pub fn behind(program: Command, uri: Uri) -> Result<Host, Error> {
        let session = Session::greet(Ssh::spawn(program)?, &uri)?;
        Ok(Host { uri, session: Some(session), rows: Rows::default() })
    }

    /// Returns true while its connection is there, and the next question needs no other one.
    pub fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        self.uri.host()
    }

    /// Returns how it is at the moment: the time is asked once all counters are read. A connection
    /// that failed is made again by the next question.
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
    use crate::fake::{FakeHost, VCPUS};
    use model::GuestField;

    #[test]
    fn each_look_has_its_time_before_single_domains_are_asked() {
        let fake = FakeHost::new().looks().tells_of_each();
        let uri = Uri::parse("qemu+ssh://b/system").unwrap();
        let mut host = Host::behind(fake.program(), uri).unwrap();
        // The look before, or a long wait for this one, took all of it.
        host.session.as_mut().unwrap().use_up();
        let moment = host.ask(|| 7).unwrap();
        let vcpus = moment.guests.values().map(|row| row.get(GuestField::Vcpus));
        assert!(vcpus.eq([Some(VCPUS.into()); 2]), "{moment:?}");
    }
}
