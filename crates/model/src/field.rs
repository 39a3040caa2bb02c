//! What a recorded field is: its name, unit, kind and source, in one row of one table.

/// How a field behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It only grows, from a beginning that is not known; when it falls, it began again.
    Counter,
    /// It is as it is at the moment.
    Gauge,
}

/// What a field is counted in. It stands last in the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Pages of 4 KiB.
    Pages,
    /// Clock ticks of the guest's own kernel, a hundred a second.
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

    /// Its place in a row.
    fn index(self) -> usize;
    /// Its name, with the unit last.
    fn name(self) -> &'static str;
    /// What it is counted in.
    fn unit(self) -> Unit;
    /// How it behaves.
    fn kind(self) -> Kind;
    /// The file or message that it is read from.
    fn source(self) -> &'static str;
    /// What it is, in a few words.
    fn doc(self) -> &'static str;

    /// The field of that name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }
}

/// Defines a table of fields: variant, name, unit, kind, source, words.
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
