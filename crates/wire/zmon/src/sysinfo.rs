//! /proc/sysinfo of s390x: the machine, the partition, and every hypervisor above the guest.

/// A level above this system. The machine is the highest level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// `machine`, `LPAR`, or the control program's name, such as `KVM/Linux` or `z/VM    7.3.0`.
    pub what: String,
    /// Name of the level.
    pub name: Option<String>,
    /// CPUs: all, configured, standby, and reserved.
    pub total: Option<u64>,
    pub configured: Option<u64>,
    pub standby: Option<u64>,
    pub reserved: Option<u64>,
    /// True if `configured` leaves out CPUs for Linux (IFL), as in a machine's /proc/sysinfo.
    pub is_general_only: bool,
    /// Threads of a core, if the counts and the cap are in cores. Each thread is a CPU.
    pub threads: Option<u64>,
    /// Dedicated and shared CPUs of an LPAR.
    pub dedicated: Option<u64>,
    pub shared: Option<u64>,
    /// Capability adjustment in thousandths: maximum usable share of the CPUs.
    pub adjustment: Option<u64>,
    /// Cap in thousandths of a CPU, if there is one.
    pub cap: Option<u64>,
    /// True if the level is capped by its weight. `cap` has the amount, if it is known.
    pub is_limited: bool,
}

impl Level {
    /// Converts a number of cores to CPUs. Levels that count CPUs return the number unchanged.
    pub fn cpus(&self, count: u64) -> u64 {
        count.saturating_mul(self.threads.unwrap_or(1))
    }
}

/// Level with the lowest limit of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The limiting level.
    pub level: &'a Level,
    /// Maximum usable CPUs, in thousandths.
    pub cpus: u64,
    /// True if the level has more CPUs and is capped.
    pub is_capped: bool,
}

/// Maximum number of levels; the hardware supports no more than 8 nested guests.
const LEVELS_MAX: usize = 16;

/// Returns all levels, the machine first. On another architecture there are no levels.
pub fn levels(text: &str) -> Vec<Level> {
    let mut machine = Level { what: "machine".to_owned(), ..Level::default() };
    let mut lpar = Level { what: "LPAR".to_owned(), ..Level::default() };
    let mut guests: Vec<Level> = Vec::new();
    let (mut is_machine, mut is_lpar) = (false, false);
    let mut threads = Threads::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key.split_once(' ') {
            Some(("CPUs", rest)) => is_machine |= set(&mut machine, &format!("CPUs {rest}"), value),
            Some(("LPAR", rest)) => {
                threads.set(rest, value);
                is_lpar |= set(&mut lpar, rest, value);
            }
            Some((level, rest)) if level.starts_with("VM") => {
                let Ok(number) = level[2..].parse::<usize>() else { continue };
                if number < LEVELS_MAX {
                    guests.resize_with(guests.len().max(number + 1), Level::default);
                    set(&mut guests[number], rest, value);
                }
            }
            None if key == "Type" => {
                machine.name = Some(value.to_owned());
                is_machine = true;
            }
            _ => {}
        }
    }
    machine.is_general_only = machine.configured.is_some();
    lpar.threads = threads.of_a_core();
    machine.threads = lpar.threads;
    // The kernel gives the number 0 to the level next above itself.
    let guests = guests.into_iter().rev().filter(|level| *level != Level::default());
    let first = is_machine.then_some(machine).into_iter().chain(is_lpar.then_some(lpar));
    first.chain(guests).collect()
}

/// Sets the field of a key. Returns true if the key is known.
fn set(level: &mut Level, key: &str, value: &str) -> bool {
    let number = value.parse().ok();
    match key {
        "Name" => level.name = Some(value.to_owned()),
        "Control Program" => level.what = value.split_whitespace().collect::<Vec<_>>().join(" "),
        "Characteristics" => level.is_limited = value.split(' ').any(|word| word == "Limited"),
        "Adjustment" => level.adjustment = number,
        "CPUs Total" => level.total = number,
        "CPUs Configured" => level.configured = number,
        "CPUs Standby" => level.standby = number,
        "CPUs Reserved" => level.reserved = number,
        "CPUs Dedicated" => level.dedicated = number,
        "CPUs Shared" => level.shared = number,
        _ => return false,
    }
    true
}

/// Highest thread numbers of a core in an LPAR: for general CPUs, for CPUs for Linux, and for the
/// threads that its system uses.
#[derive(Default)]
struct Threads {
    general: Option<u64>,
    linux: Option<u64>,
    used: Option<u64>,
}

impl Threads {
    fn set(&mut self, key: &str, value: &str) {
        let place = match key {
            "CPUs G-MTID" => &mut self.general,
            "CPUs S-MTID" => &mut self.linux,
            "CPUs PS-MTID" => &mut self.used,
            _ => return,
        };
        *place = value.parse().ok();
    }

    /// Returns the threads of a core. The LPAR's kind of CPU is not reported, so the higher number
    /// counts.
    fn of_a_core(&self) -> Option<u64> {
        let highest = self.general.max(self.linux);
        let used = self.used.min(highest.or(self.used));
        used.and_then(|number| number.checked_add(1))
    }
}

/// Returns the level with the fewest usable CPUs.
pub fn bound(levels: &[Level]) -> Option<Bound<'_>> {
    levels.iter().filter_map(bound_of).min_by_key(|bound| bound.cpus)
}

fn bound_of(level: &Level) -> Option<Bound<'_>> {
    let count = if level.is_general_only { None } else { level.configured.or(level.total) };
    let all = count.map(|count| level.cpus(count).saturating_mul(1000));
    let cap = level.cap.map(|cap| level.cpus(cap)).filter(|cap| all.is_none_or(|all| *cap < all));
    Some(Bound { level, cpus: cap.or(all)?, is_capped: cap.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Manufacturer:         IBM
Type:                 8561
Model:                703              T01

CPUs Total:           34
CPUs Configured:      12
CPUs Standby:         0
CPUs Reserved:        22

LPAR Number:          12
LPAR Characteristics: Shared
LPAR Name:            LP12
LPAR Adjustment:      357
LPAR CPUs Total:      8
LPAR CPUs Configured: 6
LPAR CPUs Standby:    2
LPAR CPUs Reserved:   0
LPAR CPUs Dedicated:  0
LPAR CPUs Shared:     6

VM01 Name:            ZVM
VM01 Control Program: z/VM    7.3.0
VM01 Adjustment:      83
VM01 CPUs Total:      4
VM01 CPUs Configured: 4
VM00 Name:            LINUX01
VM00 Control Program: KVM/Linux
VM00 CPUs Total:      2
VM00 CPUs Configured: 2
VM99 Name: nobody
VM: x
";

    #[test]
    fn levels_go_from_the_machine_down() {
        let found = levels(TEXT);
        let names: Vec<_> =
            found.iter().map(|level| (level.what.as_str(), level.name.as_deref())).collect();
        let expected = [
            ("machine", Some("8561")),
            ("LPAR", Some("LP12")),
            ("z/VM 7.3.0", Some("ZVM")),
            ("KVM/Linux", Some("LINUX01")),
        ];
        assert_eq!(names, expected);
        assert_eq!((found[0].configured, found[0].reserved), (Some(12), Some(22)));
        assert_eq!((found[1].shared, found[1].adjustment), (Some(6), Some(357)));
        let least = bound(&found).expect("a bound");
        assert_eq!((least.level.what.as_str(), least.cpus), ("KVM/Linux", 2000));
        assert!(!least.is_capped);
        assert!(found[0].is_general_only && !found[1].is_limited);
        assert_eq!(levels("processor: 0\n"), []);
        assert_eq!(bound(&[]), None);
    }

    #[test]
    fn report_g01_general_cpus_of_a_machine_bound_nothing() {
        let text = TEXT.replace("CPUs Configured:      12", "CPUs Configured:      0");
        let found = levels(&text);
        assert_eq!(bound(&found[..1]), None);
        let least = bound(&found[..2]).expect("the LPAR's");
        assert_eq!((least.level.what.as_str(), least.cpus), ("LPAR", 6000));
    }

    #[test]
    fn report_g02_a_limited_lpar_is_capped_by_its_weight() {
        let found = levels(&TEXT.replace("Shared\n", "Shared Limited\n"));
        assert!(found[1].is_limited && found[1].cap.is_none());
    }

    #[test]
    fn report_g03_cores_of_an_lpar_are_compared_as_threads() {
        let cores = |told: &str| {
            let found = levels(&format!("LPAR CPUs Configured: 8\n{told}"));
            (found[0].threads, bound(&found).expect("a bound").cpus)
        };
        assert_eq!(cores(""), (None, 8_000));
        let both = "LPAR CPUs G-MTID: 0\nLPAR CPUs S-MTID: 1\n";
        assert_eq!(cores(&format!("{both}LPAR CPUs PS-MTID: 1\n")), (Some(2), 16_000));
        // The system uses one thread of each core.
        assert_eq!(cores(&format!("{both}LPAR CPUs PS-MTID: 0\n")), (Some(1), 8_000));
        // This kind of CPU has one thread, even if the system allows more.
        let one = "LPAR CPUs G-MTID: 0\nLPAR CPUs S-MTID: 0\nLPAR CPUs PS-MTID: 7\n";
        assert_eq!(cores(one), (Some(1), 8_000));
    }
}
