//! The file as it was typed in: known keys with values of the right kind, each with its place.
//!
//! A key that is wrong is told and left out, so that the others are looked at too.

use std::ops::Range;

use counters::Bytes;
pub(super) use settings::shown;
use settings::{
    Converted, DeTable, DeValue, Entries, Fault, Reader, Section, Share, Wrong, kind, list, number,
    permille, share, size, time, truth, words, wrong,
};
pub(super) use settings::{Maybe, Typed};

use super::keys::SECTIONS;
use crate::scrape::Listen;
use metrics::{Processes, Url};

use super::settings::{KsmMode, Libvirt, LibvirtUri};

/// Classes in a file: more than there are guests on any host.
const CLASSES_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) set_point: Maybe<Share>,
    pub(super) hysteresis: Maybe<Share>,
    pub(super) reserve: Maybe<Share>,
    pub(super) budget: Maybe<Share>,
    pub(super) interval_ms: Maybe<u64>,
    pub(super) qmp: Maybe<Vec<String>>,
    pub(super) libvirt: Maybe<Libvirt>,
    pub(super) idle_tax: Maybe<u64>,
    pub(super) step: Maybe<u64>,
    pub(super) rules: Maybe<String>,
    pub(super) shadow: Maybe<String>,
    pub(super) classes: Vec<RawClass>,
    pub(super) ksm: Maybe<KsmMode>,
    pub(super) journal: Maybe<String>,
    pub(super) keep_ms: Maybe<u64>,
    pub(super) max_size: Maybe<Bytes>,
    pub(super) record: Maybe<bool>,
    pub(super) records: Maybe<String>,
    pub(super) minutes_ms: Maybe<u64>,
    pub(super) quarters_ms: Maybe<u64>,
    pub(super) records_size: Maybe<Bytes>,
    pub(super) raw_ms: Maybe<u64>,
    pub(super) raw_size: Maybe<Bytes>,
    pub(super) socket: Maybe<String>,
    pub(super) group: Maybe<String>,
    pub(super) listen: Maybe<Listen>,
    pub(super) remote_write: Maybe<Url>,
    pub(super) push_ms: Maybe<u64>,
    pub(super) host_name: Maybe<String>,
    pub(super) processes: Maybe<Processes>,
}

#[derive(Debug)]
pub(super) struct RawClass {
    /// Where the class begins.
    pub(super) span: Range<usize>,
    pub(super) name: Maybe<String>,
    pub(super) patterns: Maybe<Vec<String>>,
    /// The name or the patterns were given, and were wrong: that is told already.
    pub(super) is_told: bool,
    pub(super) min: Maybe<Share>,
    pub(super) max: Maybe<Share>,
    pub(super) shares: Maybe<u32>,
    pub(super) pin: Maybe<Share>,
    pub(super) release: Maybe<bool>,
}

/// Reads the tables that a host's settings have.
struct HostReader<'a>(Reader<'a>);

/// Reads a text; what is wrong with it comes beside what is right.
pub(super) fn read(text: &str) -> (Raw, Vec<Fault>) {
    let mut reader = HostReader(Reader::new(text));
    let tree = reader.0.tree();
    let raw = tree.map_or_else(Raw::default, |tree| reader.file(&tree));
    (raw, reader.0.into_faults())
}

impl HostReader<'_> {
    fn file(&mut self, tree: &DeTable<'_>) -> Raw {
        let mut raw = Raw::default();
        for (name, value) in tree {
            let Some(section) = SECTIONS.iter().find(|s| s.name == name.get_ref().as_ref()) else {
                let known = SECTIONS.iter().map(|section| section.name);
                self.0.unknown(name.span(), "", name.get_ref(), "table", known.collect());
                continue;
            };
            match section.name {
                "class" => self.classes(section, name.span(), value.get_ref(), &mut raw),
                _ => {
                    if let Some(entries) = self.0.table(section, name.span(), value.get_ref()) {
                        self.section(&entries, &mut raw);
                    }
                }
            }
        }
        raw
    }

    fn section(&mut self, entries: &Entries<'_, '_>, raw: &mut Raw) {
        match entries.section {
            "host" => {
                raw.set_point = self.0.take(entries, "set_point", share);
                raw.hysteresis = self.0.take(entries, "hysteresis", share);
                raw.reserve = self.0.take(entries, "reserve", share);
                raw.budget = self.0.take(entries, "budget", share);
                raw.interval_ms = self.0.take(entries, "interval", time);
            }
            "sources" => {
                raw.qmp = self.0.take(entries, "qmp", list);
                raw.libvirt = self.0.take(entries, "libvirt", libvirt);
            }
            "policy" => {
                raw.idle_tax = self.0.take(entries, "idle_tax", permille);
                raw.step = self.0.take(entries, "step", permille);
                raw.rules = self.0.take(entries, "rules", words);
                raw.shadow = self.0.take(entries, "shadow", words);
            }
            "ksm" => raw.ksm = self.0.take(entries, "mode", ksm_mode),
            "journal" => {
                raw.journal = self.0.take(entries, "path", words);
                raw.keep_ms = self.0.take(entries, "keep", time);
                raw.max_size = self.0.take(entries, "max_size", size);
            }
            "monitor" => {
                raw.record = self.0.take(entries, "record", truth);
                raw.records = self.0.take(entries, "dir", words);
                raw.minutes_ms = self.0.take(entries, "minutes", time);
                raw.quarters_ms = self.0.take(entries, "quarters", time);
                raw.records_size = self.0.take(entries, "max_size", size);
                raw.raw_ms = self.0.take(entries, "raw", time);
                raw.raw_size = self.0.take(entries, "raw_size", size);
            }
            "metrics" => {
                raw.listen = self.0.take(entries, "listen", listen);
                raw.remote_write = self.0.take(entries, "remote_write", url);
                raw.push_ms = self.0.take(entries, "interval", time);
                raw.host_name = self.0.take(entries, "host", words);
                raw.processes = self.0.take(entries, "processes", processes);
            }
            _ => {
                raw.socket = self.0.take(entries, "socket", words);
                raw.group = self.0.take(entries, "group", words);
            }
        }
    }

    fn classes(
        &mut self,
        section: &'static Section,
        place: Range<usize>,
        value: &DeValue<'_>,
        raw: &mut Raw,
    ) {
        for (span, table) in self.0.tables(section, place, value, CLASSES_MAX) {
            let entries = self.0.entries(section, table);
            let before = self.0.faults();
            let name = self.0.take(&entries, "name", words);
            let patterns = self.0.take(&entries, "match", list);
            let is_told = self.0.faults() > before;
            raw.classes.push(RawClass {
                span,
                name,
                patterns,
                is_told,
                min: self.0.take(&entries, "min", share),
                max: self.0.take(&entries, "max", share),
                shares: self.0.take(&entries, "shares", weight),
                pin: self.0.take(&entries, "pin", share),
                release: self.0.take(&entries, "release", truth),
            });
        }
    }
}

fn weight(value: &DeValue<'_>) -> Converted<u32> {
    number(value, 1..=1_000_000)
}

fn listen(value: &DeValue<'_>) -> Converted<Listen> {
    let text = words(value)?;
    Listen::parse(&text).ok_or_else(|| Wrong {
        message: format!("`{}` is neither an address with a port nor a path", shown(&text)),
        help: "write \"127.0.0.1:9177\", \"[::1]:9177\" or \"/run/pinhead/metrics.sock\"".into(),
    })
}

fn url(value: &DeValue<'_>) -> Converted<Url> {
    Url::parse(&words(value)?).map_err(|error| Wrong {
        message: error.to_string(),
        help: "such as \"http://127.0.0.1:8428/api/v1/write\"".into(),
    })
}

fn processes(value: &DeValue<'_>) -> Converted<Processes> {
    truth(value).map(|told| if told { Processes::Told } else { Processes::Left })
}

fn ksm_mode(value: &DeValue<'_>) -> Converted<KsmMode> {
    match value.as_str() {
        Some("auto") => Ok(KsmMode::Auto),
        Some("off") => Ok(KsmMode::Off),
        Some("leave") => Ok(KsmMode::Leave),
        _ => wrong("no such mode".to_owned(), "write \"auto\", \"off\" or \"leave\""),
    }
}

fn libvirt(value: &DeValue<'_>) -> Converted<Libvirt> {
    if value.as_str() == Some("auto") {
        return Ok(Libvirt::Auto);
    }
    let DeValue::Array(_) = value else {
        let help = "write \"auto\", or a list such as [\"qemu:///system\"]";
        return wrong(format!("{} that is not \"auto\"", kind(value)), help);
    };
    list(value)?.iter().map(|uri| libvirt_uri(uri)).collect::<Converted<_>>().map(Libvirt::Uris)
}

fn libvirt_uri(text: &str) -> Converted<LibvirtUri> {
    let (base, socket) = match text.split_once("?socket=") {
        Some((base, socket)) => (base, Some(socket)),
        None => (text, None),
    };
    let driver = base.strip_prefix("qemu:///").or_else(|| base.strip_prefix("qemu+unix:///"));
    let is_path = socket.is_none_or(|socket| socket.starts_with('/'));
    match driver {
        Some("system" | "session") if is_path => Ok(LibvirtUri {
            uri: format!("qemu:///{}", driver.unwrap_or_default()),
            socket: socket.map(Into::into),
        }),
        _ => wrong(
            format!("`{}` is no URI of a libvirt on this host", shown(text)),
            "write \"qemu:///system\", \"qemu:///session\" or \
             \"qemu+unix:///system?socket=/path\"",
        ),
    }
}
