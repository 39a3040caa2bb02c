//! A guest that is up, with a client on each of its connections, for tests.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use qmp::{Command, Reply};
use wire::{Decoder, Identified, ToGuest, ToHost};

use crate::deadline::read_before;
use crate::evidence::{self, Hung};
use crate::identity::identity;
use crate::spec::up_marker;
use crate::{
    Console, Ctl, Deadline, Error, GoOn, Guest, GuestSpec, Monitor, NetLink, Process, SocketFile,
};

/// A running guest with its connections in use. Dropping the session kills the guest. In a panic,
/// the drop prints the console's last output, to explain the failed test.
#[derive(Debug)]
pub struct Session {
    /// Name of the guest.
    pub name: String,
    /// QEMU process of the guest.
    pub process: Process,
    /// QEMU's monitor.
    pub monitor: Monitor,
    /// The host's end of the daemon's port.
    pub port: UnixStream,
    /// The guest's console.
    pub console: Console,
    /// The guest's shell; `None` if the guest was started without a control port.
    pub ctl: Option<Ctl>,
    /// Sockets for the frames of a linked guest.
    pub link: Option<NetLink>,
    /// Sockets that other processes may connect to.
    pub sockets: Vec<SocketFile>,
}

/// Name of the daemon's port in errors.
const PORT: &str = "port";

/// Maximum wait for the exit of a QEMU with closed sockets, so that its standard error can be
/// shown.
const END_GRACE: Duration = Duration::from_secs(5);

/// Interval at which a QEMU that loads a state is polled.
const STEP: Duration = Duration::from_millis(10);

impl Session {
    /// Starts a guest and waits until it is up. A guest that starts from a saved state gets its
    /// identity.
    pub fn boot(spec: &GuestSpec, deadline: Deadline) -> Result<Session, Error> {
        Session::of(spec, spec.start()?, deadline)
    }

    /// Waits until a guest that was just started is up.
    pub(crate) fn of(spec: &GuestSpec, guest: Guest, deadline: Deadline) -> Result<Session, Error> {
        let mut session = Session {
            name: guest.name,
            process: guest.process,
            monitor: Monitor::new(guest.qmp),
            port: guest.port,
            console: Console::start(guest.console)?,
            ctl: guest.ctl.map(Ctl::new),
            link: guest.link,
            sockets: guest.port_file.into_iter().chain(guest.monitor_file).collect(),
        };
        match guest.go_on {
            None => session.wait_until_up(spec, deadline)?,
            Some(state) => {
                session.go_on(state, deadline)?;
                session.send_identity(identity(spec, guest.uuid)?, deadline)?;
            }
        }
        Ok(session)
    }

    fn wait_until_up(&mut self, spec: &GuestSpec, deadline: Deadline) -> Result<(), Error> {
        let Err(source) = self.console.wait_for(&up_marker(&spec.name), deadline) else {
            return Ok(());
        };
        if matches!(source, Error::Channel { .. }) {
            // An error of the wait is ignored, because the check below returns a better one.
            let _ = self.process.wait(Deadline::after(END_GRACE));
        }
        self.process.check(&self.name)?;
        let mut console = self.console.text();
        if matches!(source, Error::Deadline { .. }) {
            let hung = Hung::new(spec, &self.process, console.clone());
            console.push_str(&match evidence::keep(&hung, &mut self.monitor) {
                Ok(directory) => format!("\nThe evidence is in {}", directory.display()),
                Err(error) => format!("\nThe evidence could not be saved: {error}"),
            });
        }
        Err(Error::NotUp { guest: self.name.clone(), console, source: Box::new(source) })
    }

    fn go_on(&mut self, state: GoOn, deadline: Deadline) -> Result<(), Error> {
        for command in state.commands() {
            self.monitor.call(command, deadline)?;
        }
        // QEMU does nothing else while it loads the state, so it answers only afterwards.
        while !matches!(
            self.monitor.call(Command::QueryStatus, deadline)?,
            Reply::Status(state) if state.running
        ) {
            if !matches!(self.process.wait(Deadline::after(STEP)), Ok(None)) {
                let reason = format!("QEMU does not resume: {}", self.process.stderr());
                return Err(Error::Template { guest: self.name.clone(), reason });
            }
        }
        Ok(())
    }

    /// Sends the guest's identity to its daemon, and waits until the daemon has applied it.
    fn send_identity(&mut self, identity: wire::Identity, deadline: Deadline) -> Result<(), Error> {
        let taken = |message| match message {
            ToHost::Identified(Identified { refusal }) => Some(refusal),
            _ => None,
        };
        let refusal = self.ask_daemon(&ToGuest::Identify(identity), taken, deadline)?;
        if refusal.is_empty() {
            return Ok(());
        }
        let reason = format!("The clone does not adopt its name: {refusal}");
        Err(Error::Template { guest: self.name.clone(), reason })
    }

    pub(crate) fn ask_daemon<T>(
        &mut self,
        question: &ToGuest,
        answer: impl Fn(ToHost) -> Option<T>,
        deadline: Deadline,
    ) -> Result<T, Error> {
        let mut words = Vec::new();
        wire::encode(question, &mut words);
        self.port.write_all(&words).map_err(|source| Error::Channel { channel: PORT, source })?;
        let (mut decoder, mut chunk) = (Decoder::new(), [0; 512]);
        loop {
            let waits = format_args!("the answer of {}'s daemon", self.name);
            let count = read_before(&mut self.port, &mut chunk, deadline, PORT, &waits)?;
            decoder.feed(&chunk[..count]);
            while let Some(message) = decoder.next() {
                if let Some(found) = answer(message) {
                    return Ok(found);
                }
            }
        }
    }

    /// Runs one line in the guest's shell and returns its output. A command that fails is an error.
    pub fn sh(&mut self, command: &str, deadline: Deadline) -> Result<String, Error> {
        let no_ctl = || Error::Spec {
            guest: self.name.clone(),
            reason: "it was started without a control port".to_owned(),
        };
        self.ctl.as_mut().ok_or_else(no_ctl)?.succeed(command, deadline)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- console of {}:\n{}", self.name, self.console.text());
            eprintln!("--- QEMU's standard error:\n{}---", self.process.stderr());
        }
    }
}
