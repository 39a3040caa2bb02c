//! A daemon and the port to it: what [`Agent`] answers and asks, sent.

use std::time::Duration;

use counters::Bytes;
use reactor::{Connection, PollFlags};
use wire::{Dropped, File, Identity, ToGuest};

use crate::agent::{Agent, DaemonEvent};
use crate::port::Port;

/// A daemon, and its port while that is open.
#[derive(Debug, Default)]
pub struct AgentLink {
    agent: Agent,
    port: Option<Port>,
    is_lost: bool,
}

impl AgentLink {
    /// The port is not open yet.
    pub fn new(agent: Agent) -> AgentLink {
        AgentLink { agent, port: None, is_lost: false }
    }

    /// The daemon's state.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Forgets the reports of the guest's state.
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

    /// Whether the port is open.
    pub fn is_open(&self) -> bool {
        self.port.is_some()
    }

    /// Whether the other end has closed the port.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn lose(&mut self) {
        self.close();
        self.is_lost = true;
    }

    /// What to wait for, while the port is open. One without a budget is not waited for at all:
    /// if its other end is closed, that would be reported again and again until it may be read.
    pub fn connection(&self) -> Option<(&Connection, PollFlags)> {
        let port = self.port.as_ref()?;
        Some((port.connection(), port.flags())).filter(|(_, flags)| !flags.is_empty())
    }

    /// Gives the port its budget, and up what the daemon is late with.
    pub fn tick(&mut self, now_ms: u64) -> Vec<DaemonEvent> {
        if let Some(port) = &mut self.port {
            port.refill(now_ms);
        }
        std::iter::from_fn(|| self.agent.late_file(now_ms)).collect()
    }

    /// Takes what the daemon has sent, and hands over what waits for it.
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
        if self.port.as_mut().is_some_and(|port| port.send(message).is_err()) {
            self.lose();
        }
    }

    fn send_if(&mut self, message: Option<ToGuest>) -> bool {
        message.inspect(|message| self.send(message)).is_some()
    }

    /// Bounds its claims by what it may have now.
    pub fn bound(&mut self, memory: Bytes) {
        self.agent.bounds.memory = memory;
    }

    /// Introduces the host.
    pub fn welcome(&mut self) {
        self.send(&self.agent.welcome());
    }

    /// Its guest has started again: its daemon will send a hello.
    pub fn rebooted(&mut self) {
        self.agent.gone();
    }

    /// Its guest's virtual CPUs use this much, in percent of one CPU.
    pub fn load(&mut self, cpu_percent: f64, now_ms: u64) {
        let look = self.agent.look(cpu_percent, now_ms);
        self.send_if(look);
    }

    /// Asks how the guest's memory is. False if no answer is to be waited for.
    pub fn ask_sample(&mut self, now_ms: u64) -> bool {
        let question = self.agent.ask_sample(now_ms);
        self.send_if(question) && self.agent.is_worth_waiting()
    }

    /// Asks for the guest's tasks. False if no daemon is there.
    pub fn ask_tasks(&mut self) -> bool {
        let question = self.agent.ask_tasks();
        self.send_if(question)
    }

    /// Asks when its guest wants to run by itself. False if no daemon is there.
    pub fn ask_alarm(&mut self) -> bool {
        let question = self.agent.ask_alarm();
        self.send_if(question)
    }

    /// Asks for a file; the answer has this number. `None` while too many are on their way.
    pub fn ask_file(&mut self, file: File, now_ms: u64) -> Option<u32> {
        let (sequence, question) = self.agent.ask_file(file, now_ms)?;
        self.send(&question);
        Some(sequence)
    }

    /// Sends how much the guest keeps, and why.
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

    /// Bytes that were no message, and turns in which the daemon sent too much.
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
    fn a_port_without_a_budget_is_not_waited_for_even_if_it_is_closed() {
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
    fn a_flood_of_small_messages_is_not_kept_and_comes_within_its_budget() {
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
