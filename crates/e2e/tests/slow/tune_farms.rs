//! `pinhead tune` on real farms, each with one fault that was planted: the fault is first in its
//! list, with the command that mends it, and the farm without one has an empty list.

use e2e::HAS_ZRAM;
use e2e::manager::{Manager, Place, Size, ksm, wait_until};
use e2e::{Host, Plan};
use images::GuestFile;
use std::process::{Command, Stdio};
use std::time::Duration;

const GUESTS: usize = 2;
/// Rows of a minute are what is looked at: two whole ones at least, whenever it begins.
const RECORDED: Duration = Duration::from_secs(210);
/// Within this KSM has looked at all of two guests several times.
const MERGED: Duration = Duration::from_secs(40);
/// Each minute counts in so short a time.
const ENOUGH: &str = "2m";
/// Wakes two hundred times a second.
const POLLER: &str = "#!/bin/sh\nmkfifo /run/poller\nexec 3<> /run/poller\n\
                      while :; do read -t 0.005 word <&3; done\n";
/// Takes 25 MiB more at once, twenty times: more than a host has between its set point and its
/// reserve, and less than it would have with twice that set point.
const STEPS: &str = "(for n in $(seq 20); do sleep 10; \
                     dd if=/dev/zero of=/dev/shm/step.$n bs=1M count=25; done) > /dev/null 2>&1 &";
/// Reads its cache again and again, once what was cold of it has been taken.
const READS: &str = "(sleep 45; while :; do cat /dev/zram0; done) > /dev/null 2>&1 &";
/// That cache.
const WARM_MIB: u64 = 300;
/// Its neighbour gives nothing.
const KEPT: &str = "\n[[class]]\nname = \"kept\"\nmatch = [\"g2\"]\nmin = \"500 MiB\"\n";
/// Cache that nobody reads again.
const COLD_MIB: u64 = 520;
/// CPUs go and come with each interval.
const SWINGING: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"2\"\n\
                        HOTPLUG=\"(onumcpus < 2)\"\nHOTUNPLUG=\"(onumcpus > 1)\"\n\
                        CMM_MIN=\"0\"\nCMM_MAX=\"300000\"\nCMM_INC=\"256\"\n\
                        MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

/// What is wrong with a farm.
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
    /// Those of one farm each. KSM is the machine's.
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
        // Where the host is busy, an emulated timer can be late for a kernel that waits for it.
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
            // All of its needs are met by its own memory: it is the host that pays.
            Fault::SetPoint if number == 0 => plan.memory_mib = 1024,
            // And who has what the host needs, for the asking.
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

    /// The host that it is on: with plenty, unless it is short.
    fn size(self, host: &Host) -> Size {
        let plenty = Size::with_free(host, GUESTS, 1024);
        match self {
            // A step takes more than what is between the set point and the reserve.
            Fault::SetPoint => Size {
                set_point_mib: 40,
                hysteresis_mib: 4,
                reserve_mib: 32,
                ..Size::with_free(host, GUESTS, 40)
            },
            // It wants all that the first guest has cached, and hands out next to nothing of it.
            Fault::Starved => Size {
                set_point_mib: 290,
                hysteresis_mib: 4,
                reserve_mib: 280,
                ..Size::with_free(host, GUESTS, 40)
            },
            _ => plenty,
        }
    }

    /// Whose cache is there before the host is measured.
    fn has_cache(self) -> Option<(usize, u64)> {
        match self {
            Fault::TooLarge => Some((0, COLD_MIB)),
            Fault::SetPoint => Some((1, COLD_MIB)),
            Fault::Starved => Some((0, WARM_MIB)),
            Fault::Nothing | Fault::Poller | Fault::Oscillates | Fault::Ksm => None,
        }
    }

    /// What begins in the first guest once the host is measured.
    fn load(self) -> Option<&'static str> {
        match self {
            Fault::Poller => Some("poller > /dev/null 2>&1 &"),
            Fault::SetPoint => Some(STEPS),
            Fault::Starved => Some(READS),
            Fault::Nothing | Fault::TooLarge | Fault::Oscillates | Fault::Ksm => None,
        }
    }

    /// How the first line of the answer begins, and what its command has; nothing for none.
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

/// Records a farm with a fault, and gives what is said of it.
fn tuned(fault: Fault) -> String {
    let place = Place::new();
    let plans: Vec<Plan> = (0..GUESTS).map(|number| fault.plan(&place, number)).collect();
    let host = Host::start(&plans);
    host.yield_to_manager();
    // They have booted, or there would be nothing to measure the host by.
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
        // What can be shared is shared before anybody looks.
        let _ = wait_until(MERGED, || false);
    }
    let mut manager = Manager::start(&place, &settings);
    manager.knows(GUESTS);
    let _ = wait_until(RECORDED, || false);
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
fn a_planted_fault_is_first_and_a_farm_without_one_has_an_empty_list() {
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
        None => assert!(text.starts_with("Nothing deserves doing"), "{fault:?}: {text}"),
        Some((begin, command)) => {
            let first = text.split("\n2. ").next().unwrap_or_default();
            assert!(first.starts_with(begin), "{fault:?}: {text}");
            assert!(first.contains(command), "{fault:?}: {text}");
        }
    }
}

/// KSM as it was found, which it is again at the end.
struct KsmFound(Vec<(&'static str, String)>);

impl KsmFound {
    /// Has it look hard.
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
