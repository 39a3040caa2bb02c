//! Who runs in a guest: its daemon is asked, the parts of its answer are put together, and what
//! its process has used on the host is read beside them.
//!
//! ```text
//!   `scan` at the control socket ─► Scan ─► daemon ─► Processes (parts) ─► Gather ─► Scanned
//!   once a minute, guests that ran ─┘                     /proc/PID/task ─┘            └─► all
//!                                                                              who wait for it
//! ```
//!
//! A guest that sleeps is asked only when a person wants to know.

use crate::control::{Answer, ClientId, Failure, HostSide, Scanned, TaskRow};
use crate::manager::Manager;
use counters::series::{ProcessField, ProcessName, Row};
use hypervisor::{Id, ProcessId, RunState};
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::{Processes, Task, Totals};

/// A daemon answers one question in 10 s; whoever asks sooner gets the last answer.
const APART_MS: u64 = 10_500;
/// A daemon that has not answered by then will not.
const PATIENCE_MS: u64 = 5_000;
/// How often guests that run are asked, where that is recorded.
const MINUTE_MS: u64 = 60_000;
/// Tasks that are asked for, by dispatches and by CPU time: more than an idle guest has awake.
const TOP: u8 = 100;
/// No daemon tells of more, whatever it was asked for.
const TASKS_MAX: usize = 512;
/// Threads of a guest's process that are looked at.
const THREADS_MAX: usize = 2048;
/// Clients that wait for one guest's answer.
const CLIENTS_MAX: usize = 32;
/// Nanoseconds in a tick of a guest's /proc.
const TICK_NS: u64 = 10_000_000;

/// A whole answer of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The question.
    pub sequence: u32,
    /// The question before.
    pub previous: u32,
    /// Counts of all tasks.
    pub totals: Totals,
    /// Tasks.
    pub tasks: Vec<Task>,
}

/// The parts of an answer, as they come.
#[derive(Debug, Default)]
pub struct Gather {
    sequence: u32,
    next_part: u8,
    open: Option<Scan>,
}

impl Gather {
    /// The number of the next question. An answer to an older one is not waited for any more.
    pub fn begin(&mut self) -> wire::Scan {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.next_part = 0;
        self.open = Some(Scan { sequence: self.sequence, ..Scan::default() });
        wire::Scan { sequence: self.sequence, top: TOP }
    }

    /// Takes a part; gives the whole with the last one. What nobody asked for, what is out of
    /// order or too much is dropped, and the question with it.
    pub fn take(&mut self, part: Processes) -> Option<Scan> {
        let mut open = self.open.take().filter(|open| open.sequence == part.sequence)?;
        if part.part != self.next_part || open.tasks.len() + part.tasks.len() > TASKS_MAX {
            return None;
        }
        self.next_part = self.next_part.saturating_add(1);
        (open.previous, open.totals) = (part.previous, part.totals);
        open.tasks.extend(part.tasks);
        if part.last {
            return Some(open);
        }
        self.open = Some(open);
        None
    }
}

/// Questions that are open, and the last answers.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    /// Whether guests that run are asked once a minute, for what is recorded.
    pub(crate) minutely: bool,
    open: BTreeMap<Id, Open>,
    last: BTreeMap<Id, (u64, Rc<Scanned>)>,
}

#[derive(Debug)]
struct Open {
    asked_ms: u64,
    clients: Vec<(ClientId, u64)>,
}

impl Scans {
    /// The last answer of a guest, and when it came on the manager's clock.
    pub(crate) fn last(&self, id: Id) -> Option<(u64, &Rc<Scanned>)> {
        self.last.get(&id).map(|(at_ms, scanned)| (*at_ms, scanned))
    }

    /// When a guest was asked last, answered or not.
    fn asked_ms(&self, id: Id) -> Option<u64> {
        let open = self.open.get(&id).map(|open| open.asked_ms);
        open.or_else(|| self.last.get(&id).map(|(at_ms, _)| *at_ms))
    }
}

impl Manager {
    /// A client wants to know who runs in a guest. `None` if the answer comes later.
    pub(crate) fn scan(
        &mut self,
        client: ClientId,
        asked: u64,
        name: &str,
        now: u64,
    ) -> Option<Result<Answer, Failure>> {
        let id = match self.find(name) {
            Ok(id) => id,
            Err(failure) => return Some(Err(failure)),
        };
        if let Some(open) = self.scans.open.get_mut(&id) {
            if open.clients.len() >= CLIENTS_MAX {
                return Some(Err(Failure::new("Too many wait for this guest's answer already")));
            }
            open.clients.push((client, asked));
            return None;
        }
        if let Some((at_ms, last)) = self.scans.last.get(&id)
            && now < at_ms + APART_MS
        {
            return Some(Ok(Answer::Scan(Box::new(Scanned::clone(last)))));
        }
        let guest = self.guests.get_mut(&id)?;
        if !guest.inside.scan() {
            let failure = Failure::new(format!("No daemon in {name} speaks to this manager"));
            let help = "start pinheadd in it; see pinheadd(8)";
            return Some(Err(failure.help(help)));
        }
        self.scans.open.insert(id, Open { asked_ms: now, clients: vec![(client, asked)] });
        None
    }

    /// A daemon has answered: so do we.
    pub(crate) fn scanned(&mut self, id: Id, scan: Scan, now: u64) {
        let at_ms = self.clock.wall_ms();
        let Some(guest) = self.guests.get(&id) else { return };
        let mut tasks: Vec<TaskRow> = scan.tasks.into_iter().map(TaskRow::from).collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.dispatches));
        let scanned = Rc::new(Scanned {
            guest: guest.found.name.clone(),
            at_ms,
            sequence: scan.sequence,
            previous: scan.previous,
            host: host_side(guest.found.process, &guest.found.vcpu_tids),
            asked: guest.inside.asks(),
            totals: scan.totals.into(),
            tasks,
        });
        let clients = self.scans.open.remove(&id).map_or_else(Vec::new, |open| open.clients);
        for (client, asked) in clients {
            let answer = Ok(Answer::Scan(Box::new(Scanned::clone(&scanned))));
            self.control.answer(client, asked, &answer, now);
        }
        self.scans.last.insert(id, (now, scanned));
    }

    /// Once a second: who does not answer is not waited for, and guests that run are asked once
    /// a minute, where that is recorded.
    pub(crate) fn scan_turn(&mut self, now: u64) {
        let late = |open: &Open| now >= open.asked_ms + PATIENCE_MS;
        let ids: Vec<Id> =
            self.scans.open.iter().filter(|(_, open)| late(open)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(open) = self.scans.open.remove(&id) else { continue };
            let failure = Failure::new(format!("Its daemon has not answered for {PATIENCE_MS} ms"))
                .help("it may be of another version, or be asked by another manager");
            for (client, asked) in open.clients {
                self.control.answer(client, asked, &Err(failure.clone()), now);
            }
        }
        self.scans.last.retain(|id, _| self.guests.contains_key(id));
        if !self.scans.minutely {
            return;
        }
        for (id, guest) in &mut self.guests {
            let is_due = self.scans.asked_ms(*id).is_none_or(|then| now >= then + MINUTE_MS);
            let runs = guest.state == RunState::Running && !guest.is_asleep(now);
            if is_due && runs && guest.inside.scan() {
                self.scans.open.insert(*id, Open { asked_ms: now, clients: Vec::new() });
            }
        }
    }
}

/// What the threads of a guest's process have used. Nothing is kept open: it is asked seldom.
fn host_side(process: Option<ProcessId>, vcpu_tids: &[u32]) -> HostSide {
    let mut side = HostSide::default();
    let Some(process) = process else { return side };
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", process.pid)) else { return side };
    let add = |sum: &mut Option<u64>, more: u64| *sum = Some(sum.unwrap_or(0).saturating_add(more));
    for task in tasks.take(THREADS_MAX).flatten() {
        let tid = task.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let text = std::fs::read_to_string(task.path().join("schedstat"));
        let (Some(tid), Ok(text)) = (tid, text) else { continue };
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u64>());
        let (Some(Ok(run)), Some(Ok(delay)), Some(Ok(count))) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if vcpu_tids.contains(&tid) {
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

/// The processes of an answer as they are recorded, each by its name and number. What its
/// threads counted is summed; threads that were not told of are not in it.
pub(crate) fn processes(scanned: &Scanned) -> BTreeMap<ProcessName, Row<ProcessField>> {
    let mut rows: BTreeMap<u32, (String, Row<ProcessField>)> = BTreeMap::new();
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
        // The names of the kernel's workers change with their work, their numbers do not.
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
        }
    }
    rows.into_iter().map(|(pid, (name, row))| (ProcessName { name, pid }, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::TaskKind;

    fn part(sequence: u32, part: u8, tids: &[u32], last: bool) -> Processes {
        let tasks = tids.iter().map(|tid| Task { tid: *tid, pid: *tid, ..Task::default() });
        Processes { sequence, part, last, tasks: tasks.collect(), ..Processes::default() }
    }

    #[test]
    fn parts_make_a_whole_and_what_is_out_of_order_makes_none() {
        let mut gather = Gather::default();
        assert_eq!(gather.take(part(0, 0, &[1], true)), None, "nobody asked");
        assert_eq!(gather.begin().sequence, 1);
        assert_eq!(gather.take(part(1, 0, &[1, 2], false)), None);
        let whole = gather.take(part(1, 1, &[3], true)).unwrap();
        assert_eq!(whole.tasks.iter().map(|task| task.tid).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(gather.take(part(1, 1, &[3], true)), None, "it is answered");

        assert_eq!(gather.begin().sequence, 2);
        assert_eq!(gather.take(part(2, 1, &[3], true)), None, "the first part is lost");
        assert_eq!(gather.take(part(2, 0, &[3], true)), None);
        gather.begin();
        assert_eq!(gather.take(part(2, 0, &[3], true)), None, "an older question's");
    }

    #[test]
    fn a_guest_that_tells_without_end_is_not_listened_to() {
        let mut gather = Gather::default();
        let sequence = gather.begin().sequence;
        let many: Vec<u32> = (0..15).collect();
        for number in 0..=255 {
            assert_eq!(gather.take(part(sequence, number, &many, false)), None);
        }
        assert!(gather.open.is_none());
    }

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
    fn a_live_process_has_threads_apart() {
        let pid = std::process::id();
        let process = ProcessId::of(pid);
        let side = host_side(process, &[]);
        assert!(side.other_run_ns > Some(0) && side.vcpu_run_ns.is_none());
        assert!(host_side(process, &[pid]).vcpu_dispatches.is_some());
        assert_eq!(host_side(None, &[]), HostSide::default());
    }
}
