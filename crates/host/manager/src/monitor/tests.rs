use super::*;
use model::HostField;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Time far above the duration of a round.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sink that passes each moment on, and waits for an outcome before it continues.
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
    Scene { monitor: monitor(Slow { seen: seen_at, go: go_at }), seen, go }
}

/// Returns the values of a second with a guest, and perhaps with a report of its processes.
fn known(processes: Processes) -> Known {
    let who = GuestIdentity { name: "g1".into(), ..GuestIdentity::default() };
    let process = None;
    let (vcpu_tids, vcpus_ran) = ([].into(), Vec::new());
    let guest = GuestProcess { id: 1, who: who.clone().into(), process, vcpu_tids, vcpus_ran };
    let mut known = Known { guests: vec![guest], ..Known::default() };
    if !processes.is_empty() {
        known.moment.processes.insert(who.clone(), processes);
    }
    known.moment.guests.insert(who, Row::default());
    known
}

#[test]
fn a_slow_sink_delays_nobody_and_leaves_moments_out() {
    let mut scene = scene();
    // The first moment is being recorded, two moments wait, and further moments find no room. No
    // call waits.
    scene.monitor.send(Known::default());
    scene.seen.recv_timeout(PATIENCE).unwrap();
    for _ in 0..QUEUE + 3 {
        scene.monitor.send(Known::default());
    }
    assert_eq!(scene.monitor.missed, 3);
    // The last message is for the activity since the last round.
    for word in [None, Some("the disk is full".to_owned()), None, None] {
        scene.go.send(word).unwrap();
    }
    let notices = scene.monitor.finish();
    assert_eq!(notices, ["the disk is full", "all is written"]);
}

#[test]
fn live_data_is_the_last_two_moments() {
    let mut scene = scene();
    assert!(scene.monitor.live().is_none());
    let reported = |run| {
        let mut row = Row::<ProcessField>::default();
        row.set(ProcessField::Run, Some(run));
        Processes::from([(ProcessName { name: "init".into(), pid: 1 }, row)])
    };
    for processes in [reported(100), Processes::new(), reported(350), Processes::new()] {
        scene.monitor.send(known(processes));
        scene.seen.recv_timeout(PATIENCE).unwrap();
        scene.go.send(None).unwrap();
    }
    // The last moment becomes live only after the sink has handled it. The monitor's end waits for
    // the sink, and records once more.
    scene.go.send(None).unwrap();
    scene.monitor.end();
    let live = scene.monitor.live().unwrap();
    assert_eq!(live.moment.host.get(HostField::Guests), Some(1));
    assert!(live.moment.processes.is_empty(), "the last moment has no report");
    let interval = live.interval();
    let processes = interval.processes.values().next().unwrap();
    let init = processes.values().next().unwrap();
    assert_eq!(init.get(ProcessField::Run), Some(250), "of the last two reports");
}

#[test]
fn interval_is_never_shorter_than_a_reading_may_take() {
    let at = |at_ms| Arc::new(Moment { at_ms, ..Moment::default() });
    let start = |earlier: Option<Arc<Moment>>, last, now_ms| {
        interval_start(earlier.as_ref(), at(last), now_ms).at_ms
    };
    assert_eq!(start(None, 1_000, 2_000), 1_000);
    assert_eq!(start(None, 1_000, 1_001), 1_000, "there is no earlier moment");
    assert_eq!(start(Some(at(0)), 1_000, 2_000), 1_000);
    assert_eq!(start(Some(at(0)), 1_000, 1_001), 0);
    assert_eq!(start(Some(at(0)), 1_000, 900), 1_000, "the wall clock was set back");
}

/// A sink that panics.
struct Broken;

impl Sink for Broken {
    fn record(&mut self, _: &Moment) -> Option<String> {
        panic!("a fault of the sink");
    }

    fn finish(&mut self) -> Option<String> {
        None
    }
}

fn monitor(sink: impl Sink + 'static) -> Monitor {
    let root = std::env::temp_dir().join("pinhead-no-such-tree");
    Monitor::start(&root, Some(Box::new(sink))).unwrap()
}

#[test]
fn a_sink_that_panics_ends_the_recording_and_not_the_manager() {
    let mut monitor = monitor(Broken);
    (0..100).for_each(|_| monitor.send(Known::default()));
    let notices = monitor.finish();
    assert!(notices.iter().any(|text| text.contains("failed")), "{notices:?}");
}

#[test]
fn finding_16_dead_monitor_is_reported_at_once() {
    let mut monitor = monitor(Broken);
    monitor.send(Known::default());
    let clock = Clock::start();
    while monitor.failure().is_none() {
        let waited_ms = u128::from(clock.ms());
        assert!(waited_ms < PATIENCE.as_millis(), "the failure is reported at the end only");
        std::thread::yield_now();
    }
    let notices = monitor.take_notices();
    assert!(notices.iter().any(|text| text.contains("has failed")), "{notices:?}");
    assert!(monitor.live().is_none());
    assert!(monitor.passed(&Whose::Nobody).is_err_and(|f| f.to_string().contains("has failed")));
    assert_eq!(monitor.finish(), [""; 0], "the failure is reported once");
}
