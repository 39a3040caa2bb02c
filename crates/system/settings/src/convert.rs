//! Conversion of a TOML value to the right type, or to an error.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use base::duration::parse_ms;
use base::{Bad, Bytes, WHOLE, parse_percent, parse_size};
use toml::de::DeValue;

use crate::quantity::Share;

/// Maximum number of entries of a list.
const LIST_MAX: usize = 100;
/// Maximum number of bytes of a pattern, a name or a path. The kernel accepts no longer path.
const TEXT_MAX: usize = 4095;
/// Maximum number of characters shown of a wrong value.
const SHOWN_MAX: usize = 60;

/// The error of a value, and a correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The error.
    pub message: String,
    /// A correction.
    pub help: String,
}

/// A value of the right type, or its error.
pub type Converted<T> = Result<T, Wrong>;

/// Returns an error.
pub fn wrong<T>(message: String, help: &str) -> Converted<T> {
    Err(Wrong { message, help: help.to_owned() })
}

/// Escapes and shortens a piece of the file, for a message.
pub fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_MAX).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", short.escape_debug())
}

/// Returns the type of a value, in words.
pub fn kind(value: &DeValue<'_>) -> &'static str {
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

/// Converts a quantity with its unit, in quotes.
fn quantity<T>(
    value: &DeValue<'_>,
    read: fn(&str) -> Result<T, Bad>,
    example: &str,
) -> Converted<T> {
    let DeValue::String(text) = value else {
        let help = format!("write it in quotes with its unit, such as {example}");
        return wrong(format!("expected a quantity, found {}", kind(value)), &help);
    };
    let bad =
        |bad: Bad| Wrong { message: format!("`{}`: {}", shown(text), bad.kind), help: bad.help };
    read(text).map_err(bad)
}

/// Converts a size, such as `"256 MiB"`.
pub fn size(value: &DeValue<'_>) -> Converted<Bytes> {
    quantity(value, parse_size, "\"256 MiB\"")
}

/// Converts a text that is not empty.
pub fn words(value: &DeValue<'_>) -> Converted<String> {
    match value {
        DeValue::String(text) if text.is_empty() => {
            wrong("the text is empty".to_owned(), "remove the key, or write a text")
        }
        DeValue::String(text) if text.len() > TEXT_MAX || text.contains('\0') => {
            wrong(format!("`{}` is too long", shown(text)), "at most 4095 bytes fit")
        }
        DeValue::String(text) => Ok(text.as_ref().to_owned()),
        _ => wrong(format!("expected a text, found {}", kind(value)), "write it in quotes"),
    }
}

/// Converts a list of texts.
pub fn list(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let help = "write a list of texts, such as [\"web*\", \"db?\"]";
    let DeValue::Array(entries) = value else {
        return wrong(format!("expected a list, found {}", kind(value)), help);
    };
    if entries.len() > LIST_MAX {
        return wrong(format!("the list has {} entries", entries.len()), "write at most 100");
    }
    entries.iter().map(|entry| words(entry.get_ref())).collect()
}

/// Converts a whole number within a range.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&DeValue<'_>) -> Converted<T>
where
    T: Copy + Display + PartialOrd + TryFrom<u32>,
{
    move |value| {
        let (low, high) = (range.start(), range.end());
        let help = format!("write a whole number from {low} to {high}, without quotes");
        let DeValue::Integer(number) = value else {
            return wrong(format!("expected a number, found {}", kind(value)), &help);
        };
        let parsed = u32::from_str_radix(number.as_str(), number.radix()).ok();
        match parsed.and_then(|parsed| T::try_from(parsed).ok()) {
            Some(parsed) if range.contains(&parsed) => Ok(parsed),
            _ => wrong(format!("{} is out of range", shown(number.as_str())), &help),
        }
    }
}

/// Converts a name to the value in `all` that has this name.
pub fn one_of<T: Copy>(
    what: &'static str,
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl Fn(&DeValue<'_>) -> Converted<T> {
    move |value| {
        let text = words(value)?;
        all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|one| format!("\"{}\"", name(*one))).collect();
            let message = format!("no {what} `{}`", shown(&text));
            Wrong { message, help: format!("there are {}", names.join(", ")) }
        })
    }
}

/// Converts a value, and checks a condition on the result.
pub fn checked<T>(
    convert: impl Fn(&DeValue<'_>) -> Converted<T>,
    holds: impl Fn(&T) -> bool,
    message: &'static str,
    help: &'static str,
) -> impl Fn(&DeValue<'_>) -> Converted<T> {
    move |value| match convert(value)? {
        value if holds(&value) => Ok(value),
        _ => wrong(message.to_owned(), help),
    }
}

/// Converts a path, which may be relative.
pub fn path(value: &DeValue<'_>) -> Converted<PathBuf> {
    words(value).map(PathBuf::from)
}

/// Accepts a list of tables. [`crate::Reader::nested`] reads the contents of the tables, which have
/// their own positions.
pub fn tables<T>(help: &'static str) -> impl Fn(&DeValue<'_>) -> Converted<Vec<T>> {
    move |value| match value {
        DeValue::Array(_) => Ok(Vec::new()),
        _ => wrong(format!("expected a list, found {}", kind(value)), help),
    }
}

/// Converts true or false.
pub fn truth(value: &DeValue<'_>) -> Converted<bool> {
    match value {
        DeValue::Boolean(truth) => Ok(*truth),
        _ => wrong(format!("expected true or false, found {}", kind(value)), "write true or false"),
    }
}

/// Converts a share or a size, such as `"25%"` or `"256 MiB"`.
pub fn share(value: &DeValue<'_>) -> Converted<Share> {
    quantity(value, Share::parse, "\"25%\" or \"256 MiB\"")
}

/// Converts a share, such as `"12.5%"`, to thousandths.
pub fn permille(value: &DeValue<'_>) -> Converted<u64> {
    quantity(value, |text| parse_percent(text, WHOLE), "\"12.5%\"")
}

/// Converts a time, such as `"1s"`, to milliseconds.
pub fn time(value: &DeValue<'_>) -> Converted<u64> {
    quantity(value, parse_ms, "\"1s\"")
}
