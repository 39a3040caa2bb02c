//! A guest for tests, with a waiting thread as its virtual CPU.

use super::{Entitlement, Guests};
use crate::config::{Place, Settings, load};
use crate::effect::{GuestEvent, Now};
use crate::lease::Lease;
use base::Bytes;
use hypervisor::{Event, Fake, Found, Id, IdSource, ProcessId, balloon_row};
use model::GuestField;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A guest in this process, and the set of guests that contains it.
pub(super) struct OneGuest {
    pub id: Id,
    pub guests: Guests,
    settings: Settings,
    memory: Bytes,
    /// Virtual CPU, which ends when its channel is closed.
    vcpu: Option<(Sender<()>, JoinHandle<()>)>,
}

impl OneGuest {
    /// Starts a guest with `memory`, of which its balloon leaves `actual`.
    pub fn start(memory: Bytes, actual: Bytes) -> OneGuest {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let vcpu = std::thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            ended.recv().unwrap_err();
        });
        let thread = told.recv().unwrap();
        let tid = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let found = Found {
            process: ProcessId::of(std::process::id()),
            vcpu_tids: vec![tid],
            actual,
            ..Fake::found("one", memory)
        };
        let mut one = OneGuest {
            id: IdSource::new().next(),
            guests: Guests::default(),
            settings: load(None, &Place::default()).unwrap().settings,
            memory,
            vcpu: Some((end, vcpu)),
        };
        one.step(GuestEvent::Source(0, Event::Found(one.id, Box::new(found))), 0);
        one
    }

    pub fn step(&mut self, event: GuestEvent, second: u64) {
        let lease = &Lease::none();
        let by = Entitlement { settings: &self.settings, acts: true, lease };
        self.guests.step(by, event, now(second));
    }

    /// Returns the size to restore.
    pub fn restore(&self) -> Bytes {
        self.guests.get(self.id).unwrap().memory.restore()
    }

    /// Makes the balloon report all of the guest's memory as available.
    pub fn tell(&mut self, second: u64) {
        let all = [GuestField::BalloonTotal, GuestField::BalloonAvailable];
        let values = all.map(|field| (field, Some(self.memory.0)));
        let stats = balloon_row(second, self.memory, values);
        self.step(GuestEvent::Source(0, Event::Stats(self.id, stats)), second);
    }
}

impl Drop for OneGuest {
    fn drop(&mut self) {
        if let Some((end, vcpu)) = self.vcpu.take() {
            drop(end);
            vcpu.join().unwrap();
        }
    }
}

pub(super) fn now(second: u64) -> Now {
    Now { ms: second * 1000, wall_ms: 0 }
}
