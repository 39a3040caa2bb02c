//! Parking of guests on disk. A park file contains the part of the guest's memory that differs from
//! the template's memory. The guest's QEMU has ended.
//!
//! ```text
//!   QMP stop ─► devices ─► SIGSTOP ─► own pages ─► FILE.part ─► fsync, rename ─► QEMU is killed
//!                                                                                   │ on disk
//!   goes on ◄─ QMP cont ◄─ devices ◄─ own pages ◄─ QEMU with the template's memory ◄┘
//! ```
//!
//! A file stays after its guest has resumed, until a newer file replaces it. Even if this process
//! is killed, the older or the newer file of a guest is complete. A file is read completely before
//! a QEMU is started for the guest. Long work runs on a thread.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use vm::images;

use base::{Bytes, PageRun, StableHash};
use hypervisor::{GuestMemory, ProcessId};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use vm::parkfile::{self, Header, Part, Reader, Writer};
use vm::{GuestSpec, Template};

use super::alarm::Alarm;
use super::fault::Fault;
use super::open::RunningGuest;
use super::park_clock::SILENT_MS;
use super::refusal::Refusal;
use super::worker::Job;
use crate::relay::Door;

/// Size of one read of a park file.
const READ_BYTES: usize = 1 << 20;

/// Share of a disk that parked guests leave free. On a large disk this share is capped at the
/// amount that a system needs.
const FREE_PERMILLE: u64 = 100;
const FREE_MAX: Bytes = Bytes::mib(4096);

#[derive(Debug, Default)]
pub(super) struct Suspension {
    pub(super) stage: Stage,
    /// The guest's forwarded ports, which stay open while no QEMU runs.
    pub(super) door: Option<Door>,
    /// True if a client has connected to the door and the guest waits for its turn to be woken.
    pub(super) is_wanted: bool,
    /// Arrival time of the client for which the guest is brought back.
    pub(super) for_client_ms: Option<u64>,
    /// Next timer of the guest, also used for parking in memory.
    pub(super) alarm: Alarm,
    /// Number of failed attempts in a row to bring the guest back.
    pub(super) failures: u32,
    /// Number of successive failures because the file was damaged or missing.
    pub(super) broken_files: u32,
}

#[derive(Debug, Default)]
pub(super) enum Stage {
    /// The guest has a QEMU, or was never started.
    #[default]
    Awake,
    /// The guest is only on disk.
    OnDisk {
        is_wanted: bool,
        /// Earliest time of the next attempt to bring the guest back.
        retry_ms: u64,
    },
    /// The guest's file is being read.
    Reading(Job<Devices>),
    /// The new QEMU starts. `is_ready` is set once its monitor responds.
    Starting { is_ready: bool },
    /// The guest's own pages are being written into its QEMU.
    Filling(Job<()>),
    /// QEMU loads the state of the devices and then runs the guest.
    Loading,
    /// The guest cannot be brought back.
    Failed(Failure),
}

/// Reason why a guest cannot be brought back.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) why: Fault,
    /// True if the file is damaged or missing. Another attempt helps only once the file is back.
    pub(super) is_of_file: bool,
}

impl Suspension {
    /// Returns true if the guest is on disk, or on its way back.
    pub(super) fn is_away(&self) -> bool {
        !matches!(self.stage, Stage::Awake)
    }

    /// Returns true if the guest is only on disk.
    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.stage, Stage::OnDisk { .. })
    }

    /// Returns true if the guest is only on disk and no client or user wants it.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.stage, Stage::OnDisk { is_wanted: false, .. })
    }

    /// Returns one word for the suspension, or `None` if the guest is awake.
    pub(super) fn word(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Awake => None,
            Stage::OnDisk { is_wanted: false, .. } => Some("parked"),
            _ => Some("waking"),
        }
    }

    /// Wakes the guest on request.
    pub(super) fn wake(&mut self) {
        (self.is_wanted, self.failures) = (false, 0);
        // The timer is requested again before the next park.
        self.alarm = Alarm::default();
        if let Stage::OnDisk { is_wanted, retry_ms } = &mut self.stage {
            (*is_wanted, *retry_ms) = (true, 0);
        }
    }

    /// Closes the door if the guest is awake. The error counts the clients that closing would
    /// interrupt.
    pub(super) fn shut(&self, is_awake: bool) -> Result<(), Refusal> {
        match self.door.as_ref().filter(|_| is_awake).map(|door| door.shut(u64::from(SILENT_MS))) {
            Some(Err(count)) => Err(Refusal::Clients { count }),
            _ => Ok(()),
        }
    }

    /// Returns true if the guest was woken for clients and none of them has sent anything yet.
    pub(super) fn is_for_nothing(
        &self,
        running: &mut RunningGuest,
        spec: &GuestSpec,
        now_ms: u64,
    ) -> bool {
        match &self.door {
            Some(door) => door.is_silent(u64::from(SILENT_MS)),
            None => running.is_woken_for_nothing(spec, now_ms),
        }
    }

    /// Returns true once if a client waits at the door, unless the guest is already on its way
    /// back.
    pub(super) fn client_came(&mut self) -> bool {
        let may_be_asked =
            matches!(self.stage, Stage::Awake | Stage::OnDisk { is_wanted: false, .. });
        let has_come = may_be_asked && self.door.as_ref().is_some_and(Door::is_wanted);
        has_come && !std::mem::replace(&mut self.is_wanted, true)
    }
}

/// Checks that a guest's pages fit on a disk with `left` bytes free. Part of the disk stays free
/// for other users.
fn fits(pages: Bytes, left: Bytes, disk: Bytes) -> io::Result<()> {
    let stays = disk.permille(FREE_PERMILLE).min(FREE_MAX);
    // A file system in memory without a limit reports no size.
    if disk == Bytes::ZERO || left >= pages.plus(stays) {
        return Ok(());
    }
    let mib = |bytes: Bytes| bytes.0 >> 20;
    Err(io::Error::other(format!(
        "the disk has {} MiB free, of which {} must stay free, and the guest may need {}",
        mib(left),
        mib(stays),
        mib(pages)
    )))
}

/// Returns the number that binds a guest's file to its template and machine. Another template or
/// machine has another number.
fn machine(spec: &GuestSpec, template: &Template) -> io::Result<u64> {
    let mut hash = StableHash::default();
    hash.put(&template.stamp()?.to_le_bytes());
    hash.put(spec.name.as_bytes());
    hash.put(&u64::from(spec.cpus).to_le_bytes());
    hash.put(&spec.memory_mib.to_le_bytes());
    let address = spec.net.as_ref().map(|net| net.address().octets());
    hash.put(&address.unwrap_or_default());
    Ok(hash.finish())
}

/// Waits until a child process that was sent SIGSTOP has stopped.
fn has_stopped(process: ProcessId) -> io::Result<()> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    // NOWAIT leaves the exit status to the owner of the child.
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options)? {
        Some(status) if status.stopped() => Ok(()),
        _ => Err(io::Error::other("its QEMU is gone")),
    }
}

/// Input for saving a guest.
#[derive(Debug)]
pub(super) struct Saved {
    path: PathBuf,
    process: ProcessId,
    devices: Vec<u8>,
    header: Header,
}

impl Saved {
    /// Collects the input for a guest with a stopped QEMU.
    pub(super) fn new(
        spec: &GuestSpec,
        path: &Path,
        pid: u32,
        devices: Vec<u8>,
    ) -> Result<Saved, Fault> {
        let process = ProcessId::of(pid).ok_or(Fault::NoQemu)?;
        let template = spec.restore.as_ref().ok_or(Fault::NoClone)?;
        let machine = machine(spec, template).map_err(Fault::of)?;
        let header = Header {
            guest: spec.name.clone(),
            machine,
            memory_bytes: spec.memory_mib << 20,
            page_bytes: rustix::param::page_size() as u64,
            saved_at_s: images::time_of_day().as_secs(),
        };
        Ok(Saved { path: path.to_owned(), process, devices, header })
    }

    /// Writes the file and returns its size. On failure the previous file stays.
    pub(super) fn write(&self, is_left: &AtomicBool) -> Result<u64, Fault> {
        let part = self.path.with_added_extension("part");
        let written = self.write_part(&part, is_left).and_then(|bytes| {
            fs::rename(&part, &self.path)?;
            // The new name is on the disk only once the directory is synced.
            self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())?;
            Ok(bytes)
        });
        written.map_err(|error| {
            let _ = fs::remove_file(&part);
            Fault::of(error).at(&self.path)
        })
    }

    fn write_part(&self, part: &Path, is_left: &AtomicBool) -> io::Result<u64> {
        // Each thread of QEMU may write to memory after the signal, until the thread has stopped.
        has_stopped(self.process)?;
        let memory = GuestMemory::find(self.process, Bytes(self.header.memory_bytes))?;
        // A guest's memory is private, so only the owner may read the file.
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(part)?;
        let (pages, room) = (memory.own_pages()?, rustix::fs::fstatvfs(&file)?);
        let [left, disk] = [room.f_bavail, room.f_blocks].map(|blocks| blocks * room.f_frsize);
        let bytes = PageRun::pages(&pages) * self.header.page_bytes;
        fits(Bytes(bytes), Bytes(left), Bytes(disk))?;
        let mut writer = Writer::new(BufWriter::new(file), &self.header)?;
        writer.devices(&self.devices)?;
        writer.pages(&pages, |runs| match is_left.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the request was cancelled")),
            false => memory.read(runs),
        })?;
        let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        // The file is checked before it replaces the previous file, because the replacement deletes
        // the previous file.
        parkfile::check(BufReader::with_capacity(READ_BYTES, File::open(part)?))
            .map_err(io::Error::other)?;
        match is_left.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the request was cancelled")),
            false => Ok(bytes),
        }
    }
}

/// State of a guest's devices, or the reason why its file is unusable.
pub(super) type Devices = Result<Vec<u8>, Fault>;

fn read_whole(path: &Path, spec: &GuestSpec) -> Result<Devices, Fault> {
    // An I/O error may be temporary. A missing or damaged file stays unusable.
    let split = |error: parkfile::Error| match error {
        parkfile::Error::Io(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Fault::of(error))
        }
        broken => Ok(Err(Fault::of(broken))),
    };
    let mut reader = match File::open(path).map_err(Into::into).and_then(reader) {
        Ok(reader) => reader,
        Err(error) => return split(error),
    };
    let template = spec.restore.as_ref().ok_or(Fault::NoClone)?;
    let machine = machine(spec, template).map_err(Fault::of)?;
    let header = reader.header();
    if header.machine != machine || header.page_bytes != rustix::param::page_size() as u64 {
        return Ok(Err(Fault::Foreign));
    }
    let mut devices = Vec::new();
    loop {
        match reader.next_part() {
            Ok(Some(Part::Devices(bytes))) => devices.extend(bytes),
            Ok(Some(Part::Pages { .. })) => {}
            Ok(None) => return Ok(Ok(devices)),
            Err(error) => return split(error),
        }
    }
}

/// Reads a guest's whole file. An outer error may be temporary, and an inner error is permanent.
/// Both kinds of error contain the file's path.
pub(super) fn read_devices(path: &Path, spec: &GuestSpec) -> Result<Devices, Fault> {
    match read_whole(path, spec) {
        Ok(devices) => Ok(devices.map_err(|why| why.at(path))),
        Err(why) => Err(why.at(path)),
    }
}

/// Writes a guest's own pages into a QEMU that has not run yet.
pub(super) fn fill(path: &Path, spec: &GuestSpec, process: ProcessId) -> Result<(), Fault> {
    fill_from(path, spec, process).map_err(|why| why.at(path))
}

fn fill_from(path: &Path, spec: &GuestSpec, process: ProcessId) -> Result<(), Fault> {
    let memory = GuestMemory::find(process, Bytes::mib(spec.memory_mib)).map_err(Fault::of)?;
    let template = spec.restore.as_ref().and_then(|template| template.memory.as_ref());
    let template = template.ok_or(Fault::NoClone)?.reopen().map_err(Fault::of)?;
    // QEMU's reset at its start may have written to guest memory.
    memory.reset_to(&template).map_err(Fault::of)?;
    let file = File::open(path).map_err(Fault::of)?;
    let mut reader = reader(file).map_err(Fault::of)?;
    while let Some(part) = reader.next_part().map_err(Fault::of)? {
        if let Part::Pages { runs, bytes } = part {
            memory.write(&runs, &bytes).map_err(Fault::of)?;
        }
    }
    Ok(())
}

fn reader(file: File) -> Result<Reader<impl Read>, parkfile::Error> {
    Reader::new(BufReader::with_capacity(READ_BYTES, file))
}

/// Removes all park files of a farm, and then their directory if it is empty.
pub(super) fn remove_all(of: &Path) {
    let entries = of.parent().into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten();
    let ends = ["park", "part"];
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|end| ends.iter().any(|known| end == *known)) {
            let _ = fs::remove_file(path);
        }
    }
    of.parent().map(fs::remove_dir);
}

/// Removes a guest's file and its unfinished part file.
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(path.with_added_extension("part"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding2_10_parked_guests_leave_a_part_of_their_disk() {
        let mib = Bytes::mib;
        assert!(fits(mib(100), mib(200), mib(1000)).is_ok());
        let refusal = fits(mib(101), mib(200), mib(1000)).unwrap_err().to_string();
        let wanted =
            "the disk has 200 MiB free, of which 100 must stay free, and the guest may need 101";
        assert_eq!(refusal, wanted);
        assert!(fits(mib(100), mib(4196), mib(1 << 20)).is_ok(), "a large disk keeps 4 GiB");
        assert!(fits(mib(101), mib(4196), mib(1 << 20)).is_err());
    }

    #[test]
    fn foreign_file_is_refused_with_its_name() {
        let dir = vm::Scratch::new("suspend").unwrap();
        let path = dir.join("web1.park");
        let accel = vm::Accel::Emulation(vm::WhyEmulation::Asked);
        let image = images::Image {
            arch: images::Arch::X86_64,
            kernel: "/k".into(),
            initramfs: "/i".into(),
            first_process: images::FirstProcess::Ours,
        };
        let spec = GuestSpec::new("web1", image, accel);
        let why = || base::chain(&read_devices(&path, &spec).unwrap().unwrap_err());
        assert!(why().contains("web1.park: No such file"), "{}", why());
        fs::write(&path, "something else").unwrap();
        assert!(why().contains("web1.park: it is damaged: it does not begin"), "{}", why());
        fs::write(dir.join("other"), "").unwrap();
        remove_all(&path);
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["other"]);
    }
}
