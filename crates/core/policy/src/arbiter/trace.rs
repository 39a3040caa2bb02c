//! Conversion between the inputs of a pass and rows that can be recorded.

use super::sample::{
    Config, GuestSample, HostSample, Key, Limits, Memory, Mode, Process, RuleVerdicts, Usable,
};
use crate::rivals::Kind;
use base::Bytes;
use model::{Field, PassField as H, PassGuestField as G, Row, Unit};

/// Text in place of the reason for which a guest is unusable or pinned. The reason is not recorded,
/// because no decision depends on it.
const UNUSABLE: &str = "as it was recorded";

/// The host of a pass, with the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassHost {
    /// Settings.
    pub config: Config,
    /// Rules that decided.
    pub kind: Kind,
    /// Sample of the host, if there was one.
    pub sample: Option<HostSample>,
    /// Time in which some task of the host waited for memory, in thousandths.
    pub psi_permille: Option<u64>,
}

/// A guest of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassSample {
    /// Sample of the guest.
    pub sample: GuestSample,
    /// Results of the operator's rules.
    pub verdicts: RuleVerdicts,
}

/// Largest size, time or count in a recording. With larger inputs, the policy's arithmetic could
/// overflow.
const VALUE_MAX: u64 = 1 << 50;
/// Largest value in thousandths.
const PERMILLE_MAX: u64 = 1_000_000;

/// Returns true if all values of a row are possible on a host.
fn is_sane<F: Field>(row: &Row<F>) -> bool {
    row.known().all(|(field, value)| match field.unit() {
        Unit::Permille => value <= PERMILLE_MAX,
        _ => value <= VALUE_MAX,
    })
}

fn truth(value: bool) -> Option<u64> {
    Some(u64::from(value))
}

fn bytes(size: Option<Bytes>) -> Option<u64> {
    size.map(|size| size.0)
}

impl PassHost {
    /// Returns the row.
    pub fn row(&self) -> Row<H> {
        let PassHost { config, kind, sample, psi_permille } = self;
        let number = Kind::ALL.iter().position(|one| one == kind).unwrap_or(0) as u64;
        let mut row = Row::default();
        row.extend([
            (H::SetPoint, Some(config.set_point.0)),
            (H::Hysteresis, Some(config.hysteresis.0)),
            (H::Reserve, Some(config.reserve.0)),
            (H::IdleTax, Some(config.idle_tax_permille)),
            (H::Step, Some(config.step_permille)),
            (H::StaleMs, Some(config.stale_ms)),
            (H::Rules, Some(number)),
            (H::AtMs, sample.map(|host| host.at_ms)),
            (H::Total, sample.map(|host| host.total.0)),
            (H::Available, sample.map(|host| host.available.0)),
            (H::Strained, sample.and_then(|host| truth(host.strained))),
            (H::PageOut, sample.map(|host| host.page_out.0)),
            (H::Psi, *psi_permille),
        ]);
        row
    }

    /// Reads a row. Returns `None` if a mandatory value is missing, the rules are unknown, or a
    /// value is impossible.
    pub fn of(row: &Row<H>) -> Option<PassHost> {
        if !is_sane(row) {
            return None;
        }
        let size = |field| row.get(field).map(Bytes);
        let sample = || {
            Some(HostSample {
                at_ms: row.get(H::AtMs)?,
                total: size(H::Total)?,
                available: size(H::Available)?,
                strained: row.get(H::Strained)? != 0,
                page_out: size(H::PageOut)?,
            })
        };
        Some(PassHost {
            config: Config {
                set_point: size(H::SetPoint)?,
                hysteresis: size(H::Hysteresis)?,
                reserve: size(H::Reserve)?,
                idle_tax_permille: row.get(H::IdleTax)?,
                step_permille: row.get(H::Step)?,
                stale_ms: row.get(H::StaleMs)?,
            },
            kind: *Kind::ALL.get(usize::try_from(row.get(H::Rules)?).ok()?)?,
            sample: sample(),
            psi_permille: row.get(H::Psi),
        })
    }
}

impl PassSample {
    /// Returns the row.
    pub fn row(&self) -> Row<G> {
        let PassSample { sample, verdicts } = self;
        let limits = &sample.limits;
        let (mode, pin) = match limits.mode {
            Mode::Managed => (0, None),
            Mode::Pinned(size) => (1, Some(size)),
            Mode::Released => (2, None),
        };
        let mut row = Row::default();
        row.extend([
            (G::Min, Some(limits.min.0)),
            (G::Ordered, limits.ordered.then_some(1)),
            (G::Max, Some(limits.max.0)),
            (G::Shares, Some(limits.shares.into())),
            (G::Mode, Some(mode)),
            (G::Pin, bytes(pin)),
            (G::Actual, bytes(sample.actual)),
            (G::Resident, bytes(sample.resident)),
            (G::Doubtful, Some(sample.doubtful.0)),
            (G::Beside, Some(sample.process.beside.0)),
            (G::Swapped, bytes(sample.swapped)),
            (G::Runs, sample.runs.and_then(truth)),
            (G::Idle, truth(sample.idle_since_sample)),
            (G::Usable, truth(sample.usable == Usable::Yes)),
            (G::Request, bytes(sample.request)),
            (G::Asks, truth(sample.asks)),
            (G::Urgent, truth(sample.urgent)),
            (G::DeflatesOnOom, truth(sample.deflates_on_oom)),
            (G::GroupMax, bytes(sample.process.group_max)),
            (G::Private, bytes(sample.process.private)),
            (G::Pinned, truth(sample.process.pinned.is_some())),
            (G::Reports, sample.process.reports.then_some(1)),
            (G::Found, bytes(sample.process.found)),
        ]);
        if let Some(memory) = &sample.memory {
            put_memory(&mut row, memory);
        }
        row.extend([
            (G::RuleShrink, verdicts.shrink.and_then(truth)),
            (G::RuleGrow, verdicts.grow.and_then(truth)),
            (G::RuleMayShrink, verdicts.may_shrink.and_then(truth)),
            (G::RuleMayGrow, verdicts.may_grow.and_then(truth)),
            (G::RuleShrinkSize, bytes(verdicts.shrink_size)),
            (G::RuleGrowSize, bytes(verdicts.grow_size)),
        ]);
        row
    }

    /// Reads the row of the guest with this key. Returns `None` if a mandatory value is missing or
    /// a value is impossible.
    pub fn of(key: Key, row: &Row<G>) -> Option<PassSample> {
        if !is_sane(row) {
            return None;
        }
        let size = |field| row.get(field).map(Bytes);
        let is = |field| row.get(field).map(|value| value != 0);
        let mode = match row.get(G::Mode)? {
            0 => Mode::Managed,
            1 => Mode::Pinned(size(G::Pin)?),
            2 => Mode::Released,
            _ => return None,
        };
        let sample = GuestSample {
            key,
            limits: Limits {
                min: size(G::Min)?,
                ordered: is(G::Ordered) == Some(true),
                max: size(G::Max)?,
                shares: u32::try_from(row.get(G::Shares)?).ok()?,
                mode,
            },
            actual: size(G::Actual),
            resident: size(G::Resident),
            doubtful: size(G::Doubtful)?,
            process: Process {
                beside: size(G::Beside)?,
                private: size(G::Private),
                pinned: is(G::Pinned).unwrap_or(false).then_some(UNUSABLE),
                group_max: size(G::GroupMax),
                found: size(G::Found),
                reports: is(G::Reports) == Some(true),
            },
            swapped: size(G::Swapped),
            runs: is(G::Runs),
            memory: memory(row),
            idle_since_sample: is(G::Idle)?,
            usable: if is(G::Usable)? { Usable::Yes } else { Usable::No(UNUSABLE) },
            request: size(G::Request),
            asks: is(G::Asks)?,
            urgent: is(G::Urgent)?,
            deflates_on_oom: is(G::DeflatesOnOom)?,
        };
        let verdicts = RuleVerdicts {
            shrink: is(G::RuleShrink),
            grow: is(G::RuleGrow),
            may_shrink: is(G::RuleMayShrink),
            may_grow: is(G::RuleMayGrow),
            shrink_size: size(G::RuleShrinkSize),
            grow_size: size(G::RuleGrowSize),
        };
        Some(PassSample { sample, verdicts })
    }
}

fn put_memory(row: &mut Row<G>, memory: &Memory) {
    row.extend([
        (G::SampleMs, Some(memory.at_ms)),
        (G::ClockMs, Some(memory.clock_ms)),
        (G::SampleActual, Some(memory.actual.0)),
        (G::Free, bytes(memory.free)),
        (G::Available, bytes(memory.available)),
        (G::Cached, bytes(memory.cached)),
        (G::ActiveFile, bytes(memory.active_file)),
        (G::SwapFree, bytes(memory.swap_free)),
        (G::SwapIn, memory.swap_in),
        (G::SwapOut, memory.swap_out),
        (G::Refaults, memory.refaults),
        (G::Stalls, memory.stalls),
        (G::MajorFaults, memory.major_faults),
        (G::OomKills, memory.oom_kills),
        (G::PsiSomeUs, memory.psi_some_us),
    ]);
}

fn memory(row: &Row<G>) -> Option<Memory> {
    let size = |field| row.get(field).map(Bytes);
    Some(Memory {
        at_ms: row.get(G::SampleMs)?,
        clock_ms: row.get(G::ClockMs)?,
        actual: size(G::SampleActual)?,
        free: size(G::Free),
        available: size(G::Available),
        cached: size(G::Cached),
        active_file: size(G::ActiveFile),
        swap_free: size(G::SwapFree),
        swap_in: row.get(G::SwapIn),
        swap_out: row.get(G::SwapOut),
        refaults: row.get(G::Refaults),
        stalls: row.get(G::Stalls),
        major_faults: row.get(G::MajorFaults),
        oom_kills: row.get(G::OomKills),
        psi_some_us: row.get(G::PsiSomeUs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    /// Returns a random value, or none.
    fn any(rng: &mut Rng) -> Option<u64> {
        (!rng.permille(300)).then(|| rng.within(0, 1 << 50))
    }

    fn some_sample(rng: &mut Rng) -> PassSample {
        let size = |rng: &mut Rng| any(rng).map(Bytes);
        let memory = |rng: &mut Rng| Memory {
            at_ms: rng.within(0, 1 << 40),
            clock_ms: rng.within(0, 1 << 40),
            actual: Bytes(rng.within(0, 1 << 40)),
            free: size(rng),
            available: size(rng),
            cached: size(rng),
            active_file: size(rng),
            swap_free: size(rng),
            swap_in: any(rng),
            swap_out: any(rng),
            refaults: any(rng),
            stalls: any(rng),
            major_faults: any(rng),
            oom_kills: any(rng),
            psi_some_us: any(rng),
        };
        let is = |rng: &mut Rng| any(rng).map(|value| value % 2 == 1);
        let sample = GuestSample {
            key: Key(7),
            limits: Limits {
                min: Bytes(rng.within(0, 1 << 40)),
                ordered: rng.permille(500),
                max: Bytes(rng.within(0, 1 << 40)),
                shares: rng.within(0, u32::MAX.into()) as u32,
                mode: match rng.within(0, 2) {
                    0 => Mode::Managed,
                    1 => Mode::Pinned(Bytes(rng.within(0, 1 << 40))),
                    _ => Mode::Released,
                },
            },
            actual: size(rng),
            resident: size(rng),
            doubtful: Bytes(rng.within(0, 1 << 40)),
            process: Process {
                beside: Bytes(rng.within(0, 1 << 40)),
                private: size(rng),
                pinned: rng.permille(500).then_some(UNUSABLE),
                group_max: size(rng),
                found: size(rng),
                reports: rng.permille(500),
            },
            swapped: size(rng),
            runs: is(rng),
            memory: rng.permille(800).then(|| memory(rng)),
            idle_since_sample: rng.permille(500),
            usable: if rng.permille(500) { Usable::Yes } else { Usable::No(UNUSABLE) },
            request: size(rng),
            asks: rng.permille(500),
            urgent: rng.permille(500),
            deflates_on_oom: rng.permille(500),
        };
        let verdicts = RuleVerdicts {
            shrink: is(rng),
            grow: is(rng),
            may_shrink: is(rng),
            may_grow: is(rng),
            shrink_size: size(rng),
            grow_size: size(rng),
        };
        PassSample { sample, verdicts }
    }

    #[test]
    fn a_sample_is_read_back_as_it_was() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let sample = some_sample(&mut rng);
            assert_eq!(PassSample::of(Key(7), &sample.row()), Some(sample));
        }
        assert_eq!(PassSample::of(Key(7), &Row::default()), None);
        let mut row = some_sample(&mut rng).row();
        row.set(G::Max, Some(u64::MAX));
        assert_eq!(PassSample::of(Key(7), &row), None, "no guest is so large");
    }

    #[test]
    fn a_host_is_read_back_as_it_was() {
        let sample = HostSample {
            at_ms: 5,
            total: Bytes::mib(64),
            available: Bytes::mib(7),
            strained: true,
            page_out: Bytes::mib(3),
        };
        let config = Config::of_host(Bytes::mib(64));
        for kind in Kind::ALL {
            for sample in [Some(sample), None] {
                let host = PassHost { config, kind: *kind, sample, psi_permille: Some(4) };
                assert_eq!(PassHost::of(&host.row()), Some(host));
            }
        }
        let mut row =
            PassHost { config, kind: Kind::ALL[0], sample: None, psi_permille: None }.row();
        row.set(H::Rules, Some(1000));
        assert_eq!(PassHost::of(&row), None, "rules of a later version");
    }
}
