//! A real QEMU, found by the socket of its monitor.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use base::Bytes;
use e2e::PATIENCE;
use e2e::manager::signal;
use hypervisor::{
    Event, Found, Hypervisor, Id, IdSource, ProcessView, QmpSource, RunState, Trust, Vcpus,
};
use model::GuestField as G;
use qmp::{Command, Reply};
use reactor::PollSet;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use vm::images::{Arch, Cache, ImageSpec};
use vm::{Clock, Deadline, GuestSpec, Session, probe_kvm};

const MIB: u64 = 1 << 20;
/// Timeout of reactions to events that QEMU causes by itself.
const SOON: Duration = PATIENCE;

/// A source, and its pending events.
struct Watch {
    source: QmpSource,
    clock: Clock,
    events: Vec<Event>,
}

impl Watch {
    fn new(pattern: &str) -> Watch {
        let source = QmpSource::new(&[pattern], Trust::default(), IdSource::new()).unwrap();
        Watch { source, clock: Clock::new(), events: Vec::new() }
    }

    /// Runs one turn as a manager does: only ready sources are read.
    fn turn(&mut self, wait_ms_max: u64) {
        let mut set = PollSet::new();
        self.source.fds(&mut set);
        let wait_ms = self.source.next_ms().saturating_sub(self.clock.ms()).min(wait_ms_max);
        let ready = set.wait(wait_ms).unwrap();
        self.source.turn(Some(ready.all()), self.clock.ms(), &mut self.events);
    }

    /// Waits for an event, and removes it and all earlier events.
    fn until<T>(&mut self, what: &str, limit: Duration, is_it: impl Fn(&Event) -> Option<T>) -> T {
        let deadline = Deadline::after(limit);
        loop {
            if let Some(at) = self.events.iter().position(|event| is_it(event).is_some()) {
                let event = self.events.drain(..=at).next_back().unwrap();
                return is_it(&event).unwrap();
            }
            assert!(deadline.remaining().is_some(), "no {what}: {:?}", self.events);
            self.turn(500);
        }
    }

    fn pass(&mut self, time: Duration) {
        let deadline = Deadline::after(time);
        while deadline.remaining().is_some() {
            self.turn(500);
        }
    }

    fn found(&mut self) -> (Id, Found) {
        self.until("guest", SOON, |event| match event {
            Event::Found(id, found) => Some((*id, (**found).clone())),
            _ => None,
        })
    }

    fn gone(&mut self, guest: Id) -> String {
        self.until("end", SOON, |event| match event {
            Event::Gone(id, reason) if *id == guest => Some(reason.clone()),
            _ => None,
        })
    }

    fn until_actual(&mut self, guest: Id, wanted: Bytes) {
        let what = format!("size of {wanted}");
        self.until(&what, PATIENCE, |event| (*event == Event::Actual(guest, wanted)).then_some(()));
    }
}

fn spec(run_dir: &Path) -> GuestSpec {
    let cache = Cache::from_environment().unwrap();
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: Vec::new() }.build(&cache);
    GuestSpec {
        cpus: 2,
        run_dir: Some(run_dir.to_path_buf()),
        ..GuestSpec::new("web1", image.unwrap(), probe_kvm(Arch::X86_64))
    }
}

fn boot(spec: &GuestSpec) -> Session {
    Session::boot(spec, Deadline::after(PATIENCE)).unwrap_or_else(|error| panic!("{error}"))
}

fn interval(session: &mut Session) -> Reply {
    let path = vm::BALLOON_PATH.to_owned();
    let command = Command::QomGet { path, property: "guest-stats-polling-interval" };
    session.monitor.call(command, Deadline::after(SOON)).unwrap()
}

#[test]
fn a_plain_qemu_is_found_moved_lost_and_found_again() {
    let _share = e2e::share(1);
    let run_dir = e2e::scratch("hypervisor");
    let mut watch = Watch::new(&format!("{}/*.qmp", run_dir.path().display()));
    let spec = spec(run_dir.path());
    let mut session = boot(&spec);
    let (id, found) = watch.found();

    assert_eq!((found.name.as_str(), found.memory), ("web1", Bytes(128 * MIB)));
    assert_eq!(found.process.map(|process| process.pid), Some(session.process.id()));
    assert_eq!((found.vcpu_tids.len(), found.state), (2, RunState::Running));
    assert_eq!(found.port, spec.port_path());
    let can = found.can;
    assert!(can.balloon && can.statistics && can.port, "{can:?}");
    assert_eq!((can.deflate_on_oom, can.page_reporting), (Some(true), Some(true)));
    let view = ProcessView::open(found.process.unwrap()).unwrap();
    assert!(view.resident() > Some(Bytes(16 * MIB)), "{:?}", view.resident());
    assert!(view.swap().is_some());
    let mut vcpus = Vcpus::new(session.process.id(), &found.vcpu_tids);
    assert_eq!(vcpus.usage(0), None);
    assert!(vcpus.usage(1_000).is_some());

    is_moved_and_asked(&mut watch, id, &mut session);
    hangs_and_returns(&mut watch, id, &session);

    // The guest's end is noticed. A later guest counts as another guest, even with the same name.
    session.process.kill().unwrap();
    let reason = watch.gone(id);
    assert!(reason.contains("QEMU has exited"), "{reason}");
    assert_eq!(view.stat(), None, "the old files show no other process");
    drop(session);
    let session = boot(&spec);
    let (again, restarted) = watch.found();
    assert_ne!(id, again);
    assert_ne!(found.process, restarted.process);
    assert_eq!(restarted.process.map(|process| process.pid), Some(session.process.id()));
}

fn is_moved_and_asked(watch: &mut Watch, id: Id, session: &mut Session) {
    for mib in [100, 128] {
        let now_ms = watch.clock.ms();
        watch.source.set_target(id, Bytes(mib * MIB), now_ms);
        watch.until("answer", SOON, |event| {
            (*event == Event::Taken(id, Bytes(mib * MIB))).then_some(())
        });
        watch.until_actual(id, Bytes(mib * MIB));
    }
    let mut last = None;
    for round in 1..=3 {
        let now_ms = watch.clock.ms();
        watch.source.ask_stats(id, now_ms);
        let stats = watch.until("statistics", SOON, |event| match event {
            Event::Stats(guest, stats) if *guest == id => Some(stats.clone()),
            _ => None,
        });
        println!("statistics after {} ms", watch.clock.ms() - now_ms);
        // The first and the third round wake the guest. The second round comes too soon after the
        // first to wake the guest.
        let updated = stats.get(G::BalloonTime);
        assert_eq!(updated > last, round != 2, "{stats:?} after {last:?}");
        last = updated;
        let [free, available, total] =
            [G::BalloonFree, G::BalloonAvailable, G::BalloonTotal].map(|field| stats.get(field));
        assert!(free > Some(0) && free <= total && available <= total, "{stats:?}");
        assert!(total > Some(64 * MIB), "{stats:?}");
        // QEMU executes requests in order. When it responds to this request, the interval is reset.
        watch.source.ask_actual(id, watch.clock.ms());
        watch.until_actual(id, Bytes(128 * MIB));
        assert_eq!(interval(session), Reply::Value(json!(0)), "the guest is left asked");
        if round == 2 {
            watch.pass(Duration::from_secs(1));
        }
    }
}

fn hangs_and_returns(watch: &mut Watch, id: Id, session: &Session) {
    signal(session.process.id(), "STOP");
    watch.source.set_target(id, Bytes(110 * MIB), watch.clock.ms());
    watch.until("silence", SOON, |event| (*event == Event::Answers(id, false)).then_some(()));
    signal(session.process.id(), "CONT");
    watch.until("answer", SOON, |event| (*event == Event::Answers(id, true)).then_some(()));
    watch.until_actual(id, Bytes(110 * MIB));
}
