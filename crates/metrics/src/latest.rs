//! The newest row of everything that is there.

use model::{GuestIdentity, Moment};

/// Whether processes of guests become metrics. Their names come from guests, and each new name
/// is a new series in the engine: an operator who trusts the guests may want them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// They do not.
    #[default]
    Left,
    /// They do.
    Told,
}

/// The newest row of everything. A moment leaves out guests that have not run, and processes
/// that were not told of: what was seen of them last still holds, and a scrape that left them
/// out would make their series end.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    moment: Moment,
    processes: Processes,
}

impl Latest {
    /// Nothing yet.
    pub fn new(processes: Processes) -> Latest {
        Latest { moment: Moment::default(), processes }
    }

    /// Takes a moment in. Guests that are neither in it nor present any more are forgotten, and
    /// so is who a guest was before its boot became known: both would be told of as two guests of
    /// one name.
    pub fn take(&mut self, newer: &Moment, is_present: &dyn Fn(&GuestIdentity) -> bool) {
        let Moment { at_ms, host, guests, tiers, processes } = &mut self.moment;
        // Mostly there are none, however many guests there are.
        let unseen: Vec<_> = newer.guests.keys().filter(|who| !guests.contains_key(who)).collect();
        let is_replaced = |old: &GuestIdentity| {
            unseen.iter().any(|new| new.name == old.name && new.is_same_process(old))
        };
        let stays = |who: &GuestIdentity| {
            newer.guests.contains_key(who) || (is_present(who) && !is_replaced(who))
        };
        *at_ms = newer.at_ms;
        host.clone_from(&newer.host);
        tiers.clone_from(&newer.tiers);
        guests.retain(|who, _| stays(who));
        guests.extend(newer.guests.iter().map(|(who, row)| (who.clone(), row.clone())));
        if self.processes == Processes::Told {
            processes.retain(|who, _| stays(who));
            let told = newer.processes.iter().map(|(who, told)| (who.clone(), told.clone()));
            processes.extend(told);
        }
    }

    /// The newest row of everything that was taken in since this was asked last.
    pub fn take_out(&mut self) -> Moment {
        std::mem::take(&mut self.moment)
    }

    /// The newest row of everything.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestField, Row};

    #[test]
    fn who_sleeps_is_kept_and_who_is_gone_is_not() {
        let who = |name: &str| GuestIdentity { name: name.into(), ..GuestIdentity::default() };
        let row = |value| {
            let mut row = Row::default();
            row.set(GuestField::Exits, Some(value));
            row
        };
        let mut latest = Latest::new(Processes::Left);
        let guests = [(who("sleeps"), row(1)), (who("gone"), row(2)), (who("runs"), row(3))];
        latest.take(&Moment { at_ms: 1, guests: guests.into(), ..Moment::default() }, &|_| true);
        let guests = [(who("runs"), row(4))];
        let newer = Moment { at_ms: 2, guests: guests.into(), ..Moment::default() };
        latest.take(&newer, &|who| who.name == "sleeps");
        let kept: Vec<_> = latest.moment().guests.iter().collect();
        assert_eq!(kept, [(&who("runs"), &row(4)), (&who("sleeps"), &row(1))]);
        assert_eq!(latest.moment().at_ms, 2);
    }

    #[test]
    fn a_guest_whose_boot_becomes_known_is_one_guest() {
        let who = |pid, boot: &str| GuestIdentity {
            name: "web".into(),
            pid: Some(pid),
            boot: boot.into(),
            ..GuestIdentity::default()
        };
        let moment = |guests: &[GuestIdentity]| {
            let rows = guests.iter().map(|who| (who.clone(), Row::default()));
            Moment { guests: rows.collect(), ..Moment::default() }
        };
        let mut latest = Latest::new(Processes::Left);
        latest.take(&moment(&[who(7, "boot 0"), who(8, "boot 0")]), &|_| true);
        latest.take(&moment(&[who(7, "c0ffee")]), &|_| true);
        let kept: Vec<_> = latest.moment().guests.keys().collect();
        assert_eq!(kept, [&who(7, "c0ffee"), &who(8, "boot 0")]);
    }
}
