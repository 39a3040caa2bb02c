//! Urgency of the host's shortage. A greater urgency makes the steps larger.

/// The urgency of a request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The host is short of memory, and none of the conditions below applies.
    None,
    /// The host is half-way from its set point to its reserve.
    Low,
    /// Another guest is in need.
    Need,
    /// The host is below its reserve.
    Emergency,
}

impl Urgency {
    /// Returns the step in thousandths of the usual step, larger for a greater shortage.
    pub(super) fn stride_permille(self) -> u64 {
        match self {
            Urgency::None => 1000,
            Urgency::Low => 1500,
            Urgency::Need => 2000,
            Urgency::Emergency => 3000,
        }
    }
}
