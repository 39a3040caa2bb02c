//! Tests of actions on the marked guest, from the keys to the orders.

use super::*;
use crate::orders::Action;
use crate::page::Page;
use base::Rng;
use manager::control::GuestMode;

fn ordered(view: &mut View, model: &Model, keys: &[u8]) -> Option<(Action, String)> {
    press(view, model, keys);
    view.order.take().map(|order| (order.action, order.guest.name))
}

#[test]
fn keys_act_on_the_marked_guest() {
    let model = model();
    let on_db = || View { selected: Some(3), ..on(Shown::Overview) };
    let db = |action| Some((action, "db".to_owned()));
    for shown in [Shown::Overview, Shown::Guests] {
        let mut view = View { shown, ..on_db() };
        assert_eq!(ordered(&mut view, &model, b"c"), db(Action::Console));
        assert_eq!(ordered(&mut view, &model, b"l"), db(Action::Logs));
        assert_eq!(ordered(&mut view, &model, b"w"), db(Action::Why));
        assert_eq!(ordered(&mut view, &model, b"px"), None, "a guest is not parked by accident");
        assert_eq!(ordered(&mut view, &model, b"p"), None);
        let foot = draw(&model, &view, (80, 24), &LOOK)[23].clone();
        assert!(foot.starts_with("Park db? The guest stops until p wakes it."), "{foot}");
        assert_eq!(ordered(&mut view, &model, b"y"), db(Action::Park));
        assert_eq!(ordered(&mut view, &model, b"i\r"), db(Action::Pin("450 MiB".into())));
        let changed = ordered(&mut view, &model, b"i\x7f\x7f\x7f\x7f\x7f\x7f5 MiB\r");
        assert_eq!(changed, db(Action::Pin("45 MiB".into())));
        assert_eq!(ordered(&mut view, &model, b"i\x1b"), None);
    }
    let mut open = View { open: Some(3), ..on_db() };
    assert_eq!(ordered(&mut open, &model, b"l"), db(Action::Logs));
    let mut decisions = on(Shown::Decisions);
    assert_eq!(
        ordered(&mut decisions, &model, b"w"),
        db(Action::Why),
        "the guest of the newest decision"
    );
    let mut memory = on(Shown::Memory);
    assert_eq!(ordered(&mut memory, &model, b"p"), None);
    assert!(memory.note.unwrap().starts_with("No guest is marked"));
}

#[test]
fn parked_guest_is_woken_and_pinned_guest_is_unpinned() {
    let mut model = model();
    let row = &mut model.sample.as_mut().unwrap().ps.guests[2];
    (row.state, row.mode) = (GuestRunState::Parked, GuestMode::Pinned);
    let mut view = View { selected: Some(3), ..on(Shown::Guests) };
    let foot = draw(&model, &view, (120, 24), &LOOK)[23].clone();
    assert!(foot.contains("p wake") && foot.contains("i unpin"), "{foot}");
    let db = |action| Some((action, "db".to_owned()));
    assert_eq!(ordered(&mut view, &model, b"p"), db(Action::Wake));
    assert_eq!(ordered(&mut view, &model, b"i"), db(Action::Manage));
}

#[test]
fn recording_takes_no_action() {
    let model = past();
    let mut view = View { selected: Some(3), ..on(Shown::Guests) };
    assert_eq!(ordered(&mut view, &model, b"clwpi"), None);
    assert!(view.note.as_ref().unwrap().starts_with("This is a recording"));
    assert!(draw(&model, &view, (80, 24), &LOOK)[23].starts_with("This is a recording"));
    press(&mut view, &model, b"j");
    assert_eq!(view.note, None, "a remark stays until the next key");
}

#[test]
fn page_opens_at_its_end_and_can_be_left() {
    let model = model();
    let text: String = (0..100).map(|line| format!("line {line}\u{1b}[2J\n")).collect();
    let mut view = on(Shown::Guests);
    view.page = Some(Page::at_end("log of db".into(), &text));
    let lines = draw(&model, &view, (80, 24), &LOOK);
    assert!(lines[0].starts_with("pinhead  log of db"), "{lines:?}");
    assert_eq!([&*lines[1], &*lines[22]], ["line 78\u{fffd}[2J", "line 99\u{fffd}[2J"]);
    press(&mut view, &model, b"\x1b[5~k");
    assert_eq!(draw(&model, &view, (80, 24), &LOOK)[1], "line 56\u{fffd}[2J");
    press(&mut view, &model, b"\x1b[H");
    assert_eq!(draw(&model, &view, (80, 24), &LOOK)[1], "line 0\u{fffd}[2J");
    press(&mut view, &model, b"q");
    assert!(view.page.is_none() && !view.is_over);
}

#[test]
fn narrow_terminals_show_whole_errors_of_actions() {
    let model = model();
    let error = "! No farm of yours runs: `pinhead up FARM.toml` starts one".to_owned();
    let view = View { note: Some(error), ..on(Shown::Guests) };
    let lines = draw(&model, &view, (40, 24), &LOOK);
    assert_eq!(lines[22..], ["! No farm of yours runs: `pinhead up", "! FARM.toml` starts one"]);
}

/// Keys to press in any order, as bytes of a terminal.
const KEYS: [&[u8]; 24] = [
    b"1", b"2", b"3", b"4", b"j", b"k", b"s", b"r", b"/", b"w", b"p", b"i", b"c", b"y", b"?", b"[",
    b" ", b"\r", b"\x1b", b"\x7f", b"\x1b[5~", b"\x1b[6~", b"\x1b[H", b"\x1b[F",
];

#[test]
fn keys_in_any_order_leave_a_screen_at_any_size() {
    let (live, past, nothing) = (model(), past(), Model::default());
    let mut rng = Rng::new(41);
    for model in [&live, &past, &nothing] {
        let mut view = View::default();
        for _ in 0..2_000 {
            let key = KEYS[rng.within(0, KEYS.len() as u64 - 1) as usize];
            let size = (rng.within(1, 220) as usize, rng.within(1, 60) as usize);
            let mut decoder = Decoder::default();
            let keys = decoder.feed(key).into_iter().chain(decoder.finish());
            keys.for_each(|key| step(&mut view, key, model, size));
            if view.order.take().is_some() {
                view.page = Some(Page::at_end("log".into(), &"a log's line\n".repeat(70)));
            }
            let lines = draw(model, &view, size, &LOOK);
            assert!(!view.is_over && lines.len() == size.1, "{size:?} {view:?}");
        }
    }
}
