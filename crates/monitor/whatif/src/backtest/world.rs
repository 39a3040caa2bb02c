//! Changes to the recorded world.

use crate::Change;
use crate::backtest::Error;
use crate::backtest::replay::policy;
use base::Bytes;

/// A world to simulate. By default it equals the recorded world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Policy that moves memory: its name, or a file of the manager's settings.
    pub policy: Option<String>,
    /// Memory of the host, or of all guests together.
    pub host: Option<Bytes>,
    /// Additional memory use of each guest, in thousandths of its recorded use.
    pub growth_permille: u64,
    /// Number of further guests, and the pattern of the guests that they copy. The further guests
    /// repeat the recorded use.
    pub more: Option<(u32, String)>,
}

impl World {
    /// Returns these changes for a player. A `Change` cannot be copied, so each player gets a new
    /// `Change`.
    pub fn change(&self) -> Result<Change, Error> {
        let mut change = self.policy.as_deref().map_or_else(|| Ok(Change::default()), policy)?;
        change.total = self.host;
        change.growth_permille = self.growth_permille;
        change.more.clone_from(&self.more);
        Ok(change)
    }
}
