//! The machine below: a guest, or a host that others need.

use std::path::Path;

use crate::args::Args;

/// Refuses a machine that is no guest, unless it is asked for. s390x always has a hypervisor.
pub fn check(args: &Args) -> Result<(), String> {
    if cfg!(target_arch = "s390x") {
        return Ok(());
    }
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo");
    check_by(args, &cpuinfo.unwrap_or_default())
}

fn check_by(args: &Args, cpuinfo: &str) -> Result<(), String> {
    if args.root != Path::new("/") || args.dry_run || args.on_host {
        return Ok(());
    }
    match is_host(cpuinfo) {
        true => Err("This machine is no guest: its CPUs and memory would go offline for all that \
                     runs here. Install pinheadd in the guests (`pinhead host` is for hosts), or \
                     run it here with --on-host"
            .to_owned()),
        false => Ok(()),
    }
}

/// True if the CPUs of an x86 say that no hypervisor is below.
fn is_host(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().all(|flag| flag != "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, parse};

    #[test]
    fn report_e01_a_host_is_told_from_a_guest_by_its_flags() {
        assert!(is_host("processor\t: 0\nflags\t\t: fpu vme de\nprocessor\t: 1\n"));
        assert!(!is_host("processor\t: 0\nflags\t\t: fpu hypervisor de\n"));
        assert!(!is_host("vendor_id       : IBM/S390\nfeatures\t: esan3 zarch\n"));
        assert!(!is_host(""));
    }

    #[test]
    fn report_e01_a_host_is_refused_unless_it_is_asked_for() {
        let check = |words: &[&str]| match parse(words.iter().map(Into::into)) {
            Command::Run(args) => check_by(&args, "flags\t\t: fpu vme de\n"),
            other => panic!("{other:?}"),
        };
        let refused = check(&["-c", "rules"]).unwrap_err();
        assert!(refused.contains("--on-host"), "{refused}");
        for word in ["--on-host", "--dry-run", "--root=/tree"] {
            assert_eq!(check(&["-c", "rules", word]), Ok(()), "{word}");
        }
    }
}
