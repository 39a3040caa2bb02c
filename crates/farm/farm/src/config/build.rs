//! Construction of the whole farm, and checks across several keys.

use std::ops::Range;

use settings::{Entries, Reader, Tree, shown};
use vm::FORWARDS_MAX;
use vm::images::Arch;

use super::links;
use super::types::{
    Builtin, Class, Farm, GUESTS_MAX, Limits, PORTS_HELP, ParkTo, Port, Probe, Source, Top,
};

/// Maximum number of classes in a file. A user could not distinguish more classes.
const CLASSES_MAX: usize = 100;
/// Shortest idle time before parking. CPU usage is sampled once a second, so an idle guest is
/// recognised after a few seconds.
const PARK_MS_MIN: u64 = 5_000;
/// Default name of a farm, used if neither the file's text nor the file's name gives a name.
pub(super) const NAMELESS: &str = "farm";
/// Maximum length of a name. The rest of a guest's host name is left for the guest's number.
const NAME_MAX: usize = 50;

/// Builds the farm, and reports faults to the reader.
pub(super) fn build(reader: &mut Reader<'_>, tree: &Tree<'_>, stem: &str) -> Farm {
    let name = farm_name(reader, tree, stem);
    let limits = limits(reader, tree);
    // Ranges of host ports in use, each with the name of its class.
    let mut taken: Vec<(Range<u32>, String)> = Vec::new();
    let mut classes: Vec<Class> = Vec::new();
    let mut written = Vec::new();
    let mut last = 0..0;
    for (mut class, at) in reader.tables::<Class>(tree, CLASSES_MAX) {
        check(reader, &at, &class);
        if classes.iter().any(|other| other.name == class.name) {
            let message = format!("there is a class `{}` already", shown(&class.name));
            reader.refuse(&at, &["name"], message, "give each class its own name");
        }
        class.ports = ports(reader, &at, &class, &mut taken);
        written.push(links::read(reader, &at));
        classes.push(class);
        last = at.span;
    }
    links::check(reader, &mut classes, written);
    if classes.is_empty() && reader.is_ok() {
        let help = "write [[class]] with a name and the properties of its guests";
        reader.fault(0..0, "class", "the farm has no guests".to_owned(), Some(help));
    }
    let farm = Farm { name, limits, classes };
    if farm.guests() > GUESTS_MAX {
        let message = format!("{} guests in all", farm.guests());
        let help = "at most 2000 guests make a farm";
        reader.fault(last, "class.count", message, Some(help));
    }
    farm
}

fn limits(reader: &mut Reader<'_>, tree: &Tree<'_>) -> Limits {
    let (limits, at): (Limits, _) = reader.table(tree);
    if limits.zram_reads.is_some() && ["memory", "zram"].iter().any(|key| at.get(key).is_none()) {
        let message = "`zram_reads` needs `memory` and `zram`".to_owned();
        let help = "set the memory that the guests may have, and the size of `zram`";
        reader.refuse(&at, &["zram_reads"], message, help);
    }
    limits
}

fn is_name(name: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    starts && name.len() <= NAME_MAX && name.chars().all(in_name)
}

fn farm_name(reader: &mut Reader<'_>, tree: &Tree<'_>, stem: &str) -> String {
    let (top, at): (Top, _) = reader.top(tree);
    match top.name {
        Some(name) if !is_name(&name) => {
            let message = format!("`{}` is no name", shown(&name));
            let help = "a letter, then letters, digits, '-' or '_', at most 50";
            reader.refuse(&at, &["name"], message, help);
            name
        }
        Some(name) => name,
        None if is_name(stem) => stem.to_owned(),
        None => NAMELESS.to_owned(),
    }
}

fn check(reader: &mut Reader<'_>, at: &Entries<'_, '_>, class: &Class) {
    if at.get("name").is_none() {
        let message = "a class needs a name".to_owned();
        reader.fault(
            at.span.clone(),
            "class",
            message,
            Some("write the class's name, such as name = \"web\""),
        );
    }
    let mut refuse = |keys: &[&str], message: &str, help: &str| {
        reader.refuse(at, keys, message.to_owned(), help);
    };
    if !is_name(&class.name) || class.name.ends_with(|c: char| c.is_ascii_digit()) {
        let message = format!("`{}` is not a valid class name", shown(&class.name));
        let help = "a letter, then letters, digits, '-' or '_', at most 50, and no digit at \
                    the end: guest numbers are appended";
        refuse(&["name"], &message, help);
    }
    let files = ["kernel", "initramfs", "disk"];
    if files.iter().any(|key| at.get(key).is_some()) {
        if at.get("image").is_some() {
            let message = "an image and files of your own exclude each other";
            refuse(&files, message, "keep one of the two");
        }
        if files[..2].iter().any(|key| at.get(key).is_none()) {
            let message = "a guest of your own needs a kernel and an initramfs";
            refuse(
                &files,
                message,
                "set both, also for a guest with a disk, because the guest cannot boot without \
                 them",
            );
        }
    } else if class.arch == Arch::S390x && !matches!(class.image, Builtin::Tiny | Builtin::Web) {
        let help = "on s390x there are \"tiny\" and \"web\"";
        refuse(&["image"], "this image is made for x86_64 only", help);
    }
    if let Some(disk) = &class.disk
        && !disk.extension().is_some_and(|end| end == "qcow2" || end == "raw" || end == "img")
    {
        let message = format!("`{}` does not show its format", shown(&disk.to_string_lossy()));
        refuse(
            &["disk"],
            &message,
            "end the name in .qcow2, or in .raw or .img for a plain disk image",
        );
    }
    let to_disk = class.park_to == ParkTo::Disk;
    let has_no_disk = matches!(class.source(), Source::Builtin(Builtin::Tiny | Builtin::Web))
        || matches!(class.source(), Source::Files { disk: None, .. });
    let is_all_memory = class.template && !class.copy && has_no_disk;
    let has_heap = matches!(class.source(), Source::Builtin(image) if image.has_heap());
    for (is_wrong, key, message, help) in [
        (
            !has_heap && class.heap_mib.is_some(),
            "heap",
            "this image has no application with a heap",
            "leave it out, or use \"debian-app\" or \"debian-combo\"",
        ),
        (
            class.memory_min_mib.is_some_and(|min| min > class.memory_mib),
            "memory_min",
            "more than all its memory",
            "use at most the size of `memory`",
        ),
        (
            class.rules.is_some() && !class.daemon,
            "rules",
            "`rules` needs a daemon",
            "leave `rules` or `daemon` out",
        ),
        (
            !class.template && at.get("copy").is_some(),
            "copy",
            "`copy` needs a template",
            "leave it out, or say `template = true`",
        ),
        (
            class.park_ms.is_some_and(|ms| ms < PARK_MS_MIN),
            "park",
            "the time is too short to recognize a sleeping guest",
            "5s at least",
        ),
        (
            class.park_at_most_ms.is_some_and(|ms| ms < PARK_MS_MIN),
            "park_at_most",
            "the guest would be woken as soon as it is parked",
            "5s at least",
        ),
        (
            has_no_disk && at.get("disk_cache").is_some(),
            "disk_cache",
            "`disk_cache` needs a disk",
            "omit it, or use an image that has a disk",
        ),
        (
            has_no_disk && at.get("disk_reads").is_some(),
            "disk_reads",
            "a limit of reads needs a disk",
            "omit it, or use an image that has a disk",
        ),
        (
            to_disk && !is_all_memory,
            "park_to",
            "only a clone that shares its template's memory and has no disk is parked on disk",
            "set `template = true`, `image` to \"tiny\" or \"web\" and no `copy`, or no `park_to`",
        ),
        (
            to_disk && class.park_with_connections,
            "park_with_connections",
            "parking on disk ends the guest's QEMU, and with it every connection",
            "leave it out, or park in memory",
        ),
        (
            class.template && !class.daemon,
            "daemon",
            "clones need a daemon, which gives each clone its identity",
            "leave `template` or `daemon` out",
        ),
    ] {
        if is_wrong {
            refuse(&[key], message, help);
        }
    }
}

fn ports(
    reader: &mut Reader<'_>,
    class_at: &Entries<'_, '_>,
    class: &Class,
    taken: &mut Vec<(Range<u32>, String)>,
) -> Vec<Port> {
    let mut ports = Vec::new();
    let found = reader.nested::<Port>(class_at, "ports", "port", FORWARDS_MAX, PORTS_HELP);
    for (mut port, at) in found {
        if at.get("guest").is_none() || at.get("host").is_none() {
            let message = "a port needs `guest` and `host`".to_owned();
            let help = "as { guest = 80, host = 18000 }";
            reader.fault(at.span.clone(), "class.ports", message, Some(help));
            continue;
        }
        let first = u32::from(port.host);
        let range = first..first + class.count;
        if range.end > u32::from(u16::MAX) + 1 {
            let last = range.end - 1;
            let message = format!("ports {first} to {last} for {} guests", class.count);
            reader.refuse(&at, &["host"], message, "65535 is the last port");
            continue;
        }
        let overlaps =
            |(other, _): &&(Range<u32>, String)| other.start < range.end && range.start < other.end;
        if let Some((other, owner)) = taken.iter().find(overlaps) {
            let (from, to) = (other.start, other.end - 1);
            let message = format!("ports {from} to {to} are class `{}`'s", shown(owner));
            let help = "guest n has port host + n - 1; choose ranges that do not overlap";
            reader.refuse(&at, &["host"], message, help);
        }
        taken.push((range, class.name.clone()));
        if at.get("probe").is_none() {
            port.probe = match port.guest {
                80 | 8000 | 8080 => Probe::Http,
                5432 => Probe::Postgres,
                _ => Probe::None,
            };
        }
        ports.push(port);
    }
    ports
}
