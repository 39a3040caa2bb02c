//! hyptop, IBM's own, in a real s390x guest, over the same two looks at made-up users of z/VM that
//! ours reads: its columns and ours agree.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use images::{Arch, Cache, GuestFile, ImageSpec};
use model::{GuestField as G, Interval, Moment};
use std::fs;
use std::path::Path;
use std::time::Duration;
use vm::{Accel, Deadline, GuestSpec, Session, WhyEmulation};
use zmon::hypfs::{Guest, guests_bytes};
use zmon::{Tod, to_ebcdic};
use zvm::Hypervisor;

/// Under emulation on a busy machine a boot may take many times its usual five seconds.
const PATIENCE: Duration = Duration::from_secs(180);
/// hyptop with what it is linked with, by Debian 12's names.
const PACKAGES: [&str; 5] = ["s390-tools", "libc6", "libncurses6", "libtinfo6", "ncurses-base"];
const LIBRARIES: [&str; 5] =
    ["ld64.so.1", "libc.so.6", "libm.so.6", "libncurses.so.6", "libtinfo.so.6"];
/// What it reads names with: tables of EBCDIC and of Latin, and what says which is which.
const TABLES: [&str; 4] =
    ["EBCDIC-US.so", "ISO8859-1.so", "gconv-modules", "gconv-modules.d/gconv-modules-extra.conf"];
const LOOK_US: u64 = 4_000_000;

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

/// A user that uses so many thousandths of a CPU, at the first look or at the second.
fn user(name: &str, permille: u64, cpus: u32, used_mib: u64, look: u64) -> Guest {
    let elapsed_us = 3_600_000_000 + look * LOOK_US;
    Guest {
        name: to_ebcdic(name),
        used_us: 60_000_000 + look * LOOK_US * permille / 1_000,
        elapsed_us,
        memory_min: 0,
        memory_max: 2 << 20,
        memory_used: used_mib << 10,
        memory_share: 0,
        processors: 4,
        logical: 4,
        virtual_cpus: cpus,
        operating: cpus,
        cpu_shares: 100,
        cpu_max: 100,
        ..Guest::default()
    }
}

/// As many as hyptop waits for: each has used as much more as the one before.
fn looks() -> [Vec<Guest>; 6] {
    [0, 1, 2, 3, 4, 5].map(|look| {
        vec![
            user("LINUX01", 250, 2, 512, look),
            user("LINUX02", 1_500, 4, 1_536, look),
            user("IDLE", 0, 1, 64, look),
        ]
    })
}

/// The files of packages that the program needs, where it looks for them.
fn files(tree: &Path) -> Vec<GuestFile> {
    let read = |below: &[&str], name: &str| {
        let found = below.iter().map(|dir| tree.join(dir).join(name)).find(|path| path.exists());
        let path = found.unwrap_or_else(|| panic!("no {name} in {}", tree.display()));
        fs::read(path).unwrap()
    };
    let libraries = ["lib/s390x-linux-gnu", "usr/lib/s390x-linux-gnu"];
    let mut files: Vec<GuestFile> = LIBRARIES
        .iter()
        .map(|name| GuestFile {
            path: format!("/lib/{name}"),
            mode: 0o755,
            bytes: read(&libraries, name),
        })
        .collect();
    files.extend(TABLES.iter().map(|name| GuestFile {
        path: format!("/lib/gconv/{name}"),
        mode: 0o644,
        bytes: read(&["usr/lib/s390x-linux-gnu/gconv"], name),
    }));
    let bytes = read(&["usr/sbin", "sbin"], "hyptop");
    files.push(GuestFile { path: "/sbin/hyptop".into(), mode: 0o755, bytes });
    for (number, look) in looks().iter().enumerate() {
        let at = Tod::of_ms(1_763_942_400_000 + i64::try_from(number).unwrap() * 4_000).unwrap();
        let bytes = guests_bytes(look, at);
        files.push(GuestFile { path: format!("/look/{number}"), mode: 0o644, bytes });
    }
    files
}

/// Its second screen, as a table: the heads, and a row for each user.
fn screen(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().rposition(|line| line.trim_start().starts_with("system"));
    let head = head.unwrap_or_else(|| panic!("no heads:\n{text}"));
    let rows = lines[head + 1..].iter().map(|line| words(line));
    (words(lines[head]), rows.filter(|row| row.len() > 2).collect())
}

#[test]
fn hyptops_columns_and_ours_agree() {
    let _share = e2e::share(1);
    let cache = Cache::from_environment().unwrap();
    let tree = cache.package_set(Arch::S390x, "hyptop", &PACKAGES).unwrap();
    let image = ImageSpec { arch: Arch::S390x, daemon: None, files: files(&tree) };
    let image = image.build(&cache).unwrap();
    let spec = GuestSpec::new("hyptop", image, Accel::Emulation(WhyEmulation::Asked));
    let mut session = Session::boot(&spec, soon()).unwrap_or_else(|error| panic!("{error}"));
    let dir = "/sys/kernel/debug/s390_hypfs";
    // debugfs is there for who looks for it, and made-up files lie in its place.
    // Each look comes whole, while hyptop waits for it.
    let script = format!(
        "mount -t debugfs none /sys/kernel/debug; mount -t tmpfs none /sys/kernel/debug; \
         mkdir {dir}; cp /look/0 {dir}/diag_2fc; \
         (for n in 1 2 3 4 5; do sleep 2; cp /look/$n {dir}/next; \
         mv {dir}/next {dir}/diag_2fc; done) > /dev/null 2>&1 & \
         LD_LIBRARY_PATH=/lib GCONV_PATH=/lib/gconv timeout 60 hyptop -b -d 1 -n 2 -w sys_list \
         -f '#,c,C,o,u,a' 2>&1; echo code $?"
    );
    let text = session.sh(&script, soon()).unwrap();
    println!("{text}");
    let (heads, rows) = screen(&text);

    let mut hypervisor = Hypervisor::default();
    let [first, second, ..] = looks();
    let mut look = |guests: &[Guest], at_ms| -> Moment {
        hypervisor.guests(&guests_bytes(guests, Tod(0)), at_ms).unwrap()
    };
    let before = look(&first, 0);
    let now = look(&second, i64::try_from(LOOK_US / 1_000).unwrap());
    let ours = Interval::between(&before, &now);
    let column = |row: &[String], name: &str| -> f64 {
        let at = heads.iter().position(|head| head == name);
        let at = at.unwrap_or_else(|| panic!("no column {name} in {heads:?}"));
        row[at].parse().unwrap_or_else(|_| panic!("{name} of {row:?}"))
    };
    for (who, over) in &ours.guests {
        let row = rows.iter().find(|row| row[0] == who.name);
        let row = row.unwrap_or_else(|| panic!("no row of {}:\n{text}", who.name));
        let cpu = over.get(G::VcpuRun).unwrap() as f64 / LOOK_US as f64 / 10.0;
        assert!((column(row, "cpu") - cpu).abs() < 0.01, "{row:?}: {cpu} %");
        let gib = |field| over.get(field).unwrap() as f64 / f64::from(1 << 30);
        assert!((column(row, "memuse") - gib(G::Resident)).abs() < 0.006, "{row:?}");
        assert!((column(row, "memmax") - gib(G::Memory)).abs() < 0.006, "{row:?}");
        assert!((column(row, "#cpu") - over.get(G::Vcpus).unwrap() as f64).abs() < 0.1, "{row:?}");
    }
    assert_eq!(ours.guests.len(), 3);
}
