//! What is to be different.

use crate::Error;
use crate::replay::policy;
use base::Bytes;
use whatif::Change;

/// Another world than the one that was recorded. By default it is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// By whose rules memory is moved: a policy's name, or a file of the manager's settings.
    pub policy: Option<String>,
    /// The memory of the host, or what guests may use together.
    pub host: Option<Bytes>,
    /// So much more than they used does each guest use, in thousandths.
    pub growth_permille: u64,
    /// So many more guests like those of a pattern, which do at each moment what they did.
    pub more: Option<(u32, String)>,
}

impl World {
    /// The same for a player. What a change holds cannot be copied: each player gets its own.
    pub fn change(&self) -> Result<Change, Error> {
        let mut change = self.policy.as_deref().map_or_else(|| Ok(Change::default()), policy)?;
        change.total = self.host;
        change.growth_permille = self.growth_permille;
        change.more.clone_from(&self.more);
        Ok(change)
    }
}
