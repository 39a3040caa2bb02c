//! The tasks of a system, read one after the other through the same buffers. A scan of all tasks of
//! a guest must not allocate memory for each task, nor make the kernel resolve each path from the
//! root.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek};

use crate::file::Root;
use crate::parse::schedstat::{self, Schedstat};
use crate::parse::task::{StatField, TaskStat};
use crate::{parse, sys};

/// Maximum length of a task's text; stat has about 350 bytes.
const TEXT_MAX: usize = 1024;
/// Maximum number of bytes read of a system-wide file, enough for /proc/stat of some hundred CPUs.
const WHOLE_MAX: usize = 256 * 1024;
/// Size of the buffer for a directory's entries, or for the text of a system-wide file. The entries
/// of some two hundred tasks fit.
const ROOM: usize = 8 * 1024;
/// Room for a path below /proc.
const PATH_MAX: usize = 64;
/// Number of links of a directory in addition to one for each subdirectory.
const OWN_LINKS: u64 = 2;

/// A task, with its counts when it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSeen {
    /// The id of the task's process.
    pub pid: u32,
    /// The task's id.
    pub tid: u32,
    /// The task's counts.
    pub ran: Schedstat,
}

/// Returns the child processes of a process. The function reads all processes, so it is for
/// occasional calls.
pub fn children(parent: u32) -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let text = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = TaskStat::parse(&text).and_then(|stat| stat.numbers([StatField::Parent]));
        of == Some([u64::from(parent)])
    };
    Ok(pids.filter(is_child).collect())
}

/// /proc, kept open.
#[derive(Debug)]
pub struct TaskDir {
    proc: Option<File>,
    text: [u8; TEXT_MAX],
    room: Vec<u8>,
    tids: Vec<u32>,
    found: Vec<TaskSeen>,
}

impl TaskDir {
    /// Opens /proc below a root. If that fails, there are no tasks and no files.
    pub fn open(root: &Root) -> TaskDir {
        TaskDir {
            proc: File::open(root.join("proc")).ok(),
            text: [0; TEXT_MAX],
            room: vec![0; ROOM],
            tids: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Returns a short file of a task; without the task's id, the file of its process.
    pub fn read(&mut self, pid: u32, tid: Option<u32>, name: &str) -> Option<&[u8]> {
        let mut file = self.open_of(pid, tid, name)?;
        let count = file.read(&mut self.text).ok()?;
        self.text.get(..count)
    }

    /// Returns a file of the whole system.
    pub fn whole(&mut self, name: &str) -> Option<&[u8]> {
        let mut path = TaskPath::default();
        path.push(name.as_bytes());
        let mut file = sys::open_at(self.proc.as_ref()?, path.text()?).ok()?;
        let mut length = 0;
        while length < WHOLE_MAX {
            if self.room.len() < length + ROOM / 2 {
                self.room.resize(length + ROOM, 0);
            }
            match file.read(self.room.get_mut(length..)?).ok()? {
                0 => break,
                count => length += count,
            }
        }
        self.room.get(..length)
    }

    /// Visits all tasks, up to a limit. `before` is the result of an earlier visit, sorted by
    /// process and then by task. A process that had one task and has not run since still has one
    /// task, because only a running task can start another. A process with the same number of tasks
    /// as before usually has the same tasks.
    pub fn each(&mut self, most: usize, before: &[TaskSeen], mut visit: impl FnMut(TaskSeen)) {
        let mut pids = Vec::with_capacity(128.min(most));
        if let Some(mut proc) = self.proc.as_ref()
            && proc.rewind().is_ok()
        {
            numbers(proc, &mut self.room, most, &mut pids);
        }
        let mut left = most;
        for pid in pids {
            if left == 0 {
                return;
            }
            let Some(ran) = self.ran(pid, None) else { continue };
            let first = TaskSeen { pid, tid: pid, ran };
            let known = of_pid(before, pid);
            let threads = if known == [first] { Some(1) } else { self.threads(pid) };
            if threads == Some(1) {
                visit(first);
                left -= 1;
                continue;
            }
            let known = known.get(..left).unwrap_or(known);
            let is_same = known.len() > 1 && threads == Some(known.len() as u64);
            self.find(first, if is_same { known } else { &[] }, left);
            self.found.iter().for_each(|task| visit(*task));
            left -= self.found.len();
        }
    }

    /// Visits again those tasks of an earlier visit that still exist. Tasks that have started since
    /// are not visited. Without a listing the visit costs about half, because a listing costs
    /// nearly as much as reading the tasks.
    pub fn each_of(&mut self, before: &[TaskSeen], mut visit: impl FnMut(TaskSeen)) {
        for task in before {
            let thread = (task.tid != task.pid).then_some(task.tid);
            if let Some(ran) = self.ran(task.pid, thread) {
                visit(TaskSeen { ran, ..*task });
            }
        }
    }

    /// Returns the tasks of one process, up to a limit.
    pub fn of_process(&mut self, pid: u32, most: usize) -> &[TaskSeen] {
        let mut tids = std::mem::take(&mut self.tids);
        self.list(pid, most, &mut tids);
        self.read_all(pid, None, &tids);
        self.tids = tids;
        &self.found
    }

    /// Returns the number of a process's tasks. Each task is a directory, and therefore a link of
    /// the parent directory. `None` if the links do not show the number.
    fn threads(&self, pid: u32) -> Option<u64> {
        let mut path = TaskPath::of(pid, None);
        path.push(b"task");
        sys::links_at(self.proc.as_ref()?, path.text()?).ok()?.checked_sub(OWN_LINKS)
    }

    /// Finds the tasks of a process, up to a limit. Tries the known tasks first, and lists the
    /// directory if one of these tasks is gone.
    fn find(&mut self, first: TaskSeen, known: &[TaskSeen], most: usize) {
        let mut tids = std::mem::take(&mut self.tids);
        tids.clear();
        tids.extend(known.iter().map(|task| task.tid));
        self.read_all(first.pid, Some(first.ran), &tids);
        if tids.is_empty() || self.found.len() < tids.len() {
            self.list(first.pid, most, &mut tids);
            self.read_all(first.pid, Some(first.ran), &tids);
        }
        self.tids = tids;
    }

    fn list(&mut self, pid: u32, most: usize, tids: &mut Vec<u32>) {
        tids.clear();
        if let Some(tasks) = self.open_of(pid, None, "task") {
            numbers(&tasks, &mut self.room, most, tids);
        }
    }

    /// Reads the counts of these tasks of a process. Ended tasks are left out.
    fn read_all(&mut self, pid: u32, first: Option<Schedstat>, tids: &[u32]) {
        self.found.clear();
        for tid in tids.iter().copied() {
            let ran = match first {
                Some(ran) if tid == pid => Some(ran),
                _ => self.ran(pid, Some(tid)),
            };
            self.found.extend(ran.map(|ran| TaskSeen { pid, tid, ran }));
        }
    }

    fn ran(&mut self, pid: u32, tid: Option<u32>) -> Option<Schedstat> {
        schedstat::parse(self.read(pid, tid, "schedstat")?)
    }

    fn open_of(&self, pid: u32, tid: Option<u32>, name: &str) -> Option<File> {
        let mut path = TaskPath::of(pid, tid);
        path.push(name.as_bytes());
        sys::open_at(self.proc.as_ref()?, path.text()?).ok()
    }
}

/// Returns the earlier results of a process's tasks.
fn of_pid(before: &[TaskSeen], pid: u32) -> &[TaskSeen] {
    let start = before.partition_point(|task| task.pid < pid);
    let rest = before.get(start..).unwrap_or_default();
    let count = rest.iter().take_while(|task| task.pid == pid).count();
    rest.get(..count).unwrap_or_default()
}

/// Reads the entries of a directory that are numbers, up to a limit.
fn numbers(dir: &File, room: &mut [u8], most: usize, found: &mut Vec<u32>) {
    while let Ok(length @ 1..) = sys::list(dir, room) {
        let mut rest = room.get(..length).unwrap_or_default();
        while let Some((name, later)) = sys::next_name(rest) {
            let number = parse::number(name).and_then(|number| u32::try_from(number).ok());
            found.extend(number.filter(|_| found.len() < most));
            rest = later;
        }
    }
}

/// A path below /proc, with the zero at its end.
#[derive(Debug)]
struct TaskPath {
    bytes: [u8; PATH_MAX],
    length: usize,
}

impl Default for TaskPath {
    fn default() -> TaskPath {
        TaskPath { bytes: [0; PATH_MAX], length: 0 }
    }
}

impl TaskPath {
    /// Creates `PID/` or `PID/task/TID/`.
    fn of(pid: u32, tid: Option<u32>) -> TaskPath {
        let mut path = TaskPath::default();
        path.push_number(pid);
        if let Some(tid) = tid {
            path.push(b"/task/");
            path.push_number(tid);
        }
        path.push(b"/");
        path
    }

    fn push_number(&mut self, mut number: u32) {
        let mut digits = [0; 10];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[start..]);
    }

    fn push(&mut self, part: &[u8]) {
        let end = self.length.saturating_add(part.len());
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(part);
        }
        self.length = end;
    }

    /// Returns the path, or `None` if the path is too long.
    fn text(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_a_process_or_of_a_task() {
        let text = |pid, tid, name: &str| {
            let mut path = TaskPath::of(pid, tid);
            path.push(name.as_bytes());
            path.text().map(|text| text.to_str().unwrap().to_owned())
        };
        assert_eq!(text(7, None, "stat").as_deref(), Some("7/stat"));
        let longest = text(u32::MAX, Some(u32::MAX), "schedstat");
        assert_eq!(longest.as_deref(), Some("4294967295/task/4294967295/schedstat"));
        assert_eq!(text(0, Some(10), "wchan").as_deref(), Some("0/task/10/wchan"));
        assert_eq!(text(7, None, &"x".repeat(PATH_MAX)), None);
    }

    #[test]
    fn tasks_are_known_by_their_process() {
        let task = |pid, tid| TaskSeen { pid, tid, ran: Schedstat::default() };
        let all = [task(1, 1), task(7, 7), task(7, 9), task(8, 8)];
        assert_eq!(of_pid(&all, 7), &all[1..3]);
        assert_eq!(of_pid(&all, 8), &all[3..]);
        assert!(of_pid(&all, 2).is_empty() && of_pid(&[], 1).is_empty());
    }
}
