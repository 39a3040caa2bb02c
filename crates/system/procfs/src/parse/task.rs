//! /proc/PID/stat and /proc/PID/task/TID/stat.

use super::{number, words};

/// The bit of a kernel thread in [`StatField::Flags`].
const PF_KTHREAD: u64 = 0x0020_0000;

/// A field that is never negative, with the field's number in proc(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatField {
    Parent = 4,
    Flags = 9,
    MinorFaults = 10,
    MajorFaults = 12,
    UserTicks = 14,
    SystemTicks = 15,
    /// User-mode ticks of children that have ended and were waited for.
    ChildUserTicks = 16,
    /// The same children's ticks in the kernel.
    ChildSystemTicks = 17,
    Threads = 20,
    /// Start time, in ticks since the boot.
    StartTicks = 22,
    ResidentPages = 24,
    /// The CPU that the task ran on last.
    Processor = 39,
    BlockIoTicks = 42,
    GuestTicks = 43,
}

/// A field that may be negative, with the field's number in proc(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignedField {
    Terminal = 7,
    Priority = 18,
    Nice = 19,
}

/// The kernel's statistics of a process or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskStat<'a> {
    /// The name, which the process itself chooses. It may contain blanks, brackets and any bytes.
    pub name: &'a [u8],
    /// The letter of the state: `R`, `S`, `D`, and `T` if stopped by a signal.
    pub state: u8,
    rest: &'a [u8],
}

impl<'a> TaskStat<'a> {
    /// Parses the text. Only the part behind the last bracket is from the kernel.
    pub fn parse(text: &'a [u8]) -> Option<TaskStat<'a>> {
        let start = text.iter().position(|byte| *byte == b'(')? + 1;
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = text.get(end + 1..)?.strip_prefix(b" ")?;
        let (state, rest) = rest.split_first()?;
        let is_state = state.is_ascii_alphabetic() && rest.first().is_none_or(|b| *b == b' ');
        let name = text.get(start..end)?;
        is_state.then_some(TaskStat { name, state: *state, rest })
    }

    /// Returns these fields, which must be in ascending order. `None` if a field is missing, or is
    /// not a number.
    pub fn numbers<const N: usize>(&self, wanted: [StatField; N]) -> Option<[u64; N]> {
        // The first field behind the state.
        let mut next = StatField::Parent as usize;
        let mut words = words(self.rest);
        let mut found = [0; N];
        for (place, field) in found.iter_mut().zip(wanted) {
            let skip = (field as usize).checked_sub(next)?;
            *place = number(words.nth(skip)?)?;
            next = field as usize + 1;
        }
        Some(found)
    }

    /// Returns a field that may be negative.
    pub fn signed(&self, wanted: SignedField) -> Option<i64> {
        let word = words(self.rest).nth(wanted as usize - StatField::Parent as usize)?;
        match word.strip_prefix(b"-") {
            Some(digits) => 0_i64.checked_sub_unsigned(number(digits)?),
            None => i64::try_from(number(word)?).ok(),
        }
    }

    /// Returns true if the process has ended and only its id is left.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Returns true if these [`StatField::Flags`] are those of a kernel thread.
pub fn is_kernel(flags: u64) -> bool {
    flags & PF_KTHREAD != 0
}

#[cfg(test)]
mod tests {
    use super::StatField::{Flags, MajorFaults, Parent, ResidentPages, StartTicks};
    use super::*;

    const TEXT: &[u8] = b"7 (a) S 1 1 1 0 -1 4194304 9 0 3 0 11 12 13 14 20 0 2 0 150 4096 25 0\n";

    #[test]
    fn fields_are_found_by_their_number() {
        let stat = TaskStat::parse(TEXT).unwrap();
        assert_eq!((stat.name, stat.state, stat.is_dead()), (&b"a"[..], b'S', false));
        let wanted = [Parent, Flags, MajorFaults, StartTicks, ResidentPages];
        assert_eq!(stat.numbers(wanted), Some([1, 4_194_304, 3, 150, 25]));
        assert_eq!(stat.numbers([StatField::GuestTicks]), None);
        let all = [SignedField::Terminal, SignedField::Priority, SignedField::Nice];
        assert_eq!(all.map(|field| stat.signed(field)), [Some(0), Some(20), Some(0)]);
        let negative = b"7 (a) S 1 1 1 -1 -1 0 9 0 3 0 11 12 13 14 -2 -20 2 0 150 4096 25";
        let negative = TaskStat::parse(negative).unwrap();
        assert_eq!(all.map(|field| negative.signed(field)), [Some(-1), Some(-2), Some(-20)]);
        let wrong = TaskStat::parse(b"7 (a) S 1 1 1 --1 -1").unwrap();
        assert_eq!(wrong.signed(SignedField::Terminal), None);
        assert!(!is_kernel(4_194_304) && is_kernel(0x20_8040));
    }

    #[test]
    fn process_name_with_brackets_and_blanks_is_parsed() {
        let stat = TaskStat::parse(b"42 (qemu) S (x\xff) R 2 3").unwrap();
        assert_eq!((stat.name, stat.state), (&b"qemu) S (x\xff"[..], b'R'));
        assert_eq!(stat.numbers([Parent]), Some([2]));
        assert!(TaskStat::parse(b"9 (x) Z 1").unwrap().is_dead());
    }

    #[test]
    fn a_text_that_is_cut_or_no_stat_is_none() {
        for end in 0..TEXT.len() - 5 {
            let found = TaskStat::parse(&TEXT[..end]);
            assert_eq!(found.and_then(|stat| stat.numbers([ResidentPages])), None, "{end}");
        }
        for text in [&b")("[..], b"42 a R 1 2 3", b"42 (a)", b"42 (a) 7 1", b"42 (a) RS 1", b""] {
            assert_eq!(TaskStat::parse(text), None);
        }
    }
}
