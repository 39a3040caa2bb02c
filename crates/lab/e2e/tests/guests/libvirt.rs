//! A real libvirt with a real guest: found, observed, queried, hung, and destroyed.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use std::process::Command;
use std::time::Duration;

use base::Bytes;
use e2e::libvirtd::{Daemon, NAME, missing};
use hypervisor::{
    Event, Found, Hypervisor, Id, IdSource, Libvirt, Owner, Pause, ProcessId, RunState, Trust,
};
use model::GuestField as G;
use reactor::PollSet;
use vm::{Clock, Deadline};

/// Timeout of a boot. Under emulation on a busy machine, a boot may take many times its usual five
/// seconds.
const PATIENCE: Duration = Duration::from_secs(180);

const MIB: u64 = 1 << 20;

/// Shuts down a guest if its test was killed.
const LOAD: &str = "sleep 170\npoweroff -f\n";

struct Watch {
    clock: Clock,
    libvirt: Libvirt,
    seen: Vec<Event>,
}

impl Watch {
    fn new(daemon: &Daemon) -> Watch {
        let libvirt = Libvirt::session(&daemon.runtime_dir(), IdSource::new());
        let libvirt = libvirt.trusting(Trust::naming([Owner(daemon.user())]));
        Watch { clock: Clock::new(), libvirt, seen: Vec::new() }
    }

    /// Runs one turn after a short wait for input. The wait is short because the awaited condition
    /// may come without an event.
    fn turn(&mut self) {
        const WAIT_MAX_MS: u64 = 50;
        let mut set = PollSet::new();
        self.libvirt.fds(&mut set);
        let wait_ms = self.libvirt.next_ms().saturating_sub(self.clock.ms()).min(WAIT_MAX_MS);
        let ready = set.wait(wait_ms).unwrap();
        self.libvirt.turn(Some(ready.all()), self.clock.ms(), &mut self.seen);
    }

    /// Waits for an event, and removes it and all earlier events.
    fn until<T>(&mut self, what: &str, daemon: &Daemon, so: impl Fn(&Event) -> Option<T>) -> T {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let found = self.seen.iter().enumerate().find_map(|(at, e)| Some((at, so(e)?)));
            if let Some((at, it)) = found {
                self.seen.drain(..=at);
                println!("{:>6} ms: {what}", self.clock.ms());
                return it;
            }
            assert!(deadline.remaining().is_some(), "{what}: {:#?}\n{}", self.seen, daemon.log());
            self.turn();
        }
    }

    fn expect(&mut self, event: Event, daemon: &Daemon) {
        self.until(&format!("{event:?}"), daemon, |seen| (*seen == event).then_some(()));
    }

    fn until_found(&mut self, daemon: &Daemon) -> (Id, Found) {
        self.until("found", daemon, |event| match event {
            Event::Found(id, found) => Some((*id, (**found).clone())),
            _ => None,
        })
    }

    fn until_booted(&mut self, times: usize, daemon: &Daemon) {
        let deadline = Deadline::after(PATIENCE);
        while daemon.console().matches("pinhead: lv1 is up").count() < times {
            assert!(deadline.remaining().is_some(), "no boot\n{}", daemon.log());
            self.turn();
        }
        println!("{:>6} ms: booted {times}", self.clock.ms());
    }
}

fn signal(process: ProcessId, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.pid.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn libvirt_guest_is_found_ballooned_and_destroyed() {
    if let Some(program) = missing() {
        e2e::skipped_without(program);
        return;
    }
    let _share = e2e::share(1);
    let mut daemon = Daemon::start();
    // No process listens when the source tries to connect. The source reports an error and tries
    // again.
    daemon.kill();
    let mut watch = Watch::new(&daemon);
    let sentence = watch.until("a sentence before it listens", &daemon, |event| match event {
        Event::Trouble(sentence) => Some(sentence.clone()),
        _ => None,
    });
    assert!(sentence.contains("systemctl start libvirtd"), "{sentence}");
    daemon.start_again();
    let listens = Deadline::after(PATIENCE);
    while !daemon.try_virsh(&["list"]).status.success() {
        assert!(listens.remaining().is_some(), "{}", daemon.log());
        watch.turn();
    }
    daemon.create_domain(LOAD);
    let (id, found) = watch.until_found(&daemon);
    assert_eq!((found.name.as_str(), found.memory), (NAME, Bytes(256 * MIB)));
    assert!(found.can.balloon && found.can.statistics && found.can.port);
    assert_eq!((found.can.deflate_on_oom, found.can.page_reporting), (Some(true), Some(true)));
    assert_eq!(found.port, Some(daemon.dir().join("port")));
    assert_eq!(found.vcpu_tids.len(), 1, "one of two CPUs is there");
    let process = found.process.expect("its process");
    assert!(process.is_alive());
    watch.until_booted(1, &daemon);

    watch.libvirt.set_target(id, Bytes(160 * MIB), watch.clock.ms());
    watch.expect(Event::Taken(id, Bytes(160 * MIB)), &daemon);
    watch.expect(Event::Actual(id, Bytes(160 * MIB)), &daemon);
    watch.libvirt.ask_stats(id, watch.clock.ms());
    let stats = watch.until("statistics", &daemon, |event| match event {
        Event::Stats(_, stats) => Some(stats.clone()),
        _ => None,
    });
    let updated_ns = stats.get(G::BalloonTime);
    assert!(updated_ns > Some(1_700_000_000_000_000_000), "{stats:?}");
    for field in [G::BalloonTotal, G::BalloonFree, G::BalloonAvailable] {
        let size = stats.get(field);
        assert!(size.is_some_and(|size| size > MIB && size < 256 * MIB), "{stats:?}");
    }
    watch.libvirt.set_target(id, Bytes(1024 * MIB), watch.clock.ms());
    let why = watch.until("refusal", &daemon, |event| match event {
        Event::Refused(_, why) => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("memory"), "{why}");

    daemon.virsh(&["suspend", NAME]);
    watch.expect(Event::State(id, RunState::Paused(Pause::ByHand)), &daemon);
    daemon.virsh(&["resume", NAME]);
    watch.expect(Event::State(id, RunState::Running), &daemon);

    watch.libvirt.set_running(id, false, watch.clock.ms());
    watch.expect(Event::State(id, RunState::Paused(Pause::ByHand)), &daemon);
    assert!(daemon.try_virsh(&["domstate", NAME]).stdout.starts_with(b"paused"));
    watch.libvirt.set_running(id, true, watch.clock.ms());
    watch.expect(Event::State(id, RunState::Running), &daemon);

    let xml = String::from_utf8(daemon.try_virsh(&["dumpxml", NAME]).stdout).unwrap();
    let polled = xml.lines().find(|line| line.contains("period=") && !line.contains("'0'"));
    assert!(xml.contains("memballoon") && polled.is_none(), "still polled: {polled:?}");

    signal(process, "STOP");
    watch.libvirt.set_target(id, Bytes(200 * MIB), watch.clock.ms());
    watch.expect(Event::Answers(id, false), &daemon);
    signal(process, "CONT");
    watch.expect(Event::Answers(id, true), &daemon);

    // A daemon is killed and restarted. The guest keeps its identity.
    daemon.kill();
    watch.expect(Event::Answers(id, false), &daemon);
    daemon.start_again();
    watch.expect(Event::Answers(id, true), &daemon);

    daemon.virsh(&["reset", NAME]);
    watch.expect(Event::Rebooted(id), &daemon);

    daemon.virsh(&["destroy", NAME]);
    watch.expect(Event::Gone(id, "it was destroyed".into()), &daemon);
    daemon.create_domain(LOAD);
    let (again, restarted) = watch.until_found(&daemon);
    assert!(again != id && restarted.process != found.process);
    // The kill simulates a crash.
    signal(restarted.process.expect("its process"), "KILL");
    let gone = watch.until("the end of a crash", &daemon, |event| match event {
        Event::Gone(gone, _) => Some(*gone),
        _ => None,
    });
    assert_eq!(gone, again);
}
