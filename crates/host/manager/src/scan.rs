//! A guest's tasks, requested from its daemon. The daemon responds in parts, which are assembled
//! here. The usage of the guest's process on the host is read at the same time.
//!
//! ```text
//!   `scan` at the control socket ─► Scan ─► daemon ─► Processes (parts) ─► Gather ─► Scanned
//!   once a minute, guests that ran ─┘                     /proc/PID/task ─┘            └─► all
//!                                                                              waiting clients
//! ```
//!
//! A sleeping guest gets a request only if a client wants its tasks.

use crate::control::{Answer, Failure, HostSide, Return, Scanned, TaskRow};
use crate::effect::{Effect, GuestEvent, Now, ScanEvent};
use crate::world::World;
use agent::TaskScan;
use hypervisor::{Id, ProcessId, RunState};
use model::{Field, Kind, ProcessField, ProcessName, Row};
use procfs::parse::schedstat::Schedstat;
use procfs::{Root, TaskDir};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Shortest interval between requests to a daemon, which responds to one request in 10 s. A client
/// that asks earlier gets the last response.
const APART_MS: u64 = 10_500;
/// Timeout of a daemon's response.
const PATIENCE_MS: u64 = 5_000;
/// Interval between requests to running guests, if their tasks are recorded.
const MINUTE_MS: u64 = 60_000;
/// Maximum number of threads that are read of a guest's process.
const THREADS_MAX: usize = 2048;
/// Maximum number of clients that wait for one guest's response.
const CLIENTS_MAX: usize = 32;
/// Nanoseconds in a tick of a guest's /proc.
const TICK_NS: u64 = 10_000_000;

/// Open requests, and the last responses.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    /// True if running guests get a request once a minute, so that their tasks are recorded.
    is_minutely: bool,
    open: BTreeMap<Id, Open>,
    last: BTreeMap<Id, (u64, Rc<Scanned>)>,
}

#[derive(Debug)]
struct Open {
    asked_ms: u64,
    clients: Vec<Return>,
}

impl Scans {
    /// Returns the state without any scan. `is_recorded` is set if running guests get a request
    /// once a minute.
    pub(crate) fn new(is_recorded: bool) -> Scans {
        Scans { is_minutely: is_recorded, ..Scans::default() }
    }

    /// Returns the last response of a guest, and its time by the manager's clock.
    pub(crate) fn last(&self, id: Id) -> Option<(u64, &Rc<Scanned>)> {
        self.last.get(&id).map(|(at_ms, scanned)| (*at_ms, scanned))
    }

    /// Returns the time of the last request to a guest, answered or not.
    fn asked_ms(&self, id: Id) -> Option<u64> {
        let open = self.open.get(&id).map(|open| open.asked_ms);
        open.or_else(|| self.last.get(&id).map(|(at_ms, _)| *at_ms))
    }

    pub(crate) fn step(&mut self, world: &World<'_>, event: ScanEvent, now: Now) -> Vec<Effect> {
        match event {
            ScanEvent::Asked { to, guest } => match self.asked(world, to, &guest, now) {
                Ok(effects) => effects,
                Err(failure) => vec![to.answer(Err(failure))],
            },
            ScanEvent::Answered { guest, scan, host } => {
                self.answered(world, guest, *scan, host, now)
            }
            ScanEvent::Second => self.second(world, now),
        }
    }

    fn asked(
        &mut self,
        world: &World<'_>,
        to: Return,
        name: &str,
        now: Now,
    ) -> Result<Vec<Effect>, Failure> {
        let guest = world.guests.find(name)?;
        let id = guest.id;
        if let Some(open) = self.open.get_mut(&id) {
            if open.clients.len() >= CLIENTS_MAX {
                return Err(Failure::new(
                    "Too many requests wait for this guest's response already",
                ));
            }
            open.clients.push(to);
            return Ok(Vec::new());
        }
        if let Some((at_ms, last)) = self.last.get(&id)
            && now.ms < at_ms + APART_MS
        {
            let answer = Answer::Scan(Box::new(Scanned::clone(last)));
            return Ok(vec![to.answer(Ok(answer))]);
        }
        if guest.daemon.link.agent().hello().is_none() {
            return Err(Failure::no_daemon(name));
        }
        self.open.insert(id, Open { asked_ms: now.ms, clients: vec![to] });
        Ok(vec![Effect::Guests(GuestEvent::AskScan(id))])
    }

    /// Answers all waiting clients with a daemon's response.
    fn answered(
        &mut self,
        world: &World<'_>,
        id: Id,
        scan: TaskScan,
        host: HostSide,
        now: Now,
    ) -> Vec<Effect> {
        let Some(guest) = world.guests.get(id) else { return Vec::new() };
        let mut tasks: Vec<TaskRow> = scan.tasks.into_iter().map(TaskRow::from).collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.dispatches));
        let scanned = Rc::new(Scanned {
            guest: guest.found.name.clone(),
            at_ms: now.wall_ms,
            sequence: scan.sequence,
            previous: scan.previous,
            host,
            asked: guest.daemon.link.agent().asked,
            totals: scan.totals,
            tasks,
        });
        let clients = self.open.remove(&id).into_iter().flat_map(|open| open.clients);
        let answer = || Answer::Scan(Box::new(Scanned::clone(&scanned)));
        let effects = clients.map(|to| to.answer(Ok(answer()))).collect();
        self.last.insert(id, (now.ms, scanned));
        effects
    }

    /// Ends requests after their timeout. Sends requests to running guests once a minute, if their
    /// tasks are recorded.
    fn second(&mut self, world: &World<'_>, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.open.retain(|_, open| {
            let is_late = now.ms >= open.asked_ms + PATIENCE_MS;
            if is_late {
                let text = format!("The guest's daemon has not responded for {PATIENCE_MS} ms");
                let failure = Failure::new(text)
                    .help("the daemon may have another version, or serve another manager");
                let refuse = |to: &Return| to.answer(Err(failure.clone()));
                effects.extend(open.clients.iter().map(refuse));
            }
            !is_late
        });
        self.last.retain(|id, _| world.guests.get(*id).is_some());
        if !self.is_minutely {
            return effects;
        }
        for guest in world.guests.iter() {
            let is_due = self.asked_ms(guest.id).is_none_or(|then| now.ms >= then + MINUTE_MS);
            let runs = guest.state == RunState::Running && !guest.is_idle_since_sample(now.ms);
            if is_due && runs && guest.daemon.link.agent().hello().is_some() {
                self.open.insert(guest.id, Open { asked_ms: now.ms, clients: Vec::new() });
                effects.push(Effect::Guests(GuestEvent::AskScan(guest.id)));
            }
        }
        effects
    }
}

/// Returns the usage of the threads of a guest's process. The files are not kept open, because
/// requests are rare.
pub(crate) fn host_side(process: Option<ProcessId>, vcpu_tids: &[u32]) -> HostSide {
    let mut side = HostSide::default();
    let Some(process) = process else { return side };
    let add = |sum: &mut Option<u64>, more: u64| *sum = Some(sum.unwrap_or(0).saturating_add(more));
    let mut tasks = TaskDir::open(&Root::default());
    for task in tasks.of_process(process.pid, THREADS_MAX) {
        let Schedstat { run_ns: run, delay_ns: delay, dispatches: count } = task.ran;
        if vcpu_tids.contains(&task.tid) {
            add(&mut side.vcpu_run_ns, run);
            add(&mut side.vcpu_delay_ns, delay);
            add(&mut side.vcpu_dispatches, count);
        } else {
            add(&mut side.other_run_ns, run);
            add(&mut side.other_dispatches, count);
        }
    }
    side
}

/// Returns the processes of a response for the record, by name and number. Counts of a process's
/// reported threads are added up.
///
/// A process that started after the previous response is recorded with the counts that it had then,
/// which are zero. The next response therefore adds all of the process's time. A process that ends
/// before the next response adds nothing, because its time is in its parent's count of children.
pub(crate) fn processes(scanned: &Scanned) -> BTreeMap<ProcessName, Row<ProcessField>> {
    let mut rows: BTreeMap<u32, (String, Row<ProcessField>)> = BTreeMap::new();
    let mut new = Vec::new();
    for task in &scanned.tasks {
        let (name, row) = rows.entry(task.pid).or_default();
        let mut add = |field: ProcessField, more: Option<u64>| {
            let sum = match (row.get(field), more) {
                (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                (sum, more) => sum.or(more),
            };
            row.set(field, sum);
        };
        add(ProcessField::Dispatches, task.dispatches);
        add(ProcessField::Run, task.run_ns);
        let is_first = task.tid == task.pid;
        // The names of kernel workers change with their work, but their numbers do not.
        let plain = match task.kind.as_str() {
            "kernel" => task.name.split(['-', '+']).next().unwrap_or_default(),
            _ => task.name.as_str(),
        };
        if is_first || name.is_empty() {
            plain.clone_into(name);
            row.set(ProcessField::Resident, task.resident_bytes);
            row.set(ProcessField::Threads, task.threads);
        }
        if is_first {
            let ns = |ticks: Option<u64>| ticks.map(|ticks| ticks.saturating_mul(TICK_NS));
            row.set(ProcessField::Count, Some(1));
            row.set(ProcessField::User, ns(task.user_ticks));
            row.set(ProcessField::System, ns(task.system_ticks));
            row.set(ProcessField::ChildUser, ns(task.child_user_ticks));
            row.set(ProcessField::ChildSystem, ns(task.child_system_ticks));
            row.set(ProcessField::MajorFaults, task.major_faults);
            if (task.run_before_ns, task.dispatches_before) == (Some(0), Some(0)) {
                new.push(task.pid);
            }
        }
    }
    let counters = || ProcessField::ALL.iter().filter(|field| field.kind() == Kind::Counter);
    for pid in new {
        let Some((_, row)) = rows.get_mut(&pid) else { continue };
        counters().for_each(|field| row.set(*field, row.get(*field).map(|_| 0)));
    }
    rows.into_iter().map(|(pid, (name, row))| (ProcessName { name, pid }, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{GuestIdentity, Interval, Moment};
    use wire::{Task, TaskKind};

    #[test]
    fn threads_are_summed_into_their_process() {
        let task = |tid, kind, name: &str, run: u64| Task {
            tid,
            pid: 7,
            kind,
            name: name.into(),
            run_ns: Some(run),
            dispatches: Some(2),
            user_ticks: Some(3),
            ..Task::default()
        };
        let kworker = Task { pid: 9, ..task(9, TaskKind::Kernel, "kworker/0:1-events", 5) };
        let tasks = [
            task(8, TaskKind::Thread, "pool", 10),
            task(7, TaskKind::Process, "server", 20),
            kworker,
        ];
        let tasks = tasks.into_iter().map(TaskRow::from).collect();
        let rows = processes(&Scanned { tasks, ..Scanned::default() });
        let names: Vec<_> = rows.keys().map(|name| (name.name.as_str(), name.pid)).collect();
        assert_eq!(names, [("kworker/0:1", 9), ("server", 7)]);
        let server = rows.values().nth(1).unwrap();
        assert_eq!(server.get(ProcessField::Run), Some(30));
        assert_eq!(server.get(ProcessField::Dispatches), Some(4));
        assert_eq!(server.get(ProcessField::User), Some(30_000_000));
    }

    #[test]
    fn new_process_counts_from_its_start_when_seen_again() {
        let shell = |run_ms: u64, children: u64, before: Option<u64>| Task {
            tid: 7,
            pid: 7,
            name: "sh".into(),
            run_ns: Some(run_ms * 1_000_000),
            dispatches: Some(run_ms),
            user_ticks: Some(run_ms / 10),
            child_user_ticks: Some(children),
            resident_kib: Some(1024),
            run_before_ns: before.map(|ms| ms * 1_000_000),
            dispatches_before: before,
            ..Task::default()
        };
        let seen = |at_ms, task: Task| {
            let scanned = Scanned { tasks: vec![task.into()], ..Scanned::default() };
            let all = BTreeMap::from([(GuestIdentity::default(), processes(&scanned))]);
            Moment { at_ms, processes: all, ..Moment::default() }
        };
        let sum = |first: Task, second: Task| {
            let interval = Interval::between(&seen(0, first), &seen(60_000, second));
            let all = interval.processes.into_values().next().unwrap();
            let over = all.into_values().next().unwrap();
            [ProcessField::User, ProcessField::ChildUser, ProcessField::Resident]
                .map(|field| over.get(field))
        };
        let mib = Some(1 << 20);
        let (first, second) = (shell(400, 500, Some(0)), shell(900, 4000, Some(400)));
        assert_eq!(sum(first, second.clone()), [Some(900_000_000), Some(40_000_000_000), mib]);
        // The counts of a process that started earlier do not all belong to this time.
        for before in [None, Some(300)] {
            let first = shell(400, 500, before);
            let expected = [Some(500_000_000), Some(35_000_000_000), mib];
            assert_eq!(sum(first, second.clone()), expected);
        }
    }

    #[test]
    fn a_live_process_has_threads_apart() {
        let pid = std::process::id();
        let process = ProcessId::of(pid);
        let side = host_side(process, &[]);
        assert!(side.other_run_ns > Some(0) && side.vcpu_run_ns.is_none());
        assert!(host_side(process, &[pid]).vcpu_dispatches.is_some());
        assert_eq!(host_side(None, &[]), HostSide::default());
    }
}
