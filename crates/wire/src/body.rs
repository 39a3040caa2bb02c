//! Numbers and texts of a message's body, big-endian.

/// The longest text in a message, in bytes: a reason has to fit a line of a table.
pub const MAX_TEXT: usize = 200;
/// The most bytes of a captured file in one message.
pub const MAX_CHUNK: usize = 2048;
/// The longest body: a chunk of a file with its numbers, and room to grow.
pub const MAX_BODY: usize = 2560;
/// Stands for a number that is missing. No counter gets there in the life of a machine.
const MISSING: u64 = u64::MAX;

/// What a message carries.
pub(crate) trait Body: Sized {
    fn write(&self, out: &mut Writer<'_>);
    /// `None` if the bytes are not such a body.
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

/// A struct with fields of its own and numbers that may be missing, which are sent in the order
/// in which they stand there.
macro_rules! numbers {
    ($(#[$attribute:meta])* pub struct $Name:ident {
        $($(#[$doc:meta])* pub $field:ident: $type:ty,)*
        numbers:
        $($(#[$number_doc:meta])* $number:ident,)*
    }) => {
        $(#[$attribute])*
        pub struct $Name {
            $($(#[$doc])* pub $field: $type,)*
            $($(#[$number_doc])* pub $number: Option<u64>,)*
        }

        impl $Name {
            /// How many of its numbers may be missing.
            pub(crate) const NUMBERS: usize = [$(stringify!($number)),*].len();

            fn numbers(&mut self) -> [&mut Option<u64>; Self::NUMBERS] {
                [$(&mut self.$number),*]
            }

            fn write_numbers(&self, out: &mut $crate::body::Writer<'_>) {
                $(out.number(self.$number);)*
            }

            fn read_numbers(&mut self, from: &mut $crate::body::Reader<'_>) -> Option<()> {
                for number in self.numbers() {
                    *number = from.number()?;
                }
                Some(())
            }
        }
    };
}
pub(crate) use numbers;

/// Writes a body.
pub struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn number(&mut self, number: Option<u64>) {
        self.u64(number.unwrap_or(MISSING));
    }

    /// A text with its length before it, cut at a character where it is too long.
    pub(crate) fn text(&mut self, text: &str) {
        self.text_within(text, MAX_TEXT);
    }

    /// The same with a limit of its own, below 256.
    pub(crate) fn text_within(&mut self, text: &str, most: usize) {
        let mut end = text.len().min(most);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.u8(end as u8);
        self.bytes(&text.as_bytes()[..end]);
    }
}

/// Reads a body; `None` where it is cut or not what it should be.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader(body)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn number(&mut self) -> Option<Option<u64>> {
        self.u64().map(|number| Some(number).filter(|number| *number != MISSING))
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        self.text_within(MAX_TEXT)
    }

    pub(crate) fn text_within(&mut self, most: usize) -> Option<String> {
        let length = usize::from(self.u8()?);
        if length > most {
            return None;
        }
        String::from_utf8(self.bytes(length)?.to_vec()).ok()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}
