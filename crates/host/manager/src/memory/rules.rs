//! The operator's rules, and their verdicts for each guest in a pass.

use crate::Error;
use crate::machine::HostRates;
use base::Bytes;
use model::counters::{History, HostCounter};
use policy::arbiter::{Inputs, Key, RuleVerdicts};
use rules::host::HostProgram;
use std::collections::BTreeMap;
use std::path::Path;

/// Values of a guest and of the host for rules, besides the arbiter's inputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GuestContext {
    pub min: Bytes,
    pub max: Bytes,
    pub shares: u32,
    /// CPU time of the virtual CPUs, in percent of one CPU.
    pub cpu: Option<f64>,
    /// Time for which virtual CPUs waited for a CPU, in percent of one CPU.
    pub steal: Option<f64>,
    pub cache: Option<Bytes>,
    pub host: HostMetrics,
}

/// Values of the host, the same for each guest of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostMetrics {
    pub total: Option<Bytes>,
    pub rates: HostRates,
    pub guests: usize,
    pub ksm: Option<Bytes>,
}

/// A compiled file of rules, with a history of each guest.
#[derive(Debug)]
pub(crate) struct OperatorRules {
    program: HostProgram,
    histories: BTreeMap<Key, History>,
}

impl OperatorRules {
    /// Returns rules without any history.
    pub fn new(program: HostProgram) -> OperatorRules {
        OperatorRules { program, histories: BTreeMap::new() }
    }

    /// Reads and compiles a file.
    pub fn load(path: &Path) -> Result<OperatorRules, Error> {
        let text = std::fs::read(path)
            .map_err(|source| Error::Rules { path: path.to_path_buf(), source })?;
        let (program, found) = rules::host::load(&text);
        match program {
            Some(program) if !rules::has_errors(&found) => Ok(OperatorRules::new(program)),
            _ => {
                let wrong = found.iter().filter(|d| d.severity == rules::Severity::Error);
                let first = wrong.clone().next().map_or_else(String::new, |fault| {
                    let (line, column) = rules::line_column(&text, fault.span.start);
                    format!("{line}:{column}: {}", fault.message)
                });
                let count = wrong.count();
                Err(Error::RulesWrong { path: path.to_path_buf(), first, count })
            }
        }
    }

    /// Returns the rules' verdicts for a guest. Until the history is full there are no verdicts,
    /// except that rules against shrinking already forbid shrinking. A rule without a value forbids
    /// shrinking, because data is missing.
    pub fn verdicts(&mut self, key: Key, inputs: &Inputs, context: &GuestContext) -> RuleVerdicts {
        let program = &self.program;
        let history = self.histories.entry(key).or_insert_with(|| program.history());
        let row = history.advance();
        for (slot, counter) in row.iter_mut().zip(&program.counters) {
            *slot = value(*counter, inputs, context).unwrap_or(f64::NAN);
        }
        if !history.is_full() {
            return RuleVerdicts {
                may_shrink: program.guards().then_some(false),
                ..RuleVerdicts::default()
            };
        }
        let out = program.evaluate(history);
        let faults = [&out.shrink_guest, &out.grow_guest, &out.may_shrink, &out.may_grow];
        let faulty = faults.into_iter().any(|word| matches!(word, Some(Err(_))));
        let truth = |word: Option<Result<bool, rules::Fault>>| word.and_then(Result::ok);
        let size = |word: Option<Result<i64, rules::Fault>>| {
            let mib = word?.ok()?;
            Some(Bytes::mib(u64::try_from(mib).unwrap_or(0)))
        };
        RuleVerdicts {
            shrink: truth(out.shrink_guest),
            grow: truth(out.grow_guest),
            may_shrink: if faulty { Some(false) } else { truth(out.may_shrink) },
            may_grow: truth(out.may_grow),
            shrink_size: size(out.shrink_mib),
            grow_size: size(out.grow_mib),
        }
    }

    /// Drops the histories of guests that are gone.
    pub fn retain(&mut self, is_there: impl Fn(Key) -> bool) {
        self.histories.retain(|key, _| is_there(*key));
    }
}

/// Returns a counter's value; `None` if it is unknown.
pub(crate) fn value(counter: HostCounter, inputs: &Inputs, context: &GuestContext) -> Option<f64> {
    let mib = |size: Option<Bytes>| size.map(|size| size.0 as f64 / f64::from(1 << 20));
    let count = |value: Option<u64>| value.map(|value| value as f64);
    match counter {
        HostCounter::GuestActual => mib(inputs.actual),
        HostCounter::GuestMin => mib(Some(context.min)),
        HostCounter::GuestMax => mib(Some(context.max)),
        HostCounter::GuestUsed => mib(inputs.used),
        HostCounter::GuestAvailable => mib(inputs.available),
        HostCounter::GuestFree => mib(inputs.free),
        HostCounter::GuestCache => mib(context.cache),
        HostCounter::GuestCold => mib(inputs.cold),
        HostCounter::GuestHot => mib(inputs.hot),
        HostCounter::GuestComfort => mib(inputs.headroom),
        HostCounter::GuestResident => mib(inputs.resident),
        HostCounter::GuestShares => Some(f64::from(context.shares)),
        HostCounter::GuestRequest => mib(inputs.request),
        HostCounter::GuestSwapin => count(inputs.swap_in_pages_s),
        HostCounter::GuestSwapout => count(inputs.swap_out_pages_s),
        HostCounter::GuestRefault => count(inputs.refault_pages_s),
        HostCounter::GuestStall => count(inputs.stalls_s),
        HostCounter::GuestPressure => count(inputs.psi_permille),
        HostCounter::GuestCpu => context.cpu,
        HostCounter::GuestSteal => context.steal,
        HostCounter::GuestAge => count(inputs.sample_age_ms).map(|ms| ms / 1000.0),
        HostCounter::GuestNeed => mib(inputs.need),
        HostCounter::GuestStrained => Some(f64::from(u8::from(inputs.strained))),
        HostCounter::HostTotal => mib(context.host.total),
        HostCounter::HostAvailable => mib(inputs.host_available),
        HostCounter::HostSetpoint => mib(inputs.host_set_point),
        HostCounter::HostReserve => mib(inputs.host_reserve),
        HostCounter::HostSwapin => context.host.rates.swap_in_s,
        HostCounter::HostSwapout => context.host.rates.swap_out_s,
        HostCounter::HostPressure => context.host.rates.psi_permille,
        HostCounter::HostGuests => Some(context.host.guests as f64),
        HostCounter::HostKsm => mib(context.host.ksm),
    }
}
