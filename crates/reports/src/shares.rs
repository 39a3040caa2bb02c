//! What adds up: the states of virtual CPUs to 100, the host's memory to its total.

use crate::Facts;
use crate::facts::{MIB, PAGE, both};
use model::{GuestField, HostField, Over, TierField};

/// What a virtual CPU does with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs the guest's code; where guest time is not counted, it runs at all.
    Run,
    /// It runs the host's code for the guest: exits, and emulation of devices.
    Emulation,
    /// It is halted, and the host polls for its next work.
    HaltPoll,
    /// It is ready, and others run: steal.
    CpuWait,
    /// It waits for the host to bring memory.
    PageWait,
    /// It waits for block I/O.
    IoWait,
    /// It is held back by a limit.
    Limit,
    /// It is halted, and its hypervisor waits for block I/O.
    AsyncIo,
    /// It is halted for a moment within its work.
    IdleShort,
    /// It is halted for longer: it has nothing to do.
    Idle,
    /// It stands still: its guest is parked.
    Parked,
    /// What is left where idle time is measured.
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

/// Where the time of virtual CPUs went: in nanoseconds, or in hundredths that sum to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct States {
    of: [Option<f64>; State::ALL.len()],
    /// How much more the states were than there was time, before they were scaled to fit. More
    /// than a tick's worth says that two states count the same time.
    pub excess: f64,
}

/// Splits the time of one guest's virtual CPUs, in nanoseconds; `None` where their run time,
/// their run delay or their number is not known.
pub fn states(guest: &Over<GuestField>) -> Option<States> {
    let get = |field| guest.get(field).map(|value| value as f64);
    let vcpus = get(GuestField::Vcpus)?;
    let time = vcpus * guest.covered_ms as f64 * 1e6;
    let ran = get(GuestField::VcpuRun)?;
    let cpu_wait = get(GuestField::VcpuDelay)?;
    if time <= 0.0 {
        return None;
    }
    // Polling is a part of the run time, and guest time another; what is left is emulation.
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
    // Parts of the halted time, as far as they are known.
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
    /// One of them, as far as it is known.
    pub fn get(&self, state: State) -> Option<f64> {
        self.of[state as usize]
    }

    /// All states together.
    pub fn sum(&self) -> f64 {
        self.of.iter().flatten().sum()
    }

    /// In hundredths of all of them.
    pub fn percent(&self) -> Option<States> {
        let sum = self.sum();
        (sum > 0.0).then(|| {
            let percent = self.times(100.0 / sum);
            States { excess: self.excess * 100.0 / sum, ..percent }
        })
    }

    /// The states of both together. What is known of one only is that one's.
    pub fn plus(&self, other: &States) -> States {
        let of = std::array::from_fn(|at| both(self.of[at], other.of[at], |a, b| a + b));
        States { of, excess: self.excess + other.excess }
    }

    /// Every state times a factor; the excess is left as it was.
    fn times(&self, factor: f64) -> States {
        States { of: self.of.map(|value| value.map(|value| value * factor)), ..*self }
    }
}

/// What guests stand for in the host's memory, in mebibytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GuestStorage {
    /// Their memory, each for itself, what KSM shares counted once.
    pub own: f64,
    /// What their hypervisors have for themselves.
    pub hypervisors: f64,
    /// What guests have together, once: templates and programs, in files.
    pub together: f64,
}

/// What the host's memory is used for, in mebibytes that sum to its total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Storage {
    /// What guests stand for.
    pub guests: GuestStorage,
    /// The manager and monitor.
    pub manager: f64,
    /// Anonymous memory of everything else.
    pub processes: f64,
    /// Cache of files.
    pub cache: f64,
    /// Shared memory and tmpfs.
    pub shared: f64,
    /// Cache of block devices.
    pub buffers: f64,
    /// The kernel's objects.
    pub slab: f64,
    /// Page tables of processes and of guests.
    pub tables: f64,
    /// Stacks in the kernel, and memory of single CPUs.
    pub kernel: f64,
    /// The zswap pool.
    pub zswap: f64,
    /// Memory of compressed swap devices.
    pub zram: f64,
    /// Huge pages set aside.
    pub huge: f64,
    /// Not used at all.
    pub free: f64,
    /// Not used either, and kept by single CPUs for their next need.
    pub lists: f64,
    /// The remainder: drivers, and what /proc/meminfo does not name.
    pub other: f64,
}

/// Splits the host's memory; `None` where its total, what is free or what is anonymous is not
/// known. What else is missing is in the remainder.
pub fn storage(facts: &Facts<'_>) -> Option<Storage> {
    let mib = |field| facts.h(field).map(|bytes| bytes / MIB);
    let known = |field| mib(field).unwrap_or(0.0);
    let total = mib(HostField::Total)?;
    let free = mib(HostField::Free)?;
    let anonymous = mib(HostField::Anonymous)?;
    // A page that KSM shares is resident in each of its processes and anonymous once.
    let saved = facts.h(HostField::KsmSharing).unwrap_or(0.0) * PAGE / MIB;
    let of_guests = |field| facts.g(field).map(|bytes| bytes / MIB);
    // Recordings of before have resident sets, with what guests share in each of them.
    let held = of_guests(GuestField::Private).or_else(|| of_guests(GuestField::Resident));
    let manager = known(HostField::OwnResident).min(anonymous);
    // What is not anonymous lies in huge pages, or in files that are only in memory.
    let (huge, shared) = (known(HostField::HugeTlb), known(HostField::Shared));
    let room = anonymous - manager + huge + shared;
    let held = (held.unwrap_or(0.0) - saved).clamp(0.0, room);
    let (anonymous, left) = rest(anonymous - manager, held);
    let (huge, left) = rest(huge, left);
    let (shared, _) = rest(shared, left);
    let hypervisors = of_guests(GuestField::Hypervisor).unwrap_or(0.0).min(held);
    let cached = (known(HostField::Cached) - known(HostField::Shared)).max(0.0);
    let together = known(HostField::Together).min(cached);
    let mut split = Storage {
        guests: GuestStorage { own: held - hypervisors, hypervisors, together },
        manager,
        processes: anonymous,
        cache: cached - together,
        shared,
        buffers: known(HostField::Buffers),
        slab: known(HostField::Slab),
        tables: known(HostField::PageTables) + known(HostField::SecondaryTables),
        kernel: known(HostField::KernelStack) + known(HostField::PerCpu),
        zswap: known(HostField::Zswap),
        zram: facts.t(TierField::Resident).map_or(0.0, |bytes| bytes / MIB),
        huge,
        free,
        lists: known(HostField::CpuLists),
        other: 0.0,
    };
    split.other = total - split.sum();
    Some(split)
}

/// What is left of a part when so much is taken from it, and what is still to be taken.
fn rest(part: f64, taken: f64) -> (f64, f64) {
    ((part - taken).max(0.0), (taken - part).max(0.0))
}

impl Storage {
    /// All parts together.
    pub fn sum(&self) -> f64 {
        let GuestStorage { own, hypervisors, together } = self.guests;
        let guests = own + hypervisors + together;
        let used = guests + self.manager + self.processes + self.cache + self.shared;
        let kernel = self.buffers + self.slab + self.tables + self.kernel;
        used + kernel + self.zswap + self.zram + self.huge + self.free + self.lists + self.other
    }
}
