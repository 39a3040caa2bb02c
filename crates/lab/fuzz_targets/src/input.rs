//! Splitting of an input into several texts.

use base::{Rng, StableHash};
use settings::Fault;

/// Maximum number of lengths in an input.
const CUTS_MAX: usize = 15;

/// A stream of bytes, and the pieces in which it arrives.
///
/// The low half of the first byte is the number of lengths. Each length is a byte, and the lengths
/// are used in turn for the pieces. All bytes behind the lengths are the stream. Without lengths,
/// the stream is one piece.
pub(crate) struct Cut<'a> {
    pub(crate) stream: &'a [u8],
    lengths: &'a [u8],
}

impl<'a> Cut<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Cut<'a> {
        let Some((first, rest)) = data.split_first() else {
            return Cut { stream: data, lengths: &[] };
        };
        let count = (usize::from(*first) & CUTS_MAX).min(rest.len());
        let (lengths, stream) = rest.split_at(count);
        Cut { stream, lengths }
    }

    /// Cuts another stream into pieces of the same lengths.
    pub(crate) fn pieces<'b>(&self, stream: &'b [u8]) -> Vec<&'b [u8]> {
        let mut lengths = self.lengths.iter().cycle();
        let mut pieces = Vec::new();
        let mut rest = stream;
        while !rest.is_empty() {
            // Every piece must advance, or the loop would never end.
            let length = lengths.next().map_or(rest.len(), |n| usize::from(*n).max(1));
            let (piece, after) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

/// Splits an input into texts at zero bytes, which no file of the kernel contains.
pub(crate) fn texts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == 0)
}

/// Creates random numbers that depend only on the input.
pub(crate) fn dice(data: &[u8]) -> Rng {
    let mut hash = StableHash::default();
    hash.put(data);
    Rng::new(hash.finish())
}

pub(crate) fn one_of<T: Copy>(dice: &mut Rng, these: &[T]) -> T {
    these[dice.within(0, these.len() as u64 - 1) as usize]
}

/// Checks that the errors of a file of settings have positions in the file, and can be printed.
pub(crate) fn stand_in(text: &str, faults: &[Fault]) {
    assert!(!faults.is_empty());
    for fault in faults {
        assert!(text.get(fault.span.clone()).is_some(), "{fault}");
        assert!(fault.line > 0 && fault.column > 0 && !fault.message.is_empty());
        assert!(!fault.to_string().contains(char::is_control), "{fault:?}");
    }
}
