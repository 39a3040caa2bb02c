//! The Debian packages of a guest's kernel and busybox, fetched by name and kept unpacked.
//!
//! ```text
//!   apt (versions, checked files) ─► dpkg-deb -x ─► CACHE/packages/NAME/
//!                                                     its record: versions and the date
//! ```
//!
//! Unpacked packages stay until they are refreshed or removed, so that a farm can start
//! without a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::images::apt::{Apt, DOWNLOAD, Fetch};
use crate::images::clock::time_of_day;
use crate::images::files::{create_dir, entries, exchange, remove_dir};
use crate::images::ours::check_dir;
use crate::images::record::{IN_DIRECTORY, NOT_DPKG, Record, SHOW_FORMAT};
use crate::images::tool::run;
use crate::images::{Arch, Cache, Error};

/// Suffix, after the architecture, of the name of the directory with a web server's packages.
pub const WEB_SET: &str = "-web";

/// nginx and the libraries that it needs, by their names in Debian 12, and in Debian 13 and later.
const WEB_PACKAGES: [&[&str]; 2] = [
    &["nginx", "libc6", "libcrypt1", "libpcre2-8-0", "libssl3", "zlib1g"],
    &["nginx", "libc6", "libcrypt1", "libpcre2-8-0", "libssl3t64", "libzstd1", "zlib1g"],
];

/// The files of a guest's packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestPackages {
    /// Architecture of the packages.
    pub arch: Arch,
    /// Release of the kernel, such as `6.1.0-50-s390x`.
    pub release: String,
    /// Image of the kernel.
    pub kernel: PathBuf,
    /// Directory `lib/modules/RELEASE`.
    pub modules: PathBuf,
    /// The static program busybox.
    pub busybox: PathBuf,
}

/// Packages that are unpacked into one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set<'a> {
    /// The newest kernel, and busybox.
    Guest,
    Web,
    /// These packages, without their dependencies.
    Named(&'a [&'a str]),
}

impl Cache {
    /// Returns the packages for guests of this architecture, from the cache or else from Debian.
    /// The network is not used for cached packages.
    pub fn packages(&self, arch: Arch) -> Result<GuestPackages, Error> {
        self.packages_with(arch, &mut |_| ())
    }

    /// Returns packages like [`Self::packages`], and reports the progress of fetching them.
    pub(crate) fn packages_with(
        &self,
        arch: Arch,
        report: &mut dyn FnMut(Fetch),
    ) -> Result<GuestPackages, Error> {
        find_parts(arch, &self.unpacked(arch, arch.name(), Set::Guest, report)?)
    }

    /// Returns one package, unpacked in its own directory. The package comes from the cache, or
    /// else from Debian.
    pub fn package(&self, arch: Arch, name: &str) -> Result<PathBuf, Error> {
        self.package_set(arch, name, &[name])
    }

    /// Returns a directory with these packages, without their dependencies. The packages come from
    /// the cache, or else from Debian.
    pub fn package_set(&self, arch: Arch, set: &str, names: &[&str]) -> Result<PathBuf, Error> {
        self.unpacked(arch, &format!("{}-{set}", arch.name()), Set::Named(names), &mut |_| ())
    }

    /// Returns the packages of a web server, from the cache or else from Debian.
    pub(crate) fn web_packages(&self, arch: Arch) -> Result<PathBuf, Error> {
        self.unpacked(arch, &format!("{arch}{WEB_SET}"), Set::Web, &mut |_| ())
    }

    /// Returns the directory of a set of packages. The set for all guests has an empty name.
    pub fn packages_of(&self, arch: Arch, set: &str) -> PathBuf {
        self.root().join("packages").join(format!("{arch}{set}"))
    }

    /// Fetches the newest packages of a directory, and replaces the old ones. `directory` is the
    /// name of a part of the kind [`super::Kind::Packages`].
    pub fn refresh_packages(&self, directory: &str) -> Result<(), Error> {
        let unknown = || Error::UnknownPart { name: directory.to_owned() };
        let parts = |arch: &Arch| Some((*arch, directory.strip_prefix(arch.name())?));
        let (arch, set) = Arch::ALL.iter().find_map(parts).ok_or_else(unknown)?;
        let set = match set {
            "" => Set::Guest,
            WEB_SET => Set::Web,
            one => Set::Named(&[one.strip_prefix('-').ok_or_else(unknown)?]),
        };
        let _lock = self.lock()?;
        self.fetch(arch, directory, set, &mut |_| ())
    }

    /// Returns the directory with this name and its packages. Missing packages are fetched.
    fn unpacked(
        &self,
        arch: Arch,
        directory: &str,
        set: Set<'_>,
        report: &mut dyn FnMut(Fetch),
    ) -> Result<PathBuf, Error> {
        let unpacked = self.root().join("packages").join(directory);
        if !unpacked.is_dir() {
            let _lock = self.lock()?;
            // Another process may have fetched the packages while it held the lock.
            if !unpacked.is_dir() {
                self.fetch(arch, directory, set, report)?;
            }
        }
        // The directory's rights may have changed since it was created.
        check_dir(&unpacked)
    }

    /// Fetches packages, and moves complete packages to their final directory. The caller must hold
    /// the lock.
    fn fetch(
        &self,
        arch: Arch,
        directory: &str,
        set: Set<'_>,
        report: &mut dyn FnMut(Fetch),
    ) -> Result<(), Error> {
        let mut step = |what| report(Fetch { what, permille: None, bytes: 0 });
        let unpacked = self.directory("packages")?.join(directory);
        // The lock is held, so a directory with that name was left by a killed process.
        let scratch = unpacked.with_added_extension("part");
        remove_dir(&scratch)?;
        let tree = scratch.join("tree");
        create_dir(&tree)?;
        let work = self.work(&format!("apt-{arch}"))?;
        let apt = Apt::prepare(work.path(), arch)?;
        let made_s = time_of_day().as_secs();
        step("reading Debian's lists of packages");
        let update_stderr = apt.update()?;
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let names: Vec<String> = match set {
            Set::Guest => {
                let mut names = apt.real_kernel(&update_stderr)?;
                names.push("busybox-static".to_owned());
                names
            }
            Set::Web => named(apt.known_of(&WEB_PACKAGES)),
            Set::Named(names) => named(names),
        };
        let mut versions = String::new();
        step(DOWNLOAD);
        let debs = apt.download(&names, &scratch, &update_stderr, report)?;
        report(Fetch { what: "unpacking", permille: None, bytes: 0 });
        for deb in debs {
            let dpkg_deb = || Command::new("dpkg-deb");
            run(dpkg_deb().arg("-x").arg(&deb).arg(&tree), NOT_DPKG)?;
            let shown = run(dpkg_deb().arg("-W").arg(SHOW_FORMAT).arg(&deb), NOT_DPKG)?;
            versions.push_str(&String::from_utf8_lossy(&shown.stdout));
        }
        let record = tree.join(IN_DIRECTORY);
        let wrong = |reason| Error::Record { path: record.clone(), reason };
        Record::new(made_s, &versions).map_err(wrong)?.write(&record)?;
        // Only a complete directory gets the final name.
        if set == Set::Guest {
            find_parts(arch, &tree)?;
        }
        exchange(&tree, &unpacked)?;
        remove_dir(&scratch)
    }
}

fn find_parts(arch: Arch, root: &Path) -> Result<GuestPackages, Error> {
    let missing = || Error::PackageContent {
        root: root.to_owned(),
        missing: "a kernel (boot/vmlinuz-*, usr/lib/modules/*/vmlinuz)".to_owned(),
    };
    let (kernel, release) = find_kernel(root).ok_or_else(missing)?;
    Ok(GuestPackages {
        arch,
        kernel,
        modules: below_either(root, &format!("lib/modules/{release}"))?,
        busybox: below_either(root, "bin/busybox")?,
        release,
    })
}

/// Finds the kernel's image and its release. The image is in /boot, and since Linux 7 in the
/// directory of the modules.
fn find_kernel(root: &Path) -> Option<(PathBuf, String)> {
    let names = |dir: &str| entries(&root.join(dir)).unwrap_or_default();
    let in_boot = names("boot").into_iter().find_map(|path| {
        let release = path.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        Some((path, release))
    });
    let beside_modules = || {
        names("usr/lib/modules").into_iter().find_map(|path| {
            let release = path.file_name()?.to_str()?.to_owned();
            Some((path.join("vmlinuz"), release)).filter(|(kernel, _)| kernel.exists())
        })
    };
    in_boot.or_else(beside_modules)
}

/// Finds a path at the root or below /usr, to which Debian 13 has moved everything.
pub(crate) fn below_either(root: &Path, path: &str) -> Result<PathBuf, Error> {
    let places = [root.join(path), root.join("usr").join(path)];
    let missing = || Error::PackageContent { root: root.to_owned(), missing: path.to_owned() };
    // A link is enough, because its target is a path in the guest, which may not exist here.
    places.into_iter().find(|place| place.exists() || place.is_symlink()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A cache that has the packages must not need apt, sources or a network.
    #[test]
    fn unpacked_packages_are_used_as_they_are() {
        let root = crate::Scratch::new("images-cache").unwrap();
        let tree = root.join("packages/s390x");
        let error = find_parts(Arch::S390x, &tree).unwrap_err();
        assert!(error.to_string().contains("vmlinuz"), "{error}");
        for directory in ["boot", "usr/lib/modules/6.1-s390x", "bin"] {
            create_dir(&tree.join(directory)).unwrap();
        }
        let cache = Cache::at(root.path()).unwrap();
        let missing = cache.packages(Arch::S390x).unwrap_err();
        assert!(missing.to_string().contains("vmlinuz"), "{missing}");
        fs::write(tree.join("boot/vmlinuz-6.1-s390x"), "k").unwrap();
        fs::write(tree.join("bin/busybox"), "b").unwrap();
        let packages = cache.packages(Arch::S390x).unwrap();
        assert_eq!(packages.release, "6.1-s390x");
        assert_eq!(packages.modules, tree.join("usr/lib/modules/6.1-s390x"));
        assert!(!root.join("work").exists(), "apt was not even prepared");
        let beside = tree.join("usr/lib/modules/6.1-s390x/vmlinuz");
        fs::rename(tree.join("boot/vmlinuz-6.1-s390x"), &beside).unwrap();
        let moved = cache.packages(Arch::S390x).unwrap();
        assert_eq!((moved.kernel, moved.release), (beside, packages.release));
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o777)).unwrap();
        let error = cache.packages(Arch::S390x).unwrap_err().to_string();
        assert!(error.contains("s390x is not safe to use"), "{error}");
    }

    #[test]
    fn only_packages_of_the_cache_are_refreshed() {
        let root = std::env::temp_dir().join(format!("images-refresh-{}", std::process::id()));
        let cache = Cache::at(&root).unwrap();
        for name in ["", "arm64", "x86_64web", "../x"] {
            let error = cache.refresh_packages(name).unwrap_err();
            assert!(matches!(error, Error::UnknownPart { .. }), "{name}: {error}");
        }
        assert!(!root.exists());
    }
}
