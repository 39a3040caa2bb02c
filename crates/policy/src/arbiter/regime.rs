//! The regime that the host is in: the shorter it is, the larger the steps.

/// How much it matters that memory is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The host is short as it is every day.
    None,
    /// The host is half-way from there to its reserve.
    Low,
    /// Another guest is in need.
    Need,
    /// The host is below its reserve.
    Emergency,
}

impl Urgency {
    /// Of a thousand of the usual step: the shorter the host, the larger.
    pub(super) fn stride_permille(self) -> u64 {
        match self {
            Urgency::None => 1000,
            Urgency::Low => 1500,
            Urgency::Need => 2000,
            Urgency::Emergency => 3000,
        }
    }
}
