//! Simulated guests, for tests of the layers above.
//!
//! A test keeps one handle, and the manager gets a clone of it. Changes are reported in the
//! manager's next turn, and the test can inspect the manager's requests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::Bytes;
use model::{GuestField, Row};
use reactor::PollSet;

use crate::{Capabilities, Event, Found, Hypervisor, Id, IdSource, Owner, Pause, RunState};

/// Reaction of a guest's balloon to its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balloon {
    /// The guest has its new size in the next turn.
    Quick,
    /// The balloon moves this many bytes a second.
    Slow(Bytes),
    /// Targets are accepted, but nothing moves.
    Stuck,
    /// Targets are refused with this message.
    Refuses(String),
    /// QEMU hangs, and no request gets a response.
    Silent,
}

/// A source of guests under a test's control.
#[derive(Clone, Debug)]
pub struct Fake {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    ids: IdSource,
    guests: BTreeMap<Id, Guest>,
    events: Vec<Event>,
    targets: Vec<(u64, Id, Bytes)>,
    stats_asked: Vec<(u64, Id)>,
    /// Requests to run or pause vCPUs, in order.
    runs: Vec<(Id, bool)>,
}

#[derive(Debug)]
struct Guest {
    memory: Bytes,
    actual: Bytes,
    target: Bytes,
    balloon: Balloon,
    stats: Option<Row<GuestField>>,
    moved_ms: u64,
    /// True if it was reported that the guest's hypervisor does not respond.
    is_silent: bool,
}

impl Fake {
    /// Creates a source without guests.
    pub fn new(name: &str, ids: IdSource) -> Fake {
        let inner = Inner {
            name: name.to_owned(),
            ids,
            guests: BTreeMap::new(),
            events: Vec::new(),
            targets: Vec::new(),
            stats_asked: Vec::new(),
            runs: Vec::new(),
        };
        Fake { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Returns a running guest with all of its memory and all capabilities. The guest has no
    /// process and no port, so the host cannot watch it.
    pub fn found(name: &str, memory: Bytes) -> Found {
        let mut uuid = [0; 16];
        for (byte, of_name) in uuid.iter_mut().zip(name.bytes()) {
            *byte = of_name;
        }
        Found {
            name: name.to_owned(),
            uuid,
            owner: Owner::own(),
            user: Some(Owner::own()),
            process: None,
            memory,
            ram: Vec::new(),
            actual: memory,
            vcpu_tids: Vec::new(),
            can: Capabilities {
                pinned: None,
                balloon: true,
                statistics: true,
                deflate_on_oom: Some(true),
                page_reporting: Some(false),
                port: false,
            },
            port: None,
            state: RunState::Running,
            is_restored: false,
            source: "fake".into(),
        }
    }

    /// Adds a guest with a quick balloon.
    pub fn add(&self, found: Found) -> Id {
        let mut inner = self.inner.borrow_mut();
        let id = inner.ids.next();
        let guest = Guest {
            memory: found.memory,
            actual: found.actual,
            target: found.actual,
            balloon: Balloon::Quick,
            stats: None,
            moved_ms: 0,
            is_silent: false,
        };
        inner.guests.insert(id, guest);
        inner.events.push(Event::Found(id, Box::new(found)));
        id
    }

    /// Changes the reaction of a guest's balloon.
    pub fn set_balloon(&self, guest: Id, balloon: Balloon) {
        self.change(guest, |guest| guest.balloon = balloon);
    }

    /// Sets a guest's response to a request for statistics; `None` for no response.
    pub fn set_stats(&self, guest: Id, stats: Option<Row<GuestField>>) {
        self.change(guest, |guest| guest.stats = stats);
    }

    /// Changes a guest's size as another manager would. The next event reports it.
    pub fn set_actual(&self, guest: Id, actual: Bytes) {
        self.change(guest, |guest| (guest.actual, guest.target) = (actual, actual));
        self.emit(Event::Actual(guest, actual));
    }

    pub fn reboot(&self, guest: Id) {
        self.emit(Event::Rebooted(guest));
    }

    /// Changes a guest's run state.
    pub fn set_state(&self, guest: Id, state: RunState) {
        self.emit(Event::State(guest, state));
    }

    pub fn remove(&self, guest: Id, reason: &str) {
        if self.inner.borrow_mut().guests.remove(&guest).is_some() {
            self.emit(Event::Gone(guest, reason.to_owned()));
        }
    }

    /// Reports any event in the next turn.
    pub fn emit(&self, event: Event) {
        if let Event::Machine(guest, machine) = &event {
            self.change(*guest, |it| it.memory = machine.memory);
        }
        self.inner.borrow_mut().events.push(event);
    }

    /// Returns all requested targets with their times, in order.
    pub fn targets(&self) -> Vec<(u64, Id, Bytes)> {
        self.inner.borrow().targets.clone()
    }

    /// Returns the requests for statistics with their times, in order.
    pub fn stats_asked(&self) -> Vec<(u64, Id)> {
        self.inner.borrow().stats_asked.clone()
    }

    /// Returns the requests to pause (`false`) or resume vCPUs, in order.
    pub fn runs(&self) -> Vec<(Id, bool)> {
        self.inner.borrow().runs.clone()
    }

    /// Returns the current size of a guest; `None` if it is gone.
    pub fn actual(&self, guest: Id) -> Option<Bytes> {
        self.inner.borrow().guests.get(&guest).map(|guest| guest.actual)
    }

    fn change(&self, guest: Id, change: impl FnOnce(&mut Guest)) {
        self.inner.borrow_mut().guests.get_mut(&guest).map(change);
    }
}

impl Inner {
    /// Returns the guest unless its hypervisor is silent. Emits an event when the silence begins or
    /// ends.
    fn answering(&mut self, guest: Id) -> Option<&mut Guest> {
        let found = self.guests.get_mut(&guest)?;
        let is_silent = found.balloon == Balloon::Silent;
        if is_silent != found.is_silent {
            found.is_silent = is_silent;
            self.events.push(Event::Answers(guest, !is_silent));
        }
        (!is_silent).then_some(found)
    }
}

impl Guest {
    /// Moves towards the target. Returns true if the size changes.
    fn moves(&mut self, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.moved_ms);
        let step = match self.balloon {
            Balloon::Quick => u64::MAX,
            Balloon::Slow(a_second) => a_second.0.saturating_mul(passed_ms) / 1000,
            Balloon::Stuck | Balloon::Refuses(_) | Balloon::Silent => 0,
        };
        let before = self.actual;
        self.actual = match self.target > before {
            true => Bytes(before.0.saturating_add(step).min(self.target.0)),
            false => Bytes(before.0.saturating_sub(step).max(self.target.0)),
        };
        // A slow balloon accumulates time until it may move by a byte.
        if self.actual != before || self.actual == self.target {
            self.moved_ms = now_ms;
        }
        self.actual != before
    }
}

impl Hypervisor for Fake {
    fn name(&self) -> String {
        self.inner.borrow().name.clone()
    }

    fn fds<'a>(&'a self, _set: &mut PollSet<'a>) {}

    fn next_ms(&self) -> u64 {
        let inner = self.inner.borrow();
        let mut guests = inner.guests.values();
        let is_busy = !inner.events.is_empty()
            || guests.any(|guest| guest.actual != guest.target && guest.balloon == Balloon::Quick);
        if is_busy { 0 } else { u64::MAX }
    }

    fn turn(&mut self, _ready: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>) {
        let mut inner = self.inner.borrow_mut();
        events.append(&mut inner.events);
        for (id, guest) in &mut inner.guests {
            if guest.moves(now_ms) {
                events.push(Event::Actual(*id, guest.actual));
            }
        }
    }

    fn set_target(&mut self, guest: Id, target: Bytes, now_ms: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.targets.push((now_ms, guest, target));
        let Some(found) = inner.answering(guest) else { return };
        let event = match &found.balloon {
            Balloon::Refuses(words) => Event::Refused(guest, words.clone()),
            _ => {
                // Time before the target was set does not count for a slow balloon.
                if found.actual == found.target {
                    found.moved_ms = now_ms;
                }
                found.target = target.min(found.memory);
                Event::Taken(guest, target)
            }
        };
        inner.events.push(event);
    }

    fn set_running(&mut self, guest: Id, runs: bool, _now_ms: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.runs.push((guest, runs));
        let Some(found) = inner.answering(guest) else { return };
        let event = match &found.balloon {
            Balloon::Refuses(words) => Event::Stays(guest, words.clone()),
            _ if runs => Event::State(guest, RunState::Running),
            _ => Event::State(guest, RunState::Paused(Pause::ByHand)),
        };
        inner.events.push(event);
    }

    fn ask_stats(&mut self, guest: Id, now_ms: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.stats_asked.push((now_ms, guest));
        if let Some(stats) = inner.answering(guest).and_then(|found| found.stats.clone()) {
            inner.events.push(Event::Stats(guest, stats));
        }
    }

    fn ask_actual(&mut self, guest: Id, _now_ms: u64) {
        let mut inner = self.inner.borrow_mut();
        if let Some(actual) = inner.answering(guest).map(|found| found.actual) {
            inner.events.push(Event::Actual(guest, actual));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn turn(fake: &mut Fake, now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        fake.turn(None, now_ms, &mut events);
        events
    }

    #[test]
    fn balloon_follows_its_set_mode() {
        let mut fake = Fake::new("fake", IdSource::new());
        let handle = fake.clone();
        let id = handle.add(Fake::found("g1", Bytes(100 * MIB)));
        assert!(matches!(turn(&mut fake, 0).as_slice(), [Event::Found(found, _)] if *found == id));

        fake.set_target(id, Bytes(90 * MIB), 1000);
        let (taken, actual) = (Event::Taken(id, Bytes(90 * MIB)), Bytes(90 * MIB));
        assert_eq!(turn(&mut fake, 1000), [taken, Event::Actual(id, actual)]);

        handle.set_balloon(id, Balloon::Slow(Bytes(10 * MIB)));
        fake.set_target(id, Bytes(50 * MIB), 2000);
        turn(&mut fake, 2000);
        assert_eq!(turn(&mut fake, 3500), [Event::Actual(id, Bytes(75 * MIB))]);

        handle.set_balloon(id, Balloon::Stuck);
        assert_eq!(turn(&mut fake, 9000), []);
        handle.set_balloon(id, Balloon::Refuses("no".into()));
        fake.set_target(id, Bytes(MIB), 9000);
        assert_eq!(turn(&mut fake, 9000), [Event::Refused(id, "no".into())]);
        assert_eq!(handle.targets().len(), 3);
    }

    #[test]
    fn a_silent_hypervisor_answers_again_when_it_can() {
        let mut fake = Fake::new("fake", IdSource::new());
        let id = fake.add(Fake::found("g1", Bytes(100 * MIB)));
        turn(&mut fake, 0);
        fake.set_stats(id, Some(Row::default()));
        fake.set_balloon(id, Balloon::Silent);
        fake.ask_stats(id, 1);
        fake.ask_actual(id, 1);
        assert_eq!(turn(&mut fake, 1), [Event::Answers(id, false)]);
        fake.set_balloon(id, Balloon::Quick);
        fake.ask_stats(id, 2);
        assert!(matches!(
            turn(&mut fake, 2).as_slice(),
            [Event::Answers(_, true), Event::Stats(_, _)]
        ));
        fake.remove(id, "killed");
        assert_eq!(turn(&mut fake, 3), [Event::Gone(id, "killed".into())]);
        assert_eq!(fake.actual(id), None);
    }
}
