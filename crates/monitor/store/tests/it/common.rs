//! Helpers for the tests of the journal: generated guests and decisions, and a directory.

use model::GuestIdentity;
use std::ops::ControlFlow;
use std::path::PathBuf;
use store::{Decided, Decision, GuestKey, Journal, Policy, Query, Range, Word};

/// 2026-11-21 14:00:00 UTC.
pub const START_MS: i64 = 1_795_269_600_000;
pub const MIB: u64 = 1 << 20;

/// All times.
pub const EVER: Range = Range { from_ms: i64::MIN, to_ms: i64::MAX };

/// A directory that is removed on drop.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        let name = format!("pinhead-store-{}-{name}", std::process::id());
        let dir = Dir(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&dir.0).expect("the temporary directory can be written to");
        dir
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("journal.db")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // A remaining directory does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn guest(name: &str) -> GuestIdentity {
    GuestIdentity {
        uuid: format!("00000000-0000-0000-0000-{name:0>12}"),
        name: name.into(),
        class: "web".into(),
        pid: Some(4_242),
        start_ticks: Some(991),
        boot: "1".into(),
    }
}

pub fn decision(at_ms: i64, from_mib: u64, to_mib: u64) -> Decision {
    let action = match from_mib.cmp(&to_mib) {
        std::cmp::Ordering::Less => "grow",
        std::cmp::Ordering::Equal => "hold",
        std::cmp::Ordering::Greater => "shrink",
    };
    Decision {
        at_ms,
        policy: Policy::Active,
        action: action.into(),
        clause: "setpoint".into(),
        detail: String::new(),
        from_bytes: from_mib * MIB,
        to_bytes: to_mib * MIB,
        bounds: vec!["step".into(), "minimum".into()],
        inputs: vec![
            (Word::from("guest_available"), Some((900 * MIB) as f64)),
            (Word::from("need"), None),
            (Word::from("psi_permille"), Some(0.5)),
        ],
        acted: true,
    }
}

pub fn read(journal: &Journal, guests: &[GuestKey], range: Range) -> Vec<Decided> {
    let mut found = Vec::new();
    let query = Query { guests: guests.to_vec(), range, policy: None };
    let visit = |decided| {
        found.push(decided);
        ControlFlow::Continue(())
    };
    journal.decisions(&query, visit).expect("it can be read");
    found
}

pub fn keys(journal: &Journal) -> Vec<GuestKey> {
    journal.guests().expect("it can be read").into_iter().map(|row| row.key).collect()
}
