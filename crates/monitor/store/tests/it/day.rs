//! A generated host with guests, as read by a monitor. Most guests sleep most of the time, some
//! work during certain hours, and a few always work. Values vary like recorded values, and the same
//! seed generates the same host.

use model::{
    Field, GuestField as G, GuestIdentity, HostField as H, Kind, Moment, ProcessField as P,
    ProcessName, Row, TierField as T,
};

/// Returns a row in which each value is computed from its field and the seed.
pub fn numbered<F: Field>(seed: u64) -> Row<F> {
    let mut row = Row::default();
    for (number, field) in F::ALL.iter().enumerate() {
        row.set(*field, Some(seed * 1_000 + number as u64));
    }
    row
}

pub struct Rng(u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 >> 17)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// Returns a number around `mean`, sometimes much larger.
    pub fn around(&mut self, mean: u64) -> u64 {
        let usual = mean / 2 + self.below(mean + 1);
        if self.below(20) == 0 { usual * 3 } else { usual }
    }
}

struct Guest {
    who: GuestIdentity,
    /// CPU use while working, in thousandths.
    load: u64,
    /// Working hours of the day, one bit each.
    hours: u32,
    row: Row<G>,
    processes: Vec<(ProcessName, u64, Row<P>)>,
    reported_ms: i64,
}

pub struct World {
    rng: Rng,
    host: Row<H>,
    tiers: Vec<(String, Row<T>)>,
    guests: Vec<Guest>,
    last_ms: i64,
}

const NAMES: [&str; 20] = [
    "systemd",
    "systemd-journal",
    "systemd-udevd",
    "dbus-daemon",
    "sshd",
    "cron",
    "rsyslogd",
    "nginx",
    "php-fpm",
    "postgres",
    "kworker/0:1",
    "kworker/u4:2",
    "rcu_sched",
    "ksoftirqd/0",
    "jbd2/vda1-8",
    "chronyd",
    "agetty",
    "pinheadd",
    "java",
    "kswapd0",
];

fn pages(bytes: u64) -> u64 {
    bytes & !0xfff
}

fn grow<F: Field>(row: &mut Row<F>, field: F, by: u64) {
    row.set(field, Some(row.get(field).unwrap_or(0) + by));
}

impl World {
    pub fn new(guests: usize, at_ms: i64) -> World {
        let mut rng = Rng(7);
        let guests = (0..guests)
            .map(|number| {
                let who = GuestIdentity {
                    uuid: format!("6b1f0000-0000-4000-8000-{number:012}"),
                    name: format!("lnx{number:03}"),
                    class: ["web", "db", "batch"][number % 3].into(),
                    pid: Some(2_000 + number as u32),
                    start_ticks: Some(100_000 + rng.below(1_000_000)),
                    boot: "1".into(),
                };
                // Of ten guests, one always works, three work during certain hours, and six sleep.
                let (load, hours) = match number % 10 {
                    0 => (300 + rng.below(700), u32::MAX),
                    1..=3 => (50 + rng.below(400), rng.next() as u32 & rng.next() as u32),
                    _ => (0, 0),
                };
                let mut row = Row::default();
                let mib = 1 << 20;
                row.set(G::Vcpus, Some(2));
                row.set(G::Memory, Some(512 * mib));
                row.set(G::Target, Some((128 + rng.below(384)) * mib));
                row.set(G::Minimum, Some(96 * mib));
                row.set(G::Locked, Some(0));
                row.set(G::OwnTotal, Some(491 * mib));
                row.set(G::OwnSwapTotal, Some(256 * mib));
                row.set(G::OwnCpus, Some(1));
                let processes = NAMES.iter().enumerate().map(|(place, name)| {
                    let pid = if place < 10 { 0 } else { 100 + place as u32 };
                    let name = ProcessName { name: (*name).into(), pid };
                    let mut row = Row::default();
                    row.set(P::Count, Some(1 + rng.below(4)));
                    row.set(P::Threads, Some(1 + rng.below(8)));
                    row.set(P::Resident, Some((1 + rng.below(40)) * mib));
                    (name, rng.below(10), row)
                });
                let processes = processes.collect();
                Guest { who, load, hours, row, processes, reported_ms: at_ms }
            })
            .collect();
        let mut host = Row::default();
        host.set(H::Cpus, Some(8));
        host.set(H::Total, Some(32 << 30));
        let tiers = ["/dev/zram0", "/dev/nvme0n1p3"].map(|name| (name.into(), Row::default()));
        World { rng, host, tiers: tiers.into(), guests, last_ms: at_ms }
    }

    /// Returns the state at a moment, which must be later than the last moment.
    pub fn at(&mut self, at_ms: i64) -> Moment {
        let span_ms = (at_ms - self.last_ms).unsigned_abs();
        self.last_ms = at_ms;
        let hour = (at_ms / 3_600_000 % 24) as u32;
        let rng = &mut self.rng;
        let mut moment = Moment { at_ms, ..Moment::default() };
        let mut all_run = 0;
        for guest in &mut self.guests {
            let works = guest.hours >> hour & 1 == 1;
            let permille = if works { rng.around(guest.load).min(2_000) } else { rng.around(3) };
            let run = permille * span_ms * 1_000 + rng.below(10_000);
            all_run += run;
            let row = &mut guest.row;
            grow(row, G::VcpuRun, run);
            grow(row, G::VcpuDelay, rng.around(run / 50));
            grow(row, G::VcpuDispatches, rng.around(span_ms / 30 + run / 500_000));
            grow(row, G::OtherRun, rng.around(run / 10));
            grow(row, G::OtherDelay, rng.around(run / 400));
            grow(row, G::OtherDispatches, rng.around(span_ms / 50));
            grow(row, G::MinorFaults, if works { rng.around(span_ms / 50) } else { rng.below(2) });
            grow(row, G::MajorFaults, if rng.below(300) == 0 { rng.below(50) } else { 0 });
            for field in [G::PsiCpu, G::PsiMemory, G::PsiIo] {
                grow(row, field, if works { rng.around(run / 100) } else { 0 });
            }
            for field in [G::ReadBytes, G::WriteBytes] {
                grow(row, field, if rng.below(9) == 0 { rng.below(9) * 4_096 } else { 0 });
            }
            for field in [G::ReadCalls, G::WriteCalls, G::Reported, G::Throttled] {
                grow(row, field, if works { rng.below(30) } else { 0 });
            }
            let target = row.get(G::Target).unwrap_or(0);
            let wander = if works { rng.below(8 << 20) } else { rng.below(2) << 12 } & !0xfff;
            row.set(G::Resident, Some(target / 2 + wander));
            row.set(G::Actual, Some(target));
            row.set(G::Swapped, Some(pages(target / 8)));
            row.set(G::Merged, Some(target >> 14));
            // The daemon of a sleeping guest is not queried.
            if works || rng.below(span_ms + 60_000) < span_ms {
                let free = pages((20 << 20) + rng.below(64 << 20));
                row.set(G::OwnFree, Some(free));
                row.set(G::OwnAvailable, Some(2 * free));
                row.set(G::OwnCached, Some(pages(3 * free / 2)));
                row.set(G::OwnActiveFile, Some(pages(free / 2)));
                row.set(G::OwnAnonymous, Some(pages(free / 3)));
                row.set(G::OwnSwapFree, Some((256 << 20) - pages(free / 9)));
                for field in [
                    G::OwnSwapIn,
                    G::OwnSwapOut,
                    G::OwnRefaultFile,
                    G::OwnRefaultAnonymous,
                    G::OwnStalls,
                    G::OwnMajorFaults,
                ] {
                    grow(row, field, rng.below(40).saturating_sub(20));
                }
                grow(row, G::OwnPsiSome, rng.around(10_000));
                grow(row, G::OwnPsiFull, rng.around(1_000));
                grow(row, G::OwnBusy, run / 10_000_000);
                grow(row, G::OwnIdle, span_ms / 10);
                grow(row, G::OwnSteal, rng.below(3));
                row.set(G::OwnPool, Some(rng.below(2) * 1_000));
                grow(row, G::OwnPlugs, 0);
                grow(row, G::OwnUnplugs, 0);
                grow(row, G::OwnOomKills, 0);
            }
            moment.guests.insert(guest.who.clone(), row.clone());
            if at_ms - guest.reported_ms >= 60_000 {
                guest.reported_ms = at_ms;
                for (_, share, row) in &mut guest.processes {
                    // In a sleeping guest, a few processes wake in a minute.
                    if !works && rng.below(5) > 0 {
                        continue;
                    }
                    let used =
                        if works { rng.around(*share * 30_000_000) } else { rng.below(900_000) };
                    grow(row, P::Run, used);
                    grow(row, P::User, used / 10_000_000 * 7_000_000 / 10_000_000 * 10_000_000);
                    grow(row, P::System, used / 30_000_000 * 10_000_000);
                    grow(row, P::ChildUser, 0);
                    grow(row, P::ChildSystem, 0);
                    grow(row, P::MajorFaults, rng.below(30) / 29);
                    grow(row, P::Dispatches, 1 + used / 200_000);
                    let resident = row.get(P::Resident).unwrap_or(0);
                    row.set(P::Resident, Some(resident ^ (rng.below(16) << 12)));
                }
                let all = guest.processes.iter().map(|(name, _, row)| (name.clone(), row.clone()));
                moment.processes.insert(guest.who.clone(), all.collect());
            }
        }
        for field in H::ALL.iter().filter(|field| field.kind() == Kind::Counter) {
            grow(&mut self.host, *field, rng.around(span_ms * 1_000));
        }
        grow(&mut self.host, H::User, all_run);
        for field in H::ALL.iter().filter(|field| field.kind() == Kind::Gauge) {
            if !matches!(field, H::Cpus | H::Total) {
                self.host.set(*field, Some(rng.around(4 << 30) & !0xfff));
            }
        }
        for (name, row) in &mut self.tiers {
            for field in T::ALL {
                match field.kind() {
                    Kind::Counter => grow(row, *field, rng.around(span_ms)),
                    Kind::Gauge => row.set(*field, Some(rng.around(1 << 30) & !0xfff)),
                }
            }
            moment.tiers.insert(name.clone(), row.clone());
        }
        moment.host = self.host.clone();
        moment
    }
}
