//! Files that an image in QEMU's own format refers to.
//!
//! ```text
//!   byte 0   "QFI\xfb", version 2 or 3
//!        8   offset of the backing file's name, 16 its length; 0 without a backing file
//!       72   (version 3) features that a reader must know: bit 2, data in another file
//!      100   (version 3) length of the header; behind it are extensions: number, length, content
//! ```
//!
//! QEMU follows the names in a header without checking the files' owners. A user that may write to
//! an image can therefore let its guest read any file that QEMU can read. If root started QEMU,
//! `/etc/shadow` is such a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::images::Error;
use crate::images::error::FileContext;
use crate::images::ours::check_file;

const MAGIC: [u8; 4] = *b"QFI\xfb";
/// QEMU's limit on the length of a name, in bytes.
const NAME_BYTES_MAX: usize = 1023;
/// Maximum number of bytes read from an image. The header is in the first cluster, which has at
/// most 2 MiB, and QEMU writes the name right after the header.
const HEAD_BYTES_MAX: u64 = 64 << 10;
const DATA_IN_ANOTHER_FILE: u64 = 1 << 2;
/// Maximum number of backing images below an image.
const DEPTH_MAX: usize = 16;

/// Number of the extension with the format of the backing file.
const BACKING_FORMAT: u64 = 0xe279_2aca;
/// Length of the header of version 2.
const OLD_BYTES: usize = 72;

/// References to other files in an image's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The backing file, which supplies the blocks that were never written to this image.
    pub backing: Option<String>,
    /// Format of the backing file. Without a format, QEMU guesses the format from the content,
    /// which a guest may have written.
    pub format: Option<String>,
    /// Set if the image's data are in a separate file.
    pub external_data: bool,
}

impl Header {
    /// Parses the beginning of an image.
    pub fn parse(bytes: &[u8]) -> Result<Header, String> {
        let number = |at: usize, width: usize| number(bytes, at, width);
        let cut = || "the file ends within its header".to_owned();
        if !bytes.starts_with(&MAGIC) {
            return Err("the file does not begin like a qcow2 image".to_owned());
        }
        let (external_data, header_bytes) = match number(4, 4).ok_or_else(cut)? {
            2 => (false, OLD_BYTES),
            3 => {
                let features = number(72, 8).ok_or_else(cut)?;
                let length = number(100, 4).ok_or_else(cut)?;
                (features & DATA_IN_ANOTHER_FILE != 0, length as usize)
            }
            version => return Err(format!("its version is {version}; only 2 and 3 are supported")),
        };
        let start = number(8, 8).ok_or_else(cut)?;
        let length = number(16, 4).ok_or_else(cut)?;
        if start == 0 {
            return Ok(Header { backing: None, format: None, external_data });
        }
        let name = || {
            let start = usize::try_from(start).ok()?;
            let length = usize::try_from(length).ok().filter(|n| *n <= NAME_BYTES_MAX)?;
            let name = bytes.get(start..start.checked_add(length)?)?;
            String::from_utf8(name.to_vec()).ok()
        };
        let name = name().ok_or("the name of its backing file cannot be read")?;
        // The name begins right after the extensions.
        let end = usize::try_from(start).unwrap_or(usize::MAX);
        Ok(Header { backing: Some(name), format: format(bytes, header_bytes, end)?, external_data })
    }

    fn read(path: &Path) -> Result<Header, Error> {
        let mut head = Vec::new();
        let file = File::open(path).file("open", path)?;
        file.take(HEAD_BYTES_MAX).read_to_end(&mut head).file("read", path)?;
        Header::parse(&head).map_err(|reason| wrong(path, reason))
    }
}

base::named! {
    /// Layout of a disk's content in its file, with QEMU's name.
    pub enum DiskFormat {
        /// Uncompressed blocks without a header.
        Raw = "raw",
        /// QEMU's own format, which may refer to a backing image.
        Qcow2 = "qcow2",
    }
}

/// A backing image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// File of the image.
    pub path: PathBuf,
    /// The format of the image.
    pub format: DiskFormat,
}

/// Checks an image and its backing images, and returns the backing images, the topmost first. Each
/// image must belong to this user or to root, and no other user may change or replace it. All
/// images must be in one directory. Otherwise an image made by another user could let its guest
/// read any file of this user.
pub(crate) fn check_image(image: &Path) -> Result<Vec<Below>, Error> {
    let mut path = image.to_owned();
    let mut found = Vec::new();
    loop {
        // A checked file stays unchanged, because no other user can write to it.
        let checked = check_file(&path)?;
        let header = read_whole(&checked)?;
        let Some(backing) = header.backing else { return Ok(found) };
        if found.len() == DEPTH_MAX {
            let reason = format!("the image has a chain of more than {DEPTH_MAX} backing files");
            return Err(wrong(image, reason));
        }
        path = check_file(&below(&checked, &backing)?)?;
        if path.parent() != checked.parent() {
            let reason = format!(
                "its backing file {} is in another directory; move both into one directory, and \
                 set the new name with `qemu-img rebase -u -F FORMAT -b BELOW IMAGE`",
                path.display()
            );
            return Err(wrong(&checked, reason));
        }
        let Some(format) = header.format.as_deref().and_then(DiskFormat::from_name) else {
            let reason = "it does not name the format of its backing file, raw or qcow2; add the \
                          format with `qemu-img rebase -u -F FORMAT -b BELOW IMAGE`";
            return Err(wrong(&checked, reason));
        };
        found.push(Below { path: path.clone(), format });
        if format == DiskFormat::Raw {
            return Ok(found);
        }
    }
}

/// Checks an image, but not its backing images, because QEMU gets the names of these from its
/// arguments and not from the image.
pub(crate) fn check_overlay(image: &Path) -> Result<(), Error> {
    read_whole(&check_file(image)?).map(drop)
}

/// Returns the header of an image with no external data file.
fn read_whole(image: &Path) -> Result<Header, Error> {
    let header = Header::read(image)?;
    match header.external_data {
        false => Ok(header),
        true => Err(wrong(
            image,
            "its data are in a separate file; combine both files with `qemu-img convert`",
        )),
    }
}

/// Returns the file that QEMU finds under this name. A name that does not begin with `/` is
/// relative to the image's directory.
fn below(image: &Path, name: &str) -> Result<PathBuf, Error> {
    // QEMU treats the part before a colon as a protocol, as in `json:`, `nbd:` or `ssh://`.
    let before = name.split('/').next().unwrap_or_default();
    if name.is_empty() || name.contains('\0') || before.contains(':') {
        let shown = base::plain(name, 80);
        return Err(wrong(
            image,
            format!("the name of its backing file, {shown:?}, is not a file name"),
        ));
    }
    Ok(image.parent().unwrap_or(Path::new("/")).join(name))
}

/// Reads a big-endian number of `width` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
}

/// Returns the backing file's format, if an extension between header and name contains it. QEMU
/// uses the last such extension, so a second one is an error.
fn format(bytes: &[u8], header_bytes: usize, end: usize) -> Result<Option<String>, String> {
    let mut at = header_bytes;
    let mut format = None;
    while at < end {
        let (kind, content, next) =
            extension(bytes, at).ok_or("an extension of its header cannot be read")?;
        match kind {
            0 => break,
            BACKING_FORMAT if format.is_some() => {
                return Err("its header has the format of the backing file twice".to_owned());
            }
            BACKING_FORMAT => {
                let text = String::from_utf8(content.to_vec());
                format = Some(text.map_err(|_| "the format of the backing file is not a text")?);
            }
            _ => {}
        }
        at = next;
    }
    Ok(format)
}

/// Returns an extension's kind and content, and the offset of the next extension.
fn extension(bytes: &[u8], at: usize) -> Option<(u64, &[u8], usize)> {
    let length = usize::try_from(number(bytes, at.checked_add(4)?, 4)?).ok()?;
    let start = at.checked_add(8)?;
    let end = start.checked_add(length)?;
    Some((number(bytes, at, 4)?, bytes.get(start..end)?, end.checked_next_multiple_of(8)?))
}

fn wrong(image: &Path, reason: impl Into<String>) -> Error {
    Error::DiskImage { image: image.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use crate::images::disk::Writes;
    use crate::images::files::create_dir;
    use crate::images::{Disk, DiskFormat};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn image_over(backing: &str, format: &str, features: u8) -> Vec<u8> {
        let mut head = vec![0; 104];
        head[..4].copy_from_slice(&MAGIC);
        head[7] = 3;
        head[79] = features;
        head[103] = 104;
        // An unknown extension, the format, the end.
        for (kind, content) in [(7_u32, "x"), (BACKING_FORMAT as u32, format), (0, "")] {
            if kind != BACKING_FORMAT as u32 || !format.is_empty() {
                head.extend(kind.to_be_bytes());
                head.extend((content.len() as u32).to_be_bytes());
                head.extend(content.as_bytes());
                head.resize(head.len().next_multiple_of(8), 0);
            }
        }
        if !backing.is_empty() {
            head[15] = head.len() as u8;
            head[16..20].copy_from_slice(&(backing.len() as u32).to_be_bytes());
        }
        head.extend(backing.as_bytes());
        head
    }

    fn image(backing: &str, features: u8) -> Vec<u8> {
        image_over(backing, if backing.is_empty() { "" } else { "qcow2" }, features)
    }

    #[test]
    fn a_header_says_what_an_image_lies_over() {
        let check = |bytes: &[u8], backing: Option<(&str, Option<&str>)>, external_data: bool| {
            let format = backing.and_then(|(_, format)| format).map(str::to_owned);
            let backing = backing.map(|(name, _)| name.to_owned());
            assert_eq!(Header::parse(bytes), Ok(Header { backing, format, external_data }));
        };
        check(&image("", 0), None, false);
        check(&image_over("b.img", "raw", 0), Some(("b.img", Some("raw"))), false);
        check(&image_over("b.img", "", 0), Some(("b.img", None)), false);
        check(&image("", 4), None, true);
        let mut old = image("b", 4);
        old[7] = 2;
        check(&old, Some(("b", None)), false);
        for (at, byte, reason) in [(0, 0, "begin"), (7, 4, "version is 4"), (8, 1, "the name")] {
            let mut other = image("b.img", 0);
            other[at] = byte;
            let error = Header::parse(&other).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let whole = image("b.img", 0);
        for length in 0..whole.len() {
            assert!(Header::parse(&whole[..length]).is_err(), "{length} bytes of it");
        }
    }

    struct Place(Scratch);

    impl Place {
        fn new(name: &str) -> Place {
            Place(Scratch::new(&format!("images-{name}")).expect("a directory"))
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, bytes).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
            path
        }
    }

    fn refusal(path: &Path) -> String {
        check_image(path).unwrap_err().to_string()
    }

    #[test]
    fn images_of_ours_may_lie_over_each_other() {
        let place = Place::new("chain");
        place.file("base.img", b"raw");
        place.file("middle.qcow2", &image_over("base.img", "raw", 0));
        let top = image(place.0.join("middle.qcow2").to_str().unwrap(), 0);
        let below = check_image(&place.file("top.qcow2", &top)).unwrap();
        let below: Vec<_> = below
            .iter()
            .map(|at| (at.path.strip_prefix(place.0.path()).unwrap(), at.format))
            .collect();
        let expected = [("middle.qcow2", DiskFormat::Qcow2), ("base.img", DiskFormat::Raw)];
        assert_eq!(below, expected.map(|(name, format)| (Path::new(name), format)));
        let round = place.file("round.qcow2", &image("round.qcow2", 0));
        assert!(refusal(&round).contains("more than 16 backing files"));
        // Without a format, QEMU could mistake a guest's data on its disk for a header.
        for format in ["", "vmdk"] {
            let path = place.file("guess.qcow2", &image_over("base.img", format, 0));
            assert!(refusal(&path).contains("does not name the format of its backing file"));
        }
        assert!(refusal(&place.file("raw.qcow2", b"raw")).contains("does not begin"));
        assert!(refusal(&place.file("gone.qcow2", &image("gone.img", 0))).contains("gone.img"));
    }

    #[test]
    fn image_may_have_sixteen_backing_images_and_no_more() {
        let place = Place::new("depth");
        place.file("0", b"raw");
        place.file("whole", &image_over("", "", 0));
        for (bottom, format) in [("0", "raw"), ("whole", "qcow2")] {
            place.file("1", &image_over(bottom, format, 0));
            for at in 2..=17 {
                place.file(&at.to_string(), &image(&(at - 1).to_string(), 0));
            }
            let below = check_image(&place.0.join("16")).unwrap();
            assert_eq!(below.len(), DEPTH_MAX, "{bottom}");
            assert!(refusal(&place.0.join("17")).contains("more than 16 backing files"));
        }
    }

    /// QEMU uses the last format, while other programs might use the first.
    #[test]
    fn a_format_that_is_given_twice_is_refused() {
        let extension = |format: &str| {
            let kind = (BACKING_FORMAT as u32).to_be_bytes();
            [&kind[..], &(format.len() as u32).to_be_bytes(), format.as_bytes()].concat()
        };
        let head = |end: &[u8]| {
            let mut head = image_over("", "", 0);
            head.truncate(104);
            head.extend(extension("raw\0\0\0\0\0"));
            head.extend(end);
            head[15] = head.len() as u8;
            head[19] = 1;
            head.push(b'b');
            head
        };
        let reason = |end: &[u8]| Header::parse(&head(end)).unwrap_err();
        let qcow2 = extension("qcow2\0\0\0");
        assert!(reason(&qcow2).contains("twice"));
        assert!(reason(&[0, 0, 0, 1, 0, 0, 1, 0]).contains("cannot be read"));
        // Bytes behind the last extension are not parsed.
        let ended = [&[0; 8][..], &qcow2].concat();
        assert!(Header::parse(&head(&ended)).is_ok() && Header::parse(&head(&[])).is_ok());
    }

    /// After a download, an image made by another user belongs to this user, so its owner proves
    /// nothing.
    #[test]
    fn finding_16_an_image_leads_to_no_other_directory() {
        let place = Place::new("directory");
        let home = create_dir(&place.0.join("home")).unwrap();
        let key = home.join("id");
        fs::write(&key, "key").unwrap();
        std::os::unix::fs::symlink(&key, place.0.join("link")).unwrap();
        for name in [key.to_str().unwrap(), "home/id", "link", "home/../home/id"] {
            let path = place.file("got.qcow2", &image_over(name, "raw", 0));
            let refusal = refusal(&path);
            assert!(refusal.contains("home/id is in another directory"), "{refusal}");
        }
        place.file("base", b"raw");
        check_image(&place.file("got.qcow2", &image_over("home/../base", "raw", 0))).unwrap();
    }

    /// A link made by another user would turn any file of this user into the guest's disk.
    #[test]
    fn finding2_04_a_raw_disk_of_another_user_is_refused() {
        let place = Place::new("raw");
        let refusal = |path: &Path| {
            Disk::temporary(path, DiskFormat::Raw).prepare("g1").unwrap_err().to_string()
        };
        let secret = place.file("secret", b"root:$y$");
        let dir = create_dir(&place.0.join("theirs")).unwrap();
        let link = dir.join("x.raw");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        Disk::temporary(&link, DiskFormat::Raw).prepare("g1").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(refusal(&link).contains("secret is not safe to use: others may write"));
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            assert!(refusal(&link).contains("x.raw is not safe to use: it belongs to user 65534"));
            let mut disk = Disk::temporary(&secret, DiskFormat::Raw);
            disk.writes = Writes::Overlay(dir.join("new.qcow2"));
            std::os::unix::fs::chown(&dir, Some(65_534), None).unwrap();
            let error = disk.prepare("g1").unwrap_err().to_string();
            assert!(error.contains("theirs is not safe to use"), "{error}");
        }
        assert!(refusal(place.0.path()).contains("neither an ordinary file nor a block device"));
    }

    /// A name written into the header by another user would be opened with this user's rights.
    #[test]
    fn finding_16_image_that_another_user_can_change_is_refused() {
        let place = Place::new("backing");
        let prepare = |path: &Path| Disk::temporary(path, DiskFormat::Qcow2).prepare("g1");
        let refusal = |path: &Path| prepare(path).unwrap_err().to_string();
        let secret = place.file("secret", b"root:$y$");
        let theirs = image_over(secret.to_str().unwrap(), "raw", 0);
        let theirs = place.file("theirs.qcow2", &theirs);
        prepare(&theirs).unwrap();
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(refusal(&theirs).contains("theirs.qcow2 is not safe to use: others may write"));
        // A backing image must be safe from other users too. A user that can write to a backing
        // image can write any file's name into its header.
        let ours = place.file("ours.qcow2", &image("theirs.qcow2", 0));
        assert!(refusal(&ours).contains("theirs.qcow2 is not safe to use"));
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&theirs, fs::Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
            for path in [&theirs, &ours] {
                assert!(refusal(path).contains("it belongs to user 65534"));
            }
        }
        for name in ["json:{\"file\":\"/etc/shadow\"}", "nbd://h/x", "fat:/etc", "ssh:x"] {
            let path = place.file("way.qcow2", &image(name, 0));
            assert!(refusal(&path).contains("is not a file name"), "{name}");
        }
        assert!(refusal(&place.file("data.qcow2", &image("", 4))).contains("in a separate file"));
    }
}
