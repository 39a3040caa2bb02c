//! z/VM users as guests. Their counters come from z/VM (DIAGNOSE X'2FC', in the kernel's debugfs).
//! The `cmm` pool of each user's kernel is the balloon, set by special messages.
//!
//! ```text
//!   diag_2fc ─► zmon::hypfs ─► User ─► Found, Counted, Actual, Gone
//!   set_target ─► Messages: vmcp smsg USER CMM SHRINK n ─► Taken, Refused
//! ```
//!
//! This process runs in a guest itself, so guests do not share the memory of its kernel. z/VM
//! reports neither a user's free memory nor the size of a user's pool. Only the resident memory
//! shows how much memory a user has returned.

mod messages;
mod name;
mod release;
mod user;

pub use release::ZvmRelease;

use crate::{Capabilities, Event, Found, HostMemory, Hypervisor, Id, IdSource, Owner, RunState};
use base::{Bytes, KIB, PAGE_BYTES, glob};
use messages::{Answer, Messages};
use name::UserId;
use reactor::PollSet;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use user::User;
use zmon::hypfs::{Guest, guests};
use zmon::to_ebcdic;

/// Name of z/VM as a source of guests.
pub const ZVM_SOURCE: &str = "z/VM";

/// Longest file that is read. A longer file would contain 64 Ki users, more than any z/VM has.
const FILE_MAX: u64 = 8 << 20;
/// Maximum number of users that are managed or shown. No z/VM with Linux guests has more users
/// logged on.
const USERS_MAX: usize = 10_000;

/// Options for a z/VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZvmOptions {
    /// The file of DIAGNOSE X'2FC'.
    pub counters: PathBuf,
    /// The program that sends commands to CP.
    pub program: PathBuf,
    /// Name patterns of the users with managed memory. Without patterns, users are shown but not
    /// managed.
    pub managed: Vec<String>,
    /// The user that this process runs in, if known. This user is shown but not managed, because
    /// this process would have to wait for itself.
    pub own: Option<String>,
    /// Memory of z/VM for all users together.
    pub memory: Option<Bytes>,
    /// Interval of the reads without a request.
    pub interval_ms: u64,
}

/// The users of the z/VM above this guest.
#[derive(Debug)]
pub struct Zvm {
    options: ZvmOptions,
    ids: IdSource,
    users: BTreeMap<Id, User>,
    names: BTreeMap<String, Id>,
    messages: Messages,
    /// Events that a call has caused.
    events: Vec<Event>,
    read_ms: Option<u64>,
    is_asked: bool,
    /// Memory of all users, by the last read.
    used: Option<Bytes>,
    trouble: Option<String>,
    /// Message about too many users.
    cut: Option<String>,
}

impl Zvm {
    /// Creates a source without users.
    pub fn new(options: ZvmOptions, ids: IdSource) -> Zvm {
        let messages = Messages::by(options.program.clone());
        Zvm {
            options,
            ids,
            users: BTreeMap::new(),
            names: BTreeMap::new(),
            messages,
            events: Vec::new(),
            read_ms: None,
            is_asked: false,
            used: None,
            trouble: None,
            cut: None,
        }
    }

    /// Returns the time of the next read. A request shortens the interval to a half.
    fn due_ms(&self) -> u64 {
        let wait_ms = match self.is_asked {
            true => self.options.interval_ms / 2,
            false => self.options.interval_ms,
        };
        self.read_ms.map_or(0, |read_ms| read_ms + wait_ms)
    }

    fn read(&mut self, now_ms: u64, events: &mut Vec<Event>) {
        (self.read_ms, self.is_asked) = (Some(now_ms), false);
        match counted(&self.options.counters) {
            Ok(all) => {
                if self.trouble.take().is_some() {
                    events.extend(self.users.keys().map(|id| Event::Answers(*id, true)));
                }
                self.take(all, events);
            }
            Err(why) => {
                let text = format!("z/VM's users cannot be read: {why}");
                self.used = None;
                if self.trouble.is_none() {
                    events.extend(self.users.keys().map(|id| Event::Answers(*id, false)));
                }
                self.complain(text, events);
            }
        }
    }

    fn complain(&mut self, text: String, events: &mut Vec<Event>) {
        if self.trouble.as_ref() != Some(&text) {
            self.trouble = Some(text.clone());
            events.push(Event::Trouble(text));
        }
    }

    fn take(&mut self, all: Vec<Guest>, events: &mut Vec<Event>) {
        let used = all.iter().map(|one| one.memory_used).fold(0, u64::saturating_add);
        self.used = Some(Bytes(used.saturating_mul(KIB)));
        let cut = (all.len() > USERS_MAX).then(|| {
            let count = all.len();
            format!("z/VM reports {count} users: only the first {USERS_MAX} are monitored")
        });
        if self.cut.is_none() {
            events.extend(cut.clone().map(Event::Trouble));
        }
        self.cut = cut;
        let mut seen = BTreeSet::new();
        for counted in all.into_iter().take(USERS_MAX) {
            let name = counted.name();
            if name.is_empty() || !seen.insert(name.clone()) {
                continue;
            }
            match self.names.get(&name).copied() {
                Some(id) if self.is_same(id, &counted) => self.count(id, counted, events),
                Some(id) => {
                    self.gone(id, "it has logged on again", events);
                    self.found(name, counted, events);
                }
                None => self.found(name, counted, events),
            }
        }
        let is_gone = |(name, id): (&String, &Id)| (!seen.contains(name)).then_some(*id);
        let gone: Vec<Id> = self.names.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|id| self.gone(id, "it has logged off", events));
    }

    /// Returns true if the counters belong to the known user. The user must not have logged off
    /// since, and its size must be unchanged.
    fn is_same(&self, id: Id, counted: &Guest) -> bool {
        self.users.get(&id).is_some_and(|user| {
            counted.elapsed_us >= user.counted.elapsed_us
                && counted.memory_max == user.counted.memory_max
        })
    }

    fn found(&mut self, name: String, counted: Guest, events: &mut Vec<Event>) {
        let id = self.ids.next();
        let is_managed = self.options.own.as_ref() != Some(&name)
            && self.options.managed.iter().any(|one| glob::matches(one, &name));
        let address = UserId::of(&name).filter(|_| is_managed && counted.memory_max > 0);
        let user = User::new(counted.clone(), address);
        events.push(Event::Found(id, Box::new(found(&name, &user))));
        events.push(Event::Counted(id, Box::new(counted)));
        self.users.insert(id, user);
        self.names.insert(name, id);
    }

    fn count(&mut self, id: Id, counted: Guest, events: &mut Vec<Event>) {
        let Some(user) = self.users.get_mut(&id) else { return };
        user.count(counted.clone());
        events.push(Event::Actual(id, user.actual));
        events.push(Event::Counted(id, Box::new(counted)));
    }

    fn gone(&mut self, id: Id, why: &str, events: &mut Vec<Event>) {
        self.users.remove(&id);
        self.names.retain(|_, known| *known != id);
        self.messages.forget(id);
        events.push(Event::Gone(id, why.to_owned()));
    }

    fn answered(&mut self, answer: Answer, events: &mut Vec<Event>) {
        let Answer { guest, pages, sent } = answer;
        let Some(user) = self.users.get_mut(&guest) else { return };
        match sent {
            Ok(()) => {
                user.told(pages);
                let left = user.size().less(Bytes(pages.saturating_mul(PAGE_BYTES)));
                events.push(Event::Taken(guest, left));
                events.push(Event::Actual(guest, user.actual));
            }
            Err(why) => events.push(Event::Refused(guest, why)),
        }
    }
}

impl Hypervisor for Zvm {
    fn name(&self) -> String {
        format!("{ZVM_SOURCE} by {}", self.options.counters.display())
    }

    fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        self.messages.fds(set);
    }

    fn next_ms(&self) -> u64 {
        match self.events.is_empty() {
            true => self.due_ms().min(self.messages.next_ms()),
            false => 0,
        }
    }

    fn turn(&mut self, _ready: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>) {
        events.append(&mut self.events);
        for answer in self.messages.turn(now_ms) {
            self.answered(answer, events);
        }
        if now_ms >= self.due_ms() {
            self.read(now_ms, events);
        }
    }

    fn set_target(&mut self, guest: Id, target: Bytes, _now_ms: u64) {
        let Some(user) = self.users.get(&guest) else { return };
        match &user.address {
            Some(address) => self.messages.put(guest, address.clone(), user.pool(target)),
            None => {
                let why = "the settings do not list this user for management".to_owned();
                self.events.push(Event::Refused(guest, why));
            }
        }
    }

    fn ask_stats(&mut self, _guest: Id, _now_ms: u64) {
        self.is_asked = true;
    }

    fn ask_actual(&mut self, _guest: Id, _now_ms: u64) {
        self.is_asked = true;
    }

    fn set_running(&mut self, guest: Id, _runs: bool, _now_ms: u64) {
        let why = "users of z/VM are not stopped".to_owned();
        self.events.push(Event::Stays(guest, why));
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone().or_else(|| self.cut.clone())
    }

    fn host_memory(&self) -> HostMemory {
        match self.options.memory.zip(self.used) {
            Some((total, used)) => HostMemory::Known { total, available: total.less(used) },
            None => HostMemory::Unknown,
        }
    }
}

fn found(name: &str, user: &User) -> Found {
    let is_managed = user.address.is_some();
    Found {
        name: name.to_owned(),
        uuid: uuid_of(name),
        // z/VM authenticates its users, and has granted class B to the user of this process.
        owner: Owner::own(),
        user: None,
        process: None,
        ram: Vec::new(),
        memory: user.size(),
        actual: user.actual,
        vcpu_tids: Vec::new(),
        can: Capabilities {
            pinned: None,
            balloon: is_managed,
            statistics: is_managed,
            // The kernel's cmm returns its pages before the OOM killer runs.
            deflate_on_oom: is_managed.then_some(true),
            page_reporting: None,
            port: false,
        },
        port: None,
        state: RunState::Running,
        is_restored: false,
        source: ZVM_SOURCE.to_owned(),
    }
}

/// Returns a UUID made of the user's name, as z/VM has no UUIDs and names are unique in a z/VM.
fn uuid_of(name: &str) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..4].copy_from_slice(b"z/VM");
    uuid[8..].copy_from_slice(&to_ebcdic::<8>(name));
    uuid
}

/// Reads the counters. A FIFO at the path does not block this process.
fn counted(path: &Path) -> Result<Vec<Guest>, String> {
    let read = || -> io::Result<Vec<u8>> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| format!("{}: {error}", path.display()))?;
    guests(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
