//! Records of this guest for z/VM's monitor, written by a separate process. A request to a file
//! system may block forever, and the daemon's rules must not wait for it.

use crate::args::Args;
use crate::clock::Clock;
use crate::daemon::Failed;
use crate::guestmon::{self, FileSystems, Now, Processes};
use crate::log::{Log, Topic};
use crate::status;
use crate::sys::{self, Interest, Signal, Signals};
use procfs::Root;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::thread;
use std::time::Duration;
use zmon::fsstatd::Numbers;

/// A bit that is set in valid flags of a file system. glibc clears this bit, and the original is
/// linked with glibc.
const ST_VALID: u64 = 0x20;

/// The monitor's device, opened once for each writer. The device keeps separate records for each
/// open file, and ends them when the file is closed.
#[derive(Debug)]
pub struct Devices {
    processes: File,
    file_systems: File,
}

pub fn open(device: &Path) -> Result<Devices, Failed> {
    let open = || {
        // Appending makes no difference for the device, and allows a regular file in place of the
        // device.
        let file = File::options().read(true).append(true).open(device);
        file.map_err(|e| Failed(format!("Cannot open {}: {e}", device.display())))
    };
    Ok(Devices { processes: open()?, file_systems: open()? })
}

/// Writes records until a signal ends the process.
pub fn run(
    args: &Args,
    devices: Devices,
    every: Duration,
    log: Log,
    mut signals: Signals,
) -> io::Result<()> {
    let root = Root::at(&args.root);
    // The thread may block forever on a file server that does not answer. It ends with the process.
    let others = (root.clone(), devices.file_systems, log.another());
    thread::Builder::new().spawn(move || {
        let (root, device, log) = others;
        tell_file_systems(root, device, log, every);
    })?;
    let clock = Clock::new();
    let mut device = Device { file: devices.processes, log };
    let mut processes = Processes::new(root.clone(), sys::page_kib());
    let mut next_ms = clock.ms();
    loop {
        let now = Now { us: (clock.epoch_s() * 1e6) as u64 };
        processes.round(now, |record| device.write(record));
        let own = guestmon::own(&root, status::rules(&args.run_dir));
        device.write(&own.write(now.seconds()));
        next_ms += every.as_millis() as u64;
        loop {
            let left = next_ms.saturating_sub(clock.ms());
            if left == 0 {
                break;
            }
            sys::wait([Some((signals.as_raw_fd(), Interest::Input))], left)?;
            while let Some(signal) = signals.next() {
                if signal == Signal::End {
                    return Ok(());
                }
            }
        }
    }
}

fn tell_file_systems(root: Root, device: File, log: Log, every: Duration) {
    let clock = Clock::new();
    let mut device = Device { file: device, log };
    let mut systems = FileSystems::new(root);
    let mut next_ms = clock.ms();
    loop {
        let told = systems.round(clock.epoch_s() as u64, room, |record| device.write(record));
        if let Err(error) = told {
            let message = format!("Cannot read the list of file systems: {error}");
            device.log.error_once(Topic::Read, message);
        }
        next_ms += every.as_millis() as u64;
        let _ = sys::wait([None::<(RawFd, Interest)>], next_ms.saturating_sub(clock.ms()));
    }
}

fn room(directory: &CStr) -> io::Result<Numbers> {
    let found = sys::filesystem(directory)?;
    Ok(Numbers {
        block_bytes: found.f_bsize as u64,
        fragment_bytes: found.f_frsize as u64,
        blocks: found.f_blocks as u64,
        free: found.f_bfree as u64,
        available: found.f_bavail as u64,
        files: found.f_files as u64,
        files_free: found.f_ffree as u64,
        files_available: found.f_favail as u64,
        flags: found.f_flag as u64 & !ST_VALID,
    })
}

struct Device {
    file: File,
    log: Log,
}

impl Device {
    /// Writes a record in one call. If the device refuses records, that is logged once.
    fn write(&mut self, record: &[u8]) {
        match self.file.write(record) {
            Ok(count) if count == record.len() => self.log.works(Topic::Monitor),
            Ok(count) => {
                let message = format!("A record of {} bytes was cut to {count}", record.len());
                self.log.error_once(Topic::Monitor, message);
            }
            Err(error) => {
                self.log.error_once(Topic::Monitor, format!("z/VM refused a record: {error}"));
            }
        }
    }
}
