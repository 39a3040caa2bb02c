//! The inputs of a decision as one JSON object, and back: names and numbers, nothing nested.
//!
//! The object is JSON so that SQLite's own functions reach into it
//! (`inputs ->> 'host_available'`). A JSON library would be the only other use of one here.

use crate::bound::{INPUT_NAME_MAX, INPUTS_MAX, INPUTS_TEXT_MAX, cut};
use crate::journal::Word;
use std::fmt::Write as _;

/// Below this, every whole number can be told from the next: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The object. What is not a number in JSON, such as an infinity, is missing.
pub fn encode(inputs: &[(Word, Option<f64>)]) -> String {
    let mut out = String::with_capacity(32 * inputs.len() + 2);
    out.push('{');
    for (name, value) in inputs.iter().take(INPUTS_MAX) {
        if out.len() > 1 {
            out.push(',');
        }
        out.push('"');
        out.extend(cut(name, INPUT_NAME_MAX).chars().map(|c| if is_plain(c) { c } else { '_' }));
        out.push_str("\":");
        // Writing to a string cannot fail.
        let _ = match value.filter(|value| value.is_finite()) {
            Some(value) if value.fract() == 0.0 && value.abs() < EXACT => write!(out, "{value:.0}"),
            // In this form very small numbers have an exponent and not 300 zeroes.
            Some(value) => write!(out, "{value:?}"),
            None => write!(out, "null"),
        };
    }
    out.push('}');
    out
}

/// The inputs, or what is wrong with the text.
pub fn decode(text: &str) -> Result<Vec<(Word, Option<f64>)>, String> {
    if text.len() > INPUTS_TEXT_MAX {
        return Err(format!("its inputs have {} bytes; {INPUTS_TEXT_MAX} fit", text.len()));
    }
    let wrong = |part: &str| {
        format!("its inputs are no object of numbers: {:?} is not \"name\":number", cut(part, 40))
    };
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| wrong(text))?.trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    // Names have no commas, colons or quotes, so the text can be cut at them.
    let pair = |part: &str| {
        let (name, value) = part.split_once(':').ok_or_else(|| wrong(part))?;
        let name = name.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let name = name.filter(|name| name.chars().all(is_plain)).ok_or_else(|| wrong(part))?;
        let value = match value.trim() {
            "null" => None,
            number => {
                let number = number.parse::<f64>().ok().filter(|number| number.is_finite());
                Some(number.ok_or_else(|| wrong(part))?)
            }
        };
        Ok((Word::Owned(name.to_owned()), value))
    };
    inner.split(',').map(pair).collect()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
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
    fn what_is_no_number_is_missing_and_names_cannot_break_out() {
        let inputs = [(Word::from("a\",b:1}"), Some(f64::NAN)), (Word::from("é"), Some(2.0))];
        assert_eq!(encode(&inputs), r#"{"a__b_1_":null,"_":2}"#);
    }

    #[test]
    fn too_many_inputs_are_cut() {
        let many = vec![(Word::from("x".repeat(1000)), Some(f64::MIN_POSITIVE)); 1000];
        let text = encode(&many);
        assert_eq!(decode(&text).map(|read| read.len()), Ok(INPUTS_MAX));
    }

    #[test]
    fn other_texts_are_refused_with_the_part_that_is_wrong() {
        for wrong in
            ["", "[]", "{a:1}", r#"{"a"}"#, r#"{"a":"b"}"#, r#"{"a":1,}"#, r#"{"a":1e999}"#]
        {
            let found = decode(wrong).expect_err(wrong);
            assert!(found.contains("\"name\":number"), "{found}");
        }
        assert!(decode(&" ".repeat(INPUTS_TEXT_MAX + 1)).is_err());
    }
}
