//! Recorded fields: name, unit, kind and source in one row of a table.

/// Behaviour of a field over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A value that grows from an unknown start; a lower value means a restart.
    Counter,
    /// Current value.
    Gauge,
}

/// Unit of a field, which stands last in the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Pages of 4 KiB.
    Pages,
    /// Ticks of the guest's kernel, at 100 Hz.
    Ticks,
    /// A plain number.
    Count,
    /// Thousandths.
    Permille,
}

/// A table of fields.
pub trait Field: Copy + std::fmt::Debug + Eq + Ord + 'static {
    /// Every field, in the order of the columns.
    const ALL: &'static [Self];

    /// Returns the index in a row.
    fn index(self) -> usize;
    /// Returns the name, with the unit last.
    fn name(self) -> &'static str;
    /// Returns the unit.
    fn unit(self) -> Unit;
    /// Returns the kind.
    fn kind(self) -> Kind;
    /// Returns the file or message that the field is read from.
    fn source(self) -> &'static str;
    /// Returns a short description.
    fn doc(self) -> &'static str;

    /// Returns the field with this name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }
}

/// Defines a table of fields: variant, name, unit, kind, source, description.
macro_rules! fields {
    ($(#[$doc:meta])* $name:ident {
        $($variant:ident = $text:literal, $unit:ident, $kind:ident, $source:literal,
            $words:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $words] $variant),+ }

        impl $crate::Field for $name {
            const ALL: &'static [$name] = &[$($name::$variant),+];

            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            fn unit(self) -> $crate::Unit {
                match self { $($name::$variant => $crate::Unit::$unit),+ }
            }

            fn kind(self) -> $crate::Kind {
                match self { $($name::$variant => $crate::Kind::$kind),+ }
            }

            fn source(self) -> &'static str {
                match self { $($name::$variant => $source),+ }
            }

            fn doc(self) -> &'static str {
                match self { $($name::$variant => $words),+ }
            }
        }
    };
}

pub(crate) use fields;
