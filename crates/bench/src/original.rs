//! IBM's daemon beside ours, where it cannot touch this machine.
//!
//! It knows neither another root nor a dry run, and manages memory only in what it
//! takes for a z/VM guest. So it gets mounts of its own: a pool, a /proc/cpuinfo of the
//! machine that it looks for, and a /sys that nobody can write to. They end with it.

use std::path::Path;
use std::process::Command;

/// Makes the mounts, then becomes the program that is given with its arguments. It never
/// gets so far where CPUs could still be switched.
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

/// The original with a rules file, in the foreground, where it can do no harm.
pub fn command(program: &Path, rules: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", STAGE, "sh"]).arg(program).arg("-f").arg("-c").arg(rules);
    command
}
