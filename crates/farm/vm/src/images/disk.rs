//! Disk of a guest: an image that many guests share, and the destination of one guest's writes.
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

use crate::images::error::FileContext;
use crate::images::ours::{check_dir, check_disk};
use crate::images::qcow2::{Below, DiskFormat, check_image, check_overlay};
use crate::images::tool::run;
use crate::images::{Arch, Error};

/// A disk image, and the way a guest uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The image. The image is never written to, except with [`Writes::Direct`]. Any number of
    /// guests may use the image at the same time.
    pub path: PathBuf,
    /// The format of the image.
    pub format: DiskFormat,
    /// The destination of the guest's writes.
    pub writes: Writes,
    /// The host's caching of reads from the image.
    pub cache: HostCache,
    /// Maximum number of reads per second, to simulate a slow disk.
    pub reads: Option<u32>,
    /// Serial number of the disk in the guest, if any.
    pub serial: Option<String>,
    /// Backing images, if QEMU must not open them by the names in the image's header.
    pub below: Vec<Below>,
}

/// The destination of a guest's writes to its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// A file system in memory, which the guest lays over the read-only disk. The whole state of
    /// such a guest is its memory, so the guest can be saved and cloned.
    Layer,
    /// A file without a name, which vanishes when the guest's QEMU ends. Reboots of the guest do
    /// not affect the file.
    Temporary,
    /// A qcow2 file over the image. The file is created if needed, and kept after the guest's end.
    Overlay(PathBuf),
    /// The image itself, which no other guest may then use.
    Direct,
}

base::named! {
    /// The host's caching of image reads, with QEMU's names, which a farm's file uses, too.
    #[derive(Default)]
    pub enum HostCache {
        /// Reads stay in the page cache, shared by all guests of the image.
        #[default]
        Writeback = "writeback",
        /// Reads bypass the host's cache (`O_DIRECT`), because the guest has its own cache. QEMU
        /// nevertheless sends writes to a temporary overlay through the host's cache.
        None = "none",
    }
}

/// Name of the disk in QEMU's monitor.
pub const DISK_ID: &str = "disk0";

/// Maximum length of a virtio disk's serial number, in bytes.
const SERIAL_BYTES_MAX: usize = 20;

impl Disk {
    /// Returns a disk of an image with a temporary overlay.
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

    /// Creates the files that the guest needs besides the image, and returns the backing images.
    /// The function must be called before QEMU is started.
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

    /// Returns QEMU's arguments for the disk.
    ///
    /// By default the image is read through the host's page cache, so that guests share its pages.
    /// A temporary overlay vanishes with QEMU, so a guest's flush does not write the overlay to the
    /// host's disk. Threads do the reads and writes and end when idle, so an idle disk costs
    /// nothing.
    pub fn arguments(&self, arch: Arch) -> Vec<OsString> {
        let (file, format, more) = match &self.writes {
            Writes::Layer => (&self.path, self.format, "read-only=on"),
            Writes::Temporary => (&self.path, self.format, "snapshot=on"),
            // QEMU cannot reopen a file that was passed to it, so the file is writable from the
            // start.
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
        // QEMU may not open the paths of other images that an image's header contains, so it gets
        // other names.
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

    /// Returns the part of the kernel's command line that makes the guest's init process use the
    /// disk as its root. This part also tells whether the guest may write to the disk.
    pub fn kernel_words(&self) -> &'static str {
        match self.writes {
            Writes::Layer => " pinhead.root=layer",
            Writes::Temporary | Writes::Overlay(_) | Writes::Direct => " pinhead.root=rw",
        }
    }
}

/// Creates an empty qcow2 file over an image. The file receives all writes. Blocks that were never
/// written are read from the image.
pub fn make_overlay(image: &Path, format: DiskFormat, overlay: &Path) -> Result<(), Error> {
    // A relative name would be resolved against the overlay's directory.
    let image = std::path::absolute(image).file("find", image)?;
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2", "-F", format.name(), "-b"]).arg(&image);
    run(create.arg(overlay), "install qemu-utils; it makes disk overlays").map(drop)
}

/// Returns the path with doubled commas, because a single comma ends a value in QEMU's options.
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
    fn serial_with_option_characters_and_missing_image_are_refused() {
        let mut disk = Disk::temporary("/no/such/image", DiskFormat::Raw);
        let error = disk.prepare("g1").unwrap_err();
        assert!(error.to_string().contains("/no/such/image"), "{error}");
        disk.serial = Some("a,b".into());
        assert!(matches!(disk.prepare("g1"), Err(Error::Disk { .. })));
    }

    #[test]
    fn an_overlay_takes_its_size_from_the_image_and_leaves_it_alone() {
        let root = crate::Scratch::new("images-disk").unwrap();
        let image = root.join("base.img");
        std::fs::write(&image, vec![7; 1 << 20]).unwrap();
        let overlay = root.join("o.qcow2");
        let mut disk = Disk::temporary(&image, DiskFormat::Raw);
        disk.writes = Writes::Overlay(overlay.clone());
        disk.prepare("g1").unwrap();
        let made = std::fs::read(&overlay).unwrap();
        assert!(made.starts_with(b"QFI\xfb"));
        // The size of the disk begins at byte 24 of the header, in big-endian order.
        assert_eq!(made[24..32], (1_u64 << 20).to_be_bytes());
        disk.prepare("g1").unwrap();
        assert_eq!(std::fs::read(&overlay).unwrap(), made, "an existing overlay is kept");
        let over = Disk::temporary(&overlay, DiskFormat::Qcow2);
        over.prepare("g1").unwrap();
        std::fs::write(&overlay, b"mine").unwrap();
        for disk in [disk, over] {
            let error = disk.prepare("g1").unwrap_err().to_string();
            assert!(error.contains("does not begin like a qcow2 image"), "{error}");
        }
    }
}
