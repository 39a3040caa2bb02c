//! Gets a guest's kernel and its busybox as Debian packages, by name, with the ordinary apt client.
//!
//! ```text
//!   CACHE/lock                 one process at a time fetches
//!   CACHE/apt/ARCH/            apt's state while it fetches for that one: the system's own
//!                              is neither used nor changed, and no privilege is needed
//!   CACHE/packages/ARCH/       the packages, unpacked; there or not there, never half there
//! ```
//!
//! What is unpacked stays until the user removes it: a farm keeps its kernel for as long as its
//! cache lives, and starts without a network.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::FileContext;
use crate::files::{create_dir, entries, lock_file, remove_dir};
use crate::tool::{last_part, run};
use crate::{Arch, Error, sources};

/// The directory in which pinhead keeps what it can get or make again.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// The parts of the packages that make a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestPackages {
    /// The architecture that all of it is for.
    pub arch: Arch,
    /// The kernel's release, such as `6.1.0-50-s390x`.
    pub release: String,
    /// The kernel's image.
    pub kernel: PathBuf,
    /// `lib/modules/RELEASE`.
    pub modules: PathBuf,
    /// The static busybox.
    pub busybox: PathBuf,
}

impl Cache {
    /// The cache where the user's environment says that it is.
    pub fn from_environment() -> Result<Cache, Error> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = variable("PINHEAD_CACHE")
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("pinhead")))
            .or_else(|| Some(variable("HOME")?.join(".cache/pinhead")))
            .ok_or(Error::NoCacheDirectory)?;
        Ok(Cache::at(root))
    }

    /// The cache in this directory. It is made when something is put into it.
    pub fn at(root: impl Into<PathBuf>) -> Cache {
        let root = root.into();
        // Tools run in directories of their own, where a relative path would mean another place.
        Cache { root: std::path::absolute(&root).unwrap_or(root) }
    }

    /// The cache's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Waits until no other process changes the cache, and keeps others out until the returned
    /// file is dropped.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        create_dir(&self.root)?;
        lock_file(&self.root.join("lock"))
    }

    /// The packages for guests of this architecture: from the cache without touching the network,
    /// or else from Debian.
    pub fn packages(&self, arch: Arch) -> Result<GuestPackages, Error> {
        let names = |apt: &Apt, update_stderr: &str| {
            Ok(vec![apt.real_kernel(update_stderr)?, "busybox-static".to_owned()])
        };
        let whole = |tree: &Path| find_parts(arch, tree).map(drop);
        find_parts(arch, &self.unpacked(arch, arch.name(), names, whole)?)
    }

    /// One package, unpacked in a directory of its own: from the cache or else from Debian.
    pub fn package(&self, arch: Arch, name: &str) -> Result<PathBuf, Error> {
        self.package_set(arch, name, &[name])
    }

    /// Packages that belong together, unpacked into one directory that has the set's name: from
    /// the cache or else from Debian. What they depend on is not added.
    pub fn package_set(&self, arch: Arch, set: &str, names: &[&str]) -> Result<PathBuf, Error> {
        let names = |_: &Apt, _: &str| Ok(names.iter().map(|&n| n.to_owned()).collect());
        self.unpacked(arch, &format!("{}-{set}", arch.name()), names, |_| Ok(()))
    }

    /// Packages in a directory of this name: from the cache, or else those of these names, which
    /// get there once they are whole.
    fn unpacked(
        &self,
        arch: Arch,
        directory: &str,
        names: impl Fn(&Apt, &str) -> Result<Vec<String>, Error>,
        whole: impl Fn(&Path) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let unpacked = self.root.join("packages").join(directory);
        if unpacked.is_dir() {
            return Ok(unpacked);
        }
        let _lock = self.lock()?;
        // The previous holder of the lock may have fetched the same.
        if unpacked.is_dir() {
            return Ok(unpacked);
        }
        let state = self.root.join("apt").join(arch.name());
        let apt = Apt::prepare(&state, arch)?;
        // The lock is held, so a directory of that name is what a killed process left.
        let scratch = unpacked.with_extension("part");
        remove_dir(&scratch)?;
        let tree = scratch.join("tree");
        create_dir(&tree)?;

        // apt calls it a success when a mirror could not be reached, so its stderr is kept for
        // the message about the package that then cannot be found.
        let mut update = apt.command("apt-get");
        let update_stderr = run(update.args(["-qq", "update"]), NOT_DEBIAN)?.stderr;
        let names = names(&apt, &update_stderr)?;
        apt.download(&names, &scratch, &update_stderr)?;
        let files = entries(&scratch)?.into_iter();
        for deb in files.filter(|path| path.extension().is_some_and(|end| end == "deb")) {
            let mut unpack = Command::new("dpkg-deb");
            run(unpack.arg("-x").arg(deb).arg(&tree), "it belongs to dpkg; is this Debian?")?;
        }
        // Only what is whole gets the final name.
        whole(&tree)?;
        fs::rename(&tree, &unpacked).file("create", &unpacked)?;
        remove_dir(&scratch)?;
        // Lists of tens of megabytes that nobody will ask again.
        remove_dir(&state)?;
        Ok(unpacked)
    }
}

/// The packages' files that `fetch` promised.
fn find_parts(arch: Arch, root: &Path) -> Result<GuestPackages, Error> {
    let missing = || Error::PackageContent {
        root: root.to_owned(),
        missing: "a kernel (boot/vmlinuz-*)".to_owned(),
    };
    let boot = root.join("boot");
    let kernel = fs::read_dir(&boot)
        .file("read", &boot)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.starts_with("vmlinuz-"))
        .ok_or_else(missing)?;
    let release = kernel.trim_start_matches("vmlinuz-").to_owned();
    Ok(GuestPackages {
        arch,
        kernel: boot.join(&kernel),
        modules: below_either(root, &format!("lib/modules/{release}"))?,
        busybox: below_either(root, "bin/busybox")?,
        release,
    })
}

/// Debian 13 has moved everything below /usr.
pub(crate) fn below_either(root: &Path, path: &str) -> Result<PathBuf, Error> {
    let places = [root.join(path), root.join("usr").join(path)];
    let missing = || Error::PackageContent { root: root.to_owned(), missing: path.to_owned() };
    // A link's target is named as it will be in the guest, so its own file may be elsewhere here.
    places.into_iter().find(|place| place.exists() || place.is_symlink()).ok_or_else(missing)
}

/// apt with a configuration of our own.
struct Apt {
    arch: Arch,
    configuration: PathBuf,
}

impl Apt {
    fn prepare(state: &Path, arch: Arch) -> Result<Apt, Error> {
        let sources = state.join("sources.list.d");
        remove_dir(&sources)?;
        for directory in ["sources.list.d", "lists/partial", "cache/archives/partial"] {
            create_dir(&state.join(directory))?;
        }
        for (name, text) in sources::debian_sources(Path::new("/etc/apt"))? {
            let path = sources.join(name);
            fs::write(&path, text).file("write", path)?;
        }
        // Nothing is installed in a guest: an empty file is the truth about it.
        let status = state.join("status");
        fs::write(&status, "").file("write", status)?;
        let configuration = state.join("apt.conf");
        fs::write(&configuration, configuration_text(state, arch)).file("write", &configuration)?;
        Ok(Apt { arch, configuration })
    }

    fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        command.arg("-c").arg(&self.configuration).env("LC_ALL", "C");
        command
    }

    /// The kernel behind the package that always names the newest one.
    fn real_kernel(&self, update_stderr: &str) -> Result<String, Error> {
        let meta = match self.arch {
            Arch::X86_64 => "linux-image-cloud-amd64",
            Arch::S390x => "linux-image-s390x",
        };
        let unknown = || Error::PackageUnknown {
            package: meta.to_owned(),
            arch: self.arch,
            update_stderr: update_stderr.to_owned(),
        };
        let mut show = self.command("apt-cache");
        match run(show.args(["show", "--no-all-versions", meta]), NOT_DEBIAN) {
            Ok(output) => {
                dependency_on_image(&String::from_utf8_lossy(&output.stdout)).ok_or_else(unknown)
            }
            Err(Error::ToolFailed { .. }) => Err(unknown()),
            Err(error) => Err(error),
        }
    }

    fn download(&self, packages: &[String], into: &Path, update_stderr: &str) -> Result<(), Error> {
        let mut download = self.command("apt-get");
        download.args(["-qq", "download"]).args(packages).current_dir(into);
        match run(&mut download, NOT_DEBIAN) {
            Ok(_) => Ok(()),
            Err(Error::ToolFailed { command, status, stderr }) => {
                let stderr = format!("{stderr}\n{update_stderr}");
                Err(Error::ToolFailed { command, status, stderr: last_part(stderr.trim()) })
            }
            Err(error) => Err(error),
        }
    }
}

const NOT_DEBIAN: &str = "it belongs to apt; guests are made from Debian packages";

/// `#clear` takes away what the system's configuration, which is read first, may hook into an
/// update: those commands are meant for the system's own lists. Proxies, credentials and
/// preferences of the system stay in force.
fn configuration_text(state: &Path, arch: Arch) -> String {
    let (state, arch) = (state.display(), arch.debian());
    format!(
        "#clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear APT::Architectures;\n\
         APT::Architecture \"{arch}\";\n\
         APT::Architectures {{ \"{arch}\"; }};\n\
         APT::Sandbox::User \"root\";\n\
         Acquire::Languages \"none\";\n\
         Dir::State \"{state}\";\n\
         Dir::State::lists \"{state}/lists/\";\n\
         Dir::State::status \"{state}/status\";\n\
         Dir::Cache \"{state}/cache\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\n\
         Dir::Etc::sourceparts \"{state}/sources.list.d\";\n"
    )
}

/// The first `linux-image-*` in the `Depends:` line of a package's description.
fn dependency_on_image(description: &str) -> Option<String> {
    let depends = description.lines().find_map(|line| line.strip_prefix("Depends:"))?;
    depends
        .split([',', '|'])
        .filter_map(|dependency| dependency.split_ascii_whitespace().next())
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_package_leads_to_the_kernel() {
        let description = "Package: linux-image-s390x\nVersion: 6.1.176-1\n\
                           Depends: linux-image-6.1.0-50-s390x (= 6.1.176-1), other\n";
        let kernel = dependency_on_image(description);
        assert_eq!(kernel.as_deref(), Some("linux-image-6.1.0-50-s390x"));
        assert_eq!(dependency_on_image("Package: x\nDepends: libc6\n"), None);
    }

    /// A cache that has the packages must not need apt, sources or a network.
    #[test]
    fn unpacked_packages_are_used_as_they_are() {
        let root = std::env::temp_dir().join(format!("images-cache-{}", std::process::id()));
        let tree = root.join("packages/s390x");
        let error = find_parts(Arch::S390x, &tree).unwrap_err();
        assert!(matches!(error, Error::File { .. }));
        for directory in ["boot", "usr/lib/modules/6.1-s390x", "bin"] {
            create_dir(&tree.join(directory)).unwrap();
        }
        let cache = Cache::at(&root);
        let missing = cache.packages(Arch::S390x).unwrap_err();
        assert!(missing.to_string().contains("vmlinuz"), "{missing}");
        fs::write(tree.join("boot/vmlinuz-6.1-s390x"), "k").unwrap();
        fs::write(tree.join("bin/busybox"), "b").unwrap();
        let packages = cache.packages(Arch::S390x).unwrap();
        assert_eq!(packages.release, "6.1-s390x");
        assert_eq!(packages.modules, tree.join("usr/lib/modules/6.1-s390x"));
        assert!(!root.join("apt").exists(), "apt was not even prepared");
        fs::remove_dir_all(root).unwrap();
    }
}
