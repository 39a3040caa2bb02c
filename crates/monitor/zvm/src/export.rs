//! Export of recordings as records of z/VM's monitor, for programs that read such records.
//!
//! The monitor has counters, while a recording has their growth, so the exporter sums the growth
//! from zero. Fields that were not recorded, or have no place in the records, are left out.

use base::{KIB, PAGE_BYTES};
use model::{
    Field, GuestField as G, GuestIdentity, HostField as H, Interval, Kind, Over, ProcessField as P,
    ProcessName, Row,
};
use std::collections::BTreeMap;
use zmon::appldata::{
    Cpu, LOAD_ONE, MEMORY, Memory, NETWORK, Network, Os, ProductId, SYSTEM, System,
};
use zmon::domain::{ActivityAtEnd, Application, Processor, Storage, Users, record};
use zmon::frame::{END_OF_INTERVAL, Head};
use zmon::layout::Layout;
use zmon::monwriter::{self, Series};
use zmon::procd::{self, Task};
use zmon::{Tod, ticks_of_ns, to_ebcdic};

const NAME_MAX: usize = 8;
/// Maximum number of processor records, more than a machine has.
const PROCESSORS_MAX: u64 = 4_096;
/// Maximum number of processes of a guest with records of their own.
const TASKS_MAX: u64 = 100;

#[derive(Clone, Debug, Default)]
struct Sums {
    fields: BTreeMap<G, u64>,
    /// CPU time and faults of the guest's processes, by name.
    processes: BTreeMap<ProcessName, (u64, u64)>,
}

/// Name and UUID of a guest, which stay the same across its processes and boots.
type Key = (String, String);

fn key(who: &GuestIdentity) -> Key {
    (who.name.clone(), who.uuid.clone())
}

/// Exporter of intervals as records.
#[derive(Clone, Debug, Default)]
pub struct Exporter {
    host: BTreeMap<H, u64>,
    guests: BTreeMap<Key, Sums>,
    names: BTreeMap<Key, String>,
    intervals: u32,
    last_ms: Option<i64>,
}

impl Exporter {
    /// Returns the guest's name as a user of z/VM: at most eight capital letters and digits, unique
    /// among guests.
    pub fn user(&mut self, who: &GuestIdentity) -> String {
        let key = key(who);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let letters = who.name.chars().map(|c| c.to_ascii_uppercase());
        let is_kept =
            |c: &char| c.is_ascii_uppercase() || c.is_ascii_digit() || "@#$_-".contains(*c);
        let wanted: String = letters.filter(is_kept).take(NAME_MAX).collect();
        let is_free =
            |name: &String| !name.is_empty() && !self.names.values().any(|one| one == name);
        let numbered = |number: usize| {
            let tail = number.to_string();
            let head: String = wanted.chars().take(NAME_MAX.saturating_sub(tail.len())).collect();
            head + &tail
        };
        let mut all = std::iter::once(wanted.clone()).chain((2..).map(numbered));
        let name = all.find(is_free).unwrap_or(wanted);
        self.names.insert(key, name.clone());
        name
    }

    /// Returns the guests that had to be renamed, with their names as users of z/VM.
    pub fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.names.iter().map(|((guest, _), name)| (guest.as_str(), name.as_str()));
        names.filter(|(guest, user)| guest != user)
    }

    /// Returns the records of an interval. The last record ends the interval. The first interval,
    /// and an interval after a gap, begin with base records, to which the interval's growth is
    /// added. A guest that first appears in the `next` interval gets its base record at the end of
    /// `interval`.
    pub fn interval(&mut self, interval: &Interval, next: Option<&Interval>) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        if self.last_ms != Some(interval.from_ms) {
            records = self.records(interval.from_ms, &zero(interval), None);
        }
        let end_ms = end_ms(interval);
        let follows = next.filter(|next| next.from_ms == end_ms);
        records.extend(self.records(end_ms, interval, follows));
        self.last_ms = Some(end_ms);
        records
    }

    fn records(
        &mut self,
        at_ms: i64,
        interval: &Interval,
        next: Option<&Interval>,
    ) -> Vec<Vec<u8>> {
        let Some(at) = Tod::of_ms(at_ms) else { return Vec::new() };
        self.intervals = self.intervals.wrapping_add(1);
        let mut records = self.host_records(at, &interval.host);
        self.guest_records(at, interval, &mut records);
        if let Some(next) = next {
            let newcomers = self.newcomers(next);
            self.guest_records(at, &newcomers, &mut records);
        }
        records.push(Head::with(END_OF_INTERVAL, at, &[]));
        records
    }

    /// Returns the guests and processes without earlier records, with all counters at zero.
    fn newcomers(&self, next: &Interval) -> Interval {
        let mut new = zero(next);
        new.guests.retain(|who, _| !self.guests.contains_key(&key(who)));
        for (who, processes) in &mut new.processes {
            let known = self.guests.get(&key(who)).map(|sums| &sums.processes);
            processes.retain(|name, _| !known.is_some_and(|known| known.contains_key(name)));
        }
        new
    }

    fn guest_records(&mut self, at: Tod, interval: &Interval, records: &mut Vec<Vec<u8>>) {
        for (who, over) in &interval.guests {
            let user = self.user(who);
            let sums = self.guests.entry(key(who)).or_default();
            add_up(&mut sums.fields, over);
            let told = Told { sums, user: &user, at, count: self.intervals };
            told.activity(records);
            told.inside(records);
        }
        for (who, processes) in &interval.processes {
            let user = self.user(who);
            let sums = self.guests.entry(key(who)).or_default();
            let mut series = Series::default();
            for process in processes {
                task_records(sums, &user, at, process, &mut series, records);
            }
        }
    }

    fn host_records(&mut self, at: Tod, over: &Over<H>) -> Vec<Vec<u8>> {
        add_up(&mut self.host, over);
        let get = |field: H| self.host.get(&field).copied();
        let sum = |fields: &[H]| {
            fields.iter().filter_map(|field| get(*field)).fold(0, u64::saturating_add)
        };
        let mut records = Vec::new();
        for address in 0..get(H::Cpus).unwrap_or(0).min(PROCESSORS_MAX) {
            // Only the sum over all processors is known, and the first processor gets this sum.
            let ticks = |fields: &[H]| if address == 0 { ticks_of_ns(sum(fields)) } else { 0 };
            let processor = Processor {
                address: address as u16,
                guest_time: ticks(&[H::Guest]),
                user_time: ticks(&[H::Guest, H::User, H::Nice]),
                system_time: ticks(&[H::System, H::Interrupts, H::SoftInterrupts]),
                wait_time: ticks(&[H::Idle, H::IoWait]),
            };
            records.push(record((0, 2), at, &processor));
        }
        let frames = |field| get(field).map(|bytes| (bytes / PAGE_BYTES) as u32);
        if let Some((pageable, available)) = frames(H::Total).zip(frames(H::Available)) {
            records.push(record((0, 3), at, &Storage { pageable, available }));
        }
        if let Some(logged_on) = get(H::Guests) {
            let awake = get(H::GuestsAwake).unwrap_or(logged_on);
            let dormant = logged_on.saturating_sub(awake) as u32;
            records.push(record((0, 8), at, &Users { logged_on: logged_on as u32, dormant }));
        }
        records
    }
}

fn end_ms(interval: &Interval) -> i64 {
    interval.from_ms.saturating_add(interval.length_ms.cast_signed())
}

/// Returns a copy of the interval with all counters at zero, for its base records.
fn zero(interval: &Interval) -> Interval {
    let mut zero = interval.clone();
    zero.host.row = zeroed(&zero.host.row);
    zero.guests.values_mut().for_each(|over| over.row = zeroed(&over.row));
    for over in zero.processes.values_mut().flat_map(BTreeMap::values_mut) {
        over.row = zeroed(&over.row);
    }
    zero
}

/// Sets counters to zero, and keeps gauges.
fn zeroed<F: Field>(row: &Row<F>) -> Row<F> {
    let value = |field: F| match field.kind() {
        Kind::Counter => row.get(field).map(|_| 0),
        Kind::Gauge => row.get(field),
    };
    let mut zeroed = Row::default();
    zeroed.extend(F::ALL.iter().map(|field| (*field, value(*field))));
    zeroed
}

/// Adds the growth of counters to the sums, and replaces gauges by their current values.
fn add_up<F: Field + Ord>(sums: &mut BTreeMap<F, u64>, over: &Over<F>) {
    for field in F::ALL {
        let before = sums.get(field).copied();
        let now = match (field.kind(), over.get(*field)) {
            (Kind::Gauge, value) => value,
            (Kind::Counter, Some(more)) => Some(before.unwrap_or(0).saturating_add(more)),
            (Kind::Counter, None) => before,
        };
        match now {
            Some(now) => drop(sums.insert(*field, now)),
            None => drop(sums.remove(field)),
        }
    }
}

/// A guest at the end of an interval.
struct Told<'a> {
    sums: &'a Sums,
    user: &'a str,
    at: Tod,
    count: u32,
}

impl Told<'_> {
    fn get(&self, field: G) -> Option<u64> {
        self.sums.fields.get(&field).copied()
    }

    fn activity(&self, records: &mut Vec<Vec<u8>>) {
        let Some(run) = self.get(G::VcpuRun) else { return };
        let pages = |field| self.get(field).map_or(0, |bytes| (bytes / PAGE_BYTES) as u32);
        let count = |field| self.get(field).unwrap_or(0) as u32;
        let all = run.saturating_add(self.get(G::OtherRun).unwrap_or(0));
        for cpu in 0..self.get(G::Vcpus).unwrap_or(1).clamp(1, PROCESSORS_MAX) as u16 {
            let user = to_ebcdic(self.user);
            // Only the sum over all virtual CPUs is known, and the first CPU gets this sum.
            let mut activity = ActivityAtEnd { user, cpu, ..ActivityAtEnd::default() };
            if cpu == 0 {
                activity.total_time = ticks_of_ns(all);
                // Under emulation the guest time is unknown, so the whole run time counts as guest
                // time.
                activity.virtual_time = ticks_of_ns(self.get(G::VcpuGuest).unwrap_or(run));
                activity.resident = pages(G::Private).max(pages(G::Resident));
                activity.locked = pages(G::Locked);
                activity.working_set = pages(G::OwnWorkingSet);
                activity.slots = pages(G::Swapped);
                activity.page_waits = count(G::MajorFaults);
                activity.pages_read = count(G::GroupSwapIn);
                activity.pages_written = count(G::GroupSwapOut);
            }
            records.push(record((4, 9), self.at, &activity));
        }
    }

    fn inside(&self, records: &mut Vec<Vec<u8>>) {
        let mut tell = |product: ProductId, data: &[u8]| {
            let said = Application { user: self.user.to_owned(), is_over: false, product, data };
            records.push(said.record(self.at));
        };
        let kib = |field| self.get(field).map_or(0, |bytes| bytes / KIB);
        let count = |field| self.get(field).unwrap_or(0);
        if self.get(G::OwnTotal).is_some() {
            let memory = Memory {
                sync_1: self.count,
                sync_2: self.count,
                total: kib(G::OwnTotal),
                free: kib(G::OwnFree),
                cached: kib(G::OwnCached),
                swap_total: kib(G::OwnSwapTotal),
                swap_free: kib(G::OwnSwapFree),
                swapped_in: count(G::OwnSwapIn),
                swapped_out: count(G::OwnSwapOut),
                major_faults: count(G::OwnMajorFaults),
                ..Memory::default()
            };
            tell(ProductId::of_kernel(MEMORY, "00"), &memory.bytes());
        }
        if self.get(G::OwnBusy).is_some() {
            let load = |field| count(field).saturating_mul(LOAD_ONE.into()).div_ceil(1_000) as u32;
            let cpus = count(G::OwnCpus).clamp(1, zmon::appldata::CPUS_MAX as u64);
            let os = Os {
                sync_1: self.count,
                sync_2: self.count,
                cpus: cpus as u32,
                cpu_bytes: Cpu::BYTES as u32,
                cpu_at: Os::BYTES as u32,
                running: count(G::OwnRunning) as u32,
                load_1: load(G::OwnLoad),
                load_5: load(G::OwnLoad5),
                load_15: load(G::OwnLoad15),
                waiting_for_io: count(G::OwnBlocked) as u32,
                ..Os::default()
            };
            let mut cpus: Vec<Cpu> = (0..cpus)
                .map(|number| Cpu { steal: Some(0), number: Some(number as u32), ..Cpu::default() })
                .collect();
            // The counters of the record wrap at 2^32, like the kernel's counters.
            cpus[0].user = count(G::OwnBusy) as u32;
            cpus[0].idle = count(G::OwnIdle) as u32;
            cpus[0].steal = Some(count(G::OwnSteal) as u32);
            let system = System { os, cpus, has_steal: true };
            tell(ProductId::of_kernel(SYSTEM, "01"), &system.bytes());
        }
        if self.get(G::OwnReceived).is_some() {
            let network = Network {
                sync_1: self.count,
                sync_2: self.count,
                received_bytes: count(G::OwnReceived),
                received_packets: count(G::OwnReceivedPackets),
                sent_bytes: count(G::OwnSent),
                sent_packets: count(G::OwnSentPackets),
                ..Network::default()
            };
            tell(ProductId::of_kernel(NETWORK, "00"), &network.bytes());
        }
    }
}

/// Returns a record for each process with this name. The first record has the sum of these
/// processes.
fn task_records(
    sums: &mut Sums,
    user: &str,
    at: Tod,
    (name, over): (&ProcessName, &Over<P>),
    series: &mut Series,
    records: &mut Vec<Vec<u8>>,
) {
    let both = over.get(P::User).zip(over.get(P::System));
    let ran = both.map(|(user, system)| user.saturating_add(system)).or(over.get(P::Run));
    let sum = sums.processes.entry(name.clone()).or_default();
    sum.0 = sum.0.saturating_add(ran.unwrap_or(0));
    sum.1 = sum.1.saturating_add(over.get(P::MajorFaults).unwrap_or(0));
    for one in 0..over.get(P::Count).unwrap_or(1).clamp(1, TASKS_MAX) {
        let mut task = Task::default();
        task.texts[Task::COMMAND] = name.name.as_bytes().to_vec();
        // A group of processes with one name has no pid, so the record gets a number instead of a
        // pid.
        task.numbers.pid = match name.pid {
            0 => u32::from(series.count()) + 1,
            pid => pid,
        };
        if one == 0 {
            task.numbers.time = sum.0 / procd::NS_PER_CENTI;
            task.numbers.resident = over.get(P::Resident).unwrap_or(0) / KIB;
            task.numbers.major_faults = sum.1;
        }
        let seconds = at.ms().unwrap_or(0).unsigned_abs() / 1_000;
        let write = procd::Record::Task(Box::new(task)).write(seconds, series);
        if let Ok((head, data, _)) = monwriter::Head::split(&write) {
            let product = ProductId::of_writer(head.application, head.record, head.modification);
            let user = user.to_owned();
            records.push(Application { user, is_over: false, product, data }.record(at));
        }
    }
}
