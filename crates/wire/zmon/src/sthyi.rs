//! STHYI: CPUs and caps of each level above a guest.
//!
//! ```text
//!   head ─► machine ─► LPAR ─► hypervisor 1 ─► guest 1 ─► hypervisor 2 ─► guest 2 ─► ... 3
//! ```
//!
//! The head has the offset and the length of each section; later releases have longer sections. The
//! kernel provides one page through a system call (function code 0). Without an answer from a
//! hypervisor, the kernel fills in the values that it has itself.

use crate::Error;
use crate::layout::{Layout, record};
use crate::sysinfo::Level;
use crate::text::from_ebcdic;

/// Length of the system call's answer.
pub const PAGE_BYTES: usize = 4096;
/// Maximum number of nested hypervisors in the head.
const DEPTH: usize = 3;
/// Cap of exactly one CPU.
const ONE: u64 = 0x1_0000;

/// Validity flags of the machine: CPU counts, type.
const MACHINE_CPUS: u8 = 0x80;
const MACHINE_ID: u8 = 0x40;
/// Validity flags of an LPAR: CPU counts, weight cap, absolute cap, name, group.
const LPAR_CPUS: u8 = 0x80;
const LPAR_WEIGHT: u8 = 0x40;
const LPAR_CAP: u8 = 0x20;
const LPAR_ID: u8 = 0x10;
const LPAR_GROUP: u8 = 0x08;
/// Flag of a hypervisor: it runs several threads on a core.
const HYPERVISOR_THREADS: u8 = 0x20;

record! {
    /// Places of the sections: pairs of an offset from the head and a length. 0 means that there is
    /// no section.
    Head, 48, {
        flags: u8 = 0;
        /// Number of hypervisors described.
        hypervisors: u8 = 7;
        length: u16 = 8;
        head_length: u16 = 10;
        machine: u16 = 12;
        machine_length: u16 = 14;
        lpar: u16 = 16;
        lpar_length: u16 = 18;
        hypervisor_1: u16 = 20;
        hypervisor_1_length: u16 = 22;
        guest_1: u16 = 24;
        guest_1_length: u16 = 26;
        hypervisor_2: u16 = 28;
        hypervisor_2_length: u16 = 30;
        guest_2: u16 = 32;
        guest_2_length: u16 = 34;
        hypervisor_3: u16 = 36;
        hypervisor_3_length: u16 = 38;
        guest_3: u16 = 40;
        guest_3_length: u16 = 42;
    }
}

record! {
    /// The machine. Names are EBCDIC; CPUs are general CPUs (CP) or CPUs for Linux (IFL).
    Machine, 64, {
        flags: u8 = 0;
        valid: u8 = 2;
        shared_cp: u16 = 4;
        dedicated_cp: u16 = 6;
        shared_ifl: u16 = 8;
        dedicated_ifl: u16 = 10;
        name: [u8; 8] = 12;
        kind: [u8; 4] = 20;
        maker: [u8; 16] = 24;
        sequence: [u8; 16] = 40;
        plant: [u8; 4] = 56;
    }
}

record! {
    /// An LPAR. Caps are in 1/65536 of a CPU; 0 means no cap.
    Lpar, 56, {
        flags: u8 = 0;
        valid: u8 = 2;
        number: u16 = 4;
        shared_cp: u16 = 6;
        dedicated_cp: u16 = 8;
        shared_ifl: u16 = 10;
        dedicated_ifl: u16 = 12;
        name: [u8; 8] = 16;
        weight_cap_cp: u32 = 24;
        cap_cp: u32 = 28;
        weight_cap_ifl: u32 = 32;
        cap_ifl: u32 = 36;
        group: [u8; 8] = 40;
        group_cap_cp: u32 = 48;
        group_cap_ifl: u32 = 52;
    }
}

record! {
    /// A hypervisor, and the CPUs available to its guests.
    Hypervisor, 32, {
        flags: u8 = 0;
        kind: u8 = 4;
        threads_cp: u8 = 6;
        threads_ifl: u8 = 7;
        name: [u8; 8] = 8;
        cluster: [u8; 8] = 16;
        shared_cp: u16 = 24;
        dedicated_cp: u16 = 26;
        shared_ifl: u16 = 28;
        dedicated_ifl: u16 = 30;
    }
}

record! {
    /// A guest: this system, or the hypervisor below. Only later releases have the CPU pool.
    Guest, 60, {
        flags: u8 = 0;
        name: [u8; 8] = 4;
        shared_cp: u16 = 12;
        dedicated_cp: u16 = 14;
        dispatch_cp: u8 = 16;
        cap_cp: u32 = 20;
        shared_ifl: u16 = 24;
        dedicated_ifl: u16 = 26;
        dispatch_ifl: u8 = 28;
        cap_ifl: u32 = 32;
        pool_flags: Option<u8> = 36;
        pool: Option<[u8; 8]> = 40;
        pool_cap_cp: Option<u32> = 48;
        pool_cap_ifl: Option<u32> = 52;
    }
}

/// A complete STHYI answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Places of the sections.
    pub head: Head,
    /// The machine.
    pub machine: Option<Machine>,
    /// LPAR section.
    pub lpar: Option<Lpar>,
    /// Hypervisors in the order of the head, each with its guest.
    pub above: Vec<(Option<Hypervisor>, Option<Guest>)>,
}

/// A kind of CPU at a level: number, and cap of the shared CPUs in thousandths.
#[derive(Clone, Copy)]
struct Kind {
    shared: u16,
    dedicated: u16,
    cap: Option<u64>,
}

/// Reads an answer. The page is all zeros if the kernel has no answer. A section outside the bytes
/// is an error of the program that wrote the page.
pub fn read(bytes: &[u8]) -> Result<Info, Error> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(Error::Empty { record: "STHYI" });
    }
    let head = Head::read(bytes)?;
    let places = head.places();
    let mut above = Vec::new();
    for [hypervisor, guest] in places {
        let (hypervisor, guest) = (section(bytes, hypervisor)?, section(bytes, guest)?);
        if hypervisor.is_some() || guest.is_some() {
            above.push((hypervisor, guest));
        }
    }
    Ok(Info {
        machine: section(bytes, (head.machine, head.machine_length))?,
        lpar: section(bytes, (head.lpar, head.lpar_length))?,
        above,
        head,
    })
}

fn section<T: Layout>(bytes: &[u8], (at, length): (u16, u16)) -> Result<Option<T>, Error> {
    if at == 0 || length == 0 {
        return Ok(None);
    }
    let (from, to) = (usize::from(at), usize::from(at) + usize::from(length));
    let short =
        || Error::Short { record: T::NAME, field: "the section", from, to, length: bytes.len() };
    T::read(bytes.get(from..to).ok_or_else(short)?).map(Some)
}

impl Head {
    fn places(&self) -> [[(u16, u16); 2]; DEPTH] {
        [
            [(self.hypervisor_1, self.hypervisor_1_length), (self.guest_1, self.guest_1_length)],
            [(self.hypervisor_2, self.hypervisor_2_length), (self.guest_2, self.guest_2_length)],
            [(self.hypervisor_3, self.hypervisor_3_length), (self.guest_3, self.guest_3_length)],
        ]
    }
}

impl Info {
    /// Returns the bytes. Each section is at the offset in the head, truncated to the length in the
    /// head.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        self.head.write(&mut bytes);
        let mut put = |(at, length): (u16, u16), section: Option<Vec<u8>>| {
            let Some(section) = section.filter(|_| at > 0) else { return };
            let most = section.len().min(usize::from(length));
            let place = bytes.get_mut(usize::from(at)..usize::from(at) + most);
            if let Some(place) = place {
                place.copy_from_slice(&section[..most]);
            }
        };
        let head = &self.head;
        put((head.machine, head.machine_length), self.machine.as_ref().map(Layout::bytes));
        put((head.lpar, head.lpar_length), self.lpar.as_ref().map(Layout::bytes));
        let is_there = |(at, length): (u16, u16)| at > 0 && length > 0;
        let told = head.places().into_iter().filter(|[a, b]| is_there(*a) || is_there(*b));
        for ([hypervisor, guest], (of_it, under_it)) in told.zip(&self.above) {
            put(hypervisor, of_it.as_ref().map(Layout::bytes));
            put(guest, under_it.as_ref().map(Layout::bytes));
        }
        bytes
    }

    /// Adds the answer to the levels of /proc/sysinfo. A hypervisor is the level above its guest.
    pub fn add_to(&self, levels: &mut Vec<Level>) {
        // The first hypervisor and all levels above count cores.
        let first = self.above.first().and_then(|(hypervisor, _)| hypervisor.as_ref());
        let threads = levels.iter().find_map(|level| level.threads);
        let threads = threads.or(first.and_then(Hypervisor::threads));
        if let Some(machine) = &self.machine {
            let at = place_of(levels, 0, "machine");
            levels[at].threads = threads;
            machine.add_to(&mut levels[at]);
        }
        if let Some(lpar) = &self.lpar {
            let after = usize::from(levels.first().is_some_and(|level| level.what == "machine"));
            let at = place_of(levels, after, "LPAR");
            levels[at].threads = threads;
            lpar.add_to(&mut levels[at]);
            if let Some(group) = lpar.group() {
                levels.insert(at, Level { threads, ..group });
            }
        }
        for (number, (hypervisor, guest)) in self.above.iter().enumerate() {
            let threads = threads.filter(|_| number == 0);
            let name = guest.as_ref().map(|guest| from_ebcdic(&guest.name));
            let mut at = levels.iter().position(|level| name.is_some() && level.name == name);
            if let Some(hypervisor) = hypervisor {
                let level = Level {
                    what: "hypervisor".to_owned(),
                    name: some(from_ebcdic(&hypervisor.name)),
                    threads,
                    ..counted(&hypervisor.kinds())
                };
                let place = at.unwrap_or(levels.len());
                levels.insert(place, level);
                at = at.map(|at| at + 1);
            }
            if let Some(guest) = guest {
                if let Some(pool) = guest.pool(threads) {
                    let place = at.unwrap_or(levels.len());
                    levels.insert(place, pool);
                    at = at.map(|at| at + 1);
                }
                let told = counted(&guest.kinds((guest.cap_cp, guest.cap_ifl), threads));
                match at {
                    Some(at) => fill(&mut levels[at], told),
                    None => levels.push(Level { what: "guest".to_owned(), name, ..told }),
                }
            }
        }
    }
}

/// Returns the index of the level of this kind. Inserts the level if it is missing.
fn place_of(levels: &mut Vec<Level>, or_at: usize, what: &str) -> usize {
    levels.iter().position(|level| level.what == what).unwrap_or_else(|| {
        levels.insert(or_at, Level { what: what.to_owned(), ..Level::default() });
        or_at
    })
}

fn some(name: String) -> Option<String> {
    (!name.is_empty()).then_some(name)
}

/// Fills unknown fields of a level from another source.
fn fill(level: &mut Level, told: Level) {
    level.configured = level.configured.or(told.configured);
    level.shared = level.shared.or(told.shared);
    level.dedicated = level.dedicated.or(told.dedicated);
    level.cap = level.cap.or(told.cap);
}

/// Sums the CPUs of all kinds. If a kind is capped, the sum has a cap in thousandths of a CPU.
fn counted(kinds: &[Kind]) -> Level {
    let sum = |of: fn(&Kind) -> u16| kinds.iter().map(|kind| u64::from(of(kind))).sum::<u64>();
    let (shared, dedicated) = (sum(|kind| kind.shared), sum(|kind| kind.dedicated));
    let usable = |kind: &Kind| {
        let shared = u64::from(kind.shared) * 1000;
        kind.cap.map_or(shared, |cap| shared.min(cap)) + u64::from(kind.dedicated) * 1000
    };
    let is_capped = kinds.iter().any(|kind| kind.cap.is_some() && kind.shared > 0);
    Level {
        configured: Some(shared + dedicated),
        shared: Some(shared),
        dedicated: Some(dedicated),
        cap: is_capped.then(|| kinds.iter().map(usable).sum()),
        ..Level::default()
    }
}

/// Returns both kinds of CPUs of a level, CP and IFL. Each has shared CPUs, dedicated CPUs, and the
/// cap of the shared CPUs, 0 without a cap.
fn kinds(cp: (u16, u16, u32), ifl: (u16, u16, u32)) -> [Kind; 2] {
    [cp, ifl].map(|(shared, dedicated, cap)| {
        let cap = (cap > 0).then(|| u64::from(cap) * 1000 / ONE);
        Kind { shared, dedicated, cap }
    })
}

/// Returns the cap that a level shares with others, as far as it limits this level. Each kind of
/// CPU has its own cap, and the sum limits the level.
fn common_cap(kinds: &[Kind]) -> Option<u64> {
    let mut here = kinds.iter().filter(|kind| kind.shared > 0 || kind.dedicated > 0);
    match (here.next(), here.next()) {
        (Some(only), None) if only.dedicated == 0 => only.cap,
        _ => counted(kinds).cap,
    }
}

impl Machine {
    fn add_to(&self, level: &mut Level) {
        if self.valid & MACHINE_ID != 0 {
            level.name = level.name.take().or_else(|| some(from_ebcdic(&self.kind)));
        }
        if self.valid & MACHINE_CPUS != 0 {
            let cp = (self.shared_cp, self.dedicated_cp, 0);
            let told = counted(&kinds(cp, (self.shared_ifl, self.dedicated_ifl, 0)));
            // /proc/sysinfo leaves out CPUs for Linux.
            level.configured = told.configured;
            level.is_general_only = false;
            fill(level, told);
        }
    }
}

impl Lpar {
    fn add_to(&self, level: &mut Level) {
        if self.valid & LPAR_ID != 0 {
            level.name = level.name.take().or_else(|| some(from_ebcdic(&self.name)));
        }
        if self.valid & LPAR_CPUS != 0 {
            let cp = self.cap(self.weight_cap_cp, self.cap_cp);
            let ifl = self.cap(self.weight_cap_ifl, self.cap_ifl);
            fill(level, counted(&self.kinds(cp, ifl)));
        }
    }

    fn kinds(&self, cap_cp: u32, cap_ifl: u32) -> [Kind; 2] {
        kinds(
            (self.shared_cp, self.dedicated_cp, cap_cp),
            (self.shared_ifl, self.dedicated_ifl, cap_ifl),
        )
    }

    /// Returns the LPAR's group, which limits its members together.
    fn group(&self) -> Option<Level> {
        let name = some(from_ebcdic(&self.group)).filter(|_| self.valid & LPAR_GROUP != 0)?;
        let kinds = self.kinds(self.group_cap_cp, self.group_cap_ifl);
        let cap = common_cap(&kinds).filter(|_| self.valid & LPAR_CPUS != 0);
        Some(Level { what: "LPAR group".to_owned(), name: Some(name), cap, ..Level::default() })
    }

    /// Returns the lower of the weight cap and the absolute cap, if they are valid.
    fn cap(&self, by_weight: u32, absolute: u32) -> u32 {
        let told = [(LPAR_WEIGHT, by_weight), (LPAR_CAP, absolute)];
        let told = told.into_iter().filter(|(bit, cap)| self.valid & bit != 0 && *cap > 0);
        told.map(|(_, cap)| cap).min().unwrap_or(0)
    }
}

impl Hypervisor {
    /// Returns the threads of a core, if a core runs several threads. If the kinds of CPU differ,
    /// the higher number counts.
    fn threads(&self) -> Option<u64> {
        let threads = u64::from(self.threads_cp.max(self.threads_ifl));
        (self.flags & HYPERVISOR_THREADS != 0 && threads > 0).then_some(threads)
    }

    fn kinds(&self) -> [Kind; 2] {
        kinds((self.shared_cp, self.dedicated_cp, 0), (self.shared_ifl, self.dedicated_ifl, 0))
    }
}

impl Guest {
    /// Returns the CPUs by kind, with caps in cores of several threads.
    fn kinds(&self, (cap_cp, cap_ifl): (u32, u32), threads: Option<u64>) -> [Kind; 2] {
        let cp = (self.shared_cp, self.dedicated_cp, cap_cp);
        kinds(cp, (self.shared_ifl, self.dedicated_ifl, cap_ifl)).map(|kind| Kind {
            cap: kind.cap.map(|cap| cap.saturating_mul(threads.unwrap_or(1))),
            ..kind
        })
    }

    /// Returns the CPU pool, which limits its guests together.
    fn pool(&self, threads: Option<u64>) -> Option<Level> {
        let name = some(from_ebcdic(&self.pool?))?;
        let caps = (self.pool_cap_cp?, self.pool_cap_ifl?);
        let cap = common_cap(&self.kinds(caps, threads));
        Some(Level { what: "pool".to_owned(), name: Some(name), cap, ..Level::default() })
    }
}

#[cfg(test)]
mod tests;
