//! Tests that kill a recording process, or fill the disk. Recorded data must survive, and recording
//! must continue.

use crate::common::{Dir, START_MS};
use crate::day::World;
use model::{HostField, Moment};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use store::{Keep, News, Recorder, Records};

/// Environment variable of the child: path of the directory.
const DIR: &str = "PINHEAD_TEST_RECORDS";
const KILLS: i64 = 92;
const GUESTS: usize = 3;
/// Milliseconds between two moments, long enough that minutes and quarters end soon.
const STEP_MS: i64 = 5_000;

/// This test is also the child, if the variable is set. The child runs until it is killed. Without
/// the variable the test does nothing.
#[test]
fn child_that_records_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    let mut last_ms = START_MS - STEP_MS;
    if let Ok(records) = Records::open(dir) {
        // The last recorded moment. The new moments continue from the time of this moment.
        let (_, to_ms) = records.extent().expect("read").unwrap_or((0, START_MS));
        let visit = |moment: Moment| {
            last_ms = last_ms.max(moment.at_ms);
            ControlFlow::Continue(())
        };
        records.raw(to_ms - 120_000, i64::MAX, visit).expect("read");
    }
    let mut recorder = Recorder::new(dir, Keep::USUAL);
    loop {
        last_ms += STEP_MS;
        let news = recorder.record(&moment(last_ms));
        assert!(news.is_none(), "{news:?}");
        // The harness would capture `println`.
        writeln!(std::io::stderr().lock(), "recorded {last_ms}").expect("the parent listens");
    }
}

/// Returns a moment that contains its own number.
fn moment(at_ms: i64) -> Moment {
    let mut moment = World::new(GUESTS, at_ms - 60_000).at(at_ms);
    moment.host.set(HostField::User, Some(at_ms.unsigned_abs()));
    moment
}

#[test]
fn recorded_moments_survive_a_kill() {
    let dir = Dir::new("recorder-crash");
    let mut recorded_ms = START_MS;
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "recorder_crash::child_that_records_until_it_is_killed",
                "--nocapture",
            ])
            .env(DIR, &dir.0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let time = |line: &str| line.strip_prefix("recorded ").and_then(|ms| ms.parse().ok());
        // Each round has a different number of moments, so that the kill happens at a different
        // time.
        for _ in 0..=round * 7 % 23 {
            let line = lines.next().expect("it goes on").expect("text");
            recorded_ms = time(&line).unwrap_or_else(|| {
                let rest: Vec<String> = lines.by_ref().map_while(Result::ok).collect();
                panic!("{line}{}", rest.join("\n"))
            });
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        // The last line may be cut.
        let rest = lines.map_while(Result::ok).filter_map(|line| time(&line));
        recorded_ms = rest.max().unwrap_or(recorded_ms).max(recorded_ms);
        // All recorded data is readable after the kill. At most the last second, which was not
        // reported, is missing.
        let records = Records::open(&dir.0).expect("opened");
        let mut last_ms = 0;
        let visit = |moment: Moment| {
            assert!(last_ms == 0 || moment.at_ms == last_ms + STEP_MS, "no moment is missing");
            last_ms = moment.at_ms;
            ControlFlow::Continue(())
        };
        records.raw(recorded_ms - 600_000, i64::MAX, visit).expect("read");
        assert!(
            last_ms >= recorded_ms,
            "{recorded_ms} was recorded, and {last_ms} is the last one"
        );
    }
    let mut recorder = Recorder::new(&dir.0, Keep::USUAL);
    assert!(recorder.record(&moment(recorded_ms + 2 * STEP_MS)).is_none());
    recorder.close().expect("written");
    // No minute is incomplete or recorded twice.
    let records = Records::open(&dir.0).expect("opened");
    assert_eq!(records.gaps(i64::MIN, i64::MAX).expect("read"), []);
    let minutes = records.intervals(START_MS, recorded_ms / 60_000 * 60_000, 60_000).expect("read");
    assert!(minutes.len() > 70, "{}", minutes.len());
    for minute in &minutes {
        assert_eq!(minute.host.covered_ms, 60_000);
        assert_eq!(minute.host.get(HostField::User), Some(60_000));
        assert_eq!(minute.guests.len(), GUESTS);
    }
    let quarters =
        records.intervals(START_MS, recorded_ms / 900_000 * 900_000, 900_000).expect("read");
    assert!(quarters.iter().all(|quarter| quarter.host.covered_ms == 900_000));
}

/// A file system of 4 MiB, if the test may mount one.
struct Small(Dir);

impl Small {
    fn new(name: &str) -> Option<Small> {
        let dir = Dir::new(name);
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(&dir.0)
            .stderr(Stdio::null())
            .status();
        mount.is_ok_and(|status| status.success()).then_some(Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // A remaining mount cannot be reported here.
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_once_and_recording_goes_on() {
    let Some(small) = Small::new("recorder-full") else {
        eprintln!("left out: only root can make a small file system");
        return;
    };
    let dir = &small.0.0;
    std::fs::create_dir(dir.join("here")).expect("made");
    let here = dir.join("here");
    let mut recorder = Recorder::new(&here, Keep::USUAL);
    let mut world = World::new(10, START_MS);
    let mut at_ms = START_MS;
    let mut feed = |recorder: &mut Recorder| {
        at_ms += 5_000;
        recorder.record(&world.at(at_ms))
    };
    for _ in 0..30 {
        assert!(feed(&mut recorder).is_none());
    }
    // The filler uses the last free byte of the disk.
    let mut file = std::fs::File::create(dir.join("filler")).expect("made");
    while file.write_all(&[1; 512]).is_ok() {}
    drop(file);
    let news: Vec<News> = (0..120).filter_map(|_| feed(&mut recorder)).collect();
    let [News::Failed(error)] = &news[..] else { panic!("{news:?}") };
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    assert!(text.contains("full") || text.contains("No space"), "{text}");
    assert!((1..=12).contains(&recorder.waiting()), "{}", recorder.waiting());
    // Earlier data is still readable.
    let records = Records::open(&here).expect("opened");
    assert!(!records.intervals(START_MS, i64::MAX, 60_000).expect("read").is_empty());
    // After the memory limit the oldest minutes are dropped, and the loss is reported.
    let news: Vec<News> = (0..600).filter_map(|_| feed(&mut recorder)).collect();
    assert!(news.is_empty(), "{news:?}");
    assert_eq!(recorder.waiting(), 30);
    std::fs::remove_file(dir.join("filler")).expect("there");
    let news: Vec<News> = (0..30).filter_map(|_| feed(&mut recorder)).collect();
    let [News::Recovered { lost }] = &news[..] else { panic!("{news:?}") };
    assert!(*lost > 10, "{lost}");
    assert_eq!(recorder.waiting(), 0);
    let found = records.intervals(START_MS, i64::MAX, 60_000).expect("read");
    let lost_minutes = found.iter().filter(|minute| minute.host.covered_ms == 0).count();
    let whole = found.iter().filter(|minute| minute.host.covered_ms == 60_000).count();
    assert_eq!(lost_minutes as u64, *lost);
    assert!(whole >= 30, "{whole} of {}", found.len());
    let gaps = records.gaps(i64::MIN, i64::MAX).expect("read");
    assert_eq!(gaps.len() as u64, *lost);
    assert!(gaps.iter().all(|gap| gap.reason == "lost"));
}
