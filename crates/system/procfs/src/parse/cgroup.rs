//! /proc/PID/cgroup: `number:controllers:path`, a line for each hierarchy.

use std::path::{Component, Path, PathBuf};

use super::lines;

/// Possible directories of version 2 below a root: without version 1, and next to version 1.
pub const UNIFIED: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// Text in place of the controllers in the line of version 2. This text is empty.
pub const UNIFIED_NAME: &str = "";

/// Returns the path of the process's group in version 2, without its first slash. Returns `None`
/// for the root, and for a path outside the namespace, which begins with dots.
pub fn unified(text: &[u8]) -> Option<PathBuf> {
    of_controller(text, UNIFIED_NAME)
}

/// Returns the path in the first hierarchy that has this controller.
pub fn of_controller(text: &[u8], controller: &str) -> Option<PathBuf> {
    let path = Path::new(std::str::from_utf8(shown(text, controller)?).ok()?);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && path.file_name().is_some()).then(|| path.to_path_buf())
}

/// Returns true if the process is outside the groups of this namespace, in the hierarchy of this
/// controller. The kernel then prints a path with `..`.
pub fn is_outside(text: &[u8], controller: &str) -> bool {
    let path = shown(text, controller).unwrap_or_default();
    path.split(|byte| *byte == b'/').any(|part| part == b"..")
}

/// Returns the path in a controller's hierarchy, unchanged but without its first slash.
fn shown<'a>(text: &'a [u8], controller: &str) -> Option<&'a [u8]> {
    let path = lines(text).find_map(|line| {
        let mut parts = line.splitn(3, |byte| *byte == b':');
        let mut controllers = parts.nth(1)?.split(|byte| *byte == b',');
        controllers.any(|name| name == controller.as_bytes()).then(|| parts.next()).flatten()
    })?;
    path.strip_prefix(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_that_of_its_hierarchy() {
        let text = b"4:cpu,cpuacct:/old\n1:name=systemd:/x\n0::/vm/g1\n";
        assert_eq!(unified(text).as_deref(), Some(Path::new("vm/g1")));
        assert_eq!(of_controller(text, "cpuacct").as_deref(), Some(Path::new("old")));
        assert_eq!(of_controller(text, "memory"), None);
        let colon = of_controller(b"7:cpu,memory:/x:y\n", "memory");
        assert_eq!(colon.as_deref(), Some(Path::new("x:y")));
    }

    #[test]
    fn the_root_and_what_is_outside_is_no_group() {
        for text in ["0::/\n", "0::/../outside\n", "0::/a/../b\n", "0::\n", "nonsense", "", "0:"] {
            assert_eq!(unified(text.as_bytes()), None, "{text}");
        }
        assert_eq!(unified(b"0::/\xff\n"), None);
    }

    #[test]
    fn report_h07_group_of_another_namespace_is_outside() {
        let outside = |text: &str| {
            ["memory", UNIFIED_NAME].map(|controller| is_outside(text.as_bytes(), controller))
        };
        assert_eq!(outside("4:memory:/\n0::/../vm\n"), [false, true]);
        assert_eq!(outside("4:cpu,memory:/..\n0::/a..b/..c\n"), [true, false]);
        assert_eq!(outside("4:cpu:/../a\n"), [false, false]);
    }
}
