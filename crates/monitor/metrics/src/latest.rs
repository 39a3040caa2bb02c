//! Newest row of each subject present.

use model::{GuestIdentity, Moment};

/// Choice of metrics with or without guests' processes. Guests choose the names of processes, and
/// each new name is a new series on the server. Metrics of processes are therefore for trusted
/// guests only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// Processes have no metrics.
    #[default]
    Left,
    /// Processes have metrics.
    Told,
}

/// Newest row of each subject. A moment lacks guests that have not run, and processes that were not
/// reported. The last row of such a guest or process stays valid. Without the row, a scrape would
/// end the series of the guest or process.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    moment: Moment,
    processes: Processes,
}

impl Latest {
    /// Creates an empty state.
    pub fn new(processes: Processes) -> Latest {
        Latest { moment: Moment::default(), processes }
    }

    /// Adds a moment, and removes guests that are neither in the moment nor present. Once a guest's
    /// boot becomes known, its earlier identity is removed as well. Otherwise one guest would be
    /// exported twice.
    pub fn take(&mut self, newer: &Moment, is_present: &dyn Fn(&GuestIdentity) -> bool) {
        let Moment { at_ms, host, guests, tiers, processes } = &mut self.moment;
        // Usually no guest has to be removed.
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

    /// Removes and returns the newest rows.
    pub fn take_out(&mut self) -> Moment {
        std::mem::take(&mut self.moment)
    }

    /// Returns the newest rows.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestField, Row};

    #[test]
    fn sleeping_guest_is_kept_and_gone_guest_is_removed() {
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
