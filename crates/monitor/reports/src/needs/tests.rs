use super::*;
use crate::{By, Detail, HostData, Options, REPORTS, Utc, build, csv, html, testing};
use model::{Field, Over};

/// Clears all but the given fields of a row.
fn only<F: Field>(over: &mut Over<F>, fields: &[F]) {
    for field in F::ALL.iter().filter(|field| !fields.contains(field)) {
        over.row.set(*field, None);
    }
}

/// Simulates a source that reads only the needed fields.
fn read(day: &HostData, needs: &Needs) -> HostData {
    let mut day = day.clone();
    for interval in &mut day.intervals {
        interval.guests.values_mut().for_each(|over| only(over, &needs.guests));
        let processes = interval.processes.values_mut().flat_map(|all| all.values_mut());
        processes.for_each(|over| only(over, &needs.processes));
        if needs.processes.is_empty() {
            interval.processes.clear();
        }
    }
    day
}

#[test]
fn a_report_is_the_same_from_what_it_needs() {
    let day = testing::day(12, 60);
    for definition in REPORTS {
        let needs = needs(&[definition]);
        let some = read(&day, &needs);
        for by in [By::Guest, By::Class, By::Host] {
            let detail = Detail::Each;
            let options = Options { by, pattern: None, top: 5, detail, zone: &Utc };
            let printed = |day: &HostData| {
                let report = build(definition, std::slice::from_ref(day), &options).expect("made");
                (csv(&report, &Utc), html(&report, &Utc))
            };
            assert!(printed(&day) == printed(&some), "{} needs more", definition.name);
        }
    }
}

#[test]
fn processes_are_read_where_they_are_shown() {
    let of = |name: &str| needs(&crate::find(name).expect("known"));
    assert!(of("MAIN").processes.is_empty());
    assert!(of("PROC").processes.contains(&ProcessField::User));
    assert!(of("MAIN").guests.len() < GuestField::ALL.len() / 2);
}
