//! Target for `rules::host`, with an arbitrary rules file for the host's manager.

use model::counters::History;
use rules::host::{self, HostProgram, HostWords};
use rules::{Fault, FileKind, Name, Piece, RuleFile, Value, has_errors};

use crate::input::{dice, one_of};
use crate::rules_file::{INPUT_MAX, ODD, is_sound, stand_in, stands_in, truth};

/// Reads any file as a host rules file, and runs the resulting program with unusual values.
pub(crate) fn host_rules(data: &[u8]) {
    if data.len() > INPUT_MAX {
        return;
    }
    let (file, found) = host::parse(data);
    stand_in(data, &found);
    let parsed = !has_errors(&found);
    if parsed {
        stand_in(data, &rules::lint(&file));
    }
    let (program, more) = host::compile(&file);
    stand_in(data, &more);
    assert_eq!(program.is_some(), !has_errors(&more), "a program, or an error that says why");
    let (loaded, _) = host::load(data);
    assert_eq!(loaded, program.clone().filter(|_| parsed));
    if let Some(program) = loaded {
        run(data, &file, &program);
        as_a_guests(data);
    }
}

/// Checks that a file which compiles for a guest's daemon is recognised as a file of guest rules.
fn as_a_guests(data: &[u8]) {
    let (file, found) = rules::parse(data);
    let (program, _) = rules::compile(&file, &rules::Machine::default());
    let runs = program.is_some() && !has_errors(&found);
    assert!(!runs || host::recognise(data) == FileKind::Guest);
}

fn run(data: &[u8], file: &RuleFile, program: &HostProgram) {
    assert!(program.intervals <= usize::from(rules::MAX_HISTORY));
    let mut dice = dice(data);
    let mut history = program.history();
    for _ in 0..4 {
        // A new guest has a short history, which may cause no fault except a missing counter.
        decided(data, program, &history);
        for _ in 0..=program.intervals {
            history.advance().fill_with(|| one_of(&mut dice, &ODD));
        }
        decided(data, program, &history);
    }
    explained(data, file, program, &history);
}

fn decided(data: &[u8], program: &HostProgram, history: &History) -> HostWords {
    let words = program.evaluate(history);
    let truths = [words.shrink_guest, words.grow_guest, words.may_shrink, words.may_grow];
    let sizes = [words.shrink_mib, words.grow_mib];
    let of_truths = truths.into_iter().flatten().filter_map(Result::err);
    let of_sizes = sizes.into_iter().flatten().filter_map(Result::err);
    let faults: Vec<Fault> = of_truths.chain(of_sizes).collect();
    for fault in faults {
        stands_in(data, fault.span);
        assert!(!program.reason(&fault).is_empty());
    }
    words
}

/// Checks that explanations show the values on which the decision is based.
fn explained(data: &[u8], file: &RuleFile, program: &HostProgram, history: &History) {
    let explanation = host::explain(file, program, history);
    let words = decided(data, program, history);
    let rules: &[(Name, Piece)] = &explanation.rules;
    assert!(!rules.is_empty());
    for (name, piece) in rules {
        is_sound(data, piece);
        assert_ne!(piece.value, Value::Unread, "{name:?}: the program reads all that it uses");
        let decides = match name {
            Name::ShrinkGuest => words.shrink_guest,
            Name::GrowGuest => words.grow_guest,
            Name::MayShrink => words.may_shrink,
            Name::MayGrow => words.may_grow,
            _ => continue,
        };
        assert_eq!(truth(piece.value), decides, "{name:?}");
    }
    for (_, piece) in &explanation.variables {
        is_sound(data, piece);
    }
}
