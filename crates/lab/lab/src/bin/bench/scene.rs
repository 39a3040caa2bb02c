//! The daemon's view: this machine, as a guest with a pool.
//!
//! A machine without a CMM pool would turn the memory rules off, and the daemon would read less
//! than in a guest. So the daemon's root is a directory with links to the real files and one plain
//! file for the pool. The rules' bounds equal the present values. The rules are therefore evaluated
//! in each interval, but never change anything.

use crate::error::{Error, scratch, write};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use vm::Scratch;

/// The daemon's view of the machine. Dropping this value removes it.
#[derive(Debug)]
pub struct Scene {
    scratch: Scratch,
}

impl Scene {
    /// Creates the scene in a new directory, for a machine with this many CPUs online.
    pub fn new(online: usize) -> Result<Scene, Error> {
        let scene = Scene { scratch: scratch("scene")? };
        let root = scene.root();
        for new in [scene.path("run"), scene.path("run-before"), root.join("proc/sys/vm")] {
            fs::create_dir_all(&new).map_err(|e| Error::file(&new, e))?;
        }
        for name in ["proc/stat", "proc/loadavg", "proc/meminfo", "proc/vmstat", "sys"] {
            let link = root.join(name);
            symlink(Path::new("/").join(name), &link).map_err(|e| Error::file(&link, e))?;
        }
        write(&root.join("proc/sys/vm/cmm_pages"), "0\n")?;
        write(&scene.rules(), &rules(online)?)?;
        Ok(scene)
    }

    /// Returns the directory that replaces `/`.
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    pub fn rules(&self) -> PathBuf {
        self.path("rules.conf")
    }

    /// Returns the path of a file or directory of the scene. A daemon's lock and status are in
    /// `run` or `run-before`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// Returns the default preset with bounds that change nothing.
///
/// The preset's counters of direct scans get the names of today's kernels, because the original
/// finds no line for the old names. For both names, pinhead's daemon reads the line of the new
/// name.
fn rules(online: usize) -> Result<String, Error> {
    let default = rules::PRESETS.first().ok_or(Error::Preset("is missing"))?;
    let mut text = default.text();
    let cpus = format!("CPU_MIN=\"{online}\"");
    let mut changes = vec![
        ("CPU_MIN=\"1\"".to_owned(), cpus.clone()),
        ("CPU_MAX=\"0\"".to_owned(), cpus.replace("MIN", "MAX")),
        ("CMM_MAX=\"1245184\"".to_owned(), "CMM_MAX=\"0\"".to_owned()),
    ];
    for age in [0, 1] {
        let zone = |zone: &str| format!("vmstat.pgscan_direct_{zone}[{age}]");
        let old = ["dma", "normal", "movable"].map(zone).join(" + ");
        changes.push((old, format!("vmstat.pgscan_direct[{age}]")));
    }
    for (old, new) in changes {
        if !text.contains(&old) {
            return Err(Error::Preset("is not written as the benchmark expects"));
        }
        text = text.replace(&old, &new);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::counters::{Counter, KernelNames};
    use rules::{Machine, Program};

    /// Compiles the rules for a kernel without counters of single zones.
    fn program(text: &str) -> Program {
        let names = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        let names = KernelNames {
            meminfo: names(&["MemTotal", "MemFree", "Cached", "Shmem"]),
            vmstat: names(&["pgscan_direct", "pgscan_kswapd"]),
            psi: true,
        };
        let (file, _) = rules::parse(text.as_bytes());
        let machine = Machine { names: Some(names), pool: Some(true), ..Machine::default() };
        rules::compile(&file, &machine).0.unwrap()
    }

    #[test]
    fn rules_read_the_presets_counters_and_change_nothing() {
        let ours = program(&rules(3).unwrap());
        let preset = program(&rules::PRESETS[0].text());
        let sorted = |program: &Program| {
            let mut names: Vec<String> = program.counters.iter().map(Counter::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(&ours), sorted(&preset));
        assert_eq!((ours.intervals, ours.update), (preset.intervals, 1));
        let (cpu, memory) = (ours.cpu.unwrap(), ours.memory.unwrap());
        assert_eq!((cpu.min, cpu.max, memory.min, memory.max), (3, 3, 0, 0));
    }

    #[test]
    fn the_scene_is_removed_when_its_value_is_dropped() {
        let scene = Scene::new(2).unwrap();
        let (dir, root) = (scene.path(""), scene.root());
        assert_eq!(fs::read_link(root.join("sys")).unwrap(), Path::new("/sys"));
        assert!(root.join("proc/sys/vm/cmm_pages").is_file());
        drop(scene);
        assert!(!dir.exists());
    }
}
