//! Inventory of a cache: each part with its size, its age and its packages.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::images::error::FileContext;
use crate::images::files::{entries, remove_dir, remove_file};
use crate::images::record::{OF_DISK, Record};
use crate::images::rootfs::Software;
use crate::images::{Arch, Cache, Error};

base::named! {
    /// The kind of a part of the cache.
    pub enum Kind {
        /// Debian packages, unpacked.
        Packages = "packages",
        /// A disk with Debian's servers.
        Disk = "disk",
        /// A guest's first file system.
        Boot = "boot",
        /// The saved state of a guest, from which clones start.
        Template = "template",
        /// Evidence of a guest that hung in its boot.
        Hang = "hang",
        /// Files left by a killed process, or in use now.
        Left = "left",
    }
}

/// Age, in seconds, from which packages count as old.
pub const OLD_S: u64 = 30 * 86_400;

/// A part of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Kind of the part.
    pub kind: Kind,
    /// Name of the part within its kind: the name of a directory of packages, of a disk's software,
    /// or of a file.
    pub name: String,
    /// Architecture of the part, if any.
    pub arch: Option<Arch>,
    /// File or directory of the part.
    pub path: PathBuf,
    /// Additional files of the part.
    pub with: Vec<PathBuf>,
    /// Size on the host's disk, in bytes.
    pub bytes: u64,
    /// Time at which the part was made, and the part's packages.
    pub record: Record,
    /// Time of the last request for the part, in seconds since 1970.
    pub used_s: u64,
    /// True if a guest started now may use the part. A disk made from other packages, or from other
    /// files of pinhead, is never used again.
    pub is_current: bool,
}

impl Part {
    /// Returns the part's age in seconds.
    pub fn age_s(&self, now_s: u64) -> u64 {
        now_s.saturating_sub(self.record.made_s)
    }

    /// Returns true if Debian has probably updated the part's packages since the part was made.
    pub fn is_old(&self, now_s: u64) -> bool {
        matches!(self.kind, Kind::Packages | Kind::Disk) && self.age_s(now_s) > OLD_S
    }

    /// Removes the part's files.
    pub fn remove(&self) -> Result<(), Error> {
        for path in std::iter::once(&self.path).chain(&self.with) {
            let is_dir = fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
            match is_dir {
                true => remove_dir(path)?,
                false => remove_file(path)?,
            }
        }
        Ok(())
    }
}

impl Cache {
    /// Returns all parts of the cache, sorted by kind, architecture and name.
    pub fn parts(&self) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for path in listed(&self.root().join("packages"))? {
            parts.extend(there(packages(path))?);
        }
        for arch in Arch::ALL.iter().copied() {
            let below = |kind: &str| self.root().join(kind).join(arch.name());
            for path in listed(&below("disks"))? {
                parts.extend(there(disk(path, arch))?.flatten());
            }
            for path in listed(&below("images"))? {
                let kind = if has_end(&path, "cpio") { Kind::Boot } else { Kind::Left };
                parts.extend(there(part(kind, path, Some(arch)))?);
            }
            for path in listed(&below("templates"))? {
                parts.extend(there(template(path, arch))?.flatten());
            }
        }
        for path in listed(&self.root().join("hangs"))? {
            parts.extend(there(part(Kind::Hang, path, None))?);
        }
        for path in listed(&self.root().join("work"))? {
            if !has_end(&path, "lock") {
                parts.extend(there(part(Kind::Left, path, None))?);
            }
        }
        // Versions before 0.1 used this directory for packages.
        let apt = self.root().join("apt");
        if apt.exists() {
            parts.push(part(Kind::Left, apt, None)?);
        }
        parts.sort_by_key(|part| (part.kind, part.arch, part.name.clone()));
        Ok(parts)
    }
}

/// Returns `None` if the file is gone, because another process may have removed it after its
/// directory was read.
fn there<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    if directory.is_dir() { entries(directory) } else { Ok(Vec::new()) }
}

fn part(kind: Kind, path: PathBuf, arch: Option<Arch>) -> Result<Part, Error> {
    let data = fs::symlink_metadata(&path).file("look at", &path)?;
    let seconds = |time: i64| time.max(0).cast_unsigned();
    Ok(Part {
        kind,
        name: file_name(&path),
        arch,
        bytes: bytes(&path, &data)?,
        record: Record { made_s: seconds(data.ctime()), packages: Vec::new() },
        used_s: seconds(data.atime().max(data.mtime())),
        is_current: kind != Kind::Left,
        with: Vec::new(),
        path,
    })
}

fn packages(path: PathBuf) -> Result<Part, Error> {
    let name = file_name(&path);
    let arch = Arch::ALL.iter().copied().find(|arch| name.starts_with(arch.name()));
    let kind = if name.ends_with(".part") { Kind::Left } else { Kind::Packages };
    let mut part = part(kind, path, arch)?;
    part.record = Record::beside(&part.path)?;
    Ok(part)
}

/// Returns the part for a disk and its record. The record's own file is no part, so the result is
/// `None`.
fn disk(path: PathBuf, arch: Arch) -> Result<Option<Part>, Error> {
    if has_end(&path, OF_DISK) && path.with_extension("img").exists() {
        return Ok(None);
    }
    if !has_end(&path, "img") {
        return part(Kind::Left, path, Some(arch)).map(Some);
    }
    let record = path.with_extension(OF_DISK);
    let mut part = part(Kind::Disk, path, Some(arch))?;
    part.record = Record::beside(&part.path)?;
    let software = Software::ALL.iter().find(|software| software.file_name() == part.name);
    part.is_current = software.is_some();
    if let Some(software) = software {
        part.name = software.name().to_owned();
    }
    part.with.push(record);
    Ok(Some(part))
}

fn template(path: PathBuf, arch: Arch) -> Result<Option<Part>, Error> {
    if has_end(&path, "state") {
        let memory = path.with_extension("memory");
        let mut found = part(Kind::Template, path, Some(arch))?;
        if let Ok(data) = fs::symlink_metadata(&memory) {
            found.bytes += bytes(&memory, &data)?;
            found.with.push(memory);
        }
        return Ok(Some(found));
    }
    let is_of_state = has_end(&path, "memory") && path.with_extension("state").exists();
    match is_of_state || file_name(&path) == "lock" {
        true => Ok(None),
        false => part(Kind::Left, path, Some(arch)).map(Some),
    }
}

/// Returns the size on the disk of a file, or of a directory and its content.
fn bytes(path: &Path, data: &Metadata) -> Result<u64, Error> {
    let mut sum = data.blocks() * 512;
    if data.is_dir() {
        for path in entries(path)? {
            // Another process that uses the cache may have removed this file.
            if let Ok(data) = fs::symlink_metadata(&path) {
                sum += bytes(&path, &data)?;
            }
        }
    }
    Ok(sum)
}

fn has_end(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|found| found == end)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::files::create_dir;

    #[test]
    fn every_part_is_listed_with_what_belongs_to_it() {
        let root = crate::Scratch::new("images-parts").unwrap();
        let file = |path: &str, content: &str| {
            let path = root.join(path);
            create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let record = "pinhead packages 1\nmade 5\nnginx 1.22.1-9\n";
        file("packages/x86_64-web/pinhead.packages", record);
        file("packages/s390x/boot/vmlinuz-6", "k");
        file("packages/s390x/pinhead.packages", "damaged");
        file("packages/s390x.part/x", "");
        let current = Software::Nginx.file_name();
        file(&format!("disks/x86_64/{current}"), "image");
        file(&format!("disks/x86_64/{}", current.replace(".img", ".packages")), record);
        file("disks/x86_64/debian-app-0.img", "image");
        file("disks/x86_64/debian-app.part", "image");
        file("images/s390x/1.cpio", "boot");
        file("templates/x86_64/1.state", "state");
        file("templates/x86_64/1.memory", "memory");
        file("templates/x86_64/2.memory", "memory");
        file("templates/x86_64/lock", "");
        file("work/apt-s390x.lock", "");
        file("work/apt-s390x/apt.conf", "");
        let cache = Cache::at(root.path()).unwrap();
        let parts = cache.parts().unwrap();
        let shown = |part: &Part| {
            let arch = part.arch.map_or("-", Arch::name);
            format!("{} {arch} {} {}", part.kind, part.name, part.is_current)
        };
        let shown: Vec<String> = parts.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "packages x86_64 x86_64-web true",
                "packages s390x s390x true",
                "disk x86_64 debian-app-0.img false",
                "disk x86_64 debian-nginx true",
                "boot s390x 1.cpio true",
                "template x86_64 1.state true",
                "left - apt-s390x false",
                "left x86_64 2.memory false",
                "left x86_64 debian-app.part false",
                "left s390x s390x.part false",
            ]
        );
        let web = &parts[0];
        assert_eq!((web.record.made_s, web.record.packages.len()), (5, 1));
        assert!(web.is_old(OLD_S + 6) && !web.is_old(OLD_S + 5) && !parts[4].is_old(u64::MAX));
        assert!(parts[1].record.made_s > 5, "by its file, since its record is invalid");
        parts[3].remove().unwrap();
        parts[5].remove().unwrap();
        let left = cache.parts().unwrap();
        assert_eq!(left.len(), parts.len() - 2);
    }

    #[test]
    fn a_cache_that_is_not_there_is_empty() {
        let cache = Cache::at("/no/such/directory").unwrap();
        assert_eq!(cache.parts().unwrap(), []);
    }
}
