//! `pinhead tune` on real farms, most with one planted fault. The fault is first in the list, with
//! the command that repairs it. A farm without a fault has an empty list.

use e2e::HAS_ZRAM;
use e2e::manager::{Manager, Place, Size, ksm, observe};
use e2e::{Host, Plan};
use std::process::{Command, Stdio};
use std::time::Duration;
use vm::images::GuestFile;

const GUESTS: usize = 2;
/// Duration of a recording. The tool reads rows of a minute. A recording of this duration covers at
/// least two whole minutes, whenever it begins.
const RECORDED: Duration = Duration::from_secs(210);
/// Time in which KSM scans the memory of two guests several times.
const MERGED: Duration = Duration::from_secs(40);
/// Minimum duration of a recording that the tool accepts in this test.
const ENOUGH: &str = "2m";
/// Wakes two hundred times a second.
const POLLER: &str = "#!/bin/sh\nmkfifo /run/poller\nexec 3<> /run/poller\n\
                      while :; do read -t 0.005 word <&3; done\n";
/// Uses 25 MiB more at once, twenty times. Each step exceeds the memory between the host's set
/// point and its reserve. With twice this set point, a step would fit.
const STEPS: &str = "(for n in $(seq 20); do sleep 10; \
                     dd if=/dev/zero of=/dev/shm/step.$n bs=1M count=25; done) > /dev/null 2>&1 &";
/// Reads its cache repeatedly, after the cold part of the cache has been reclaimed.
const READS: &str = "(sleep 45; while :; do cat /dev/zram0; done) > /dev/null 2>&1 &";
/// Size of the cache that is read repeatedly.
const WARM_MIB: u64 = 300;
/// Settings that prevent the neighbour from giving memory.
const KEPT: &str = "\n[[class]]\nname = \"kept\"\nmatch = [\"g2\"]\nmin = \"500 MiB\"\n";
/// Cache that is never read again.
const COLD_MIB: u64 = 520;
/// Rules that remove and add a CPU in each interval.
const SWINGING: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"2\"\n\
                        HOTPLUG=\"(onumcpus < 2)\"\nHOTUNPLUG=\"(onumcpus > 1)\"\n\
                        CMM_MIN=\"0\"\nCMM_MAX=\"300000\"\nCMM_INC=\"256\"\n\
                        MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    TooLarge,
    Poller,
    Oscillates,
    SetPoint,
    Starved,
    Ksm,
}

impl Fault {
    /// The faults of a single farm. KSM is not among them, because it belongs to the machine.
    const OF_A_FARM: [Fault; 6] = [
        Fault::Nothing,
        Fault::TooLarge,
        Fault::Poller,
        Fault::Oscillates,
        Fault::SetPoint,
        Fault::Starved,
    ];

    fn plan(self, place: &Place, number: usize) -> Plan {
        let mut plan = Plan { memory_mib: 192, ..Plan::holding(place.dir()) };
        // On a busy host, an emulated timer may be too late for the kernel's check of the timer.
        plan.kernel_args.push("no_timer_check".into());
        let bytes = POLLER.as_bytes().to_vec();
        plan.files.push(GuestFile { path: "/sbin/poller".into(), mode: 0o755, bytes });
        match self {
            Fault::TooLarge if number == 0 => {
                plan.memory_mib = 768;
                plan.kernel_args.push(HAS_ZRAM.into());
            }
            Fault::Oscillates if number == 0 => {
                plan.cpus = 2;
                plan.rules = SWINGING.into();
            }
            // The guest's own memory covers all of its needs. Only the host is short of memory.
            Fault::SetPoint if number == 0 => plan.memory_mib = 1024,
            // The other guest has the memory that the host needs, and gives this memory on request.
            Fault::SetPoint => {
                plan.memory_mib = 768;
                plan.kernel_args.push(HAS_ZRAM.into());
            }
            Fault::Starved => {
                plan.memory_mib = 512;
                plan.kernel_args.push(HAS_ZRAM.into());
            }
            _ => {}
        }
        plan
    }

    /// Returns the size of the farm's host. The host has plenty of memory, unless the fault is a
    /// shortage.
    fn size(self, host: &Host) -> Size {
        let plenty = Size::with_free(host, GUESTS, 1024);
        match self {
            // A step uses more than the memory between the set point and the reserve.
            Fault::SetPoint => Size {
                set_point_mib: 40,
                hysteresis_mib: 4,
                reserve_mib: 32,
                ..Size::with_free(host, GUESTS, 40)
            },
            // The host requests all of the first guest's cache, and grants nearly nothing to other
            // guests.
            Fault::Starved => Size {
                set_point_mib: 290,
                hysteresis_mib: 4,
                reserve_mib: 280,
                ..Size::with_free(host, GUESTS, 40)
            },
            _ => plenty,
        }
    }

    /// Returns the guest that has a cache before the host is measured, and the size of the cache in
    /// MiB.
    fn has_cache(self) -> Option<(usize, u64)> {
        match self {
            Fault::TooLarge => Some((0, COLD_MIB)),
            Fault::SetPoint => Some((1, COLD_MIB)),
            Fault::Starved => Some((0, WARM_MIB)),
            Fault::Nothing | Fault::Poller | Fault::Oscillates | Fault::Ksm => None,
        }
    }

    /// Returns the load that starts in the first guest after the host was measured.
    fn load(self) -> Option<&'static str> {
        match self {
            Fault::Poller => Some("poller > /dev/null 2>&1 &"),
            Fault::SetPoint => Some(STEPS),
            Fault::Starved => Some(READS),
            Fault::Nothing | Fault::TooLarge | Fault::Oscillates | Fault::Ksm => None,
        }
    }

    /// Returns the beginning of the first line of the answer, and a part of the command in the
    /// answer; `None` for an empty list.
    fn expected(self) -> Option<(&'static str, &'static str)> {
        match self {
            Fault::Nothing => None,
            Fault::TooLarge => Some(("1. g1: too large", "pinhead set g1 max")),
            Fault::Poller => Some(("1. g1: woken", "pinhead exec g1 -- pkill -x poller")),
            Fault::Oscillates => Some(("1. g1: rules oscillate", "pinhead exec g1 -- sh -c")),
            Fault::Ksm => Some(("1. the host: KSM gains nothing", "mode = \"off\"")),
            Fault::Starved => Some(("1. g1: starved", "pinhead set g1 min")),
            Fault::SetPoint => Some(("1. the host: set point too low", "set_point = ")),
        }
    }
}

/// Records a farm with a fault, and returns the tool's answer.
fn tuned(fault: Fault) -> String {
    let place = Place::new();
    let plans: Vec<Plan> = (0..GUESTS).map(|number| fault.plan(&place, number)).collect();
    let host = Host::start(&plans);
    host.yield_to_manager();
    // The host's size depends on the memory of the booted guests.
    let mut guests: Vec<_> = (0..GUESTS).map(|number| host.guest(number)).collect();
    if let Some((number, mib)) = fault.has_cache() {
        guests[number].fill_cache(mib);
    }
    let more = if fault == Fault::Starved { KEPT } else { "" };
    let settings = place.settings(&fault.size(&host), more);
    if let Some(load) = fault.load() {
        guests[0].sh(load);
    }
    if fault == Fault::Ksm {
        // KSM merges all equal pages before the manager starts.
        observe(MERGED);
    }
    let mut manager = Manager::start(&place, &settings);
    manager.knows(GUESTS);
    observe(RECORDED);
    manager.signal("TERM");
    manager.end(Duration::from_secs(20));
    let asked = |what: &str| {
        let mut command = Command::new(e2e::program());
        command.args([what, "--enough", ENOUGH, "--dir"]).arg(place.dir().join("recordings"));
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{e}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = asked("tune");
    println!("{fault:?}:\n{text}\n{}", asked("size"));
    text
}

#[test]
fn planted_fault_is_first_and_sound_farm_has_an_empty_list() {
    let texts: Vec<(Fault, String)> = std::thread::scope(|scope| {
        let farms = Fault::OF_A_FARM.map(|fault| (fault, scope.spawn(move || tuned(fault))));
        let joined =
            farms.map(|(fault, farm)| (fault, farm.join().unwrap_or_else(|_| panic!("{fault:?}"))));
        joined.into()
    });
    texts.iter().for_each(|(fault, text)| check(*fault, text));
}

fn check(fault: Fault, text: &str) {
    match fault.expected() {
        None => assert!(text.starts_with("No suggestions"), "{fault:?}: {text}"),
        Some((begin, command)) => {
            let first = text.split("\n2. ").next().unwrap_or_default();
            assert!(first.starts_with(begin), "{fault:?}: {text}");
            assert!(first.contains(command), "{fault:?}: {text}");
        }
    }
}

/// KSM's original settings, restored at the end.
struct KsmFound(Vec<(&'static str, String)>);

impl KsmFound {
    /// Makes KSM scan at a high rate.
    fn looks_hard() -> KsmFound {
        let found = KsmFound(ksm());
        for (name, value) in [("sleep_millisecs", "20"), ("pages_to_scan", "3000"), ("run", "1")] {
            set_ksm(name, value);
        }
        found
    }
}

impl Drop for KsmFound {
    fn drop(&mut self) {
        self.0.iter().for_each(|(name, value)| set_ksm(name, value));
    }
}

fn set_ksm(name: &str, value: &str) {
    let path = format!("/sys/kernel/mm/ksm/{name}");
    std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
}

#[test]
fn ksm_that_gains_nothing_is_first() {
    if !std::path::Path::new("/sys/kernel/mm/ksm").exists() {
        return e2e::skipped("this kernel has no KSM");
    }
    let _found = KsmFound::looks_hard();
    check(Fault::Ksm, &tuned(Fault::Ksm));
}
