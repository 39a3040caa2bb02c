//! Construction of a disk image. A tree is made first, and then a file system from the tree. The
//! file system gets its name when it is complete.
//!
//! ```text
//!   CACHE/disks/lock                    one process at a time makes an image
//!   WORK/NAME/                          tree, scripts; gone when it is done
//!   CACHE/disks/ARCH/NAME.part          the file system that is being made
//!   CACHE/disks/ARCH/NAME-KEY.img       KEY depends on the packages' names and our own files
//!                    NAME-KEY.packages  the packages' versions, and the date
//! ```
//!
//! Only root makes images, in its own cache. The guests of every user start from the images in the
//! system's cache, /var/cache/pinhead.

use std::fs::{self, File, Metadata, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use base::StableHash;

use super::{Progress, Software};
use crate::images::cache::{SYSTEM, Work, is_root};
use crate::images::clock::time_of_day;
use crate::images::error::FileContext;
use crate::images::files::{by_age, create_dir, remove_file, write_new};
use crate::images::ours::{check_file, open_lock};
use crate::images::record::{NOT_DPKG, OF_DISK, Record, SHOW_FORMAT};
use crate::images::sources::debian_sources;
use crate::images::tool::{run, run_and_follow};
use crate::images::{Arch, Cache, Error};

/// Files for `/usr/lib/pinhead` in the image.
const FILES: [(&str, &str); 6] = [
    ("start", include_str!("start.sh")),
    ("take-password", include_str!("take-password.sh")),
    ("nginx.conf", include_str!("nginx.conf")),
    ("app.py", include_str!("app.py")),
    ("postgres.conf", include_str!("postgres.conf")),
    ("pg_hba.conf", include_str!("pg_hba.conf")),
];

const CUSTOMIZE: &str = include_str!("customize.sh");

/// Files that no server of the image reads. These files make up half of the packages' size. The
/// libraries among them compile PostgreSQL's queries to machine code, which the image's settings
/// disable.
const LEFT_OUT: [&str; 8] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/i18n/*",
    "/usr/lib/*/libLLVM*",
    "/usr/lib/*/libz3*",
    "/usr/lib/postgresql/*/lib/bitcode/*",
];

/// Size of the guest's disk. Unused space takes no room on the host, and a guest's writes go to its
/// own overlay.
const DISK_SIZE: &str = "4G";

/// Number of images kept for each name. Older images are removed. Each change to pinhead's files
/// adds an image of hundreds of megabytes.
const KEPT_IMAGES: usize = 2;

/// Steps that mmdebstrap reports, and the progress at each step, in thousandths.
const STEPS: [(&str, &str, u16); 7] = [
    ("I: running apt-get update", "fetching packages", 20),
    ("I: downloading packages", "fetching packages", 100),
    ("I: extracting archives", "fetching packages", 250),
    ("I: installing essential", "installing packages", 300),
    ("I: installing remaining", "installing packages", 450),
    ("I: running --customize-hook", "making pages and database", 750),
    ("I: cleaning package lists", "making pages and database", 850),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Any image with the current key, even an older one from the cache.
    Any,
    /// An image of the newest packages.
    Newer,
}

impl Software {
    /// Makes the image, or finds it in the cache. The image has the host's architecture, because
    /// programs of the packages run during the installation.
    ///
    /// Only root can make an image, because Debian's packages are installed in the usual way.
    pub fn build(
        self,
        cache: &Cache,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<PathBuf, Error> {
        let arch = self.arch()?;
        let path = cache.root().join(self.place(arch));
        let systems = Path::new(SYSTEM).join(self.place(arch));
        if !path.is_file() {
            if !is_root() && systems.is_file() {
                return check_file(&systems);
            }
            self.make_alone(cache, Wanted::Any, progress)?;
        }
        progress(Progress { what: "done", permille: 1000 });
        // The file's rights may have changed since it was made.
        check_file(&path)
    }

    /// Makes the image of the newest packages, even if an image exists.
    pub fn rebuild(
        self,
        cache: &Cache,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<PathBuf, Error> {
        self.make_alone(cache, Wanted::Newer, progress)?;
        progress(Progress { what: "done", permille: 1000 });
        Ok(cache.root().join(self.place(self.arch()?)))
    }

    /// Returns the name of the image's file in the cache's directory for an architecture.
    pub(crate) fn file_name(self) -> String {
        format!("{}-{:016x}.img", self.name(), self.key())
    }

    fn place(self, arch: Arch) -> String {
        format!("disks/{arch}/{}", self.file_name())
    }

    fn arch(self) -> Result<Arch, Error> {
        Arch::host().ok_or_else(|| Error::Rootfs {
            image: self.name(),
            reason: "Debian root file systems can only be built on x86-64 and s390x \
                     hosts"
                .to_owned(),
        })
    }

    fn make_alone(
        self,
        cache: &Cache,
        wanted: Wanted,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let arch = self.arch()?;
        if !is_root() {
            let reason = format!(
                "installing Debian's packages needs root; run `PINHEAD_CACHE={SYSTEM} pinhead \
                 cache refresh {}` as root to build it for all users",
                self.name()
            );
            return Err(Error::Rootfs { image: self.name(), reason });
        }
        let path = cache.directory(&format!("disks/{arch}"))?.join(self.file_name());
        let _lock = lock(&cache.root().join("disks/lock"), progress)?;
        // Another process may have made the image while it held the lock.
        if wanted == Wanted::Any && path.is_file() {
            return Ok(());
        }
        let part = path.with_file_name(format!("{}.part", self.name()));
        remove_file(&part)?;
        let result = self.make(arch, &cache.work(self.name())?, &part, &path, progress);
        // If making the image and cleaning up both fail, the first error is reported.
        result.and(remove_file(&part))
    }

    fn key(self) -> u64 {
        let lists = [self.packages().join(" "), self.services().join(" "), LEFT_OUT.join(" ")];
        let files = FILES.iter().flat_map(|(name, content)| [*name, content]);
        let mut hash = StableHash::default();
        for part in lists.iter().map(String::as_str).chain(files).chain([CUSTOMIZE, DISK_SIZE]) {
            hash.put(part.as_bytes());
        }
        hash.finish()
    }

    fn make(
        self,
        arch: Arch,
        work: &Work,
        part: &Path,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let work = work.path();
        let (files, tree) = (work.join("files"), work.join("tree"));
        create_dir(&files)?;
        create_dir(&work.join("tmp"))?;
        for (name, text) in FILES {
            write_new(&files.join(name), text.as_bytes())?;
        }
        write_new(&work.join("customize.sh"), CUSTOMIZE.as_bytes())?;
        let made_s = time_of_day().as_secs();
        let mut mmdebstrap = self.mmdebstrap(arch, work, &tree)?;
        run(tool("mmdebstrap").arg("--version"), "install mmdebstrap")?;
        run_and_follow(&mut mmdebstrap, "install util-linux", &mut |line| {
            if let Some(&(_, what, permille)) = STEPS.iter().find(|step| line.starts_with(step.0)) {
                progress(Progress { what, permille });
            }
            false
        })?;
        progress(Progress { what: "making the file system", permille: 900 });
        let mut mkfs = tool("mkfs.ext4");
        // Tables that are initialised now need not be written later by each guest into its overlay.
        mkfs.args(["-q", "-F", "-L", "pinhead", "-m", "0", "-N", "65536", "-J", "size=16"])
            .args(["-E", "lazy_itable_init=0,lazy_journal_init=0", "-d"])
            .args([tree.as_os_str(), part.as_os_str(), DISK_SIZE.as_ref()]);
        run(&mut mkfs, "install e2fsprogs")?;
        // A process that finds the name must find the whole image, even after a power failure.
        File::open(part).and_then(|file| file.sync_all()).file("write", part)?;
        remove_old(path, self.name())?;
        record(&tree, made_s, &path.with_extension(OF_DISK))?;
        fs::rename(part, path).file("create", path)
    }

    fn mmdebstrap(self, arch: Arch, work: &Path, tree: &Path) -> Result<Command, Error> {
        // mmdebstrap and the processes that it starts, such as a database, run in their own process
        // namespace. These processes and their mounts end with the namespace.
        let mut command = tool("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "mmdebstrap"]);
        // mmdebstrap stores unpacked files below TMPDIR, because /tmp may be small.
        command.env("TMPDIR", work.join("tmp")).env("LC_ALL", "C").env("HOME", work);
        command.args(["--variant=essential", "--mode=root", "--format=directory"]);
        command.arg(format!("--architectures={}", arch.debian()));
        command.arg(format!("--include={}", self.packages().join(",")));
        command.args(["--aptopt=Apt::Install-Recommends \"false\"", "--dpkgopt=force-unsafe-io"]);
        for path in LEFT_OUT {
            command.arg(format!("--dpkgopt=path-exclude={path}"));
        }
        // Only the database made by customize.sh is needed, so Debian's script must not make
        // another.
        command.arg(
            "--essential-hook=mkdir -p \"$1/etc/postgresql-common\" && \
             echo create_main_cluster=false > \"$1/etc/postgresql-common/createcluster.conf\"",
        );
        command.env("PINHEAD_WORK", work);
        command.arg(format!(
            "--customize-hook=sh \"$PINHEAD_WORK/customize.sh\" \"$1\" \"$PINHEAD_WORK/files\" {}",
            self.services().join(",")
        ));
        command.arg("").arg(tree);
        for (name, text) in debian_sources(Path::new("/etc/apt"))? {
            let file = work.join(name);
            write_new(&file, text.as_bytes())?;
            command.arg(file);
        }
        Ok(command)
    }
}

/// Returns a command for an administrator's tool, which may be in a directory outside the user's
/// PATH.
fn tool(name: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new(name);
    command.env("PATH", path);
    command
}

/// Waits until no other process makes an image. The kernel releases the lock of a process that
/// ends.
fn lock(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<File, Error> {
    let file = open_lock(path)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(source)) => return Err(source).file("lock", path),
    }
    progress(Progress { what: "waiting for another build", permille: 0 });
    file.lock().file("lock", path)?;
    Ok(file)
}

/// Removes old images of this name, so that there is room for one more. A running QEMU keeps its
/// file open.
fn remove_old(path: &Path, name: &str) -> Result<(), Error> {
    let directory = path.parent().unwrap_or(path);
    let own = |path: &Path| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let key = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        key.is_some_and(|key| key.ends_with(".img"))
    };
    let mut found = by_age(directory, Metadata::modified)?;
    found.retain(|(_, path)| own(path));
    found.truncate((found.len() + 1).saturating_sub(KEPT_IMAGES));
    for (_, old) in found {
        remove_file(&old.with_extension(OF_DISK))?;
        remove_file(&old)?;
    }
    Ok(())
}

fn record(tree: &Path, made_s: u64, path: &Path) -> Result<(), Error> {
    let mut query = Command::new("dpkg-query");
    query.arg(format!("--admindir={}", tree.join("var/lib/dpkg").display()));
    let packages = run(query.args([SHOW_FORMAT, "--show"]), NOT_DPKG)?.stdout;
    let record = Record::new(made_s, &String::from_utf8_lossy(&packages));
    record.map_err(|reason| Error::Record { path: path.to_owned(), reason })?.write(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn images_have_names_and_keys_of_their_own() {
        for &software in Software::ALL {
            assert_eq!(Software::from_name(software.name()), Some(software));
            let same = Software::ALL.iter().filter(|other| other.key() == software.key());
            assert_eq!(same.count(), 1, "{software:?}");
        }
        assert_eq!(Software::from_name("debian"), None);
    }

    #[test]
    fn cached_image_is_used_as_it_is_and_old_images_go() {
        let Some(arch) = Arch::host() else { return };
        let root = crate::Scratch::new("images-rootfs").unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let software = Software::Nginx;
        let directory = root.join("disks").join(arch.name());
        create_dir(&directory).unwrap();
        let path = directory.join(format!("debian-nginx-{:016x}.img", software.key()));
        fs::write(&path, "image").unwrap();
        let mut seen = Vec::new();
        let found = software.build(&cache, &mut |progress| seen.push(progress.what)).unwrap();
        assert_eq!((&found, seen.as_slice()), (&path, &["done"][..]));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = software.build(&cache, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("is not safe to use"), "{error}");

        let other = directory.join("debian-app-0.img");
        fs::write(&other, "image").unwrap();
        for age in 0..3 {
            let old = directory.join(format!("debian-nginx-{age}.img"));
            fs::write(&old, "old").unwrap();
            let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
            fs::File::options().write(true).open(&old).unwrap().set_modified(then).unwrap();
        }
        remove_old(&path, "debian-nginx").unwrap();
        assert!(path.exists() && other.exists());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    }

    #[test]
    fn every_step_is_further_than_the_one_before() {
        assert!(STEPS.windows(2).all(|two| two[0].2 < two[1].2));
    }
}
