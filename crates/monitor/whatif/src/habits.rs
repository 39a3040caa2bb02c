//! Behaviour of guests and their host besides memory needs: CPU time, wake-ups, actions of rules.

use base::Bytes;
use model::{GuestField as G, HostField as H, Interval, Over, ProcessField as P};
use std::collections::BTreeMap;

/// Points of a small chart.
const POINTS: usize = 60;
/// Maximum number of processes of a guest that are counted separately.
const WAKERS_MAX: usize = 1_000;
/// Minimum number of actions an hour in each direction for a finding about rules. Fewer actions
/// cost too little CPU time: one action costs guest and host an estimated 60 ms.
pub(crate) const TURNS_AN_HOUR: u64 = 300;
const PAGE_BYTES: u64 = base::PAGE_BYTES;

/// Fields of guests that are needed.
pub const GUEST_FIELDS: &[G] = &[
    G::VcpuRun,
    G::VcpuDispatches,
    G::Private,
    G::Resident,
    G::Hypervisor,
    G::OwnPlugs,
    G::OwnUnplugs,
    G::OwnGrows,
    G::OwnShrinks,
];
/// Fields of processes that are needed.
pub const PROCESS_FIELDS: &[P] = &[P::Dispatches];

/// Behaviour of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestHabits {
    /// Time with data.
    pub covered_ms: u64,
    /// CPU time of the vCPUs.
    pub run_ns: Option<u64>,
    /// Number of dispatches of the vCPUs.
    pub dispatches: u64,
    /// Private memory resident on the host, on average.
    pub holds: Option<Bytes>,
    /// CPUs that the guest's rules plugged.
    pub plugs: u64,
    /// CPUs that the guest's rules unplugged.
    pub unplugs: u64,
    /// Number of times that the guest's rules gave memory up.
    pub grows: u64,
    /// Number of times that the guest's rules took memory back.
    pub shrinks: u64,
    /// Number of dispatches of each process.
    pub wakers: BTreeMap<String, u64>,
    /// Dispatches a minute, over time.
    pub wakes: Vec<u64>,
    /// Actions of the rules a minute, over time.
    pub turns: Vec<u64>,
}

/// Behaviour of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostHabits {
    /// Time with data.
    pub covered_ms: u64,
    /// Memory of the host.
    pub total: Bytes,
    /// CPUs of the host.
    pub cpus: u64,
    /// Set point: target of the free memory.
    pub set_point: Option<Bytes>,
    /// Time in which some task of the host waited for memory.
    pub waits_ns: Option<u64>,
    /// CPU time of KSM.
    pub ksm_ns: u64,
    /// Memory that KSM had merged in the first interval.
    pub ksm_first: Option<Bytes>,
    /// Memory that KSM had merged in the last interval.
    pub ksm_last: Option<Bytes>,
    /// CPU time of page-out.
    pub page_out_ns: u64,
    /// Memory that page-out moved out of the host.
    pub paged_out: Bytes,
    /// Paged-out memory that became resident again.
    pub came_back: Bytes,
    /// Free memory in MiB, over time.
    pub available: Vec<u64>,
    /// Memory that KSM had merged, in MiB, over time.
    pub ksm: Vec<u64>,
}

/// Behaviour of all guests and of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Behaviour of the host.
    pub host: HostHabits,
    /// Guests by name and UUID.
    guests: BTreeMap<(String, String), GuestHabits>,
}

fn grow(sum: &mut u64, more: Option<u64>) {
    *sum = sum.saturating_add(more.unwrap_or(0));
}

impl GuestHabits {
    /// Returns the CPU use of the vCPUs, in thousandths of a CPU.
    pub fn cpu_permille(&self) -> Option<u64> {
        (self.run_ns? / 1_000).checked_div(self.covered_ms)
    }

    /// Converts a count to a rate per minute.
    pub fn a_minute(&self, times: u64) -> Option<u64> {
        times.saturating_mul(60_000).checked_div(self.covered_ms)
    }

    fn an_hour(&self, times: u64) -> Option<u64> {
        times.saturating_mul(3_600_000).checked_div(self.covered_ms)
    }

    /// Returns true if the guest's rules often acted in both directions. The rules may have
    /// followed the guest's load. Only [`SwingWatch`](crate::SwingWatch) can check this.
    pub fn reverses(&self) -> bool {
        let often = |up: u64, down: u64| self.an_hour(up.min(down)) >= Some(TURNS_AN_HOUR);
        often(self.plugs, self.unplugs) || often(self.grows, self.shrinks)
    }

    fn add(&mut self, over: &Over<G>) {
        let holds = over
            .get(G::Private)
            .map(|private| private.saturating_sub(over.get(G::Hypervisor).unwrap_or(0)))
            .or(over.get(G::Resident));
        if let Some(holds) = holds {
            let before = self.holds.unwrap_or(Bytes(holds)).0;
            let weight = |size: u64, ms: u64| u128::from(size) * u128::from(ms);
            let all = self.covered_ms.saturating_add(over.covered_ms).max(1);
            let mean = (weight(before, self.covered_ms) + weight(holds, over.covered_ms))
                / u128::from(all);
            self.holds = Some(Bytes(u64::try_from(mean).unwrap_or(u64::MAX)));
        }
        self.covered_ms = self.covered_ms.saturating_add(over.covered_ms);
        if let Some(ran) = over.get(G::VcpuRun) {
            self.run_ns = Some(self.run_ns.unwrap_or(0).saturating_add(ran));
        }
        grow(&mut self.dispatches, over.get(G::VcpuDispatches));
        let [plugs, unplugs, grows, shrinks] =
            [G::OwnPlugs, G::OwnUnplugs, G::OwnGrows, G::OwnShrinks].map(|field| over.get(field));
        grow(&mut self.plugs, plugs);
        grow(&mut self.unplugs, unplugs);
        grow(&mut self.grows, grows);
        grow(&mut self.shrinks, shrinks);
        let times = |times: u64| times.saturating_mul(60_000).checked_div(over.covered_ms);
        self.wakes.extend(over.get(G::VcpuDispatches).and_then(times));
        let turns = [plugs, unplugs, grows, shrinks].into_iter().flatten().sum();
        self.turns.extend(times(turns));
    }
}

impl HostHabits {
    /// Converts a CPU time to CPU use, in thousandths of a CPU.
    pub fn cpu_permille(&self, ns: u64) -> Option<u64> {
        (ns / 1_000).checked_div(self.covered_ms)
    }

    /// Returns the part of the time in which some task waited for memory, in thousandths.
    pub fn waits_permille(&self) -> Option<u64> {
        (self.waits_ns? / 1_000).checked_div(self.covered_ms)
    }

    fn add(&mut self, over: &Over<H>) {
        let size = |field| over.get(field).map(Bytes);
        self.covered_ms = self.covered_ms.saturating_add(over.covered_ms);
        self.total = size(H::Total).unwrap_or(self.total);
        self.cpus = over.get(H::Cpus).unwrap_or(self.cpus);
        self.set_point = size(H::SetPoint).or(self.set_point);
        if let Some(waited) = over.get(H::PsiMemorySome) {
            self.waits_ns = Some(self.waits_ns.unwrap_or(0).saturating_add(waited));
        }
        grow(&mut self.ksm_ns, over.get(H::KsmRun));
        let shared = over.get(H::KsmSharing).map(|pages| Bytes(pages.saturating_mul(PAGE_BYTES)));
        self.ksm_first = self.ksm_first.or(shared);
        self.ksm_last = shared.or(self.ksm_last);
        self.ksm.extend(shared.map(Bytes::as_mib));
        grow(&mut self.page_out_ns, over.get(H::PageOutRun));
        grow(&mut self.paged_out.0, over.get(H::PagedOut));
        grow(&mut self.came_back.0, over.get(H::CameBack));
        self.available.extend(size(H::Available).map(Bytes::as_mib));
    }
}

impl Habits {
    /// Adds the next interval.
    pub fn add(&mut self, interval: &Interval) {
        if interval.host.covered_ms > 0 {
            self.host.add(&interval.host);
        }
        for (who, over) in interval.guests.iter().filter(|(_, over)| over.covered_ms > 0) {
            self.guests.entry((who.name.clone(), who.uuid.clone())).or_default().add(over);
        }
        for (who, processes) in &interval.processes {
            let key = (who.name.clone(), who.uuid.clone());
            let Some(guest) = self.guests.get_mut(&key) else { continue };
            for (name, over) in processes {
                let known = guest.wakers.contains_key(&name.name);
                if !known && guest.wakers.len() >= WAKERS_MAX {
                    continue;
                }
                let times = over.get(P::Dispatches);
                grow(guest.wakers.entry(name.name.clone()).or_default(), times);
            }
        }
    }

    /// Returns the behaviour of a guest.
    pub fn guest(&self, name: &str, uuid: &str) -> Option<&GuestHabits> {
        self.guests.get(&(name.to_owned(), uuid.to_owned()))
    }
}

/// Reduces a series to a few points: the largest value of each part.
pub fn points(series: &[u64]) -> Vec<u64> {
    let part = series.len().div_ceil(POINTS).max(1);
    series.chunks(part).filter_map(|part| part.iter().max().copied()).collect()
}
