//! The surroundings of a manager: its user's directories and the host's memory.

use super::Share;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use base::Bytes;
use hypervisor::Owner;

/// Surroundings that the defaults depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// True if the manager runs as root.
    pub is_root: bool,
    /// `$XDG_RUNTIME_DIR`, with the sockets of a user's libvirt.
    pub runtime_dir: Option<PathBuf>,
    /// Directory of this user's sockets: see [`own_dir`].
    pub own_dir: Option<PathBuf>,
    /// Reason for a missing `own_dir`, with advice.
    pub no_own_dir: Option<String>,
    /// `$XDG_STATE_HOME`, with the state of a user's programs.
    pub state_dir: Option<PathBuf>,
    /// Memory of the host, to compare shares with sizes.
    pub host_total: Option<Bytes>,
    /// Budget of the command line, which overrides the budget of the file.
    pub budget: Option<Share>,
}

impl Place {
    /// Returns the surroundings of this process.
    pub fn of_this_process(host_total: Option<Bytes>) -> Place {
        let dir = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let dir = |name: &str| dir(name).filter(|path| path.is_absolute());
        let own_dir = own_dir();
        Place {
            is_root: rustix::process::geteuid().is_root(),
            runtime_dir: dir("XDG_RUNTIME_DIR"),
            no_own_dir: own_dir.as_ref().err().map(ToString::to_string),
            own_dir: own_dir.ok(),
            state_dir: dir("XDG_STATE_HOME")
                .or_else(|| dir("HOME").map(|home| home.join(".local/state"))),
            host_total,
            budget: None,
        }
    }

    /// Returns the path of the journal, which is below /var/lib for root, and in the state
    /// directory for other users.
    pub fn journal(&self) -> Option<PathBuf> {
        match self.is_root {
            true => Some("/var/lib/pinhead/journal.db".into()),
            false => self.state_dir.as_ref().map(|dir| dir.join("pinhead/journal.db")),
        }
    }
}

/// Returns the directory of this user's sockets: below /run for root, and in the session's
/// directory for others. Without a session, it is a subdirectory of the directory for temporary
/// files. A missing subdirectory is created. A subdirectory created by another user is an error.
pub fn own_dir() -> io::Result<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match session.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        _ if rustix::process::geteuid().is_root() => Ok("/run/pinhead".into()),
        Some(dir) => Ok(dir.join("pinhead")),
        None => temporary(&std::env::temp_dir()),
    }
}

fn temporary(below: &Path) -> io::Result<PathBuf> {
    let dir = below.join(format!("pinhead-{}", rustix::process::geteuid().as_raw()));
    let no_place = |kind, fault: String, advice: &str| {
        let text = format!(
            "XDG_RUNTIME_DIR is not set to a directory, and {} {fault}: {advice}set \
             XDG_RUNTIME_DIR to a directory that belongs to this user only",
            dir.display()
        );
        io::Error::new(kind, text)
    };
    let cannot = |e: io::Error| no_place(e.kind(), format!("cannot be made ({e})"), "");
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    let refused =
        |fault: String, advice: &str| Err(no_place(io::ErrorKind::PermissionDenied, fault, advice));
    // A link may belong to another user, and lead to any place.
    let found = std::fs::symlink_metadata(&dir).map_err(cannot)?;
    match Owner::of_directory(&dir) {
        // In /tmp only a file's owner can remove the file, so there is no advice to remove it.
        _ if Owner(found.uid()) != Owner::own() => {
            refused(format!("belongs to user {}", found.uid()), "")
        }
        Some(owner) if owner == Owner::own() && !found.is_symlink() => Ok(dir),
        _ => refused("is a link, or open to other users".to_owned(), "remove it, or "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::testing::Tree;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn own_directory_without_a_session_is_the_users_alone() {
        let dir = Tree::create();
        let own = temporary(dir.path()).unwrap();
        assert!(own.ends_with(format!("pinhead-{}", rustix::process::geteuid().as_raw())));
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(temporary(dir.path()).unwrap(), own, "the directory exists already");
        fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        let error = temporary(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is a link, or open to other users: remove it, or set"), "{error}");
        fs::remove_dir(&own).unwrap();
        symlink("/", &own).unwrap();
        assert!(temporary(dir.path()).is_err(), "a link is refused");
    }

    #[test]
    fn own_directory_names_its_owner_when_another_user_made_it() {
        let dir = Tree::create();
        let own = temporary(dir.path()).unwrap();
        match chown(&own, Some(65_534), None) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            changed => changed.unwrap(),
        }
        let error = temporary(dir.path()).unwrap_err().to_string();
        let says = format!("{} belongs to user 65534: set XDG_RUNTIME_DIR", own.display());
        assert!(error.contains(&says) && !error.contains("remove it"), "{error}");
    }

    #[test]
    fn own_directory_is_named_when_it_cannot_be_made() {
        let dir = Tree::create();
        let error = temporary(&dir.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none/pinhead-") && error.contains("cannot be made"), "{error}");
        let error = crate::Error::NoPlace { why: error }.to_string();
        assert!(
            error.contains("none/pinhead-") && error.ends_with("`socket` in [control]"),
            "{error}"
        );
    }

    #[test]
    fn the_journal_is_where_its_owner_may_write() {
        let journal = |is_root, state_dir: Option<&str>| {
            let place =
                Place { is_root, state_dir: state_dir.map(PathBuf::from), ..Place::default() };
            place.journal()
        };
        assert_eq!(journal(true, Some("/state")), Some("/var/lib/pinhead/journal.db".into()));
        assert_eq!(journal(false, Some("/state")), Some("/state/pinhead/journal.db".into()));
        assert_eq!(journal(false, None), None);
    }
}
