//! IBM's daemon next to pinhead's, without access to this machine.
//!
//! IBM's daemon supports neither another root nor a dry run, and manages memory only if it detects
//! a z/VM guest. The daemon therefore gets private mounts: a pool, the /proc/cpuinfo that it
//! expects, and a read-only /sys. The mounts end with the process.

use std::path::Path;
use std::process::Command;

/// Makes the mounts, then executes the given program with its arguments. The script stops before
/// the program starts if CPUs could still be switched.
const STAGE: &str = "set -e
mount -t tmpfs tmpfs /proc/sys/vm
echo 0 > /proc/sys/vm/cmm_pages
echo 'version = FF' > /proc/sys/vm/cpuinfo
mount --bind /proc/sys/vm/cpuinfo /proc/cpuinfo
mount --bind /sys /sys
mount -o remount,bind,ro /sys
if test -w /sys/devices/system/cpu; then echo 'CPUs can be switched' >&2; exit 1; fi
exec \"$@\"
";

/// Returns a command that runs the original with a rules file, in the foreground, without effect on
/// the machine.
pub fn command(program: &Path, rules: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", STAGE, "sh"]).arg(program).arg("-f").arg("-c").arg(rules);
    command
}
