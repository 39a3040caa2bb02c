//! Targets for data of a guest: its memory, its counters, and its cron tables.

use base::is_plain;
use lab::site::inside::Inside;
use pinheadd::{Minute, Times, next_line_ms, timer_ms, times};
use vm::evidence::{LOG_BYTES_MAX, address, kernel_log};

use crate::input::{dice, one_of, texts};

/// First words of a kernel's log.
const FIRST_WORDS: &[u8] = b"Linux version ";
/// Longest time until a line is due, in milliseconds. Later due times are not searched for.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The times at which the tables are read: a Sunday, and the last minute of a leap day.
const LOOKED_AT_S: [f64; 2] = [1_000_000_000.5, 1_709_251_199.999];
/// Number of minutes that are compared with each line.
const MINUTES: usize = 16;

/// Searches a guest's memory for the kernel's log. The log must be found exactly if its first words
/// are in the memory. The log must have no control characters and be within its length limit. The
/// same bytes are also parsed as a monitor's answer, which may contain an address.
pub(crate) fn kernel_memory(memory: &[u8]) {
    let has_words = memory.windows(FIRST_WORDS.len()).any(|words| words == FIRST_WORDS);
    let log = kernel_log(memory);
    assert_eq!(log.is_some(), has_words);
    let log = log.unwrap_or_default();
    assert!(log.len() <= memory.len().min(LOG_BYTES_MAX) + 1, "{} bytes", log.len());
    assert!(log.is_empty() || log.as_bytes().starts_with(FIRST_WORDS));
    assert!(log.chars().all(|c| is_plain(c) || c == '\n'), "{log:?}");
    let answer = String::from_utf8_lossy(memory);
    assert!(address(&answer).is_none() || answer.contains(" is 0x"));
}

/// Compares a guest's earlier and later counters. No counter and no difference may be negative.
pub(crate) fn guest_counters(data: &[u8]) {
    let mut found = texts(data).map(|text| Inside::parse(&String::from_utf8_lossy(text)));
    let (earlier, later) = (found.next().unwrap_or_default(), found.next().unwrap_or_default());
    for inside in [earlier, later] {
        let Inside { swapped, memory_wait_us, io_wait_us, used_mib, free_mib, .. } = inside;
        let numbers = [swapped, memory_wait_us, io_wait_us, used_mib, free_mib];
        let others = [inside.available_mib, inside.cpus];
        for number in numbers.into_iter().chain(others).flatten() {
            assert!(number.is_finite() && number >= 0.0, "{inside:?}");
        }
    }
    let mut measures = lab::Measures::default();
    later.note_since(&earlier, 0.5, &mut measures);
    for measure in &measures.0 {
        assert!(measure.value.is_finite() && measure.value >= 0.0, "{measure:?}");
    }
}

/// Parses a cron table and descriptions of timers. Names must be case-insensitive. A minute in
/// which a line is due must also match the line when it is widened for any time zone. The next due
/// time of all lines must be the earlier of the due times of the two halves.
pub(crate) fn crontab(data: &[u8]) {
    let mut dice = dice(data);
    let mut all = texts(data);
    let table = String::from_utf8_lossy(all.next().unwrap_or_default());
    for line in table.lines() {
        let Some(times) = Times::of(line) else { continue };
        if !line.contains('@') {
            assert_eq!(Times::of(&line.to_ascii_uppercase()), Some(times), "{line}");
        }
        for _ in 0..MINUTES {
            let mut within = |from, to| dice.within(from, to) as u32;
            let (minute, hour) = (within(0, 59), within(0, 23));
            let (day, month, weekday) = (within(1, 31), within(1, 12), within(0, 6));
            let at = Minute { minute, hour, day, month, weekday };
            assert!(!times.fits(at) || times.in_any_zone().fits(at), "{line}: {at:?}");
        }
    }
    let lines = times(&table);
    assert!(lines.len() <= table.lines().count());
    let at_s = one_of(&mut dice, &LOOKED_AT_S);
    let (some, others) = lines.split_at(lines.len() / 2);
    let first = next_line_ms(&lines, at_s);
    assert_eq!(first.is_some(), !lines.is_empty());
    assert!(first.is_none_or(|ms| ms <= DAY_MS));
    let parts = [some, others].map(|part| next_line_ms(part, at_s));
    assert_eq!(parts.into_iter().flatten().min(), first);
    for info in all.map(String::from_utf8_lossy) {
        assert!(timer_ms(&info).is_none() || info.contains("clockid:"), "{info}");
    }
}
