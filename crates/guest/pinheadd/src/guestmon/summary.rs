//! Summary of the guest, as mon_procd writes it.

use crate::guestmon::names::logins;
use crate::guestmon::text::Text;
use procfs::Root;
use procfs::parse::{cpulist, lines, number, value_of, words};
use zmon::procd::Summary;

/// Number of fields read from the line of all CPUs: user, nice, system, idle, I/O wait, both kinds
/// of interrupts, and steal.
const FIELDS: usize = 8;
/// Hundredths of a percent in a whole.
const HUNDREDTHS: u64 = 10_000;

/// Fields of the line of all CPUs at the last reading.
pub(crate) type Ticks = [u64; FIELDS];

/// Returns the summary, without the counts of tasks.
pub(crate) fn summary(root: &Root, text: &mut Text, page_kib: u64, ticks: &mut Ticks) -> Summary {
    let mut summary = Summary { users: logins(root), ..Summary::default() };
    if let Ok(found) = text.read(root, "proc/uptime") {
        let seconds = found.split(|byte| *byte == b'.').next().and_then(number);
        summary.uptime_s = seconds.unwrap_or(0);
    }
    if let Ok(found) = text.read(root, "proc/loadavg") {
        let mut loads = words(found);
        for place in [&mut summary.load_1, &mut summary.load_5, &mut summary.load_15] {
            let load = loads.next().unwrap_or_default();
            place.iter_mut().zip(load).for_each(|(place, byte)| *place = *byte);
        }
    }
    // mon_procd counts the CPUs only at its start, but CPUs are plugged and unplugged here.
    summary.cpus = cpus(root, text, "online").max(1);
    if let Ok(found) = text.read(root, "proc/stat") {
        parts(&mut summary, found, ticks);
    }
    if let Ok(found) = text.read(root, "proc/meminfo") {
        let of = |name| value_of(found, name).unwrap_or(0);
        summary.memory_total = of("MemTotal");
        summary.memory_free = of("MemFree");
        summary.buffers = of("Buffers");
        summary.cached = of("Cached");
        summary.swap_total = of("SwapTotal");
        summary.swap_free = of("SwapFree");
        summary.memory_used = summary.memory_total.saturating_sub(summary.memory_free);
        summary.swap_used = summary.swap_total.saturating_sub(summary.swap_free);
    }
    if let Ok(found) = text.read(root, "proc/vmstat") {
        let of = |name| value_of(found, name).unwrap_or(0);
        // The kernel counts pgpgin and pgpgout in KiB, but mon_procd takes them for pages and
        // multiplies them by the page size. Readers of the records divide by the page size.
        summary.paged_in = of("pgpgin").saturating_mul(page_kib);
        summary.paged_out = of("pgpgout").saturating_mul(page_kib);
        summary.swapped_in = of("pswpin");
        summary.swapped_out = of("pswpout");
    }
    summary
}

/// Returns the number of CPUs in one of the kernel's lists.
pub(crate) fn cpus(root: &Root, text: &mut Text, list: &str) -> u32 {
    let found = text.read(root, &format!("sys/devices/system/cpu/{list}")).ok();
    found.and_then(|found| cpulist::count(found).ok()).unwrap_or(0)
}

fn parts(summary: &mut Summary, text: &[u8], before: &mut Ticks) {
    let Some(line) = lines(text).next().filter(|line| line.starts_with(b"cpu ")) else { return };
    let mut ticks = Ticks::default();
    for (place, word) in ticks.iter_mut().zip(words(line).skip(1)) {
        *place = number(word).unwrap_or(0);
    }
    // A counter of the line may fall when a CPU is removed.
    let grown: Ticks = std::array::from_fn(|at| ticks[at].saturating_sub(before[at]));
    *before = ticks;
    let all = grown.iter().sum::<u64>().max(1);
    let part = |at: usize| (grown[at].saturating_mul(HUNDREDTHS) / all) as u16;
    let [user, nice, system, idle, io_wait, irq, soft_irq, steal] = std::array::from_fn(part);
    *summary = Summary {
        user,
        nice,
        system,
        idle,
        io_wait,
        irq,
        soft_irq,
        steal,
        ..std::mem::take(summary)
    };
}
