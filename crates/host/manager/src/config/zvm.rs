//! Settings for the users of the z/VM that runs the manager's own guest.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use base::Bytes;
use settings::{
    Converted, DeValue, Entries, Fault, LoadError, Reader, Tree, checked, list, one_of, path,
    shown, size, time, words, wrong,
};

use super::kinds::absolute;

/// Allowed intervals between readings. CP updates its counters no faster. A longer interval would
/// delay memory for a guest that needs it.
const INTERVAL_MS: RangeInclusive<u64> = 1_000..=10_000;

base::named! {
    /// Treatment of z/VM's users.
    pub enum ZvmMode {
        /// Users are ignored.
        Off = "off",
        /// Users are shown and recorded.
        Watch = "watch",
        /// Users are shown and recorded, and their memory is moved.
        Manage = "manage",
    }
}

settings::table! {
    /// Settings of z/VM, for a manager in one of its guests.
    pub struct ZvmSettings in "zvm" {
        /// `watch` only shows z/VM's users, `manage` also moves their memory, `off` does neither
        mode: ZvmMode = one_of("mode", ZvmMode::ALL, ZvmMode::name), "off";
        /// patterns of the users with memory to manage
        users: Vec<String> = patterns, else "none";
        /// a VMRM configuration file; users in its NOTIFY MEMORY statements are managed; relative
        /// to this file
        notify: Option<PathBuf> = path, else "none";
        /// memory for all users of z/VM together, including the part to keep free
        memory: Option<Bytes> = checked(
            size,
            |size| *size > Bytes::ZERO,
            "users would have no memory",
            "write the part of z/VM's memory that users may have, such as \"64 GiB\"",
        ), else "needed to manage";
        /// file of z/VM's counters for its users
        counters: PathBuf = absolute, "/sys/kernel/debug/s390_hypfs/diag_2fc";
        /// the program that sends messages: a name, or an absolute path
        program: PathBuf = program, "vmcp";
        /// time between two readings, 1s to 10s
        interval_ms("interval"): u64 = checked(
            time,
            |interval| INTERVAL_MS.contains(interval),
            "the time between two readings is too short or too long",
            "write a time from \"1s\" to \"10s\"",
        ), "1s";
    }
}

fn patterns(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "@#$_-+*?".contains(c);
    list(value)?
        .into_iter()
        .map(|text| match text.chars().all(is_of_name) && !text.is_empty() {
            true => Ok(text.to_ascii_uppercase()),
            false => wrong(
                format!("`{}` is no pattern of users' names", shown(&text)),
                "use the letters, digits and @ # $ _ - + of names, and the wildcards * and ?",
            ),
        })
        .collect()
}

fn program(value: &DeValue<'_>) -> Converted<PathBuf> {
    let text = words(value)?;
    match text.is_empty() || (text.contains('/') && !text.starts_with('/')) {
        true => wrong(
            format!("`{}` is neither a name nor an absolute path", shown(&text)),
            "write \"vmcp\" or \"/usr/sbin/vmcp\"",
        ),
        false => Ok(text.into()),
    }
}

/// Reads the table, and checks the keys that depend on each other.
pub(super) fn zvm(reader: &mut Reader<'_>, tree: &Tree<'_>) -> ZvmSettings {
    let (zvm, at): (ZvmSettings, _) = reader.table(tree);
    if zvm.mode != ZvmMode::Manage || !reader.is_ok() {
        return zvm;
    }
    let is_nobody = zvm.users.is_empty() && zvm.notify.is_none();
    if is_nobody {
        let message = "[zvm] lists no user with memory to manage".to_owned();
        let help = "write users = [\"LINUX*\"], or set `notify` to the path of a VMRM file";
        reader.refuse(&at, &["mode"], message, help);
    } else if zvm.memory.is_none() {
        let message = "the size of z/VM's memory is not known".to_owned();
        let help = "write memory = \"64 GiB\": the value of QUERY STORAGE less CP's own memory";
        reader.refuse(&at, &["mode"], message, help);
    }
    zvm
}

impl ZvmSettings {
    /// Returns true if z/VM's users are shown or managed.
    pub fn is_on(&self) -> bool {
        self.mode != ZvmMode::Off
    }

    /// Returns the memory of all users of z/VM together, if z/VM is shown or managed.
    pub fn host_total(&self) -> Option<Bytes> {
        self.memory.filter(|_| self.is_on())
    }

    /// Returns patterns of the users with managed memory.
    pub fn managed(&self) -> &[String] {
        if self.mode == ZvmMode::Manage { &self.users } else { &[] }
    }

    /// Checks that z/VM is read at least once between two passes.
    pub(super) fn check_interval(
        &self,
        reader: &mut Reader<'_>,
        host: &Entries<'_, '_>,
        pass_ms: u64,
    ) {
        if self.mode == ZvmMode::Manage && self.interval_ms > pass_ms {
            let message = "this interval is shorter than `interval` in [zvm], the time between two \
                           readings of z/VM";
            let help = "make this interval at least as long as `interval` in [zvm]";
            reader.refuse(host, &["interval"], message.to_owned(), help);
        }
    }

    /// Adds the users of VMRM's configuration file, if configured.
    pub(super) fn read_notify(&mut self) -> Result<(), LoadError> {
        let Some(path) = self.notify.as_deref().filter(|_| self.mode == ZvmMode::Manage) else {
            return Ok(());
        };
        let text = settings::load(path)?;
        self.users.extend(users_of(path, &text)?);
        Ok(())
    }
}

fn users_of(path: &Path, text: &str) -> Result<Vec<String>, LoadError> {
    ::zvm::notified(text).map_err(|faults| {
        let fault = |fault: ::zvm::NotifyFault| {
            Fault::at(text, fault.span, "NOTIFY", fault.message, Some(fault.help))
        };
        let faults = faults.into_iter().map(fault).collect();
        LoadError::Wrong { path: path.to_path_buf(), faults }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Libvirt, Place, load, parse};

    fn faults(text: &str) -> String {
        let faults = parse(text, &Place::default()).unwrap_err();
        faults.iter().map(|fault| format!("{fault}\n")).collect()
    }

    #[test]
    fn managed_z_vm_excludes_other_sources_and_unnamed_users() {
        let text = "[zvm]\nmode = 'manage'\nmemory = '64 GiB'\nusers = ['linux*', 'ORA?']\n";
        let settings = parse(text, &Place::default()).unwrap();
        assert_eq!(settings.zvm.managed(), ["LINUX*", "ORA?"]);
        assert_eq!(
            (settings.sources.qmp.len(), &settings.sources.libvirt),
            (0, &Libvirt::Uris(Vec::new()))
        );
        let watch = text.replace("manage", "watch");
        assert_eq!(parse(&watch, &Place::default()).unwrap().zvm.managed(), [""; 0]);
        let both =
            faults(&format!("[sources]\nqmp = ['/a']\nlibvirt = ['qemu:///system']\n{text}"));
        assert!(
            both.contains("2:7: sources.qmp: this setting is for guests of this machine"),
            "{both}"
        );
        assert!(both.contains("3:11: sources.libvirt: "), "{both}");
    }

    #[test]
    fn zvm_memory_is_ignored_when_the_mode_is_off() {
        let text = "[host]\nset_point = '2 GiB'\n[zvm]\nmemory = '1 GiB'\n";
        let place = Place { host_total: Some(Bytes::mib(4_096)), ..Place::default() };
        assert_eq!(parse(text, &place).unwrap().zvm.host_total(), None);
        let on = text.to_owned() + "mode = 'watch'\n";
        assert!(parse(&on, &place).is_err(), "the set point exceeds 1 GiB");
    }

    #[test]
    fn missing_and_wrong_keys_are_reported_with_their_place() {
        let bare = faults("[zvm]\nmode = 'manage'\n");
        assert!(bare.contains("2:8: zvm.mode: [zvm] lists no user"), "{bare}");
        let sizeless = faults("[zvm]\nmode = 'manage'\nusers = ['A']\n");
        assert!(
            sizeless.contains("2:8: zvm.mode: the size of z/VM's memory is not known"),
            "{sizeless}"
        );
        let fast = "[host]\ninterval = '1s'\n[zvm]\nmode = 'manage'\nmemory = '1 GiB'\n\
                    users = ['*']\ninterval = '5s'\n";
        assert!(
            faults(fast).contains("2:12: host.interval: this interval is shorter"),
            "{}",
            faults(fast)
        );
        let text = "[zvm]\nmode = 'on'\nusers = ['A;B']\nmemory = '0 B'\ninterval = '1min'\n\
                    program = 'sbin/vmcp'\n";
        let found = faults(text);
        for place in [
            "2:8: zvm.mode",
            "3:9: zvm.users",
            "4:10: zvm.memory",
            "5:12: zvm.interval",
            "6:11: zvm.program",
        ] {
            assert!(found.contains(place), "{place}: {found}");
        }
    }

    #[test]
    fn vmrm_notify_adds_users_and_its_faults_name_the_file() {
        let dir = procfs::testing::Tree::create();
        let text = "[zvm]\nmode = 'manage'\nmemory = '64 GiB'\nusers = ['A']\nnotify = 'vmrm'\n";
        let path = dir.file("host.toml", text);
        dir.file("vmrm", "NOTIFY MEMORY b c*\n");
        let load = || load(Some(&path), &Place::default());
        assert_eq!(load().unwrap().settings.zvm.managed(), ["A", "B", "C*"]);
        dir.file("vmrm", "\nNOTIFY MEMORY b c.d\n");
        let faults = load().unwrap_err().faults().unwrap();
        assert!(faults.contains("vmrm:2:17: NOTIFY: `c.d` is no user's name ("), "{faults}");
    }
}
