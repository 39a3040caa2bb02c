//! The names that the language itself defines on the left of `=`.

use base::named;

/// The target of a file's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A guest's daemon, `pinheadd`, which has counters of the guest's kernel.
    Guest,
    /// The manager of all guests, `pinhead host`, which has counters of guests and of the host.
    Host,
}

named! {
    /// The names that the language itself defines on the left of `=`, in their usual spelling. The
    /// names for a guest's file come first, then the names for a host's file.
    #[allow(missing_docs)]
    pub enum Name {
        Hotplug = "HOTPLUG", Hotunplug = "HOTUNPLUG", Memplug = "MEMPLUG",
        Memunplug = "MEMUNPLUG", CmmInc = "CMM_INC", CmmDec = "CMM_DEC", Update = "UPDATE",
        CpuMin = "CPU_MIN", CpuMax = "CPU_MAX", CmmMin = "CMM_MIN", CmmMax = "CMM_MAX",
        ShrinkGuest = "SHRINKGUEST", GrowGuest = "GROWGUEST", MayShrink = "MAYSHRINK",
        MayGrow = "MAYGROW", ShrinkSize = "SHRINKSIZE", GrowSize = "GROWSIZE",
    }
}

impl FileKind {
    /// Returns the names that a file of this kind can set.
    pub fn names(self) -> &'static [Name] {
        let (guest, host) = Name::ALL.split_at(Name::ShrinkGuest as usize);
        match self {
            FileKind::Guest => guest,
            FileKind::Host => host,
        }
    }
}

impl Name {
    /// Returns the kind of file that can set the name.
    pub fn kind(self) -> FileKind {
        if self >= Name::ShrinkGuest { FileKind::Host } else { FileKind::Guest }
    }

    /// Returns true if the name is a rule: its value is true or false, not a number or a size.
    pub fn is_rule(self) -> bool {
        use Name::{CmmDec, CmmInc, GrowSize, ShrinkSize};
        self.is_expression() && !matches!(self, CmmInc | CmmDec | ShrinkSize | GrowSize)
    }

    /// Returns true if the value is an expression, and not only digits.
    pub(super) fn is_expression(self) -> bool {
        use Name::{CmmMax, CmmMin, CpuMax, CpuMin, Update};
        !matches!(self, Update | CpuMin | CpuMax | CmmMin | CmmMax)
    }

    pub(super) fn from_text(text: &str) -> Option<Name> {
        Name::ALL.iter().copied().find(|n| n.name().eq_ignore_ascii_case(text))
    }
}
