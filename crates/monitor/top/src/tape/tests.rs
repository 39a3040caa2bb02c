//! Tests of playback with a generated recording.

use super::*;
use crate::keys::Decoder;
use crate::screens::{Look, draw};
use crate::step::step as press;
use crate::view::{Shown, View};
use jiff::tz;
use model::{
    GuestField as G, GuestIdentity, HostField as H, Moment, ProcessField as P, ProcessName, Row,
};
use reports::Utc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::{Decision, Keep, Recorder};

/// 2026-11-21 14:00:00 UTC.
const START_MS: i64 = 1_795_269_600_000;
const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;
/// Length of the recording in seconds, and position of the gap in its middle.
const SECONDS: u64 = 900;
const GAP: std::ops::Range<u64> = 300..480;

static DIRS: AtomicU32 = AtomicU32::new(0);

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let number = DIRS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-top-tape-{}-{number}", std::process::id());
        let dir = Dir(std::env::temp_dir().join(name));
        std::fs::create_dir_all(dir.recordings()).unwrap();
        let mut recorder = Recorder::new(&dir.recordings(), Keep::USUAL);
        for second in (0..=SECONDS).filter(|second| !GAP.contains(second)) {
            recorder.record(&moment(second));
        }
        recorder.close().unwrap();
        dir
    }

    fn recordings(&self) -> PathBuf {
        self.0.join("recordings")
    }

    fn decide(&self) {
        let mut journal = Journal::open(&self.0.join("journal.db")).unwrap();
        let who = who("web1", 1);
        let guest = model::GuestIdentity {
            uuid: who.uuid,
            name: who.name,
            class: who.class,
            pid: who.pid,
            start_ticks: None,
            boot: who.boot,
        };
        let key = journal.guest(&guest, START_MS).unwrap();
        // Every pass is journalled, but only two of these decisions are new.
        for (second, action, to) in
            [(60, "hold", 300), (61, "hold", 300), (130, "shrink", 250), (131, "shrink", 250)]
        {
            let decision = Decision {
                at_ms: START_MS + second * 1_000,
                policy: store::Policy::Active,
                action: action.into(),
                clause: "setpoint".into(),
                detail: String::new(),
                from_bytes: 300 * MIB,
                to_bytes: to * MIB,
                bounds: Vec::new(),
                inputs: Vec::new(),
                acted: true,
            };
            journal.decision(key, &decision).unwrap();
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn who(name: &str, pid: u32) -> GuestIdentity {
    let uuid = format!("00000000-0000-0000-0000-{pid:012}");
    GuestIdentity {
        uuid,
        name: name.into(),
        class: "web".into(),
        pid: Some(pid),
        ..GuestIdentity::default()
    }
}

fn row<F: model::Field>(values: &[(F, u64)]) -> Row<F> {
    let mut row = Row::default();
    values.iter().for_each(|(field, value)| row.set(*field, Some(*value)));
    row
}

/// Returns a sample. In minute M of the recording one guest runs M percent of the time. The other
/// guest is idle.
fn moment(second: u64) -> Moment {
    let ran = |second: u64| (0..second).map(|s| s / 60 * 10 * MS).sum::<u64>();
    let host = row(&[
        (H::Cpus, 4),
        (H::User, ran(second)),
        (H::System, second * MS),
        (H::Idle, second * 3_000 * MS),
        (H::Total, 8_000 * MIB),
        (H::Available, (4_000 - second) * MIB),
        (H::SetPoint, 1_024 * MIB),
    ]);
    let web = row(&[
        (G::Vcpus, 2),
        (G::VcpuRun, ran(second)),
        (G::VcpuDelay, 0),
        (G::OtherRun, 0),
        (G::VcpuDispatches, second),
        (G::Memory, 1_024 * MIB),
        (G::Actual, 300 * MIB),
        (G::Minimum, 128 * MIB),
        (G::Resident, 280 * MIB),
        (G::OwnTotal, 1_000 * MIB),
        (G::OwnAvailable, 50 * MIB),
    ]);
    let quiet = row(&[(G::Vcpus, 1), (G::VcpuRun, 5 * MS), (G::Memory, 512 * MIB)]);
    let mut moment = Moment {
        at_ms: START_MS + i64::try_from(second * 1_000).unwrap(),
        host,
        guests: [(who("web1", 1), web)].into(),
        ..Moment::default()
    };
    // The manager rarely samples an idle guest.
    if second.is_multiple_of(15) {
        moment.guests.insert(who("quiet\u{1b}[2J", 2), quiet);
    }
    if second % 60 == 5 {
        let name = ProcessName { name: "ngi\u{1b}nx".into(), pid: 17 };
        let counts = row(&[
            (P::User, second * 10 * MS),
            (P::System, 0),
            (P::Dispatches, second * 4),
            (P::Run, second * MS),
        ]);
        moment.processes.insert(who("web1", 1), [(name, counts)].into());
    }
    moment
}

/// Returns the current time for a tape: ten hours later, in a zone one hour east of UTC.
fn now() -> Now {
    Now { ms: START_MS + 36_000_000, zone: tz::offset(1).to_time_zone() }
}

fn tape(dir: &Dir, at: Option<&str>, step_s: u32) -> Result<Tape, Error> {
    Tape::open(&Wanted { path: &dir.recordings(), at, step_s, journal: None }, &now())
}

/// Returns the run time of the busy guest in the interval shown, in percent.
fn ran(model: &Model) -> Option<f64> {
    let sample = model.sample.as_ref().unwrap();
    let row = sample.ps.guests.iter().find(|row| row.name == "web1")?;
    sample.seen(row).field("cpu_percent")
}

fn screen(model: &Model, view: &View) -> Vec<String> {
    let look = Look { zone: &Utc, is_ascii: false, is_text: false };
    let lines = draw(model, view, (80, 24), &look).into_iter().map(|line| line.text);
    let lines: Vec<String> = lines.collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains('\u{1b}')), "{lines:?}");
    lines
}

#[test]
fn a_tape_opens_at_a_time_and_moves_in_both_directions() {
    let dir = Dir::new();
    // The time is in the user's zone.
    let mut tape = tape(&dir, Some("15:03:30"), 60).unwrap();
    let model = tape.model().unwrap();
    let replay = model.replay.clone().unwrap();
    assert_eq!((replay.from_ms, replay.length_ms), (START_MS + 180_000, 60_000));
    assert_eq!(ran(&model).map(f64::round), Some(3.0));
    assert_eq!(model.busy.len(), 4, "the minutes before, and this one");
    let row = model.sample.as_ref().unwrap().ps.guests.iter().find(|row| row.name == "web1");
    let past: Vec<_> =
        model.pasts[&row.unwrap().id].iter().map(|at| at[0].map(f32::round)).collect();
    assert_eq!(past, [Some(0.0), Some(1.0), Some(2.0), Some(3.0)], "the guest's past as well");
    tape.travel(1);
    assert_eq!(ran(&tape.model().unwrap()).map(f64::round), Some(4.0));
    tape.travel(-3);
    assert_eq!(ran(&tape.model().unwrap()).map(f64::round), Some(1.0));
    tape.travel(10);
    assert_eq!(ran(&tape.model().unwrap()).map(f64::round), Some(11.0));
    tape.travel(10);
    let model = tape.model().unwrap();
    assert_eq!(model.replay.unwrap().at_end, Some("the recording ends here"));
    tape.travel(-30);
    let model = tape.model().unwrap();
    assert_eq!(model.replay.unwrap().at_end, Some("the recording begins here"));
    tape.travel(1);
    assert_eq!(tape.model().unwrap().replay.unwrap().at_end, None);
}

#[test]
fn without_a_time_the_end_of_the_recording_is_shown() {
    let dir = Dir::new();
    let file = dir.recordings().join("2026-11-21.db");
    for path in [dir.recordings(), file, dir.recordings().join("2026-11.db")] {
        let wanted = Wanted { path: &path, at: None, step_s: 60, journal: None };
        let model = Tape::open(&wanted, &now()).unwrap().model().unwrap();
        assert_eq!(ran(&model).map(f64::round), Some(14.0), "{}", path.display());
    }
}

#[test]
fn invalid_time_step_or_path_is_refused_with_a_hint() {
    let dir = Dir::new();
    let error_of = |path: &Path, at: Option<&str>, step_s| {
        let wanted = Wanted { path, at, step_s, journal: None };
        Tape::open(&wanted, &now()).unwrap_err().to_string()
    };
    let recordings = dir.recordings();
    let error = error_of(&recordings, Some("16:30"), 60);
    assert!(error.contains("Nothing is recorded at 2026-11-21 16:30:00"), "{error}");
    assert!(error.contains("covers 2026-11-21 15:00:00 to 2026-11-21 15:15:00"), "{error}");
    assert!(error_of(&recordings, Some("noon"), 60).contains(": use 14:03,"));
    assert!(error_of(&recordings, None, 90).contains("a multiple of 60 seconds"));
    assert!(
        error_of(&recordings, None, 0)
            .contains("--step must be a multiple of 60 seconds, such as 300, or 1 to 59")
    );
    assert!(error_of(&dir.0.join("none"), None, 60).contains("There is no "));
    std::fs::write(dir.0.join("other.db"), "").unwrap();
    let error = error_of(&dir.0.join("other.db"), None, 60);
    assert!(error.contains("is not a recording") && error.contains("2026-11-21.db"), "{error}");
    let above = error_of(&dir.0, None, 60);
    assert!(above.contains(&format!("are in {}", recordings.display())), "{above}");
    let empty = dir.0.join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(error_of(&empty, None, 60).contains("Nothing is recorded in "));
    std::fs::write(recordings.join("2026-10-01.db"), "").unwrap();
    assert!(error_of(&recordings.join("2026-10-01.db"), None, 60).contains("is empty"));
}

#[test]
fn single_seconds_are_shown_where_samples_exist() {
    let dir = Dir::new();
    let mut tape = tape(&dir, Some("15:03:30"), 1).unwrap();
    let model = tape.model().unwrap();
    assert_eq!(model.replay.as_ref().unwrap().from_ms, START_MS + 210_000);
    assert_eq!(ran(&model), Some(3.0));
    assert_eq!(model.busy.len(), HISTORY);
    let past = &model.pasts[&model.sample.as_ref().unwrap().ps.guests[1].id];
    assert_eq!((past.len(), past[HISTORY - 1][0]), (HISTORY, Some(3.0)));
    let sample = model.sample.as_ref().unwrap();
    // The idle guest was not reported in this second, but is present.
    let quiet = sample.ps.guests.iter().find(|row| row.pid == Some(2)).unwrap();
    assert_eq!(sample.seen(quiet).state(), "asleep");
    // The processes come from the guest's last two reports, however old they are.
    let web = sample.ps.guests.iter().find(|row| row.name == "web1").unwrap();
    let processes = sample.seen(web).processes();
    assert_eq!((processes.len(), processes[0].wakes), (1, Some(240.0)));
    tape.travel(-10);
    assert_eq!(tape.model().unwrap().replay.unwrap().from_ms, START_MS + 200_000);
}

#[test]
fn a_gap_is_shown_and_can_be_left() {
    let dir = Dir::new();
    let mut tape = tape(&dir, Some("15:06"), 60).unwrap();
    let text = screen(&tape.model().unwrap(), &View::new(Shown::Overview, "")).join("\n");
    assert!(text.contains("Nothing was recorded at this time"), "{text}");
    tape.travel(3);
    assert_eq!(ran(&tape.model().unwrap()).map(f64::round), Some(9.0));
    let mut seconds = self::tape(&dir, Some("15:06"), 10).unwrap();
    let text = screen(&seconds.model().unwrap(), &View::new(Shown::Guests, "")).join("\n");
    assert!(text.contains("no samples of single seconds"), "{text}");
}

#[test]
fn the_same_screens_show_the_past() {
    let dir = Dir::new();
    let mut tape = tape(&dir, Some("15:03"), 60).unwrap();
    let model = tape.model().unwrap();
    let guests = View::new(Shown::Guests, "");
    let lines = screen(&model, &guests);
    assert!(lines[0].starts_with("replay  2026-11-21 14:03:00"), "{lines:?}");
    assert!(lines[2].contains("web1") && lines[2].contains("running    3.0"), "{lines:?}");
    assert!(lines[3].contains("quiet\u{fffd}[2J") && lines[3].contains("asleep"), "{lines:?}");
    assert!(lines[23].contains("+1 min") && lines[23].contains("[ ] a step"), "{lines:?}");
    let id = model.sample.as_ref().unwrap().ps.guests.iter().find(|row| row.name == "web1");
    let one = View { open: id.map(|row| row.id), ..guests.clone() };
    let text = screen(&model, &one).join("\n");
    for part in ["web1   running recorded", "sum of all virtual CPUs", "ngi\u{fffd}nx (17)", "240"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let overview = screen(&model, &View::new(Shown::Overview, "")).join("\n");
    assert!(overview.contains("set point 1024   reserve -"), "{overview}");
    let decisions = screen(&model, &View::new(Shown::Decisions, "")).join("\n");
    assert!(decisions.contains("no journal next to this recording"), "{decisions}");
}

#[test]
fn decisions_up_to_the_current_position_are_shown() {
    let dir = Dir::new();
    dir.decide();
    let mut tape = tape(&dir, Some("15:02"), 60).unwrap();
    let decisions = View::new(Shown::Decisions, "");
    let lines = screen(&tape.model().unwrap(), &decisions);
    for (line, at, action) in [(2, "14:02:10", "shrink"), (4, "14:01:00", "hold")] {
        assert!(lines[line].starts_with(&format!("{at} web1")), "{lines:?}");
        assert!(lines[line].trim_end().ends_with(action), "{lines:?}");
        let reason = lines[line + 1].trim();
        assert_eq!(reason, "the host has less free memory than its set point");
    }
    assert_eq!(lines[6], "");
    let row = tape.model().unwrap().sample.unwrap().ps.guests.remove(1);
    assert_eq!((row.action, row.clause), (Some(SizeAction::Shrink), Some(Clause::SetPoint)));
    // The guest has the same id in every interval.
    let id = row.id;
    tape.travel(-1);
    let model = tape.model().unwrap();
    assert_eq!(model.decisions.len(), 1, "later decisions are not shown");
    let view = View { open: Some(id), ..View::new(Shown::Guests, "") };
    assert!(screen(&model, &view)[1].contains("web1"));
}

#[test]
fn keys_move_by_steps_in_a_recording() {
    let mut view = View::new(Shown::Guests, "");
    for (keys, steps) in [("]", 1), ("[[[", -3), ("}", 10), ("{", -10)] {
        for key in Decoder::default().feed(keys.as_bytes()) {
            press(&mut view, key, &Model::default(), (80, 24));
        }
        assert_eq!(std::mem::take(&mut view.travel), steps, "{keys}");
    }
}
