//! Tables of keys as structs: a row for each key.

/// Defines a struct that is read from a table of the file. Each key has a row with its meaning, the
/// field, the conversion of its value, and its default.
///
/// The key has the field's name, unless another name follows the field in brackets. The default is
/// read as if it were in the file. After `else` the default is only described, and the field has
/// the `Default` of its type.
#[macro_export]
macro_rules! table {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident in $section:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(($key:literal))?: $type:ty =
                    $kind:expr, $(else $words:literal)? $($default:literal)?;
            )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl $crate::Table for $name {
            const SECTION: $crate::Section = $crate::Section {
                name: $section,
                keys: &[$($crate::Key {
                    name: $crate::table!(@key $field $($key)?),
                    default: concat!($($words)? $($default)?),
                    doc: concat!($($doc),+).trim_ascii(),
                },)*],
            };

            fn read(reader: &mut $crate::Reader<'_>, at: &$crate::Entries<'_, '_>) -> $name {
                $name {
                    $($field: $crate::table!(
                        @read reader, at, $crate::table!(@key $field $($key)?),
                        $kind, $(else $words)? $($default)?
                    ),)*
                }
            }
        }
    };
    (@read $reader:ident, $at:ident, $key:expr, $kind:expr, else $words:literal) => {
        $reader.take($at, $key, $kind).map(Into::into).unwrap_or_default()
    };
    (@read $reader:ident, $at:ident, $key:expr, $kind:expr, $default:literal) => {
        $reader.take_or($at, $key, $kind, $default).into()
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
