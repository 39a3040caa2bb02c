//! What the kernel of a guest of z/VM, or of a partition, hands out while it happens.

use super::args::{HypfsArgs, ReadArgs};
use super::recording::{Recording, told};
use crate::Error;
use crate::tell::tell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;
use why::when;
use zmon::stream::{self, Set, Stream, parts};
use zvm::{Hypervisor, Monitor};

/// A read of the device.
const READ_BYTES: usize = 1 << 16;
/// Numbers of errors of Linux that mean something to a reader.
const EIO: i32 = 5;
const EFAULT: i32 = 14;
const EOVERFLOW: i32 = 75;

/// Reads until the device ends, which it does not by itself.
pub(super) fn read(args: &ReadArgs) -> Result<String, Error> {
    let mut device = File::open(&args.device).map_err(|source| {
        let what = match source.kind() {
            io::ErrorKind::NotFound => format!(
                "{} is not there: it takes a guest of z/VM, the module monreader, and `IUCV \
                 *MONITOR` and the monitor's segment in its directory entry",
                args.device.display()
            ),
            _ => format!("Cannot open {}, which one program at a time may", args.device.display()),
        };
        Error::step(what, source)
    })?;
    let mut recording = Recording::to(&args.to);
    let mut monitor = Monitor::default();
    let mut stream = Stream::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut empty = 0;
    let mut has_failed = false;
    loop {
        let read = match device.read(&mut buffer) {
            Ok(count) => stream::Read::Bytes(&buffer[..count]),
            Err(error) => match error.raw_os_error() {
                Some(EOVERFLOW) => {
                    tell("pinhead", "CP was faster: records were lost");
                    stream::Read::Overflow
                }
                // Twice with nothing between them: CP has severed the connection.
                Some(EIO | EFAULT) if !has_failed => stream::Read::Failed,
                _ if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return Err(Error::Read { path: args.device.clone(), source: error }),
            },
        };
        has_failed = read == stream::Read::Failed;
        // An empty read ends a set. A file or a pipe in the device's place gives them for ever.
        empty = if read == stream::Read::Bytes(&[]) { empty + 1 } else { 0 };
        match stream.take(read) {
            Some(Set::Whole(set) | Set::Part(set)) => take(&set, &mut monitor, &mut recording)?,
            Some(Set::Lost(bytes)) => tell("pinhead", &format!("{bytes} bytes could not be kept")),
            None => {}
        }
        if empty > 2 && !is_device(&args.device) {
            let (moments, guests) = (recording.moments, recording.guests);
            recording.end()?;
            let told = told(monitor.counts());
            return Ok(format!("{told}; {moments} intervals, {guests} guests at most\n"));
        }
    }
}

fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

fn take(set: &[u8], monitor: &mut Monitor, recording: &mut Recording) -> Result<(), Error> {
    let (parts, end) = parts(set);
    for found in parts.into_iter().flatten() {
        if let Some(moment) = monitor.take(&found) {
            recording.add(&moment)?;
        }
    }
    if let Err(error) = end {
        tell("pinhead", &format!("a set of data ends before its time: {error}"));
    }
    Ok(())
}

/// Reads the hypervisor's counters again and again.
pub(super) fn hypfs(args: &HypfsArgs) -> Result<String, Error> {
    let every_ms = when::span(&args.every)?;
    if every_ms < 1_000 {
        return Err(Error::Message("--every is one second or more".into()));
    }
    let mut hypervisor = Hypervisor::default();
    let mut recording = Recording::to(&args.to);
    let (guests, partitions) = (args.from.join("diag_2fc"), args.from.join("diag_204"));
    let is_vm = guests.exists();
    if !is_vm && !partitions.exists() {
        let message = format!(
            "{} has neither diag_2fc nor diag_204: it takes a guest of z/VM or an LPAR, root, and \
             debugfs",
            args.from.display()
        );
        return Err(Error::Message(message));
    }
    let path = if is_vm { guests } else { partitions };
    let mut times = 0;
    loop {
        let bytes = fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let at_ms = ::why::now().ms;
        let moment = match is_vm {
            true => hypervisor.guests(&bytes, at_ms),
            false => hypervisor.partitions(&bytes, at_ms),
        };
        let moment = moment.map_err(|error| Error::step(path.display().to_string(), error))?;
        recording.add(&moment)?;
        times += 1;
        if args.times.is_some_and(|most| times >= most) {
            let guests = recording.guests;
            recording.end()?;
            return Ok(format!("{times} times, {guests} guests at most\n"));
        }
        thread::sleep(Duration::from_millis(every_ms.unsigned_abs()));
    }
}
