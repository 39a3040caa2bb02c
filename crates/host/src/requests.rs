//! What is asked at the control socket, and what is done about it.

use crate::config::Share;
use crate::control::{
    Answer, Ask, Asked, Change, ClientId, Entitled, Failure, Inputs, Peer, Reserved,
};
use crate::guest::Guest;
use crate::manager::Manager;
use crate::rows;
use counters::Bytes;
use hypervisor::Id;
use policy::arbiter::{Clause, Key, Limits, Mode};
use reactor::Event;
use std::collections::BTreeMap;
use store::{News, kinds};

/// No guest lives in less.
const SIZE_MIN: Bytes = Bytes::mib(16);
/// Names that an error message lists at most.
const NAMES_MAX: usize = 12;

/// What the operator set by hand, until the guest or the manager ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Override {
    min: Option<Bytes>,
    max: Option<Bytes>,
    shares: Option<u32>,
    mode: Option<Mode>,
}

impl Override {
    /// The limits with what was set by hand: it gives way to nothing but the guest's size.
    pub(crate) fn applied(&self, limits: Limits, memory: Bytes) -> Limits {
        let max = self.max.unwrap_or(limits.max).min(memory);
        Limits {
            min: self.min.unwrap_or(limits.min).min(max),
            max,
            shares: self.shares.unwrap_or(limits.shares),
            mode: self.mode.unwrap_or(limits.mode),
        }
    }
}

/// A reservation whose client waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    client: ClientId,
    /// The client's own number of its request.
    asked: u64,
    mib: u64,
    hold_ms: u64,
}

impl Manager {
    /// Serves the control socket.
    pub(crate) fn serve(&mut self, ready: &[Event], now: u64) {
        if ready.is_empty() && now < self.control.next_ms() {
            return;
        }
        let mut all = Vec::new();
        self.control.turn(ready, now, &mut all);
        self.forget_clients();
        for note in self.control.take_notes() {
            self.note("control", note, None);
        }
        for asked in all {
            let (client, id) = (asked.client, asked.id);
            if let Some(answer) = self.serve_ask(asked, now) {
                self.control.answer(client, id, &answer, now);
            }
        }
    }

    /// Nothing is freed for a client that has left before it was answered.
    fn forget_clients(&mut self) {
        let (control, arbiter) = (&self.control, &mut self.engine.arbiter);
        self.waiting.retain(|reservation, waiting| {
            let is_there = control.has(waiting.client);
            if !is_there {
                arbiter.unreserve(*reservation);
            }
            is_there
        });
    }

    /// Serves a request. `None` if the answer comes later.
    pub(crate) fn serve_ask(&mut self, asked: Asked, now: u64) -> Option<Result<Answer, Failure>> {
        let Asked { client, id, peer, ask } = asked;
        Some(match ask {
            Ask::Ps => Ok(Answer::Ps(self.ps(now))),
            Ask::Status => Ok(Answer::Status(Box::new(self.status(now)))),
            Ask::Interval { processes } => self.passed(&processes),
            Ask::Scan { guest } => return self.scan(client, id, &guest, now),
            Ask::Inputs { guest } => self.inputs(&guest).map(Answer::Inputs),
            Ask::Set { guest, change } => self.set(&guest, change, peer, now).map(Answer::Set),
            Ask::Reserve { mib, timeout_ms, hold_ms } => {
                let waiting = Waiting { client, asked: id, mib, hold_ms };
                match self.reserve(waiting, timeout_ms, now) {
                    Ok(()) => return None,
                    Err(failure) => Err(failure),
                }
            }
            Ask::Unreserve { reservation } => {
                self.engine.arbiter.unreserve(reservation);
                if let Some(Waiting { client, asked, .. }) = self.waiting.remove(&reservation) {
                    let failure = Failure::new("The reservation was let go by another client");
                    self.control.answer(client, asked, &Err(failure), now);
                }
                Ok(Answer::Unreserve {})
            }
            Ask::Reload => self.reload(now).map(Answer::Reload),
        })
    }

    /// The guest of a name or a UUID.
    pub(crate) fn find(&self, name: &str) -> Result<Id, Failure> {
        let fits = |guest: &&Guest| guest.found.name == name || guest.who.uuid == name;
        let mut found = self.guests.values().filter(fits);
        match (found.next(), found.next()) {
            (Some(guest), None) => Ok(guest.id),
            (Some(_), Some(_)) => {
                Err(Failure::new(format!("More than one guest is called {name}"))
                    .help("name it by its UUID, which `pinhead ps --format json` shows"))
            }
            (None, _) => {
                let names: Vec<&str> = self
                    .guests
                    .values()
                    .take(NAMES_MAX)
                    .map(|guest| guest.found.name.as_str())
                    .collect();
                let failure = Failure::new(format!("There is no guest {name}"));
                Err(match names.is_empty() {
                    true => failure.help("there is no guest at all"),
                    false => failure.help(format!("there are {}", names.join(", "))),
                })
            }
        }
    }

    fn set(
        &mut self,
        name: &str,
        change: Change,
        peer: Peer,
        now: u64,
    ) -> Result<Entitled, Failure> {
        let id = self.find(name)?;
        let gone = || Failure::new(format!("{name} has just gone"));
        let guest = self.guests.get(&id).ok_or_else(gone)?;
        let mut over = self.overrides.get(&id).copied().unwrap_or_default();
        changed(&mut over, change, guest)?;
        self.overrides.insert(id, over);
        self.configure();
        let by = format!("user {}, process {}", peer.uid, peer.pid);
        self.note("set", format!("the operator ({by}) set {}", in_words(change)), Some(id));
        self.hurry(now);
        let guest = self.guests.get(&id).ok_or_else(gone)?;
        let limits = guest.limits;
        Ok(Entitled {
            guest: guest.found.name.clone(),
            class: rows::class(guest),
            mode: rows::mode(limits.mode).to_owned(),
            pin_bytes: match limits.mode {
                Mode::Pinned(size) => Some(size.0),
                Mode::Managed | Mode::Released => None,
            },
            min_bytes: limits.min.0,
            max_bytes: limits.max.0,
            shares: limits.shares,
        })
    }

    fn reserve(&mut self, waiting: Waiting, timeout_ms: u64, now: u64) -> Result<(), Failure> {
        if !self.engine.acts() {
            return Err(Failure::new("This manager only looks on (--dry-run) and frees nothing"));
        }
        let total = self.machine.map(|(machine, _)| machine.total);
        let total = total.map(|total| self.settings.budget(total).unwrap_or(total));
        let most = total.map(|total| total.less(self.engine.config.reserve));
        if let Some(most) = most.filter(|most| Bytes::mib(waiting.mib) > *most) {
            let message = format!("The host could never free {} MiB for one guest", waiting.mib);
            return Err(Failure::new(message).help(format!("it has {} MiB", most.as_mib())));
        }
        self.reservations += 1;
        let id = self.reservations;
        let deadline_ms = now.saturating_add(timeout_ms);
        let held_ms = deadline_ms.saturating_add(waiting.hold_ms);
        if !self.engine.arbiter.reserve(id, Bytes::mib(waiting.mib), deadline_ms, held_ms) {
            return Err(Failure::new("Too many reservations are open").help("unreserve some"));
        }
        self.waiting.insert(id, waiting);
        self.hurry(now);
        Ok(())
    }

    /// Tells what came of reservations.
    pub(crate) fn reserved(&mut self, reserved: &[policy::arbiter::Reserved], now: u64) {
        for one in reserved {
            let Some(waiting) = self.waiting.remove(&one.id) else { continue };
            let Waiting { client, asked, mib, hold_ms } = waiting;
            let kind = if one.outcome.is_ok() { kinds::RESERVED } else { kinds::NOT_RESERVED };
            let (answer, text) = match &one.outcome {
                Ok(()) => {
                    let held = Reserved { reservation: one.id, mib, hold_ms };
                    (Ok(Answer::Reserve(held)), format!("{mib} MiB are free and held"))
                }
                Err(refused) => {
                    let text = format!("{mib} MiB could not be freed in time");
                    let failure = Failure::new(text.as_str()).help(self.refusals(refused));
                    (Err(failure), text)
                }
            };
            self.note(kind, text, None);
            self.control.answer(client, asked, &answer, now);
        }
    }

    /// Who would not give, by the clause that stood against it.
    fn refusals(&self, refused: &[(Key, Clause)]) -> String {
        let mut by_clause: BTreeMap<Clause, Vec<&str>> = BTreeMap::new();
        for (key, clause) in refused {
            if let Some(guest) = self.guests.get(&Id(key.0)) {
                by_clause.entry(*clause).or_default().push(&guest.found.name);
            }
        }
        let told: Vec<String> = by_clause
            .into_iter()
            .map(|(clause, names)| {
                let shown = names.len().min(NAMES_MAX);
                let more = match names.len() - shown {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{}{more} ({})", names[..shown].join(", "), clause.name())
            })
            .collect();
        match told.is_empty() {
            true => "there is no guest that could give anything".into(),
            false => format!("nothing more came from {}", told.join("; ")),
        }
    }

    fn inputs(&self, name: &str) -> Result<Inputs, Failure> {
        let id = self.find(name)?;
        let guest = self.guests.get(&id);
        let (guest, (decision, at_ms)) =
            guest.and_then(|guest| Some((guest, guest.last.as_ref()?))).ok_or_else(|| {
                Failure::new(format!("Nothing was decided about {name} yet"))
                    .help("the first decision comes some seconds after a guest was found")
            })?;
        let named = guest.recent.front().unwrap_or(&decision.inputs).named();
        Ok(Inputs {
            guest: guest.found.name.clone(),
            at_ms: *at_ms,
            values: self.values(guest),
            inputs: named
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.map(|value| value as f64)))
                .collect(),
            action: Some(rows::action(decision).to_owned()),
            clause: Some(decision.clause.name().to_owned()),
            reason: Some(decision.to_string()),
            bounds: decision.bounds.iter().map(|bound| bound.name().to_owned()).collect(),
        })
    }
}

fn changed(over: &mut Override, change: Change, guest: &Guest) -> Result<(), Failure> {
    let (memory, limits) = (guest.found.memory, guest.limits);
    let name = &guest.found.name;
    let size_of = |share: Share, word: &str| {
        let size = share.of(memory);
        if size > memory {
            return Err(Failure::new(format!("{word} is more than {name} was started with"))
                .help(format!("it has {} MiB", memory.as_mib())));
        }
        if size < SIZE_MIN {
            return Err(Failure::new(format!("{word} is less than any guest can live in"))
                .help(format!("say at least {} MiB", SIZE_MIN.as_mib())));
        }
        Ok(size)
    };
    let beyond = |word: &str, bound: &str, size: Bytes| {
        Failure::new(format!("{word} is beyond the {bound} of {name}"))
            .help(format!("its {bound} is {} MiB", size.as_mib()))
    };
    match change {
        Change::Min(share) => {
            let size = size_of(share, "min")?;
            if size > limits.max {
                return Err(beyond("min", "max", limits.max));
            }
            over.min = Some(size);
        }
        Change::Max(share) => {
            let size = size_of(share, "max")?;
            if size < limits.min {
                return Err(beyond("max", "min", limits.min));
            }
            over.max = Some(size);
        }
        Change::Shares(shares) => over.shares = Some(shares.max(1)),
        Change::Pin(share) => {
            let size = size_of(share, "pin")?;
            if size < limits.min {
                return Err(beyond("pin", "min", limits.min));
            }
            if size > limits.max {
                return Err(beyond("pin", "max", limits.max));
            }
            over.mode = Some(Mode::Pinned(size));
        }
        Change::Release => over.mode = Some(Mode::Released),
        Change::Manage => over.mode = Some(Mode::Managed),
    }
    Ok(())
}

fn in_words(change: Change) -> String {
    let share = |share: Share| match share {
        Share::Permille(permille) => format!("{} %", permille as f64 / 10.0),
        Share::Bytes(size) => format!("{} MiB", size.as_mib()),
    };
    match change {
        Change::Min(size) => format!("min to {}", share(size)),
        Change::Max(size) => format!("max to {}", share(size)),
        Change::Shares(shares) => format!("shares to {shares}"),
        Change::Pin(size) => format!("pin to {}", share(size)),
        Change::Release => "it free: it is not managed any more".into(),
        Change::Manage => "it to be managed".into(),
    }
}

/// What is said of the journal, once.
pub(crate) fn journal_news(news: &News) -> String {
    match news {
        News::Failed(error) => {
            format!("The journal cannot be written to; decisions go on without it: {error}")
        }
        News::SetAside { path, aside } => {
            format!("{} is damaged and was set aside as {}", path.display(), aside.display())
        }
        News::Recovered { lost: 0 } => "The journal can be written to again".into(),
        News::Recovered { lost } => {
            format!("The journal can be written to again; {lost} records were lost")
        }
    }
}
