//! Inputs of a decision as a flat JSON object of names and numbers.
//!
//! SQLite's own functions can read JSON (`inputs ->> 'host_available'`).

use crate::bound::{INPUT_NAME_MAX, INPUTS_MAX, INPUTS_TEXT_MAX, cut};
use crate::journal::Word;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde_json::Number;
use std::fmt;

/// Limit below which a float represents every whole number exactly: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Encodes the inputs. A value that JSON cannot express, such as an infinity, becomes null.
pub fn encode(inputs: &[(Word, Option<f64>)]) -> String {
    let mut out = Vec::with_capacity(32 * inputs.len() + 2);
    let named = inputs.iter().take(INPUTS_MAX);
    let named = named.map(|(name, value)| (cut(name, INPUT_NAME_MAX), value.and_then(number)));
    // Writing names and numbers to memory cannot fail.
    let _ = serde_json::Serializer::new(&mut out).collect_map(named);
    String::from_utf8(out).unwrap_or_default()
}

/// Converts a value to a JSON number. A whole number gets no decimal point.
fn number(value: f64) -> Option<Number> {
    match value.fract() == 0.0 && value.abs() < EXACT {
        true => Some(Number::from(value as i64)),
        false => Number::from_f64(value),
    }
}

/// Returns the inputs in their order, or a description of the error.
pub fn decode(text: &str) -> Result<Vec<(Word, Option<f64>)>, String> {
    if text.len() > INPUTS_TEXT_MAX {
        return Err(format!(
            "its inputs have {} bytes, and at most {INPUTS_TEXT_MAX} are allowed",
            text.len()
        ));
    }
    let mut object = serde_json::Deserializer::from_str(text);
    let inputs = object.deserialize_map(Pairs).and_then(|inputs| object.end().map(|()| inputs));
    inputs
        .map_err(|error| format!("its inputs are not an object of \"name\":number pairs: {error}"))
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(Word, Option<f64>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names with numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Self::Value, A::Error> {
        let mut inputs = Vec::new();
        while let Some((name, value)) = pairs.next_entry::<String, Option<f64>>()? {
            inputs.push((Word::Owned(name), value));
        }
        Ok(inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_back_as_written() {
        let inputs = vec![
            (Word::from("host_available"), Some(3_328_599_654.0)),
            (Word::from("psi_permille"), Some(0.25)),
            (Word::from("need"), None),
            (Word::from("change"), Some(-1.5e-9)),
        ];
        assert_eq!(decode(&encode(&inputs)), Ok(inputs));
        assert_eq!(encode(&[]), "{}");
        assert_eq!(decode(" { } "), Ok(Vec::new()));
    }

    #[test]
    fn infinite_inputs_are_null_and_names_are_escaped() {
        let inputs = [(Word::from("a\",b:1}"), Some(f64::NAN)), (Word::from("é"), Some(2.0))];
        assert_eq!(encode(&inputs), r#"{"a\",b:1}":null,"é":2}"#);
    }

    #[test]
    fn too_many_inputs_are_cut() {
        let many = vec![(Word::from("x".repeat(1000)), Some(f64::MIN_POSITIVE)); 1000];
        let text = encode(&many);
        assert_eq!(decode(&text).map(|read| read.len()), Ok(INPUTS_MAX));
    }

    #[test]
    fn invalid_inputs_are_refused_with_the_expected_form() {
        for wrong in
            ["", "[]", "{a:1}", r#"{"a"}"#, r#"{"a":"b"}"#, r#"{"a":1,}"#, r#"{"a":1e999}"#]
        {
            let found = decode(wrong).expect_err(wrong);
            assert!(found.contains("\"name\":number"), "{found}");
        }
        assert!(decode(&" ".repeat(INPUTS_TEXT_MAX + 1)).is_err());
    }
}
