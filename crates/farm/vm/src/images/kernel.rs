//! The modules that a guest's kernel needs, and their order.
//!
//! A Debian kernel package has no `modules.dep`, because that file is made at installation, and a
//! guest's kernel is never installed here. The order follows from the dependencies that each module
//! lists in its ELF section `.modinfo`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::images::Error;
use crate::images::elf::depends;
use crate::images::error::FileContext;
use crate::images::files::entries;
use crate::images::tool::run;

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
    /// The module's name as the kernel shows it, with underscores.
    pub name: String,
    /// The ELF file.
    pub bytes: Vec<u8>,
}

impl Modules {
    /// Reads the list of modules below `lib/modules/RELEASE`.
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

    /// Returns true if a module exists as a file or is built into the kernel.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.builtin.contains(name)
    }

    /// Returns the wanted modules and their dependencies, each module after its dependencies.
    /// Modules that are built into the kernel are left out.
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
        // A module is marked before its dependencies are visited, so that a cycle of dependencies
        // ends.
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
        // Links are not followed, because the entries `build` and `source` may be links that lead
        // anywhere.
        if fs::symlink_metadata(&path).file("read", &path)?.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// Returns the kernel's name for the module in a file: without extensions, with underscores.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = file.strip_suffix(".xz").unwrap_or(file).strip_suffix(".ko")?;
    Some(stem.replace('-', "_"))
}

/// Reads a module, and unpacks a compressed module, as newer Debian kernels have. Busybox cannot
/// unpack modules, and a guest would have to unpack them at every start.
fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    if path.extension().is_none_or(|end| end != "xz") {
        return fs::read(path).file("read", path);
    }
    let mut unpack = Command::new("xz");
    unpack.args(["--decompress", "--stdout", "--"]).arg(path);
    Ok(run(&mut unpack, "install xz-utils; this kernel's modules are compressed")?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::elf::tests::elf;

    /// The compressed module is a literal, because some machines that run tests have no xz. On such
    /// a machine, the error names the package to install.
    #[test]
    fn compressed_modules_are_unpacked() {
        // "depends=zsmalloc" is not an ELF file, which does not matter here.
        const PACKED: &[u8] = &[
            0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x0, 0x0, 0x1, 0x69, 0x22, 0xde, 0x36, 0x2, 0x0, 0x21,
            0x1, 0x1c, 0x0, 0x0, 0x0, 0x10, 0xcf, 0x58, 0xcc, 0x1, 0x0, 0xf, 0x64, 0x65, 0x70,
            0x65, 0x6e, 0x64, 0x73, 0x3d, 0x7a, 0x73, 0x6d, 0x61, 0x6c, 0x6c, 0x6f, 0x63, 0x0,
            0x65, 0xd0, 0x64, 0x9c, 0x0, 0x1, 0x24, 0x10, 0xe9, 0x44, 0xd9, 0xcc, 0x90, 0x42, 0x99,
            0xd, 0x1, 0x0, 0x0, 0x0, 0x0, 0x1, 0x59, 0x5a,
        ];
        let dir = crate::Scratch::new("images-module").unwrap();
        let path = dir.join("module.ko.xz");
        fs::write(&path, PACKED).unwrap();
        match read_module(&path) {
            Ok(bytes) => assert_eq!(bytes, b"depends=zsmalloc"),
            Err(error) => assert!(error.to_string().contains("xz-utils"), "{error}"),
        }
        fs::write(&path, b"not xz").unwrap();
        assert!(read_module(&path).is_err());
    }

    #[test]
    fn modules_load_after_what_they_need() {
        let root = crate::Scratch::new("images-modules").unwrap();
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

        let modules = Modules::open(root.path()).unwrap();
        let order = modules.load_order(&["virtio", "virtio_pci", "crc32"]).unwrap();
        let names: Vec<_> = order.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio_ring", "virtio", "legacy_dev", "virtio_pci"]);
        assert!(modules.has("crc32") && modules.has("unneeded") && !modules.has("absent"));

        let error = modules.load_order(&["absent"]).unwrap_err();
        assert!(matches!(&error, Error::Module { module, .. } if module.ends_with("absent")));
        assert!(matches!(modules.load_order(&["unneeded"]), Err(Error::Module { .. })));
    }
}
