use super::*;
use jiff::tz::TimeZone;
use model::{
    GuestField, GuestIdentity, HostField, Moment, PassGuest, PassInput, ProcessField, ProcessName,
    Row,
};
use std::sync::Arc;
use store::{Decision, Keep, PassRecorder, Policy, Recorder, Word};

const BEGIN_MS: i64 = 1_795_500_000_000;
const MINUTE: i64 = 60_000;

fn now() -> Now {
    Now { ms: BEGIN_MS + 30 * MINUTE, zone: TimeZone::UTC }
}

struct Dir(PathBuf);

impl Dir {
    /// Creates a directory with ten minutes of a guest, with a sample every ten seconds.
    fn new(name: &str) -> Dir {
        let dir =
            std::env::temp_dir().join(format!("pinhead-record-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("own")).unwrap();
        let recordings = dir.join("own").join(RECORDINGS);
        let mut recorder = Recorder::new(&recordings, Keep::USUAL);
        fs::create_dir_all(&recordings).unwrap();
        let mut passes = PassRecorder::new(&recordings, i64::MAX, u64::MAX);
        let who = GuestIdentity {
            name: "payroll".into(),
            uuid: "6f0e".into(),
            class: "secret".into(),
            ..GuestIdentity::default()
        };
        for number in 0..=60u64 {
            let at_ms = BEGIN_MS + (number * 10_000).cast_signed();
            let mut moment = Moment { at_ms, ..Moment::default() };
            moment.host.set(HostField::Total, Some(1 << 33));
            let mut row = Row::default();
            row.set(GuestField::VcpuRun, Some(number * 1_000_000_000));
            moment.guests.insert(who.clone(), row);
            let mut process = Row::default();
            process.set(ProcessField::Run, Some(number * 500_000_000));
            let name = ProcessName { name: "cobol".into(), pid: 7 };
            moment.processes.insert(who.clone(), [(name, process)].into());
            assert!(recorder.record(&moment).is_none());
            let guest = PassGuest { who: Arc::new(who.clone()), ..PassGuest::default() };
            let guests = [(1, guest)].into();
            let now_ms = number * 10_000;
            assert!(
                passes
                    .record(&PassInput { number, at_ms, now_ms, guests, ..PassInput::default() })
                    .is_none()
            );
        }
        recorder.close().and(passes.close()).unwrap();
        let mut journal = Journal::open(&dir.join("own").join(JOURNAL)).unwrap();
        for minute in [1, 8] {
            let at_ms = BEGIN_MS + minute * MINUTE;
            let key = journal.guest(&who, at_ms).unwrap();
            let decision = Decision {
                at_ms,
                policy: Policy::Active,
                action: Word::from("hold"),
                clause: Word::from("stale"),
                detail: "nothing more came from payroll".into(),
                from_bytes: 1,
                to_bytes: 1,
                bounds: Vec::new(),
                inputs: Vec::new(),
                acted: false,
            };
            journal.decision(key, &decision).unwrap();
        }
        let key = journal.guest(&who, BEGIN_MS + MINUTE).unwrap();
        let event = store::Event {
            at_ms: BEGIN_MS + MINUTE,
            kind: Word::from("guest-found"),
            text: "it was found at /run/pinhead/payroll.qmp".into(),
        };
        journal.event(Some(key), &event).unwrap();
        Dir(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn export(&self, to: &Path, rename: bool) -> ExportArgs {
        ExportArgs {
            target: to.into(),
            from: None,
            to: None,
            rename,
            dir: Some(self.path("own").join(RECORDINGS)),
            journal: None,
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns all rows of minutes in the order in which they are read.
fn intervals(dir: &Path) -> Vec<model::Interval> {
    let records = Records::open(&dir.join(RECORDINGS)).unwrap();
    records.intervals(0, i64::MAX, MINUTE).unwrap()
}

fn moments(dir: &Path) -> Vec<Moment> {
    let mut all = Vec::new();
    let visit = |moment| {
        all.push(moment);
        ControlFlow::Continue(())
    };
    Records::open(&dir.join(RECORDINGS)).unwrap().raw(0, i64::MAX, visit).unwrap();
    all
}

#[test]
fn exported_recordings_equal_the_original() {
    let dir = Dir::new("same");
    let to = dir.path("out");
    let said = export(&dir.export(&to, false), &now(), &mut Vec::new()).unwrap();
    assert!(
        said.starts_with("10 rows, 61 samples of a second, 61 passes and 2 decisions"),
        "{said}"
    );
    assert_eq!(intervals(&to), intervals(&dir.path("own")));
    assert_eq!(moments(&to), moments(&dir.path("own")));
    // The export is repeated through a stream.
    let mut stream = Vec::new();
    let args = dir.export(Path::new(STREAM), false);
    assert_eq!(export(&args, &now(), &mut stream).unwrap(), "");
    let back = dir.path("back");
    let args = ImportArgs { from: STREAM.into(), to: back.clone() };
    let said = import(&args, &::why::now(), &mut stream.as_slice()).unwrap();
    assert!(said.contains("--dir ") && said.contains("It covers 2026-"), "{said}");
    assert!(said.contains(&format!("--journal {}", back.join(JOURNAL).display())), "{said}");
    assert_eq!(moments(&back), moments(&dir.path("own")));
    assert!(Journal::read_only(&back.join(JOURNAL)).unwrap().guests().unwrap().len() == 1);
    let args = ImportArgs { from: to.clone(), to: dir.path("copy") };
    assert!(import(&args, &::why::now(), &mut [].as_slice()).is_ok(), "a directory");
}

#[test]
fn a_part_of_the_time_has_only_that() {
    let dir = Dir::new("part");
    let to = dir.path("out");
    let args = ExportArgs {
        from: Some("2026-11-24 06:05".into()),
        to: Some("2026-11-24 06:09".into()),
        ..dir.export(&to, false)
    };
    let said = export(&args, &now(), &mut Vec::new()).unwrap();
    assert!(
        said.starts_with("4 rows, 24 samples of a second, 24 passes and 1 decisions"),
        "{said}"
    );
    let nothing = ExportArgs {
        from: Some("2026-11-20".into()),
        to: Some("2026-11-21".into()),
        ..dir.export(&dir.path("nothing"), false)
    };
    let error = export(&nothing, &now(), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("Nothing was recorded"), "{error}");
    assert!(!dir.path("nothing").exists());
}

#[test]
fn a_gap_that_began_in_an_earlier_month_goes_along() {
    let dir = Dir::new("gap");
    // One sample is two months older than the ten minutes, with nothing in between.
    let before_ms = BEGIN_MS - 60 * 1440 * MINUTE;
    let recordings = dir.0.join("gapped").join(RECORDINGS);
    fs::create_dir_all(&recordings).unwrap();
    let mut recorder = Recorder::new(&recordings, Keep::USUAL);
    for at_ms in [before_ms, before_ms + MINUTE, BEGIN_MS, BEGIN_MS + MINUTE, BEGIN_MS + 2 * MINUTE]
    {
        let mut moment = Moment { at_ms, ..Moment::default() };
        moment.host.set(HostField::Total, Some(1 << 33));
        assert!(recorder.record(&moment).is_none());
    }
    recorder.close().unwrap();
    let from_ms = BEGIN_MS - 5 * MINUTE;
    let gaps = |dir: &Path| Records::open(dir).unwrap().gaps(from_ms, i64::MAX).unwrap();
    let to = dir.0.join("out");
    let mut travel = Travel { from_ms, to_ms: i64::MAX, names: None };
    fs::create_dir_all(&to).unwrap();
    travel.records(&Records::open(&recordings).unwrap(), &to).unwrap();
    let found = gaps(&to);
    assert!(found.iter().any(|gap| gap.from_ms < BEGIN_MS - 1440 * MINUTE), "{found:?}");
    assert_eq!(found, gaps(&recordings));
}

#[test]
fn no_name_stays_in_any_file_where_names_are_replaced() {
    let dir = Dir::new("names");
    let to = dir.path("out");
    export(&dir.export(&to, true), &now(), &mut Vec::new()).unwrap();
    let intervals = intervals(&to);
    let names = |interval: &model::Interval| -> Vec<String> {
        interval.guests.keys().map(|who| who.name.clone()).collect()
    };
    assert!(intervals.iter().skip(1).all(|interval| names(interval) == ["guest1"]));
    let journal = Journal::read_only(&to.join(JOURNAL)).unwrap();
    assert_eq!(journal.guests().unwrap()[0].guest.class, "class1");
    let keys: Vec<_> = journal.guests().unwrap().iter().map(|guest| guest.key).collect();
    let range = store::Range { from_ms: 0, to_ms: i64::MAX };
    let events = journal.events(&keys, range, 10).unwrap();
    assert_eq!((events.len(), events[0].event.text.as_str()), (1, ""), "only its kind stays");
    // The files are compressed, so their records are compared instead of their bytes.
    let mut all = format!("{intervals:?} {:?} {:?}", moments(&to), journal.guests().unwrap());
    let records = Records::open(&to.join(RECORDINGS)).unwrap();
    records
        .passes(0, i64::MAX, |pass| {
            all.push_str(&format!("{pass:?}"));
            ControlFlow::Continue(())
        })
        .unwrap();
    let query = store::Query { guests: keys, range, policy: None };
    journal
        .decisions(&query, |decided| {
            all.push_str(&format!("{decided:?}"));
            ControlFlow::Continue(())
        })
        .unwrap();
    for secret in ["payroll", "secret", "cobol", "6f0e"] {
        assert!(!all.contains(secret), "{secret} is still there");
    }
    assert!(all.contains("guest1") && all.contains("process1") && all.contains("uuid1"));
}

#[test]
fn import_of_no_recording_is_refused_and_leaves_nothing() {
    let dir = Dir::new("refused");
    let to = dir.path("in");
    let refused = |bytes: &[u8]| {
        let args = ImportArgs { from: STREAM.into(), to: to.clone() };
        let error = import(&args, &::why::now(), &mut &*bytes).unwrap_err();
        assert!(!to.exists(), "a partial import stays");
        base::chain(&error)
    };
    assert!(refused(&[0x1f, 0x8b, 8, 0]).contains("gunzip"), "{}", refused(&[0x1f, 0x8b, 8, 0]));
    assert!(refused(&[7; 2048]).contains("not a tar of recordings"), "{}", refused(&[7; 2048]));
    let with = |path: &str, text: &[u8]| {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_path(path).unwrap();
        header.set_cksum();
        tar.append(&header, text).unwrap();
        tar.into_inner().unwrap()
    };
    assert!(refused(&with("passwd", b"x")).contains("recordings do not have such a file"));
    let damaged = refused(&with("recordings/raw.db", &[9; 4096]));
    assert!(damaged.contains("raw.db"), "{damaged}");
    assert!(refused(&with("recordings/raw.db", b"")).contains("The recording is empty"));
    let mut stream = Vec::new();
    export(&dir.export(Path::new(STREAM), false), &now(), &mut stream).unwrap();
    stream.truncate(stream.len() / 2);
    assert!(!refused(&stream).is_empty(), "a stream that was cut");
    fs::create_dir_all(&to).unwrap();
    let args = ImportArgs { from: STREAM.into(), to: to.clone() };
    let error = import(&args, &::why::now(), &mut [].as_slice()).unwrap_err().to_string();
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn finding2_07_pipe_among_exported_files_is_refused() {
    let dir = Dir::new("pipe");
    let to = dir.path("out");
    export(&dir.export(&to, false), &now(), &mut Vec::new()).unwrap();
    let pipe = to.join(RECORDINGS).join("passes.db");
    fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // With the other end open, the import can open the pipe without waiting.
    let _other_end = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let args = ImportArgs { from: to, to: dir.path("copy") };
    let said = import(&args, &::why::now(), &mut [].as_slice()).unwrap_err().to_string();
    assert!(said.contains("passes.db is a directory, a pipe or a device"), "{said}");
    assert!(!dir.path("copy").exists());
}

#[test]
fn times_of_an_export_are_before_the_end_of_the_recordings() {
    let dir = Dir::new("times");
    let later = Now { ms: BEGIN_MS + 30 * 24 * 60 * MINUTE, zone: TimeZone::UTC };
    let exported = |name: &str, from: Option<&str>| {
        let to = dir.path(name);
        let args = ExportArgs { from: from.map(str::to_owned), ..dir.export(&to, false) };
        export(&args, &later, &mut Vec::new()).unwrap();
        moments(&to).into_iter().map(|moment| moment.at_ms).collect::<Vec<_>>()
    };
    let all = exported("all", None);
    assert_eq!(all.last(), Some(&(BEGIN_MS + 10 * MINUTE)), "nothing at the end is lost");
    let last = exported("last", Some("3m ago"));
    assert!(last.len() > 10 && last.len() < all.len(), "{last:?}");
    assert!(last.iter().all(|at_ms| *at_ms >= BEGIN_MS + 7 * MINUTE), "{last:?}");
}
