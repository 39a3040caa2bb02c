//! Boot images for guests: a Debian kernel and a first file system in memory.

use std::fs::{self, File, FileTimes, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::StableHash;
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

use crate::images::clock::time_of_day;
use crate::images::cpio::Archive;
use crate::images::error::FileContext;
use crate::images::files::{by_age, write_whole};
use crate::images::kernel::{Module, Modules};
use crate::images::{Arch, Cache, Error, Fetch, GuestPackages, vmlinux};

/// Specification of a guest's image.
#[derive(Clone, Debug)]
pub struct ImageSpec {
    /// Architecture of the guest.
    pub arch: Arch,
    /// A static `pinheadd` for the guest's architecture. Without a daemon, a guest is observed only
    /// from outside.
    pub daemon: Option<PathBuf>,
    /// Additional files. `/etc/pinheadd.args` holds the daemon's arguments, `/etc/load.sh` runs in
    /// the background, and the scripts in `/etc/services` run before the guest reports that it is
    /// up.
    pub files: Vec<GuestFile>,
}

/// A file that exists in a guest from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// Path in the guest.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

impl GuestFile {
    /// Returns a file that all users in the guest may read.
    pub fn text(path: &str, text: impl AsRef<[u8]>) -> GuestFile {
        GuestFile { path: path.to_owned(), mode: 0o644, bytes: text.as_ref().to_vec() }
    }
}

/// The files that a guest boots from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub arch: Arch,
    /// File with the kernel.
    pub kernel: PathBuf,
    /// Archive with the first file system.
    pub initramfs: PathBuf,
    /// Kind of the init process.
    pub first_process: FirstProcess,
}

/// Kind of a guest's init process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstProcess {
    /// pinhead's own init process, which obeys the words on the kernel's command line.
    Ours,
    /// The user's init process, which ignores these words.
    Users,
}

/// Commands of a guest. Commands that the guest's busybox lacks are left out.
const APPLETS: &str = "[ ash awk basename cat chmod chrt cksum cp cut date dd df dirname dmesg \
    du echo env expr false find free grep head hexdump hostname id ifconfig insmod ip kill \
    killall ln ls lsmod md5sum mkdir mkfifo mknod mkswap mount mv nc nice nohup nproc od pgrep \
    pidof pkill poweroff printf ps pwd readlink reboot renice rm rmdir rmmod route sed seq \
    setsid sh sha256sum sleep sort stat stty swapoff swapon switch_root sync tail taskset tee \
    test time timeout top touch tr true tty umount uname uniq uptime usleep vmstat wc wget \
    which xargs yes";

/// pinhead's scripts in a guest.
const SCRIPTS: [(&str, &str); 5] = [
    ("init", include_str!("init.sh")),
    ("sbin/pinhead-guest", include_str!("guest.sh")),
    ("sbin/pinhead-enter", include_str!("rootfs/enter.sh")),
    ("sbin/pinhead-identity", include_str!("identity.sh")),
    ("sbin/start-pinheadd", include_str!("start-pinheadd.sh")),
];

/// Name of the file that the kernel unpacks last. If this file is missing, the kernel had too
/// little memory. Such a kernel continues without an error, with truncated or missing files.
const LAST: &str = "~whole";

/// Size above which an archive is compressed. A guest's kernel needs memory for the archive and for
/// the unpacked files at once, and QEMU keeps the archive for a reboot. Unpacking 16 MiB takes an
/// emulated CPU 0.4 s.
const PACKED_BYTES: usize = 8 << 20;

/// Number of archives kept for each architecture. Older archives are removed. Each new build of the
/// daemon adds an archive of some megabytes.
const KEPT_IMAGES: usize = 8;
/// Minimum time for which an image is kept after its last request, because a guest may still start
/// from it.
const IN_USE: Duration = Duration::from_secs(3600);

impl ImageSpec {
    /// Makes the image, or finds it in the cache.
    pub fn build(&self, cache: &Cache) -> Result<Image, Error> {
        self.build_with(cache, &mut |_| ())
    }

    /// Makes the image like [`Self::build`], and reports the progress of fetching its packages.
    pub fn build_with(&self, cache: &Cache, report: &mut dyn FnMut(Fetch)) -> Result<Image, Error> {
        let packages = cache.packages_with(self.arch, report)?;
        let archive = self.archive(&packages)?.to_bytes();
        let initramfs = store(cache, self.arch, &archive)?;
        let kernel = match self.arch {
            Arch::X86_64 => {
                let _lock = cache.lock()?;
                vmlinux::beside(&packages.kernel)?
            }
            Arch::S390x => packages.kernel,
        };
        Ok(Image { arch: self.arch, kernel, initramfs, first_process: FirstProcess::Ours })
    }

    fn archive(&self, packages: &GuestPackages) -> Result<Archive, Error> {
        let mut archive = Archive::new();
        for directory in ["dev", "etc", "proc", "root", "run", "sys", "tmp", "var"] {
            archive.directory(directory);
        }
        // The kernel opens this device for the first process before anything is mounted.
        archive.char_device("dev/console", 0o600, 5, 1);
        archive.symlink("etc/mtab", "/proc/mounts");
        add_busybox(&mut archive, &packages.busybox)?;
        add_modules(&mut archive, &Modules::open(&packages.modules)?, self.arch)?;
        for (path, script) in SCRIPTS {
            archive.file(path, 0o755, script.into());
        }
        if let Some(daemon) = &self.daemon {
            let bytes = fs::read(daemon).file("read", daemon)?;
            archive.file("sbin/pinheadd", 0o755, bytes);
        }
        // If the root is on a disk, the init process copies the listed files there.
        let mut names = String::new();
        for file in &self.files {
            archive.file(&file.path, file.mode, file.bytes.clone());
            names.push_str(&format!("/{}\n", file.path.trim_start_matches('/')));
        }
        archive.file("etc/pinhead.files", 0o644, names.into_bytes());
        archive.file(LAST, 0o644, Vec::new());
        Ok(archive)
    }
}

fn add_busybox(archive: &mut Archive, path: &Path) -> Result<(), Error> {
    let busybox = fs::read(path).file("read", path)?;
    // A busybox for another architecture cannot be run to list its commands. The file of busybox
    // contains the commands' names one after the other, each with a terminating zero.
    let known: std::collections::BTreeSet<&[u8]> = busybox.split(|&byte| byte == 0).collect();
    for applet in APPLETS.split_ascii_whitespace() {
        if known.contains(applet.as_bytes()) {
            archive.symlink(&format!("bin/{applet}"), "busybox");
        }
    }
    archive.file("bin/busybox", 0o755, busybox.clone());
    Ok(())
}

fn add_modules(archive: &mut Archive, modules: &Modules, arch: Arch) -> Result<(), Error> {
    // On s390x the virtio transport is always part of the kernel, and so far CMM is part of
    // Debian's kernel. CMM is listed so that a kernel without CMM is an error, because guests with
    // such a kernel would have no pool.
    let always: &[&str] = match arch {
        Arch::X86_64 => &["virtio_pci", "virtio_console", "virtio_balloon"],
        Arch::S390x => &["virtio_console", "virtio_balloon", "cmm"],
    };
    let order = modules.load_order(always)?;
    add_module_list(archive, "etc/modules", &order, &[]);
    let panic: &[&str] = match arch {
        Arch::X86_64 => &["pvpanic_pci"],
        Arch::S390x => &[],
    };
    // Modules that only some guests need are listed in separate files, so that other guests do not
    // load them.
    let needed = [("etc/modules.net", &["virtio_net"][..]), ("etc/modules.panic", panic)];
    for (list, wanted) in needed {
        add_module_list(archive, list, &modules.load_order(wanted)?, &order);
    }
    // The module of the compressor for compressed swap is named here, because no modprobe in the
    // guest loads it.
    let optional: [(&str, &[&str]); 3] = [
        ("etc/modules.zram", &["lzo_rle", "zram"]),
        ("etc/modules.disk", &["virtio_blk", "ext4"]),
        ("etc/modules.layer", &["overlay"]),
    ];
    for (list, wanted) in optional {
        let there: Vec<_> = wanted.iter().copied().filter(|module| modules.has(module)).collect();
        add_module_list(archive, list, &modules.load_order(&there)?, &order);
    }
    Ok(())
}

fn add_module_list(archive: &mut Archive, list: &str, order: &[Module], loaded: &[Module]) {
    let mut names = String::new();
    for module in order.iter().filter(|module| !loaded.contains(module)) {
        names.push_str(&format!("{}\n", module.name));
        let path = format!("lib/modules/{}.ko", module.name);
        archive.file(&path, 0o644, module.bytes.clone());
    }
    archive.file(list, 0o644, names.into_bytes());
}

/// Puts an archive into the cache under a name derived from its content. The hash only needs to
/// distinguish one user's own builds. A collision in a user's cache does not help an attacker.
fn store(cache: &Cache, arch: Arch, archive: &[u8]) -> Result<PathBuf, Error> {
    let mut hash = StableHash::default();
    hash.put(archive);
    let directory = cache.directory(&format!("images/{arch}"))?;
    let is_packed = archive.len() > PACKED_BYTES;
    let end = if is_packed { ".gz" } else { "" };
    let path = directory.join(format!("{:016x}-{}.cpio{end}", hash.finish(), archive.len()));
    let _lock = cache.lock()?;
    let is_whole = match is_packed {
        true => ends_as(&path, archive),
        false => fs::metadata(&path).is_ok_and(|found| found.len() == archive.len() as u64),
    };
    if is_whole {
        let file = File::options().write(true).open(&path).file("open", &path)?;
        // Only the access time changes. A new modification time would make templates of this image
        // outdated.
        file.set_times(FileTimes::new().set_accessed(now())).file("keep", &path)?;
        return Ok(path);
    }
    remove_old(&directory)?;
    match is_packed {
        true => write_whole(&path, &pack(archive).file("pack", &path)?)?,
        false => write_whole(&path, archive)?,
    }
    Ok(path)
}

/// Returns true if a packed file ends with the archive's checksum and length, as gzip writes them.
/// A file truncated by a crash does not.
fn ends_as(path: &Path, archive: &[u8]) -> bool {
    let mut sum = Crc::new();
    sum.update(archive);
    let expected = [sum.sum().to_le_bytes(), sum.amount().to_le_bytes()].concat();
    let last = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-8))?;
        let mut last = Vec::new();
        file.read_to_end(&mut last)?;
        Ok(last)
    };
    last().is_ok_and(|last| last == expected)
}

fn pack(archive: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(archive)?;
    packed.finish()
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + time_of_day()
}

/// Removes old images, so that there is room for one more. A running QEMU has already read its
/// image.
fn remove_old(directory: &Path) -> Result<(), Error> {
    let found = by_age(directory, Metadata::accessed)?;
    let excess = (found.len() + 1).saturating_sub(KEPT_IMAGES);
    let is_idle = |time| now().duration_since(time).is_ok_and(|age| age > IN_USE);
    for (_, path) in found.iter().filter(|(time, _)| is_idle(*time)).take(excess) {
        fs::remove_file(path).file("remove", path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;

    #[test]
    fn equal_archives_share_a_file_and_old_ones_go() {
        let root = crate::Scratch::new("images-image").unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let first = store(&cache, Arch::S390x, b"first").unwrap();
        let changed = || fs::metadata(&first).unwrap().modified().unwrap();
        let ages_ago = SystemTime::UNIX_EPOCH;
        let file = File::options().write(true).open(&first).unwrap();
        let times = FileTimes::new().set_modified(ages_ago);
        file.set_times(times.set_accessed(ages_ago)).unwrap();
        assert_eq!(store(&cache, Arch::S390x, b"first").unwrap(), first);
        assert_eq!(changed(), ages_ago, "files made from it stay valid");
        assert!(fs::metadata(&first).unwrap().accessed().unwrap() > ages_ago);
        assert_eq!(fs::read(&first).unwrap(), b"first");
        file.set_times(times.set_accessed(ages_ago)).unwrap();
        let mut last = first.clone();
        for number in 0..KEPT_IMAGES {
            last = store(&cache, Arch::S390x, format!("{number}").as_bytes()).unwrap();
        }
        assert!(!first.exists() && last.exists());
        let kept = fs::read_dir(root.join("images/s390x")).unwrap().count();
        assert_eq!(kept, KEPT_IMAGES);

        let large = vec![7; PACKED_BYTES + 1];
        let packed = store(&cache, Arch::X86_64, &large).unwrap();
        assert!(fs::metadata(&packed).unwrap().len() < 100_000);
        let mut unpacked = Vec::new();
        let mut file = GzDecoder::new(File::open(&packed).unwrap());
        file.read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == large);
        let bytes = fs::read(&packed).unwrap();
        fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(store(&cache, Arch::X86_64, &large).unwrap(), packed);
        assert_eq!(fs::read(&packed).unwrap(), bytes, "a cut archive is made again");
    }
}
