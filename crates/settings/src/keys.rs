//! How an owner says what may stand in its file.

/// A table of the file, such as `[host]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name; empty for what stands above all tables.
    pub name: &'static str,
    /// What may stand in it.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What holds without it, in words.
    pub default: &'static str,
    /// What it says.
    pub doc: &'static str,
}

/// A row of a table of keys.
pub const fn key(name: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { name, default, doc }
}
