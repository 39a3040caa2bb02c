//! One interval of the daemon, in which the daemon samples the guest, decides and acts.

use crate::config::Loaded;
use crate::intervals;
use crate::link::Link;
use crate::log::{Log, Topic};
use crate::pace::Outcome;
use crate::plug::{
    self, CmmPool, CpuSet, Polarization, Pool, PresentCpus, balloon_deflates_on_oom,
};
use crate::readings::Slots;
use crate::tally::{Summary, Tally};
use crate::undo::Undo;
use base::{PAGE_KIB, Pages, chain};
use model::counters::History;
use policy::guest::{self, CpuAction, CpuDecision, PoolDecision, Resources};
use procfs::{Reader, Root};
use rules::Program;
use std::error::Error;
use wire::PoolKind;

/// The guest that the daemon runs in, with its counters and its controls.
pub struct Guest {
    cpus: plug::Cpus,
    present: PresentCpus,
    /// Isolated CPUs, which are not managed and do not count for the bounds of the rules.
    isolated: CpuSet,
    /// Set if this machine supports vertical polarization of its CPUs (s390x). While the
    /// polarization is vertical, the CPUs are not managed.
    polarized: bool,
    polarization: Polarization,
    /// CPUs that were online at the start, and are set online again when the machine changes to
    /// vertical polarization.
    found: CpuSet,
    cmm: Option<CmmPool>,
    /// Set if the kernel subtracts the balloon's size from MemTotal. The kernel never subtracts a
    /// CMM pool's size.
    total_shrinks: bool,
    reader: Reader,
    history: History,
    slots: Slots,
    dry_run: bool,
    tally: Tally,
    /// Size of the pool requested last.
    asked: Option<Pages>,
    /// State to restore; `None` in a dry run.
    pub undo: Option<Undo>,
}

impl Guest {
    /// Reads the guest's current state. Nothing is changed.
    pub fn new(
        root: &Root,
        cmm: Option<CmmPool>,
        loaded: &Loaded,
        dry_run: bool,
        log: &mut Log,
    ) -> Result<Guest, Box<dyn Error>> {
        let cpus = plug::Cpus::new(root);
        let present = PresentCpus::open(root)?;
        let polarization = cpus.polarization();
        let polarized = polarization != Polarization::None;
        if polarization == Polarization::Vertical && loaded.program.cpu.is_some() {
            log.info("The machine dispatches CPUs vertically: the daemon does not change them");
        }
        Ok(Guest {
            found: cpus.online()?,
            isolated: cpus.isolated(),
            cpus,
            polarized,
            polarization,
            total_shrinks: cmm.is_none() && balloon_deflates_on_oom(root) == Some(false),
            cmm,
            reader: Reader::open(root, &loaded.counters)?,
            history: History::new(loaded.counters.len(), loaded.program.intervals),
            slots: Slots::new(&loaded.counters),
            dry_run,
            tally: Tally {
                summary: Summary {
                    cpus_present: present.cpus().len() as u32,
                    ..Summary::default()
                },
                ..Tally::default()
            },
            present,
            asked: None,
            undo: None,
        })
    }

    /// Applies new rules. If that fails, the old rules remain.
    pub fn renew(&mut self, root: &Root, loaded: &Loaded) -> Result<(), Box<dyn Error>> {
        let reader = Reader::open(root, &loaded.counters)?;
        self.present.renew()?;
        self.reader = reader;
        self.history = History::new(loaded.counters.len(), loaded.program.intervals);
        self.slots = Slots::new(&loaded.counters);
        Ok(())
    }

    pub fn has_cmm(&self) -> bool {
        self.cmm.is_some()
    }

    pub fn present(&self) -> u32 {
        self.present.cpus().len() as u32
    }

    pub fn online(&self) -> Result<CpuSet, plug::Error> {
        self.cpus.online()
    }

    /// Returns the kind of pool that these rules use.
    pub fn pool_kind(&self, program: &Program) -> PoolKind {
        match (&program.memory, &self.cmm) {
            (None, _) => PoolKind::None,
            (Some(_), Some(_)) => PoolKind::Cmm,
            (Some(_), None) => PoolKind::Host,
        }
    }

    pub fn pool_size(&mut self, link: Option<&mut Link>) -> Option<Pages> {
        match (&mut self.cmm, link) {
            (Some(cmm), _) => cmm.size().ok(),
            // An unknown balloon size means that this daemon has never requested a size.
            (None, Some(link)) if link.grants() => Some(link.size().unwrap_or_default()),
            (None, _) => None,
        }
    }

    /// Drops the history, because it is older than a long sleep.
    pub fn forget(&mut self) {
        self.history.clear();
    }

    /// Brings CPUs and pool into the bounds of the rules.
    pub fn start(&mut self, program: &Program, mut link: Option<&mut Link>, log: &mut Log) {
        let Ok(online) = self.cpus.online() else { return };
        let pool = self.pool_size(link.as_deref_mut());
        let resources = self.resources(program, online.len() as u32, pool);
        let start = guest::start(program, resources);
        if let Some(wanted) = start.cpus {
            self.come_to(wanted, self.ours(&online), log);
        }
        if let Some(wanted) = start.pool.filter(|wanted| Some(*wanted) != pool) {
            log.debug("The pool's size is outside of CMM_MIN to CMM_MAX");
            self.set_pool(wanted, pool.unwrap_or_default(), link, log);
        }
    }

    fn come_to(&mut self, wanted: u32, mut online: u32, log: &mut Log) {
        while online != wanted && !self.dry_run {
            let is_plug = wanted > online;
            let moved = if is_plug { self.cpus.plug_one() } else { self.cpus.unplug_one() };
            match moved {
                Ok(Some(_)) if is_plug => online += 1,
                Ok(Some(_)) => online -= 1,
                Ok(None) => {
                    let (bound, why) = match is_plug {
                        true => ("CPU_MIN", self.cpus.nothing_to_plug()),
                        false => ("CPU_MAX", self.cpus.nothing_to_unplug()),
                    };
                    let what = format!(
                        "{bound} requires {wanted} online CPUs instead of {online}, but {why}"
                    );
                    return log.error_once(Topic::Cpu, what);
                }
                Err(error) => return log.error_once(Topic::Cpu, chain(&error)),
            }
        }
    }

    /// Returns the number of these CPUs that are not isolated, for comparison with the rules'
    /// bounds.
    fn ours(&self, cpus: &CpuSet) -> u32 {
        plug::without(cpus, &self.isolated).len() as u32
    }

    fn resources(&self, program: &Program, online: u32, pool: Option<Pages>) -> Resources {
        let ours = program.cpu.is_some() && self.polarization.allows_plugging();
        let online = match self.isolated.is_empty() {
            true => online,
            false => self.cpus.online().map_or(online, |online| self.ours(&online)),
        };
        let present = self.ours(self.present.cpus());
        Resources {
            cpus: ours.then_some(guest::Cpus { online, present }),
            pool: pool.filter(|_| program.memory.is_some()),
        }
    }

    /// Samples the guest once and applies the rules' decisions.
    pub fn look(
        &mut self,
        loaded: &Loaded,
        mut link: Option<&mut Link>,
        log: &mut Log,
        epoch_s: f64,
    ) -> Outcome {
        let row = self.history.advance();
        if let Err(error) = self.reader.read(epoch_s, row) {
            // With missing data nothing changes, so the incomplete row is removed.
            self.history.retract();
            log.error_once(Topic::Read, format_args!("{}: holding", chain(&error)));
            return Outcome::Acted;
        }
        log.works(Topic::Read);
        // CPUs may be added while the daemon runs. If the list cannot be read, the previous list is
        // used.
        let _ = self.present.renew();
        self.count_balloon(link.as_deref_mut());
        let pool = match &loaded.program.memory {
            Some(_) => self.pool_size(link.as_deref_mut()),
            None => None,
        };
        self.present_total(pool);
        self.repolarize(&loaded.program, log);
        let mut acted = self.notice_loss(pool, log);
        self.note(pool);
        if log.shows_intervals() {
            intervals::show(loaded, &self.history, epoch_s, pool, self.present());
        }
        if !self.history.is_full() {
            return Outcome::Gathering;
        }
        let online = self.tally.summary.cpus_online;
        let resources = self.resources(&loaded.program, online, pool);
        let decision = guest::step(&loaded.program, &self.history, resources);
        match decision.cpu {
            Some(Ok(cpu)) => acted |= self.act_on_cpus(cpu, log),
            Some(Err(fault)) => log.error_once(Topic::Cpu, loaded.fault("cpu", fault)),
            None => {}
        }
        match decision.memory {
            Some(Ok(memory)) => acted |= self.act_on_pool(memory, link, log),
            Some(Err(fault)) => log.error_once(Topic::Memory, loaded.fault("memory", fault)),
            None => {}
        }
        if acted { Outcome::Acted } else { Outcome::Still }
    }

    fn raw(&self, slot: Option<usize>) -> Option<f64> {
        self.history.get(slot?, 0)
    }

    /// Records the balloon's size from the guest kernel's counters.
    fn count_balloon(&mut self, link: Option<&mut Link>) {
        if let (Some([inflated, deflated]), Some(link)) = (self.slots.balloon, link) {
            let pages = self.raw(Some(inflated)).zip(self.raw(Some(deflated)));
            link.balloon.counted(pages.map(|(up, down)| Pages((up - down).max(0.0) as u64)));
        }
    }

    /// Adds the pool's size to MemTotal if the kernel has subtracted it, so that MemTotal does not
    /// depend on the kind of pool. The kernel subtracts the size of a balloon that it may not
    /// deflate itself.
    fn present_total(&mut self, pool: Option<Pages>) {
        if let (true, Some(slot), Some(pool)) = (self.total_shrinks, self.slots.total, pool) {
            self.history.newest()[slot] += (pool.0 * PAGE_KIB) as f64;
        }
    }

    /// Stops managing the CPUs while the machine's polarization is vertical, and resumes
    /// afterwards, as the original does.
    fn repolarize(&mut self, program: &Program, log: &mut Log) {
        if !self.polarized || program.cpu.is_none() {
            return;
        }
        let now = self.cpus.polarization();
        let before = std::mem::replace(&mut self.polarization, now);
        if now == before {
            return;
        }
        if now == Polarization::Vertical {
            log.info("The machine now dispatches CPUs vertically: the daemon does not change them");
            if !self.dry_run {
                for error in self.cpus.restore(&self.found) {
                    log.error(chain(&error));
                }
            }
        } else if now.allows_plugging() {
            log.info(
                "The machine no longer dispatches CPUs vertically: the rules change CPUs again",
            );
            self.start(program, None, log);
        }
    }

    /// Returns true if the kernel has taken pages back without a request. Before the kernel kills a
    /// process for memory, it takes pages from CMM and from a balloon that it may deflate.
    fn notice_loss(&mut self, pool: Option<Pages>, log: &Log) -> bool {
        let (Some(pool), Some(asked)) = (pool, self.asked) else { return false };
        let before = self.tally.summary.pool;
        // A pool that is still shrinking is larger than the requested size, so it has lost nothing.
        if pool >= before || pool >= asked {
            return false;
        }
        let taken = format!("memory ran out: the kernel took {} pages back", before.0 - pool.0);
        log.debug(&taken);
        self.tally.summary.reason = taken;
        self.tally.summary.actions.shrinks += 1;
        self.asked = Some(pool);
        true
    }

    /// Accepts a balloon size that the host has set without a request. The rules continue from the
    /// new size, and the change does not count as memory that the kernel took back.
    pub fn balloon_is_set(&mut self, size: Option<Pages>) {
        if self.cmm.is_none() {
            self.asked = size;
        }
    }

    fn note(&mut self, pool: Option<Pages>) {
        self.tally.looks = self.tally.looks.wrapping_add(1);
        self.tally.summary.pool = pool.unwrap_or_default();
        self.tally.summary.cpus_present = self.present();
        self.tally.summary.cpus_online = match self.raw(self.slots.online) {
            Some(online) => online as u32,
            None => self.cpus.online().map_or(self.tally.summary.cpus_online, |c| c.len() as u32),
        };
        self.tally.readings = self.slots.readings(&self.history, self.tally.readings);
    }

    fn act_on_cpus(&mut self, decision: CpuDecision, log: &mut Log) -> bool {
        let moved = match (decision.action, self.dry_run) {
            (CpuAction::Hold, _) => {
                log.works(Topic::Cpu);
                return false;
            }
            (_, true) => {
                let online = self.tally.summary.cpus_online;
                log.info(format_args!("dry run: {decision} ({online} online)"));
                return false;
            }
            (CpuAction::Plug, false) => self.cpus.plug_one(),
            (CpuAction::Unplug, false) => self.cpus.unplug_one(),
        };
        match moved {
            Ok(Some(cpu)) => {
                let verb = match decision.action {
                    CpuAction::Plug => "enabled",
                    _ => "disabled",
                };
                log.debug(format_args!("cpu{cpu} will be {verb}"));
                log.works(Topic::Cpu);
                self.tally.summary.reason = decision.to_string();
                self.count(decision.action);
                true
            }
            Ok(None) => {
                let why = match decision.action {
                    CpuAction::Plug => self.cpus.nothing_to_plug(),
                    _ => self.cpus.nothing_to_unplug(),
                };
                log.error_once(Topic::Cpu, format_args!("{decision}, but {why}"));
                false
            }
            Err(error) => {
                log.error_once(Topic::Cpu, chain(&error));
                false
            }
        }
    }

    fn count(&mut self, action: CpuAction) {
        let summary = &mut self.tally.summary;
        match action {
            CpuAction::Plug => {
                summary.actions.plugs += 1;
                summary.cpus_online += 1;
            }
            CpuAction::Unplug => {
                summary.actions.unplugs += 1;
                summary.cpus_online -= 1;
            }
            CpuAction::Hold => {}
        }
    }

    fn act_on_pool(
        &mut self,
        decision: PoolDecision,
        link: Option<&mut Link>,
        log: &mut Log,
    ) -> bool {
        if let Some(negative) = decision.negative {
            let name = match decision.rule {
                guest::DecidingRule::Plug => "cmm_dec",
                _ => "cmm_inc",
            };
            let line = format!("{name} went negative ({negative}), set it to 0.");
            log.error_once(Topic::Memory, line);
        } else {
            log.works(Topic::Memory);
        }
        let target = match (&self.cmm, &link) {
            (None, Some(link)) => link.balloon.reachable(decision.target, decision.current),
            _ => decision.target,
        };
        if target == decision.current {
            return false;
        }
        if self.dry_run {
            log.info(format_args!("dry run: {decision}"));
            return false;
        }
        let changed = self.set_pool(target, decision.current, link, log);
        if changed {
            self.tally.summary.reason = decision.to_string();
        }
        changed
    }

    fn set_pool(
        &mut self,
        wanted: Pages,
        current: Pages,
        link: Option<&mut Link>,
        log: &mut Log,
    ) -> bool {
        if self.dry_run {
            log.info(format_args!("dry run: {}", changing(wanted)));
            return false;
        }
        let kept = self.undo.as_mut().map_or(Ok(()), |undo| undo.before_pool_changes(current));
        if let Err(error) = kept {
            log.error_once(Topic::Memory, chain(&error));
            return false;
        }
        log.debug(changing(wanted));
        let done = match (&mut self.cmm, link) {
            (Some(cmm), _) => cmm.request(wanted),
            (None, Some(link)) => link.request(wanted),
            (None, None) => return false,
        };
        if let Err(error) = done {
            log.error_once(Topic::Memory, chain(&error));
            return false;
        }
        self.asked = Some(wanted);
        match wanted > current {
            true => self.tally.summary.actions.grows += 1,
            false => self.tally.summary.actions.shrinks += 1,
        }
        true
    }

    pub fn tally(&mut self, settled: bool) -> &Tally {
        self.tally.summary.settled = settled;
        &self.tally
    }

    /// Restores the state that was found at the start, and returns the errors. The flag is true if
    /// the pool stays unchanged because no host can take its pages back.
    pub fn restore(&mut self, undo: &Undo, link: Option<&mut Link>) -> (Vec<plug::Error>, bool) {
        let record = &undo.record;
        match (&mut self.cmm, link) {
            (Some(cmm), _) => (record.undo(&self.cpus, Some(cmm)), false),
            (None, Some(link)) if link.grants() => (record.undo(&self.cpus, Some(link)), false),
            (None, _) => (record.undo(&self.cpus, None), record.pool.is_some()),
        }
    }
}

fn changing(pages: Pages) -> String {
    // Scripts search for this line.
    format!("changing number of pages permanently reserved to {}", pages.0)
}

#[cfg(test)]
mod tests;
