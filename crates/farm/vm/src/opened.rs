//! Files of a guest, opened for its QEMU, which may not open them itself.
//!
//! ```text
//!   kernel, initramfs       /proc/self/fd/N: opened again, for reading
//!   disk images, overlay    /dev/fdset/N: QEMU's own name for a descriptor that it was given
//! ```

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::images::{Below, Disk, FileContext, Writes, check_file};
use crate::{Error, GuestSpec};

/// The mode bit that lets every user read a file.
const OTHERS_READ: u32 = 0o004;

/// A guest's specification with replaced file names, and the open files behind these names.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) spec: GuestSpec,
    pub(crate) files: Vec<OwnedFd>,
    /// QEMU's arguments for the files that are passed as descriptor sets.
    pub(crate) words: Vec<OsString>,
}

impl Opened {
    /// Prepares the guest's disk, and opens the disk and the boot files. `becomes_other` means that
    /// QEMU becomes another user before it opens anything.
    pub(crate) fn of(spec: &GuestSpec, becomes_other: bool) -> Result<Opened, Error> {
        let mut opened = Opened { spec: spec.clone(), files: Vec::new(), words: Vec::new() };
        let image = &spec.image;
        opened.spec.image.kernel = opened.hold(boot_file(&image.kernel, becomes_other)?);
        opened.spec.image.initramfs = opened.hold(boot_file(&image.initramfs, becomes_other)?);
        if let Some(disk) = &spec.disk {
            opened.spec.disk = Some(opened.disk(disk, &spec.name)?);
        }
        Ok(opened)
    }

    /// Stores a file for QEMU, and returns the name by which QEMU opens the file again.
    fn hold(&mut self, file: File) -> PathBuf {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.files.push(file.into());
        name.into()
    }

    fn disk(&mut self, disk: &Disk, guest: &str) -> Result<Disk, Error> {
        let below = disk.prepare(guest)?;
        let writes_to_image = disk.writes == Writes::Direct;
        let path = self.give(&disk.path, writes_to_image)?;
        let writes = match &disk.writes {
            Writes::Overlay(overlay) => Writes::Overlay(self.give(overlay, true)?),
            as_before => as_before.clone(),
        };
        let given = |below: Below| Ok(Below { path: self.give(&below.path, false)?, ..below });
        let below = below.into_iter().map(given).collect::<Result<_, Error>>()?;
        Ok(Disk { path, writes, below, ..disk.clone() })
    }

    /// Passes a file to QEMU as a descriptor set, so that QEMU need not open the file.
    fn give(&mut self, path: &Path, is_written: bool) -> Result<PathBuf, Error> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(is_written).open(path).file("open", path)?;
        // The list of files only grows, so every earlier set has a smaller number.
        let set = self.files.len();
        let word = format!("fd={},set={set}", file.as_raw_fd());
        self.words.extend(["-add-fd".into(), word.into()]);
        self.files.push(file.into());
        Ok(format!("/dev/fdset/{set}").into())
    }
}

/// Returns a file that a guest boots from. A file that only this user may read is copied, because
/// the kernel checks the rights of the process that opens the file again.
fn boot_file(path: &Path, becomes_other: bool) -> Result<File, Error> {
    let mut file = File::open(check_file(path)?).file("open", path)?;
    let mode = file.metadata().file("read", path)?.mode();
    if !becomes_other || mode & OTHERS_READ != 0 {
        return Ok(file);
    }
    Ok(copy(&mut file).file("copy", path)?)
}

/// Returns a copy of the file in sealed memory.
fn copy(from: &mut File) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(memfd_create("boot", flags)?);
    io::copy(from, &mut copy)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&copy, seals)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use crate::images::{Arch, DiskFormat, FirstProcess, Image};
    use crate::{Accel, Scratch, WhyEmulation};

    fn spec(dir: &Scratch) -> GuestSpec {
        let [kernel, initramfs] = ["kernel", "initramfs"].map(|name| {
            fs::write(dir.join(name), name).unwrap();
            dir.join(name)
        });
        let image =
            Image { arch: Arch::X86_64, kernel, initramfs, first_process: FirstProcess::Ours };
        GuestSpec::new("g1", image, Accel::Emulation(WhyEmulation::Asked))
    }

    #[test]
    fn private_boot_file_is_copied_for_another_user() {
        let dir = Scratch::new("opened").unwrap();
        let mut spec = spec(&dir);
        fs::set_permissions(&spec.image.kernel, Permissions::from_mode(0o600)).unwrap();
        let mode_of = |opened: &Opened| {
            let file = File::open(&opened.spec.image.kernel).unwrap();
            let mut text = String::new();
            (&file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "kernel");
            file.metadata().unwrap().mode() & 0o777
        };
        assert_eq!(mode_of(&Opened::of(&spec, false).unwrap()), 0o600);
        let opened = Opened::of(&spec, true).unwrap();
        assert_ne!(mode_of(&opened) & OTHERS_READ, 0);
        let copy = OpenOptions::new().write(true).open(&opened.spec.image.kernel);
        assert!(copy.and_then(|mut file| io::Write::write_all(&mut file, b"x")).is_err());
        spec.image.kernel = dir.join("none");
        let error = Opened::of(&spec, true).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }

    #[test]
    fn finding2_04_a_kernel_that_others_may_write_to_is_refused() {
        let dir = Scratch::new("opened-theirs").unwrap();
        let spec = spec(&dir);
        for path in [&spec.image.kernel, &spec.image.initramfs] {
            fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
            let error = Opened::of(&spec, false).unwrap_err().to_string();
            assert!(error.contains(&format!("{} is not safe to use", path.display())), "{error}");
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
    }

    #[test]
    fn a_disk_has_names_that_need_no_rights() {
        let dir = Scratch::new("opened-disk").unwrap();
        let mut spec = spec(&dir);
        let (image, overlay) = (dir.join("image"), dir.join("overlay"));
        fs::write(&image, vec![0; 1 << 16]).unwrap();
        let mut disk = Disk::temporary(image, DiskFormat::Raw);
        disk.writes = Writes::Overlay(overlay);
        spec.disk = Some(disk);
        let opened = Opened::of(&spec, true).unwrap();
        let disk = opened.spec.disk.unwrap();
        assert_eq!(disk.path, Path::new("/dev/fdset/2"));
        assert_eq!(disk.writes, Writes::Overlay("/dev/fdset/3".into()));
        let fds: Vec<_> = opened.files[2..].iter().map(AsRawFd::as_raw_fd).collect();
        let words = [
            "-add-fd",
            &format!("fd={},set=2", fds[0]),
            "-add-fd",
            &format!("fd={},set=3", fds[1]),
        ];
        assert_eq!(opened.words, words.map(OsString::from));
        assert_eq!(disk.below, []);
        assert!(
            io::Write::write_all(&mut File::from(opened.files.into_iter().nth(2).unwrap()), b"x")
                .is_err()
        );
    }

    #[test]
    fn images_below_a_disk_have_such_names_too() {
        let dir = Scratch::new("opened-below").unwrap();
        let mut spec = spec(&dir);
        let [base, image] = ["base", "image"].map(|name| dir.join(name));
        fs::write(&base, vec![0; 1 << 16]).unwrap();
        crate::images::make_overlay(&base, DiskFormat::Raw, &image).unwrap();
        spec.disk = Some(Disk::temporary(image, DiskFormat::Qcow2));
        let disk = Opened::of(&spec, true).unwrap().spec.disk.unwrap();
        assert_eq!(disk.path, Path::new("/dev/fdset/2"));
        let below = Below { path: "/dev/fdset/3".into(), format: DiskFormat::Raw };
        assert_eq!(disk.below, [below]);
    }
}
