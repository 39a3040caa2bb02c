//! EBCDIC for names, in the characters that code pages 037 and 1047 share.

/// Decodes a character of a name, by the rows of the code page.
fn decoded(byte: u8) -> char {
    let letter = |first: u8, from: u8| char::from(first + (byte - from));
    match byte {
        0x40 => ' ',
        0x4b => '.',
        0x4c => '<',
        0x4d => '(',
        0x4e => '+',
        0x50 => '&',
        0x5b => '$',
        0x5c => '*',
        0x5d => ')',
        0x5e => ';',
        0x60 => '-',
        0x61 => '/',
        0x6b => ',',
        0x6c => '%',
        0x6d => '_',
        0x6e => '>',
        0x6f => '?',
        0x7a => ':',
        0x7b => '#',
        0x7c => '@',
        0x7d => '\'',
        0x7e => '=',
        0x7f => '"',
        0x81..=0x89 => letter(b'a', 0x81),
        0x91..=0x99 => letter(b'j', 0x91),
        0xa2..=0xa9 => letter(b's', 0xa2),
        0xc1..=0xc9 => letter(b'A', 0xc1),
        0xd1..=0xd9 => letter(b'J', 0xd1),
        0xe2..=0xe9 => letter(b'S', 0xe2),
        0xf0..=0xf9 => letter(b'0', 0xf0),
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// Returns a name without the padding of blanks and zeros.
pub fn from_ebcdic(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| ![0x00, 0x40].contains(byte)).map_or(0, |at| at + 1);
    bytes[..end].iter().map(|byte| decoded(*byte)).collect()
}

/// Encodes a name in a field of fixed length, padded with blanks. A name that is too long is cut,
/// and an invalid character becomes a question mark.
pub fn to_ebcdic<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0x40; N];
    for (place, wanted) in field.iter_mut().zip(text.chars()) {
        let found = (0x40..=0xff).find(|byte| decoded(*byte) == wanted && wanted.is_ascii());
        *place = found.unwrap_or(0x6f);
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        // LINUX01 and SHARKST, like the start of the kernel's product name.
        assert_eq!(to_ebcdic::<8>("LINUX01"), [0xd3, 0xc9, 0xd5, 0xe4, 0xe7, 0xf0, 0xf1, 0x40]);
        for name in ["LINUX01", "TCPIP", "a-z_9", "", "A B"] {
            assert_eq!(from_ebcdic(&to_ebcdic::<8>(name)), name);
        }
        assert_eq!(from_ebcdic(&to_ebcdic::<4>("LONGER")), "LONG");
        assert_eq!(from_ebcdic(&[0xc1, 0x00, 0x00]), "A");
        assert_eq!(to_ebcdic::<1>("é"), [0x6f]);
        assert_eq!(from_ebcdic(&[0x01]), "\u{fffd}");
    }
}
