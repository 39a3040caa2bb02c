//! From what was typed in to a farm: defaults, and what must be true of several keys together.

use std::ops::Range;
use std::path::{Path, PathBuf};

use counters::Bytes;
use images::Arch;
use settings::{Maybe, Reader, shown};

use super::raw::{GUESTS_MAX, Raw, RawClass, RawPort};
use super::types::{Builtin, Class, Farm, Limits, Port, Probe, Source};

/// A Debian kernel with a shell needs so much to come up at all.
const MEMORY_MIN: Bytes = Bytes::mib(48);
/// No guest here is larger.
const MEMORY_MAX: Bytes = Bytes::mib(64 * 1024);
/// A guest's name is also its host name; the number needs some of its room.
const NAME_MAX: usize = 50;
/// The line goes through the guest's shell, whose own reader has a limit.
const COMMAND_MAX: usize = 2_000;

/// Builds the farm; what is wrong is told to the reader.
pub(super) fn build(raw: &Raw, stem: &str, reader: &mut Reader<'_>) -> Farm {
    let mut builder = Builder { reader, taken: Vec::new() };
    let name = builder.farm_name(raw, stem);
    if raw.is_toml && raw.classes.is_empty() && builder.reader.faults() == 0 {
        let help = "write [[class]] with a name and what its guests are";
        builder.tell(&(0..0), "class", "a farm without guests".to_owned(), help);
    }
    let mut classes: Vec<Class> = Vec::new();
    for raw in &raw.classes {
        let Some(class) = builder.class(raw) else { continue };
        if classes.iter().any(|other| other.name == class.name) {
            let span = raw.name.as_ref().map_or(&raw.span, |name| &name.span);
            let message = format!("there is a class `{}` already", shown(&class.name));
            builder.tell(span, "class.name", message, "give each a name of its own");
        }
        classes.push(class);
    }
    let limits = Limits {
        memory: value(&raw.memory),
        zram: value(&raw.zram),
        swap: value(&raw.swap),
        ksm: value(&raw.ksm).unwrap_or(false),
    };
    let farm = Farm { name, limits, classes };
    if let Some(last) = raw.classes.last().filter(|_| farm.guests() > GUESTS_MAX) {
        let message = format!("{} guests in all", farm.guests());
        builder.tell(&last.span, "class.count", message, "at most 2000 guests make a farm");
    }
    farm
}

fn value<T: Clone>(typed: &Maybe<T>) -> Option<T> {
    typed.as_ref().map(|typed| typed.value.clone())
}

fn is_name(name: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    starts && name.len() <= NAME_MAX && name.chars().all(in_name)
}

struct Builder<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// Ports of the host that are somebody's.
    taken: Vec<(Range<u32>, String)>,
}

impl Builder<'_, '_> {
    fn tell(&mut self, span: &Range<usize>, key: &str, message: String, help: &str) {
        self.reader.tell(span.clone(), key, message, Some(help.to_owned()));
    }

    fn farm_name(&mut self, raw: &Raw, stem: &str) -> String {
        match &raw.name {
            Some(name) if !is_name(&name.value) => {
                let message = format!("`{}` is no name", shown(&name.value));
                let help = "a letter, then letters, digits, '-' or '_', at most 50";
                self.tell(&name.span, "name", message, help);
                String::new()
            }
            Some(name) => name.value.clone(),
            None if is_name(stem) => stem.to_owned(),
            None => super::NAMELESS.to_owned(),
        }
    }

    fn class(&mut self, raw: &RawClass) -> Option<Class> {
        let Some(name) = &raw.name else {
            if !raw.is_told {
                let message = "a class needs a name".to_owned();
                self.tell(&raw.span, "class", message, "write name = \"web\"");
            }
            return None;
        };
        if !is_name(&name.value) || name.value.ends_with(|c: char| c.is_ascii_digit()) {
            let message = format!("`{}` is no name of a class", shown(&name.value));
            let help = "a letter, then letters, digits, '-' or '_', at most 50, and no digit at \
                        the end: the guests' numbers stand there";
            self.tell(&name.span, "class.name", message, help);
        }
        let source = self.source(raw);
        self.memory(raw);
        self.words(raw);
        let count = value(&raw.count).unwrap_or(1);
        let memory = value(&raw.memory).unwrap_or(Bytes::mib(128));
        if let Some(heap) = &raw.heap
            && !matches!(&source, Source::Builtin(image) if image.has_heap())
        {
            let help = "leave it out, or use \"debian-app\" or \"debian-combo\"";
            let message = "there is no application with a heap in this image".to_owned();
            self.tell(&heap.span, "class.heap", message, help);
        }
        Some(Class {
            name: name.value.clone(),
            count,
            arch: value(&raw.arch).unwrap_or(Arch::X86_64),
            source,
            template: value(&raw.template).unwrap_or(false),
            copy: value(&raw.copy).unwrap_or(false),
            page_reporting: value(&raw.page_reporting).unwrap_or(true),
            cpus: value(&raw.cpus).unwrap_or(1),
            memory_mib: memory.as_mib(),
            memory_min_mib: value(&raw.memory_min).map(Bytes::as_mib),
            shares: value(&raw.shares).unwrap_or(100),
            rules: value(&raw.rules),
            daemon: value(&raw.daemon).unwrap_or(true),
            ports: self.ports(&raw.ports, count, &name.value),
            zram_mib: value(&raw.swap).map_or(0, Bytes::as_mib),
            heap_mib: value(&raw.heap).map(Bytes::as_mib),
            args: value(&raw.args).unwrap_or_default(),
            command: value(&raw.command),
        })
    }

    fn source(&mut self, raw: &RawClass) -> Source {
        let files = [&raw.kernel, &raw.initramfs, &raw.disk].into_iter().flatten().next();
        let (Some(first), image) = (files, &raw.image) else {
            let image = value(&raw.image).unwrap_or(Builtin::Tiny);
            if let (Some(typed), Some(Arch::S390x)) = (&raw.image, value(&raw.arch))
                && image != Builtin::Tiny
            {
                let message = "this image is made for x86_64 only".to_owned();
                self.tell(&typed.span, "class.image", message, "on s390x there is \"tiny\"");
            }
            return Source::Builtin(image);
        };
        if image.is_some() {
            let message = "an image of pinhead's and files of your own".to_owned();
            self.tell(&first.span, "class.kernel", message, "keep one of the two");
        }
        let (Some(kernel), Some(initramfs)) = (&raw.kernel, &raw.initramfs) else {
            if !raw.is_told {
                let message = "a guest of your own needs a kernel and an initramfs".to_owned();
                let help = "name both, also with a disk: nothing else boots it";
                self.tell(&first.span, "class.kernel", message, help);
            }
            return Source::Builtin(Builtin::Tiny);
        };
        if let Some(disk) = &raw.disk {
            let end = Path::new(&disk.value).extension().and_then(|end| end.to_str());
            if !matches!(end, Some("qcow2" | "raw" | "img")) {
                let message = format!("`{}` says no format", shown(&disk.value));
                let help = "call it .qcow2, or .raw or .img for a plain one";
                self.tell(&disk.span, "class.disk", message, help);
            }
        }
        Source::Files {
            kernel: PathBuf::from(&kernel.value),
            initramfs: PathBuf::from(&initramfs.value),
            disk: value(&raw.disk).map(PathBuf::from),
        }
    }

    fn memory(&mut self, raw: &RawClass) {
        if let Some(memory) = &raw.memory
            && !(MEMORY_MIN..=MEMORY_MAX).contains(&memory.value)
        {
            let message = "too little or too much for a guest".to_owned();
            self.tell(&memory.span, "class.memory", message, "from \"48 MiB\" to \"64 GiB\"");
        }
        let memory = value(&raw.memory).unwrap_or(Bytes::mib(128));
        if let Some(min) = &raw.memory_min
            && min.value > memory
        {
            let message = "more than all its memory".to_owned();
            let help = "at most what `memory` says";
            self.tell(&min.span, "class.memory_min", message, help);
        }
    }

    /// What goes to the guest's kernel and shell.
    fn words(&mut self, raw: &RawClass) {
        if let Some(command) = &raw.command
            && (command.value.contains(['\n', '\r']) || command.value.len() > COMMAND_MAX)
        {
            let message = "no line for a shell".to_owned();
            let help = "one line of at most 2000 bytes; `;` and `&&` join commands";
            self.tell(&command.span, "class.command", message, help);
        }
        let is_bad = |word: &String| word.chars().any(|c| c.is_whitespace() || c.is_control());
        if let Some(args) = &raw.args
            && args.value.iter().any(is_bad)
        {
            let message = "a word for the kernel has white space in it".to_owned();
            let help = "write each word as a text of its own: [\"a=1\", \"b\"]";
            self.tell(&args.span, "class.args", message, help);
        }
        if let (Some(rules), Some(false)) = (&raw.rules, value(&raw.daemon)) {
            let message = "rules without a daemon to follow them".to_owned();
            self.tell(&rules.span, "class.rules", message, "leave `rules` or `daemon` out");
        }
        if let (None | Some(false), Some(copy)) = (value(&raw.template), &raw.copy) {
            let message = "a copy of no template".to_owned();
            self.tell(&copy.span, "class.copy", message, "leave it out, or say `template = true`");
        }
        if let (Some(true), Some(daemon)) = (value(&raw.template), &raw.daemon)
            && !daemon.value
        {
            let message = "clones without a daemon that makes them themselves".to_owned();
            let help = "leave `template` or `daemon` out";
            self.tell(&daemon.span, "class.daemon", message, help);
        }
    }

    fn ports(&mut self, raw: &[RawPort], count: u32, class: &str) -> Vec<Port> {
        let mut ports = Vec::new();
        for port in raw {
            let (Some(guest), Some(host)) = (&port.guest, &port.host) else {
                let message = "a port needs `guest` and `host`".to_owned();
                self.tell(&port.span, "class.ports", message, "as { guest = 80, host = 18000 }");
                continue;
            };
            let range = host.value..host.value + count;
            if range.end > u32::from(u16::MAX) + 1 {
                let message = format!("ports {} to {} for {count} guests", range.start, range.end);
                self.tell(&host.span, "class.ports.host", message, "65535 is the last port");
                continue;
            }
            let overlaps = |(other, _): &&(Range<u32>, String)| {
                other.start < range.end && range.start < other.end
            };
            if let Some((other, whose)) = self.taken.iter().find(overlaps) {
                let message = format!(
                    "ports {} to {} are class `{}`'s",
                    other.start,
                    other.end - 1,
                    shown(whose)
                );
                let help = "guest n has host + n - 1; keep the ranges apart";
                self.tell(&host.span, "class.ports.host", message, help);
            }
            self.taken.push((range, class.to_owned()));
            let (guest, host) = (guest.value as u16, host.value as u16);
            let probe = value(&port.probe).unwrap_or(match guest {
                80 | 8000 | 8080 => Probe::Http,
                5432 => Probe::Postgres,
                _ => Probe::None,
            });
            ports.push(Port { guest, host, probe });
        }
        ports
    }
}
