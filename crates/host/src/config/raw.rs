//! The file as it was typed in: known keys with values of the right kind, each with its place.
//!
//! A key that is wrong is told and left out, so that the others are looked at too.

use std::ops::Range;

use counters::Bytes;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ERRORS_MAX};
use super::keys::{SECTIONS, Section};
use super::quantity::{self, Bad, Share};
use crate::scrape::Listen;
use metrics::{Processes, Url};

use super::settings::{KsmMode, Libvirt, LibvirtUri};

/// Classes in a file: more than there are guests on any host.
const CLASSES_MAX: usize = 1000;
/// Entries of a list of patterns.
const LIST_MAX: usize = 100;
/// Bytes of a pattern, a name or a path. The kernel takes no longer path.
const TEXT_MAX: usize = 4095;
/// So much of a wrong value is shown.
const SHOWN_MAX: usize = 60;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Typed<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// A value that may not have been given.
pub(super) type Maybe<T> = Option<Typed<T>>;

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

/// What is wrong with a value, and what would be right.
struct Fault {
    message: String,
    help: String,
}

type Converted<T> = Result<T, Fault>;

struct Reader<'a> {
    text: &'a str,
    errors: Vec<ConfigError>,
}

/// The entries of one table that are known.
struct Entries<'a, 'i> {
    section: &'static str,
    table: &'a DeTable<'i>,
}

/// Reads a text; what is wrong with it comes beside what is right.
pub(super) fn read(text: &str) -> (Raw, Vec<ConfigError>) {
    let mut reader = Reader { text, errors: Vec::new() };
    let (tree, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(ERRORS_MAX) {
        let span = error.span().unwrap_or(0..0);
        reader.tell(span, "", format!("this is no TOML: {}", error.message().trim()), None);
    }
    // A tree that was patched up would be blamed for what is not in the text.
    let raw = if errors.is_empty() { reader.file(tree.get_ref()) } else { Raw::default() };
    (raw, reader.errors)
}

impl Reader<'_> {
    fn tell(&mut self, span: Range<usize>, key: &str, message: String, help: Option<String>) {
        if self.errors.len() < ERRORS_MAX {
            let error = ConfigError::new(self.text, span, key, message);
            self.errors.push(ConfigError { help, ..error });
        }
    }

    fn file(&mut self, tree: &DeTable<'_>) -> Raw {
        let mut raw = Raw::default();
        for (name, value) in tree {
            let Some(section) = SECTIONS.iter().find(|s| s.name == name.get_ref().as_ref()) else {
                let known = SECTIONS.iter().map(|section| section.name);
                self.unknown(name.span(), "", name.get_ref(), "table", known.collect());
                continue;
            };
            match (section.name, value.get_ref()) {
                ("class", DeValue::Array(tables)) => self.classes(section, tables, &mut raw),
                ("class", _) => {
                    let help = "write [[class]], with two brackets: there may be several";
                    let message = "this is one table, and not a list of them".to_owned();
                    self.tell(name.span(), "class", message, Some(help.to_owned()));
                }
                (_, DeValue::Table(table)) => {
                    let entries = self.entries(section, table);
                    self.section(&entries, &mut raw);
                }
                (name_of, value) => {
                    let message = format!("{} where a table belongs", kind(value));
                    let help = format!("write [{name_of}] and its keys below it");
                    self.tell(name.span(), name_of, message, Some(help));
                }
            }
        }
        raw
    }

    fn section(&mut self, entries: &Entries<'_, '_>, raw: &mut Raw) {
        match entries.section {
            "host" => {
                raw.set_point = self.take(entries, "set_point", share);
                raw.hysteresis = self.take(entries, "hysteresis", share);
                raw.reserve = self.take(entries, "reserve", share);
                raw.budget = self.take(entries, "budget", share);
                raw.interval_ms = self.take(entries, "interval", time);
            }
            "sources" => {
                raw.qmp = self.take(entries, "qmp", list);
                raw.libvirt = self.take(entries, "libvirt", libvirt);
            }
            "policy" => {
                raw.idle_tax = self.take(entries, "idle_tax", percent);
                raw.step = self.take(entries, "step", percent);
                raw.rules = self.take(entries, "rules", words);
                raw.shadow = self.take(entries, "shadow", words);
            }
            "ksm" => raw.ksm = self.take(entries, "mode", ksm_mode),
            "journal" => {
                raw.journal = self.take(entries, "path", words);
                raw.keep_ms = self.take(entries, "keep", time);
                raw.max_size = self.take(entries, "max_size", size);
            }
            "monitor" => {
                raw.record = self.take(entries, "record", truth);
                raw.records = self.take(entries, "dir", words);
                raw.minutes_ms = self.take(entries, "minutes", time);
                raw.quarters_ms = self.take(entries, "quarters", time);
                raw.records_size = self.take(entries, "max_size", size);
                raw.raw_ms = self.take(entries, "raw", time);
                raw.raw_size = self.take(entries, "raw_size", size);
            }
            "metrics" => {
                raw.listen = self.take(entries, "listen", listen);
                raw.remote_write = self.take(entries, "remote_write", url);
                raw.push_ms = self.take(entries, "interval", time);
                raw.host_name = self.take(entries, "host", words);
                raw.processes = self.take(entries, "processes", processes);
            }
            _ => {
                raw.socket = self.take(entries, "socket", words);
                raw.group = self.take(entries, "group", words);
            }
        }
    }

    fn classes(&mut self, section: &'static Section, tables: &[Spanned<DeValue>], raw: &mut Raw) {
        if let Some(extra) = tables.get(CLASSES_MAX) {
            let message = format!("more than {CLASSES_MAX} classes");
            self.tell(extra.span(), "class", message, None);
        }
        for value in tables.iter().take(CLASSES_MAX) {
            let DeValue::Table(table) = value.get_ref() else {
                let message = format!("{} where a class belongs", kind(value.get_ref()));
                self.tell(value.span(), "class", message, None);
                continue;
            };
            let entries = self.entries(section, table);
            let before = self.errors.len();
            let name = self.take(&entries, "name", words);
            let patterns = self.take(&entries, "match", list);
            let is_told = self.errors.len() > before;
            raw.classes.push(RawClass {
                span: value.span(),
                name,
                patterns,
                is_told,
                min: self.take(&entries, "min", share),
                max: self.take(&entries, "max", share),
                shares: self.take(&entries, "shares", weight),
                pin: self.take(&entries, "pin", share),
                release: self.take(&entries, "release", truth),
            });
        }
    }

    /// Complains about keys that nobody knows.
    fn entries<'a, 'i>(
        &mut self,
        section: &'static Section,
        table: &'a DeTable<'i>,
    ) -> Entries<'a, 'i> {
        for name in table.keys() {
            let known = section.keys.iter().map(|key| key.name);
            if known.clone().all(|key| key != name.get_ref().as_ref()) {
                self.unknown(name.span(), section.name, name.get_ref(), "key", known.collect());
            }
        }
        Entries { section: section.name, table }
    }

    fn unknown(&mut self, span: Range<usize>, of: &str, name: &str, what: &str, known: Vec<&str>) {
        let near = rules::nearest(name, known.iter().copied());
        let help = match near.first() {
            Some(near) => format!("is it `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        let place = if of.is_empty() { String::new() } else { format!(" in [{of}]") };
        let message = format!("no {what} `{}` is known{place}", shown(name));
        self.tell(span, of, message, Some(help));
    }

    fn take<T>(
        &mut self,
        entries: &Entries<'_, '_>,
        key: &str,
        convert: fn(&DeValue<'_>) -> Converted<T>,
    ) -> Maybe<T> {
        let mut all = entries.table.iter();
        let (_, value) = all.find(|(name, _)| name.get_ref().as_ref() == key)?;
        match convert(value.get_ref()) {
            Ok(converted) => Some(Typed { value: converted, span: value.span() }),
            Err(fault) => {
                let key = format!("{}.{key}", entries.section);
                self.tell(value.span(), &key, fault.message, Some(fault.help));
                None
            }
        }
    }
}

fn fault<T>(message: String, help: &str) -> Converted<T> {
    Err(Fault { message, help: help.to_owned() })
}

/// A piece of the file, for a message.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_MAX).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", short.escape_debug())
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn quantity<T>(
    value: &DeValue<'_>,
    read: fn(&str) -> Result<T, Bad>,
    example: &str,
) -> Converted<T> {
    let DeValue::String(text) = value else {
        let help = format!("write it in quotes with its unit, such as {example}");
        return fault(format!("{} where a quantity belongs", kind(value)), &help);
    };
    let wrong =
        |bad: Bad| Fault { message: format!("`{}`: {}", shown(text), bad.kind), help: bad.help };
    read(text).map_err(wrong)
}

fn share(value: &DeValue<'_>) -> Converted<Share> {
    quantity(value, Share::parse, "\"25%\" or \"256 MiB\"")
}

fn size(value: &DeValue<'_>) -> Converted<Bytes> {
    quantity(value, quantity::size, "\"256 MiB\"")
}

fn percent(value: &DeValue<'_>) -> Converted<u64> {
    quantity(value, quantity::percent, "\"12.5%\"")
}

fn time(value: &DeValue<'_>) -> Converted<u64> {
    quantity(value, quantity::time_ms, "\"1s\"")
}

fn words(value: &DeValue<'_>) -> Converted<String> {
    match value {
        DeValue::String(text) if text.is_empty() => {
            fault("an empty text".to_owned(), "leave the key out, or say something")
        }
        DeValue::String(text) if text.len() > TEXT_MAX || text.contains('\0') => {
            fault(format!("`{}` is too long", shown(text)), "at most 4095 bytes fit")
        }
        DeValue::String(text) => Ok(text.as_ref().to_owned()),
        _ => fault(format!("{} where a text belongs", kind(value)), "write it in quotes"),
    }
}

fn list(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let help = "write a list of texts, such as [\"web*\", \"db?\"]";
    let DeValue::Array(entries) = value else {
        return fault(format!("{} where a list belongs", kind(value)), help);
    };
    if entries.len() > LIST_MAX {
        return fault(format!("a list of {} entries", entries.len()), "at most 100 fit");
    }
    entries.iter().map(|entry| words(entry.get_ref())).collect()
}

fn weight(value: &DeValue<'_>) -> Converted<u32> {
    let help = "write a whole number from 1 to 1000000, without quotes";
    let DeValue::Integer(number) = value else {
        return fault(format!("{} where a number belongs", kind(value)), help);
    };
    let parsed = u32::from_str_radix(number.as_str(), number.radix()).ok();
    match parsed.filter(|weight| (1..=1_000_000).contains(weight)) {
        Some(weight) => Ok(weight),
        None => fault(format!("{} is out of range", shown(number.as_str())), help),
    }
}

fn truth(value: &DeValue<'_>) -> Converted<bool> {
    match value {
        DeValue::Boolean(truth) => Ok(*truth),
        _ => fault(format!("{} where a truth belongs", kind(value)), "write true or false"),
    }
}

fn listen(value: &DeValue<'_>) -> Converted<Listen> {
    let text = words(value)?;
    Listen::parse(&text).ok_or_else(|| Fault {
        message: format!("`{}` is neither an address with a port nor a path", shown(&text)),
        help: "write \"127.0.0.1:9177\", \"[::1]:9177\" or \"/run/pinhead/metrics.sock\"".into(),
    })
}

fn url(value: &DeValue<'_>) -> Converted<Url> {
    Url::parse(&words(value)?).map_err(|error| Fault {
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
        _ => fault("no such mode".to_owned(), "write \"auto\", \"off\" or \"leave\""),
    }
}

fn libvirt(value: &DeValue<'_>) -> Converted<Libvirt> {
    if value.as_str() == Some("auto") {
        return Ok(Libvirt::Auto);
    }
    let DeValue::Array(_) = value else {
        let help = "write \"auto\", or a list such as [\"qemu:///system\"]";
        return fault(format!("{} that is not \"auto\"", kind(value)), help);
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
        _ => fault(
            format!("`{}` is no URI of a libvirt on this host", shown(text)),
            "write \"qemu:///system\", \"qemu:///session\" or \
             \"qemu+unix:///system?socket=/path\"",
        ),
    }
}
