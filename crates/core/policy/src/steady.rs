//! A trial of rules under steady load, in which the rules must settle.
//!
//! The model is crude on purpose. CPUs are busy or idle, and memory is in use, cached or free.
//! Rules that plug and unplug in turn here, under a constant load, do so on a real guest too.

use crate::guest::{CpuAction, Cpus, Resources, step};
use base::Pages;
use model::counters::{Counter, CpuField, History};
use rules::Program;

/// Number of intervals in which the rules may settle, and number of intervals watched after that.
const SETTLE: usize = 120;
const WATCHED: usize = 60;
/// Largest number of reversals in the watched intervals that does not count as oscillation.
const REVERSALS: usize = 3;

/// A steady load at which the rules never settle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oscillation {
    /// Load: CPUs wanted, or the share of memory in use.
    pub load: f64,
    /// Changes of direction in the watched intervals.
    pub reversals: usize,
    /// Number of watched intervals.
    pub intervals: usize,
}

/// Returns the lowest steady CPU load at which the CPU rules plug and unplug in turn.
pub fn cpu(program: &Program, present: u32) -> Option<Oscillation> {
    program.cpu.as_ref()?;
    (0..=present * 20).map(|n| f64::from(n) / 20.0).find_map(|load| {
        let mut guest = Model::new(program, present);
        guest.busy = load;
        guest.oscillation(load, |before, now| i64::from(now.online) - i64::from(before.online))
    })
}

/// Returns the smallest steady memory use at which the memory rules plug and unplug in turn.
pub fn memory(program: &Program) -> Option<Oscillation> {
    program.memory.as_ref()?;
    (1..20).map(|n| f64::from(n) / 20.0).find_map(|load| {
        let mut guest = Model::new(program, 1);
        guest.used = (TOTAL as f64 * load) as i64;
        guest.oscillation(load, |before, now| now.pool - before.pool)
    })
}

/// Size of the model's memory: 1 GiB, in pages.
const TOTAL: i64 = 1 << 18;
/// Free memory below which the kernel reclaims, in pages.
const WATERMARK: i64 = TOTAL / 100;
/// Ticks a second.
const HERTZ: f64 = 100.0;

#[derive(Clone, Copy)]
struct State {
    online: u32,
    pool: i64,
}

struct Model<'a> {
    program: &'a Program,
    present: u32,
    busy: f64,
    used: i64,
    state: State,
    history: History,
    time: f64,
    user: f64,
    idle: f64,
    scanned: f64,
}

impl<'a> Model<'a> {
    fn new(program: &'a Program, present: u32) -> Model<'a> {
        Model {
            program,
            present,
            busy: 0.1,
            used: TOTAL / 4,
            state: State { online: 1, pool: 0 },
            history: History::new(program.counters.len(), program.intervals),
            time: 0.0,
            user: 0.0,
            idle: 0.0,
            scanned: 0.0,
        }
    }

    fn oscillation(
        mut self,
        load: f64,
        moved: impl Fn(State, State) -> i64,
    ) -> Option<Oscillation> {
        let mut direction = 0;
        let mut reversals = 0;
        for interval in 0..SETTLE + WATCHED {
            let before = self.state;
            self.interval();
            let now = moved(before, self.state).signum();
            if now != 0 {
                let turned = now == -direction;
                reversals += usize::from(turned && interval >= SETTLE);
                direction = now;
            }
        }
        let intervals = WATCHED;
        (reversals > REVERSALS).then_some(Oscillation { load, reversals, intervals })
    }

    fn interval(&mut self) {
        let seconds = self.program.update as f64;
        let online = f64::from(self.state.online);
        let busy = self.busy.min(online);
        self.time += seconds;
        self.user += busy * seconds * HERTZ;
        self.idle += (online - busy) * seconds * HERTZ;
        // Demand beyond the free memory makes the kernel scan without success in each interval.
        let free = TOTAL - self.state.pool - self.used;
        self.scanned += (WATERMARK - free).max(0) as f64 * seconds;

        let values: Vec<f64> = self.program.counters.iter().map(|c| self.value(c)).collect();
        self.history.advance().copy_from_slice(&values);
        if !self.history.is_full() {
            return;
        }
        let cpus = Cpus { online: self.state.online, present: self.present };
        let resources = Resources { cpus: Some(cpus), pool: Some(Pages(self.state.pool as u64)) };
        let decision = step(self.program, &self.history, resources);
        if let Some(Ok(cpu)) = decision.cpu {
            match cpu.action {
                CpuAction::Plug => self.state.online += 1,
                CpuAction::Unplug => self.state.online -= 1,
                CpuAction::Hold => {}
            }
        }
        if let Some(Ok(pool)) = decision.memory {
            // A pool cannot include memory that is in use.
            let most = (TOTAL - WATERMARK / 2).min(pool.target.0.min(TOTAL as u64) as i64);
            self.state.pool = most;
        }
    }

    fn value(&self, counter: &Counter) -> f64 {
        const KIB: f64 = 4.0;
        let free = (TOTAL - self.state.pool - self.used).max(WATERMARK / 2) as f64;
        match counter {
            Counter::Time => self.time,
            Counter::OnlineCpus => f64::from(self.state.online),
            Counter::LoadAvg => self.busy,
            Counter::RunnableProc => self.busy.ceil().max(1.0),
            Counter::Cpu(CpuField::User) => self.user,
            Counter::Cpu(CpuField::Idle) => self.idle,
            Counter::Cpu(CpuField::TotalTicks) => self.user + self.idle,
            Counter::Meminfo(name) => match &**name {
                "MemTotal" => TOTAL as f64 * KIB,
                "MemFree" | "MemAvailable" => free * KIB,
                _ => 0.0,
            },
            Counter::Vmstat(name) => match &**name {
                "pgscan_direct" | "pgscan_direct_normal" => self.scanned,
                "pgscan_kswapd" | "pgscan_kswapd_normal" => self.scanned,
                _ => 0.0,
            },
            Counter::Cpu(_) | Counter::Psi(..) | Counter::Host(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::{Machine, PRESETS, compile, parse};

    fn program(text: &str) -> Program {
        let (file, found) = parse(text.as_bytes());
        assert!(!rules::has_errors(&found), "{found:?}");
        compile(&file, &Machine::default()).0.expect("the rules are right")
    }

    #[test]
    fn no_published_configuration_oscillates() {
        for preset in PRESETS {
            let program = program(&preset.text());
            assert_eq!(cpu(&program, 4), None, "{}", preset.name);
            assert_eq!(memory(&program), None, "{}", preset.name);
        }
    }

    #[test]
    fn limits_too_near_to_each_other_oscillate() {
        let text = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\n\
                    HOTPLUG=\"idle < 50\"\nHOTUNPLUG=\"idle > 40\"\n";
        let found = cpu(&program(text), 4).expect("the rules oscillate");
        assert!(found.reversals > 20, "{found:?}");
        assert!((0.5..2.0).contains(&found.load), "{found:?}");
    }

    #[test]
    fn a_pool_that_takes_what_is_needed_oscillates() {
        let text = "UPDATE=\"1\"\nCMM_MIN=\"0\"\nCMM_MAX=\"262144\"\nCMM_INC=\"20000\"\n\
                    MEMPLUG=\"vmstat.pgscan_direct - vmstat.pgscan_direct[1] > 0\"\n\
                    MEMUNPLUG=\"meminfo.MemFree > 100\"\n";
        let found = memory(&program(text)).expect("the rules oscillate");
        assert!(found.reversals > 10, "{found:?}");
    }
}
