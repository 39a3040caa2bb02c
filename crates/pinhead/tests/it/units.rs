//! systemd units must allow everything that settings can enable, and no more than needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use manager::config::{KsmMode, Place, Settings};

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A unit's file. Each directive has the words of all its lines.
struct Unit {
    path: &'static str,
    said: BTreeMap<String, Vec<String>>,
}

impl Unit {
    fn read(path: &'static str) -> Unit {
        let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let text = read(path);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, words)) = line.split_once('=') else { continue };
            let words = words.split_ascii_whitespace().map(str::to_owned);
            said.entry(name.to_owned()).or_default().extend(words);
        }
        Unit { path, said }
    }

    fn words(&self, name: &str) -> Vec<&str> {
        self.said.get(name).into_iter().flatten().map(String::as_str).collect()
    }

    fn has(&self, name: &str, word: &str) -> bool {
        self.words(name).contains(&word)
    }

    /// Asserts that the unit allows an address family. Without a list all families are allowed.
    fn assert_family(&self, family: &str, setting: &str) {
        let list = "RestrictAddressFamilies";
        let allowed = !self.said.contains_key(list) || self.has(list, family);
        let named = self.words(list);
        assert!(allowed, "{}: {setting} needs {family}, and {list} is {named:?}", self.path);
    }

    /// Asserts that a path is writable. The path must be in a directory of the unit, or among the
    /// unit's writable paths.
    fn assert_writable(&self, path: &Path, setting: &str) {
        let below = |directive, root: &str| -> Vec<PathBuf> {
            self.words(directive).iter().map(|name| Path::new(root).join(name)).collect()
        };
        let mut places = below("StateDirectory", "/var/lib");
        places.extend(below("RuntimeDirectory", "/run"));
        let opened = self.words("ReadWritePaths");
        places.extend(opened.iter().map(|path| path.trim_start_matches('-').into()));
        let is_writable = places.iter().any(|place| path.starts_with(place));
        assert!(is_writable, "{}: {setting} writes to {}", self.path, path.display());
    }
}

/// Returns the packaged settings with all commented-out keys enabled.
fn all_switched_on() -> Settings {
    let text = read("packaging/host.toml");
    // A commented-out key or table follows `#` directly, while a sentence follows `#` and a blank.
    let is_key = |line: &str| line.starts_with('[') || line.contains(" = ");
    let lines = text.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    let lines = lines.filter(|line| !line.starts_with(' '));
    let text: String = lines.filter(|line| is_key(line)).map(|line| format!("{line}\n")).collect();
    let place = Place { is_root: true, ..Place::default() };
    manager::config::parse(&text, &place).unwrap_or_else(|e| panic!("host.toml: {e:?}\n{text}"))
}

#[test]
fn finding_13_managers_unit_allows_all_settings() {
    let unit = Unit::read("packaging/pinhead-host.service");
    let settings = all_switched_on();
    // Monitors, libvirt and the control socket use this family.
    unit.assert_family("AF_UNIX", "[sources] qmp");
    let metrics = &settings.metrics;
    assert!(metrics.listen.is_some() && metrics.remote_write.is_some(), "{metrics:?}");
    for setting in ["[metrics] listen", "[metrics] remote_write"] {
        unit.assert_family("AF_INET", setting);
        unit.assert_family("AF_INET6", setting);
    }
    let blocks = ["PrivateNetwork", "IPAddressDeny", "SocketBindDeny"];
    assert!(!blocks.iter().any(|name| unit.said.contains_key(*name)), "metrics go by TCP");
    let written = [
        ("[journal] path", settings.journal.path),
        ("[monitor] dir", settings.monitor.dir),
        ("[control] socket", settings.control.socket),
    ];
    for (setting, path) in written {
        unit.assert_writable(&path.expect("a path"), setting);
    }
    assert_eq!(settings.ksm, KsmMode::Auto);
    if unit.has("ProtectKernelTunables", "yes") || unit.has("ProtectSystem", "strict") {
        unit.assert_writable(Path::new("/sys/kernel/mm/ksm/run"), "[ksm] mode");
    }
    assert!(settings.sources.qmp.iter().any(|glob| glob.starts_with("/run/user/")));
    assert!(!unit.has("ProtectHome", "yes"), "[sources] qmp: /run/user would be empty");
    assert!(settings.control.group.is_some());
    let needed = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SYS_PTRACE", "CAP_SYS_NICE"];
    for capability in needed {
        assert!(unit.has("CapabilityBoundingSet", capability), "{}: {capability}", unit.path);
    }
    assert!(unit.has("SystemCallFilter", "process_madvise"), "[pageout] mode");
    assert!(!unit.said.contains_key("ProcSubset"), "it reads /proc/meminfo");
}

#[test]
fn daemons_unit_starts_in_guests_only() {
    let unit = Unit::read("packaging/pinheadd.service");
    assert_eq!(unit.words("ConditionVirtualization"), ["|vm"]);
    assert_eq!(unit.words("ConditionArchitecture"), ["|s390x"]);
}

#[test]
fn finding2_17_managers_unit_spares_its_keeper() {
    let unit = Unit::read("packaging/pinhead-host.service");
    // A keeper without CAP_SYS_RESOURCE has the unit's OOM score.
    assert!(unit.has("OOMScoreAdjust", "-1000"), "{}", unit.path);
    assert!(unit.has("OOMPolicy", "continue") && unit.has("MemorySwapMax", "0"), "{}", unit.path);
}

#[test]
fn finding_13_units_are_hardened_as_far_as_their_work_allows() {
    let web = "packaging/pinhead-web.service";
    for path in ["packaging/pinhead-host.service", "packaging/pinheadd.service", web] {
        let unit = Unit::read(path);
        let switches = [
            "NoNewPrivileges",
            "PrivateTmp",
            "MemoryDenyWriteExecute",
            "RestrictNamespaces",
            "RestrictSUIDSGID",
            "RestrictRealtime",
            "LockPersonality",
            "ProtectKernelModules",
            "ProtectKernelTunables",
            "ProtectControlGroups",
        ];
        for switch in switches {
            assert!(unit.has(switch, "yes"), "{path}: {switch}");
        }
        assert!(unit.has("ProtectSystem", "strict"), "{path}: ProtectSystem");
        assert!(unit.has("SystemCallFilter", "@system-service"), "{path}: SystemCallFilter");
        let capabilities = unit.words("CapabilityBoundingSet");
        // Only page-out needs the manager's fourth capability. The pages of `pinhead web` need no
        // capability.
        let (least, most) = match path {
            path if path == web => (0, 0),
            path if path.contains("host") => (1, 4),
            _ => (1, 3),
        };
        assert!((least..=most).contains(&capabilities.len()), "{path}: {capabilities:?}");
        assert!(!capabilities.contains(&"CAP_SYS_ADMIN"), "{path}: all of root's power");
    }
    let web = Unit::read(web);
    assert!(web.has("DynamicUser", "yes") && web.has("Group", "pinhead"), "{}", web.path);
    let daemon = Unit::read("packaging/pinheadd.service");
    for path in ["/run/pinheadd.undo", "/sys/devices/system/cpu/cpu1/online"] {
        daemon.assert_writable(Path::new(path), "the daemon");
    }
    daemon.assert_writable(Path::new("/proc/sys/vm/cmm_pages"), "the pool");
    assert!(daemon.has("DeviceAllow", "char-virtio-portsdev"), "its port to the host");
}
