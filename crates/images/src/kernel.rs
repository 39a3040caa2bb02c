//! Which modules a guest's kernel needs, and in which order.
//!
//! A Debian kernel package brings no `modules.dep`: that is made at installation, and a guest's
//! kernel is never installed here. The modules themselves list what they depend on, in the ELF
//! section `.modinfo`, so the order is read from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::error::FileContext;
use crate::files::entries;
use crate::tool::run;

/// The modules of one kernel, by name.
#[derive(Debug)]
pub struct Modules {
    root: PathBuf,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

/// A module with its uncompressed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The name as the kernel shows it, with underscores.
    pub name: String,
    /// The ELF file.
    pub bytes: Vec<u8>,
}

impl Modules {
    /// Reads which modules there are below `lib/modules/RELEASE`.
    pub fn open(root: &Path) -> Result<Modules, Error> {
        let mut files = BTreeMap::new();
        collect(root, &mut files)?;
        let list = root.join("modules.builtin");
        let builtin = fs::read_to_string(&list)
            .file("read", &list)?
            .lines()
            .filter_map(|line| module_name(Path::new(line)))
            .collect();
        Ok(Modules { root: root.to_owned(), files, builtin })
    }

    /// Whether a module is there as a file or built into the kernel.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.builtin.contains(name)
    }

    /// The wanted modules and everything that they depend on, each after what it needs. What is
    /// built into the kernel is left out.
    pub fn load_order(&self, wanted: &[&str]) -> Result<Vec<Module>, Error> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for name in wanted {
            self.visit(name, &mut seen, &mut order)?;
        }
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        seen: &mut BTreeSet<String>,
        order: &mut Vec<Module>,
    ) -> Result<(), Error> {
        // Marked on the way down, so that a cycle in broken modules ends.
        if self.builtin.contains(name) || !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| Error::Module {
            module: self.root.join(name),
            reason: "neither a file nor built into the kernel".to_owned(),
        })?;
        let bytes = read_module(path)?;
        let depends = depends(&bytes).ok_or_else(|| Error::Module {
            module: path.clone(),
            reason: "no readable .modinfo section".to_owned(),
        })?;
        for dependency in depends {
            self.visit(&dependency, seen, order)?;
        }
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

fn collect(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Error> {
    for path in entries(directory)? {
        // The kind of the entry itself: `build` and `source` may be links that lead anywhere.
        if fs::symlink_metadata(&path).file("read", &path)?.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// The kernel's name of the module in a file: without its ends, with underscores.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(".xz").unwrap_or(file).strip_suffix(".ko")?;
    Some(stem.replace('-', "_"))
}

/// Newer Debian kernels compress their modules. They are unpacked here, once, because busybox
/// cannot and because the guest would pay for it at every start.
fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    if path.extension().is_none_or(|end| end != "xz") {
        return fs::read(path).file("read", path);
    }
    let mut unpack = Command::new("xz");
    unpack.args(["--decompress", "--stdout", "--"]).arg(path);
    Ok(run(&mut unpack, "install xz-utils; this kernel's modules are compressed")?.stdout)
}

/// The names after `depends=` in the module's `.modinfo`.
pub fn depends(elf: &[u8]) -> Option<Vec<String>> {
    let info = Elf::new(elf)?.section(b".modinfo")?;
    let line = info.split(|&byte| byte == 0).find_map(|item| item.strip_prefix(b"depends="))?;
    let text = std::str::from_utf8(line).ok()?;
    Some(text.split(',').filter(|name| !name.is_empty()).map(|n| n.replace('-', "_")).collect())
}

/// As much of a 64-bit ELF file as it takes to find a section, or its notes. s390x is big-endian.
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Elf<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Elf<'a>> {
        let (magic, class, data) = (bytes.get(..4)?, *bytes.get(4)?, *bytes.get(5)?);
        let known = magic == b"\x7fELF" && class == 2 && (data == 1 || data == 2);
        known.then_some(Elf { bytes, big_endian: data == 2 })
    }

    /// An unsigned number of `width` bytes.
    fn number(&self, at: usize, width: usize) -> Option<usize> {
        let field = self.bytes.get(at..at.checked_add(width)?)?;
        let push = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        Some(if self.big_endian {
            field.iter().fold(0, push)
        } else {
            field.iter().rev().fold(0, push)
        })
    }

    /// Where the headers of a table stand, whose place, size of an entry and number of entries
    /// stand in these places.
    fn headers(&self, table: usize, size: usize, count: usize) -> Option<Vec<usize>> {
        let (table, size) = (self.number(table, 8)?, self.number(size, 2)?);
        let header = |index: usize| table.checked_add(index.checked_mul(size)?);
        (0..self.number(count, 2)?).map(header).collect()
    }

    fn content(&self, header: usize) -> Option<&'a [u8]> {
        self.slice(header.checked_add(0x18)?, header.checked_add(0x20)?)
    }

    /// The bytes whose offset and length stand in these places.
    fn slice(&self, offset_at: usize, length_at: usize) -> Option<&'a [u8]> {
        let (start, length) = (self.number(offset_at, 8)?, self.number(length_at, 8)?);
        self.bytes.get(start..start.checked_add(length)?)
    }

    /// The segments that hold notes.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &'a [u8]> {
        const PT_NOTE: usize = 4;
        let segment = |header: usize| {
            (self.number(header, 4)? == PT_NOTE).then_some(())?;
            self.slice(header.checked_add(0x08)?, header.checked_add(0x20)?)
        };
        self.headers(0x20, 0x36, 0x38).into_iter().flatten().filter_map(segment)
    }

    fn section(&self, name: &[u8]) -> Option<&'a [u8]> {
        let headers = self.headers(0x28, 0x3a, 0x3c)?;
        let names = self.content(*headers.get(self.number(0x3e, 2)?)?)?;
        for header in headers {
            let own_name = names.get(self.number(header, 4)?..)?;
            if own_name.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0)) {
                return self.content(header);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal ELF file: header, names, `.modinfo`, two section headers.
    fn elf(modinfo: &str, big_endian: bool) -> Vec<u8> {
        let names = b"\0.modinfo\0";
        let (names_at, info_at) = (64, 64 + names.len());
        let table_at = info_at + modinfo.len();
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, if big_endian { 2 } else { 1 }]);
        bytes.extend_from_slice(names);
        bytes.extend_from_slice(modinfo.as_bytes());
        bytes.resize(table_at + 2 * 64, 0);
        let mut put = |at: usize, width: usize, number: usize| {
            let all = number.to_be_bytes();
            let field = &mut bytes[at..at + width];
            field.copy_from_slice(&all[8 - width..]);
            if !big_endian {
                field.reverse();
            }
        };
        put(0x28, 8, table_at);
        put(0x3a, 2, 64);
        put(0x3c, 2, 2);
        put(table_at + 0x18, 8, names_at);
        put(table_at + 0x20, 8, names.len());
        put(table_at + 64, 4, 1);
        put(table_at + 64 + 0x18, 8, info_at);
        put(table_at + 64 + 0x20, 8, modinfo.len());
        bytes
    }

    #[test]
    fn dependencies_are_read_in_both_byte_orders() {
        for big_endian in [false, true] {
            let bytes = elf("license=GPL\0depends=virtio,virtio-ring\0name=x\0", big_endian);
            assert_eq!(depends(&bytes).unwrap(), ["virtio", "virtio_ring"]);
            assert_eq!(depends(&elf("depends=\0", big_endian)).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn damaged_files_give_nothing_and_never_panic() {
        let bytes = elf("depends=a\0", true);
        // The last 24 bytes of a section's header are of no interest here.
        for length in 0..bytes.len() - 24 {
            assert_eq!(depends(&bytes[..length]), None, "cut to {length} bytes");
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0xff;
            depends(&damaged);
        }
        assert_eq!(depends(&elf("license=GPL\0", false)), None);
    }

    /// Written out because not every machine that runs tests has xz: with it, the module is read;
    /// without it, the error says what to install.
    #[test]
    fn compressed_modules_are_unpacked() {
        // "depends=zsmalloc" is not ELF, which is all the same here.
        const PACKED: &[u8] = &[
            0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x0, 0x0, 0x1, 0x69, 0x22, 0xde, 0x36, 0x2, 0x0, 0x21,
            0x1, 0x1c, 0x0, 0x0, 0x0, 0x10, 0xcf, 0x58, 0xcc, 0x1, 0x0, 0xf, 0x64, 0x65, 0x70,
            0x65, 0x6e, 0x64, 0x73, 0x3d, 0x7a, 0x73, 0x6d, 0x61, 0x6c, 0x6c, 0x6f, 0x63, 0x0,
            0x65, 0xd0, 0x64, 0x9c, 0x0, 0x1, 0x24, 0x10, 0xe9, 0x44, 0xd9, 0xcc, 0x90, 0x42, 0x99,
            0xd, 0x1, 0x0, 0x0, 0x0, 0x0, 0x1, 0x59, 0x5a,
        ];
        let path = std::env::temp_dir().join(format!("images-{}.ko.xz", std::process::id()));
        fs::write(&path, PACKED).unwrap();
        match read_module(&path) {
            Ok(bytes) => assert_eq!(bytes, b"depends=zsmalloc"),
            Err(error) => assert!(error.to_string().contains("xz-utils"), "{error}"),
        }
        fs::write(&path, b"not xz").unwrap();
        assert!(read_module(&path).is_err());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn modules_load_after_what_they_need() {
        let root = std::env::temp_dir().join(format!("images-modules-{}", std::process::id()));
        let write = |path: &str, bytes: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("modules.builtin", b"kernel/lib/crc32.ko\n");
        write("kernel/a/virtio-pci.ko", &elf("depends=legacy-dev,virtio,crc32\0", false));
        write("kernel/b/virtio.ko", &elf("depends=virtio_ring\0", false));
        write("kernel/b/virtio_ring.ko", &elf("depends=virtio\0", false));
        write("kernel/c/legacy-dev.ko", &elf("depends=\0", false));
        write("kernel/c/unneeded.ko", b"not even ELF");

        let modules = Modules::open(&root).unwrap();
        let order = modules.load_order(&["virtio", "virtio_pci", "crc32"]).unwrap();
        let names: Vec<_> = order.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio_ring", "virtio", "legacy_dev", "virtio_pci"]);
        assert!(modules.has("crc32") && modules.has("unneeded") && !modules.has("absent"));

        let error = modules.load_order(&["absent"]).unwrap_err();
        assert!(matches!(&error, Error::Module { module, .. } if module.ends_with("absent")));
        assert!(matches!(modules.load_order(&["unneeded"]), Err(Error::Module { .. })));
        fs::remove_dir_all(root).unwrap();
    }
}
