//! Targets for the parsers of `procfs`, one for each file.

use model::counters::{Counter, PsiField, PsiLine};
use procfs::parse::table::skip_lines;
use procfs::parse::task::{StatField, TaskStat};
use procfs::parse::{
    cgroup as groups, counts as system, cpulist, loadavg as load, pressure as psi,
    schedstat as sched, stat as cpus,
};
use procfs::{CpuClock, MAX_CPUS, ProcFile, Reader, names_of};

use crate::input::{dice, one_of, texts};
use crate::kernel::{self, Files};

/// Parses a list of CPUs. The list must ascend, and have as many CPUs as `count` returns. It must
/// be the same when it is written and read again.
pub(crate) fn cpu_list(data: &[u8]) {
    let list = cpulist::parse(data);
    assert_eq!(cpulist::count(data), list.as_ref().map(|list| list.len() as u32).map_err(|e| *e));
    let Ok(list) = list else { return };
    let numbers: Vec<u32> = list.iter().collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert!(numbers.last().is_none_or(|last| *last < MAX_CPUS && list.contains(*last)));
    assert_eq!(cpulist::parse(list.to_string().as_bytes()), Ok(list));
}

/// Parses /proc/loadavg. No number may be negative or NaN, and a plain number must be read exactly.
pub(crate) fn loadavg(data: &[u8]) {
    let Ok(found) = load::parse(data) else { return };
    assert!(found.one_minute.is_finite() && found.one_minute >= 0.0, "{found:?}");
    let first = data.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    // Fifteen digits fit a double without loss, so both conversions must agree.
    let plain = first.iter().all(|b| b.is_ascii_digit() || *b == b'.') && first.len() <= 15;
    let decimals = first.iter().rposition(|b| *b == b'.').map_or(0, |dot| first.len() - dot - 1);
    if let (true, Ok(text)) = (plain && decimals <= 9, std::str::from_utf8(first))
        && let Ok(expected) = text.parse::<f64>()
    {
        assert_eq!(found.one_minute, expected);
    }
}

/// Parses a file of /proc/pressure. Each number must be valid and be found under its name.
pub(crate) fn pressure(data: &[u8]) {
    let Ok(found) = psi::parse(data) else { return };
    for (line, fields) in [(PsiLine::Some, found.some), (PsiLine::Full, found.full)] {
        let starts = format!("{} ", line.name());
        let is_there = procfs::parse::lines(data).any(|l| l.starts_with(starts.as_bytes()));
        assert_eq!(fields.is_some(), is_there, "{line:?}");
        for (place, field) in PsiField::ALL.iter().enumerate() {
            assert_eq!(found.get(line, *field), fields.map(|fields| fields[place]));
        }
        assert!(fields.into_iter().flatten().all(|value| value.is_finite() && value >= 0.0));
    }
}

/// Parses a task's schedstat. The result must be the same when it is written and read again.
pub(crate) fn schedstat(data: &[u8]) {
    let Some(found) = sched::parse(data) else { return };
    let text = format!("{} {} {}", found.run_ns, found.delay_ns, found.dispatches);
    assert_eq!(sched::parse(text.as_bytes()), Some(found));
    let text = String::from_utf8_lossy(data);
    let fields: Vec<_> = text.split_ascii_whitespace().take(3).map(str::parse).collect();
    assert_eq!(fields, [Ok(found.run_ns), Ok(found.delay_ns), Ok(found.dispatches)]);
}

/// Parses /proc/net/tcp. A line must give the same result alone and among other lines.
pub(crate) fn tcp(data: &[u8]) {
    let all: Vec<_> = procfs::parse::tcp::parse(data).collect();
    let each = procfs::parse::lines(data).flat_map(procfs::parse::tcp::parse);
    assert!(all.iter().copied().eq(each));
}

/// Parses /proc/PID/stat. Fields read together must equal fields read one by one.
pub(crate) fn task_stat(data: &[u8]) {
    use StatField::{Flags, GuestTicks, Parent, ResidentPages, StartTicks};
    let Some(stat) = TaskStat::parse(data) else { return };
    assert!(stat.state.is_ascii_alphabetic());
    let wanted = [Parent, Flags, StartTicks, ResidentPages, GuestTicks];
    let each = wanted.map(|field| stat.numbers([field]).map(|[number]| number));
    let together = stat.numbers(wanted);
    assert_eq!(together.map(|all| all.map(Some)), each.iter().all(Option::is_some).then_some(each));
    assert_eq!(stat.numbers([Flags, Parent]), None, "fields ascend");
}

/// Parses the system-wide counts in /proc/stat and /proc/schedstat. A count may be found only if a
/// line has the name of the count. The number of CPUs is at most the number of lines that begin
/// with `cpu`.
pub(crate) fn counts(data: &[u8]) {
    let found = system::parse(data);
    let lines = || procfs::parse::lines(data);
    // A line's name is its first word.
    let word = |line: &[u8]| {
        line.trim_ascii_start().split(u8::is_ascii_whitespace).next().map(<[u8]>::to_vec)
    };
    let is_said = |name: &[u8]| lines().any(|line| word(line).as_deref() == Some(name));
    assert!(found.cpu.is_none() || is_said(b"cpu"));
    assert!(found.interrupts.is_none() || is_said(b"intr"));
    if let Some((_, cpus)) = sched::all_cpus(data) {
        assert!(
            cpus >= 1 && cpus <= lines().filter(|line| line.starts_with(b"cpu")).count() as u64
        );
    }
}

/// Parses /proc/PID/cgroup. A path must be below the root of its hierarchy, and never lead out of
/// the hierarchy.
pub(crate) fn cgroup(data: &[u8]) {
    for path in [groups::unified(data), groups::of_controller(data, "cpu")].into_iter().flatten() {
        assert!(path.is_relative() && path.file_name().is_some(), "{path:?}");
        assert!(path.components().all(|part| part.as_os_str() != ".."), "{path:?}");
    }
}

/// Parses a directory's entries as the kernel writes them. The search for names must end.
pub(crate) fn entries(data: &[u8]) {
    let mut rest = data;
    while let Some((name, later)) = procfs::next_name(rest) {
        assert!(!name.contains(&0) && later.len() < rest.len());
        rest = later;
    }
}

/// Parses /proc/stat, and passes one text after the other to the clock.
pub(crate) fn stat(data: &[u8]) {
    let mut dice = dice(data);
    let mut clock = CpuClock::default();
    let mut last: Option<(cpus::Stat, cpus::Ticks)> = None;
    for text in texts(data) {
        let mut stat = cpus::Stat::default();
        let whole = cpus::parse(text, true, &mut stat);
        beginnings(text, &stat, whole);
        if whole.is_err() {
            continue;
        }
        assert!(stat.cpus.is_sorted_by(|a, b| a.0 < b.0));
        assert!(stat.cpus.last().is_none_or(|(id, _)| *id < MAX_CPUS));
        let ticks = stat.cpus.iter().map(|(_, ticks)| ticks).chain([&stat.all]).flatten();
        assert!(ticks.copied().all(|ticks| ticks >= 0));

        let seconds =
            one_of(&mut dice, &[0.0, 1.0, 2.0, 3600.0, -1.0, 1e300, f64::NAN, f64::INFINITY]);
        let now = *clock.advance(&stat, seconds);
        if let Some((before, then)) = last {
            let same = before.cpus.iter().map(|c| c.0).eq(stat.cpus.iter().map(|c| c.0));
            assert!(same || then.iter().zip(&now).all(|(then, now)| then <= now), "{stat:?}");
        }
        last = Some((stat, now));
    }
}

/// Checks that each beginning of a file gives the result of the whole file, or is reported as
/// incomplete.
fn beginnings(text: &[u8], stat: &cpus::Stat, whole: Result<bool, procfs::parse::Malformed>) {
    for end in (0..text.len()).step_by(text.len() / 32 + 1) {
        let mut part = cpus::Stat::default();
        match cpus::parse(&text[..end], false, &mut part) {
            Ok(false) => {}
            Ok(true) => assert_eq!((&part, Ok(true)), (stat, whole), "at {end}"),
            Err(error) => assert_eq!(Err(error), whole, "at {end}"),
        }
    }
}

pub(crate) fn meminfo(data: &[u8]) {
    let wanted = ["MemFree", "Active(anon)", "SwapFree"];
    table(ProcFile::Meminfo, b':', &wanted, Counter::meminfo, data);
}

pub(crate) fn vmstat(data: &[u8]) {
    let wanted = ["pswpin", "nr_free_pages", "pgsteal_direct"];
    table(ProcFile::Vmstat, b' ', &wanted, Counter::vmstat, data);
}

/// Reads a table several times with the same reader, which remembers the lines' positions. Each
/// number must come from a line with its name in the current text.
fn table(
    file: ProcFile,
    separator: u8,
    wanted: &[&str],
    counter: fn(&str) -> Counter,
    data: &[u8],
) {
    let Some((first, data)) = data.split_first() else { return };
    let counters: Vec<Counter> = wanted.iter().map(|name| counter(name)).collect();
    let source = Files::new(usize::from(*first) + 1);
    let Ok(mut reader) = Reader::with_source(source, &counters) else {
        panic!("the sample of {file:?} does not contain the expected table");
    };
    let mut row = vec![f64::NAN; wanted.len()];
    for text in texts(data) {
        reader.source_mut().put(file, text);
        lines_are_skipped(text, u32::from(*first) % 8);
        let names = names_of(reader.source_mut()).map(|names| names.meminfo.len());
        assert!(names.is_ok_and(|count| count <= text.len().max(kernel::SAMPLE_LINES)));
        match reader.read(0.0, &mut row) {
            Ok(()) => {
                for (name, number) in wanted.iter().zip(&row) {
                    let said = said(text, name, separator);
                    assert!(said.contains(number), "{name} is {number}, not of {said:?}");
                }
            }
            Err(error) => kernel::names_its_file(&error, &[file]),
        }
    }
}

/// Returns the numbers in the lines with this name.
fn said(text: &[u8], name: &str, separator: u8) -> Vec<f64> {
    let lines = text.split(|byte| *byte == b'\n');
    let values = lines.filter_map(|line| {
        let (next, rest) = line.strip_prefix(name.as_bytes())?.split_first()?;
        let digits = rest.iter().skip_while(|b| matches!(b, b' ' | b'\t'));
        let digits: String =
            digits.take_while(|b| b.is_ascii_digit()).map(|b| char::from(*b)).collect();
        // A number that is too long saturates as a u64.
        let number = digits.parse::<u64>().unwrap_or(u64::MAX);
        (*next == separator && !digits.is_empty()).then_some(number as f64)
    });
    values.collect()
}

/// Checks that a search by words of eight bytes finds the same as a search byte by byte.
fn lines_are_skipped(text: &[u8], count: u32) {
    for from in [0, 1, text.len() / 2, text.len(), text.len() + 1] {
        let rest = text.get(from..);
        let ends = rest.into_iter().flatten().enumerate().filter(|(_, byte)| **byte == b'\n');
        let expected = match count {
            0 => rest.map(|_| from),
            _ => ends.map(|(at, _)| from + at + 1).nth(count as usize - 1),
        };
        assert_eq!(skip_lines(text, from, count), expected, "{count} from {from}");
    }
}
