//! Tests that pinhead harms no guest in the accidents of the accident book, docs/accidents.md, and
//! that the book has the results of the model.

use base::Bytes;
use manager::keeper::{Held, Place, RESCUE_MS, Rescue};
use policy::arbiter::Key;
use policy::rivals::Kind;
use sim::accidents;
use sim::policies::{self, Order, Ours, Policy, Scene};
use std::path::Path;

/// The line before the generated part.
const MADE: &str = "<!-- The rest is made by the model: \
                    PINHEAD_WRITE_DOCS=1 cargo test -p pinhead --test it -->\n\n";

/// The arbiter, and its keeper after the death of the manager.
#[derive(Default)]
struct Kept {
    ours: Ours,
    rescue: Option<Rescue>,
}

impl Policy for Kept {
    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        self.ours.pass(scene)
    }

    fn after_death(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        let held = |sample: &policy::arbiter::GuestSample| {
            let actual = sample.actual.unwrap_or(sample.limits.max);
            Held {
                id: sample.key.0,
                name: format!("g{}", sample.key.0),
                place: Place::Qmp(String::new()),
                owner: 0,
                uuid: [0; 16],
                process: None,
                restore: sample.limits.max.0,
                held: actual.0,
                taken: sample.limits.max.less(actual).0,
            }
        };
        let rescue = self.rescue.get_or_insert_with(|| {
            let guests: Vec<Held> = scene.samples.iter().map(held).collect();
            Rescue::new(guests.iter(), scene.config.reserve, RESCUE_MS, scene.now_ms)
        });
        rescue.looks(scene.now_ms);
        if rescue.is_over(scene.now_ms) {
            return Vec::new();
        }
        for sample in scene.samples {
            rescue.reached(sample.key.0, sample.actual.unwrap_or(Bytes::ZERO));
        }
        let targets = rescue.step(Some(scene.host.available), scene.now_ms);
        let mut orders = Vec::new();
        for (id, target) in targets {
            rescue.taken(id, target);
            let key = Key(id);
            let from = scene.samples.iter().find(|sample| sample.key == key);
            let from = from.and_then(|sample| sample.actual).unwrap_or(Bytes::ZERO);
            orders.push(Order { key, from, target, clause: None });
        }
        orders
    }

    fn rebooted(&mut self, key: Key) {
        self.ours.rebooted(key);
    }
}

fn with_keeper(kind: Kind) -> Box<dyn Policy> {
    match kind {
        Kind::Pinhead => Box::new(Kept::default()),
        rival => policies::of(rival),
    }
}

#[test]
fn ours_is_harmless_in_every_accident_and_each_harms_a_rival() {
    let rows = accidents::rows(&with_keeper);
    assert_eq!(rows.len(), 12);
    let harmful: Vec<_> = rows.iter().filter(|row| !row.is_harmless(row.ours())).collect();
    assert!(harmful.is_empty(), "{harmful:#?}");
    let harms = |row: &&sim::table::Row| row.values.iter().all(|value| row.is_harmless(*value));
    let tame: Vec<&str> = rows.iter().filter(harms).map(|row| row.name).collect();
    assert!(tame.is_empty(), "no policy is harmed, so the world shows nothing: {tame:#?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/accidents.md");
    let page = std::fs::read_to_string(&path).expect("docs/accidents.md");
    let (written, made) = page.split_once(MADE).expect("the line where the table begins");
    let table = accidents::markdown(&rows);
    if std::env::var_os("PINHEAD_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{written}{MADE}{table}")).expect("written");
    } else {
        assert!(
            made == table,
            "docs/accidents.md is stale: PINHEAD_WRITE_DOCS=1 cargo test -p pinhead"
        );
    }
}

#[test]
fn accident_is_found_when_nobody_gives_balloons_back() {
    let rows = accidents::rows(&policies::of);
    let death = rows.iter().find(|row| row.name.starts_with("the manager dies")).expect("a row");
    assert!(!death.is_harmless(death.ours()), "the keeper is what helps: {death:?}");
}
