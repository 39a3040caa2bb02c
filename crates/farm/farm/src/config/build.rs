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
/// Maximum length of a name. A guest's number is appended, and the whole must fit into a host name.
const NAME_MAX: usize = 50;

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
        let message = format!("the classes have {} guests together", farm.guests());
        let help = "a farm has at most 2000 guests";
        reader.fault(last, "class.count", message, Some(help));
    }
    farm
}

fn limits(reader: &mut Reader<'_>, tree: &Tree<'_>) -> Limits {
    let (limits, at): (Limits, _) = reader.table(tree);
    if limits.zram_reads.is_some() && ["memory", "zram"].iter().any(|key| at.get(key).is_none()) {
        let message = "`zram_reads` needs `memory` and `zram`".to_owned();
        let help = "set `memory` to the limit of all guests together, and `zram` to its size";
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
            let message = format!("`{}` is not a valid farm name", shown(&name));
            let help = "use a letter, then letters, digits, '-' or '_', at most 50 characters";
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
        let help = "use a letter, then letters, digits, '-' or '_', at most 50 characters, and \
                    no digit at the end, because guest numbers are appended";
        refuse(&["name"], &message, help);
    }
    let files = ["kernel", "initramfs", "disk"];
    if files.iter().any(|key| at.get(key).is_some()) {
        if at.get("image").is_some() {
            let message = "`image` and files of your own exclude each other";
            refuse(&files, message, "remove `image`, or remove these files");
        }
        if files[..2].iter().any(|key| at.get(key).is_none()) {
            let message = "files of your own must include a kernel and an initramfs";
            refuse(
                &files,
                message,
                "set `kernel` and `initramfs`: a guest, even with a disk, cannot boot without \
                 these files",
            );
        }
    } else if class.arch == Arch::S390x && !matches!(class.image, Builtin::Tiny | Builtin::Web) {
        let help = "for s390x use \"tiny\" or \"web\"";
        refuse(&["image"], "this image is made for x86_64 only", help);
    }
    if let Some(disk) = &class.disk
        && !disk.extension().is_some_and(|end| end == "qcow2" || end == "raw" || end == "img")
    {
        let message = format!(
            "the name `{}` does not end in .qcow2, .raw or .img",
            shown(&disk.to_string_lossy())
        );
        refuse(
            &["disk"],
            &message,
            "end the name in .qcow2 for a QCOW2 image, or in .raw or .img for a plain disk image",
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
            "remove `heap`, or set `image` to \"debian-app\" or \"debian-combo\"",
        ),
        (
            class.memory_min_mib.is_some_and(|min| min > class.memory_mib),
            "memory_min",
            "the minimum is more than the guest's memory",
            "use at most the value of `memory`",
        ),
        (
            class.rules.is_some() && !class.daemon,
            "rules",
            "`rules` needs the guest daemon",
            "remove `rules`, or remove `daemon = false`",
        ),
        (
            !class.template && at.get("copy").is_some(),
            "copy",
            "`copy` needs a template",
            "remove `copy`, or set `template = true`",
        ),
        (
            class.park_ms.is_some_and(|ms| ms < PARK_MS_MIN),
            "park",
            "the time is too short to recognize a sleeping guest",
            "use at least 5s",
        ),
        (
            class.park_at_most_ms.is_some_and(|ms| ms < PARK_MS_MIN),
            "park_at_most",
            "the guest would be woken as soon as it is parked",
            "use at least 5s",
        ),
        (
            has_no_disk && at.get("disk_cache").is_some(),
            "disk_cache",
            "`disk_cache` needs a disk",
            "remove `disk_cache`, or use an image that has a disk",
        ),
        (
            has_no_disk && at.get("disk_reads").is_some(),
            "disk_reads",
            "`disk_reads` needs a disk",
            "remove `disk_reads`, or use an image that has a disk",
        ),
        (
            to_disk && !is_all_memory,
            "park_to",
            "only clones without a disk that share their template's memory can be parked on disk",
            "remove `park_to`, or use `template = true` and \"tiny\" or \"web\", without `copy`",
        ),
        (
            to_disk && class.park_with_connections,
            "park_with_connections",
            "parking on disk ends the guest's QEMU, and with it every connection",
            "remove `park_with_connections`, or set `park_to = \"memory\"`",
        ),
        (
            class.template && !class.daemon,
            "daemon",
            "clones need a daemon, which gives each clone its identity",
            "remove `template`, or remove `daemon = false`",
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
            let help = "write { guest = 80, host = 18000 }";
            reader.fault(at.span.clone(), "class.ports", message, Some(help));
            continue;
        }
        let first = u32::from(port.host);
        let range = first..first + class.count;
        if range.end > u32::from(u16::MAX) + 1 {
            let last = range.end - 1;
            let message = format!("{} guests need ports {first} to {last}", class.count);
            reader.refuse(&at, &["host"], message, "use a lower port: the last is 65535");
            continue;
        }
        let overlaps =
            |(other, _): &&(Range<u32>, String)| other.start < range.end && range.start < other.end;
        if let Some((other, owner)) = taken.iter().find(overlaps) {
            let (from, to) = (other.start, other.end - 1);
            let message = format!("ports {from} to {to} belong to class `{}`", shown(owner));
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
