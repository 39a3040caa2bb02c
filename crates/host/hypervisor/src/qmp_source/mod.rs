//! Guests that are plain QEMU processes, found by the sockets of their monitors.
//!
//! ```text
//!   patterns ─► Glob, every 2 s ─► Place ─► Link ─► Probe ─► Found
//!                                             │
//!                                             └──► Guest ◄─► balloon, statistics, state
//! ```
//!
//! A QEMU that hangs, floods or sends garbage costs only its own connection. Each connection has a
//! budget of bytes, a limit of open requests, and a timeout.

mod devices;
mod glob;
mod guest;
mod link;
mod place;
mod probe;
mod searched;
mod state;
#[cfg(test)]
mod tests;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::{Bytes, counted};
use reactor::{Lookup, PollSet};
use rustix::event::PollFlags;

use crate::{Error, Event, Hypervisor, Id, IdSource, Owner, Trust};
use glob::{Glob, Search, Socket};
use place::{Common, Place};
use searched::Searched;
use trouble::Trouble;

/// Sockets of guests of `pinhead up`, started by root and by other users. A monitor serves only one
/// client, so sockets in other places are used only if the settings name them.
pub const QMP_PATTERNS: [&str; 2] = ["/run/pinhead/up/*/*.qmp", "/run/user/*/pinhead/up/*/*.qmp"];

/// Interval between two searches for new sockets.
const SCAN_MS: u64 = 2_000;
/// Maximum number of sockets of one pattern that are managed. Each socket needs a descriptor, and a
/// process may open some thousands.
const PLACES_MAX: usize = 4_096;
/// Maximum number of sockets of one pattern that are managed for one named user.
const PLACES_OF_OTHERS: usize = 256;
/// Maximum number of new connections per turn, so that existing connections are served soon.
const CONNECTS_A_TURN: usize = 64;

/// All QEMUs with monitors that match some patterns.
#[derive(Debug)]
pub struct QmpSource {
    globs: Vec<Glob>,
    common: Common,
    places: BTreeMap<PathBuf, Place>,
    guests: BTreeMap<Id, PathBuf>,
    /// Untrusted users with a socket in a place for guests.
    others: BTreeSet<Owner>,
    /// Events for the next turn.
    unreported: Vec<Event>,
    next_scan_ms: u64,
    /// Directories of the last search, if they alone determine its result.
    searched: Option<Searched>,
    /// Key of the next place in a poll set.
    next_key: u64,
    /// Maximum number of sockets of one pattern that are managed.
    places_max: usize,
    /// True if the guests of farms that use only their own rules are left out.
    leaves_rules_only: bool,
}

impl QmpSource {
    /// Creates a source for sockets that match any of these absolute paths, in which `*` and `?`
    /// are wildcards. Each socket of a trusted user is one guest, with an id from `ids`.
    pub fn new<P: AsRef<str>>(
        patterns: &[P],
        trust: Trust,
        ids: IdSource,
    ) -> Result<QmpSource, Error> {
        QmpSource::under(PathBuf::from("/"), patterns, trust, ids)
    }

    /// Does the same as [`QmpSource::new`], with another root than `/` for /proc. The patterns do
    /// not change with the root.
    pub fn under<P: AsRef<str>>(
        root: PathBuf,
        patterns: &[P],
        trust: Trust,
        ids: IdSource,
    ) -> Result<QmpSource, Error> {
        let glob = |pattern: &P| {
            let pattern = pattern.as_ref();
            Glob::new(pattern).ok_or_else(|| Error::Pattern { pattern: pattern.to_owned() })
        };
        Ok(QmpSource {
            globs: patterns.iter().map(glob).collect::<Result<_, _>>()?,
            common: Common::new(root, trust, ids),
            places: BTreeMap::new(),
            guests: BTreeMap::new(),
            others: BTreeSet::new(),
            unreported: Vec::new(),
            next_scan_ms: 0,
            searched: None,
            next_key: 0,
            places_max: PLACES_MAX,
            leaves_rules_only: false,
        })
    }

    /// Leaves out the guests of farms that use only their own rules.
    pub fn leaving_rules_only(mut self) -> QmpSource {
        self.leaves_rules_only = true;
        self
    }

    fn scan(&mut self, now_ms: u64, events: &mut Vec<Event>) {
        let is_connected = self.places.values().all(|place| place.link().is_some());
        if is_connected && self.searched.as_mut().is_some_and(Searched::may_skip) {
            return;
        }
        let mut search = Search::default();
        let mut sockets = Vec::new();
        let mut still = BTreeSet::new();
        let mut news = Vec::new();
        for glob in &self.globs {
            glob.find(&self.common.trust, &mut search);
            if self.leaves_rules_only {
                let is_open =
                    |socket: &Socket| !socket.path.with_file_name(qmp::RULES_ONLY).exists();
                search.sockets.retain(is_open);
            }
            let (mut chosen, crowds) = self.chosen(std::mem::take(&mut search.sockets));
            sockets.append(&mut chosen);
            for (owner, crowd) in crowds {
                let trouble = Trouble::Full(glob.to_string(), owner);
                still.insert(trouble.clone());
                if crowd.is_connected {
                    news.push((owner, trouble, left_out(glob, owner, &crowd)));
                }
            }
            for (owner, dir) in std::mem::take(&mut search.cut) {
                let trouble = Trouble::Cut(glob.to_string(), owner);
                still.insert(trouble.clone());
                news.push((owner, trouble, not_searched(glob, &dir)));
            }
        }
        self.others = std::mem::take(&mut search.others);
        let directories = std::mem::take(&mut search.directories);
        self.searched = match search.depends_on_more {
            true => None,
            false => Searched::after(self.searched.take(), directories),
        };
        let mut gone: BTreeSet<PathBuf> = self.places.keys().cloned().collect();
        for socket in sockets {
            gone.remove(&socket.path);
            match self.places.get_mut(&socket.path) {
                Some(place) => place.seen(&socket, now_ms),
                None => {
                    let path = socket.path.clone();
                    self.places.insert(path, Place::new(self.next_key, socket, now_ms));
                    self.next_key += 1;
                }
            }
        }
        for path in gone {
            // A QEMU still responds after its socket was removed.
            if self.places.get(&path).is_some_and(|place| place.link().is_none()) {
                self.places.remove(&path);
                self.common.troubles.over(&Trouble::Socket(path));
            }
        }
        let dead = self.places.values().filter_map(Place::dead_in);
        still.extend(dead.map(|dir| Trouble::Dead(dir.to_path_buf())));
        let troubles = &mut self.common.troubles;
        troubles.keep(&still);
        for (owner, trouble, words) in news {
            troubles.report(owner, trouble, words, now_ms, events);
        }
        for (trouble, words) in [
            (Trouble::Search, cannot_look(&search.denied)),
            (Trouble::Open, open_to_all(&search.open)),
        ] {
            match words {
                Some(words) => troubles.report(Owner::ROOT, trouble, words, now_ms, events),
                None => troubles.over(&trouble),
            }
        }
    }

    /// Chooses the sockets of one pattern to manage, and returns the owners with too many sockets.
    /// Above the limit, connected sockets keep their place. New sockets replace sockets without a
    /// QEMU.
    fn chosen(&self, mut sockets: Vec<Socket>) -> (Vec<Socket>, BTreeMap<Owner, Crowd>) {
        let rank = |socket: &Socket| self.places.get(&socket.path).map_or(1, Place::rank);
        let most =
            |owner: Owner| if owner.is_trusted() { self.places_max } else { PLACES_OF_OTHERS };
        let mut crowds: BTreeMap<Owner, Crowd> = BTreeMap::new();
        sockets.sort_by_cached_key(|socket| (rank(socket), socket.path.clone()));
        sockets.retain(|socket| {
            let crowd = crowds.entry(socket.owner).or_default();
            if crowd.chosen == most(socket.owner) {
                crowd.left_out += 1;
                return false;
            }
            crowd.chosen += 1;
            // The sockets are sorted by rank, so the last chosen socket has the worst rank.
            crowd.is_connected = rank(socket) == 0;
            true
        });
        crowds.retain(|_, crowd| crowd.left_out > 0);
        (sockets, crowds)
    }

    fn note(&mut self, path: PathBuf, events: &[Event]) {
        for event in events {
            match event {
                Event::Found(id, _) => drop(self.guests.insert(*id, path.clone())),
                Event::Gone(id, _) => drop(self.guests.remove(id)),
                _ => {}
            }
        }
    }

    fn place(&mut self, guest: Id) -> Option<&mut Place> {
        self.places.get_mut(self.guests.get(&guest)?)
    }
}

/// Returns true if the socket of a monitor is hidden, because its `pinhead up` has parked the
/// guest.
pub fn is_hidden(socket: &Path) -> bool {
    socket.with_added_extension(qmp::HIDDEN).exists()
}

/// Sockets of one owner that match one pattern.
#[derive(Default)]
struct Crowd {
    chosen: usize,
    left_out: usize,
    /// True if all chosen sockets are connected, so that none can be replaced.
    is_connected: bool,
}

fn left_out(glob: &Glob, owner: Owner, crowd: &Crowd) -> String {
    let of = if owner.is_trusted() { String::new() } else { format!(" of user {}", owner.0) };
    format!(
        "More than {} QMP sockets{of} match {glob}. Left out: {}. In [sources], write patterns in \
         `qmp` that each match fewer sockets",
        crowd.chosen,
        counted(crowd.left_out as u64, "guest")
    )
}

fn not_searched(glob: &Glob, dir: &Path) -> String {
    format!(
        "{} has too many files to search all of them for {glob}, so guests may be missing. Keep \
         fewer files there, or write another directory in `qmp` of [sources]",
        dir.display()
    )
}

/// Formats one sentence for all directories without read permission, which are often many.
fn cannot_look(denied: &[PathBuf]) -> Option<String> {
    let dirs = listed(denied)?;
    Some(format!("No permission to search {dirs} for QMP sockets: run as root"))
}

/// Formats one sentence for all directories that any user may write to.
fn open_to_all(open: &[PathBuf]) -> Option<String> {
    let dirs = listed(open)?;
    Some(format!(
        "Other users can create sockets in {dirs}, so guests there are not managed: remove their \
         write permission (chmod go-w)"
    ))
}

/// Returns the first directory and the number of the others.
fn listed(dirs: &[PathBuf]) -> Option<String> {
    let (first, others) = dirs.split_first()?;
    let first = first.display();
    Some(match others.len() {
        0 => first.to_string(),
        count => format!("{first} and {count} more directories"),
    })
}

impl Hypervisor for QmpSource {
    fn name(&self) -> String {
        "qmp".into()
    }

    fn fds<'a>(&'a self, set: &mut PollSet<'a>) {
        for place in self.places.values() {
            if let Some(link) = place.link() {
                set.connection(place.key, link.connection(), link.flags());
            }
        }
    }

    fn next_ms(&self) -> u64 {
        if !self.unreported.is_empty() {
            return 0;
        }
        self.places.values().map(Place::next_ms).fold(self.next_scan_ms, u64::min)
    }

    fn turn(&mut self, ready: Option<&[reactor::Event]>, now_ms: u64, events: &mut Vec<Event>) {
        events.append(&mut self.unreported);
        let mut ready = ready.map(Lookup::new);
        let mut notes = Vec::new();
        for (path, place) in &mut self.places {
            if place.link().is_none() {
                continue;
            }
            // Without readiness all connections are tried. None of them blocks.
            let flags = match &mut ready {
                Some(ready) => ready.flags(place.key),
                None => PollFlags::IN,
            };
            let before = events.len();
            place.turn(flags, now_ms, &mut self.common, events);
            if events[before..].iter().any(|e| matches!(e, Event::Found(..) | Event::Gone(..))) {
                notes.push((path.clone(), before, events.len()));
            }
        }
        for (path, from, to) in notes {
            self.note(path, &events[from..to]);
        }
        if now_ms >= self.next_scan_ms {
            self.next_scan_ms = now_ms + SCAN_MS;
            self.scan(now_ms, events);
        }
        let mut left = CONNECTS_A_TURN;
        for place in self.places.values_mut() {
            if left == 0 {
                break;
            }
            left -= usize::from(place.connect(now_ms, &mut self.common, events));
        }
    }

    fn unclaimed(&self) -> BTreeSet<(PathBuf, Owner)> {
        let unclaimed = self.places.values().filter_map(Place::unclaimed_in);
        unclaimed.map(|(dir, owner)| (dir.to_path_buf(), owner)).collect()
    }

    fn trouble(&self) -> Option<String> {
        self.common.troubles.first().map(str::to_owned)
    }

    fn others(&self) -> BTreeSet<Owner> {
        self.others.clone()
    }

    fn set_target(&mut self, guest: Id, target: Bytes, now_ms: u64) {
        let Some((asked, link)) = self.place(guest).and_then(Place::guest) else { return };
        if let Err(reason) = asked.set_target(target, link, now_ms) {
            self.unreported.push(Event::Refused(guest, reason));
        } else {
            // A broken connection is noticed and reported in the next turn.
            let _ = link.send();
        }
    }

    fn set_running(&mut self, guest: Id, runs: bool, now_ms: u64) {
        let Some((asked, link)) = self.place(guest).and_then(Place::guest) else { return };
        match asked.set_running(runs, link, now_ms) {
            Ok(()) => _ = link.send(),
            Err(reason) => self.unreported.push(Event::Stays(guest, reason)),
        }
    }

    fn ask_stats(&mut self, guest: Id, now_ms: u64) {
        if let Some((asked, link)) = self.place(guest).and_then(Place::guest) {
            asked.ask_stats(link, now_ms);
            let _ = link.send();
        }
    }

    fn ask_actual(&mut self, guest: Id, now_ms: u64) {
        if let Some((asked, link)) = self.place(guest).and_then(Place::guest) {
            asked.ask_actual(link, now_ms);
            let _ = link.send();
        }
    }

    fn ask_blocks(&mut self, guest: Id, now_ms: u64) {
        if let Some((asked, link)) = self.place(guest).and_then(Place::guest) {
            asked.ask_blocks(link, now_ms);
            let _ = link.send();
        }
    }
}

impl Drop for QmpSource {
    /// Restores the period of statistics of all guests.
    fn drop(&mut self) {
        for place in self.places.values_mut() {
            if let Some((guest, link)) = place.guest() {
                guest.end_stats(link, 0);
                let _ = link.send();
            }
        }
    }
}
