//! One guest of a kind is booted and its state saved; the others go on from there.
//!
//! ```text
//!   boot ─► services are up ─► squeeze ─► stop ─► state ─► CACHE/templates/ARCH/KEY.state
//!                                                           │ read whole, into memory that
//!                               clone, clone, clone … ◄─────┘ is each clone's own
//! ```
//!
//! A clone never maps the file: what its balloon or its kernel's page reports punch out of a
//! mapping, even a private one, is gone from the file and from every other clone. What clones have
//! in common is shared again by the host's KSM.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command as Tool;
use std::time::{Duration, SystemTime};

use qmp::{Command, Reply};

use crate::apt::create_dir;
use crate::disk::Writes;
use crate::error::FileContext;
use crate::tool::run;
use crate::tsc::Rate;
use crate::{Cache, Deadline, Error, GuestSpec, Net, Session};

/// What a template is called while it runs.
const NAME: &str = "template";

/// Changed whenever a template is prepared in another way: older ones are then made anew.
const PREPARATION: u32 = 2;

/// Old states are removed beyond this number; each has some tens of megabytes.
const KEPT_STATES: usize = 8;

/// Enough for any disk: the guest is stopped and waits for nothing else.
const BYTES_A_SECOND: u64 = 10 << 30;

/// What a guest keeps while its free memory is wiped: less would make its kernel drop what the
/// clones need at once.
const SPARED_KIB: u64 = 8 * 1024;

/// How often QEMU is asked how far it is.
const STEP: Duration = Duration::from_millis(10);

/// Files out of which nobody reads any more are dropped, and the daemon comes to rest.
const SETTLE: &str = "sync; echo 3 > /proc/sys/vm/drop_caches; sleep 3; \
     echo 3 > /proc/sys/vm/drop_caches; awk '/^MemFree:/ { print $2 }' /proc/meminfo";

/// The saved state of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its file, for [`GuestSpec::restore`].
    pub state: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Template {
    /// The template for guests like this one, which may differ in their names, addresses and
    /// forwarded ports: from the cache, or else a guest is booted for it.
    pub fn make(spec: &GuestSpec, cache: &Cache, deadline: Deadline) -> Result<Template, Error> {
        let spec = template_spec(spec)?;
        let directory = cache.root().join("templates").join(spec.image.arch.name());
        let state_at = state_paths(&directory, key(&spec)?);
        let rate = spec.tsc_rate();
        let state = state_at(rate);
        let alike = rate.into_iter().flat_map(Rate::alike).map(|rate| state_at(Some(rate)));
        let alike: Vec<PathBuf> = alike.collect();
        let kept = || iter::once(&state).chain(&alike).find_map(|state| found(state));
        if let Some(found) = kept() {
            return Ok(found);
        }
        create_dir(&directory)?;
        let path = directory.join("lock");
        let lock = File::options().create(true).append(true).open(&path).file("open", &path)?;
        lock.lock().file("lock", &path)?;
        // Whoever held the lock may have made the same.
        if let Some(found) = kept() {
            return Ok(found);
        }
        remove_old(&directory)?;
        save(&spec, &state, deadline)?;
        found(&state).ok_or_else(|| wrong(&spec, "its state is empty"))
    }
}

fn wrong(spec: &GuestSpec, reason: impl Into<String>) -> Error {
    Error::Template { guest: spec.name.clone(), reason: reason.into() }
}

fn found(state: &Path) -> Option<Template> {
    let bytes = fs::metadata(state).ok()?.len();
    (bytes > 0).then(|| Template { state: state.to_owned(), bytes })
}

/// The guest that stands for all: nobody's name and address, and no way in from outside.
fn template_spec(spec: &GuestSpec) -> Result<GuestSpec, Error> {
    let refuse = |reason: &str| Err(wrong(spec, reason));
    if !spec.ctl {
        return refuse("without a control port clones cannot be told who they are");
    }
    if spec.disk.as_ref().is_some_and(|disk| disk.writes != Writes::Layer) {
        return refuse("its disk is written to, and a state of memory does not hold that");
    }
    let net = spec.net.as_ref().map(|_| Net { number: 0, forwards: Vec::new() });
    Ok(GuestSpec { name: NAME.into(), run_dir: None, net, restore: None, ..spec.clone() })
}

/// Where the state of guests with this key is, by the rate of their clocks. It is no part of the
/// key, since the next process measures it a bit otherwise.
fn state_paths(directory: &Path, key: u64) -> impl Fn(Option<Rate>) -> PathBuf {
    move |rate| match rate {
        Some(rate) => directory.join(format!("{key:016x}-{}.state", rate.khz())),
        None => directory.join(format!("{key:016x}.state")),
    }
}

/// What a state depends on, in a number, but for the rate of the host's time stamp counter.
fn key(spec: &GuestSpec) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    let mut put = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    put(&PREPARATION.to_le_bytes());
    let mut version = Tool::new(spec.image.arch.qemu_program());
    let hint = format!("install {}", spec.image.arch.qemu_package());
    put(run(version.arg("--version"), &hint)?.stdout.as_bytes());
    for word in spec.arguments_at(None) {
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
    Ok(hasher.finish())
}

/// Boots the guest and writes its state into a file, which is there when it is whole.
fn save(spec: &GuestSpec, whole: &Path, deadline: Deadline) -> Result<(), Error> {
    let part = whole.with_extension("part");
    // QEMU hands none of its descriptors to a program of its own, and says that it is done before
    // that program is: so the program itself gives the file its name.
    let (from, to) = (quoted(&part), quoted(whole));
    let uri = format!("exec:cat > {from} && mv {from} {to}");
    let mut guest = Session::boot(spec, deadline)?;
    squeeze(spec, &mut guest, deadline)?;
    let steps =
        [Command::SetMigrateBandwidth { bytes_a_second: BYTES_A_SECOND }, Command::Migrate { uri }];
    for step in steps {
        guest.monitor.call(step, deadline)?;
    }
    loop {
        match guest.monitor.call(Command::QueryMigrate, deadline)? {
            Reply::Migration(Some(status)) if status == "completed" && whole.exists() => break,
            Reply::Migration(Some(status)) if status == "failed" || status == "cancelled" => {
                let words = guest.process.stderr();
                return Err(wrong(spec, format!("saving its state has {status}: {words}")));
            }
            _ => wait_a_step(spec, &mut guest, deadline, "its state is saved")?,
        }
    }
    Ok(())
}

/// A path as one word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// Wipes the guest's free memory, so that it is not part of the state: the balloon takes it, and
/// what the guest gets back is fresh.
fn squeeze(spec: &GuestSpec, guest: &mut Session, deadline: Deadline) -> Result<(), Error> {
    let free_kib: u64 = guest
        .sh(SETTLE, deadline)?
        .trim()
        .parse()
        .map_err(|_| wrong(spec, "it does not say how much memory it has free"))?;
    let all_bytes = spec.memory_mib << 20;
    let kept_bytes = all_bytes.saturating_sub(free_kib.saturating_sub(SPARED_KIB) << 10);
    for value_bytes in [kept_bytes, all_bytes] {
        guest.monitor.call(Command::Balloon { value_bytes }, deadline)?;
        loop {
            match guest.monitor.call(Command::QueryBalloon, deadline)? {
                Reply::Balloon { actual_bytes } if actual_bytes == value_bytes => break,
                _ => wait_a_step(spec, guest, deadline, "its balloon follows")?,
            }
        }
    }
    Ok(())
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

/// Leaves room for one more. Whoever reads an old one has it open.
fn remove_old(directory: &Path) -> Result<(), Error> {
    let mut states: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory).file("read", directory)? {
        let path = entry.file("read", directory)?.path();
        if path.extension().is_some_and(|end| end == "state") {
            let changed = fs::metadata(&path).and_then(|data| data.modified());
            states.push((changed.file("read", &path)?, path));
        }
    }
    states.sort();
    let excess = (states.len() + 1).saturating_sub(KEPT_STATES);
    for (_, path) in states.iter().take(excess) {
        fs::remove_file(path).file("remove", path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_by_who_measures_the_next_rate() {
        let path = state_paths(Path::new("/t"), 0xabc);
        assert_eq!(path(None), Path::new("/t/0000000000000abc.state"));
        let [here, next] = [2595, 2596].map(|mhz| Rate::from_mhz(mhz).unwrap());
        assert_eq!(path(Some(here)), Path::new("/t/0000000000000abc-2595000.state"));
        assert!(next.alike().any(|rate| path(Some(rate)) == path(Some(here))));
    }

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
