//! Tests of screens with generated data, and of keys without a terminal.

mod acts;
mod fit;

use super::keys::{Decoder, Key};
use super::model::{Decided, HISTORY, Model, Replay};
use super::sample::Sample;
use super::screens::{self, Look};
use super::step::step;
use super::value::Column;
use super::vcpus::{Share, Vcpus};
use super::view::{Shown, Typed, View};
use manager::control::KsmPhase;
use manager::control::{GuestRow, GuestRunState, HostRow, KsmRow, Ps, SizeAction};
use model::clause::Clause;
use model::{
    Field, GuestField as G, GuestIdentity, HostField as H, Interval, Over, ProcessField as P,
    ProcessName, Row, TierField as T,
};
use reports::Utc;
use std::path::Path;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

fn over<F: Field>(covered_ms: u64, values: &[(F, u64)]) -> Over<F> {
    let mut row = Row::default();
    values.iter().for_each(|(field, value)| row.set(*field, Some(*value)));
    Over { covered_ms, row }
}

/// Returns the counters of a host with four CPUs and 8 GiB at a given second.
fn host(second: u64) -> Over<H> {
    let guests = 900 + 40 * (second % 7);
    let used = 5_000 + 100 * (second % 5);
    over(
        1000,
        &[
            (H::Cpus, 4),
            (H::User, 120 * MS),
            (H::System, 80 * MS),
            (H::Guest, guests * MS),
            (H::Idle, (3_800 - guests) * MS),
            (H::Steal, 0),
            (H::Total, 8_000 * MIB),
            (H::Available, (8_000 - used) * MIB),
            (H::Free, (7_000 - used) * MIB),
            (H::Anonymous, 4_600 * MIB),
            (H::Cached, 700 * MIB),
            (H::Shared, 20 * MIB),
            (H::Buffers, 30 * MIB),
            (H::Slab, 140 * MIB),
            (H::PageTables, 25 * MIB),
            (H::OwnResident, 22 * MIB),
            (H::OwnRun, 4 * MS),
            (H::SwapTotal, 2_048 * MIB),
            (H::SwapFree, 2_000 * MIB),
            (H::SwapIn, 0),
            (H::SwapOut, 12),
            (H::PsiCpuSome, 31 * MS),
            (H::PsiMemorySome, MS / 100),
            (H::PsiMemoryFull, 0),
            (H::KsmShared, 1_000),
            (H::KsmSharing, 30_000),
            (H::KsmRun, 9 * MS),
            (H::Stalls, 0),
            (H::OomKills, 0),
        ],
    )
}

fn guest(id: u64, name: &str, class: &str, asleep: bool) -> (GuestIdentity, GuestRow, Over<G>) {
    let pid = Some(1_000 + id as u32);
    let who =
        GuestIdentity { name: name.into(), class: class.into(), pid, ..GuestIdentity::default() };
    let row = GuestRow {
        id,
        name: name.into(),
        class: (!class.is_empty()).then(|| class.to_owned()),
        pid,
        state: GuestRunState::Running,
        daemon: true,
        memory_bytes: 1_024 * MIB,
        actual_bytes: Some((300 + 50 * id) * MIB),
        target_bytes: Some((300 + 50 * id) * MIB),
        min_bytes: 128 * MIB,
        max_bytes: 1_024 * MIB,
        shares: 100,
        resident_bytes: Some((250 + 50 * id) * MIB),
        available_bytes: Some(60 * MIB),
        need_bytes: Some(id % 3 * 20 * MIB),
        psi_permille: Some(id as f64),
        age_ms: Some(900),
        action: Some(SizeAction::Shrink),
        clause: Some(Clause::Shortage),
        reason: Some(format!("It has not used {} MiB for a minute, and others need them", 20 + id)),
        asleep,
        vcpu_tids: vec![11, 12],
        ..GuestRow::default()
    };
    let seen = over(
        1000,
        &[
            (G::Vcpus, 2),
            (G::VcpuRun, id * 50 * MS),
            (G::VcpuGuest, id * 45 * MS),
            (G::VcpuDelay, id * 5 * MS),
            (G::OtherRun, 3 * MS),
            (G::VcpuDispatches, 40 * id),
            (G::Resident, (250 + 50 * id) * MIB),
            (G::OwnAvailable, 60 * MIB),
            (G::OwnPsiSome, id * MS),
        ],
    );
    (who, row, seen)
}

/// Returns the sample of a second. The last guest's name is hostile.
fn sample(second: u64) -> Sample {
    let all = [
        guest(1, "web1", "web", false),
        guest(2, "web2", "web", false),
        guest(3, "db", "", false),
        guest(4, "batch-with-a-name-that-does-not-fit", "batch", true),
        guest(5, "\u{1b}[2J\u{202e}evil\r\n\u{9b}31m", "ba\u{7}d", false),
    ];
    let mut interval = Interval {
        from_ms: 1_763_740_800_000 + second as i64 * 1000,
        length_ms: 1000,
        host: host(second),
        ..Interval::default()
    };
    let mut ps = Ps { host: HostRow::default(), ksm: KsmRow::default(), guests: Vec::new() };
    ps.host.set_point_bytes = 1_024 * MIB;
    ps.host.hysteresis_bytes = 128 * MIB;
    ps.host.reserve_bytes = 512 * MIB;
    ps.ksm.phase = Some(KsmPhase::Steady);
    for (who, mut row, seen) in all {
        // The manager decides about the database later than about the other guests.
        if row.name == "db" && second > 30 {
            row.action = Some(SizeAction::Grow);
            row.clause = Some(Clause::Need);
            row.target_bytes = Some(600 * MIB);
            row.reason = Some("It needs 40 MiB\u{1b}]0;title\u{7} more than it has".into());
        }
        if row.name == "web1" {
            let name = ProcessName { name: "ngi\u{1b}nx".into(), pid: 0 };
            let process = over(
                60_000,
                &[
                    (P::User, 600 * MS),
                    (P::System, 150 * MS),
                    (P::Dispatches, 240),
                    (P::Run, 90 * MS),
                    (P::Resident, 31 * MIB),
                ],
            );
            interval.processes.entry(who.clone()).or_default().insert(name, process);
        }
        // An idle guest is not sampled.
        if !row.asleep {
            interval.guests.insert(who, seen);
        }
        ps.guests.push(row);
    }
    let zram = over(
        1000,
        &[
            (T::Size, 2_048 * MIB),
            (T::Used, 48 * MIB),
            (T::Stored, 48 * MIB),
            (T::Compressed, 15 * MIB),
            (T::Resident, 16 * MIB),
            (T::Reads, 0),
            (T::ReadBytes, 0),
            (T::Writes, 12),
            (T::WriteBytes, 49_152),
            (T::WriteTime, 600_000),
        ],
    );
    interval.tiers.insert("/dev/zram0".into(), zram);
    Sample::new(interval, ps, Some(1_234))
}

fn model() -> Model {
    let mut model = Model::default();
    (0..75).for_each(|second| model.take(sample(second)));
    let share = |run, delay| Some(Share { run, delay });
    model.vcpus = Vcpus::made_up(1, vec![share(4.1, 0.0), share(0.9, 12.5)]);
    model
}

const LOOK: Look<'_> = Look { zone: &Utc, is_ascii: false, is_text: false };

fn draw(model: &Model, view: &View, size: (usize, usize), look: &Look<'_>) -> Vec<String> {
    screens::draw(model, view, size, look).into_iter().map(|line| line.text).collect()
}

fn on(shown: Shown) -> View {
    View::new(shown, "")
}

/// Returns the same model as a minute of a recording.
fn past() -> Model {
    let mut model = model();
    model.replay = Some(Replay {
        from_ms: 1_763_740_800_000,
        length_ms: 60_000,
        nothing: None,
        at_end: Some("the recording ends here"),
        has_journal: true,
    });
    model.sample =
        model.sample.map(|sample| Sample::new(sample.interval().clone(), sample.ps, None));
    model
}

/// Compares the screen with a file under `snapshots`, in three sizes. If `UPDATE_GOLDEN` is set,
/// the files are written instead.
fn is_as_kept(name: &str, model: &Model, view: &View) {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let lines = draw(model, view, (width, height), &LOOK);
        assert_eq!(lines.len(), height, "{name}");
        for line in &lines {
            assert!(line.chars().count() <= width, "{name}: {line}");
            assert!(!line.chars().any(char::is_control), "{name}: {line:?}");
        }
        let text: String = lines.iter().map(|line| format!("{}\n", line.trim_end())).collect();
        let file = format!("src/snapshots/{name}-{width}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, kept, "{name} at {width}x{height}: UPDATE_GOLDEN=1 rewrites it");
    }
}

#[test]
fn every_screen_matches_its_snapshot() {
    let (live, past) = (model(), past());
    is_as_kept("overview", &live, &on(Shown::Overview));
    is_as_kept("guests", &live, &on(Shown::Guests));
    is_as_kept("memory", &live, &on(Shown::Memory));
    is_as_kept("decisions", &live, &on(Shown::Decisions));
    is_as_kept("guest", &live, &View { open: Some(1), ..on(Shown::Guests) });
    is_as_kept("help", &live, &View { has_help: true, ..on(Shown::Overview) });
    is_as_kept("replay-overview", &past, &on(Shown::Overview));
    is_as_kept("replay-guest", &past, &View { open: Some(1), ..on(Shown::Guests) });
}

#[test]
fn hostile_text_is_never_drawn_at_any_size() {
    let model = model();
    let shown = [Shown::Overview, Shown::Guests, Shown::Memory, Shown::Decisions];
    for (width, height) in [(1, 1), (2, 3), (20, 5), (79, 23), (300, 200)] {
        for (shown, open) in shown.into_iter().flat_map(|one| [(one, None), (one, Some(5))]) {
            let hostile = "\u{1b}[A\u{202e}".to_owned();
            let typed = Some(Typed::Filter(hostile.clone()));
            let view = View { open, typed, filter: String::new(), ..on(shown) };
            let filtered = View { typed: None, filter: hostile, ..view.clone() };
            for look in [LOOK, Look { is_ascii: true, ..LOOK }, Look { is_text: true, ..LOOK }] {
                for view in [&view, &filtered] {
                    let lines = draw(&model, view, (width, height), &look);
                    assert!(lines.len() <= height.max(1));
                    let all: Vec<char> = lines.iter().flat_map(|line| line.chars()).collect();
                    assert!(lines.iter().all(|line| line.chars().count() <= width.max(1)));
                    let obeyed = |c: &char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(c);
                    assert!(!all.iter().any(obeyed), "{shown:?} {width}x{height}");
                    assert!(!look.is_ascii || all.iter().all(char::is_ascii));
                }
            }
        }
    }
}

#[test]
fn missing_manager_response_is_explained_on_the_screen() {
    let mut model = Model::default();
    model.trouble = Some("It does not\u{7} answer".into());
    let lines = draw(&model, &on(Shown::Guests), (80, 24), &LOOK);
    assert!(lines[2].contains("has not responded yet"), "{lines:?}");
    assert_eq!(lines[23], "! It does not\u{fffd} answer");
}

#[test]
fn decisions_are_listed_only_when_they_change() {
    let model = model();
    let guests: Vec<&str> = model.decisions.iter().map(|one| one.guest.as_str()).collect();
    assert_eq!(guests.len(), 6, "{guests:?}");
    assert_eq!((guests[0], model.decisions[0].action.as_str()), ("db", "grow"));
    assert_eq!((model.decisions[1].at_ms, model.decisions[0].at_ms.is_some()), (None, true));
    assert_eq!(model.busy.len(), 75.min(HISTORY));
    assert!(model.busy.iter().all(|busy| busy.is_some_and(|busy| (0.0..=100.0).contains(&busy))));
}

#[test]
fn guest_fields_match_the_reports() {
    let sample = sample(0);
    let seen = sample.seen(&sample.ps.guests[1]);
    assert_eq!(reports::shown(seen.field("cpu_percent"), 1), "10.3");
    assert_eq!(reports::shown(seen.field("cpu_wait_percent"), 1), "0.5");
    // A guest without a sample has no value, not even 0.
    assert_eq!(sample.seen(&sample.ps.guests[3]).field("cpu_percent"), None);
}

/// Checks that the screen of a guest shows a reason for each unavailable value.
#[test]
fn unknown_guest_values_have_a_reason() {
    let mut model = model();
    let text = |model: &Model, id| {
        let view = View { open: Some(id), ..on(Shown::Guests) };
        draw(model, &view, (80, 24), &LOOK).join("\n")
    };
    let screen = text(&model, 1);
    assert!(screen.contains("PROCESS ") && screen.contains("WAKER "), "{screen}");
    assert!(text(&model, 2).contains("two reports are needed; a running guest"));
    let rows = &mut model.sample.as_mut().unwrap().ps.guests;
    rows.iter_mut().for_each(|row| (row.daemon, row.vcpu_tids) = (false, Vec::new()));
    let screen = text(&model, 2);
    assert!(
        screen.contains("no daemon runs in the guest to report processes and wakers"),
        "{screen}"
    );
    assert!(screen.contains("the threads of the virtual CPUs are unknown"), "{screen}");
}

#[test]
fn shell_of_short_commands_is_the_first_process() {
    let mut model = model();
    let sample = model.sample.take().unwrap();
    let mut interval = sample.interval().clone();
    let times = [P::User, P::System, P::ChildUser, P::ChildSystem].into_iter();
    let shell = over(60_000, &times.zip([MS, MS, 898 * MS, 100 * MS]).collect::<Vec<_>>());
    let name = ProcessName { name: "sh".into(), pid: 0 };
    interval.processes.values_mut().next().unwrap().insert(name, shell);
    model.take(Sample::new(interval, sample.ps, Some(1)));
    let lines = draw(&model, &View { open: Some(1), ..on(Shown::Guests) }, (80, 24), &LOOK);
    let at = lines.iter().position(|line| line.starts_with("PROCESS")).unwrap();
    assert!(lines[at].contains("CPU ms/min"), "{lines:#?}");
    assert!(lines[at + 1].starts_with("sh ") && lines[at + 1].contains(" 1000.0 "), "{lines:#?}");
    assert!(lines[at + 2].starts_with("ngi\u{fffd}nx "), "{lines:#?}");
}

#[test]
fn each_virtual_cpu_has_its_own_cell() {
    let mut model = model();
    let root = std::env::temp_dir().join(format!("pinhead-top-{}", std::process::id()));
    let row = model.sample.as_mut().unwrap().ps.guests.iter_mut().find(|row| row.id == 1).unwrap();
    row.vcpu_tids = (0..9).collect();
    let row = row.clone();
    let view = View { open: Some(1), ..on(Shown::Guests) };
    let after = |lines: Vec<String>| {
        lines.into_iter().skip_while(|line| !line.starts_with("run+stl%")).collect::<Vec<_>>()
    };
    for second in 0..2 {
        for tid in 0..9 {
            let dir = root.join(format!("proc/1001/task/{tid}"));
            std::fs::create_dir_all(&dir).unwrap();
            let text = format!("{} {} 1", second * tid * 100 * MS, second * tid * MS);
            std::fs::write(dir.join("schedstat"), text).unwrap();
        }
        model.vcpus.look(&root, &row, 1_000 * (second + 1));
    }
    std::fs::remove_dir_all(&root).unwrap();
    let expected = "run+stl%  0     0+0       1  10.0+0.1     2  20.0+0.2     3  30.0+0.3";
    let low = after(draw(&model, &view, (80, 24), &LOOK));
    assert_eq!(low[0], format!("{expected}  +5"));
    let tall = after(draw(&model, &view, (80, 40), &LOOK));
    assert!(tall[1].contains(" 7  70.0+0.7") && tall[2].contains(" 8  80.0+0.8"), "{tall:?}");
}

/// A decision from the journal is not listed again when the manager reports it.
#[test]
fn journalled_decision_is_not_listed_again() {
    let mut model = Model::default();
    let row = &sample(0).ps.guests[0];
    model.decisions.push_front(Decided {
        at_ms: Some(1_763_740_000_000),
        id: row.id,
        guest: row.name.clone(),
        class: String::new(),
        action: "shrink".into(),
        clause: row.clause.unwrap().name().to_owned(),
        target_bytes: row.target_bytes,
        reason: "before".into(),
    });
    (0..3).for_each(|second| model.take(sample(second)));
    let of_it = model.decisions.iter().filter(|one| one.id == row.id);
    assert_eq!(of_it.map(|one| one.reason.as_str()).collect::<Vec<_>>(), ["before"]);
    assert_eq!(model.decisions.len(), sample(0).ps.guests.len());
}

fn names(view: &View, model: &Model) -> Vec<String> {
    view.guests(model).iter().map(|guest| guest.row.name.chars().take(5).collect()).collect()
}

fn press(view: &mut View, model: &Model, bytes: &[u8]) {
    let mut decoder = Decoder::default();
    let keys = decoder.feed(bytes).into_iter().chain(decoder.finish());
    keys.for_each(|key| step(view, key, model, (80, 24)));
}

#[test]
fn keys_sort_reverse_and_filter_the_guests() {
    let model = model();
    let mut view = on(Shown::Overview);
    press(&mut view, &model, b"2");
    assert_eq!(names(&view, &model)[1..], ["db", "web2", "web1", "batch"], "missing is last");
    press(&mut view, &model, b"r");
    assert_eq!(names(&view, &model)[..3], ["web1", "web2", "db"]);
    assert_eq!(names(&view, &model)[4], "batch", "missing is last in reverse order as well");
    press(&mut view, &model, b"r/web\r");
    assert_eq!(names(&view, &model), ["web2", "web1"]);
    press(&mut view, &model, b"/w*x\x7f2\r");
    assert_eq!((names(&view, &model), view.filter.as_str()), (vec!["web2".into()], "w*2"));
    press(&mut view, &model, b"/db");
    assert_eq!(names(&view, &model), ["db"], "a filter applies while it is typed");
    press(&mut view, &model, b"\x1b");
    assert_eq!(names(&view, &model).len(), 5, "Esc removes the typed filter and the old one");
    press(&mut view, &model, b"/web\r\x1b");
    assert_eq!(names(&view, &model).len(), 5, "Esc removes a filter");
    (0..Column::ALL.len()).for_each(|_| press(&mut view, &model, b"s"));
    assert_eq!(view.sort, Column::Cpu, "the columns wrap around");
}

#[test]
fn names_are_in_natural_order() {
    let mut model = model();
    for row in &mut model.sample.as_mut().expect("a sample").ps.guests {
        row.name = format!("g{}", 12 - row.id);
    }
    // All guests have the same maximum, so the order follows their names.
    for sort in [Column::Name, Column::Of] {
        let view = View { sort, ..on(Shown::Guests) };
        assert_eq!(names(&view, &model), ["g7", "g8", "g9", "g10", "g11"]);
    }
    let view = View { sort: Column::Name, is_reversed: true, ..on(Shown::Guests) };
    assert_eq!(names(&view, &model)[..2], ["g11", "g10"]);
}

#[test]
fn the_mark_stays_with_its_guest_and_opens_it() {
    let model = model();
    let mut view = on(Shown::Guests);
    press(&mut view, &model, b"\x1b[Bj");
    assert_eq!(view.selected, Some(2));
    press(&mut view, &model, b"r\r");
    assert_eq!(view.open, Some(2));
    assert!(draw(&model, &view, (80, 24), &LOOK)[1].contains("web2"));
    press(&mut view, &model, b"\x1b");
    assert_eq!((view.open, view.selected), (None, Some(2)));
    press(&mut view, &model, b"\x1b[F");
    assert_eq!(view.selected, Some(4));
    press(&mut view, &model, b"4\r");
    assert_eq!((view.shown, view.open), (Shown::Guests, Some(3)), "the newest decision's guest");
    let view = View { open: Some(77), ..view };
    assert!(draw(&model, &view, (80, 24), &LOOK)[2].contains("This guest is gone"));
}

#[test]
fn keys_freeze_the_screen_open_help_and_quit() {
    let model = model();
    let mut view = on(Shown::Memory);
    press(&mut view, &model, b" ");
    assert!(view.is_frozen && draw(&model, &view, (80, 24), &LOOK)[0].contains("FROZEN"));
    press(&mut view, &model, b" ??");
    assert!(!view.is_frozen && !view.has_help && !view.is_over);
    press(&mut view, &Model::default(), b" ");
    assert!(!view.is_frozen, "there is no screen yet to freeze");
    press(&mut view, &model, b"q");
    assert!(view.is_over);
    // In a filter, q is a character. An interrupt always ends the program.
    let mut view = on(Shown::Guests);
    press(&mut view, &model, b"/q");
    assert!(!view.is_over);
    press(&mut view, &model, b"\x03");
    assert!(view.is_over);
}

#[test]
fn a_key_may_arrive_in_several_reads() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.feed(b"\x1b"), []);
    assert!(decoder.is_open());
    assert_eq!(decoder.feed(b"[5"), []);
    assert_eq!(decoder.feed(b"~k\xc3"), [Key::PageUp, Key::Char('k')]);
    assert_eq!(decoder.feed(b"\xa4"), [Key::Char('ä')]);
    assert_eq!(decoder.feed(b"\x1b"), []);
    assert_eq!(decoder.finish(), [Key::Escape]);
    assert_eq!(decoder.finish(), []);
    // The decoder drops invalid or endless input.
    assert_eq!(decoder.feed(&[0x1b, b'[', b'1', 0xff, 0xfe]), []);
    assert_eq!(decoder.feed(&[b';'; 40]), []);
    assert_eq!(decoder.feed(b"\xffq"), [Key::Char('q')]);
}
