//! One interval of a guest. The rules are evaluated, and the result is kept within the bounds.
//!
//! ```text
//!   Program   ──┐
//!   History   ──┼─► step ─► GuestDecision { cpu, memory }, each with the rule that decided
//!   Resources ──┘
//! ```
//!
//! Plugging overrides unplugging, and at most one CPU is changed in an interval. The groups of CPU
//! and memory rules are independent: after a fault, only the affected group stays unchanged.

use base::Pages;
use model::counters::History;
use rules::{Fault, Program};
use std::fmt;

/// The current resources of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// CPUs online and present; `None` while another program manages them.
    pub cpus: Option<Cpus>,
    /// Size of the pool; `None` without a pool.
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

/// The rule of a group that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidingRule {
    /// HOTPLUG or MEMPLUG is true.
    Plug,
    /// HOTUNPLUG or MEMUNPLUG is true, and the plugging rule of the group is false.
    Unplug,
    /// Both rules of the group are false.
    Neither,
}

/// The bound that limited an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleBound {
    /// CPU_MIN or CMM_MIN.
    Min,
    /// CPU_MAX or CMM_MAX.
    Max,
}

/// An action on the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuAction {
    /// Keep the number.
    Hold,
    /// Plug one CPU.
    Plug,
    /// Unplug one CPU.
    Unplug,
}

/// A decision about the CPUs, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuDecision {
    /// Action.
    pub action: CpuAction,
    /// Rule that decided.
    pub rule: DecidingRule,
    /// Bound that turned the action into a hold.
    pub bound: Option<RuleBound>,
}

/// A decision about the pool, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolDecision {
    /// Current size.
    pub current: Pages,
    /// Target size; the same as `current` for a hold.
    pub target: Pages,
    /// Rule that decided.
    pub rule: DecidingRule,
    /// Bound that the target was clamped to.
    pub bound: Option<RuleBound>,
    /// Size of the step if it was negative, which is an error in the rules file. A negative step
    /// counts as 0.
    pub negative: Option<i64>,
}

/// The decisions of one interval. An unmanaged group is `None`. A group that could not be evaluated
/// stays unchanged, with the fault as the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuestDecision {
    /// Decision about the CPUs.
    pub cpu: Option<Result<CpuDecision, Fault>>,
    /// Decision about the pool.
    pub memory: Option<Result<PoolDecision, Fault>>,
}

/// The state to establish before the first interval, with CPUs and pool within their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Number of CPUs to have online, if they are managed.
    pub cpus: Option<u32>,
    /// Size of the pool to have, if it is managed.
    pub pool: Option<Pages>,
}

/// Returns the number of CPUs that the rules allow, at most the CPUs of the guest.
fn cpu_max(program_max: u32, present: u32) -> u32 {
    if program_max == 0 { present } else { program_max.min(present) }
}

/// Brings the found resources into the bounds of the rules.
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

/// Decides one interval. The history must be full, so that the rules find every earlier snapshot
/// that they use.
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

/// Evaluates the unplugging rule only if the plugging rule is false.
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
