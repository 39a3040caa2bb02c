//! Takes known keys out of a text, and tells of all that is not as it should be.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::convert::{Converted, kind, shown};
use crate::fault::{ERRORS_MAX, Fault};
use crate::keys::Section;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A value that may not have been given.
pub type Maybe<T> = Option<Typed<T>>;

/// Reads one text. A key that is wrong is told and left out, so that the others are looked at too.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    faults: Vec<Fault>,
}

/// The entries of one table, of which the unknown ones have been told.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a, 'i> {
    /// The table's name.
    pub section: &'static str,
    table: &'a DeTable<'i>,
}

impl<'a> Reader<'a> {
    /// A reader of this text.
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, faults: Vec::new() }
    }

    /// The text as a tree; `None` if it is no TOML. A tree that was patched up would be blamed for
    /// what is not in the text.
    pub fn tree(&mut self) -> Option<DeTable<'a>> {
        let (tree, errors) = DeTable::parse_recoverable(self.text);
        for error in errors.iter().take(ERRORS_MAX) {
            let span = error.span().unwrap_or(0..0);
            // It may quote the text.
            let words = error.message().trim().replace(char::is_control, " ");
            self.tell(span, "", format!("this is no TOML: {words}"), None);
        }
        errors.is_empty().then(|| tree.into_inner())
    }

    /// The text that is read.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// All that was wrong, in the order of the text.
    pub fn into_faults(mut self) -> Vec<Fault> {
        self.faults.sort_by_key(|fault| fault.span.start);
        self.faults
    }

    /// How many faults were told so far.
    pub fn faults(&self) -> usize {
        self.faults.len()
    }

    /// Tells of a fault.
    pub fn tell(&mut self, span: Range<usize>, key: &str, message: String, help: Option<String>) {
        if self.faults.len() < ERRORS_MAX {
            let fault = Fault::new(self.text, span, key, message);
            self.faults.push(Fault { help, ..fault });
        }
    }

    /// A table's entries. Complains about keys that its section does not know.
    pub fn entries<'t, 'i>(
        &mut self,
        section: &'static Section,
        table: &'t DeTable<'i>,
    ) -> Entries<'t, 'i> {
        for name in table.keys() {
            let known = section.keys.iter().map(|key| key.name);
            if known.clone().all(|key| key != name.get_ref().as_ref()) {
                self.unknown(name.span(), section.name, name.get_ref(), "key", known.collect());
            }
        }
        Entries { section: section.name, table }
    }

    /// Complains about a name that nobody knows.
    pub fn unknown(
        &mut self,
        span: Range<usize>,
        of: &str,
        name: &str,
        what: &str,
        known: Vec<&str>,
    ) {
        let near = base::nearest(name, known.iter().copied());
        let help = match near.first() {
            Some(near) => format!("is it `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        let place = if of.is_empty() { String::new() } else { format!(" in [{of}]") };
        let message = format!("no {what} `{}` is known{place}", shown(name));
        self.tell(span, of, message, Some(help));
    }

    /// Takes one key; `None` if it is not there, or is wrong and was told.
    pub fn take<T>(
        &mut self,
        entries: &Entries<'_, '_>,
        key: &str,
        convert: impl FnOnce(&DeValue<'_>) -> Converted<T>,
    ) -> Maybe<T> {
        let mut all = entries.table.iter();
        let (_, value) = all.find(|(name, _)| name.get_ref().as_ref() == key)?;
        match convert(value.get_ref()) {
            Ok(converted) => Some(Typed { value: converted, span: value.span() }),
            Err(wrong) => {
                let section = entries.section;
                let dot = if section.is_empty() { "" } else { "." };
                self.tell(
                    value.span(),
                    &format!("{section}{dot}{key}"),
                    wrong.message,
                    Some(wrong.help),
                );
                None
            }
        }
    }
}

impl Reader<'_> {
    /// A top table such as `[host]`; `None` if something else stands there, which is told.
    pub fn table<'t, 'i>(
        &mut self,
        section: &'static Section,
        place: Range<usize>,
        value: &'t DeValue<'i>,
    ) -> Option<Entries<'t, 'i>> {
        let DeValue::Table(table) = value else {
            let message = format!("{} where a table belongs", kind(value));
            let help = format!("write [{}] and its keys below it", section.name);
            self.tell(place, section.name, message, Some(help));
            return None;
        };
        Some(self.entries(section, table))
    }

    /// The tables of a list such as `[[class]]`, at most so many, each with its place.
    pub fn tables<'t, 'i>(
        &mut self,
        section: &'static Section,
        place: Range<usize>,
        value: &'t DeValue<'i>,
        most: usize,
    ) -> Vec<(Range<usize>, &'t DeTable<'i>)> {
        let name = section.name;
        let DeValue::Array(tables) = value else {
            let help = format!("write [[{name}]], with two brackets: there may be several");
            let message = "this is one table, and not a list of them".to_owned();
            self.tell(place, name, message, Some(help));
            return Vec::new();
        };
        if let Some(extra) = tables.get(most) {
            self.tell(extra.span(), name, format!("more than {most} {name}es"), None);
        }
        let mut found = Vec::new();
        for value in tables.iter().take(most) {
            match value.get_ref() {
                DeValue::Table(table) => found.push((value.span(), table)),
                other => {
                    let message = format!("{} where a {name} belongs", kind(other));
                    self.tell(value.span(), name, message, None);
                }
            }
        }
        found
    }
}

impl<'t, 'i> Entries<'t, 'i> {
    /// The raw value of a key, with its place.
    pub fn get(&self, key: &str) -> Option<&'t toml::Spanned<DeValue<'i>>> {
        let mut all = self.table.iter();
        all.find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value)
    }
}
