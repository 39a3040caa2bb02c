//! A decision in one short sentence: for the guest, the journal and a table's last column.

use super::reason::{Action, Clause, Decision};
use counters::Bytes;
use std::fmt;

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from.as_mib(), self.to.as_mib());
        match self.action {
            Action::Grow | Action::Shrink => write!(f, "{from} -> {to} MiB: {}", self.why()),
            Action::Hold => write!(f, "{from} MiB: {}", self.why()),
        }
    }
}

impl Decision {
    /// The reason alone, without the sizes.
    pub fn why(&self) -> Why<'_> {
        Why(self)
    }
}

/// The reason of a decision, to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Why<'a>(&'a Decision);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &self.0.inputs;
        match self.0.clause {
            Clause::Need => write!(f, "it needs {} more", size(i.need))?,
            Clause::Wish => write!(
                f,
                "the host has {} free, more than it wants, and it can use some",
                size(i.host_available)
            )?,
            Clause::SetPoint => write!(
                f,
                "the host has {} free and wants {}",
                size(i.host_available),
                size(i.host_set_point)
            )?,
            Clause::HostPressure => f.write_str("the host itself waits for memory")?,
            Clause::Shortage => f.write_str("another guest needs what it can spare")?,
            Clause::Emergency => write!(
                f,
                "the host has {} free, less than its reserve of {}",
                size(i.host_available),
                size(i.host_reserve)
            )?,
            Clause::Reservation => f.write_str("memory is reserved for a newcomer")?,
            Clause::Rule => f.write_str("a rule of the operator's")?,
            Clause::Request => f.write_str("its own rules asked for it")?,
            Clause::Limits => f.write_str("it was outside of its bounds")?,
            Clause::Pinned => f.write_str("pinned by the operator")?,
            Clause::Released => f.write_str("released by the operator")?,
            Clause::Strained => f.write_str("something in it waits for memory")?,
            Clause::Cooling => f.write_str("it was moved the other way not long ago")?,
            Clause::Stale | Clause::Unusable if !self.0.detail.is_empty() => {
                f.write_str(self.0.detail)?;
            }
            Clause::Stale => f.write_str("what is known of it is too old")?,
            Clause::Unusable => f.write_str("nothing can be asked of it")?,
            Clause::Stuck => f.write_str("its balloon does not move")?,
            Clause::Foreign => f.write_str("somebody else moves its balloon")?,
            Clause::NoYield => f.write_str("what it gave did not reach the host")?,
            Clause::TookBack => f.write_str("its kernel took memory back")?,
            Clause::Moving => f.write_str("it is on its way")?,
            Clause::Nothing => f.write_str("it has nothing to spare")?,
            Clause::Content => f.write_str("nobody needs anything")?,
            Clause::Blind => f.write_str("what the host has is not known")?,
        }
        let bounds: Vec<&str> = self.0.bounds.iter().map(|bound| bound.name()).collect();
        match bounds.as_slice() {
            [] => Ok(()),
            bounds => write!(f, " (bounded by {})", bounds.join(", ")),
        }
    }
}

/// An amount in the unit that reads best.
fn size(size: Option<Bytes>) -> String {
    match size {
        None => "an unknown amount".to_owned(),
        Some(size) if size.as_mib() < 4096 => format!("{} MiB", size.as_mib()),
        Some(size) => format!("{:.1} GiB", size.0 as f64 / f64::from(1 << 30)),
    }
}
