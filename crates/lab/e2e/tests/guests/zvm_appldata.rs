//! Monitor records of a real s390x kernel for z/VM. Each module fills a buffer when it is switched
//! on. A probe reads the buffers just before the kernel passes them to CP, which is missing here.
//! The values in the buffers match the guest's /proc.

use e2e::{Guest, Host, Plan};
use procfs::parse::stat::{self, Stat};
use procfs::parse::value_of;
use std::ops::RangeInclusive;
use vm::images::{self, Arch, Cache, GuestFile, Modules};
use zmon::appldata::{self, Memory, Network, System};
use zmon::layout::Layout;

const MODULES: [&str; 3] = ["appldata_mem", "appldata_os", "appldata_net_sum"];
/// Ticks per second of Debian's kernel for IBM Z (`CONFIG_HZ`), and of the counts in /proc.
const HZ: u64 = 250;
const HUNDREDTHS: u64 = 100;
/// Tolerated delay, in hundredths of a second, with which a virtual CPU on a busy host counts its
/// idle time.
const LATE: u64 = 20;
/// Number of 8-byte words that a probe reads.
const READ: usize = 64;

/// A buffer that the kernel was about to pass to CP.
struct Buffer {
    record: u8,
    modification: String,
    bytes: Vec<u8>,
}

/// Loads modules of the guest's kernel, and sets a probe at the function that all of them use to
/// call CP. The arguments are the record's number, the function, the buffer, its length, and its
/// modification, in this order.
fn probe(guest: &mut Guest) {
    let insert: String = MODULES.iter().map(|name| format!("insmod /{name}.ko && ")).collect();
    let said = guest.sh(&format!(
        "{insert}mkdir -p /t && mount -t tracefs t /t && echo 'p:handed appldata_diag nr=%r2:u8 \
         bytes=%r5:u16 level=+0(%r6):x16 buffer=+0(%r4):x64[{READ}]' > /t/kprobe_events && \
         echo 1 > /t/events/kprobes/handed/enable; echo $?"
    ));
    assert_eq!(said.trim(), "0", "{said}");
}

/// Switches a module on, and returns its buffer. Without CP, the module then switches itself off.
fn filled(guest: &mut Guest, name: &str) -> Buffer {
    let text = guest.sh(&format!(
        "echo > /t/trace; echo 1 > /proc/sys/appldata/{name} 2> /dev/null; grep handed: /t/trace"
    ));
    let (_, values) = text.split_once("nr=").unwrap_or_else(|| panic!("{name}: {text:?}"));
    let value = |name: &str| {
        let rest = values.split_once(&format!("{name}=")).map_or(values, |(_, rest)| rest);
        rest.split(' ').next().unwrap_or_default().trim()
    };
    let number = |text: &str| {
        let hex = text.trim_start_matches("0x");
        u64::from_str_radix(hex, 16).unwrap_or_else(|e| panic!("{text:?} in {values:?}: {e}"))
    };
    let array = value("buffer").trim_matches(['{', '}']);
    let mut bytes: Vec<u8> = array.split(',').flat_map(|text| number(text).to_be_bytes()).collect();
    let length: usize = value("bytes").parse().unwrap_or_else(|e| panic!("{values:?}: {e}"));
    assert!(length <= bytes.len(), "{length} bytes, and {} were read", bytes.len());
    bytes.truncate(length);
    let level = u16::try_from(number(value("level"))).unwrap_or_else(|e| panic!("{values}: {e}"));
    Buffer {
        record: value("nr").parse().unwrap_or_else(|e| panic!("{values:?}: {e}")),
        modification: zmon::from_ebcdic(&level.to_be_bytes()),
        bytes,
    }
}

/// Returns the numbers with these names from a file of names and numbers.
fn numbers<const N: usize>(guest: &mut Guest, file: &str, names: [&str; N]) -> [u64; N] {
    let text = guest.sh(&format!("cat {file}"));
    names.map(|name| {
        value_of(text.as_bytes(), name).unwrap_or_else(|| panic!("no {name} in {text}"))
    })
}

fn is_within(what: &str, value: u64, bounds: RangeInclusive<u64>) {
    assert!(bounds.contains(&value), "{what}: {value}, not in {bounds:?}");
}

fn memory(guest: &mut Guest) {
    const SIZES: [&str; 5] = ["MemTotal", "Buffers", "SwapTotal", "SwapFree", "Shmem"];
    const COUNTS: [&str; 4] = ["pgpgin", "pgpgout", "pgfault", "pgmajfault"];
    let before = numbers(guest, "/proc/vmstat", COUNTS);
    let told = filled(guest, "mem");
    let after = numbers(guest, "/proc/vmstat", COUNTS);
    let [total, buffers, swap_total, swap_free, shared] = numbers(guest, "/proc/meminfo", SIZES);
    let [free, cached] = numbers(guest, "/proc/meminfo", ["MemFree", "Cached"]);

    assert_eq!((told.record, told.modification.as_str()), (appldata::MEMORY, "00"));
    let memory = Memory::whole(&told.bytes).unwrap_or_else(|e| panic!("{e}: {:?}", told.bytes));
    assert_eq!(memory.bytes(), told.bytes, "written as it came");
    // Shared memory is reported in pages.
    let told_shared = memory.shared * 4;
    let said = [memory.total, memory.buffers, memory.swap_total, memory.swap_free, told_shared];
    assert_eq!(said, [total, buffers, swap_total, swap_free, shared], "KiB");
    assert_eq!((memory.total_high, memory.free_high), (0, 0));
    // The commands of this test also use some memory.
    is_within("free, KiB", memory.free, free.saturating_sub(8 << 10)..=free + (8 << 10));
    is_within("cached, KiB", memory.cached, cached.saturating_sub(1 << 10)..=cached + (1 << 10));
    let counts = [memory.paged_in, memory.paged_out, memory.faults, memory.major_faults];
    for (((name, value), before), after) in COUNTS.iter().zip(counts).zip(before).zip(after) {
        is_within(name, value, before..=after);
    }
}

fn system(guest: &mut Guest) {
    let cpus = |guest: &mut Guest| {
        let (text, mut stat) = (guest.sh("cat /proc/stat"), Stat::default());
        let is_whole = stat::parse(text.as_bytes(), true, &mut stat);
        assert_eq!(is_whole, Ok(true), "{text}");
        stat.cpus
    };
    let loads = |guest: &mut Guest| guest.sh("cat /proc/loadavg");
    let (before, loads_before) = (cpus(guest), loads(guest));
    let told = filled(guest, "os");
    let (after, loads) = (cpus(guest), loads(guest));
    guest.sh("sleep 15");
    let later = filled(guest, "os").bytes;

    assert_eq!((told.record, told.modification.as_str()), (appldata::SYSTEM, "01"));
    let system = System::read(&told.bytes).unwrap_or_else(|e| panic!("{e}: {:?}", told.bytes));
    assert_eq!(system.bytes(), told.bytes, "written as it came");
    assert!(system.has_steal);
    let later = System::read(&later).unwrap_or_else(|e| panic!("{e}: {later:?}"));
    assert_eq!(later.ticks_a_second(&system), Some(HZ), "{system:?} {later:?}");
    assert_eq!(system.cpus.len(), before.len());
    println!("{:?} between {before:?} and {after:?}", system.cpus);
    for ((cpu, (_, before)), (_, after)) in system.cpus.iter().zip(&before).zip(&after) {
        let steal = cpu.steal.unwrap_or_default();
        let [user, nice] = [cpu.user, cpu.nice];
        let said = [user, nice, cpu.system, cpu.idle, cpu.io_wait, cpu.irq, cpu.soft_irq, steal];
        for ((value, before), after) in said.iter().zip(before).zip(after) {
            let [before, after] = [before, after].map(|ticks| ticks.cast_unsigned());
            // The kernel's ticks differ from the ticks of /proc, and both are rounded. The kernel's
            // ticks wrap at 2^32. The ticks of CPUs that were added later have already wrapped,
            // because under emulation such CPUs start with years of time.
            let ticks = |hundredths: u64| hundredths * HZ / HUNDREDTHS;
            // Unlike the buffer, /proc already counts the idle time of a CPU that has not run in
            // the meantime.
            let (from, to) = (ticks(before.saturating_sub(LATE)), ticks(after + 2));
            let above = u64::from(value.wrapping_sub(from as u32));
            is_within("ticks since that", above, 0..=to - from);
        }
    }
    // In 0.08 0.03 0.01 1/38 113, the second number of 1/38 is the current number of tasks.
    let words: Vec<&str> = loads.split_whitespace().collect();
    let tasks: u32 = words[3].split('/').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    assert!(system.os.tasks.abs_diff(tasks) <= 8, "{} tasks, {loads}", system.os.tasks);
    let load = |word: &str| word.parse::<f64>().unwrap_or_else(|e| panic!("{loads}: {e}"));
    let said = [system.os.load_1, system.os.load_5, system.os.load_15];
    for ((said, before), after) in said.iter().zip(loads_before.split(' ')).zip(&words) {
        let said = f64::from(*said) / f64::from(appldata::LOAD_ONE);
        let (one, other) = (load(before), load(after));
        let is_between = said >= one.min(other) - 0.02 && said <= one.max(other) + 0.02;
        assert!(is_between, "{said}, {loads_before}, {loads}");
    }
}

fn network(guest: &mut Guest) {
    let before = guest.sh("busybox ifconfig lo 127.0.0.1 up; ping -c 3 127.0.0.1 > /dev/null; \
                           cat /proc/net/dev");
    let told = filled(guest, "net_sum");

    assert_eq!((told.record, told.modification.as_str()), (appldata::NETWORK, "00"));
    let network = Network::whole(&told.bytes).unwrap_or_else(|e| panic!("{e}: {:?}", told.bytes));
    assert_eq!(network.bytes(), told.bytes, "written as it came");
    let rows: Vec<Vec<u64>> = before
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(_, values)| values.split_whitespace().flat_map(str::parse).collect())
        .collect();
    let sum = |at: usize| rows.iter().map(|row| row[at]).sum::<u64>();
    assert_eq!(u64::from(network.interfaces), rows.len() as u64, "{before}");
    let said = [
        network.received_bytes,
        network.received_packets,
        network.received_errors,
        network.received_dropped,
        network.sent_bytes,
        network.sent_packets,
        network.sent_errors,
        network.sent_dropped,
        network.collisions,
    ];
    assert_eq!(said, [0, 1, 2, 3, 8, 9, 10, 11, 13].map(sum), "{before}");
    assert!(network.received_packets > 0, "{before}");
}

#[test]
fn kernel_monitor_records_match_proc() {
    let cache = Cache::from_environment().unwrap_or_else(|e| panic!("{e}"));
    let packages = cache.packages(Arch::S390x).unwrap_or_else(|e| panic!("{e}"));
    let modules = Modules::open(&packages.modules).unwrap_or_else(|e| panic!("{e}"));
    let modules = modules.load_order(&MODULES).unwrap_or_else(|e| panic!("{e}"));
    let file = |module: images::Module| GuestFile {
        path: format!("/{}.ko", module.name),
        mode: 0o644,
        bytes: module.bytes,
    };
    let files = modules.into_iter().map(file).collect();
    let plan = Plan { cpus: 2, daemon: None, files, ..Plan::new(Arch::S390x, "") };
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    probe(&mut guest);
    memory(&mut guest);
    system(&mut guest);
    network(&mut guest);
}
