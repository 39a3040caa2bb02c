//! Counters of the hypervisor as a tree of texts with one number each, in /sys/hypervisor/s390 if
//! the kernel has that directory. For a guest of z/VM the tree has the fields of diag_2fc, and for
//! a partition the times of diag_204.

use crate::Error;
use crate::hypfs::{Guest, LogicalCpu, Partition};
use crate::text::to_ebcdic;
use std::collections::BTreeMap;

/// Possible contents of `hyp/type`.
const VM: &str = "z/VM Hypervisor";
const LPAR: &str = "LPAR Hypervisor";
/// Maximum number of files read of a tree.
const FILES_MAX: usize = 1 << 20;

/// A file: path below the tree, and text.
pub type File = (String, String);

/// Contents of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// Guests of a z/VM. The record of each guest has the number of z/VM's CPUs.
    Guests(Vec<Guest>),
    /// Partitions of a machine, with its number of processors.
    Partitions(u16, Vec<Partition>),
}

/// Place of a number in a record.
enum Place<'a> {
    Long(&'a mut u64),
    Short(&'a mut u32),
}

type Row<T> = (&'static str, fn(&mut T) -> Place<'_>);

/// Files of a guest, below `systems/NAME`.
const GUEST: &[Row<Guest>] = &[
    ("onlinetime_us", |guest| Place::Long(&mut guest.elapsed_us)),
    ("cpus/cputime_us", |guest| Place::Long(&mut guest.used_us)),
    ("cpus/count", |guest| Place::Short(&mut guest.virtual_cpus)),
    // The kernel's misleading name is part of its interface.
    ("cpus/weight_min", |guest| Place::Short(&mut guest.operating)),
    ("cpus/weight_max", |guest| Place::Short(&mut guest.cpu_max)),
    ("cpus/weight_cur", |guest| Place::Short(&mut guest.cpu_shares)),
    ("mem/min_KiB", |guest| Place::Long(&mut guest.memory_min)),
    ("mem/max_KiB", |guest| Place::Long(&mut guest.memory_max)),
    ("mem/used_KiB", |guest| Place::Long(&mut guest.memory_used)),
    ("mem/share_KiB", |guest| Place::Long(&mut guest.memory_share)),
    ("samples/cpu_using", |guest| Place::Short(&mut guest.using_samples)),
    ("samples/cpu_delay", |guest| Place::Short(&mut guest.delay_samples)),
    ("samples/mem_delay", |guest| Place::Short(&mut guest.page_samples)),
    ("samples/idle", |guest| Place::Short(&mut guest.idle_samples)),
    ("samples/other", |guest| Place::Short(&mut guest.other_samples)),
    ("samples/total", |guest| Place::Short(&mut guest.all_samples)),
];

/// Files of a logical processor, below `systems/NAME/cpus/ADDRESS`. The hypervisor's time is a
/// separate file there.
const CPU: &[Row<LogicalCpu>] = &[
    ("cputime", |cpu| Place::Long(&mut cpu.partition_us)),
    ("mgmtime", |cpu| Place::Long(&mut cpu.used_us)),
    ("onlinetime", |cpu| Place::Long(&mut cpu.online_us)),
];

/// Reads the files of a tree, in any order. Unknown files are ignored.
pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Tree, Error> {
    let mut kind = None;
    let mut count = 0;
    let mut processors = BTreeMap::new();
    let mut guests: BTreeMap<&str, Guest> = BTreeMap::new();
    let mut partitions: BTreeMap<&str, BTreeMap<u16, LogicalCpu>> = BTreeMap::new();
    for (path, text) in files.into_iter().take(FILES_MAX) {
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            ["hyp", "type"] => kind = Some(text.trim()),
            ["cpus", "count"] => count = number(path, text)?,
            ["cpus", address, _] => _ = processors.insert(address, ()),
            ["systems", name, "cpus", address, file] => {
                let Ok(address) = address.parse() else { continue };
                let cpu = partitions.entry(name).or_default().entry(address).or_default();
                cpu.address = address;
                set(CPU, cpu, file, path, text)?;
            }
            ["systems", name, ref rest @ ..] => {
                let guest = guests.entry(name).or_default();
                match rest {
                    ["cpus", "capped"] => {
                        let capped: u32 = number(path, text)?;
                        guest.flags |= (capped & 3) << 1;
                    }
                    ["cpus", "dedicated"] if number::<u32>(path, text)? != 0 => guest.flags |= 8,
                    _ => set(GUEST, guest, &rest.join("/"), path, text)?,
                }
            }
            _ => {}
        }
    }
    match kind {
        Some(VM) => {
            let with_name = |(name, mut guest): (&str, Guest)| {
                (guest.name, guest.logical) = (to_ebcdic(name), count);
                guest
            };
            Ok(Tree::Guests(guests.into_iter().map(with_name).collect()))
        }
        Some(LPAR) => {
            let count = u16::try_from(processors.len()).unwrap_or(u16::MAX);
            Ok(Tree::Partitions(count, partitions.into_iter().map(partition).collect()))
        }
        found => Err(Error::Text {
            file: "hyp/type".into(),
            found: found.unwrap_or("").into(),
            wanted: "where one of `z/VM Hypervisor` and `LPAR Hypervisor` should be",
        }),
    }
}

fn partition((name, cpus): (&str, BTreeMap<u16, LogicalCpu>)) -> Partition {
    let mut partition = Partition::default();
    partition.head.name = to_ebcdic(name);
    partition.cpus = cpus.into_values().collect();
    for cpu in &mut partition.cpus {
        cpu.used_us = cpu.used_us.saturating_add(cpu.partition_us);
    }
    let count = u8::try_from(partition.cpus.len()).unwrap_or(u8::MAX);
    (partition.head.cpus, partition.head.real_cpus) = (count, count);
    partition
}

/// Returns the files of a tree. Kinds of processors are not included.
pub fn write(tree: &Tree) -> Vec<File> {
    let mut files = Vec::new();
    let mut file = |path: String, text: String| files.push((path, text + "\n"));
    match tree {
        Tree::Guests(guests) => {
            file("hyp/type".into(), VM.into());
            let count = guests.iter().map(|guest| guest.logical).max().unwrap_or(0);
            file("cpus/count".into(), count.to_string());
            for guest in guests {
                let below = format!("systems/{}", guest.name());
                texts(GUEST, guest, &mut |name, text| file(format!("{below}/{name}"), text));
                file(format!("{below}/cpus/capped"), guest.capped().to_string());
                let dedicated = u8::from(guest.is_dedicated());
                file(format!("{below}/cpus/dedicated"), dedicated.to_string());
            }
        }
        Tree::Partitions(count, partitions) => {
            file("hyp/type".into(), LPAR.into());
            (0..*count).for_each(|address| file(format!("cpus/{address}/mgmtime"), "0".into()));
            for partition in partitions {
                for cpu in &partition.cpus {
                    let below = format!("systems/{}/cpus/{}", partition.name(), cpu.address);
                    let mut apart = cpu.clone();
                    apart.used_us = cpu.used_us.saturating_sub(cpu.partition_us);
                    texts(CPU, &apart, &mut |name, text| file(format!("{below}/{name}"), text));
                }
            }
        }
    }
    files
}

fn set<T>(
    rows: &[Row<T>],
    record: &mut T,
    file: &str,
    path: &str,
    text: &str,
) -> Result<(), Error> {
    let Some((_, place)) = rows.iter().find(|(name, _)| *name == file) else { return Ok(()) };
    match place(record) {
        Place::Long(place) => *place = number(path, text)?,
        Place::Short(place) => *place = number(path, text)?,
    }
    Ok(())
}

fn texts<T: Clone>(rows: &[Row<T>], record: &T, file: &mut dyn FnMut(&str, String)) {
    let mut record = record.clone();
    for (name, place) in rows {
        let text = match place(&mut record) {
            Place::Long(number) => number.to_string(),
            Place::Short(number) => number.to_string(),
        };
        file(name, text);
    }
}

fn number<N: std::str::FromStr>(path: &str, text: &str) -> Result<N, Error> {
    text.trim().parse().map_err(|_| Error::Text {
        file: path.into(),
        found: text.trim().chars().take(40).collect(),
        wanted: "where a number should be",
    })
}
