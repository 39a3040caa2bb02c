//! Texts after their lengths, in the format of mon_procd and mon_fsstatd.

use crate::Error;

/// Reads `N` texts, and returns them with the rest of the bytes.
pub(crate) fn read<'a, const N: usize>(
    bytes: &'a [u8],
    record: &'static str,
) -> Result<([Vec<u8>; N], &'a [u8]), Error> {
    let mut rest = bytes;
    let mut texts = [const { Vec::new() }; N];
    for text in &mut texts {
        let from = bytes.len() - rest.len();
        let length = bytes.len();
        let short = |to| Error::Short { record, field: "a text", from, to, length };
        let (head, after) = rest.split_first_chunk().ok_or_else(|| short(from + 2))?;
        let count = usize::from(u16::from_be_bytes(*head));
        let (found, after) =
            after.split_at_checked(count).ok_or_else(|| short(from + 2 + count))?;
        *text = found.to_vec();
        rest = after;
    }
    Ok((texts, rest))
}

/// Appends texts to some bytes, cut to a maximum total length.
pub(crate) fn write(texts: &[Vec<u8>], most: usize, bytes: &mut Vec<u8>) {
    for (number, text) in texts.iter().enumerate() {
        // Two bytes are reserved for the length of each remaining text.
        let left = most.saturating_sub(bytes.len() + 2 * (texts.len() - number));
        let text = &text[..text.len().min(left)];
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(text);
    }
}
