//! Live data from the kernel of a guest of z/VM, or of a partition.

use super::args::{HypfsArgs, ReadArgs};
use super::recording::{Recording, told};
use crate::tell::tell;
use crate::{Error, TimeError, ZvmError};
use base::counted;
use model::Moment;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use why::when;
use zmon::stream::{self, Set, Stream, parts};
use zvm::{Hypervisor, Monitor};

/// Size of a read from the device.
const READ_BYTES: usize = 1 << 16;
/// Directory with the hypervisor's counters as texts. Only some kernels have this directory.
const TREE: &str = "/sys/hypervisor/s390";
/// Maximum depth of directories, and maximum number of attempts to read the tree.
const TREE_DEPTH: u32 = 8;
const TREE_TRIES: u32 = 5;
/// Linux error numbers that have a meaning for the monitor's reader.
const EIO: i32 = 5;
const EFAULT: i32 = 14;
const EOVERFLOW: i32 = 75;

/// Reads until the device ends. The real device never ends by itself.
pub(super) fn read(args: &ReadArgs) -> Result<String, Error> {
    let mut device = File::open(&args.device).map_err(|source| {
        let what = match source.kind() {
            io::ErrorKind::NotFound => format!(
                "{} does not exist: this command needs a guest of z/VM, the module monreader, and \
                 in the guest's directory entry `IUCV *MONITOR` and the monitor's segment",
                args.device.display()
            ),
            _ => format!(
                "Cannot open {}, which only one program at a time can use",
                args.device.display()
            ),
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
                    tell(
                        "pinhead",
                        "records were lost: z/VM sent them faster than this program read them",
                    );
                    stream::Read::Overflow
                }
                // A second failure without data in between means that CP has severed the
                // connection.
                Some(EIO | EFAULT) if !has_failed => stream::Read::Failed,
                _ if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return Err(Error::Read { path: args.device.clone(), source: error }),
            },
        };
        has_failed = read == stream::Read::Failed;
        // An empty read ends a set. A file or a pipe instead of the device returns empty reads
        // forever.
        empty = if read == stream::Read::Bytes(&[]) { empty + 1 } else { 0 };
        match stream.take(read) {
            Some(Set::Whole(set) | Set::Part(set)) => take(&set, &mut monitor, &mut recording)?,
            Some(Set::Lost(bytes)) => {
                tell("pinhead", &format!("a set of data was lost: {bytes} bytes"));
            }
            None => {}
        }
        if empty > 2 && !is_device(&args.device) {
            let size = recording.size();
            recording.end()?;
            return Ok(format!("{}; {size}\n", told(monitor.counts())));
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
        tell("pinhead", &format!("a set of data is incomplete: {error}"));
    }
    Ok(())
}

/// Location of the hypervisor's counters in the kernel.
enum Counters {
    /// z/VM's counters, in one file.
    Guests(PathBuf),
    /// The machine's counters, in one file.
    Partitions(PathBuf),
    /// Counters of z/VM or of the machine, with one file for each number.
    Tree(PathBuf),
}

impl Counters {
    fn find(args: &HypfsArgs) -> Result<Counters, Error> {
        let tree = Path::new(TREE);
        let (guests, partitions) = (args.from.join("diag_2fc"), args.from.join("diag_204"));
        let is_tree = |dir: &Path| dir.join("hyp/type").exists();
        match () {
            () if guests.exists() => Ok(Counters::Guests(guests)),
            () if partitions.exists() => Ok(Counters::Partitions(partitions)),
            () if is_tree(&args.from) => Ok(Counters::Tree(args.from.clone())),
            () if is_tree(tree) => Ok(Counters::Tree(tree.into())),
            () => Err(ZvmError::NoCounters { path: args.from.clone(), tree: TREE }.into()),
        }
    }

    fn look(&self, hypervisor: &mut Hypervisor) -> Result<Moment, Error> {
        let (Counters::Guests(path) | Counters::Partitions(path) | Counters::Tree(path)) = self;
        let read = || fs::read(path).map_err(|source| Error::Read { path: path.clone(), source });
        let at_ms = ::why::now().ms;
        let moment = match self {
            Counters::Guests(_) => hypervisor.guests(&read()?, at_ms),
            Counters::Partitions(_) => hypervisor.partitions(&read()?, at_ms),
            Counters::Tree(_) => {
                let files = tree_files(path)?;
                let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
                hypervisor.tree(files, at_ms)
            }
        };
        moment.map_err(|error| Error::step(path.display().to_string(), error))
    }
}

/// Reads all files of a tree as of one point in time. The kernel updates the files after a write to
/// `update`. The modification time of `update` is the time of the update.
fn tree_files(dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let update = dir.join("update");
    let renewed = || fs::metadata(&update).and_then(|found| found.modified()).ok();
    // The kernel refuses a second update within a second. After a refusal the numbers are recent
    // enough.
    let _ = File::options().write(true).open(&update).and_then(|mut file| file.write_all(b"1"));
    for _ in 0..TREE_TRIES {
        let (before, mut files) = (renewed(), Vec::new());
        let read = walk(dir, "", 0, &mut files);
        if renewed() == before {
            read.map_err(|source| Error::Read { path: dir.into(), source })?;
            return Ok(files);
        }
    }
    Err(ZvmError::Changing { path: dir.into() }.into())
}

fn walk(dir: &Path, below: &str, depth: u32, files: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        // Links are not followed, because a tree contains no links.
        match entry.file_type()? {
            kind if kind.is_dir() && depth < TREE_DEPTH => {
                walk(&entry.path(), &path, depth + 1, files)?;
            }
            kind if kind.is_file() && path != "update" => {
                files.push((path, fs::read_to_string(entry.path())?));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn hypfs(args: &HypfsArgs) -> Result<String, Error> {
    let every_ms = when::span(&args.every)?;
    if every_ms < 1_000 {
        return Err(TimeError::EveryShort.into());
    }
    let mut hypervisor = Hypervisor::default();
    let mut recording = Recording::to(&args.to);
    let counters = Counters::find(args)?;
    let mut times = 0;
    loop {
        recording.add(&counters.look(&mut hypervisor)?)?;
        times += 1;
        if args.times.is_some_and(|most| times >= most) {
            let guests = recording.most_guests();
            recording.end()?;
            return Ok(format!("{}, {guests}\n", counted(times, "time")));
        }
        thread::sleep(Duration::from_millis(every_ms.unsigned_abs()));
    }
}
