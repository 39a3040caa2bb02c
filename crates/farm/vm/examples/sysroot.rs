//! Makes a directory with musl for linking a static s390x daemon. The files come from Debian's
//! package for that architecture. rustup has no standard library for this target, so `make s390x`
//! builds the library too.
//!
//! `cargo run -p vm --example sysroot -- DIRECTORY`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vm::images::{Arch, Cache};

/// The files needed to link a static program without a compiler's own start files.
const PARTS: [&str; 4] = ["crt1.o", "crti.o", "crtn.o", "libc.a"];

fn main() -> ExitCode {
    let Some(into) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: sysroot DIRECTORY");
        return ExitCode::from(2);
    };
    match make(&into) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sysroot: {message}");
            ExitCode::FAILURE
        }
    }
}

fn make(into: &Path) -> Result<(), String> {
    // The last part is written last, so a directory with this part is complete.
    let last = into.join("libunwind.a");
    if last.exists() {
        return Ok(());
    }
    let cache = Cache::from_environment().map_err(|e| e.to_string())?;
    let package = cache.package(Arch::S390x, "musl-dev").map_err(|e| e.to_string())?;
    let from = package.join("usr/lib/s390x-linux-musl");
    fs::create_dir_all(into).map_err(|e| format!("{}: {e}", into.display()))?;
    for part in PARTS {
        let source = from.join(part);
        fs::copy(&source, into.join(part)).map_err(|e| format!("{}: {e}", source.display()))?;
    }
    // The standard library needs an unwinder. The daemon aborts instead of unwinding, so an archive
    // without members suffices.
    fs::write(&last, "!<arch>\n").map_err(|e| format!("{}: {e}", last.display()))
}
