//! Passes over a recording's guests, in the form in which a manager records its passes.

use base::Bytes;
use model::{GuestField as G, GuestIdentity, HostField as H, Moment, PassGuest, PassInput, Row};
use policy::arbiter::{
    Config, GuestSample, HostSample, Key, Limits, Memory, Mode, PassHost, PassSample, Process,
    RuleVerdicts, Usable,
};
use policy::rivals::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Converts each sample to a pass. A guest that is missing in a sample keeps its last state.
#[derive(Default)]
pub struct Passes {
    known: BTreeMap<Arc<GuestIdentity>, (u64, Row<G>, u64)>,
    number: u64,
}

impl Passes {
    /// Returns the pass for a sample. `now_ms` is the time since the first sample.
    pub fn next(&mut self, moment: &Moment, now_ms: u64) -> PassInput {
        for (who, row) in &moment.guests {
            let key = self.known.len() as u64 + 1;
            let known = self.known.entry(Arc::new(who.clone())).or_insert((key, Row::default(), 0));
            (known.1, known.2) = (row.clone(), now_ms);
        }
        let size = |field| moment.host.get(field).map_or(Bytes::ZERO, Bytes);
        let total = size(H::Total);
        let host = PassHost {
            config: Config::of_host(total),
            kind: Kind::Pinhead,
            sample: Some(HostSample {
                at_ms: now_ms,
                total,
                available: size(H::Available),
                strained: false,
                page_out: Bytes::ZERO,
            }),
            psi_permille: Some(0),
        };
        let guests = self.known.iter().map(|(who, (key, row, told_ms))| {
            let sample = sample(*key, row, *told_ms);
            let row = PassSample { sample, verdicts: RuleVerdicts::default() }.row();
            (*key, PassGuest { who: Arc::clone(who), row })
        });
        let number = self.number;
        self.number += 1;
        PassInput {
            number,
            at_ms: moment.at_ms,
            now_ms,
            host: host.row(),
            guests: guests.collect(),
            events: Vec::new(),
        }
    }
}

fn sample(key: u64, row: &Row<G>, told_ms: u64) -> GuestSample {
    let size = |field| row.get(field).map(Bytes);
    let max = size(G::Memory).unwrap_or(Bytes::ZERO);
    let actual = size(G::Actual).unwrap_or(max);
    let memory = Memory { clock_ms: told_ms, ..manager::memory_of(row, actual, told_ms) };
    GuestSample {
        key: Key(key),
        limits: Limits {
            min: max.permille(150),
            ordered: false,
            max,
            shares: 100,
            mode: Mode::Managed,
        },
        actual: size(G::Actual),
        resident: size(G::Private).or(size(G::Resident)),
        doubtful: Bytes::ZERO,
        process: Process::default(),
        swapped: size(G::Swapped),
        runs: Some(true),
        memory: Some(memory),
        idle_since_sample: false,
        usable: Usable::Yes,
        request: None,
        asks: false,
        urgent: false,
        deflates_on_oom: true,
    }
}
