//! The ordinary apt client, with a separate configuration and state. The system's own configuration
//! and state are neither used nor changed.
//!
//! ```text
//!   WORK/apt.conf, sources.list.d/   our configuration
//!   WORK/lists, cache                apt's state
//!   WORK/debs/  ── size, SHA-256 ──► a directory of ours
//! ```
//!
//! If root starts apt, it downloads and unpacks lists as the user `_apt`. That user can change
//! these files until they are checked. A file is therefore first copied to a place where that user
//! cannot change it. The copy is then compared with the signed list.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::OFlags;

use crate::images::cache::is_root;
use crate::images::error::FileContext;
use crate::images::files::{create_dir, write_new};
use crate::images::ours::create_dir_mode;
use crate::images::tool::{last_part, run, run_and_follow};
use crate::images::{Arch, Error, sources};

const NOT_DEBIAN: &str = "it is part of apt; guests are built from Debian packages";

/// Description of the step that downloads packages.
pub(crate) const DOWNLOAD: &str = "downloading";

/// Progress of fetching packages from Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Description of the current step.
    pub what: &'static str,
    /// Completed part of the step in thousandths, if known.
    pub permille: Option<u16>,
    /// Size of all packages in bytes, or 0 until the size is known.
    pub bytes: u64,
}

pub(crate) struct Apt {
    arch: Arch,
    configuration: PathBuf,
    debs: PathBuf,
}

impl Apt {
    /// Creates apt's files in a new work directory.
    pub(crate) fn prepare(work: &Path, arch: Arch) -> Result<Apt, Error> {
        let sources = work.join("sources.list.d");
        // An entry may contain a password, so the directory of entries is private.
        create_dir(&sources)?;
        for (name, text) in sources::debian_sources(Path::new("/etc/apt"))? {
            write_new(&sources.join(name), text.as_bytes())?;
        }
        for directory in ["lists", "cache/archives"] {
            let path = work.join(directory);
            create_dir_mode(&path, 0o755)?;
        }
        // An empty status file means that no package is installed.
        write_new(&work.join("status"), b"")?;
        let configuration = work.join("apt.conf");
        write_new(&configuration, configuration_text(work, arch).as_bytes())?;
        let debs = work.join("debs");
        create_dir(&debs)?;
        if is_root() {
            let mut chown = Command::new("chown");
            run(chown.arg("_apt").arg(&debs), "install coreutils")?;
        }
        Ok(Apt { arch, configuration, debs })
    }

    fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        command.arg("-c").arg(&self.configuration).env("LC_ALL", "C").current_dir(&self.debs);
        command
    }

    /// Fetches the lists and returns apt's messages. apt reports success even if a mirror could not
    /// be reached. The messages then explain a missing package.
    pub(crate) fn update(&self) -> Result<String, Error> {
        let mut update = self.command("apt-get");
        Ok(run(update.args(["-qq", "update"]), NOT_DEBIAN)?.stderr)
    }

    /// Returns the packages of the kernel that the metapackage depends on. Since Linux 7, Debian
    /// has the image and the modules in two packages instead of one.
    pub(crate) fn real_kernel(&self, update_stderr: &str) -> Result<Vec<String>, Error> {
        let meta = match self.arch {
            Arch::X86_64 => "linux-image-cloud-amd64",
            Arch::S390x => "linux-image-s390x",
        };
        let unknown = || Error::PackageUnknown {
            package: meta.to_owned(),
            arch: self.arch,
            update_stderr: update_stderr.to_owned(),
        };
        let dependencies = |package: &str, start: &str| {
            let mut show = self.command("apt-cache");
            match run(show.args(["show", "--no-all-versions", package]), NOT_DEBIAN) {
                Ok(output) => Ok(dependencies(&String::from_utf8_lossy(&output.stdout), start)),
                Err(Error::ToolFailed { .. }) => Err(unknown()),
                Err(error) => Err(error),
            }
        };
        let image = dependencies(meta, "linux-image-")?.into_iter().next().ok_or_else(unknown)?;
        let mut packages = Vec::new();
        for part in ["linux-base-", "linux-binary-", "linux-modules-"] {
            packages.extend(dependencies(&image, part)?);
        }
        packages.push(image);
        Ok(packages)
    }

    /// Returns the first list that only contains packages known to apt. If there is no such list,
    /// returns the first list.
    pub(crate) fn known_of<'a>(&self, lists: &[&'a [&'a str]]) -> &'a [&'a str] {
        let is_known = |names: &&&[&str]| {
            let mut get = self.command("apt-get");
            run(get.args(["-qq", "download", "--print-uris"]).args(**names), NOT_DEBIAN).is_ok()
        };
        lists.iter().find(is_known).or(lists.first()).copied().unwrap_or_default()
    }

    /// Downloads packages, copies their files into a private directory, and compares the copies
    /// with the signed lists.
    pub(crate) fn download(
        &self,
        packages: &[String],
        into: &Path,
        update_stderr: &str,
        report: &mut dyn FnMut(Fetch),
    ) -> Result<Vec<PathBuf>, Error> {
        let get = |option: &str| {
            let mut get = self.command("apt-get");
            get.args(["-qq", "download", option]).args(packages);
            get
        };
        let reason = |error| with_reason(error, update_stderr);
        let listed = run(&mut get("--print-uris"), NOT_DEBIAN).map_err(reason)?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        let bytes = listed.lines().filter_map(ListedFile::parse).map(|file| file.size).sum();
        let mut follow = |line: &str| {
            let permille = fetched(line);
            report(Fetch { what: DOWNLOAD, permille, bytes });
            permille.is_some()
        };
        run_and_follow(&mut get("-oAPT::Status-Fd=2"), NOT_DEBIAN, &mut follow).map_err(reason)?;
        let mut copies = Vec::new();
        for line in listed.lines().filter(|line| !line.trim().is_empty()) {
            let wrong = |reason: &str| Error::Package {
                line: base::plain(line, 200),
                reason: reason.to_owned(),
            };
            let file = ListedFile::parse(line)
                .ok_or_else(|| wrong("apt's output should be 'URI' NAME SIZE SHA256:DIGEST"))?;
            copies.push(file.copy(&self.debs, into)?);
        }
        match copies.len() == packages.len() {
            true => Ok(copies),
            false => Err(Error::Package {
                line: packages.join(" "),
                reason: format!("apt knows {} files for these", copies.len()),
            }),
        }
    }
}

/// Returns the progress, in thousandths, from a line `dlstatus:FILE:PERCENT:TEXT` of apt.
fn fetched(line: &str) -> Option<u16> {
    let percent = line.strip_prefix("dlstatus:")?.split(':').nth(1)?;
    let percent: f64 = percent.parse().ok()?;
    Some((percent.clamp(0.0, 100.0) * 10.0) as u16)
}

/// Adds apt's messages about its lists to an error, because they may explain a missing package.
fn with_reason(error: Error, update_stderr: &str) -> Error {
    match error {
        Error::ToolFailed { command, status, stderr } => {
            let stderr = format!("{stderr}\n{update_stderr}");
            Error::ToolFailed { command, status, stderr: last_part(stderr.trim()) }
        }
        error => error,
    }
}

/// A file of a package, as listed in the signed lists.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedFile<'a> {
    /// Name of the file in its download directory.
    pub name: &'a str,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the file, as 64 hexadecimal digits.
    pub sha256: &'a str,
}

impl<'a> ListedFile<'a> {
    /// Parses a line of `apt-get --print-uris`: `'URI' NAME SIZE SHA256:DIGEST`.
    pub fn parse(line: &'a str) -> Option<ListedFile<'a>> {
        let (_, rest) = line.strip_prefix('\'')?.split_once("' ")?;
        let mut words = rest.split_ascii_whitespace();
        let (name, size) = (words.next()?, words.next()?.parse().ok()?);
        let sha256 = words.next()?.strip_prefix("SHA256:")?;
        let is_name =
            name.ends_with(".deb") && !name.contains('/') && !name.starts_with(['.', '-']);
        let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_name && is_digest).then_some(ListedFile { name, size, sha256 })
    }

    /// Copies the file to a place where no other user can change it, and compares the copy with the
    /// list.
    fn copy(&self, from: &Path, into: &Path) -> Result<PathBuf, Error> {
        let wrong =
            |reason: &str| Error::Package { line: self.name.to_owned(), reason: reason.to_owned() };
        let path = from.join(self.name);
        // The file's owner may have replaced the file by a link or a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = File::options();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = options.open(&path).file("open", &path)?;
        if !file.metadata().file("look at", &path)?.is_file() {
            return Err(wrong("it is no ordinary file"));
        }
        let copy = into.join(self.name);
        let mut out = File::create_new(&copy).file("create", &copy)?;
        let copied = io::copy(&mut file.take(self.size.saturating_add(1)), &mut out);
        if copied.file("copy", &path)? != self.size {
            return Err(wrong("its size differs from the signed list"));
        }
        let sum = run(Command::new("sha256sum").arg("--").arg(&copy), "install coreutils")?.stdout;
        // `sha256sum` prints a backslash before the sum if the name has special characters.
        let sum = sum.strip_prefix(b"\\").unwrap_or(&sum);
        match sum.get(..64).is_some_and(|sum| sum.eq_ignore_ascii_case(self.sha256.as_bytes())) {
            true => Ok(copy),
            false => Err(wrong("its SHA-256 differs from the signed list")),
        }
    }
}

/// Returns the text of the configuration, which apt reads after the system's configuration.
/// `#clear` removes the system's commands that run at an update, because they are meant for the
/// system's own lists. The system's proxies, credentials and preferences stay valid, but not its
/// permission to accept unsigned files.
fn configuration_text(work: &Path, arch: Arch) -> String {
    let (work, arch) = (work.display(), arch.debian());
    // Without root there is no other user to change to.
    let sandbox = if is_root() { "_apt" } else { "root" };
    format!(
        "#clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear APT::Architectures;\n\
         APT::Architecture \"{arch}\";\n\
         APT::Architectures {{ \"{arch}\"; }};\n\
         APT::Sandbox::User \"{sandbox}\";\n\
         APT::Get::AllowUnauthenticated \"false\";\n\
         Acquire::AllowInsecureRepositories \"false\";\n\
         Acquire::AllowWeakRepositories \"false\";\n\
         Acquire::AllowDowngradeToInsecureRepositories \"false\";\n\
         Acquire::Languages \"none\";\n\
         Dir::State \"{work}\";\n\
         Dir::State::lists \"{work}/lists/\";\n\
         Dir::State::status \"{work}/status\";\n\
         Dir::Cache \"{work}/cache\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\n\
         Dir::Etc::sourceparts \"{work}/sources.list.d\";\n"
    )
}

/// Returns packages with this prefix from the `Depends:` line of a package's description.
fn dependencies(description: &str, start: &str) -> Vec<String> {
    let depends = description.lines().find_map(|line| line.strip_prefix("Depends:"));
    depends
        .unwrap_or_default()
        .split([',', '|'])
        .filter_map(|dependency| dependency.split_ascii_whitespace().next())
        .filter(|name| name.starts_with(start))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_apt_is_parsed() {
        assert_eq!(fetched("dlstatus:1:34.5667:Retrieving file 1 of 3"), Some(345));
        assert_eq!(fetched("dlstatus:2:1e9:"), Some(1000));
        for line in ["W: dlstatus:1:2:x", "dlstatus:1", "dlstatus:1:x:y", "E: no such package"] {
            assert_eq!(fetched(line), None, "{line}");
        }
    }
    use std::fs;

    const SUM_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn dependencies_are_those_that_begin_so() {
        let description = "Package: linux-image-s390x\nVersion: 6.1.176-1\n\
                           Depends: linux-image-6.1.0-50-s390x (= 6.1.176-1), other\n";
        assert_eq!(dependencies(description, "linux-image-"), ["linux-image-6.1.0-50-s390x"]);
        assert!(dependencies("Package: x\nDepends: libc6\n", "linux-image-").is_empty());
        let split = "Depends: dracut | initramfs-tools (>= 0.120), linux-binary-7 (= 7), \
                     linux-modules-7 (= 7)\n";
        assert_eq!(dependencies(split, "linux-modules-"), ["linux-modules-7"]);
    }

    #[test]
    fn finding_12_root_downloads_as_apt_and_takes_nothing_unsigned() {
        let text = configuration_text(Path::new("/w"), Arch::X86_64);
        let sandbox = if is_root() { "\"_apt\"" } else { "\"root\"" };
        for (key, value) in [
            ("APT::Sandbox::User", sandbox),
            ("APT::Get::AllowUnauthenticated", "\"false\""),
            ("Acquire::AllowInsecureRepositories", "\"false\""),
            ("Acquire::AllowWeakRepositories", "\"false\""),
        ] {
            assert!(text.contains(&format!("\n{key} {value};\n")), "{text}");
        }
    }

    #[test]
    fn a_listed_file_has_a_name_of_its_own_and_a_digest() {
        let check = |line: &str, expected: Option<(&str, u64)>| {
            let found = ListedFile::parse(line).map(|file| (file.name, file.size));
            assert_eq!(found, expected, "{line}");
        };
        let sum = format!("SHA256:{SUM_OF_ABC}");
        check(
            &format!("'http://d/p/b%2bc.deb' b_1%3a2+c.deb 12 {sum}"),
            Some(("b_1%3a2+c.deb", 12)),
        );
        for name in ["../b.deb", "/b.deb", ".b.deb", "-b.deb", "b"] {
            check(&format!("'http://d' {name} 12 {sum}"), None);
        }
        check(&format!("http://d b.deb 12 {sum}"), None);
        check(&format!("'http://d' b.deb x {sum}"), None);
        check("'http://d' b.deb 12 MD5Sum:00", None);
        check("'http://d' b.deb 12", None);
    }

    /// The user that runs the download could replace the file after apt has checked it.
    #[test]
    fn finding_12_package_that_differs_from_signed_list_is_refused() {
        let root = crate::Scratch::new("images-listed").unwrap();
        let (from, into) = (root.join("from"), root.join("into"));
        for path in [&from, &into] {
            create_dir(path).unwrap();
        }
        let file = ListedFile { name: "b.deb", size: 3, sha256: SUM_OF_ABC };
        let copy = |content: &str| {
            let _ = fs::remove_file(into.join("b.deb"));
            fs::write(from.join("b.deb"), content).unwrap();
            file.copy(&from, &into)
        };
        assert_eq!(fs::read(copy("abc").unwrap()).unwrap(), b"abc");
        for (content, reason) in [("abd", "SHA-256"), ("abcd", "size"), ("ab", "size")] {
            let error = copy(content).unwrap_err().to_string();
            assert!(error.contains("b.deb") && error.contains(reason), "{error}");
        }
        fs::remove_file(from.join("b.deb")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("b.deb")).unwrap();
        assert!(file.copy(&from, &into).unwrap_err().to_string().contains("Cannot open"));
    }
}
