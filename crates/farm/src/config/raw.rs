//! The file as it was typed in: known keys with values of the right kind, each with its place.

use std::ops::Range;

use counters::Bytes;
use images::Arch;
use settings::{
    Converted, DeTable, DeValue, Entries, Maybe, Reader, Section, Wrong, kind, list, number, shown,
    size, truth, words, wrong,
};

use super::keys::SECTIONS;
use super::types::{Builtin, Probe};

/// Classes in a file: more than anybody tells apart.
const CLASSES_MAX: usize = 100;
/// Guests of a farm: beyond it a process runs out of open files before the host out of memory.
pub(super) const GUESTS_MAX: u32 = 2_000;
/// CPUs of a guest.
const CPUS_MAX: u32 = 64;
/// The largest weight.
const SHARES_MAX: u32 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) name: Maybe<String>,
    pub(super) memory: Maybe<Bytes>,
    pub(super) zram: Maybe<Bytes>,
    pub(super) swap: Maybe<Bytes>,
    pub(super) ksm: Maybe<bool>,
    pub(super) classes: Vec<RawClass>,
    /// The text could be read as TOML.
    pub(super) is_toml: bool,
}

#[derive(Debug)]
pub(super) struct RawClass {
    /// Where the class begins.
    pub(super) span: Range<usize>,
    /// Something of it was wrong, and told.
    pub(super) is_told: bool,
    pub(super) name: Maybe<String>,
    pub(super) count: Maybe<u32>,
    pub(super) arch: Maybe<Arch>,
    pub(super) image: Maybe<Builtin>,
    pub(super) kernel: Maybe<String>,
    pub(super) initramfs: Maybe<String>,
    pub(super) disk: Maybe<String>,
    pub(super) template: Maybe<bool>,
    pub(super) copy: Maybe<bool>,
    pub(super) page_reporting: Maybe<bool>,
    pub(super) cpus: Maybe<u32>,
    pub(super) memory: Maybe<Bytes>,
    pub(super) memory_min: Maybe<Bytes>,
    pub(super) shares: Maybe<u32>,
    pub(super) rules: Maybe<String>,
    pub(super) daemon: Maybe<bool>,
    pub(super) ports: Vec<RawPort>,
    pub(super) swap: Maybe<Bytes>,
    pub(super) heap: Maybe<Bytes>,
    pub(super) args: Maybe<Vec<String>>,
    pub(super) command: Maybe<String>,
}

#[derive(Debug)]
pub(super) struct RawPort {
    pub(super) span: Range<usize>,
    pub(super) guest: Maybe<u32>,
    pub(super) host: Maybe<u32>,
    pub(super) probe: Maybe<Probe>,
}

fn section(name: &str) -> &'static Section {
    SECTIONS.iter().find(|section| section.name == name).unwrap_or(&SECTIONS[0])
}

/// Reads a text; what is wrong with it is told to the reader.
pub(super) fn read(reader: &mut Reader<'_>) -> Raw {
    let mut raw = Raw::default();
    let Some(tree) = reader.tree() else { return raw };
    raw.is_toml = true;
    for (name, value) in &tree {
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("name", _) => {}
            ("limits", value) => limits(reader, name.span(), value, &mut raw),
            ("class", value) => {
                for (span, table) in
                    reader.tables(section("class"), name.span(), value, CLASSES_MAX)
                {
                    let before = reader.faults();
                    let mut class = class(reader, span, table);
                    class.is_told = reader.faults() > before;
                    raw.classes.push(class);
                }
            }
            (unknown, _) => {
                let known = vec!["name", "limits", "class"];
                reader.unknown(name.span(), "", unknown, "key or table", known);
            }
        }
    }
    // The tables above are known here already, so that only the name is looked for.
    if let Some((name, value)) = tree.iter().find(|(name, _)| name.get_ref() == "name") {
        match words(value.get_ref()) {
            Ok(words) => raw.name = Some(settings::Typed { value: words, span: value.span() }),
            Err(Wrong { message, help }) => reader.tell(name.span(), "name", message, Some(help)),
        }
    }
    raw
}

fn limits(reader: &mut Reader<'_>, place: Range<usize>, value: &DeValue<'_>, raw: &mut Raw) {
    let Some(entries) = reader.table(section("limits"), place, value) else { return };
    raw.memory = reader.take(&entries, "memory", size);
    raw.zram = reader.take(&entries, "zram", size);
    raw.swap = reader.take(&entries, "swap", size);
    raw.ksm = reader.take(&entries, "ksm", truth);
}

fn class(reader: &mut Reader<'_>, span: Range<usize>, table: &DeTable<'_>) -> RawClass {
    let entries = reader.entries(section("class"), table);
    RawClass {
        span,
        is_told: false,
        name: reader.take(&entries, "name", words),
        count: reader.take(&entries, "count", |value| number(value, 1..=GUESTS_MAX)),
        arch: reader.take(&entries, "arch", arch),
        image: reader.take(&entries, "image", image),
        kernel: reader.take(&entries, "kernel", words),
        initramfs: reader.take(&entries, "initramfs", words),
        disk: reader.take(&entries, "disk", words),
        template: reader.take(&entries, "template", truth),
        copy: reader.take(&entries, "copy", truth),
        page_reporting: reader.take(&entries, "page_reporting", truth),
        cpus: reader.take(&entries, "cpus", |value| number(value, 1..=CPUS_MAX)),
        memory: reader.take(&entries, "memory", size),
        memory_min: reader.take(&entries, "memory_min", size),
        shares: reader.take(&entries, "shares", |value| number(value, 1..=SHARES_MAX)),
        rules: reader.take(&entries, "rules", words),
        daemon: reader.take(&entries, "daemon", truth),
        ports: ports(reader, &entries),
        swap: reader.take(&entries, "swap", swap),
        heap: reader.take(&entries, "heap", size),
        args: reader.take(&entries, "args", list),
        command: reader.take(&entries, "command", words),
    }
}

fn ports(reader: &mut Reader<'_>, class: &Entries<'_, '_>) -> Vec<RawPort> {
    let Some(value) = class.get("ports") else { return Vec::new() };
    let help = "write a list of tables: [{ guest = 80, host = 18000 }]";
    let DeValue::Array(list) = value.get_ref() else {
        let message = format!("{} where a list belongs", kind(value.get_ref()));
        reader.tell(value.span(), "class.ports", message, Some(help.to_owned()));
        return Vec::new();
    };
    let most = vm::FORWARDS_MAX;
    if let Some(extra) = list.get(most) {
        reader.tell(extra.span(), "class.ports", format!("more than {most} ports"), None);
    }
    let mut ports = Vec::new();
    for value in list.iter().take(most) {
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("{} where a port belongs", kind(value.get_ref()));
            reader.tell(value.span(), "class.ports", message, Some(help.to_owned()));
            continue;
        };
        let entries = reader.entries(section("class.ports"), table);
        ports.push(RawPort {
            span: value.span(),
            guest: reader.take(&entries, "guest", port),
            host: reader.take(&entries, "host", port),
            probe: reader.take(&entries, "probe", probe),
        });
    }
    ports
}

fn port(value: &DeValue<'_>) -> Converted<u32> {
    number(value, 1..=u32::from(u16::MAX))
}

/// One of some words.
fn one_of<T: Copy>(value: &DeValue<'_>, what: &str, known: &[(&str, T)]) -> Converted<T> {
    let text = words(value)?;
    let names: Vec<String> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let wrong = Wrong {
        message: format!("no {what} `{}`", shown(&text)),
        help: format!("there are {}", names.join(", ")),
    };
    found.ok_or(wrong)
}

fn arch(value: &DeValue<'_>) -> Converted<Arch> {
    let known = [Arch::X86_64, Arch::S390x].map(|arch| (arch.name(), arch));
    one_of(value, "architecture", &known)
}

fn image(value: &DeValue<'_>) -> Converted<Builtin> {
    let known = Builtin::ALL.map(|image| (image.name(), image));
    one_of(value, "image", &known)
}

fn probe(value: &DeValue<'_>) -> Converted<Probe> {
    let known = [("http", Probe::Http), ("postgres", Probe::Postgres), ("none", Probe::None)];
    one_of(value, "probe", &known)
}

/// `zram:64 MiB`: the kind of swap is said, so that another kind can be added.
fn swap(value: &DeValue<'_>) -> Converted<Bytes> {
    let help = "write \"zram:64 MiB\"";
    let text = words(value)?;
    let Some(amount) = text.strip_prefix("zram:") else {
        return wrong(format!("`{}` is no swap of a guest", shown(&text)), help);
    };
    base::parse_size(amount).map_err(|bad| Wrong {
        message: format!("`{}`: {}", shown(amount), bad.kind),
        help: help.to_owned(),
    })
}
