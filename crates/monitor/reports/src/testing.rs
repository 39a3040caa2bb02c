//! Generated day of a host's guests. The data are the same on every machine, and have the
//! variation, gaps and missing counters of real recordings.

use crate::gather::HostData;
use model::{
    Gap, GuestField as G, GuestIdentity, HostField as H, Interval, Over, ProcessField as P,
    ProcessName, Row, TierField as T,
};
use std::collections::BTreeMap;

/// Start of the day: midnight of 21 November 2026, UTC.
pub const DAY_MS: i64 = 1_795_219_200_000;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

struct Chance(u64);

impl Chance {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    /// Returns the value, plus or minus a quarter.
    fn about(&mut self, value: u64) -> u64 {
        value - value / 4 + self.below(value / 2 + 1)
    }
}

fn row<F: model::Field>(values: &[(F, u64)]) -> Row<F> {
    let mut row = Row::default();
    values.iter().for_each(|(field, value)| row.set(*field, Some(*value)));
    row
}

/// Returns a day with the given number of guests and minutes per interval. Every tenth guest is
/// emulated, and every seventh guest has no daemon. In the fourth hour, 24 minutes are not
/// recorded.
pub fn day(guests: usize, minutes: u64) -> HostData {
    let step_ms = minutes * 60_000;
    let mut chance = Chance(0x5eed_5eed_5eed_5eed);
    let mut intervals = Vec::new();
    let turns = 1440 / minutes;
    for turn in 0..turns {
        let from_minute = turn * minutes;
        let from_ms = DAY_MS + i64::try_from(from_minute * 60_000).unwrap_or(0);
        let lost_ms = overlap(from_minute, minutes) * 60_000;
        if lost_ms == step_ms {
            continue;
        }
        intervals.push(interval(&mut chance, guests, from_ms, step_ms, step_ms - lost_ms));
    }
    HostData {
        name: "p390".into(),
        facts: vec![("kernel".into(), "Linux 6.18.1".into()), ("QEMU".into(), "7.2.9".into())],
        intervals,
        gaps: vec![Gap {
            from_ms: DAY_MS + 190 * 60_000,
            to_ms: DAY_MS + 214 * 60_000,
            reason: "the manager was not running".into(),
        }],
        recorded: Some((DAY_MS, DAY_MS + 86_400_000)),
    }
}

/// Returns the unrecorded minutes of an interval.
fn overlap(from: u64, minutes: u64) -> u64 {
    (from + minutes).min(214).saturating_sub(from.max(190))
}

/// Returns the load at a time of day, in thousandths: low at night, highest at eleven and three.
fn hour_load(from_ms: i64) -> u64 {
    const LOAD: [u64; 24] = [
        30, 20, 20, 20, 25, 40, 80, 200, 450, 700, 850, 1000, 700, 650, 900, 950, 800, 600, 400,
        250, 150, 100, 60, 40,
    ];
    let hour = from_ms.saturating_sub(DAY_MS) / 3_600_000;
    LOAD[usize::try_from(hour).unwrap_or(0) % 24]
}

fn interval(
    chance: &mut Chance,
    guests: usize,
    from_ms: i64,
    length_ms: u64,
    covered_ms: u64,
) -> Interval {
    let load = hour_load(from_ms);
    let mut out = Interval { from_ms, length_ms, ..Interval::default() };
    let (mut cpu_ns, mut resident) = (0, 0);
    for number in 0..guests {
        let (who, row) = guest(chance, number, load, covered_ms);
        let get = |field| row.get(field).unwrap_or(0);
        cpu_ns += get(G::VcpuRun) + get(G::OtherRun);
        resident += get(G::Resident);
        if let Some(busy) = row.get(G::OwnBusy) {
            out.processes.insert(who.clone(), processes(chance, busy, covered_ms, number));
        }
        out.guests.insert(who, Over { covered_ms, row });
    }
    out.host = Over { covered_ms, row: host(chance, guests, cpu_ns, resident, covered_ms) };
    out.tiers = tiers(chance, load, covered_ms);
    out
}

fn guest(
    chance: &mut Chance,
    number: usize,
    load: u64,
    covered_ms: u64,
) -> (GuestIdentity, Row<G>) {
    let class = ["web", "db", "batch"][number % 3];
    let size = [512, 1024, 256][number % 3] * MIB;
    let who = GuestIdentity {
        uuid: format!("{number:08x}-0000-4000-8000-000000000000"),
        name: format!("LNX1{number:03}"),
        class: class.into(),
        pid: u32::try_from(1000 + number).ok(),
        start_ticks: Some(100),
        boot: "b1".into(),
    };
    // Ranges from an idle guest's 0.5 % of a CPU to a busy server's 30 %.
    let seconds = covered_ms * 1_000;
    let heavy = u64::try_from(20 / (number + 1)).unwrap_or(0) + 2;
    let run = chance.about(seconds * 5 + seconds * heavy * 15 * load / 1000);
    let wait = chance.about(run * load / 4000);
    let wakes = chance.about(covered_ms / 300 + run / 400_000);
    let resident = chance.about(size / 2);
    let mut row = row(&[
        (G::VcpuRun, run),
        (G::VcpuDelay, wait),
        (G::VcpuDispatches, wakes + wakes / 5),
        (G::Vcpus, if number % 3 == 1 { 2 } else { 1 }),
        (G::OtherRun, chance.about(run / 12)),
        (G::OtherDelay, wait / 20),
        (G::OtherDispatches, chance.about(wakes / 3)),
        (G::Resident, resident),
        (G::Private, resident - resident / 5),
        (G::Together, resident / 5),
        (G::Hypervisor, resident / 8),
        (G::Compressed, size / 120),
        (G::Swapped, chance.about(size / 40)),
        (G::Locked, 0),
        (G::MinorFaults, chance.about(covered_ms / 100)),
        (G::MajorFaults, chance.about(load * covered_ms / 3_000_000)),
        (G::Merged, chance.about(9_000)),
        (G::PsiMemory, chance.about(seconds * load / 100)),
        (G::ReadBytes, chance.about(load * covered_ms / 8)),
        (G::WriteBytes, chance.about(load * covered_ms / 5)),
        (G::ReadCalls, chance.about(covered_ms / 50)),
        (G::WriteCalls, chance.about(covered_ms / 40)),
        (G::Memory, size),
        (G::Actual, size - size / 8),
        (G::Target, size - size / 8),
        (G::Minimum, size / 4),
        (G::Reported, chance.about(MIB)),
    ]);
    if number % 10 != 9 {
        let polled = chance.about(run / 50);
        row.set(G::VcpuGuest, Some(run - run / 9 - polled));
        row.set(G::HaltPoll, Some(polled));
        row.set(G::HaltWakeups, Some(wakes));
        row.set(G::Exits, Some(chance.about(wakes * 3)));
    }
    outside(&mut row, number, size, run, covered_ms);
    if number % 7 != 6 {
        inside(chance, &mut row, size, run, wait, load);
    }
    (who, row)
}

/// Fills in bursts, memory by tier, disks and network, proportional to the guest's work.
fn outside(row: &mut Row<G>, number: usize, size: u64, run: u64, covered_ms: u64) {
    let number = u64::try_from(number).unwrap_or(0);
    let bursts = run / 2_000_000;
    let all = [
        (G::Bursts50, bursts),
        (G::Bursts200, bursts / 20),
        (G::Bursts1000, bursts / 200),
        (G::BurstsLong, bursts / 900),
        (G::IdleShort, covered_ms * 1_000 * (100 + 7 * number % 90)),
        (G::Low, size / 8),
        (G::Images, 900 * MIB),
        (G::ImagesCached, 300 * MIB + number * MIB),
        (G::BlockReads, run / 50_000_000),
        (G::BlockReadBytes, row.get(G::ReadBytes).unwrap_or(0) * 3 + run / 3000),
        (G::BlockWrites, run / 40_000_000),
        (G::BlockWriteBytes, row.get(G::WriteBytes).unwrap_or(0)),
    ];
    all.into_iter().for_each(|(field, value)| row.set(field, Some(value)));
    // Every third guest has its own cgroup, and every fourth guest has a tap device.
    if number.is_multiple_of(3) {
        let swapped = row.get(G::Swapped).unwrap_or(0);
        let pages = covered_ms / 4000;
        let all = [
            (G::GroupSwap, swapped),
            (G::GroupZswapped, swapped / 3),
            (G::GroupZswapIn, pages),
            (G::GroupZswapOut, pages * 2),
            (G::GroupZswapBack, pages / 9),
            (G::GroupSwapIn, pages / 3),
            (G::GroupSwapOut, pages / 2),
            (G::GroupRefaultAnonymous, pages / 2),
            (G::GroupRefaultFile, pages / 5),
        ];
        all.into_iter().for_each(|(field, value)| row.set(field, Some(value)));
    }
    if number % 4 == 1 {
        let packets = run / 3_000_000;
        let all = [
            (G::NetInPackets, packets),
            (G::NetInBytes, packets * 400),
            (G::NetOutPackets, packets * 9 / 10),
            (G::NetOutBytes, packets * 1100),
        ];
        all.into_iter().for_each(|(field, value)| row.set(field, Some(value)));
    }
}

/// Fills in the daemon's report. The guest's clock runs while other processes use its CPU, so the
/// guest counts a part of its waits as its own work.
fn inside(chance: &mut Chance, row: &mut Row<G>, size: u64, run: u64, wait: u64, load: u64) {
    let truth = row.get(G::VcpuGuest).unwrap_or(run);
    let busy = (truth + wait / 4) / 10_000_000;
    let set = |row: &mut Row<G>, values: &[(G, u64)]| {
        values.iter().for_each(|(field, value)| row.set(*field, Some(*value)));
    };
    let anonymous = chance.about(size / 5);
    set(
        row,
        &[
            (G::OwnTotal, size - 30 * MIB),
            (G::OwnFree, chance.about(size / 10)),
            (G::OwnAvailable, chance.about(size / 3)),
            (G::OwnCached, chance.about(size / 4)),
            (G::OwnActiveFile, chance.about(size / 8)),
            (G::OwnAnonymous, anonymous),
            (G::OwnSwapTotal, 128 * MIB),
            (G::OwnSwapFree, 128 * MIB - chance.about(20 * MIB)),
            (G::OwnSwapIn, chance.about(load / 10)),
            (G::OwnSwapOut, chance.about(load / 8)),
            (G::OwnRefaultFile, chance.about(load)),
            (G::OwnRefaultAnonymous, chance.about(load / 12)),
            (G::OwnStalls, chance.below(3)),
            // Occasional OOM kills.
            (G::OwnOomKills, u64::from(wait % 101 == 7)),
            (G::OwnMajorFaults, chance.about(load / 5)),
            (G::OwnPsiSome, chance.about(load * 100_000)),
            (G::OwnPsiFull, chance.about(load * 20_000)),
            (G::OwnCpus, 1),
            (G::OwnBusy, busy),
            (G::OwnIdle, chance.about(4000)),
            (G::OwnSteal, wait / 20_000_000),
            (G::OwnPool, chance.about(2000)),
            (G::OwnPlugs, chance.below(3)),
            (G::OwnUnplugs, chance.below(3)),
            (G::OwnGrows, 1),
            (G::OwnShrinks, load / 900),
            (G::OwnLoad, load + 50),
            (G::OwnRunning, 1 + load / 500),
            (G::OwnBlocked, load / 1000),
            (G::OwnRootUsed, 300 + size / (10 * MIB)),
            (G::OwnReceived, run / 5000),
            (G::OwnReceivedPackets, run / 4_000_000),
            (G::OwnSent, run / 2000),
            (G::OwnSentPackets, run / 4_500_000),
        ],
    );
    let working = anonymous + row.get(G::OwnActiveFile).unwrap_or(0);
    row.set(G::OwnWorkingSet, Some(working));
}

fn processes(
    chance: &mut Chance,
    busy_ticks: u64,
    covered_ms: u64,
    number: usize,
) -> BTreeMap<ProcessName, Over<P>> {
    let names = ["nginx", "postgres", "cron", "systemd-journald", "<script>alert(1)</script>"];
    let mut left = busy_ticks * 10_000_000 * 19 / 20;
    let mut found = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        let share = chance.about(left / 2).min(left);
        left -= share;
        let dispatches = chance.about(covered_ms / 500 + share / 500_000);
        let pid = u32::try_from(200 + 10 * at + number).unwrap_or(0);
        let row = row(&[
            (P::Count, 1 + u64::try_from(at % 3).unwrap_or(0)),
            (P::User, share * 2 / 3),
            (P::System, share - share * 2 / 3),
            (P::ChildUser, if at == 2 { share / 5 } else { 0 }),
            (P::ChildSystem, 0),
            (P::Dispatches, dispatches),
            (P::Run, share),
            (P::Resident, chance.about(20 * MIB)),
            (P::MajorFaults, chance.below(4)),
            (P::Threads, 2),
        ]);
        let name = ProcessName { name: (*name).to_owned(), pid };
        found.insert(name, Over { covered_ms, row });
    }
    found
}

fn host(chance: &mut Chance, guests: usize, cpu_ns: u64, resident: u64, covered_ms: u64) -> Row<H> {
    let own = chance.about(covered_ms * 2_000);
    let ksm = chance.about(covered_ms * 20_000);
    let others = chance.about(cpu_ns / 200);
    let busy = cpu_ns + own + ksm + others;
    let total = 8 * GIB + u64::try_from(guests).unwrap_or(0) * 600 * MIB;
    let sharing = resident / 4096 / 4;
    let anonymous = (resident - sharing * 4096) * 21 / 20;
    let (cached, slab) = (chance.about(3 * GIB), chance.about(GIB));
    // Buffers, tables, kernel stacks, zram, and the unnamed remainder.
    let rest = 202 * MIB + 311 * MIB + chance.about(60 * MIB);
    let free = total.saturating_sub(anonymous + cached + slab + rest);
    row(&[
        (H::Cpus, 16),
        (H::User, busy / 6),
        (H::Nice, 0),
        (H::System, busy / 5),
        (H::Idle, (covered_ms * 16_000_000).saturating_sub(busy)),
        (H::IoWait, chance.about(covered_ms * 1000)),
        (H::Interrupts, 0),
        (H::SoftInterrupts, busy / 30),
        (H::Steal, 0),
        (H::Guest, busy - busy / 6 - busy / 5 - busy / 30),
        (H::Switches, chance.about(covered_ms * 4)),
        (H::Running, 3),
        (H::Total, total),
        (H::Free, free),
        (H::Available, free + cached / 2),
        (H::Buffers, 80 * MIB),
        (H::Cached, cached),
        (H::Shared, 40 * MIB),
        (H::Anonymous, anonymous),
        (H::Slab, slab),
        (H::PageTables, 60 * MIB),
        (H::SecondaryTables, 30 * MIB),
        (H::KernelStack, 12 * MIB),
        (H::PerCpu, 20 * MIB),
        (H::HugeTlb, 0),
        (H::SwapIn, chance.about(covered_ms / 400)),
        (H::SwapOut, chance.about(covered_ms / 300)),
        (H::MajorFaults, chance.about(covered_ms / 2000)),
        (H::Stalls, chance.below(4)),
        (H::ScanDirect, chance.about(covered_ms / 100)),
        (H::StealDirect, chance.about(covered_ms / 150)),
        (H::ScanKswapd, chance.about(covered_ms / 20)),
        (H::StealKswapd, chance.about(covered_ms / 25)),
        (H::RefaultFile, chance.about(covered_ms / 60)),
        (H::RefaultAnonymous, chance.about(covered_ms / 600)),
        (H::OomKills, 0),
        (H::PsiCpuSome, chance.about(covered_ms * 40_000)),
        (H::PsiMemorySome, chance.about(covered_ms * 9_000)),
        (H::PsiMemoryFull, chance.about(covered_ms * 2_000)),
        (H::PsiIoSome, chance.about(covered_ms * 30_000)),
        (H::PsiIoFull, chance.about(covered_ms * 12_000)),
        (H::KsmShared, sharing / 6),
        (H::KsmSharing, sharing),
        (H::KsmScans, 1),
        (H::KsmRun, ksm),
        (H::KswapdRun, chance.about(covered_ms * 300)),
        (H::OwnRun, own),
        (H::OwnResident, 23 * MIB),
        (H::Together, resident / 5 / u64::try_from(guests.max(1)).unwrap_or(1)),
        (H::ShedReadings, chance.below(40) / 38),
        (H::MissedMoments, 0),
        (H::SetPoint, 3 * GIB),
        (H::Guests, u64::try_from(guests).unwrap_or(0)),
        (H::GuestsAwake, u64::try_from(guests / 2).unwrap_or(0)),
        (H::MinWatermark, 64 * MIB),
        (H::LowWatermark, 80 * MIB),
        (H::HighWatermark, 96 * MIB),
        (H::Images, 3),
        (H::ImageBytes, 2000 * MIB),
        (H::ImagesCached, 700 * MIB),
        (H::OthersRun, others),
        (H::Ballooned, 900 * MIB),
        (H::PageOuts, 1),
        (H::PagedOut, 28 * MIB),
        (H::PagedOutStored, 9 * MIB),
        (H::CameBack, 3 * MIB),
        (H::PageOutRun, 41_000_000),
        (H::KernelRun, ksm),
        (H::CpuLists, 24 * MIB),
    ])
}

fn tiers(chance: &mut Chance, load: u64, covered_ms: u64) -> BTreeMap<String, Over<T>> {
    let (reads, writes) = (chance.about(load * 30 + 40), chance.about(load * 20 + 30));
    let stored = chance.about(900 * MIB);
    let zram = row(&[
        (T::Size, 4 * GIB),
        (T::Used, stored),
        (T::Priority, 32_868),
        (T::Stored, stored),
        (T::Compressed, stored / 3),
        (T::Resident, stored / 3 + 10 * MIB),
        (T::Backing, 0),
        (T::Reads, reads),
        (T::ReadBytes, reads * 4096),
        (T::ReadTime, reads * 9_000),
        (T::Writes, writes),
        (T::WriteBytes, writes * 4096),
        (T::WriteTime, writes * 14_000),
    ]);
    let (reads, writes) = (chance.below(40), chance.below(60));
    let disk = row(&[
        (T::Size, 8 * GIB),
        (T::Used, chance.about(300 * MIB)),
        (T::Priority, 32_767),
        (T::Reads, reads),
        (T::ReadBytes, reads * 16_384),
        (T::ReadTime, reads * 2_100_000),
        (T::Writes, writes),
        (T::WriteBytes, writes * 65_536),
        (T::WriteTime, writes * 5_300_000),
    ]);
    let over = |row| Over { covered_ms, row };
    [("/dev/zram0".to_owned(), over(zram)), ("/dev/vdb".to_owned(), over(disk))].into()
}
