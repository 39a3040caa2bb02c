//! Wake-ups of a guest between two scans, computed from two responses as rows of a table.
//!
//! A guest's own clock misses some costs of a wake-up: the end of idle, the interrupt, and the
//! emulation. The vCPUs' time on the host is therefore given in two fields. `host_ms` is a task's
//! share of this time, in proportion to CPU time. `saves_ms` is the time that the host would save
//! without the task. `saves_ms` is the task's own time, plus a share of the time that no task used,
//! in proportion to wake-ups.

use crate::ManageError;
use manager::control::{HostSide, Scanned, TaskRow, Totals};
use serde::Serialize;
use std::collections::BTreeMap;

/// Milliseconds per tick in /proc.
const TICK_MS: u64 = 10;
const NS_A_MS: f64 = 1e6;

/// The tasks that woke a guest within a time span.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wakers {
    /// Name of the guest.
    pub guest: String,
    /// Length of the span, in milliseconds.
    pub window_ms: u64,
    /// Dispatches of the guest's tasks per minute.
    pub wakes_a_minute: f64,
    /// True if the guest's kernel counts dispatches, including those of ended tasks. Otherwise half
    /// of the context switches count. An idle kernel switches to its idle task after each task, so
    /// each dispatch causes two switches.
    pub counted: bool,
    /// Share of the dispatches that `rows` explains, in percent.
    pub attributed_percent: f64,
    /// CPU time per minute, by the guest's own count.
    pub own_ms_a_minute: Option<f64>,
    /// Run time of the guest's vCPUs on the host, per minute.
    pub host_ms_a_minute: Option<f64>,
    /// `host_ms_a_minute` divided by `own_ms_a_minute`.
    pub factor: Option<f64>,
    /// Dispatches of the guest's vCPUs on the host, per minute.
    pub vcpu_wakes_a_minute: Option<f64>,
    /// Dispatches of the other threads of the guest's process, per minute.
    pub other_wakes_a_minute: Option<f64>,
    /// Run time of the other threads, per minute.
    pub other_ms_a_minute: Option<f64>,
    /// Interrupts in the guest, per minute.
    pub interrupts_a_minute: Option<f64>,
    /// Timers that expired in the guest, per minute.
    pub timers_a_minute: Option<f64>,
    /// Number of readings that the manager requested from the guest's daemon in this time span. The
    /// next two fields count requested samples and scans. Each request wakes the guest once.
    pub looks: u64,
    #[allow(missing_docs, reason = "documented above")]
    pub samples: u64,
    #[allow(missing_docs, reason = "documented above")]
    pub scans: u64,
    /// Number of tasks in the guest.
    pub tasks: Option<u64>,
    /// Duration of the second scan in the guest, in microseconds.
    pub scan_us: Option<u64>,
    /// Wakers, the most frequent first.
    pub rows: Vec<Waker>,
}

/// The kind of a waker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A process, or its first thread.
    #[default]
    Process,
    /// Another thread of a process.
    Thread,
    /// A kernel thread.
    Kernel,
    /// Children of a process that have ended since the first scan.
    Children,
    /// All tasks that the daemon did not report individually.
    Rest,
    /// Wake-ups without a known task.
    Unknown,
}

impl Kind {
    fn of(name: &str) -> Kind {
        match name {
            "thread" => Kind::Thread,
            "kernel" => Kind::Kernel,
            _ => Kind::Process,
        }
    }
}

/// A task that wakes a guest. The guest controls the texts, so they must be escaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Waker {
    pub kind: Kind,
    /// Name of the task.
    pub name: String,
    /// Process id of the task, followed by its thread id. Both ids are 0 if the row is not a single
    /// task.
    pub pid: u32,
    #[allow(missing_docs, reason = "documented above")]
    pub tid: u32,
    /// Dispatches per minute.
    pub wakes_a_minute: f64,
    /// CPU time per dispatch in microseconds, by the guest's count.
    pub us_a_wake: Option<f64>,
    /// CPU time per minute, by the guest's count.
    pub own_ms_a_minute: Option<f64>,
    /// CPU time per minute, scaled to the host time of the guest's vCPUs.
    pub host_ms_a_minute: Option<f64>,
    /// Host time per minute that would be saved without the task.
    pub saves_ms_a_minute: Option<f64>,
    /// Kernel function in which the task waits.
    pub waits_in: Option<String>,
}

/// A row without the host's counts, which are added later.
struct Grown {
    waker: Waker,
    dispatches: u64,
    run_ns: Option<u64>,
}

/// Returns the increase of a count between two scans. Returns `None` if a count is missing or was
/// reset.
fn grown(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    second?.checked_sub(first?)
}

/// Sums counts. The guest controls the counts, so their sum may exceed a `u64`.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl Wakers {
    /// Compares two scans of a guest.
    pub fn between(first: &Scanned, second: &Scanned) -> Result<Wakers, ManageError> {
        let uptime = |scanned: &Scanned| scanned.totals.uptime_ms;
        let window_ms = match grown(uptime(first), uptime(second)).filter(|ms| *ms > 0) {
            Some(window_ms) if second.sequence > first.sequence => window_ms,
            _ => return Err(ManageError::Restarted),
        };
        let mut rows = live(first, second);
        let known = |rows: &[Grown]| sum(rows.iter().map(|row| row.dispatches));
        let (total, counted) = total(&first.totals, &second.totals, known(&rows));
        let run_ns = own_run_ns(&first.totals, &second.totals);
        // A task that was dispatched but is missing from the second scan has ended.
        let live_run = sum(rows.iter().filter_map(|row| row.run_ns));
        let ended = total.saturating_sub(known(&rows));
        let ended_run = run_ns.map(|run| run.saturating_sub(live_run));
        if counted && ended > 0 {
            rows.extend(children(first, second, ended, ended_run));
        }
        let attributed = known(&rows);
        if total > attributed {
            let waker = Waker { kind: Kind::Unknown, name: "not known".into(), ..Waker::default() };
            rows.push(Grown { waker, dispatches: total - attributed, run_ns: None });
        }
        rows.sort_by_key(|row| {
            (row.waker.kind == Kind::Unknown, std::cmp::Reverse(row.dispatches))
        });
        let mut wakers = Wakers {
            guest: second.guest.clone(),
            window_ms,
            counted,
            attributed_percent: match total {
                0 => 100.0,
                total => attributed.min(total) as f64 / total as f64 * 100.0,
            },
            looks: second.asked.looks.saturating_sub(first.asked.looks),
            samples: second.asked.samples.saturating_sub(first.asked.samples),
            scans: second.asked.scans.saturating_sub(first.asked.scans),
            tasks: second.totals.tasks,
            scan_us: second.totals.scan_us,
            ..Wakers::default()
        };
        wakers.prorate(first, second, rows, total, run_ns);
        Ok(wakers)
    }

    /// Adds the host's counts for the guest's process to the rows.
    fn prorate(
        &mut self,
        first: &Scanned,
        second: &Scanned,
        rows: Vec<Grown>,
        total: u64,
        run_ns: Option<u64>,
    ) {
        let minute = 60_000.0 / self.window_ms as f64;
        let count = |value: u64| value as f64 * minute;
        let ms = |ns: u64| ns as f64 / NS_A_MS * minute;
        let host =
            |field: fn(&HostSide) -> Option<u64>| grown(field(&first.host), field(&second.host));
        let guest =
            |field: fn(&Totals) -> Option<u64>| grown(field(&first.totals), field(&second.totals));
        let vcpu_ns = host(|side| side.vcpu_run_ns);
        self.wakes_a_minute = count(total);
        self.own_ms_a_minute = run_ns.map(ms);
        self.host_ms_a_minute = vcpu_ns.map(ms);
        self.factor =
            vcpu_ns.zip(run_ns.filter(|run| *run > 0)).map(|(vcpu, run)| vcpu as f64 / run as f64);
        self.vcpu_wakes_a_minute = host(|side| side.vcpu_dispatches).map(count);
        self.other_wakes_a_minute = host(|side| side.other_dispatches).map(count);
        self.other_ms_a_minute = host(|side| side.other_run_ns).map(ms);
        self.interrupts_a_minute = guest(|totals| totals.interrupts).map(count);
        self.timers_a_minute = guest(|totals| totals.timers).map(count);
        // vCPU time beyond the tasks' own time is divided in proportion to wake-ups.
        let beyond_ms = vcpu_ns.zip(run_ns).map(|(vcpu, run)| ms(vcpu.saturating_sub(run)));
        let factor = self.factor;
        self.rows = rows
            .into_iter()
            .map(|Grown { waker, dispatches, run_ns }| {
                let own_ms = run_ns.map(ms);
                let share = dispatches as f64 / total.max(1) as f64;
                let own_on_host = own_ms.zip(factor).map(|(own, factor)| own * factor.min(1.0));
                Waker {
                    wakes_a_minute: count(dispatches),
                    us_a_wake: run_ns
                        .filter(|_| dispatches > 0)
                        .map(|run| run as f64 / 1000.0 / dispatches as f64),
                    own_ms_a_minute: own_ms,
                    host_ms_a_minute: own_ms.zip(factor).map(|(own, factor)| own * factor),
                    saves_ms_a_minute: own_on_host
                        .zip(beyond_ms)
                        .map(|(own, beyond)| own + beyond * share),
                    ..waker
                }
            })
            .collect();
    }
}

/// Returns the dispatches of all tasks, and true if the kernel counted these dispatches. The
/// kernel's count is ignored if the number of online CPUs has changed, because the counts of an
/// offline CPU disappear.
fn total(first: &Totals, second: &Totals, known: u64) -> (u64, bool) {
    let counted = grown(first.dispatches, second.dispatches);
    match counted.filter(|_| first.cpus == second.cpus) {
        Some(total) => (total.max(known), true),
        None => {
            let switches = grown(first.context_switches, second.context_switches);
            (switches.map_or(0, |switches| switches / 2).max(known), false)
        }
    }
}

/// Returns the run time of all tasks in nanoseconds. The time does not include interrupts if the
/// kernel counts interrupts separately.
fn own_run_ns(first: &Totals, second: &Totals) -> Option<u64> {
    let exact = grown(first.run_ns, second.run_ns).filter(|_| first.cpus == second.cpus);
    exact.or_else(|| {
        let ticks = grown(first.busy_ticks, second.busy_ticks)?;
        Some(ticks.saturating_mul(TICK_MS * 1_000_000))
    })
}

/// Returns the tasks of the second scan with the increases since the first scan.
fn live(first: &Scanned, second: &Scanned) -> Vec<Grown> {
    let earlier: BTreeMap<u32, &TaskRow> =
        first.tasks.iter().map(|task| (task.tid, task)).collect();
    let leaders: BTreeMap<u32, &str> =
        second.tasks.iter().chain(&first.tasks).rev().map(|t| (t.pid, leader(t))).collect();
    let is_next = second.previous == first.sequence;
    let mut rows: Vec<Grown> = second
        .tasks
        .iter()
        .filter_map(|task| {
            let (dispatches, run_ns) = before(task, &earlier, first, is_next)?;
            let dispatches = grown(Some(dispatches), task.dispatches).filter(|count| *count > 0)?;
            let waker = Waker {
                kind: Kind::of(&task.kind),
                name: name(task, leaders.get(&task.pid).copied().unwrap_or_default()),
                pid: task.pid,
                tid: task.tid,
                waits_in: task.wchan.clone(),
                ..Waker::default()
            };
            Some(Grown { waker, dispatches, run_ns: grown(run_ns, task.run_ns) })
        })
        .collect();
    if let Some(dispatches) = second.totals.rest_dispatches.filter(|rest| is_next && *rest > 0) {
        let waker = Waker { kind: Kind::Rest, name: "other processes".into(), ..Waker::default() };
        rows.push(Grown { waker, dispatches, run_ns: None });
    }
    rows
}

/// Returns a task's counts at the first scan, from that scan or as the daemon remembers them. All
/// counts of a task that started after that scan are zero.
fn before(
    task: &TaskRow,
    earlier: &BTreeMap<u32, &TaskRow>,
    first: &Scanned,
    is_next: bool,
) -> Option<(u64, Option<u64>)> {
    if let Some(then) = earlier.get(&task.tid).filter(|then| then.start_ticks == task.start_ticks) {
        return Some((then.dispatches?, then.run_ns));
    }
    if is_next && let Some(dispatches) = task.dispatches_before {
        return Some((dispatches, task.run_before_ns));
    }
    has_started_since(task, first).then_some((0, Some(0)))
}

/// Returns true if a task did not exist at the first scan. The result may be wrong by one tick, but
/// the task's work in that tick is negligible.
fn has_started_since(task: &TaskRow, first: &Scanned) -> bool {
    let start_ms = task.start_ticks.map(|ticks| ticks.saturating_add(1).saturating_mul(TICK_MS));
    start_ms.zip(first.totals.uptime_ms).is_some_and(|(start, then)| start >= then)
}

fn leader(task: &TaskRow) -> &str {
    if task.tid == task.pid { &task.name } else { "" }
}

/// Returns a thread's name together with its process, because a thread's name alone is ambiguous.
fn name(task: &TaskRow, leader: &str) -> String {
    match task.tid == task.pid || leader.is_empty() || leader == task.name {
        true => task.name.clone(),
        false => format!("{leader}/{}", task.name),
    }
}

/// Returns rows for the parents of ended tasks. A parent's counters include the CPU time of its
/// ended children. The dispatches of ended tasks are divided in proportion to this CPU time.
fn children(first: &Scanned, second: &Scanned, ended: u64, ended_run: Option<u64>) -> Vec<Grown> {
    let of = |task: &TaskRow| {
        task.child_user_ticks?
            .checked_add(task.child_system_ticks?)
            .filter(|_| task.tid == task.pid)
    };
    let earlier: BTreeMap<(u32, Option<u64>), Option<u64>> =
        first.tasks.iter().map(|task| ((task.pid, task.start_ticks), of(task))).collect();
    let parents: Vec<(&TaskRow, u64)> = second
        .tasks
        .iter()
        .filter_map(|task| {
            let then = match earlier.get(&(task.pid, task.start_ticks)) {
                Some(then) => (*then)?,
                // A parent that has started since the first scan had no children before.
                None => has_started_since(task, first).then_some(0)?,
            };
            Some((task, of(task)?.saturating_sub(then))).filter(|(_, ticks)| *ticks > 0)
        })
        .collect();
    let all = sum(parents.iter().map(|(_, ticks)| *ticks));
    let share = |value: u64, ticks: u64| {
        let part = u128::from(value) * u128::from(ticks) / u128::from(all.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    parents
        .into_iter()
        .map(|(task, ticks)| Grown {
            waker: Waker {
                kind: Kind::Children,
                name: format!("children of {}", task.name),
                pid: task.pid,
                ..Waker::default()
            },
            dispatches: share(ended, ticks),
            run_ns: ended_run.map(|run| share(run, ticks)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32, name: &str, dispatches: u64, run_ms: u64) -> TaskRow {
        TaskRow {
            tid,
            pid: tid,
            kind: "process".into(),
            name: name.into(),
            start_ticks: Some(100),
            child_user_ticks: Some(0),
            child_system_ticks: Some(0),
            dispatches: Some(dispatches),
            run_ns: Some(run_ms * 1_000_000),
            ..TaskRow::default()
        }
    }

    fn scanned(sequence: u32, at_ms: u64, total: u64, run_ms: u64, tasks: Vec<TaskRow>) -> Scanned {
        Scanned {
            sequence,
            previous: sequence - 1,
            tasks,
            totals: Totals {
                uptime_ms: Some(at_ms),
                dispatches: Some(total),
                run_ns: Some(run_ms * 1_000_000),
                cpus: Some(1),
                rest_dispatches: Some(0),
                ..Totals::default()
            },
            host: HostSide {
                vcpu_run_ns: Some(run_ms * 3_000_000),
                vcpu_dispatches: Some(total * 2),
                ..HostSide::default()
            },
            ..Scanned::default()
        }
    }

    #[test]
    fn overflowing_guest_counts_are_saturated() {
        let tasks = |count| vec![task(1, "a", count, 10), task(2, "b", count, 10)];
        let first = scanned(1, 1_000, 0, 0, tasks(0));
        let second = scanned(2, 61_000, 1_000, 20, tasks(u64::MAX));
        let wakers = Wakers::between(&first, &second).unwrap();
        assert_eq!(wakers.attributed_percent, 100.0);
        assert!(wakers.wakes_a_minute.is_finite());
    }

    #[test]
    fn rows_sum_to_the_hosts_counts() {
        let first = scanned(4, 60_000, 1000, 100, vec![task(1, "a", 10, 5), task(2, "b", 20, 5)]);
        let tasks = vec![task(1, "a", 310, 35), task(2, "b", 120, 15)];
        let second = scanned(5, 90_000, 1400, 140, tasks);
        let wakers = Wakers::between(&first, &second).unwrap();
        assert_eq!((wakers.window_ms, wakers.wakes_a_minute), (30_000, 800.0));
        assert_eq!((wakers.attributed_percent, wakers.factor), (100.0, Some(3.0)));
        let rows: Vec<_> =
            wakers.rows.iter().map(|r| (r.name.as_str(), r.wakes_a_minute, r.us_a_wake)).collect();
        assert_eq!(rows, [("a", 600.0, Some(100.0)), ("b", 200.0, Some(100.0))]);
        let sum = |of: fn(&Waker) -> Option<f64>| wakers.rows.iter().filter_map(of).sum::<f64>();
        assert_eq!(sum(|row| row.host_ms_a_minute), 240.0);
        assert_eq!(sum(|row| row.saves_ms_a_minute), 240.0);
        assert_eq!(wakers.rows[0].saves_ms_a_minute, Some(60.0 + 160.0 * 0.75));
        assert_eq!(wakers.vcpu_wakes_a_minute, Some(1600.0));
    }

    #[test]
    fn ended_tasks_count_for_their_parent_or_as_unknown() {
        let first = scanned(1, 60_000, 1000, 100, vec![task(1, "sh", 10, 5)]);
        let mut shell = task(1, "sh", 110, 15);
        let second = |shell: &TaskRow| scanned(2, 120_000, 1400, 160, vec![shell.clone()]);
        let wakers = Wakers::between(&first, &second(&shell)).unwrap();
        assert_eq!(wakers.attributed_percent, 25.0);
        let last = wakers.rows.last().unwrap();
        assert_eq!((last.kind, last.wakes_a_minute), (Kind::Unknown, 300.0));
        shell.child_user_ticks = Some(4);
        let wakers = Wakers::between(&first, &second(&shell)).unwrap();
        assert_eq!(wakers.attributed_percent, 100.0);
        let row = &wakers.rows[0];
        assert_eq!((row.kind, row.name.as_str()), (Kind::Children, "children of sh"));
        assert_eq!((row.wakes_a_minute, row.own_ms_a_minute), (300.0, Some(50.0)));
    }

    #[test]
    fn earlier_counts_are_those_of_the_same_task() {
        let first = scanned(1, 60_000, 1000, 100, vec![task(7, "old", 500, 5)]);
        let new = TaskRow { start_ticks: Some(7000), ..task(7, "new", 30, 1) };
        let known = TaskRow { dispatches_before: Some(50), ..task(8, "known", 60, 1) };
        let unknown = task(9, "from before", 99, 1);
        let mut second = scanned(2, 120_000, 1040, 102, vec![new, known, unknown]);
        let names = |wakers: &Wakers| -> Vec<(String, f64)> {
            wakers.rows.iter().map(|row| (row.name.clone(), row.wakes_a_minute)).collect()
        };
        let wakers = Wakers::between(&first, &second).unwrap();
        assert_eq!(names(&wakers), [("new".to_owned(), 30.0), ("known".to_owned(), 10.0)]);
        second.previous = 9;
        let wakers = Wakers::between(&first, &second).unwrap();
        assert_eq!(names(&wakers), [("new".to_owned(), 30.0), ("not known".to_owned(), 10.0)]);
    }

    #[test]
    fn without_counts_of_dispatches_half_of_the_switches_count() {
        let mut first = scanned(1, 60_000, 1000, 100, vec![task(1, "a", 10, 5)]);
        let mut second = scanned(2, 120_000, 900, 200, vec![task(1, "a", 110, 15)]);
        for (scanned, switches) in [(&mut first, 1000), (&mut second, 1250)] {
            scanned.totals.context_switches = Some(switches);
        }
        let wakers = Wakers::between(&first, &second).unwrap();
        assert_eq!((wakers.counted, wakers.wakes_a_minute), (false, 125.0));
        assert_eq!(wakers.attributed_percent, 80.0);
        second.totals.dispatches = Some(1100);
        second.totals.cpus = Some(2);
        assert!(!Wakers::between(&first, &second).unwrap().counted, "a CPU has come");
        assert_eq!(Wakers::between(&second, &first).unwrap_err(), ManageError::Restarted);
    }
}
