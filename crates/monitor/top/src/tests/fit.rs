//! Tests of the screens' fit: any width and height of a terminal, with the reasons readable.

use super::*;
use base::columns;

fn words(lines: &[String]) -> String {
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn budget() -> Model {
    let mut model = Model::default();
    (0..200).for_each(|second| {
        let mut sample = sample(second);
        sample.ps.host.budget_bytes = Some(480 * MIB);
        sample.ps.host.available_bytes = Some((100 - second % 100) * MIB);
        model.take(sample);
    });
    model
}

/// Widths and heights of terminals. Sizes at which nothing changes are left out.
fn sizes() -> impl Iterator<Item = (usize, usize)> {
    let widths = (40..=130).step_by(3).chain((131..=300).step_by(17)).chain([300]);
    widths.flat_map(|width| (10..=80).step_by(5).map(move |height| (width, height)))
}

#[test]
fn screens_fit_any_terminal_and_keep_the_reason() {
    let model = budget();
    let reason = "It has not used 21 MiB for a minute, and others need them";
    let prefix = "shrink: It has not";
    let web1 = |shown| View { selected: Some(1), ..on(shown) };
    let open = View { open: Some(1), ..web1(Shown::Guests) };
    let help = View { has_help: true, ..on(Shown::Guests) };
    let with_reason = [web1(Shown::Overview), web1(Shown::Guests), open];
    let others = [web1(Shown::Memory), web1(Shown::Decisions), help];
    for (width, height) in sizes() {
        for (index, view) in with_reason.iter().chain(&others).enumerate() {
            let lines = draw(&model, view, (width, height), &LOOK);
            assert_eq!(lines.len(), height);
            for line in &lines {
                assert!(columns(line) <= width, "{width}x{height}: {line}");
            }
            if index < with_reason.len() {
                let words = words(&lines);
                assert!(words.contains(prefix), "{width}x{height}: {lines:#?}");
                let is_tall = height >= 15 || width >= 80;
                assert!(!is_tall || words.contains(reason), "{width}x{height}: {lines:#?}");
            }
        }
    }
}

#[test]
fn wide_screens_are_filled_with_the_marked_guest() {
    let model = budget();
    for view in [on(Shown::Overview), on(Shown::Guests)] {
        for size in [(80, 24), (120, 40), (200, 50), (300, 80)] {
            let lines = draw(&model, &view, size, &LOOK);
            // The line directly above the keys is a graph's zero line, or a decision.
            assert!(lines[size.1 - 2].len() > 40, "{size:?}: {lines:#?}");
            for graph in ["CPU %", "HAS MiB"] {
                assert!(lines.iter().any(|line| line.contains(graph)), "{size:?}: {lines:#?}");
            }
        }
        let text = draw(&model, &view, (200, 50), &LOOK).join("\n");
        for graph in ["AVAIL MiB", "PRIV MiB", "PSI %", "STL %"] {
            assert!(text.contains(graph), "{graph}: {text}");
        }
    }
}

#[test]
fn manager_that_changes_nothing_is_named() {
    let mut model = Model::default();
    let mut sample = sample(1);
    let text = "watching 2 guests, changing nothing; set `act = true` in /etc/pinhead/host.toml";
    sample.ps.host.watching = Some(text.into());
    model.take(sample);
    let lines = draw(&model, &on(Shown::Overview), (80, 24), &LOOK);
    assert!(words(&lines).contains(text), "{lines:#?}");
}

#[test]
fn budget_is_shown_if_it_bounds_the_guests() {
    let text = draw(&budget(), &on(Shown::Overview), (80, 24), &LOOK);
    let text = words(&text);
    let memory = "Memory budget 480 MiB, 1 free in it; host 8000 MiB, 2600 available";
    assert!(text.contains(memory), "{text}");
    assert!(text.contains("set point 1024 reserve 512"), "{text}");
    let graph = "USED MiB 0-480";
    assert!(text.contains(graph), "{text}");
    let mut past = past();
    let old = past.sample.unwrap();
    let mut interval = old.interval().clone();
    interval.host.row.set(H::Spare, Some(7 * MIB));
    past.sample = Some(Sample::new(interval, old.ps, None));
    let recorded = words(&draw(&past, &on(Shown::Overview), (80, 24), &LOOK));
    let memory = "Memory 7 free in the budget; host 8000 MiB, 2600 available set point 1024";
    assert!(recorded.contains(memory), "{recorded}");
    let host = words(&draw(&model(), &on(Shown::Overview), (80, 24), &LOOK));
    assert!(host.contains("Memory 8000 MiB available 2600 free 1600"), "{host}");
    assert!(host.contains("USED MiB 0-7500"), "{host}");
}
