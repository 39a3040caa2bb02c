//! Records as tables of fields, from which the code for reading, the code for writing, and the
//! documentation are generated.

use crate::Error;

/// A value in a record.
pub trait Value: Sized {
    /// Length in bytes.
    const BYTES: usize;

    /// Reads the value; `None` if the record ends before it.
    fn get(bytes: &[u8], at: usize) -> Option<Self>;

    /// Writes the value; bytes after the record's end are left out.
    fn put(&self, bytes: &mut [u8], at: usize);
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Value for $number {
            const BYTES: usize = size_of::<$number>();

            fn get(bytes: &[u8], at: usize) -> Option<Self> {
                Some(<$number>::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
            }

            fn put(&self, bytes: &mut [u8], at: usize) {
                if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                    *place = self.to_be_bytes();
                }
            }
        }
    )* };
}
numbers!(u8 u16 u32 u64 i16);

impl<const N: usize> Value for [u8; N] {
    const BYTES: usize = N;

    fn get(bytes: &[u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().copied()
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = *self;
        }
    }
}

/// A field that older records lack.
impl<T: Value> Value for Option<T> {
    const BYTES: usize = T::BYTES;

    fn get(bytes: &[u8], at: usize) -> Option<Self> {
        Some(T::get(bytes, at))
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        if let Some(value) = self {
            value.put(bytes, at);
        }
    }
}

/// Name, first byte and length of a field, for tests and documents.
pub type Row = (&'static str, usize, usize);

/// A record with a table.
pub trait Layout: Sized {
    /// Name of the record.
    const NAME: &'static str;
    /// Length with all fields.
    const BYTES: usize;
    /// Fields of the record.
    const ROWS: &'static [Row];

    /// Reads the record from the beginning of some bytes. The rest is ignored.
    fn read(bytes: &[u8]) -> Result<Self, Error>;

    /// Writes the record over the beginning of some bytes.
    fn write(&self, bytes: &mut [u8]);

    /// Returns the bytes of the record, with zeros between fields.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::BYTES];
        self.write(&mut bytes);
        bytes
    }
}

/// Declares a record: name, length, and for each field its type and its first byte.
macro_rules! record {
    ($(#[$about:meta])* $name:ident, $bytes:expr, {
        $($(#[$what:meta])* $field:ident: $type:ty = $at:expr;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$what])* pub $field: $type,)* }

        impl $crate::layout::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const BYTES: usize = $bytes;
            const ROWS: &'static [$crate::layout::Row] =
                &[$((stringify!($field), $at, <$type as $crate::layout::Value>::BYTES)),*];

            fn read(bytes: &[u8]) -> Result<Self, $crate::Error> {
                use $crate::layout::Value;
                // A record longer than this table is from a later release.
                Ok($name { $($field: <$type>::get(bytes, $at).ok_or($crate::Error::Short {
                    record: stringify!($name),
                    field: stringify!($field),
                    from: $at,
                    to: $at + <$type>::BYTES,
                    length: bytes.len(),
                })?,)* })
            }

            fn write(&self, bytes: &mut [u8]) {
                use $crate::layout::Value;
                $(self.$field.put(bytes, $at);)*
            }
        }
    };
}
pub(crate) use record;
