//! The manager with a monitor: the recorded values, and no delays by the monitor.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::scene::Scene as Host;
use base::Bytes;
use hypervisor::Fake;
use manager::{Monitor, Parts, Sink};
use model::{GuestField, HostField, Moment, Row};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Time far above the duration of a round.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sink that signals the arrival of each moment, and then waits for a message of the test.
struct Hands {
    begun: Sender<()>,
    moments: Sender<Moment>,
    words: Receiver<()>,
}

impl Sink for Hands {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let _ = self.begun.send(());
        let _ = self.words.recv();
        let _ = self.moments.send(moment.clone());
        None
    }

    fn finish(&mut self) -> Option<String> {
        None
    }
}

struct Scene {
    host: Host,
    begun: Receiver<()>,
    moments: Receiver<Moment>,
    words: Sender<()>,
}

impl Scene {
    fn new() -> Scene {
        let ((moments_at, moments), (words, words_at)) = (channel(), channel());
        let (begun_at, begun) = channel();
        let sink = Box::new(Hands { begun: begun_at, moments: moments_at, words: words_at });
        let host = Host::of("", |parts, dir| Parts {
            monitor: Some(Monitor::start(dir, Some(sink)).unwrap()),
            ..parts
        });
        Scene { host, begun, moments, words }
    }

    fn next(&self) -> Moment {
        self.words.send(()).unwrap();
        self.moments.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The monitor's end waits for its sink, which waits for messages.
        (0..100).for_each(|_| {
            let _ = self.words.send(());
        });
    }
}

fn guest<'m>(moment: &'m Moment, name: &str) -> &'m Row<GuestField> {
    moment.guests.iter().find(|(who, _)| who.name == name).map(|(_, row)| row).unwrap()
}

#[test]
fn a_moment_has_the_host_and_every_guest() {
    let mut scene = Scene::new();
    for name in ["web1", "db1"] {
        scene.host.fake.add(Fake::found(name, Bytes::mib(1024)));
    }
    scene.host.run(1000);
    // The first moment may be older than the discovery of the guests.
    let first = scene.next();
    let moment = if first.guests.len() == 2 {
        first
    } else {
        scene.host.run(1000);
        scene.next()
    };
    assert_eq!(moment.host.get(HostField::Total), Some(16 << 30));
    assert_eq!(moment.host.get(HostField::Guests), Some(2));
    assert_eq!(moment.host.get(HostField::Idle), None, "this host has no file for it");
    assert!(moment.host.get(HostField::SetPoint).is_some());
    assert!(moment.host.get(HostField::OwnRun).is_some());
    assert!(moment.at_ms > 1_000_000_000_000, "the wall clock counts");
    let web = guest(&moment, "web1");
    assert_eq!(web.get(GuestField::Memory), Some(1 << 30));
    assert_eq!(web.get(GuestField::Actual), Some(1 << 30));
    assert!(web.get(GuestField::Minimum).is_some());
    assert_eq!(web.get(GuestField::VcpuRun), None, "the process is unknown");
    assert_eq!(web.get(GuestField::OwnTotal), None, "there is no daemon");
}

#[test]
fn hung_sink_delays_nothing_and_missed_moments_are_counted() {
    let mut scene = Scene::new();
    scene.host.fake.add(Fake::found("web1", Bytes::mib(1024)));
    // Half a minute of the manager's time passes without a recording. The sink still has the first
    // moment, and two more wait.
    scene.host.run(1000);
    scene.begun.recv_timeout(PATIENCE).unwrap();
    scene.host.run(30_000);
    let missed = |moment: &Moment| moment.host.get(HostField::MissedMoments).unwrap();
    assert_eq!(missed(&scene.next()), 0);
    // Two moments have waited. The next moment counts the moments that found no room.
    (0..2).for_each(|_| drop(scene.next()));
    scene.host.run(1000);
    let moment = scene.next();
    assert!((20..30).contains(&missed(&moment)), "{}", missed(&moment));
}
