//! Values of the protocol that are one word of a few.

use base::named;
use policy::arbiter::{Action, Clause, Mode};
use policy::ksm::Phase;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

named! {
    /// Who decides about a guest.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GuestMode {
        /// The manager.
        #[default]
        Managed = "managed",
        /// The operator has fixed its size.
        Pinned = "pinned",
        /// Nobody: nothing is asked of it.
        Released = "released",
    }
}

named! {
    /// How a guest runs.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GuestRunState {
        /// It runs.
        Running = "running",
        /// Its virtual CPUs stand still because this manager was asked for it.
        Parked = "parked",
        /// Somebody else has paused it.
        Paused = "paused",
        /// It is moving to another host.
        Migrating = "migrating",
        /// It has stopped.
        Dead = "dead",
        /// Its hypervisor does not answer.
        #[default]
        Silent = "silent",
    }
}

named! {
    /// What was decided about a guest's size. The manager answers with the first three; its
    /// journal has the others too.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum SizeAction {
        /// It stays.
        #[default]
        Hold = "hold",
        /// It gets more.
        Grow = "grow",
        /// It gives some.
        Shrink = "shrink",
        /// The operator let it go.
        Release = "release",
        /// Its balloon does not move.
        Stuck = "stuck",
        /// Another manager has it.
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

/// A type of another crate that the protocol calls by a name. A name of another version is none.
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

/// Reads the value of a name.
pub(super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.and_then(|name| T::of_name(&name)))
}
