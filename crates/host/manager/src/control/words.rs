//! Values of the protocol from a fixed list of words.

use base::named;
use policy::arbiter::{Action, Clause, Mode};
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
        /// The virtual CPUs are stopped at this manager's request.
        Parked = "parked",
        /// Another program has paused the guest.
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

named! {
    /// Decision about a guest's size. Responses of the manager contain only the first three. Its
    /// journal also contains the others.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum SizeAction {
        /// The size stays.
        #[default]
        Hold = "hold",
        /// The guest gets more memory.
        Grow = "grow",
        /// The guest returns memory.
        Shrink = "shrink",
        /// The operator released the guest.
        Release = "release",
        /// The balloon does not move.
        Stuck = "stuck",
        /// Another manager controls the guest.
        LetGo = "let-go",
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

impl From<Action> for SizeAction {
    fn from(action: Action) -> SizeAction {
        match action {
            Action::Hold => SizeAction::Hold,
            Action::Grow => SizeAction::Grow,
            Action::Shrink => SizeAction::Shrink,
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

impl Named for Phase {
    fn name(self) -> &'static str {
        Phase::name(self)
    }

    fn of_name(name: &str) -> Option<Phase> {
        Phase::from_name(name)
    }
}

/// Writes the name of a value.
pub(super) fn serialize<T: Named, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map(Named::name).serialize(serializer)
}

/// Reads a value by its name.
pub(super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.and_then(|name| T::of_name(&name)))
}
