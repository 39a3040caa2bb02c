//! Saved states of guests. One guest of a kind is booted and saved. Clones start from the saved
//! state.
//!
//! ```text
//!   boot ─► services are up ─► squeeze ─► stop ─► CACHE/templates/ARCH/KEY.state   its devices
//!                                           └──►                     KEY.memory  its memory
//!                                                      │ seen by all clones as their own,
//!                          clone, clone, clone … ◄─────┘ and copied page by page on writes
//! ```
//!
//! A clone therefore costs only the memory of the pages that it writes. One side effect must be
//! prevented. When a clone returns a page by ballooning or page reporting, QEMU drops the page from
//! its view and punches a hole into the file. All other clones would then lose the page. Hole
//! punching is therefore made to succeed without effect. QEMU only drops the page from its view,
//! where the page then has the template's content again.
//!
//! A kernel that wipes freed memory expects that reported pages are still wiped later, but here
//! they have the template's content. Such a kernel is kept from reporting any page (see [`Ram`]).
//! Clones that share no memory load a state that contains all memory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::iter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::StableHash;
use procfs::{Chance, Work};
use qmp::{Command, Reply};
use wire::{ToGuest, ToHost};

use crate::devices::{STATE_SET, state_uri};
use crate::images::{Cache, FileContext, Writes, create_dir, lock_file};
use crate::machine::HostFacts;
use crate::saved::{Template, clear, found, memory_of, remove_old};
use crate::tsc::Rate;
use crate::{Deadline, Error, GuestSpec, Net, Session, emulator, sys};

/// The name of a template's guest while it runs.
const NAME: &str = "template";

/// The version of the preparation. A change makes older templates invalid.
const PREPARATION: u32 = 4;

/// QEMU's name for the file of a state.
const STATE: &str = "state";

/// Mode of a memory file, which only its owner may read.
const OWNERS: u32 = 0o600;

/// Bandwidth limit for writing a state, in bytes per second. The limit exceeds the speed of any
/// disk, because the guest is stopped and waits only for this write.
const BYTES_A_SECOND: u64 = 10 << 30;

/// Free memory that a guest keeps while the rest is wiped, in KiB. With less memory, its kernel
/// would drop pages that the clones need at once.
const SPARED_KIB: u64 = 4 * 1024;

/// Time limit for a daemon's answer. Only time in which QEMU could run counts.
const DAEMON_PATIENCE_MS: u64 = 60_000;
const DAEMON_STEP: Duration = Duration::from_millis(500);
/// Time without progress after which the balloon counts as fully inflated, because the guest's
/// kernel needs the rest of the memory itself. Only time in which QEMU could run counts.
const BALLOON_PATIENCE_MS: u64 = 2_000;

/// Free space that must remain on the disk besides a guest's memory, in MiB.
const SPARE_MIB: u64 = 64;

/// The interval at which QEMU's progress is polled.
const STEP: Duration = Duration::from_millis(10);

/// Command that drops file pages, lets the daemon settle, and prints the free memory in KiB.
const SETTLE: &str = "sync; echo 3 > /proc/sys/vm/drop_caches; sleep 3; echo 3 > \
                      /proc/sys/vm/drop_caches; awk '/^MemFree:/ { print $2 }' /proc/meminfo";

/// The way in which clones get their template's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clones {
    /// Clones share each page until they write to it.
    Share,
    /// Each clone has a copy from the start.
    Copy,
}

impl Template {
    /// Returns the template for guests like this one, which may differ in names, addresses and
    /// forwarded ports. The template comes from the cache, or from a guest that is booted to make
    /// it.
    pub fn make(
        spec: &GuestSpec,
        clones: Clones,
        cache: &Cache,
        deadline: Deadline,
    ) -> Result<Template, Error> {
        // Without filtered system calls, QEMU would write to the shared memory.
        let clones = if sys::filters_calls() { clones } else { Clones::Copy };
        let shares = clones == Clones::Share;
        let spec = template_spec(spec)?;
        let directory = cache.root().join("templates").join(spec.image.arch.name());
        let state_at = state_paths(&directory, key(&spec, clones)?);
        let rate = spec.host_facts().tsc_rate;
        let state = state_at(rate);
        let alike = rate.into_iter().flat_map(Rate::alike).map(|rate| state_at(Some(rate)));
        let alike: Vec<PathBuf> = alike.collect();
        let kept = || iter::once(&state).chain(&alike).find_map(|state| found(state, shares));
        if let Some(found) = kept() {
            return Ok(found);
        }
        create_dir(&directory)?;
        let _lock = lock_file(&directory.join("lock"))?;
        // Another process may have made this template while it held the lock.
        if let Some(found) = kept() {
            return Ok(found);
        }
        remove_old(&directory)?;
        save(&spec, clones, &state, deadline).inspect_err(|_| clear(&state))?;
        found(&state, shares).ok_or_else(|| wrong(&spec, "its state is empty"))
    }
}

fn wrong(spec: &GuestSpec, reason: impl Into<String>) -> Error {
    Error::Template { guest: spec.name.clone(), reason: reason.into() }
}

/// Returns the specification of the template's guest, with a neutral name and address, and no
/// forwarded ports.
fn template_spec(spec: &GuestSpec) -> Result<GuestSpec, Error> {
    let refuse = |reason: &str| Err(wrong(spec, reason));
    if !spec.ctl {
        return refuse("without a control port clones cannot get their names");
    }
    if spec.disk.as_ref().is_some_and(|disk| disk.writes != Writes::Layer) {
        return refuse(
            "its disk is writable, and a saved state does not contain changes of the disk",
        );
    }
    let net = spec.net.as_ref();
    let net = net.map(|net| Net { linked: net.linked, ..Net::new(0) });
    let mut kernel_args = spec.kernel_args.clone();
    // Only a guest with this argument on its kernel's command line allows its host to clone it.
    kernel_args.push("pinhead.template=1".into());
    let name = NAME.into();
    Ok(GuestSpec {
        name,
        run_dir: None,
        net,
        restore: None,
        suspends: false,
        kernel_args,
        ..spec.clone()
    })
}

/// Returns the path of a state with this key, by the rate of the guests' clocks. The rate is not
/// part of the key, because the next process measures a slightly different rate.
fn state_paths(directory: &Path, key: u64) -> impl Fn(Option<Rate>) -> PathBuf {
    move |rate| match rate {
        Some(rate) => directory.join(format!("{key:016x}-{}.state", rate.khz())),
        None => directory.join(format!("{key:016x}.state")),
    }
}

/// Returns a hash of everything a state depends on, except the rate of the host's time stamp
/// counter.
fn key(spec: &GuestSpec, clones: Clones) -> Result<u64, Error> {
    let mut hash = StableHash::default();
    let mut put = |bytes: &[u8]| hash.put(bytes);
    put(&PREPARATION.to_le_bytes());
    put(&[clones as u8]);
    put(emulator::version_text(spec.image.arch)?.as_bytes());
    for word in spec.arguments_at(HostFacts { tsc_rate: None, ..spec.host_facts() }) {
        put(word.as_encoded_bytes());
    }
    let disk = spec.disk.as_ref().map(|disk| &disk.path);
    for path in [&spec.image.kernel, &spec.image.initramfs].into_iter().chain(disk) {
        let data = fs::metadata(path).file("read", path)?;
        let changed = data.modified().file("read", path)?;
        let changed = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        put(&data.len().to_le_bytes());
        put(&changed.as_nanos().to_le_bytes());
    }
    Ok(hash.finish())
}

/// Boots the guest and writes its state into a file, which gets its final name when it is complete.
fn save(spec: &GuestSpec, clones: Clones, whole: &Path, deadline: Deadline) -> Result<(), Error> {
    let part = whole.with_extension("part");
    // An old state without its memory would be mistaken for the new state.
    let _ = fs::remove_file(whole);
    // Older files are never overwritten, because clones may still map them.
    clear(whole);
    let memory = match clones {
        Clones::Copy => None,
        Clones::Share => {
            let path = memory_of(whole);
            let file = new_file(&path, File::options().read(true))?;
            file.set_len(spec.memory_mib << 20).file("write", &path)?;
            // Without this check, a full disk would kill QEMU without an error.
            let room = rustix::fs::fstatvfs(&file).map_err(io::Error::from);
            let room = room.file("request free memory", &path)?;
            let free_mib = (room.f_bavail * room.f_frsize) >> 20;
            if free_mib < spec.memory_mib + SPARE_MIB {
                let needed = spec.memory_mib + SPARE_MIB;
                let reason = format!(
                    "the template needs {needed} MiB in the cache, but only {free_mib} MiB are \
                     free"
                );
                return Err(wrong(spec, reason));
            }
            Some((path, file))
        }
    };
    // The guest's QEMU may not open files, so it inherits open files. QEMU accepts only a
    // descriptor that is write-only.
    let state = new_file(&part, &mut File::options())?;
    let own = |(path, file): &(PathBuf, File)| file.try_clone().file("use", path);
    let ram = memory.as_ref().map(own).transpose()?;
    let mut guest = Session::of(spec, spec.start_in(ram)?, deadline)?;
    wait_for_daemon(spec, &mut guest, deadline)?;
    squeeze(spec, &mut guest, deadline)?;
    if clones == Clones::Share {
        guest.monitor.call(Command::LeaveFilesOut, deadline)?;
    }
    let bandwidth = Command::SetMigrateBandwidth { bytes_a_second: BYTES_A_SECOND };
    guest.monitor.call(bandwidth, deadline)?;
    let (command, uri) = match emulator::names_states(spec.image.arch) {
        true => (Command::AddFile { set: STATE_SET }, state_uri()),
        false => (Command::GetFile { name: STATE }, format!("fd:{STATE}")),
    };
    guest.monitor.give_file(command, &state, deadline)?;
    guest.monitor.call(Command::Migrate { uri }, deadline)?;
    loop {
        match guest.monitor.call(Command::QueryMigrate, deadline)? {
            Reply::Migration(Some(status)) if status == "completed" => break,
            Reply::Migration(Some(status)) if status == "failed" || status == "cancelled" => {
                let words = guest.process.stderr();
                let reason =
                    format!("the state was not saved (QEMU: {status}); is the cache full? {words}");
                return Err(wrong(spec, reason));
            }
            _ => wait_a_step(spec, &mut guest, deadline, "its saved state")?,
        }
    }
    // A killed QEMU writes nothing more.
    drop(guest);
    for (path, file) in memory.iter().map(|(path, file)| (path, file)).chain([(&part, &state)]) {
        file.sync_all().file("write", path)?;
    }
    Ok(fs::rename(&part, whole).file("create", whole)?)
}

fn new_file(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    options.write(true).create_new(true).mode(OWNERS);
    Ok(options.open(path).file("create", path)?)
}

/// Waits until the guest's daemon answers, because this daemon gives clones their identity. A
/// daemon that has just started drops requests, so they are repeated.
fn wait_for_daemon(spec: &GuestSpec, guest: &mut Session, deadline: Deadline) -> Result<(), Error> {
    let (mut had, pid) = (Chance::default(), guest.process.id());
    let question = ToGuest::Sample(wire::Sample { sequence: 1 });
    let answered = |message| matches!(message, ToHost::Memory(_)).then_some(());
    while deadline.remaining().is_some()
        && had_ms(&mut had, deadline.elapsed(), || Work::of_process(pid)) < DAEMON_PATIENCE_MS
    {
        if guest.ask_daemon(&question, answered, Deadline::after(DAEMON_STEP)).is_ok() {
            return Ok(());
        }
        wait_a_step(spec, guest, deadline, "its daemon's answer")?;
    }
    Err(wrong(spec, "its daemon does not answer"))
}

/// Returns the milliseconds in which a guest could run, from the work of its QEMU.
fn had_ms(had: &mut Chance, now: Duration, work: impl FnOnce() -> Option<Work>) -> u64 {
    had.look(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), work)
}

/// Wipes the guest's free memory, so that this memory is not part of the state. The balloon first
/// inflates to take the pages, and then deflates to return fresh pages.
fn squeeze(spec: &GuestSpec, guest: &mut Session, deadline: Deadline) -> Result<(), Error> {
    let free_kib: u64 = guest
        .sh(SETTLE, deadline)?
        .trim()
        .parse()
        .map_err(|_| wrong(spec, "it does not report its free memory"))?;
    let all_bytes = spec.memory_mib << 20;
    let kept_bytes = all_bytes.saturating_sub(free_kib.saturating_sub(SPARED_KIB) << 10);
    let pid = guest.process.id();
    for value_bytes in [kept_bytes, all_bytes] {
        guest.monitor.call(Command::Balloon { value_bytes }, deadline)?;
        let mut still = Still::default();
        loop {
            let actual = match guest.monitor.call(Command::QueryBalloon, deadline)? {
                Reply::Balloon { actual_bytes } if actual_bytes == value_bytes => break,
                Reply::Balloon { actual_bytes } => Some(actual_bytes),
                _ => None,
            };
            let still_ms = still.ms(actual, deadline.elapsed(), || Work::of_process(pid));
            if value_bytes < all_bytes && still_ms >= BALLOON_PATIENCE_MS {
                break;
            }
            wait_a_step(spec, guest, deadline, "its balloon's new size")?;
        }
    }
    Ok(())
}

/// Detects a balloon that has stopped before its target.
#[derive(Debug, Default)]
struct Still {
    had: Chance,
    actual: Option<u64>,
}

impl Still {
    /// Returns the milliseconds in which the guest could run since the balloon last changed its
    /// size.
    fn ms(
        &mut self,
        actual: Option<u64>,
        now: Duration,
        work: impl FnOnce() -> Option<Work>,
    ) -> u64 {
        if self.actual != actual {
            *self = Still { actual, ..Still::default() };
        }
        had_ms(&mut self.had, now, work)
    }
}

fn wait_a_step(
    spec: &GuestSpec,
    guest: &mut Session,
    deadline: Deadline,
    what: &str,
) -> Result<(), Error> {
    if deadline.remaining().is_none() {
        return Err(deadline.missed(format_args!("{}: {what}", spec.name)));
    }
    match guest.process.wait(Deadline::after(STEP)) {
        Ok(None) => Ok(()),
        _ => Err(wrong(spec, format!("QEMU has ended: {}", guest.process.stderr()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_is_waited_for_while_its_qemu_cannot_run() {
        let second_ns = 1_000_000_000;
        for (delay_ns, given_up_s) in [(0, 60), (second_ns * 9 / 10, 600)] {
            let mut had = Chance::default();
            let mut seconds = 0..1_000;
            let given_up = seconds.find(|second| {
                let work = Work { delay_ns: second * delay_ns, ..Work::default() };
                let now = Duration::from_secs(*second);
                had_ms(&mut had, now, || Some(work)) >= DAEMON_PATIENCE_MS
            });
            assert_eq!(given_up, Some(given_up_s));
        }
    }

    #[test]
    fn balloon_is_still_from_its_last_move_on() {
        let mut still = Still::default();
        let mut ms = |second, actual| {
            still.ms(Some(actual), Duration::from_secs(second), || Some(Work::default()))
        };
        assert_eq!([ms(1, 90), ms(2, 90), ms(3, 80)], [0, 1_000, 0]);
        assert_eq!([ms(4, 80), ms(5, 80), ms(6, 70)], [1_000, 2_000, 0]);
    }

    #[test]
    fn state_is_found_with_the_next_rate() {
        let path = state_paths(Path::new("/t"), 0xabc);
        assert_eq!(path(None), Path::new("/t/0000000000000abc.state"));
        let [here, next] = [2595, 2596].map(|mhz| Rate::from_mhz(mhz).unwrap());
        assert_eq!(path(Some(here)), Path::new("/t/0000000000000abc-2595000.state"));
        assert!(next.alike().any(|rate| path(Some(rate)) == path(Some(here))));
    }
}
