//! Tasks of this guest, for a host that asks for the tasks that wake the guest.
//!
//! ```text
//!   /proc/PID[/task/TID]/schedstat of every task ─► what has grown since the last question
//!     ─► the top of them: name, times, memory ─► Processes, in parts
//! ```
//!
//! A task's schedstat counts each dispatch on a CPU, without tracing. Each task's counts are kept
//! until the next request, so that a report covers the time since the previous request and not
//! since boot. Without requests, the daemon drops the counts.

use crate::clock::Clock;
use crate::{sys, system};
use procfs::parse::loadavg;
use procfs::parse::schedstat::{self, Schedstat};
use procfs::parse::task::{StatField, TaskStat, is_kernel};
use procfs::{Root, TaskDir, TaskSeen};
use wire::{MAX_NAME, Processes, Scan, System, TASKS_A_PART, Task, TaskKind, Totals};

/// Minimum time between two answers, because a request costs the guest more than a sample does.
const APART_MS: u64 = 10_000;
/// Time for which counts are kept after a request. Hosts usually send one request a minute.
const KEEP_MS: u64 = 300_000;
/// Maximum number of tasks that are read. The counts of more tasks would need more memory than the
/// daemon itself.
const TASKS_MAX: usize = 8192;
/// Maximum number of tasks reported with the kernel function in which they wait. To read the
/// function, one more file is opened for each task.
const PLACES_MAX: usize = 20;
/// Milliseconds per tick in /proc, on every known architecture.
const TICK_MS: u64 = 10;

/// Reader of this guest's tasks, which answers requests.
#[derive(Debug, Default)]
pub struct Scanner {
    asked_ms: Option<u64>,
    last: Option<Seen>,
}

/// Counts at the last request.
#[derive(Debug)]
struct Seen {
    sequence: u32,
    uptime_ms: u64,
    /// Id of the last task that had started before the tasks were read.
    last_started: Option<u64>,
    /// Tasks, sorted by the ids of processes and of tasks.
    tasks: Vec<TaskSeen>,
}

/// A task, with its counts now and at the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    now: TaskSeen,
    before: Option<Schedstat>,
}

impl Counted {
    fn dispatches_grown(&self) -> u64 {
        let before = self.before.map_or(0, |before| before.dispatches);
        self.now.ran.dispatches.saturating_sub(before)
    }

    fn run_grown(&self) -> u64 {
        self.now.ran.run_ns.saturating_sub(self.before.map_or(0, |before| before.run_ns))
    }
}

impl Scanner {
    /// Returns true if a request that arrives now may be answered.
    pub fn answers(&mut self, now_ms: u64) -> bool {
        if self.asked_ms.is_some_and(|then| now_ms < then + APART_MS) {
            return false;
        }
        self.asked_ms = Some(now_ms);
        true
    }

    /// Drops the counts if there has been no request for [`KEEP_MS`].
    pub fn rest(&mut self, now_ms: u64) {
        if self.asked_ms.is_none_or(|then| now_ms >= then + KEEP_MS) {
            self.last = None;
        }
    }

    /// Drops the counts after a change of the host, because a new host's request numbers do not
    /// refer to these counts.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Reads all tasks. Reports the top tasks, and the system as a whole.
    pub fn scan(&mut self, root: &Root, scan: Scan, clock: &Clock) -> (System, Vec<Processes>) {
        let start_us = clock.us();
        let uptime_ms = clock.uptime_ms();
        let mut dir = TaskDir::open(root);
        let last = self.last.take();
        let last_started = dir.whole("loadavg").and_then(loadavg::last_started);
        let mut tasks = count(&mut dir, last.as_ref(), last_started);
        let top = top(&tasks, usize::from(scan.top));
        // The totals are read right after the tasks' counts. Tasks that run between the two
        // readings add to the totals only.
        let (mut totals, system) = system::totals(&mut dir);
        // Each task that ran during the count caused one more dispatch of this daemon. These
        // dispatches are part of the totals, so the daemon's own counts must include them.
        recount(&mut dir, &mut tasks, std::process::id());
        totals.uptime_ms = Some(uptime_ms);
        totals.tasks = Some(tasks.len() as u64);
        let reported: u64 = top.iter().map(|index| tasks[*index].dispatches_grown()).sum();
        let all: u64 = tasks.iter().map(Counted::dispatches_grown).sum();
        totals.rest_dispatches = Some(all.saturating_sub(reported));
        let then_ms = last.as_ref().map(|last| last.uptime_ms);
        let mut order: Vec<usize> = (0..top.len()).collect();
        order.sort_unstable_by_key(|place| std::cmp::Reverse(tasks[top[*place]].run_grown()));
        let mut rows: Vec<Option<Task>> = vec![None; top.len()];
        for place in order {
            rows[place] = task(&mut dir, &tasks[top[place]], place, then_ms);
        }
        let rows: Vec<Task> = rows.into_iter().flatten().collect();
        let previous = last.map_or(0, |last| last.sequence);
        let tasks = tasks.iter().map(|task| task.now).collect();
        self.last = Some(Seen { sequence: scan.sequence, uptime_ms, last_started, tasks });
        totals.scan_us = Some(clock.us().saturating_sub(start_us));
        let system = system::of(&mut dir, root, System { sequence: scan.sequence, ..system });
        (system, parts(scan.sequence, previous, totals, rows))
    }
}

/// Returns all tasks, with their earlier counts.
fn count(dir: &mut TaskDir, last: Option<&Seen>, last_started: Option<u64>) -> Vec<Counted> {
    let before = last.map_or(&[][..], |last| &last.tasks);
    let mut tasks = Vec::with_capacity(before.len().max(112) + 16);
    let visit = |now: TaskSeen| {
        let place = before.binary_search_by_key(&(now.pid, now.tid), |task| (task.pid, task.tid));
        // The id may belong to another task now, which usually has lower counts than the old task.
        let before =
            place.ok().and_then(|place| before.get(place)).map(|task| task.ran).filter(|before| {
                before.dispatches <= now.ran.dispatches && before.run_ns <= now.ran.run_ns
            });
        tasks.push(Counted { now, before });
    };
    match last.filter(|last| last.last_started.is_some() && last.last_started == last_started) {
        Some(_) => dir.each_of(before, visit),
        None => dir.each(TASKS_MAX, before, visit),
    }
    tasks.sort_unstable_by_key(|task| (task.now.pid, task.now.tid));
    tasks
}

/// Reads the counts of the main task of this process again.
fn recount(dir: &mut TaskDir, tasks: &mut [Counted], pid: u32) {
    let place = tasks.binary_search_by_key(&(pid, pid), |task| (task.now.pid, task.now.tid));
    let ran = dir.read(pid, None, "schedstat").and_then(schedstat::parse);
    if let (Ok(place), Some(ran)) = (place, ran) {
        tasks[place].now.ran = ran;
    }
}

/// Returns the report of a task; `None` if it has ended meanwhile.
fn task(dir: &mut TaskDir, counted: &Counted, place: usize, then_ms: Option<u64>) -> Option<Task> {
    use StatField::{
        ChildSystemTicks, ChildUserTicks, Flags, MajorFaults, ResidentPages, StartTicks,
        SystemTicks, Threads, UserTicks,
    };
    let Counted { now: TaskSeen { pid, tid, ran: now }, before } = *counted;
    // The data of a process's main task are in the process's own directory.
    let thread = (tid != pid).then_some(tid);
    let stat = TaskStat::parse(dir.read(pid, thread, "stat")?)?;
    let [flags, major_faults, user, system, child_user, child_system, threads, start, resident] =
        stat.numbers([
            Flags,
            MajorFaults,
            UserTicks,
            SystemTicks,
            ChildUserTicks,
            ChildSystemTicks,
            Threads,
            StartTicks,
            ResidentPages,
        ])?;
    let (name, state) = (name_of(stat.name), stat.state);
    let kind = match (is_kernel(flags), thread) {
        (true, _) => TaskKind::Kernel,
        (false, None) => TaskKind::Process,
        (false, Some(_)) => TaskKind::Thread,
    };
    // A task that has started since the last request has earlier counts of 0. The earlier counts of
    // other tasks may be unknown.
    let is_new = then_ms.is_some_and(|then| start.saturating_mul(TICK_MS) > then);
    let before = if is_new { Some(Schedstat::default()) } else { before };
    let wchan = if place < PLACES_MAX && state == b'S' { waits_at(dir, pid, tid) } else { None };
    Some(Task {
        tid,
        pid,
        kind,
        state,
        name,
        wchan: wchan.unwrap_or_default(),
        start_ticks: Some(start),
        user_ticks: Some(user),
        system_ticks: Some(system),
        child_user_ticks: Some(child_user),
        child_system_ticks: Some(child_system),
        run_ns: Some(now.run_ns),
        dispatches: Some(now.dispatches),
        run_before_ns: before.map(|before| before.run_ns),
        dispatches_before: before.map(|before| before.dispatches),
        resident_kib: Some(resident.saturating_mul(sys::page_kib())),
        major_faults: Some(major_faults),
        threads: Some(threads),
    })
}

fn waits_at(dir: &mut TaskDir, pid: u32, tid: u32) -> Option<String> {
    let text = name_of(dir.read(pid, Some(tid), "wchan")?);
    (text != "0").then_some(text)
}

/// Returns an untrusted name, truncated to [`MAX_NAME`]. Bytes that are not text are replaced.
fn name_of(bytes: &[u8]) -> String {
    let mut name = String::from_utf8_lossy(bytes).into_owned();
    name.truncate(name.floor_char_boundary(MAX_NAME));
    name
}

/// Returns the positions of the tasks with the most dispatches, and of the tasks with the most CPU
/// time, since the last request. Each of the two groups has up to `most` tasks.
fn top(tasks: &[Counted], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..tasks.len()).filter(|index| tasks[*index].dispatches_grown() > 0).collect();
    order.sort_unstable_by_key(|index| std::cmp::Reverse(tasks[*index].dispatches_grown()));
    let rest = order.split_off(most.min(order.len()));
    let mut by_run: Vec<usize> = rest;
    by_run.sort_unstable_by_key(|index| std::cmp::Reverse(tasks[*index].run_grown()));
    order.extend(by_run.into_iter().take(most));
    order
}

fn parts(sequence: u32, previous: u32, totals: Totals, rows: Vec<Task>) -> Vec<Processes> {
    let mut pieces: Vec<&[Task]> = rows.chunks(TASKS_A_PART).collect();
    if pieces.is_empty() {
        pieces.push(&[]);
    }
    let count = pieces.len();
    let part = |(part, tasks): (usize, &[Task])| Processes {
        sequence,
        previous,
        // The report has at most 510 tasks, so the part's number fits into a byte.
        part: part as u8,
        last: part + 1 == count,
        totals,
        tasks: tasks.to_vec(),
    };
    pieces.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn task(kernel: &FakeKernel, pid: u32, tid: u32, name: &str, run_ns: u64, dispatches: u64) {
        let schedstat = format!("{run_ns} 5 {dispatches}\n");
        let flags = if name == "kworker/0:1" { 0x20_8040 } else { 0x40_0000 };
        let stat = format!(
            "{tid} ({name}) S 1 1 1 0 -1 {flags} 9 0 3 0 11 12 13 14 20 0 2 0 150 4096 25 0\n"
        );
        // Each call may write a new task.
        static STARTED: AtomicU32 = AtomicU32::new(1000);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        kernel.write("proc/loadavg", &format!("0.00 0.00 0.00 1/9 {started}\n"));
        kernel.write(&format!("proc/{pid}/task/{tid}/schedstat"), &schedstat);
        kernel.write(&format!("proc/{pid}/task/{tid}/stat"), &stat);
        kernel.write(&format!("proc/{pid}/task/{tid}/wchan"), "do_poll.constprop.0");
        if pid == tid {
            kernel.write(&format!("proc/{pid}/schedstat"), &schedstat);
            kernel.write(&format!("proc/{pid}/stat"), &stat);
        }
    }

    fn ask(scanner: &mut Scanner, kernel: &FakeKernel, sequence: u32, top: u8) -> Vec<Processes> {
        scanner.scan(&kernel.root(), Scan { sequence, top }, &Clock::new()).1
    }

    fn names(parts: &[Processes]) -> Vec<(u32, &str)> {
        parts.iter().flat_map(|p| &p.tasks).map(|t| (t.tid, t.name.as_str())).collect()
    }

    #[test]
    fn the_top_is_that_of_now_and_not_that_since_the_boot() {
        let kernel = FakeKernel::new(1, 1);
        task(&kernel, 1, 1, "init", 9_000_000, 9000);
        task(&kernel, 7, 7, "x) R (y", 50, 5);
        task(&kernel, 7, 8, "thread", 60, 6);
        task(&kernel, 3, 3, "kworker/0:1", 70, 7);
        task(&kernel, 4, 4, "never", 0, 0);
        let mut scanner = Scanner::default();
        let parts = ask(&mut scanner, &kernel, 1, 1);
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].previous, parts[0].last, parts[0].part), (0, true, 0));
        assert_eq!(names(&parts), [(1, "init"), (3, "kworker/0:1")]);
        assert_eq!(parts[0].totals.tasks, Some(5));
        assert_eq!(parts[0].totals.rest_dispatches, Some(11));
        assert_eq!(parts[0].tasks[1].kind, TaskKind::Kernel);

        task(&kernel, 7, 8, "thread", 1060, 46);
        task(&kernel, 7, 7, "x) R (y", 99_050, 6);
        let parts = ask(&mut scanner, &kernel, 2, 1);
        assert_eq!(parts[0].previous, 1);
        assert_eq!(names(&parts), [(8, "thread"), (7, "x) R (y")]);
        let thread = &parts[0].tasks[0];
        assert_eq!((thread.pid, thread.kind), (7, TaskKind::Thread));
        assert_eq!((thread.dispatches, thread.dispatches_before), (Some(46), Some(6)));
        assert_eq!((thread.run_ns, thread.run_before_ns), (Some(1060), Some(60)));
        assert_eq!((thread.user_ticks, thread.child_system_ticks), (Some(11), Some(14)));
        assert_eq!((thread.start_ticks, thread.major_faults), (Some(150), Some(3)));
        assert_eq!(thread.wchan, "do_poll.constprop.0");
        assert_eq!(parts[0].totals.rest_dispatches, Some(0));
    }

    #[test]
    fn threads_are_found_of_a_process_that_has_run_since() {
        let kernel = FakeKernel::new(1, 1);
        task(&kernel, 7, 7, "server", 50, 5);
        task(&kernel, 9, 9, "sleeper", 50, 5);
        let mut scanner = Scanner::default();
        assert_eq!(ask(&mut scanner, &kernel, 1, 9)[0].totals.tasks, Some(2));
        task(&kernel, 7, 8, "thread", 60, 6);
        // The process has not run, so it cannot have started a task. Its directory is not read.
        assert_eq!(ask(&mut scanner, &kernel, 2, 9)[0].totals.tasks, Some(2));
        task(&kernel, 7, 7, "server", 70, 6);
        let parts = ask(&mut scanner, &kernel, 3, 9);
        assert_eq!(parts[0].totals.tasks, Some(3));
        assert_eq!(names(&parts), [(8, "thread"), (7, "server")]);
    }

    #[test]
    fn known_tasks_are_read_without_a_listing_if_none_has_started() {
        let kernel = FakeKernel::new(1, 1);
        task(&kernel, 7, 7, "server", 50, 5);
        task(&kernel, 7, 8, "thread", 60, 6);
        task(&kernel, 9, 9, "ends", 70, 7);
        let mut scanner = Scanner::default();
        assert_eq!(ask(&mut scanner, &kernel, 1, 9)[0].totals.tasks, Some(3));
        // This task is not found, because no process that could have started it has run.
        kernel.write("proc/10/schedstat", "80 8 8\n");
        kernel.write("proc/7/task/8/schedstat", "99 6 9\n");
        kernel.remove("proc/9");
        let parts = ask(&mut scanner, &kernel, 2, 9);
        assert_eq!((names(&parts), parts[0].totals.tasks), (vec![(8, "thread")], Some(2)));
    }

    #[test]
    fn a_thread_in_anothers_place_is_found() {
        let kernel = FakeKernel::new(1, 1);
        task(&kernel, 7, 7, "server", 50, 5);
        task(&kernel, 7, 8, "thread", 60, 6);
        let mut scanner = Scanner::default();
        assert_eq!(ask(&mut scanner, &kernel, 1, 9)[0].totals.tasks, Some(2));
        kernel.remove("proc/7/task/8");
        task(&kernel, 7, 9, "another", 70, 7);
        let parts = ask(&mut scanner, &kernel, 2, 9);
        assert_eq!(names(&parts), [(9, "another")]);
        assert_eq!(parts[0].totals.tasks, Some(2));
    }

    #[test]
    fn dispatches_while_counting_are_attributed_to_the_daemon() {
        let kernel = FakeKernel::new(1, 1);
        task(&kernel, 1, 1, "init", 9, 9);
        task(&kernel, 7, 7, "pinheadd", 50, 5);
        let mut dir = TaskDir::open(&kernel.root());
        let mut tasks = count(&mut dir, None, None);
        task(&kernel, 1, 1, "init", 10, 10);
        task(&kernel, 7, 7, "pinheadd", 60, 7);
        recount(&mut dir, &mut tasks, 7);
        recount(&mut dir, &mut tasks, 8);
        let counts: Vec<u64> = tasks.iter().map(|task| task.now.ran.dispatches).collect();
        assert_eq!(counts, [9, 7]);
    }

    #[test]
    fn a_name_from_outside_is_bounded() {
        assert_eq!(name_of(&[0xff; 64]).len() / MAX_NAME, 0);
        assert!(name_of(&[b'x'; 999]).len() <= MAX_NAME);
    }

    #[test]
    fn questions_are_apart_and_counts_are_let_go_of() {
        let kernel = FakeKernel::new(1, 1);
        task(&kernel, 1, 1, "init", 9, 9);
        let mut scanner = Scanner::default();
        assert!(scanner.answers(5));
        assert!(!scanner.answers(10_004));
        assert!(scanner.answers(10_005));
        ask(&mut scanner, &kernel, 1, 9);
        scanner.rest(10_005 + KEEP_MS - 1);
        assert!(scanner.last.is_some());
        scanner.rest(10_005 + KEEP_MS);
        assert!(scanner.last.is_none());
        ask(&mut scanner, &kernel, 2, 9);
        scanner.forget();
        assert!(scanner.last.is_none() && !scanner.answers(10_006));
    }

    #[test]
    fn many_tasks_take_many_parts_and_none_takes_one() {
        let kernel = FakeKernel::new(1, 1);
        let mut scanner = Scanner::default();
        let parts = ask(&mut scanner, &kernel, 4, 9);
        assert_eq!((parts.len(), parts[0].last, parts[0].tasks.len()), (1, true, 0));
        for tid in 1..=40 {
            task(&kernel, tid, tid, "many", 10, 1);
        }
        let parts = ask(&mut scanner, &kernel, 5, 255);
        assert_eq!(names(&parts).len(), 40);
        assert_eq!(parts.len(), 40_usize.div_ceil(TASKS_A_PART));
        assert!(parts.iter().enumerate().all(|(n, p)| usize::from(p.part) == n));
        assert_eq!(parts.iter().filter(|part| part.last).count(), 1);
    }
}
