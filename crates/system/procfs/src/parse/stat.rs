//! The CPU lines at the start of /proc/stat. Later lines are never read, because the `intr` line
//! alone is longer than the rest of the file.

use super::{Malformed, skip_blanks, unsigned};

/// Number of fields in a CPU line. Old kernels print fewer fields; the absent fields are 0.
pub const FIELDS: usize = 10;

/// Index of the `idle` field.
pub const IDLE: usize = 3;

/// Index of the `iowait` field.
pub const IOWAIT: usize = 4;

/// The fields of one CPU line, in ticks, in the kernel's order. The kernel counts nanoseconds in 64
/// bits, so its ticks always fit; numbers of other texts saturate.
pub type Ticks = [i64; FIELDS];

/// The CPU lines of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The line `cpu`: the sum over all possible CPUs, including offline ones.
    pub all: Ticks,
    /// The lines `cpuN`: one for each CPU online, ascending.
    pub cpus: Vec<(u32, Ticks)>,
}

/// Parses the CPU lines into `stat` and reuses its memory. Returns `false` if `bytes` end before
/// the CPU lines do, and more of the file is needed. `at_end` means that the file has no more
/// bytes.
pub fn parse(bytes: &[u8], at_end: bool, stat: &mut Stat) -> Result<bool, Malformed> {
    stat.cpus.clear();
    let mut rest = bytes;
    let mut number = 0;
    loop {
        let prefix = rest.len().min(3);
        if rest[..prefix] != b"cpu"[..prefix] || (rest.is_empty() && at_end) {
            break;
        }
        let (line, after) = match rest.iter().position(|b| *b == b'\n') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None if at_end => (rest, &rest[rest.len()..]),
            None => return Ok(false),
        };
        number += 1;
        cpu_line(line, stat).map_err(|what| Malformed { line: number, what })?;
        rest = after;
    }
    if number == 0 {
        return Err(Malformed { line: 1, what: "is no line of CPU times" });
    }
    Ok(true)
}

fn cpu_line(line: &[u8], stat: &mut Stat) -> Result<(), &'static str> {
    let rest = line.strip_prefix(b"cpu").ok_or("is no line of CPU times")?;
    match unsigned(rest) {
        Some((id, rest)) => {
            let id = u32::try_from(id).ok().filter(|id| *id < super::cpulist::MAX_CPUS);
            let id = id.ok_or("has a CPU number that is too high")?;
            // The kernel prints ascending ids, and the clock finds them by bisection.
            if stat.cpus.last().is_some_and(|(last, _)| *last >= id) {
                return Err("is out of the order of CPU numbers");
            }
            stat.cpus.push((id, ticks(rest)?));
        }
        None => stat.all = ticks(rest)?,
    }
    Ok(())
}

/// Returns the times in a line, if it is the line `cpu`.
pub fn all_cpus(line: &[u8]) -> Option<Ticks> {
    ticks(line.strip_prefix(b"cpu")?).ok()
}

fn ticks(mut rest: &[u8]) -> Result<Ticks, &'static str> {
    let mut ticks = [0; FIELDS];
    if !rest.starts_with(b" ") {
        return Err("is no line of CPU times");
    }
    for (index, field) in ticks.iter_mut().enumerate() {
        rest = skip_blanks(rest);
        let Some((value, after)) = unsigned(rest) else {
            // Every kernel prints at least user, nice, system and idle.
            return if rest.is_empty() && index > IDLE {
                Ok(ticks)
            } else {
                Err("has a CPU time that is no number")
            };
        };
        *field = i64::try_from(value).unwrap_or(i64::MAX);
        rest = after;
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  5 0 3 16 7 0 9 3 1 2\n\
                        cpu0 1 0 1 8 4 0 1 1 0 0\n\
                        cpu12 3 0 2 8 3 0 8 2 0 0\n\
                        intr 219532 0 0 0\n";

    fn whole(text: &str) -> Result<Stat, Malformed> {
        let mut stat = Stat::default();
        assert!(parse(text.as_bytes(), true, &mut stat)?, "{text:?}");
        Ok(stat)
    }

    #[test]
    fn the_sum_and_each_cpu_are_read() {
        let stat = whole(TEXT).unwrap();
        assert_eq!(stat.all, [5, 0, 3, 16, 7, 0, 9, 3, 1, 2]);
        assert_eq!(stat.cpus.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 12]);
        assert_eq!(stat.cpus[1].1, [3, 0, 2, 8, 3, 0, 8, 2, 0, 0]);
    }

    #[test]
    fn text_that_ends_before_the_line_after_the_cpus_is_incomplete() {
        let mut stat = Stat::default();
        let end = TEXT.find("intr").unwrap();
        for cut in 0..=end {
            let complete = parse(&TEXT.as_bytes()[..cut], false, &mut stat);
            assert_eq!(complete, Ok(false), "cut at {cut}");
        }
        for cut in end + 1..TEXT.len() {
            let complete = parse(&TEXT.as_bytes()[..cut], false, &mut stat);
            assert_eq!(complete, Ok(true), "cut at {cut}");
            assert_eq!(stat, whole(TEXT).unwrap());
        }
    }

    #[test]
    fn old_kernels_have_fewer_fields_and_some_texts_no_last_newline() {
        let stat = whole("cpu  1 2 3 4").unwrap();
        assert_eq!((stat.all, stat.cpus.len()), ([1, 2, 3, 4, 0, 0, 0, 0, 0, 0], 0));
        assert_eq!(whole("cpu 1 2 3 4 5 6 7 8 9 10 11 12\n").unwrap().all[9], 10);
    }

    #[test]
    fn huge_numbers_saturate() {
        let stat = whole("cpu 99999999999999999999 0 0 18446744073709551615\n").unwrap();
        assert_eq!((stat.all[0], stat.all[IDLE]), (i64::MAX, i64::MAX));
    }

    #[test]
    fn anything_else_is_said_to_be_malformed_and_where() {
        let line = |text| whole(text).map_err(|e| e.line);
        for text in ["", "\n", "intr 1\n", "cp", "cpu", "cpu \n", "cpu 1 2 3\n", "cpu 1 2 3 x\n"] {
            assert_eq!(line(text), Err(1), "{text:?}");
        }
        assert_eq!(line("cpu 1 2 3 4\ncpux 1 2 3 4\n"), Err(2));
        assert_eq!(line("cpu 1 2 3 4\ncpu1 1 2 3 4\ncpu1 1 2 3 4\n"), Err(3));
        assert_eq!(line("cpu 1 2 3 4\ncpu8192 1 2 3 4\n"), Err(2));
    }
}
