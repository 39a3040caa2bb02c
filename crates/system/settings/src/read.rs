//! Reader of a settings text. All keys of the text are checked, and all errors are reported.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::convert::{Converted, kind, shown};
use crate::fault::{ERRORS_MAX, Fault};

/// Description in place of the default, for a key that has no default.
pub(crate) const NEEDED: &str = "needed";

/// A table of the file, such as `[host]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The table's name; empty for keys above all tables.
    pub name: &'static str,
    /// The keys that the table may contain.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key's name.
    pub name: &'static str,
    /// The default value, in words.
    pub default: &'static str,
    /// The meaning of the key.
    pub doc: &'static str,
}

/// A struct that is read from a table of the file; [`table!`](crate::table) defines it.
pub trait Table: Sized {
    /// The table and its keys.
    const SECTION: Section;

    /// Reads the table. A missing or wrong key has its default.
    fn read(reader: &mut Reader<'_>, at: &Entries<'_, '_>) -> Self;
}

/// Reader of one text. A wrong key is reported and left out, so that the other keys are checked,
/// too.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    faults: Vec<Fault>,
}

/// The entries of one table; none if the file does not contain the table.
#[derive(Clone, Debug)]
pub struct Entries<'t, 'i> {
    section: &'static str,
    table: Option<&'t DeTable<'i>>,
    /// The position of the table.
    pub span: Range<usize>,
}

impl<'t, 'i> Entries<'t, 'i> {
    /// Returns a key's value, right or wrong.
    pub fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        let mut all = self.table.into_iter().flatten();
        all.find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Returns a key with the name of its table.
    fn path(&self, key: &str) -> String {
        let dot = if self.section.is_empty() { "" } else { "." };
        format!("{}{dot}{key}", self.section)
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader of this text.
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, faults: Vec::new() }
    }

    /// Parses the text as a tree. Invalid TOML gives an empty tree, because a repaired tree would
    /// cause errors that are not in the text. Reports top-level names that no section has.
    pub fn tree(&mut self, sections: &[Section]) -> DeTable<'a> {
        let (tree, errors) = DeTable::parse_recoverable(self.text);
        for error in errors.iter().take(ERRORS_MAX) {
            let span = error.span().unwrap_or(0..0);
            // The reason may quote the text.
            let reason = error.message().trim().replace(char::is_control, " ");
            self.fault(span, "", format!("this is no TOML: {reason}"), None);
        }
        if !errors.is_empty() {
            return DeTable::new();
        }
        let top = sections.iter().filter(|section| section.name.is_empty());
        let keys: Vec<&str> = top.flat_map(|top| top.keys).map(|key| key.name).collect();
        let what = if keys.is_empty() { "table" } else { "key or table" };
        let tables = sections.iter().map(|section| section.name);
        let tables = tables.filter(|name| !name.is_empty() && !name.contains('.'));
        let known: Vec<&str> = keys.into_iter().chain(tables).collect();
        self.check_names(tree.get_ref(), "", what, &known);
        tree.into_inner()
    }

    /// Returns the result, or all errors in the order of the text.
    pub fn finish<T>(mut self, read: T) -> Result<T, Vec<Fault>> {
        self.faults.sort_by_key(|fault| fault.span.start);
        if self.faults.is_empty() { Ok(read) } else { Err(self.faults) }
    }

    /// Returns true if there was no error so far.
    pub fn is_ok(&self) -> bool {
        self.faults.is_empty()
    }

    /// Reports an error.
    pub fn fault(&mut self, span: Range<usize>, key: &str, message: String, help: Option<&str>) {
        if self.faults.len() < ERRORS_MAX {
            self.faults.push(Fault::at(self.text, span, key, message, help));
        }
    }

    /// Reports an error under the name of the first key. The position is that of the first key that
    /// is in the file and has no error of its own. If there is no such key, nothing is reported,
    /// because defaults are not at fault.
    pub fn refuse(&mut self, at: &Entries<'_, '_>, keys: &[&str], message: String, help: &str) {
        let span = keys.iter().find_map(|key| self.place(at, key));
        if let (Some(span), [key, ..]) = (span, keys) {
            self.fault(span, &at.path(key), message, Some(help));
        }
    }

    /// Returns the position of a key's value, if it was given and has no error of its own.
    pub fn place(&self, at: &Entries<'_, '_>, key: &str) -> Option<Range<usize>> {
        let span = at.get(key)?.span();
        self.faults.iter().all(|fault| fault.span != span).then_some(span)
    }

    /// Reads the keys above all tables.
    pub fn top<'t, 'i, T: Table>(&mut self, tree: &'t DeTable<'i>) -> (T, Entries<'t, 'i>) {
        let at = Entries { section: "", table: Some(tree), span: 0..0 };
        (T::read(self, &at), at)
    }

    /// Reads a table such as `[host]`.
    pub fn table<'t, 'i, T: Table>(&mut self, tree: &'t DeTable<'i>) -> (T, Entries<'t, 'i>) {
        let section = T::SECTION.name;
        let mut at = Entries { section, table: None, span: 0..0 };
        if let Some((name, value)) = tree.iter().find(|(name, _)| name.get_ref() == section) {
            match value.get_ref() {
                DeValue::Table(table) => at.table = Some(table),
                other => {
                    let message = format!("expected a table, found {}", kind(other));
                    let help = format!("write [{section}] and its keys below it");
                    self.fault(name.span(), section, message, Some(&help));
                }
            }
        }
        (self.entries(&at), at)
    }

    /// Reads the tables of a list such as `[[class]]`, up to a limit.
    pub fn tables<'t, 'i, T: Table>(
        &mut self,
        tree: &'t DeTable<'i>,
        most: usize,
    ) -> Vec<(T, Entries<'t, 'i>)> {
        let section = T::SECTION.name;
        let Some((name, value)) = tree.iter().find(|(name, _)| name.get_ref() == section) else {
            return Vec::new();
        };
        let DeValue::Array(values) = value.get_ref() else {
            let help = format!("write [[{section}]], with two brackets: there may be several");
            let message = "this is a single table, but a list of tables is expected".to_owned();
            self.fault(name.span(), section, message, Some(&help));
            return Vec::new();
        };
        self.list(values, [section, &format!("{section}es")], most, None)
    }

    /// Reads the tables of the list at `key`. If the value is no list, the result is empty, because
    /// that error was reported before.
    pub fn nested<'t, 'i, T: Table>(
        &mut self,
        at: &Entries<'t, 'i>,
        key: &str,
        name: &str,
        most: usize,
        help: &str,
    ) -> Vec<(T, Entries<'t, 'i>)> {
        match at.get(key).map(Spanned::get_ref) {
            Some(DeValue::Array(values)) => self.list(values, [name, key], most, Some(help)),
            _ => Vec::new(),
        }
    }

    fn list<'t, 'i, T: Table>(
        &mut self,
        values: &'t [Spanned<DeValue<'i>>],
        [one, many]: [&str; 2],
        most: usize,
        help: Option<&str>,
    ) -> Vec<(T, Entries<'t, 'i>)> {
        let section = T::SECTION.name;
        if let Some(extra) = values.get(most) {
            self.fault(extra.span(), section, format!("more than {most} {many}"), None);
        }
        let mut found = Vec::new();
        for value in values.iter().take(most) {
            match value.get_ref() {
                DeValue::Table(table) => {
                    let at = Entries { section, table: Some(table), span: value.span() };
                    found.push((self.entries(&at), at));
                }
                other => {
                    let message = format!("expected a {one}, found {}", kind(other));
                    self.fault(value.span(), section, message, help);
                }
            }
        }
        found
    }

    fn entries<T: Table>(&mut self, at: &Entries<'_, '_>) -> T {
        if let Some(table) = at.table {
            let known: Vec<&str> = T::SECTION.keys.iter().map(|key| key.name).collect();
            self.check_names(table, at.section, "key", &known);
        }
        T::read(self, at)
    }

    fn check_names(&mut self, table: &DeTable<'_>, of: &str, what: &str, known: &[&str]) {
        for name in table.keys().filter(|name| !known.contains(&name.get_ref().as_ref())) {
            let help = match base::nearest(name.get_ref(), known.iter().copied()).first() {
                Some(near) => format!("is it `{near}`?"),
                None => format!("there are {}", known.join(", ")),
            };
            let place = if of.is_empty() { String::new() } else { format!(" in [{of}]") };
            let message = format!("no {what} `{}` is known{place}", shown(name.get_ref()));
            self.fault(name.span(), of, message, Some(&help));
        }
    }

    /// Takes one key. Returns `None` if the key is missing, or if it is wrong and was reported.
    pub fn take<T>(
        &mut self,
        at: &Entries<'_, '_>,
        key: &str,
        convert: impl Fn(&DeValue<'_>) -> Converted<T>,
    ) -> Option<T> {
        let value = at.get(key)?;
        let wrong = match convert(value.get_ref()) {
            Ok(converted) => return Some(converted),
            Err(wrong) => wrong,
        };
        self.fault(value.span(), &at.path(key), wrong.message, Some(&wrong.help));
        None
    }

    /// Takes one key like [`Self::take`], with a default as it would be written in the file.
    pub fn take_or<T>(
        &mut self,
        at: &Entries<'_, '_>,
        key: &str,
        convert: impl Fn(&DeValue<'_>) -> Converted<T>,
        default: &'static str,
    ) -> T {
        self.take(at, key, &convert).unwrap_or_else(|| {
            let text = DeValue::String(default.into());
            let value = DeValue::parse(default).map_or(text, Spanned::into_inner);
            convert(&value).unwrap_or_else(|wrong| unreachable!("{key}: {}", wrong.message))
        })
    }
}
