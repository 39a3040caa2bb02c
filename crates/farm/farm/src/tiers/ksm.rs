//! The kernel's page sharing (KSM), for a farm without a manager that drives KSM.
//!
//! [`policy::ksm`] decides the scan rate: high while guests start, and later as long as the
//! scanning pays off. This module reads and writes KSM's files. If KSM runs already, its settings
//! are left unchanged. If another program changes our settings, that program controls KSM from then
//! on.

use base::Bytes;
use hypervisor::KsmFiles;
use policy::ksm::{Sample, Settings};

use super::fault::{KSM, TierContext, refused};
use super::machine::Machine;
use super::record::Record;
use super::step::{Done, Undo};
use crate::Error;

/// State of KSM while we drive it.
#[derive(Debug)]
pub(super) struct Ksm {
    saved: Vec<(String, String)>,
    written: Vec<(String, String)>,
    step: policy::ksm::Ksm,
    files: KsmFiles,
    is_driven: bool,
}

impl Ksm {
    /// Starts to drive KSM. Returns `None` if KSM runs already.
    pub(super) fn open(machine: &Machine, record: &mut Record) -> Result<Option<Ksm>, Error> {
        let files = KsmFiles::at(&machine.path(""));
        let Some(run) = files.run() else {
            let what = "this kernel has no KSM (/sys/kernel/mm/ksm does not exist): remove `ksm` \
                        from [limits]";
            return Err(refused(KSM, what));
        };
        if run == 1 {
            return Ok(None);
        }
        let saved = files.settings();
        let step = policy::ksm::Ksm::new();
        let mut ksm = Ksm { saved, written: Vec::new(), step, files, is_driven: true };
        record.add(Undo::Ksm { saved: ksm.saved.clone(), written: Vec::new() })?;
        if ksm.files.is_advised() {
            ksm.write(record, vec![KsmFiles::no_advice()])?;
        }
        Ok(Some(ksm))
    }

    /// Reads the counters and writes the resulting settings. Returns a message for the operator.
    pub(super) fn turn(
        &mut self,
        record: &mut Record,
        guests: usize,
        arrivals: u64,
        now_ms: u64,
    ) -> Option<String> {
        if !self.is_driven {
            return None;
        }
        let is_as_written = |(name, text): &(String, String)| {
            self.files.setting(name).is_none_or(|now| now == *text)
        };
        if !self.written.iter().all(is_as_written) {
            self.is_driven = false;
            return Some(
                "Another program controls KSM now, so the farm does not control KSM any more"
                    .to_owned(),
            );
        }
        // A user configures KSM for a farm if the host has too little memory, so the host never
        // counts as having plenty.
        let sample = Sample {
            guests,
            // All guests of a farm belong to one user, and a user that sets `ksm` accepts the
            // sharing with others.
            owners: 1,
            arrivals,
            available: Bytes(0),
            set_point: Bytes(1),
            hysteresis: Bytes(0),
            counters: self.files.counters(),
        };
        let Settings { runs, pages_to_scan, sleep_ms } = self.step.step(&sample, now_ms)?;
        let mut new = Vec::new();
        let mut add = |name: &str, text: String| new.push((name.to_owned(), text));
        if runs {
            add("pages_to_scan", pages_to_scan.to_string());
            add("sleep_millisecs", sleep_ms.to_string());
        }
        add("run", u8::from(runs).to_string());
        self.write(record, new).err().map(|error| {
            self.is_driven = false;
            format!("The farm does not control KSM any more: {}", base::chain(&error))
        })
    }

    /// Records settings as ours, and then writes them.
    fn write(&mut self, record: &mut Record, new: Vec<(String, String)>) -> Result<(), Error> {
        for (name, text) in &new {
            self.written.retain(|(old, _)| old != name);
            self.written.push((name.clone(), text.clone()));
        }
        let (saved, written) = (self.saved.clone(), self.written.clone());
        record.renew(Undo::Ksm { saved, written })?;
        for (name, text) in new {
            let path = self.files.dir().join(&name);
            self.files
                .write(&name, &text)
                .tier(KSM, format!("cannot write {text:?} to {}", path.display()))?;
        }
        Ok(())
    }
}

/// Restores the settings as they were found. If another program, such as a manager, has changed our
/// settings, the settings are left to that program. The other program found our settings, and will
/// restore them.
pub(super) fn put_back(
    machine: &Machine,
    saved: &[(String, String)],
    written: &[(String, String)],
) -> Result<Done, Error> {
    let files = KsmFiles::at(&machine.path(""));
    // If the process was killed after it recorded the settings, some files may still have the
    // settings that were found.
    let is_ours = written.iter().all(|(name, text)| {
        let now = files.setting(name);
        let found = saved.iter().find(|(saved, _)| saved == name).map(|(_, text)| text);
        now.is_none() || now.as_ref() == Some(text) || now.as_ref() == found
    });
    if written.is_empty() {
        return Ok(Done::Undone);
    }
    if !is_ours {
        return Ok(Done::Later);
    }
    match files.put_back(saved).into_iter().next() {
        Some((path, error)) => Err(error).tier(KSM, format!("cannot restore {}", path.display())),
        None => Ok(Done::Undone),
    }
}
