//! State of the whole guest, sent to a host that requests tasks: load, file system and network.

use crate::sys;
use procfs::parse::{counts, schedstat};
use procfs::{Root, TaskDir};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use wire::{System, Totals};

/// Maximum number of network interfaces that are added up. A host of containers may have more
/// interfaces, but their traffic also passes through the counted interfaces.
const INTERFACES_MAX: usize = 256;

/// Returns the kernel's counts for all tasks, and for the whole system.
pub fn totals(dir: &mut TaskDir) -> (Totals, System) {
    let (mut totals, mut system) = (Totals::default(), System::default());
    if let Some(text) = dir.whole("stat") {
        let counts = counts::parse(text);
        let sum = |of: &[usize]| {
            let ticks = counts.cpu?;
            of.iter().map(|at| ticks.get(*at).and_then(|t| u64::try_from(*t).ok())).sum()
        };
        totals.busy_ticks = sum(&[0, 1, 2, 5, 6]);
        totals.interrupt_ticks = sum(&[5, 6]);
        totals.steal_ticks = sum(&[7]);
        totals.interrupts = counts.interrupts;
        totals.context_switches = counts.context_switches;
        totals.forks = counts.forks;
        totals.soft_interrupts = counts.soft_interrupts;
        totals.timers = counts.timers;
        system.running = counts.running;
        system.blocked = counts.blocked;
    }
    if let Some((ran, cpus)) = dir.whole("schedstat").and_then(schedstat::all_cpus) {
        totals.run_ns = Some(ran.run_ns);
        totals.dispatches = Some(ran.dispatches);
        totals.cpus = Some(cpus);
    }
    (totals, system)
}

/// Adds the kernel's other values to `system`. Values that cannot be read are missing.
pub fn of(dir: &mut TaskDir, root: &Root, mut system: System) -> System {
    if let Some(text) = text(dir, "loadavg") {
        let mut words = text.split_ascii_whitespace().map(thousandths);
        system.load_1_permille = words.next().flatten();
        system.load_5_permille = words.next().flatten();
        system.load_15_permille = words.next().flatten();
    }
    let path = CString::new(root.join("").as_os_str().as_bytes()).ok();
    if let Some(Ok((total, available))) = path.map(|path| sys::filesystem_kib(&path)) {
        system.root_total_kib = Some(total).filter(|kib| *kib > 0);
        system.root_available_kib = system.root_total_kib.map(|_| available);
    }
    if let Some(text) = text(dir, "net/dev") {
        network(text, &mut system);
    }
    system
}

fn text<'d>(dir: &'d mut TaskDir, name: &str) -> Option<&'d str> {
    std::str::from_utf8(dir.whole(name)?).ok()
}

/// Parses a number with one to three decimal places, and returns it in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits = u32::try_from(part.len()).ok().filter(|digits| (1..=3).contains(digits))?;
    let part = part.parse::<u64>().ok()?.checked_mul(10_u64.pow(3 - digits))?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// Adds up the traffic of all interfaces except the loopback. Each line has eight numbers of
/// received traffic and then eight of sent traffic. In each group of eight, the first number counts
/// bytes and the second packets.
fn network(text: &str, system: &mut System) {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    for (_, rest) in lines.filter(|(name, _)| name.trim() != "lo").take(INTERFACES_MAX) {
        let mut numbers = rest.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        let mut at = |skip| numbers.nth(skip).flatten();
        let (received, sent) = ((at(0), at(0)), (at(6), at(0)));
        let add = |to: &mut Option<u64>, more: Option<u64>| {
            *to = more.map(|more| to.unwrap_or(0).saturating_add(more)).or(*to);
        };
        add(&mut system.received_bytes, received.0);
        add(&mut system.received_packets, received.1);
        add(&mut system.sent_bytes, sent.0);
        add(&mut system.sent_packets, sent.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::FakeKernel;

    #[test]
    fn totals_are_summed_over_cpus_and_missing_without_counters() {
        let kernel = FakeKernel::new(1, 1);
        let stat = "cpu  10 1 20 1000 3 4 5 6 0 0\ncpu0 1 1\nintr 77 1 2 3\nprocs_running 3\n";
        kernel.write("proc/stat", stat);
        let (totals, system) = totals(&mut TaskDir::open(&kernel.root()));
        assert_eq!((totals.busy_ticks, totals.interrupt_ticks), (Some(40), Some(9)));
        assert_eq!((totals.steal_ticks, totals.interrupts), (Some(6), Some(77)));
        assert_eq!((system.running, system.blocked), (Some(3), None));
        assert_eq!((totals.dispatches, totals.cpus), (None, None));
        kernel.write("proc/schedstat", "cpu0 0 0 0 0 0 0 500 1 50\ncpu1 0 0 0 0 0 0 70 1 7\n");
        let (totals, _) = super::totals(&mut TaskDir::open(&kernel.root()));
        assert_eq!((totals.dispatches, totals.cpus), (Some(57), Some(2)));
    }

    #[test]
    fn load_file_system_and_network_are_reported() {
        let kernel = FakeKernel::new(1, 1);
        kernel.write("proc/loadavg", "0.12 1.50 10.05 2/49 777\n");
        let line = "1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0";
        let eth = "1000 10 0 0 0 0 0 0 500 5 0 0 0 0 0 0";
        let heads = "Inter-|   Receive\n face |bytes packets\n";
        let text = format!("{heads}    lo: {line}\n  eth0: {eth}\n  eth1:{line}\n  bad: x\n");
        kernel.write("proc/net/dev", &text);
        let root = kernel.root();
        let system = of(&mut TaskDir::open(&root), &root, System::default());
        assert_eq!(system.load_1_permille, Some(120));
        assert_eq!((system.load_5_permille, system.load_15_permille), (Some(1500), Some(10_050)));
        assert_eq!((system.received_bytes, system.received_packets), (Some(1001), Some(11)));
        assert_eq!((system.sent_bytes, system.sent_packets), (Some(501), Some(6)));
        let (total, available) = (system.root_total_kib.unwrap(), system.root_available_kib);
        assert!(available.unwrap() <= total, "{system:?}");
        kernel.remove("proc/net");
        kernel.write("proc/loadavg", "1 0.1234 99999999999999999999.0\n");
        let system = of(&mut TaskDir::open(&root), &root, System::default());
        assert_eq!((system.load_1_permille, system.load_15_permille), (None, None));
        assert_eq!((system.load_5_permille, system.received_bytes), (None, None));
    }
}
