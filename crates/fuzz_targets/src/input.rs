//! How an input is taken apart where it stands for more than one text.

/// The most pieces' lengths that an input gives.
const CUTS_MAX: usize = 15;

/// A stream of bytes and the pieces that it arrives in.
///
/// The low half of the first byte says how many of the bytes that follow are lengths of pieces,
/// taken in turn; the rest is the stream. Without lengths it comes in one piece.
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

    /// The pieces of another stream that is cut in the same way.
    pub(crate) fn pieces<'b>(&self, stream: &'b [u8]) -> Vec<&'b [u8]> {
        let mut lengths = self.lengths.iter().cycle();
        let mut pieces = Vec::new();
        let mut rest = stream;
        while !rest.is_empty() {
            // Every piece takes the stream on, or it would never end.
            let length = lengths.next().map_or(rest.len(), |n| usize::from(*n).max(1));
            let (piece, after) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

/// The texts of an input: no file of the kernel holds a zero byte of its own.
pub(crate) fn texts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == 0)
}

/// A small generator, for numbers that follow from the input and from nothing else.
pub(crate) struct Dice(u64);

impl Dice {
    /// Seeded with all bytes of an input (FNV-1a).
    pub(crate) fn new(data: &[u8]) -> Dice {
        let seed = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
        });
        // The generator stays at 0 forever.
        Dice(seed | 1)
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, these: &[T]) -> T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        these[(self.0 % these.len() as u64) as usize]
    }
}
