//! A guest's disk: an image that many share, and where one guest's writes go.
//!
//! ```text
//!   image (never written) ──┬─► read-only ─► the guest lays memory over it (overlayfs)
//!      in the host's page   ├─► a temporary overlay without a name, gone with QEMU
//!      cache once for all   └─► an overlay file (qcow2) that is kept
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::FileContext;
use crate::ours::{check_dir, check_disk};
use crate::qcow2::{Below, DiskFormat, check_image, check_overlay};
use crate::tool::run;
use crate::{Arch, Error};

/// A disk image, and how a guest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The image. Unless [`Writes::Direct`] says so, nothing ever writes to it, and any number
    /// of guests may have it at the same time.
    pub path: PathBuf,
    /// What is in its file.
    pub format: DiskFormat,
    /// Where the guest's writes go.
    pub writes: Writes,
    /// Whether the host keeps in memory what the guest reads.
    pub cache: HostCache,
    /// How often in a second the guest reads of it at most, where it is to be as slow as a disk.
    pub reads: Option<u32>,
    /// What the guest sees as the disk's serial number; none unless it is given.
    pub serial: Option<String>,
    /// The images below, where QEMU is to open them by other names than the image's own header
    /// has for them.
    pub below: Vec<Below>,
}

/// Where a guest's writes to its disk go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Nowhere: the disk is read-only, and the guest lays a file system in memory over it. The
    /// whole state of such a guest is its memory, so it can be saved and cloned as that.
    Layer,
    /// Into a file without a name, which is gone with the guest's QEMU. It outlives a reboot.
    Temporary,
    /// Into this qcow2 file over the image. It is made if it is not there, and kept.
    Overlay(PathBuf),
    /// Into the image itself, which then no other guest may have.
    Direct,
}

base::named! {
    /// Whether what is read of an image stays in the host's page cache, by its names in a farm's
    /// file, which are QEMU's.
    #[derive(Default)]
    pub enum HostCache {
        /// It does, and is there once for all guests of the image.
        #[default]
        Writeback = "writeback",
        /// It is read past the cache (`O_DIRECT`), for the guest has a cache of its own. Writes to
        /// a temporary overlay go through it all the same: QEMU decides so.
        None = "none",
    }
}

/// What QEMU calls the disk in its monitor.
pub const DISK_ID: &str = "disk0";

/// A virtio disk has room for this much of a serial number.
const SERIAL_BYTES_MAX: usize = 20;

impl Disk {
    /// An image with a temporary overlay.
    pub fn temporary(path: impl Into<PathBuf>, format: DiskFormat) -> Disk {
        Disk {
            path: path.into(),
            format,
            writes: Writes::Temporary,
            cache: HostCache::default(),
            reads: None,
            serial: None,
            below: Vec::new(),
        }
    }

    /// Makes what the guest needs beside the image, and gives the images below that. To be called
    /// before QEMU is started.
    pub fn prepare(&self, guest: &str) -> Result<Vec<Below>, Error> {
        let in_serial = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if let Some(serial) = &self.serial
            && (serial.len() > SERIAL_BYTES_MAX || !serial.chars().all(in_serial))
        {
            let reason = "a disk's serial has at most 20 letters, digits, '-', '_' or '.'";
            return Err(Error::Disk { guest: guest.to_owned(), reason: reason.to_owned() });
        }
        let below = match self.format {
            DiskFormat::Raw => check_disk(&self.path).map(|_| Vec::new())?,
            DiskFormat::Qcow2 => check_image(&self.path)?,
        };
        match &self.writes {
            Writes::Overlay(file) if !file.exists() => {
                file.parent().map(check_dir).transpose()?;
                make_overlay(&self.path, self.format, file)?;
            }
            Writes::Overlay(file) => check_overlay(file)?,
            _ => {}
        }
        Ok(below)
    }

    /// QEMU's words for the disk.
    ///
    /// Unless it is told otherwise, the image goes through the host's page cache, so that guests
    /// share what they read. What is gone with QEMU need not reach the host's disk when the guest
    /// flushes: that of a temporary overlay never does. Reads and writes are done by threads that
    /// end when there is nothing to do: an idle disk costs nothing.
    pub fn arguments(&self, arch: Arch) -> Vec<OsString> {
        let (file, format, more) = match &self.writes {
            Writes::Layer => (&self.path, self.format, "read-only=on"),
            Writes::Temporary => (&self.path, self.format, "snapshot=on"),
            // A file that QEMU was given cannot be opened once more when the first write comes.
            Writes::Overlay(file) => (file, DiskFormat::Qcow2, "auto-read-only=off"),
            Writes::Direct => (&self.path, self.format, "auto-read-only=off"),
        };
        let cache = match (self.cache, &self.writes) {
            (HostCache::Writeback, Writes::Temporary) => "unsafe",
            (cache, _) => cache.name(),
        };
        let mut drive = OsString::from(format!("if=none,id={DISK_ID},format={}", format.name()));
        drive.push(format!(",{more},cache={cache},aio=threads,discard=unmap,detect-zeroes=off"));
        if let Some(reads) = self.reads {
            drive.push(format!(",throttling.iops-read={reads}"));
        }
        drive.push(",file=");
        drive.push(escape_commas(file));
        // Images name others by paths that QEMU need not have the right to open.
        let own = match self.writes {
            Writes::Overlay(_) => Some((&self.path, self.format)),
            _ => None,
        };
        let below = self.below.iter().map(|below| (&below.path, below.format));
        let mut key = String::new();
        for (path, format) in own.into_iter().chain(below) {
            key.push_str("backing.");
            let driver = format.name();
            drive.push(format!(",{key}driver={driver},{key}file.driver=file,{key}file.filename="));
            drive.push(escape_commas(path));
        }
        let (bus, serial) = (arch.bus(), &self.serial);
        let serial = serial.as_ref().map(|serial| format!(",serial={serial}")).unwrap_or_default();
        let device =
            format!("virtio-blk-{bus},id={DISK_ID}-device,drive={DISK_ID},num-queues=1{serial}");
        vec!["-drive".into(), drive, "-device".into(), device.into()]
    }

    /// What the guest's first process has to know: that its root is there, and whether it may
    /// write to it.
    pub fn kernel_words(&self) -> &'static str {
        match self.writes {
            Writes::Layer => " pinhead.root=layer",
            Writes::Temporary | Writes::Overlay(_) | Writes::Direct => " pinhead.root=rw",
        }
    }
}

/// Makes an empty qcow2 file over an image: what is written goes there, what was never written
/// is read from the image.
pub fn make_overlay(image: &Path, format: DiskFormat, overlay: &Path) -> Result<(), Error> {
    // A relative name would be looked up beside the overlay and not where we are.
    let image = std::path::absolute(image).file("find", image)?;
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2", "-F", format.name(), "-b"]).arg(&image);
    run(create.arg(overlay), "install qemu-utils; it makes disk overlays").map(drop)
}

/// In QEMU's lists of options a comma ends a value unless it stands twice.
pub fn escape_commas(path: &Path) -> OsString {
    let parts = path.as_os_str().as_bytes().split(|&byte| byte == b',');
    OsString::from_vec(parts.collect::<Vec<_>>().join(&b",,"[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(disk: &Disk, arch: Arch) -> String {
        let words = disk.arguments(arch);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn an_image_is_written_only_if_that_is_asked_for() {
        let mut disk = Disk::temporary("/a,b/base.img", DiskFormat::Raw);
        disk.serial = Some("root".into());
        let line = words(&disk, Arch::X86_64);
        assert!(line.contains("format=raw,snapshot=on,cache=unsafe"), "{line}");
        assert!(line.contains("file=/a,,b/base.img -device virtio-blk-pci,"), "{line}");
        assert!(line.ends_with("num-queues=1,serial=root"), "{line}");
        disk.cache = HostCache::None;
        disk.reads = Some(160);
        let line = words(&disk, Arch::X86_64);
        assert!(
            line.contains("snapshot=on,cache=none,") && line.contains("iops-read=160,"),
            "{line}"
        );
        disk.writes = Writes::Layer;
        assert!(words(&disk, Arch::S390x).contains("read-only=on,cache=none,"));
        assert!(words(&disk, Arch::S390x).contains("virtio-blk-ccw"));
        disk.writes = Writes::Overlay("/o.qcow2".into());
        let line = words(&disk, Arch::X86_64);
        assert!(line.contains("format=qcow2") && line.contains("file=/o.qcow2,"), "{line}");
        assert!(line.contains(",backing.file.filename=/a,,b/base.img "), "{line}");
        disk.below.push(Below { path: "/b".into(), format: DiskFormat::Raw });
        let below = ",backing.backing.driver=raw,backing.backing.file.driver=file,\
                     backing.backing.file.filename=/b ";
        assert!(words(&disk, Arch::X86_64).contains(below));
        disk.writes = Writes::Layer;
        assert!(words(&disk, Arch::X86_64).contains(",backing.file.filename=/b "));
    }

    #[test]
    fn a_serial_that_would_be_an_option_and_an_image_that_is_not_there_are_refused() {
        let mut disk = Disk::temporary("/no/such/image", DiskFormat::Raw);
        let error = disk.prepare("g1").unwrap_err();
        assert!(error.to_string().contains("/no/such/image"), "{error}");
        disk.serial = Some("a,b".into());
        assert!(matches!(disk.prepare("g1"), Err(Error::Disk { .. })));
    }

    #[test]
    fn an_overlay_takes_its_size_from_the_image_and_leaves_it_alone() {
        let root = std::env::temp_dir().join(format!("images-disk-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let image = root.join("base.img");
        std::fs::write(&image, vec![7; 1 << 20]).unwrap();
        let overlay = root.join("o.qcow2");
        let mut disk = Disk::temporary(&image, DiskFormat::Raw);
        disk.writes = Writes::Overlay(overlay.clone());
        disk.prepare("g1").unwrap();
        let made = std::fs::read(&overlay).unwrap();
        assert!(made.starts_with(b"QFI\xfb"));
        // The size of the disk stands big-endian at byte 24 of the header.
        assert_eq!(made[24..32], (1_u64 << 20).to_be_bytes());
        disk.prepare("g1").unwrap();
        assert_eq!(std::fs::read(&overlay).unwrap(), made, "what is there is kept");
        let over = Disk::temporary(&overlay, DiskFormat::Qcow2);
        over.prepare("g1").unwrap();
        std::fs::write(&overlay, b"mine").unwrap();
        for disk in [disk, over] {
            let error = disk.prepare("g1").unwrap_err().to_string();
            assert!(error.contains("does not begin as a qcow2 image"), "{error}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
