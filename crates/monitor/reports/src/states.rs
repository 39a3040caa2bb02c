//! States of virtual CPUs. The times in all states add up to 100 %.

use model::{GuestField, Over};

/// State of a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Runs the guest's code, or runs at all if guest time is not counted.
    Run,
    /// Runs the host's code for the guest: exits, and emulation of devices.
    Emulation,
    /// Halted while the host polls for the next work.
    HaltPoll,
    /// Ready while others run: steal.
    CpuWait,
    /// Waits for the host to bring in memory.
    PageWait,
    /// Waits for block I/O.
    IoWait,
    /// Held back by a CPU limit.
    Limit,
    /// Halted while its hypervisor waits for block I/O.
    AsyncIo,
    /// Halted for a moment within its work.
    IdleShort,
    /// Halted for longer, without work.
    Idle,
    /// Stopped, because its guest is parked.
    Parked,
    /// The remainder, if idle time is measured.
    Other,
}

impl State {
    const ALL: [State; 12] = {
        use State::*;
        [
            Run, Emulation, HaltPoll, CpuWait, PageWait, IoWait, Limit, AsyncIo, IdleShort, Idle,
            Parked, Other,
        ]
    };
}

/// Time of virtual CPUs by state: in nanoseconds, or in percent that sum to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct States {
    of: [Option<f64>; State::ALL.len()],
    /// Time by which the states exceeded the available time before they were scaled to fit. An
    /// excess of more than one tick means that two states count the same time.
    pub excess: f64,
}

/// Splits the time of one guest's virtual CPUs, in nanoseconds. Returns `None` if their run time,
/// run delay or number is not known.
pub fn states(guest: &Over<GuestField>) -> Option<States> {
    let get = |field| guest.get(field).map(|value| value as f64);
    let vcpus = get(GuestField::Vcpus)?;
    let time = vcpus * guest.covered_ms as f64 * 1e6;
    let ran = get(GuestField::VcpuRun)?;
    let cpu_wait = get(GuestField::VcpuDelay)?;
    if time <= 0.0 {
        return None;
    }
    // Polling and guest time are parts of the run time; the rest is emulation.
    let halt_poll = get(GuestField::HaltPoll).map(|ns| ns.min(ran));
    let of_run = ran - halt_poll.unwrap_or(0.0);
    let code = get(GuestField::VcpuGuest).map(|ns| ns.min(of_run));
    let page_wait = get(GuestField::PsiMemory);
    let io_wait = get(GuestField::VcpuBlockIo);
    let limit = get(GuestField::Throttled);
    let used = ran + cpu_wait + [page_wait, io_wait, limit].iter().flatten().sum::<f64>();
    let left = (time - used).max(0.0);
    let parked = get(GuestField::Parked).map(|ns| (ns * vcpus).min(left));
    let left = left - parked.unwrap_or(0.0);
    let halted = get(GuestField::HaltWait).map(|ns| ns.min(left));
    // Known parts of the halted time.
    let rest = halted.unwrap_or(left);
    let async_io = get(GuestField::OtherBlockIo).map(|ns| ns.min(rest));
    let rest = rest - async_io.unwrap_or(0.0);
    let idle_short = get(GuestField::IdleShort).map(|ns| ns.min(rest));
    let of = |state| match state {
        State::Run => Some(code.unwrap_or(of_run)),
        State::Emulation => code.map(|code| of_run - code),
        State::HaltPoll => halt_poll,
        State::CpuWait => Some(cpu_wait),
        State::PageWait => page_wait,
        State::IoWait => io_wait,
        State::Limit => limit,
        State::AsyncIo => async_io,
        State::IdleShort => idle_short,
        State::Idle => Some(rest - idle_short.unwrap_or(0.0)),
        State::Parked => parked,
        State::Other => halted.map(|halted| left - halted),
    };
    let split = States { of: State::ALL.map(of), excess: (used - time).max(0.0) };
    Some(split.times(time / time.max(used)))
}

impl States {
    /// Returns the time of a state, if it is known.
    pub fn get(&self, state: State) -> Option<f64> {
        self.of[state as usize]
    }

    /// Returns the sum of all states.
    pub fn sum(&self) -> f64 {
        self.of.iter().flatten().sum()
    }

    /// Returns the states in percent of their sum.
    pub fn percent(&self) -> Option<States> {
        let sum = self.sum();
        (sum > 0.0).then(|| {
            let percent = self.times(100.0 / sum);
            States { excess: self.excess * 100.0 / sum, ..percent }
        })
    }

    /// Adds the states of both. A state known in only one operand keeps that value.
    pub fn plus(&self, other: &States) -> States {
        let of = std::array::from_fn(|at| both(self.of[at], other.of[at], |a, b| a + b));
        States { of, excess: self.excess + other.excess }
    }

    /// Multiplies every state by a factor; the excess stays as it is.
    fn times(&self, factor: f64) -> States {
        States { of: self.of.map(|value| value.map(|value| value * factor)), ..*self }
    }
}

/// Adds both values, or returns the known one.
pub(crate) fn both<T>(one: Option<T>, other: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (None, value) | (value, None) => value,
        (Some(one), Some(other)) => Some(add(one, other)),
    }
}
