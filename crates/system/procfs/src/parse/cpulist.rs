//! The kernel's lists of CPUs: `0-3,5,7-9`.

use std::fmt;

use super::{Malformed, unsigned};

/// Smallest CPU number that is refused. It is the limit of the kernel's largest configuration, and
/// bounds a list from a hostile or broken file.
pub const MAX_CPUS: u32 = 8192;

/// A set of CPU numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// Returns the numbers, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// Returns true if `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Returns the number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no CPU is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Numbers from [`MAX_CPUS`] on are left out.
impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuList {
        let mut list: Vec<u32> = cpus.into_iter().filter(|cpu| *cpu < MAX_CPUS).collect();
        list.sort_unstable();
        list.dedup();
        CpuList(list)
    }
}

/// Formats the list as the kernel does, without a newline.
impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut rest = &self.0[..];
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|(cpu, expect)| *cpu == expect).count();
            let last = rest[run - 1];
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// Parses a list. An empty list (of offline CPUs, for example) is valid.
pub fn parse(bytes: &[u8]) -> Result<CpuList, Malformed> {
    let mut cpus = Vec::new();
    each_range(bytes, |first, last| cpus.extend(first..=last))?;
    Ok(cpus.into_iter().collect())
}

/// Returns the number of CPUs in a list of the kernel. The function runs in every interval, and
/// therefore does not create the list.
pub fn count(bytes: &[u8]) -> Result<u32, Malformed> {
    let mut cpus = 0;
    each_range(bytes, |first, last| cpus += last - first + 1)?;
    Ok(cpus)
}

fn each_range(bytes: &[u8], mut take: impl FnMut(u32, u32)) -> Result<(), Malformed> {
    const BAD: Malformed = Malformed { line: 1, what: "is no list of CPUs" };
    let number = |bytes| {
        let (value, rest) = unsigned(bytes).ok_or(BAD)?;
        let cpu = u32::try_from(value).ok().filter(|cpu| *cpu < MAX_CPUS);
        Ok((cpu.ok_or(Malformed { line: 1, what: "has a CPU number that is too high" })?, rest))
    };
    let mut rest = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if rest.is_empty() {
        return Ok(());
    }
    // Ranges must ascend, so no text can make the list longer than `MAX_CPUS`, or count a CPU
    // twice.
    let mut lowest = 0;
    loop {
        let (first, after) = number(rest)?;
        let (last, after) = match after.strip_prefix(b"-") {
            Some(after) => number(after)?,
            None => (first, after),
        };
        if first < lowest || last < first {
            return Err(BAD);
        }
        take(first, last);
        if after.is_empty() {
            return Ok(());
        }
        lowest = last + 1;
        rest = after.strip_prefix(b",").ok_or(BAD)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[u32]) {
        let list = parse(text.as_bytes()).unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), expect, "{text:?}");
        assert_eq!(count(text.as_bytes()), Ok(expect.len() as u32), "{text:?}");
        assert_eq!(format!("{list}"), text.trim_end(), "{text:?}");
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        check("\n", &[]);
        check("", &[]);
        check("0\n", &[0]);
        check("0-3,5,7-9\n", &[0, 1, 2, 3, 5, 7, 8, 9]);
        check("63,8191", &[63, 8191]);
    }

    #[test]
    fn malformed_list_is_an_error() {
        let bad = [
            "x", "-", "1-", "-1", "3-1", "1,,2", "1,", ",1", "1 2", "8192", "0-8192", "0\n\n",
            "1,1", "4-6,2",
        ];
        for text in bad {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
            assert!(count(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse("0-8191,".repeat(9000).as_bytes()).is_err());
        assert!(count(b"99999999999999999999999").is_err());
    }

    #[test]
    fn a_set_knows_its_members() {
        let set: CpuList = [7, 1, 7, 9000, 3].into_iter().collect();
        assert_eq!(set.to_string(), "1,3,7");
        assert!(set.contains(3) && !set.contains(2) && !set.contains(9000));
        assert_eq!((set.len(), set.is_empty()), (3, false));
    }
}
