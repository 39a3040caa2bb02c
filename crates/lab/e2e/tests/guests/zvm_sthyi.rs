//! STHYI data from a kernel. A real s390x guest returns the data by its system call, and the data
//! match its /proc/sysinfo.

use e2e::{Host, Plan, program, scratch};
use std::fs;
use std::process::Command;
use vm::images::{Arch, GuestFile};
use zmon::sthyi;
use zmon::sysinfo::levels;

/// Program that writes the page to its standard output. The exit code is the error, or 0. The C
/// library has no wrapper for the call.
const PROGRAM: &str = "
        .globl _start
_start: lghi %r2, 0             # function code: capacity
        larl %r3, page
        larl %r4, code
        lghi %r5, 0             # flags
        lghi %r1, 380           # s390_sthyi
        svc 0
        lcgr %r6, %r2
        lghi %r2, 1
        larl %r3, page
        lghi %r4, 4096
        lghi %r1, 4             # write
        svc 0
        lgr %r2, %r6
        lghi %r1, 1             # exit
        svc 0
        .bss
        .align 4096
page:   .skip 4096
code:   .skip 8
";

#[test]
fn sthyi_of_a_real_kernel_matches_its_sysinfo() {
    let dir = scratch("sthyi");
    let (source, built) = (dir.path().join("sthyi.s"), dir.path().join("sthyi"));
    fs::write(&source, PROGRAM).expect("a file");
    let status = Command::new("s390x-linux-gnu-gcc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&built, &source])
        .status();
    assert!(status.expect("what `scripts/setup build` installs").success());
    let bytes = fs::read(&built).expect("a program");
    let file = GuestFile { path: "/sbin/sthyi".into(), mode: 0o755, bytes };
    let plan = Plan { cpus: 2, daemon: None, files: vec![file], ..Plan::new(Arch::S390x, "") };
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    let text = guest.sh("/sbin/sthyi > /run/sthyi; echo $?; od -An -v -tx1 /run/sthyi");
    let (code, text) = text.split_once('\n').expect("two lines");
    assert_eq!(code, "0", "the kernel refuses");
    let byte = |word| u8::from_str_radix(word, 16).unwrap_or_else(|e| panic!("{word}: {e}"));
    let page: Vec<u8> = text.split_whitespace().map(byte).collect();
    assert_eq!(page.len(), sthyi::PAGE_BYTES);

    let info = sthyi::read(&page).unwrap_or_else(|error| panic!("{error}: {page:?}"));
    assert_eq!(info.bytes(), page, "written as it came");
    let sysinfo = guest.sh("cat /proc/sysinfo");
    let told = levels(&sysinfo);
    let mut more = told.clone();
    info.add_to(&mut more);
    // Values in both sources are equal, and STHYI adds no level that is not in sysinfo.
    assert_eq!(more.len(), told.len(), "{told:?}\n{more:?}");
    for (before, after) in told.iter().zip(&more) {
        assert_eq!((&before.what, &before.name), (&after.what, &after.name));
        assert!(before.total.is_none() || before.total == after.total, "{before:?} {after:?}");
    }

    let files = [("sysinfo", sysinfo.as_bytes()), ("page", &page)];
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).expect("a file");
    }
    let mut capacity = Command::new(program());
    capacity.args(["capacity", "--sysinfo"]).arg(dir.path().join("sysinfo"));
    let output = capacity.arg("--sthyi").arg(dir.path().join("page")).output().expect("pinhead");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("At most 2 CPUs"), "{said}\n{output:?}");
}
