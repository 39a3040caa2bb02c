use super::*;
use collect::Known;
use counters::Bytes;
use counters::series::GuestField;
use hypervisor::BalloonStats;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Far more than a round takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tells of each moment, and waits for a word before it goes on.
struct Slow {
    seen: Sender<Moment>,
    go: Receiver<Option<String>>,
}

impl Sink for Slow {
    fn record(&mut self, moment: &Moment) -> Option<String> {
        let _ = self.seen.send(moment.clone());
        self.go.recv().ok().flatten()
    }

    fn finish(&mut self) -> Option<String> {
        Some("all is written".to_owned())
    }
}

struct Scene {
    monitor: Monitor,
    seen: Receiver<Moment>,
    go: Sender<Option<String>>,
}

fn scene() -> Scene {
    let ((seen_at, seen), (go, go_at)) = (channel(), channel());
    let sink = Box::new(Slow { seen: seen_at, go: go_at });
    let root = std::env::temp_dir().join("pinhead-no-such-tree");
    Scene { monitor: Monitor::start(&root, Some(sink)).unwrap(), seen, go }
}

fn sketch(guests: Vec<Known>) -> Sketch {
    Sketch { guests, ..Sketch::default() }
}

fn known(processes: Told) -> Known {
    Known {
        id: 1,
        who: Who { name: "g1".into(), ..Who::default() },
        process: None,
        vcpu_tids: [].into(),
        row: Row::default(),
        processes,
    }
}

#[test]
fn a_slow_sink_delays_nobody_and_leaves_moments_out() {
    let mut scene = scene();
    // The first is being recorded, two wait, the others find no room; nobody waits here.
    scene.monitor.tell(sketch(vec![]));
    scene.seen.recv_timeout(PATIENCE).unwrap();
    for _ in 0..QUEUE + 3 {
        scene.monitor.tell(sketch(vec![]));
    }
    assert_eq!(scene.monitor.missed(), 3);
    // One more is what has run since.
    for word in [None, Some("the disk is full".to_owned()), None, None] {
        scene.go.send(word).unwrap();
    }
    let said = scene.monitor.finish();
    assert_eq!(said, ["the disk is full", "all is written"]);
}

#[test]
fn what_is_live_is_the_last_two_moments() {
    let mut scene = scene();
    assert!(scene.monitor.live().is_none());
    let told = |run| {
        let mut row = Row::<ProcessField>::default();
        row.set(ProcessField::Run, Some(run));
        Told::from([(ProcessName { name: "init".into(), pid: 1 }, row)])
    };
    for processes in [told(100), Told::new(), told(350), Told::new()] {
        scene.monitor.tell(sketch(vec![known(processes)]));
        scene.seen.recv_timeout(PATIENCE).unwrap();
        scene.go.send(None).unwrap();
    }
    // The last is live only when the sink has had it: the end waits for that, and records once
    // more.
    scene.go.send(None).unwrap();
    scene.monitor.end();
    let live = scene.monitor.live().unwrap();
    assert_eq!(live.moment.host.get(HostField::Guests), Some(1));
    assert!(live.moment.processes.is_empty(), "it told of them before");
    let processes = live.interval.processes.values().next().unwrap();
    let init = processes.values().next().unwrap();
    assert_eq!(init.get(ProcessField::Run), Some(250), "of the last two reports");
}

#[test]
fn a_sink_that_panics_ends_the_recording_and_not_the_manager() {
    struct Broken;
    impl Sink for Broken {
        fn record(&mut self, _: &Moment) -> Option<String> {
            panic!("a fault of the sink");
        }

        fn finish(&mut self) -> Option<String> {
            None
        }
    }
    let root = std::env::temp_dir().join("pinhead-no-such-tree");
    let mut monitor = Monitor::start(&root, Some(Box::new(Broken))).unwrap();
    (0..100).for_each(|_| monitor.tell(sketch(vec![])));
    let said = monitor.finish();
    assert!(said.iter().any(|text| text.contains("failed")), "{said:?}");
}

#[test]
fn what_a_guest_tells_is_held_within_what_it_can_be() {
    let told = wire::Memory {
        total_kib: Some(u64::MAX - 1),
        free_kib: Some(10),
        swap_free_kib: Some(u64::MAX - 1),
        psi_some_us: Some(u64::MAX - 1),
        psi_full_us: Some(7),
        ..wire::Memory::default()
    };
    let mut row = Row::default();
    row::put_memory(&mut row, &told, 1 << 30);
    assert_eq!(row.get(GuestField::OwnTotal), Some(1 << 30));
    assert_eq!(row.get(GuestField::OwnFree), Some(10_240));
    assert_eq!(row.get(GuestField::OwnSwapFree), Some(u64::MAX));
    assert_eq!(row.get(GuestField::OwnPsiSome), None);
    assert_eq!(row.get(GuestField::OwnPsiFull), Some(7000));
    assert_eq!(row.get(GuestField::OwnStalls), None);
    assert_eq!(row.get(GuestField::OwnWorkingSet), None);
    let told = wire::Memory { anon_kib: Some(7), active_file_kib: Some(3), ..told };
    row::put_memory(&mut row, &told, 1 << 30);
    assert_eq!(row.get(GuestField::OwnWorkingSet), Some(10_240));
}

#[test]
fn what_a_guest_tells_of_its_root_is_a_share() {
    let mut row = Row::default();
    let mut used = |total, available| {
        let told = wire::System {
            root_total_kib: total,
            root_available_kib: available,
            load_1_permille: Some(120),
            ..wire::System::default()
        };
        row::put_system(&mut row, &told);
        assert_eq!(row.get(GuestField::OwnLoad), Some(120));
        row.get(GuestField::OwnRootUsed)
    };
    assert_eq!(used(Some(4000), Some(1000)), Some(750));
    assert_eq!(used(Some(u64::MAX - 1), Some(0)), Some(1000));
    assert_eq!(used(Some(10), Some(20)), Some(0));
    assert_eq!((used(Some(0), Some(0)), used(Some(1), None)), (None, None));
}

#[test]
fn a_balloons_statistics_are_recorded_as_they_are_and_as_the_daemons() {
    let stats = BalloonStats {
        updated_s: 1_700_000_000,
        total: Some(Bytes::mib(90)),
        free: Some(Bytes::mib(10)),
        available: None,
        caches: Some(Bytes::mib(20)),
        swap_in: Some(Bytes(4096 * 3 + 1)),
        ..BalloonStats::default()
    };
    let mut row = Row::default();
    row::put_balloon(&mut row, &stats, Bytes::mib(96).0);
    let expected = [
        (GuestField::OwnFree, Bytes::mib(10).0),
        (GuestField::OwnAvailable, Bytes::mib(10).0),
        (GuestField::OwnCached, Bytes::mib(20).0),
        (GuestField::OwnSwapIn, 3),
        (GuestField::OwnWorkingSet, Bytes::mib(86).0),
        (GuestField::BalloonTime, 1_700_000_000_000_000_000),
        (GuestField::BalloonTotal, Bytes::mib(90).0),
        (GuestField::BalloonFree, Bytes::mib(10).0),
        (GuestField::BalloonCached, Bytes::mib(20).0),
        (GuestField::BalloonSwapIn, 4096 * 3 + 1),
    ];
    assert_eq!(row.known().collect::<Vec<_>>(), expected, "what was not said is missing");
}
