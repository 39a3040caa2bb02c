//! Lifecycle of the connection, and the comparison of its lists of domains.

use std::io;

use virtrpc::{Auth, Domain, EventKind, Failure, Reply};

use super::connection::{BACKOFF_MIN_MS, Up};
use super::guest::{Ask, Came, LibvirtGuest, PROBE_MS};
use super::link::{Asker, Link, Received, Step};
use super::search::Search;
use super::{Libvirt, trouble};
use crate::Event;
use crate::owner::{self, Refused};

/// Interval of the lists of all domains, which find changes if an event was lost.
const LIST_MS: u64 = 30_000;

impl Libvirt {
    /// Connects if there is no connection and the next attempt is due.
    pub(super) fn connect(&mut self, now_ms: u64) {
        if self.connection.up.is_some() || now_ms < self.connection.again_ms {
            return;
        }
        for socket in &self.sockets {
            let owner = match owner::of_socket(socket) {
                Ok(owner) if self.trust.covers(owner) => owner,
                Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(Refused::Io(error)) => {
                    return self.fail(trouble::no_connection(socket, &error), now_ms);
                }
                refused => {
                    return self.fail(trouble::not_ours(socket, refused.ok()), now_ms);
                }
            };
            // The timeout grows with each attempt, so that the daemon of a busy host succeeds in
            // the end.
            let (step_ms, guests_wait) = (self.connection.backoff_ms, !self.guests.is_empty());
            match Link::to(socket, owner, step_ms, guests_wait) {
                Ok(link) => {
                    let search = Search::for_socket(socket);
                    let socket = socket.clone();
                    let up = Up { link, search, owner, socket, is_listed: false, list_ms: None };
                    self.connection.up = Some(up);
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let sentence = trouble::no_connection(socket, &error);
                    return self.fail(sentence, now_ms);
                }
            }
        }
        self.fail(trouble::no_socket(&self.sockets, &self.uri), now_ms);
    }

    /// Drops the connection, reports the reason, and schedules the next attempt. Until then no
    /// guest counts as responding.
    fn fail(&mut self, sentence: String, now_ms: u64) {
        self.let_go();
        self.connection.back_off(now_ms);
        for guest in self.guests.values_mut() {
            if std::mem::take(&mut guest.reach.answers) && guest.is_reported {
                self.out.push(Event::Answers(guest.id, false));
            }
        }
        self.report(sentence);
    }

    /// Reports a problem once.
    fn report(&mut self, sentence: String) {
        if self.trouble.as_ref() != Some(&sentence) {
            self.out.push(Event::Trouble(sentence.clone()));
            self.trouble = Some(sentence);
        }
    }

    fn let_go(&mut self) {
        let Some(up) = self.connection.up.take() else { return };
        let why = || "the connection to libvirt was lost".to_owned();
        let refused = |id| Event::Refused(id, why());
        for asker in up.link.into_askers() {
            if let Asker::Guest(id, ask) = asker
                && let Some(guest) = self.guests.get_mut(id)
            {
                guest.is_open = false;
                if let Ask::Target(_) = ask {
                    self.out.push(refused(id));
                }
            }
        }
        for guest in self.guests.values_mut() {
            guest.reach.is_known = false;
            guest.question.give_up();
            if guest.wants.target.take().is_some() {
                self.out.push(refused(guest.id));
            }
            // An unsent request is dropped and reported as failed, because its caller gives up
            // before a new connection. A sent request may still be carried out, so no failure is
            // reported.
            if guest.wants.running.take().is_some() {
                self.out.push(Event::Stays(guest.id, why()));
            }
        }
    }

    pub(super) fn receive(&mut self, now_ms: u64) {
        let Some(up) = &mut self.connection.up else { return };
        let mut received = Vec::new();
        let loss = up.link.read(&mut received).err();
        let socket = up.socket.clone();
        for item in received {
            match item {
                Received::Reply(Asker::Session(step), outcome) => {
                    self.step_done(step, outcome, now_ms);
                }
                Received::Reply(Asker::Guest(id, ask), outcome) => {
                    self.guest_done(id, ask, outcome, now_ms);
                }
                Received::Event(event) => self.event(event, now_ms),
            }
        }
        if let Some(loss) = loss
            && self.connection.up.is_some()
        {
            self.fail(trouble::lost(&socket, &loss), now_ms);
        }
    }

    pub(super) fn look_at_late(&mut self, now_ms: u64) {
        let Some(up) = &mut self.connection.up else { return };
        let late = up.link.late(now_ms);
        let (is_clogged, socket) = (up.link.is_clogged(), up.socket.clone());
        for asker in late {
            match asker {
                Asker::Session(Step::List) if !self.guests.is_empty() => {
                    self.list_is_late(trouble::no_list(&socket), now_ms);
                }
                Asker::Session(_) => return self.fail(trouble::silent(&socket), now_ms),
                Asker::Guest(id, _) => self.guest_is_late(id),
            }
        }
        if is_clogged {
            // A new connection serves the guests that respond, without waiting for the others.
            self.let_go();
            self.connection.again_ms = now_ms;
            self.connect(now_ms);
        }
    }

    /// Handles a late list. libvirt's list waits for each domain, so one busy domain delays the
    /// list. Until the list arrives, the guests of the last list are queried one by one. The first
    /// query of each guest reads its number.
    fn list_is_late(&mut self, sentence: String, now_ms: u64) {
        let Some(up) = &mut self.connection.up else { return };
        up.is_listed = true;
        for guest in self.guests.values_mut().filter(|guest| !guest.reach.is_known) {
            guest.due_ms = Some(now_ms);
        }
        for id in self.guests.ids() {
            self.guests.queue(id);
        }
        self.look_at_due(now_ms);
        self.report(sentence);
    }

    /// Sends the due calls, until there is no room for another call.
    pub(super) fn ask(&mut self, now_ms: u64) {
        let Some(up) = &mut self.connection.up else { return };
        if up.list_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            up.list_ms = None;
            up.link.next_step(Step::List);
        }
        up.link.take_step(&self.uri, now_ms);
        while up.is_listed
            && up.link.has_room()
            && let Some(guest) = self.guests.next_queued()
        {
            if let Some((ask, call)) = guest.next_call() {
                guest.is_open = up.link.ask(Asker::Guest(guest.id, ask), call, now_ms);
            }
        }
        if let Err(loss) = up.link.write() {
            let sentence = trouble::lost(&up.socket, &loss);
            self.fail(sentence, now_ms);
        }
    }

    fn step_done(&mut self, step: Step, outcome: Result<Reply, Failure>, now_ms: u64) {
        let Some(up) = &mut self.connection.up else { return };
        match (step, outcome) {
            (Step::Auths, Ok(Reply::Auths(list))) => {
                if list.is_empty() || list.contains(&Auth::None) {
                    up.link.next_step(Step::Open);
                } else if list.contains(&Auth::Polkit) {
                    up.link.next_step(Step::Polkit);
                } else {
                    let sentence = trouble::no_proof(&up.socket);
                    self.fail(sentence, now_ms);
                }
            }
            (Step::Auths | Step::Polkit, Ok(_)) => up.link.next_step(Step::Open),
            (Step::Open, Ok(_)) => up.link.next_step(Step::Register(0)),
            // An older libvirt lacks some of the events. The list finds the changes that these
            // events report.
            (Step::Register(index), _) => {
                let next = index + 1;
                let is_last = next >= EventKind::ALL.len();
                up.link.next_step(if is_last { Step::List } else { Step::Register(next) });
            }
            (Step::List, Ok(reply)) => {
                let list = if let Reply::Domains(list) = reply { list } else { Vec::new() };
                up.list_ms = Some(now_ms + LIST_MS);
                up.is_listed = true;
                let socket = up.socket.clone();
                self.connection.backoff_ms = BACKOFF_MIN_MS;
                match self.compare(list, now_ms) {
                    0 => self.trouble = None,
                    left_out => self.report(trouble::too_many(&socket, left_out)),
                }
            }
            (_, Err(failure)) => {
                let sentence = trouble::refused(&up.socket, &self.uri, step, &failure);
                self.fail(sentence, now_ms);
            }
        }
    }

    /// Compares the listed domains with the known guests. Returns the number of domains that exceed
    /// the limit.
    fn compare(&mut self, list: Vec<Domain>, now_ms: u64) -> usize {
        let mut left_out = 0;
        for id in self.guests.not_in(&list) {
            self.gone(id, "libvirt does not list the domain any more");
        }
        for domain in list {
            let has_room = self.guests.has_room();
            match self.guests.by_uuid(&domain.uuid) {
                Some(guest) if guest.is_same(&domain) => {
                    let (id, is_known) = (guest.id, guest.reach.is_known);
                    if !is_known {
                        self.is_back(id, now_ms);
                    }
                }
                Some(guest) => {
                    let id = guest.id;
                    self.restarted(id, domain, now_ms);
                }
                None if domain.id >= 0 && !has_room => left_out += 1,
                None => self.came(domain, None, now_ms),
            }
        }
        left_out
    }

    /// Replaces a guest by another domain with the same name and UUID.
    pub(super) fn restarted(&mut self, id: crate::Id, domain: Domain, now_ms: u64) {
        self.gone(id, "it was restarted");
        self.came(domain, None, now_ms);
    }

    /// Marks a guest of the previous list as known on the new connection.
    pub(super) fn is_back(&mut self, id: crate::Id, now_ms: u64) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        guest.ignored = None;
        guest.reach.is_known = true;
        guest.wants.xml |= guest.description.is_none();
        guest.wants.state = true;
        guest.wants.info = true;
        if guest.reach.is_stuck {
            guest.due_ms = Some(now_ms + PROBE_MS);
        } else if !std::mem::replace(&mut guest.reach.answers, true) && guest.is_reported {
            self.out.push(Event::Answers(id, true));
        }
        self.guests.queue(id);
    }

    pub(super) fn came(&mut self, domain: Domain, came: Option<Came>, now_ms: u64) {
        if domain.id >= 0 && self.guests.has_room() {
            self.guests.add(LibvirtGuest::new(self.ids.next(), domain, came, now_ms));
        }
    }
}
