//! A decision as one short sentence, for the guest and a table's last column.

use super::reason::{Action, Decision};
use model::quantity::mib;
use std::fmt;

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (mib(self.from.0 as f64), mib(self.to.0 as f64));
        match self.action {
            Action::Grow | Action::Shrink => write!(f, "{from} -> {to} MiB: {}", self.why()),
            Action::Hold => write!(f, "{from} MiB: {}", self.why()),
        }
    }
}

impl Decision {
    /// Returns the reason alone, without the sizes.
    pub fn why(&self) -> String {
        let inputs = self.inputs.named();
        let known = |name: &str| {
            let (_, value) = inputs.iter().find(|(known, _)| *known == name)?;
            value.map(|value| value as f64)
        };
        let bounds: Vec<&str> = self.bounds.iter().map(|bound| bound.name()).collect();
        self.clause.reason(self.detail, &bounds, &known)
    }
}
