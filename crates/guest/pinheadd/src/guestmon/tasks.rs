//! Processes as mon_procd writes them, a hundred at most.

use crate::guestmon::names::{NAME_MAX, Names};
use crate::guestmon::summary::{Ticks, summary};
use crate::guestmon::text::Text;
use procfs::parse::task::{SignedField, StatField, TaskStat};
use procfs::parse::{lines, number, numbers, words};
use procfs::{Root, USER_HZ};
use std::collections::BTreeMap;
use std::fs;
use zmon::monwriter::Series;
use zmon::procd::{APPLICATION, Numbers, Record, Summary, TASK, TASKS_MAX, Task};

/// Hundredths of a percent in a whole.
const HUNDREDTHS: u64 = 10_000;
const US_PER_S: u64 = 1_000_000;

/// Start of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Microseconds since 1970.
    pub us: u64,
}

impl Now {
    /// Returns whole seconds.
    pub fn seconds(self) -> u64 {
        self.us / US_PER_S
    }

    /// Returns the time since an earlier start, with mon_procd's precision.
    fn since(self, before: Now) -> f32 {
        let seconds = self.seconds() as f64 - before.seconds() as f64;
        let rest = (self.us % US_PER_S) as f32 - (before.us % US_PER_S) as f32;
        (seconds + f64::from(rest) / US_PER_S as f64) as f32
    }
}

/// Writer of processes, round by round.
#[derive(Debug)]
pub struct Processes {
    root: Root,
    page_kib: u64,
    text: Text,
    cpus: Ticks,
    /// Run time of the tasks at the last round.
    before: BTreeMap<u32, u64>,
    last: Now,
    series: Series,
}

/// A task, as the first pass sees it. The first pass counts all tasks and selects the tasks to
/// write.
#[derive(Clone, Copy, Debug)]
struct Seen {
    pid: u32,
    state: u8,
    /// Sum of the task's share of all CPUs and its share of all memory.
    weight: u16,
}

impl Processes {
    /// Creates a writer for the system below a root, with its page size in KiB.
    pub fn new(root: Root, page_kib: u64) -> Processes {
        Processes {
            root,
            page_kib,
            text: Text::default(),
            cpus: Ticks::default(),
            before: BTreeMap::new(),
            last: Now::default(),
            series: Series::default(),
        }
    }

    /// Writes one round, one record per call of `write`.
    pub fn round(&mut self, now: Now, mut write: impl FnMut(&[u8])) {
        let elapsed = now.since(self.last);
        let mut summary = summary(&self.root, &mut self.text, self.page_kib, &mut self.cpus);
        let before = std::mem::take(&mut self.before);
        let mut round = Round { of: self, before, elapsed, summary: &mut summary };
        let mut series = Series::default();
        round.tell(&mut |task| {
            write(&Record::Task(Box::new(task)).write(now.seconds(), &mut series));
        });
        write(&Record::Summary(Box::new(summary)).write(now.seconds(), &mut series));
        series.ends(self.series, APPLICATION, TASK).for_each(|end| write(&end));
        (self.series, self.last) = (series, now);
    }
}

struct Round<'a> {
    of: &'a mut Processes,
    before: BTreeMap<u32, u64>,
    elapsed: f32,
    summary: &'a mut Summary,
}

impl Round<'_> {
    fn tell(&mut self, tell: &mut dyn FnMut(Task)) {
        let Ok(entries) = fs::read_dir(self.of.root.join("proc")) else { return };
        let pids = entries.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok());
        let mut all: Vec<Seen> = pids.filter_map(|pid| self.look(pid)).collect();
        if all.len() > TASKS_MAX {
            all.sort_by_key(|seen| std::cmp::Reverse(seen.weight));
        }
        self.summary.tasks = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let users = Names::read(&self.of.root, "etc/passwd");
        let groups = Names::read(&self.of.root, "etc/group");
        let mut told = 0;
        for seen in all {
            if told == TASKS_MAX {
                count(self.summary, seen.state);
                continue;
            }
            match self.task(seen.pid, &users, &groups) {
                Some(task) => {
                    count(self.summary, task.numbers.state);
                    told += 1;
                    tell(task);
                }
                // The task has ended.
                None => self.summary.tasks = self.summary.tasks.saturating_sub(1),
            }
        }
    }

    fn look(&mut self, pid: u32) -> Option<Seen> {
        let mut numbers = Numbers::default();
        self.memory(pid, &mut numbers)?;
        let text = self.of.text.read(&self.of.root, &format!("proc/{pid}/stat")).ok()?;
        let stat = TaskStat::parse(text)?;
        let ran = stat.numbers([StatField::UserTicks, StatField::SystemTicks])?.iter().sum();
        let state = stat.state;
        self.of.before.insert(pid, ran);
        let weight = self.percent(pid, ran).saturating_add(numbers.memory_percent);
        Some(Seen { pid, state, weight })
    }

    /// Returns a task's share of all CPUs since the last round. The share is always below 100 %.
    fn percent(&self, pid: u32, ran: u64) -> u16 {
        let ran = ran.saturating_sub(self.before.get(&pid).copied().unwrap_or(0));
        let used = ran.saturating_mul(HUNDREDTHS) / USER_HZ as u64;
        let part = used as f32 / (self.elapsed * self.summary.cpus as f32);
        (part as u16).min(HUNDREDTHS as u16 - 1)
    }

    fn memory(&mut self, pid: u32, task: &mut Numbers) -> Option<()> {
        let text = self.of.text.read(&self.of.root, &format!("proc/{pid}/statm")).ok()?;
        let [size, resident, shared, code, _, data, dirty] = numbers(text)?;
        let kib = |pages: u64| pages.saturating_mul(self.of.page_kib);
        (task.size, task.resident, task.shared) = (kib(size), kib(resident), kib(shared));
        (task.text, task.data, task.dirty) = (kib(code), kib(data), dirty);
        task.not_resident = task.size.saturating_sub(task.resident);
        let all = self.summary.memory_total.max(1);
        task.memory_percent = (task.resident.saturating_mul(HUNDREDTHS) / all) as u16;
        Some(())
    }

    /// Returns all data of a task; `None` if the task ends meanwhile.
    fn task(&mut self, pid: u32, users: &Names, groups: &Names) -> Option<Task> {
        let mut task = Task::default();
        task.numbers.pid = pid;
        self.memory(pid, &mut task.numbers)?;
        let file = |name: &str| format!("proc/{pid}/{name}");
        let root = self.of.root.clone();

        let status = self.of.text.read(&root, &file("status")).ok()?;
        let [user, effective] = ids(status, b"Uid:");
        let [_, group] = ids(status, b"Gid:");
        // mon_procd writes only the lower 16 bits of the id, although the field has 32 bits.
        let effective = effective & 0xffff;
        task.numbers.user = effective as u32;
        task.texts[0] = users.of(user);
        task.texts[1] = users.of(effective);
        task.texts[2] = groups.of(group);

        task.texts[3] = waits_in(self.of.text.read(&root, &file("wchan")).ok()?);

        let stat = self.of.text.read(&root, &file("stat")).ok()?;
        let ran = from_stat(TaskStat::parse(stat)?, &mut task)?;
        task.numbers.cpu_percent = self.percent(pid, ran);

        let line = self.of.text.read(&root, &file("cmdline")).ok()?;
        let plain = |byte: &u8| if matches!(byte, b' '..=b'~') { *byte } else { b' ' };
        task.texts[5] = line.iter().map(plain).collect();
        Some(task)
    }
}

/// Fills in the fields of /proc/PID/stat, except the CPU share. Returns the run time.
fn from_stat(stat: TaskStat<'_>, task: &mut Task) -> Option<u64> {
    use StatField as F;
    let [parent, flags, faults, user, system, child_user, child_system, cpu] = stat.numbers([
        F::Parent,
        F::Flags,
        F::MajorFaults,
        F::UserTicks,
        F::SystemTicks,
        F::ChildUserTicks,
        F::ChildSystemTicks,
        F::Processor,
    ])?;
    let terminal = stat.signed(SignedField::Terminal)?;
    let (priority, nice) = (stat.signed(SignedField::Priority)?, stat.signed(SignedField::Nice)?);
    let ran = user.saturating_add(system);
    let children = child_user.saturating_add(child_system);
    task.texts[Task::COMMAND] = stat.name[..stat.name.len().min(NAME_MAX)].to_vec();
    task.numbers = Numbers {
        parent: parent as u32,
        terminal: terminal as u16,
        priority: priority as i16,
        nice: nice as i16,
        cpu: cpu as u32,
        // Ticks are already hundredths of a second.
        time: ran,
        time_of_all: ran.saturating_add(children),
        major_faults: faults,
        state: stat.state,
        flags: flags as u32,
        ..std::mem::take(&mut task.numbers)
    };
    Some(ran)
}

/// Returns the real and the effective id from the line of /proc/PID/status that begins with `name`.
pub fn ids(status: &[u8], name: &[u8]) -> [u64; 2] {
    let line = lines(status).find_map(|line| line.strip_prefix(name));
    let mut ids = words(line.unwrap_or_default()).filter_map(number);
    std::array::from_fn(|_| ids.next().unwrap_or(0))
}

/// Returns the name of the kernel function in which a task waits, without a prefix such as `sys_`.
fn waits_in(text: &[u8]) -> Vec<u8> {
    let name = match text {
        b"0" => b"-",
        _ => text
            .strip_prefix(b"sys_")
            .or_else(|| text.strip_prefix(b"do_"))
            .unwrap_or_else(|| &text[text.iter().take_while(|byte| **byte == b'_').count()..]),
    };
    name[..name.len().min(NAME_MAX)].to_vec()
}

/// Counts a task by its state. Other states are not in the record.
fn count(summary: &mut Summary, state: u8) {
    let count = match state {
        b'R' => &mut summary.running,
        b'S' | b'D' => &mut summary.sleeping,
        b'T' => &mut summary.stopped,
        b'Z' => &mut summary.zombies,
        _ => return,
    };
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_lose_what_many_begin_with() {
        let of = |text: &str| String::from_utf8(waits_in(text.as_bytes())).unwrap();
        let names = [
            ("0", "-"),
            ("", ""),
            ("sys_pause", "pause"),
            ("do_wait", "wait"),
            ("__x64_sys_poll", "x64_sys_poll"),
            ("ep_poll", "ep_poll"),
        ];
        for (text, name) in names {
            assert_eq!(of(text), name, "{text}");
        }
        assert_eq!(of(&"x".repeat(100)).len(), NAME_MAX);
    }

    #[test]
    fn time_is_reckoned_in_single_precision() {
        let at = |us| Now { us };
        assert_eq!(at(61_500_000).since(at(1_250_000)), 60.25);
        assert_eq!(at(1_000_100).since(at(999_900)), 0.000_2);
    }
}
