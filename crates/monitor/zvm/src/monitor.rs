//! State of the system and of each user from z/VM's monitor, with a moment at the end of each
//! interval.

use crate::guest::Guest;
use base::PAGE_BYTES;
use model::{GuestIdentity, HostField as H, Moment, Row};
use std::collections::BTreeMap;
use zmon::domain::{Processor, Said, Storage, Users, said};
use zmon::frame::Found;
use zmon::{Tod, from_ebcdic, ns_of_ticks};

/// Number of intervals without data after which a user counts as gone. Data come at the end of a
/// transaction, and a computation may end no transaction for many intervals.
const SILENT_MAX: u32 = 60;
/// Maximum time between the ends of two intervals. An end after a longer time is ignored, unless
/// the next end confirms the new time. Without this limit, one wrong time in a damaged record would
/// block all later intervals.
const JUMP_MS: i64 = 24 * 60 * 60 * 1_000;
/// Maximum number of users, more than z/VM can have.
const USERS_MAX: usize = 100_000;

/// Counts of records by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of records read.
    pub records: u64,
    /// Number of records without recorded fields.
    pub others: u64,
    /// Number of invalid records.
    pub bad: u64,
    /// Number of ignored ends of intervals: not later than the previous end, or more than a day
    /// later.
    pub ignored: u64,
    /// Error of the first invalid record.
    pub first_bad: Option<String>,
}

/// State of the monitor data so far.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    processors: BTreeMap<u16, Processor>,
    storage: Option<Storage>,
    users: Option<Users>,
    guests: BTreeMap<String, Guest>,
    counts: Counts,
    last_ms: Option<i64>,
    /// End of an interval that was too far ahead.
    ahead_ms: Option<i64>,
}

impl Monitor {
    /// Processes the next record. Returns the current state at the end of an interval. An end that
    /// is not later than the previous end is ignored.
    pub fn take(&mut self, found: &Found<'_>) -> Option<Moment> {
        self.counts.records += 1;
        let said = match said(found) {
            Ok(said) => said,
            Err(error) => {
                self.bad(&error);
                return None;
            }
        };
        match said {
            Said::Processor(one) => drop(self.processors.insert(one.address, one)),
            Said::Storage(storage) => self.storage = Some(storage),
            Said::Users(users) => self.users = Some(users),
            Said::ActivityAtEnd(activity) => {
                let name = from_ebcdic(&activity.user);
                if let Some(guest) = self.guest(name) {
                    guest.take(*activity);
                }
            }
            Said::Logoff(logoff) => drop(self.guests.remove(&from_ebcdic(&logoff.user))),
            // The last data of an application must not create an entry for a user that has logged
            // off.
            Said::Application(one) if one.is_over && !self.guests.contains_key(&one.user) => {}
            Said::Application(application) => {
                let name = application.user.clone();
                let taken = self.guest(name).map(|guest| guest.inside.take(&application));
                if let Some(Err(error)) = taken {
                    self.bad(&error);
                }
            }
            Said::EndOfInterval => return self.end(found.at),
            Said::States(_) | Said::Activity(_) | Said::Interaction(_) | Said::Other => {
                self.counts.others += 1;
            }
        }
        None
    }

    /// Returns the counts of records.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn bad(&mut self, error: &zmon::Error) {
        self.counts.bad += 1;
        self.counts.first_bad.get_or_insert_with(|| error.to_string());
    }

    fn guest(&mut self, name: String) -> Option<&mut Guest> {
        if self.guests.len() >= USERS_MAX && !self.guests.contains_key(&name) {
            return None;
        }
        let guest = self.guests.entry(name).or_default();
        guest.silent = 0;
        Some(guest)
    }

    fn end(&mut self, at: Tod) -> Option<Moment> {
        let Some(at_ms) = at.ms().filter(|at_ms| self.goes_on(*at_ms)) else {
            self.counts.ignored += 1;
            return None;
        };
        self.last_ms = Some(at_ms);
        self.guests.retain(|_, guest| guest.silent < SILENT_MAX);
        let mut moment = Moment { at_ms, host: self.host(), ..Moment::default() };
        for (name, guest) in &mut self.guests {
            guest.silent += 1;
            let who = GuestIdentity { name: name.clone(), ..GuestIdentity::default() };
            let processes = guest.inside.processes();
            if !processes.is_empty() {
                moment.processes.insert(who.clone(), processes);
            }
            moment.guests.insert(who, guest.row());
        }
        Some(moment)
    }

    /// Returns true if an interval may end at this time.
    fn goes_on(&mut self, at_ms: i64) -> bool {
        let Some(last_ms) = self.last_ms else { return true };
        if at_ms <= last_ms {
            return false;
        }
        let is_near = |of_ms: i64| (0..=JUMP_MS).contains(&(at_ms - of_ms));
        let goes_on = is_near(last_ms) || self.ahead_ms.is_some_and(is_near);
        self.ahead_ms = (!goes_on).then_some(at_ms);
        goes_on
    }

    fn host(&self) -> Row<H> {
        let sum = |of: fn(&Processor) -> u64| {
            let times = self.processors.values().map(|one| ns_of_ticks(of(one)));
            times.reduce(u64::saturating_add)
        };
        let frames = |of: fn(&Storage) -> u32| {
            self.storage.as_ref().map(|storage| u64::from(of(storage)) * PAGE_BYTES)
        };
        let mut row = Row::default();
        row.extend([
            (H::Cpus, Some(self.processors.len() as u64).filter(|count| *count > 0)),
            (H::Guest, sum(|one| one.guest_time.min(one.user_time))),
            // CP's work for users.
            (H::User, sum(|one| one.user_time.saturating_sub(one.guest_time))),
            (H::System, sum(|one| one.system_time)),
            (H::Idle, sum(|one| one.wait_time)),
            // Memory available to users. CP's own part is not reported here.
            (H::Total, frames(|storage| storage.pageable)),
            (H::Available, frames(|storage| storage.available)),
            (H::Free, frames(|storage| storage.available)),
        ]);
        if let Some(users) = &self.users {
            let awake = users.logged_on.saturating_sub(users.dormant);
            row.extend([
                (H::Guests, Some(users.logged_on.into())),
                (H::GuestsAwake, Some(awake.into())),
            ]);
        }
        row
    }
}
