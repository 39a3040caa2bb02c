//! Values of the protocol from a fixed list of words.

use base::named;
use model::SizeAction;
use policy::arbiter::{Clause, Mode};
use policy::ksm::Phase;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

named! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GuestMode {
        /// The manager decides.
        #[default]
        Managed = "managed",
        /// The operator has fixed the size.
        Pinned = "pinned",
        /// The guest is not managed.
        Released = "released",
    }
}

named! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GuestRunState {
        /// The guest runs.
        Running = "running",
        /// The guest is parked, by this manager or by its `pinhead up`.
        Parked = "parked",
        /// The guest is paused for another reason.
        Paused = "paused",
        /// The guest is moving to another host.
        Migrating = "migrating",
        /// The guest has stopped.
        Dead = "dead",
        /// The hypervisor does not answer.
        #[default]
        Silent = "silent",
    }
}

impl From<Mode> for GuestMode {
    fn from(mode: Mode) -> GuestMode {
        match mode {
            Mode::Managed => GuestMode::Managed,
            Mode::Pinned(_) => GuestMode::Pinned,
            Mode::Released => GuestMode::Released,
        }
    }
}

/// A type of another crate with names in the protocol. A name from another version is read as
/// `None`.
pub(super) trait Named: Copy {
    fn name(self) -> &'static str;
    fn of_name(name: &str) -> Option<Self>;
}

impl Named for Clause {
    fn name(self) -> &'static str {
        Clause::name(self)
    }

    fn of_name(name: &str) -> Option<Clause> {
        Clause::of_name(name)
    }
}

impl Named for SizeAction {
    fn name(self) -> &'static str {
        SizeAction::name(self)
    }

    fn of_name(name: &str) -> Option<SizeAction> {
        SizeAction::from_name(name)
    }
}

impl Named for Phase {
    fn name(self) -> &'static str {
        Phase::name(self)
    }

    fn of_name(name: &str) -> Option<Phase> {
        Phase::from_name(name)
    }
}

pub(super) fn serialize<T: Named, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map(Named::name).serialize(serializer)
}

pub(super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.and_then(|name| T::of_name(&name)))
}
