//! Target for `rules`, and for programs in `policy`, with an arbitrary rules file.

use std::sync::LazyLock;

use base::Pages;
use model::counters::History;
use policy::guest::{self, CpuAction, Cpus, GuestDecision, Resources};
use policy::steady;
use rules::{Diagnostic, Fault, Machine, Name, Piece, Program, RuleFile, Span, Value, has_errors};

use crate::input::{dice, one_of};
use crate::kernel;

/// Maximum size of an input. Larger inputs are skipped, because smaller inputs reach all bounds of
/// the language.
pub(crate) const INPUT_MAX: usize = 64 * 1024;

/// Values of a counter: missing, nearly 0, far too large, and negative. Readers never return an
/// infinity.
pub(crate) const ODD: [f64; 14] =
    [f64::NAN, 0.0, -0.0, 1.0, 1.0, 2.0, 100.0, -1.0, 1e18, -1e18, f64::MAX, f64::MIN, 5e-324, 0.5];

/// Guests from the smallest to the largest.
const CPUS: [Cpus; 4] = [
    Cpus { online: 1, present: 1 },
    Cpus { online: 2, present: 4 },
    Cpus { online: 8, present: 8 },
    Cpus { online: procfs::MAX_CPUS, present: procfs::MAX_CPUS },
];

/// Reads a file, compiles it without a machine and for typical machines, and runs the resulting
/// program with unusual values.
pub(crate) fn rules_file(data: &[u8]) {
    static MACHINES: LazyLock<[Machine; 2]> =
        LazyLock::new(|| [Machine::default(), kernel::machine()]);
    if data.len() > INPUT_MAX {
        return;
    }
    let (file, found) = rules::parse(data);
    stand_in(data, &found);
    let parsed = !has_errors(&found);
    if parsed {
        stand_in(data, &rules::lint(&file));
    }
    for machine in MACHINES.iter() {
        let (program, more) = rules::compile(&file, machine);
        stand_in(data, &more);
        // If a file is not text, only `parse` reports an error.
        let is_told = has_errors(&more) || (program.is_none() && !parsed);
        assert_eq!(program.is_none(), is_told, "a program, or an error that says why");
        if let Some(program) = program.filter(|_| parsed) {
            run(data, &file, machine, &program);
        }
    }
}

/// Runs any program in the model of a guest. The run must end. This target is separate, because it
/// runs for thousands of intervals, and `rules_file` for one.
pub(crate) fn steady(data: &[u8]) {
    if data.len() > INPUT_MAX {
        return;
    }
    let (file, found) = rules::parse(data);
    let (program, _) = rules::compile(&file, &kernel::machine());
    let Some(program) = program.filter(|_| !has_errors(&found)) else { return };
    for swing in [steady::cpu(&program, 2), steady::memory(&program)].into_iter().flatten() {
        assert!((0.0..=2.0).contains(&swing.load), "{swing:?}");
        assert!((1..=swing.intervals).contains(&swing.reversals), "{swing:?}");
    }
}

/// Checks that a position is in the file, or directly at its end.
pub(crate) fn stands_in(data: &[u8], span: Span) {
    let inside = span.start < span.end && span.end as usize <= data.len() + 1;
    assert!(inside, "{span:?} of a file of {} bytes", data.len());
}

pub(crate) fn stand_in(data: &[u8], found: &[Diagnostic]) {
    for diagnostic in found {
        stands_in(data, diagnostic.span);
        assert!(!diagnostic.message.is_empty() && !diagnostic.code.is_empty());
    }
    // Counting lines for very many diagnostics would take longer than all other checks.
    for diagnostic in found.iter().take(8) {
        let line = rules::one_line("rules", data, diagnostic);
        assert!(!line.contains('\n'), "{line:?}");
    }
}

fn run(data: &[u8], file: &RuleFile, machine: &Machine, program: &Program) {
    let mut dice = dice(data);
    let mut history = History::new(program.counters.len(), program.intervals);
    for _ in 0..3 {
        for _ in 0..=program.intervals {
            history.advance().fill_with(|| one_of(&mut dice, &ODD));
        }
        assert!(history.is_full());
        for cpus in CPUS {
            for pool in [Pages(0), Pages(4096), Pages(u64::MAX)] {
                let resources = Resources { cpus: Some(cpus), pool: Some(pool) };
                decided(data, program, cpus, &guest::step(program, &history, resources));
                started(program, cpus, guest::start(program, resources));
            }
        }
    }
    explained(data, file, machine, program, &history);
}

/// Checks that the decision stays within the minimum and maximum in the rules file.
fn decided(data: &[u8], program: &Program, cpus: Cpus, decision: &GuestDecision) {
    assert_eq!(decision.cpu.is_some(), program.cpu.is_some());
    assert_eq!(decision.memory.is_some(), program.memory.is_some());
    match (&program.cpu, decision.cpu) {
        (Some(rules), Some(Ok(cpu))) => match cpu.action {
            CpuAction::Plug => {
                assert!(cpus.online < cpus.present);
                assert!(rules.max == 0 || cpus.online < rules.max);
            }
            CpuAction::Unplug => assert!(cpus.online > rules.min.max(1)),
            CpuAction::Hold => {}
        },
        (_, Some(Err(fault))) => stands_in(data, fault.span),
        _ => {}
    }
    match (&program.memory, decision.memory) {
        (Some(rules), Some(Ok(pool))) => {
            assert!((rules.min..=rules.max).contains(&pool.target.0), "{pool:?}");
            assert!(!pool.to_string().is_empty());
        }
        (_, Some(Err(fault))) => stands_in(data, fault.span),
        _ => {}
    }
}

fn started(program: &Program, cpus: Cpus, start: guest::Start) {
    if let (Some(rules), Some(online)) = (&program.cpu, start.cpus) {
        assert!(online >= rules.min && (online <= cpus.present || online == rules.min));
    }
    if let (Some(rules), Some(pool)) = (&program.memory, start.pool) {
        assert!((rules.min..=rules.max).contains(&pool.0));
    }
}

/// Checks that explanations show the values on which the decision is based, and that every number
/// is valid.
fn explained(
    data: &[u8],
    file: &RuleFile,
    machine: &Machine,
    program: &Program,
    history: &History,
) {
    let explanation = rules::explain(file, program, machine, history);
    for (_, piece) in &explanation.variables {
        is_sound(data, piece);
    }
    for (name, piece) in &explanation.rules {
        is_sound(data, piece);
        let (cpu, memory) = (program.cpu.as_ref(), program.memory.as_ref());
        let decides = match name {
            Name::Hotplug => cpu.map(|rules| rules.hotplug(history)),
            Name::Hotunplug => cpu.map(|rules| rules.hotunplug(history)),
            Name::Memplug => memory.map(|rules| rules.memplug(history)),
            Name::Memunplug => memory.map(|rules| rules.memunplug(history)),
            _ => None,
        };
        if let Some(decides) = decides {
            assert_eq!(truth(piece.value), Some(decides), "{name:?}");
        }
    }
}

pub(crate) fn truth(value: Value) -> Option<Result<bool, Fault>> {
    match value {
        Value::Number(number) => Some(Ok(number != 0.0)),
        Value::Truth(truth) => Some(Ok(truth)),
        Value::Fault(fault) => Some(Err(fault)),
        Value::Unread => None,
    }
}

pub(crate) fn is_sound(data: &[u8], piece: &Piece) {
    stands_in(data, piece.span);
    match piece.value {
        Value::Number(number) => assert!(number.is_finite(), "{piece:?}"),
        Value::Fault(fault) => stands_in(data, fault.span),
        Value::Truth(_) | Value::Unread => {}
    }
    piece.pieces.iter().for_each(|piece| is_sound(data, piece));
}
