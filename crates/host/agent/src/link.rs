//! Link to a daemon through its port. The link sends the answers and requests of [`Agent`].

use std::time::Duration;

use base::Bytes;
use reactor::{Connection, PollFlags};
use wire::{Dropped, Identity, ToGuest};

use crate::agent::{Agent, DaemonEvent};
use crate::port::Port;

/// A daemon's state, and the daemon's port while the port is open.
#[derive(Debug, Default)]
pub struct AgentLink {
    agent: Agent,
    port: Option<Port>,
    is_lost: bool,
}

impl AgentLink {
    /// Creates a link without a port.
    pub fn new(agent: Agent) -> AgentLink {
        AgentLink { agent, port: None, is_lost: false }
    }

    /// Returns the daemon's state.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Drops the last status and sample of the guest.
    pub fn forget_state(&mut self) {
        self.agent.forget_state();
    }

    /// Uses this port from now on. Nothing is sent yet.
    pub fn open(&mut self, port: Port) {
        (self.port, self.is_lost) = (Some(port), false);
    }

    /// Closes the port.
    pub fn close(&mut self) {
        (self.port, self.is_lost) = (None, false);
        self.agent.gone();
    }

    /// Returns true if the port is open.
    pub fn is_open(&self) -> bool {
        self.port.is_some()
    }

    /// Returns true if the other end has closed the port.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn lose(&mut self) {
        self.close();
        self.is_lost = true;
    }

    /// Returns the connection and the events to poll for, while the port is open. Returns `None`
    /// while the budget is used up, because poll would report a closed other end again and again.
    pub fn connection(&self) -> Option<(&Connection, PollFlags)> {
        let port = self.port.as_ref()?;
        Some((port.connection(), port.flags())).filter(|(_, flags)| !flags.is_empty())
    }

    /// Refills the port's budget, and gives up late files.
    pub fn tick(&mut self, now_ms: u64) -> Vec<DaemonEvent> {
        if let Some(port) = &mut self.port {
            port.refill(now_ms);
        }
        std::iter::from_fn(|| self.agent.late_files(now_ms)).collect()
    }

    /// Handles the daemon's messages, and sends waiting messages.
    pub fn turn(&mut self, flags: PollFlags, now_ms: u64) -> Vec<DaemonEvent> {
        let mut events = Vec::new();
        let Some(port) = &mut self.port else { return events };
        let sent = port.flush();
        let received = match flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            true => port.receive(),
            false => Ok(()),
        };
        while let Some(message) = self.port.as_mut().and_then(Port::next) {
            let (answer, event) = self.agent.take(message, now_ms);
            self.send_if(answer);
            events.extend(event);
        }
        if sent.is_err() || received.is_err() {
            self.lose();
        }
        events
    }

    /// Sends a message, now or when the daemon reads.
    pub fn send(&mut self, message: &ToGuest) {
        self.send_all(std::slice::from_ref(message));
    }

    fn send_all(&mut self, messages: &[ToGuest]) {
        if self.port.as_mut().is_some_and(|port| port.send_all(messages).is_err()) {
            self.lose();
        }
    }

    fn send_if(&mut self, message: Option<ToGuest>) -> bool {
        message.inspect(|message| self.send(message)).is_some()
    }

    /// Sets the guest's memory after a hotplug. The daemon's reports are capped at this size.
    pub fn bound(&mut self, memory: Bytes) {
        self.agent.bounds.memory = memory;
    }

    /// Sends the host's introduction.
    pub fn welcome(&mut self) {
        self.send(&self.agent.welcome());
    }

    /// Handles a restart of the guest, after which its daemon will send a hello.
    pub fn rebooted(&mut self) {
        self.agent.gone();
    }

    /// Handles the usage of the guest's virtual CPUs, in percent of one CPU.
    pub fn load(&mut self, cpu_percent: f64, now_ms: u64) {
        let look = self.agent.look(cpu_percent, now_ms);
        self.send_if(look);
    }

    /// Requests the guest's memory statistics. Returns false if no answer is expected.
    pub fn ask_sample(&mut self, now_ms: u64) -> bool {
        let questions = self.agent.ask_sample(now_ms);
        self.send_all(&questions);
        !questions.is_empty() && self.agent.is_worth_waiting()
    }

    /// Requests the guest's tasks. Returns false if no daemon is connected.
    pub fn ask_tasks(&mut self) -> bool {
        let question = self.agent.ask_tasks();
        self.send_if(question)
    }

    /// Requests the time of the guest's next timer. Returns false if no daemon is connected.
    pub fn ask_alarm(&mut self) -> bool {
        let question = self.agent.ask_alarm();
        self.send_if(question)
    }

    /// Requests the files that rules read, and returns the number that the answer will have.
    /// Returns `None` while too many requests are open.
    pub fn ask_files(&mut self, now_ms: u64) -> Option<u32> {
        let (number, questions) = self.agent.ask_files(now_ms)?;
        questions.iter().for_each(|question| self.send(question));
        Some(number)
    }

    /// Sends the memory that the guest keeps, and the reason.
    pub fn grant(&mut self, sequence: u32, keeps: Bytes, reason: String) {
        let grant = self.agent.grant(sequence, keeps, reason);
        self.send_if(grant);
    }

    /// Sends the time of day, since 1970, to a guest that was stopped.
    pub fn clock(&mut self, time: Duration) {
        self.send(&ToGuest::Clock(time));
    }

    /// Sends a clone its identity, once.
    pub fn identify(&mut self, identity: Identity) {
        let message = self.agent.identify(identity);
        self.send_if(message);
    }

    /// Returns the bytes that were no valid message, and the number of turns in which the daemon
    /// sent too much.
    pub fn misbehaviour(&self) -> (Dropped, u64) {
        self.port.as_ref().map_or_else(Default::default, |port| (port.dropped(), port.floods))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn link() -> (AgentLink, UnixStream) {
        let (guest, host) = UnixStream::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        let mut link = AgentLink::default();
        link.open(Port::new(host, 0).unwrap());
        (link, guest)
    }

    #[test]
    fn port_without_a_budget_is_not_polled_even_if_closed() {
        let (mut link, mut guest) = link();
        for turn in 0.. {
            while guest.write(&[0x9D; 4096]).is_ok() {}
            link.turn(PollFlags::IN, 0);
            if link.connection().is_none() {
                break;
            }
            assert!(turn < 1_000, "its budget has no end");
        }
        drop(guest);
        assert!(link.connection().is_none());
        for now_ms in (250..60_000).step_by(250) {
            link.tick(now_ms);
            link.turn(PollFlags::IN | PollFlags::HUP, now_ms);
        }
        assert!(link.is_lost() && !link.is_open(), "its end is seen when it may be read");
    }

    #[test]
    fn flood_of_small_messages_stays_within_its_budget() {
        let (mut link, mut guest) = link();
        let mut byes = Vec::new();
        (0..1_000).for_each(|_| wire::encode(&wire::ToHost::Bye, &mut byes));
        let mut events = 0;
        guest.write_all(&byes).unwrap();
        for _ in 0..3 {
            events += link.turn(PollFlags::IN, 0).len();
        }
        assert!((600..800).contains(&events), "one read, all of it taken at once: {events}");
        for now_ms in (0..20_000).step_by(250) {
            link.tick(now_ms);
            events += link.turn(PollFlags::IN, now_ms).len();
        }
        assert_eq!(events, 1_000, "the rest comes when there is a budget for it");
    }
}
