//! Errors of rules files, of values for rules, and of recorded scenarios.

use std::path::PathBuf;

/// Rules, or values for them, that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// All errors of a rules file, as compilers show them.
    #[error("{0}")]
    Faults(String),
    #[error("There is no file {path}, and no preset of that name; {hint}")]
    NoFile { path: PathBuf, hint: String },
    #[error("There is no preset {}: {hint}", .name.escape_debug())]
    NoPreset { name: String, hint: String },
    #[error("{root} is not a captured tree: it has neither proc/ nor 0/proc/")]
    NoTree { root: PathBuf },
    #[error("The rules need {looks} snapshots, but the directory has only {found} (0/ to {}/)",
             .found - 1)]
    FewTrees { looks: usize, found: usize },
    #[error(
        "{name} has rules for the host's manager: choose a guest with --guest, or give a guest's \
         values with --values FILE, a JSON object such as {{\"guest.available\": [512, 520], \
         \"host.available\": 4096}}, newest first"
    )]
    NoValues { name: String },
    #[error("{name}: {fault}")]
    Snapshot { name: String, fault: SnapshotFault },
    #[error("{path} contains no scenario")]
    NoScenario { path: PathBuf },
}

/// A fault of a snapshot of a manager's values.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotFault {
    #[error("a snapshot may have at most {bytes_max} bytes")]
    Large { bytes_max: u64 },
    #[error("write one JSON object such as {{\"guest.available\": [512]}}")]
    NoObject,
    #[error("no counter is named `{key}`; they are named as in the rules, such as guest.available")]
    NoCounter { key: String },
    #[error("{key} has more than {most} readings")]
    Readings { key: String, most: usize },
    #[error("the readings of {key} are numbers, or null")]
    NoNumber { key: String },
}
