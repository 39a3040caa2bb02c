//! Description of the machine and of the source code of an experiment.

use crate::Error;
use lab::outcome::Machine;
use reports::recorded::processor;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vm::images;

/// Environment variable with the path of `pinhead`.
const PROGRAM: &str = "PINHEAD_PROGRAM";

/// Describes the machine. Unavailable values are left empty.
pub fn machine() -> Machine {
    let meminfo = fs::read("/proc/meminfo").unwrap_or_default();
    let kib = procfs::parse::value_of(&meminfo, "MemTotal").unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = output(Command::new("qemu-system-x86_64").arg("--version"));
    let version = version.unwrap_or_default();
    let version = version.lines().next().unwrap_or_default().trim_start_matches("QEMU emulator ");
    let accel = vm::probe_kvm(images::Arch::X86_64);
    Machine {
        processor: processor().unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_mib: kib / 1024,
        kernel: kernel.trim().to_owned(),
        qemu: format!("QEMU {version}, {accel}"),
    }
}

/// Returns the commit of the source tree that contains this program. Returns `None` if the program
/// was moved after its build.
pub fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let mut git = Command::new("git");
    git.arg("-C").arg(program.parent()?).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    output(&mut git)
}

/// Returns the path of the `pinhead` to measure: from the environment, or next to this program.
pub fn program() -> Result<PathBuf, Error> {
    if let Some(program) = std::env::var_os(PROGRAM).filter(|program| !program.is_empty()) {
        return Ok(program.into());
    }
    let this = std::env::current_exe();
    let this = this.map_err(|e| Error::step("Cannot tell which program this is", e))?;
    Ok(this.with_file_name("pinhead"))
}

/// Returns an identity of the programs of an experiment: a hash of the bytes of `pinhead` and of
/// this program.
pub fn identity(pinhead: &Path) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read("/proc/self/exe").ok()?);
    hasher.write(&fs::read(pinhead).ok()?);
    Some(format!("{:016x}", hasher.finish()))
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
