//! Numbers and texts of a message's body, big-endian.

/// Maximum length of a text in a message, in bytes. A reason has to fit a line of a table.
pub const MAX_TEXT: usize = 200;
/// Maximum number of bytes of a captured file in one message.
pub const MAX_CHUNK: usize = 2048;
/// Maximum length of a body: a chunk of a file with its numbers, and room for additions.
pub const MAX_BODY: usize = 2560;
/// The value of a missing number. No counter reaches it in the life of a machine.
const MISSING: u64 = u64::MAX;

/// The body of a message.
pub(crate) trait Body: Sized {
    fn write(&self, out: &mut Writer<'_>);
    /// Reads a body; `None` if the bytes are not valid.
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

/// Defines a body. Its fields are sent in the order of their definition. Numbers that may be
/// missing can follow the other fields, by name only. A text may have its own length limit.
macro_rules! body {
    (@write $out:ident, $value:expr) => { $crate::body::Body::write(&$value, $out) };
    (@write $out:ident, $value:expr, $most:ident) => { $out.text_within(&$value, $most) };
    (@read $from:ident) => { $crate::body::Body::read($from)? };
    (@read $from:ident, $most:ident) => { $from.text_within($most)? };
    ($(#[$attribute:meta])* pub struct $Name:ident {
        $($(#[$doc:meta])* pub $field:ident: $type:ty $(, at most $most:ident)?;)*
        $(numbers: $($(#[$number_doc:meta])* $number:ident;)+)?
    }) => {
        $(#[$attribute])*
        pub struct $Name {
            $($(#[$doc])* pub $field: $type,)*
            $($($(#[$number_doc])* pub $number: Option<u64>,)+)?
        }

        impl $crate::body::Body for $Name {
            fn write(&self, out: &mut $crate::body::Writer<'_>) {
                $($crate::body::body!(@write out, self.$field $(, $most)?);)*
                $($(out.number(self.$number);)+)?
            }

            fn read(from: &mut $crate::body::Reader<'_>) -> Option<$Name> {
                Some($Name {
                    $($field: $crate::body::body!(@read from $(, $most)?),)*
                    $($($number: from.number()?,)+)?
                })
            }
        }

        $(#[allow(dead_code, reason = "bodies of a fixed length need no sum")]
        impl $Name {
            /// Number of the body's numbers that may be missing.
            pub(crate) const NUMBERS: usize = [$(stringify!($number)),+].len();

            #[cfg(test)]
            fn numbers(&mut self) -> [&mut Option<u64>; Self::NUMBERS] {
                [$(&mut self.$number),+]
            }
        })?
    };
}
pub(crate) use body;

/// Types that are sent directly, by a writer's and a reader's method.
macro_rules! plain {
    ($($type:ty: $write:ident $read:ident),+) => {$(
        impl Body for $type {
            fn write(&self, out: &mut Writer<'_>) {
                out.$write(*self);
            }

            fn read(from: &mut Reader<'_>) -> Option<$type> {
                from.$read()
            }
        }
    )+};
}
plain!(u8: u8 u8, u32: u32 u32, u64: u64 u64, bool: flag flag);

/// Enums that are sent as a member's index.
macro_rules! place {
    ($($type:ty),+) => {$(
        impl $crate::body::Body for $type {
            fn write(&self, out: &mut $crate::body::Writer<'_>) {
                out.u8(*self as u8);
            }

            fn read(from: &mut $crate::body::Reader<'_>) -> Option<$type> {
                <$type>::ALL.get(usize::from(from.u8()?)).copied()
            }
        }
    )+};
}
pub(crate) use place;

impl Body for String {
    fn write(&self, out: &mut Writer<'_>) {
        out.text_within(self, MAX_TEXT);
    }

    fn read(from: &mut Reader<'_>) -> Option<String> {
        from.text_within(MAX_TEXT)
    }
}

impl<const N: usize> Body for [u8; N] {
    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(self);
    }

    fn read(from: &mut Reader<'_>) -> Option<[u8; N]> {
        from.array()
    }
}

/// A piece of a file, with its length before it.
impl Body for Vec<u8> {
    fn write(&self, out: &mut Writer<'_>) {
        let length = self.len().min(MAX_CHUNK);
        out.u16(length as u16);
        out.bytes(&self[..length]);
    }

    fn read(from: &mut Reader<'_>) -> Option<Vec<u8>> {
        let length = Some(usize::from(from.u16()?)).filter(|length| *length <= MAX_CHUNK)?;
        from.bytes(length).map(<[u8]>::to_vec)
    }
}

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

    pub(crate) fn flag(&mut self, flag: bool) {
        self.u8(u8::from(flag));
    }

    /// Writes a text with its length before it. A text longer than the limit (below 256) is
    /// truncated between two characters.
    pub(crate) fn text_within(&mut self, text: &str, most: usize) {
        let end = text.floor_char_boundary(most);
        self.u8(end as u8);
        self.bytes(&text.as_bytes()[..end]);
    }
}

/// A reader of a body. Its methods return `None` if the body is truncated or invalid.
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
