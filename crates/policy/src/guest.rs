//! One interval of a guest: the rules are asked, the bounds are kept.
//!
//! ```text
//!   Program   ──┐
//!   History   ──┼─► step ─► GuestDecision { cpu, memory }, each with the rule that decided
//!   Resources ──┘
//! ```
//!
//! Plugging overrules unplugging, one CPU an interval, and the two groups do not
//! know each other: a fault in one holds that one only.

use counters::{History, Pages};
use rules::{Fault, Program};
use std::fmt;

/// What the guest has at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// CPUs online and present; `None` while another program manages them.
    pub cpus: Option<Cpus>,
    /// The size of the pool; `None` where there is none.
    pub pool: Option<Pages>,
}

/// The CPUs of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPUs online.
    pub online: u32,
    /// CPUs present, online or not.
    pub present: u32,
}

/// Which of the two rules of a group decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidingRule {
    /// HOTPLUG or MEMPLUG is true.
    Plug,
    /// HOTUNPLUG or MEMUNPLUG is true, and the other is not.
    Unplug,
    /// Neither is true.
    Neither,
}

/// The bound that stood in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleBound {
    /// CPU_MIN or CMM_MIN.
    Min,
    /// CPU_MAX or CMM_MAX.
    Max,
}

/// What to do with the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuAction {
    /// Leave them.
    Hold,
    /// One more.
    Plug,
    /// One less.
    Unplug,
}

/// What was decided about the CPUs, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuDecision {
    /// What to do.
    pub action: CpuAction,
    /// The rule that decided.
    pub rule: DecidingRule,
    /// The bound that turned it into a hold.
    pub bound: Option<RuleBound>,
}

/// What was decided about the pool, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolDecision {
    /// The size that it has.
    pub current: Pages,
    /// The size that it is to have; the same as `current` to leave it.
    pub target: Pages,
    /// The rule that decided.
    pub rule: DecidingRule,
    /// The bound that the target was clamped to.
    pub bound: Option<RuleBound>,
    /// The size of the step came out negative and counts as 0: the rules file has a
    /// mistake that is worth a warning.
    pub negative: Option<i64>,
}

/// One interval's decisions. A group that is not managed is `None`; a group whose
/// rules have no value in this interval holds, and the fault is the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuestDecision {
    /// What to do with the CPUs.
    pub cpu: Option<Result<CpuDecision, Fault>>,
    /// What to do with the pool.
    pub memory: Option<Result<PoolDecision, Fault>>,
}

/// What the daemon does before its first interval: CPUs and pool come into bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The number of CPUs to have online, where they are managed.
    pub cpus: Option<u32>,
    /// The size of the pool to have, where it is managed.
    pub pool: Option<Pages>,
}

/// The most CPUs that the rules allow and that are there to be plugged.
fn cpu_max(program_max: u32, present: u32) -> u32 {
    if program_max == 0 { present } else { program_max.min(present) }
}

/// Brings what was found into the bounds of the rules.
pub fn start(program: &Program, resources: Resources) -> Start {
    let cpus = program.cpu.as_ref().zip(resources.cpus).map(|(rules, cpus)| {
        let max = cpu_max(rules.max, cpus.present).max(rules.min);
        cpus.online.clamp(rules.min, max)
    });
    let pool = program
        .memory
        .as_ref()
        .zip(resources.pool)
        .map(|(rules, pool)| Pages(pool.0.clamp(rules.min, rules.max)));
    Start { cpus, pool }
}

/// Decides one interval. The history is full: the caller has made sure that the
/// rules find every snapshot that they look back to.
pub fn step(program: &Program, history: &History, resources: Resources) -> GuestDecision {
    let cpu = program.cpu.as_ref().zip(resources.cpus).map(|(rules, cpus)| {
        let rule = deciding(|| rules.hotplug(history), || rules.hotunplug(history))?;
        let (action, bound) = match rule {
            DecidingRule::Plug if cpus.online + 1 > cpu_max(rules.max, cpus.present) => {
                (CpuAction::Hold, Some(RuleBound::Max))
            }
            DecidingRule::Plug => (CpuAction::Plug, None),
            DecidingRule::Unplug if cpus.online <= rules.min => {
                (CpuAction::Hold, Some(RuleBound::Min))
            }
            DecidingRule::Unplug => (CpuAction::Unplug, None),
            DecidingRule::Neither => (CpuAction::Hold, None),
        };
        Ok(CpuDecision { action, rule, bound })
    });
    let memory = program.memory.as_ref().zip(resources.pool).map(|(rules, current)| {
        let steps = rules.steps(history)?;
        let rule = deciding(|| rules.memplug(history), || rules.memunplug(history))?;
        let step = match rule {
            DecidingRule::Plug => steps.dec,
            DecidingRule::Unplug => steps.inc,
            DecidingRule::Neither => 0,
        };
        let (size, negative) = match u64::try_from(step) {
            Ok(size) => (size, None),
            Err(_) => (0, Some(step)),
        };
        let wished = match rule {
            DecidingRule::Plug => current.0.saturating_sub(size),
            _ => current.0.saturating_add(size),
        };
        let target = wished.clamp(rules.min, rules.max);
        let bound = match rule {
            DecidingRule::Plug if size > current.0.saturating_sub(rules.min) => {
                Some(RuleBound::Min)
            }
            _ if wished < rules.min => Some(RuleBound::Min),
            _ if wished > rules.max => Some(RuleBound::Max),
            _ => None,
        };
        Ok(PoolDecision { current, target: Pages(target), rule, bound, negative })
    });
    GuestDecision { cpu, memory }
}

/// The plugging rule overrules; the other is not even asked then.
fn deciding(
    plug: impl Fn() -> Result<bool, Fault>,
    unplug: impl Fn() -> Result<bool, Fault>,
) -> Result<DecidingRule, Fault> {
    if plug()? {
        Ok(DecidingRule::Plug)
    } else if unplug()? {
        Ok(DecidingRule::Unplug)
    } else {
        Ok(DecidingRule::Neither)
    }
}

impl fmt::Display for CpuDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.rule, self.bound) {
            (DecidingRule::Plug, Some(_)) => "HOTPLUG is true, but CPU_MAX is reached",
            (DecidingRule::Plug, None) => "HOTPLUG: one CPU more",
            (DecidingRule::Unplug, Some(_)) => "HOTUNPLUG is true, but CPU_MIN is reached",
            (DecidingRule::Unplug, None) => "HOTUNPLUG: one CPU less",
            (DecidingRule::Neither, _) => "neither HOTPLUG nor HOTUNPLUG is true",
        })
    }
}

impl fmt::Display for PoolDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.current.0, self.target.0);
        match self.rule {
            DecidingRule::Plug => write!(f, "MEMPLUG: pool {from} -> {to} pages")?,
            DecidingRule::Unplug => write!(f, "MEMUNPLUG: pool {from} -> {to} pages")?,
            DecidingRule::Neither => f.write_str("neither MEMPLUG nor MEMUNPLUG is true")?,
        }
        match self.bound {
            Some(RuleBound::Min) => f.write_str(" (CMM_MIN)"),
            Some(RuleBound::Max) => f.write_str(" (CMM_MAX)"),
            None => Ok(()),
        }
    }
}
