//! IBM's hyptop in a real s390x guest, with the same samples as pinhead: generated users of z/VM,
//! and generated partitions. The columns of hyptop and pinhead must agree.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use e2e::soon;
use model::{GuestField as G, Interval, Moment};
use std::fs;
use std::path::Path;
use vm::images::{Arch, Cache, GuestFile, ImageSpec};
use vm::{Accel, GuestSpec, Session, WhyEmulation};
use zmon::hypfs::{
    Guest, LogicalCpu, Partition, PartitionHead, PartitionsHead, guests_bytes, partitions_bytes,
};
use zmon::{Tod, to_ebcdic};
use zvm::Hypervisor;

/// Packages of hyptop and its libraries, by their names in Debian 12.
const PACKAGES: [&str; 5] = ["s390-tools", "libc6", "libncurses6", "libtinfo6", "ncurses-base"];
const LIBRARIES: [&str; 5] =
    ["ld64.so.1", "libc.so.6", "libm.so.6", "libncurses.so.6", "libtinfo.so.6"];
/// Conversion tables for the names in hyptop: EBCDIC, Latin, and the index of the tables.
const TABLES: [&str; 4] =
    ["EBCDIC-US.so", "ISO8859-1.so", "gconv-modules", "gconv-modules.d/gconv-modules-extra.conf"];
const LOOK_US: u64 = 4_000_000;

/// Returns a user with this CPU use, in permille. `look` is the number of the sample.
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

/// Returns as many samples as hyptop waits for. The CPU time of each z/VM user grows evenly.
fn looks() -> [Vec<Guest>; 6] {
    [0, 1, 2, 3, 4, 5].map(|look| {
        vec![
            user("LINUX01", 250, 2, 512, look),
            user("LINUX02", 1_500, 4, 1_536, look),
            user("IDLE", 0, 1, 64, look),
        ]
    })
}

/// Returns a partition with this many processors, each with this use in permille. The overhead of
/// the hypervisor is a tenth of the use.
fn partition(name: &str, cpus: u16, permille: u64, look: u64) -> Partition {
    let cpu = |address| {
        let partition_us = 70_000_000 + look * LOOK_US * permille / 1_000;
        LogicalCpu {
            address,
            partition_us,
            used_us: partition_us + 5_000_000 + look * LOOK_US * permille / 10_000,
            online_us: 3_600_000_000 + look * LOOK_US,
            ..LogicalCpu::default()
        }
    };
    let head = PartitionHead { name: to_ebcdic(name), ..PartitionHead::default() };
    Partition { head, cpus: (0..cpus).map(cpu).collect() }
}

fn machines() -> [Vec<u8>; 6] {
    [0, 1, 2, 3, 4, 5].map(|look| {
        let top = PartitionsHead { physical: 12, tod: at(look).0, ..PartitionsHead::default() };
        let all = [
            partition("LP01", 4, 500, look),
            partition("LP02", 1, 20, look),
            partition("IDLE", 2, 0, look),
        ];
        partitions_bytes(top, &all)
    })
}

fn at(look: u64) -> Tod {
    let ms = u64::try_from(Tod::of_ms(1_763_942_400_000).unwrap().ms().unwrap()).unwrap();
    Tod::of_ms(i64::try_from(ms + look * LOOK_US / 1_000).unwrap()).unwrap()
}

/// Returns the program's files from the packages, at the paths where the program searches for them.
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
    let users = (0..).zip(looks()).map(|(look, guests)| guests_bytes(&guests, at(look)));
    for (name, looks) in [("diag_2fc", users.collect()), ("diag_204", machines().to_vec())] {
        for (number, bytes) in looks.into_iter().enumerate() {
            files.push(GuestFile { path: format!("/{name}/{number}"), mode: 0o644, bytes });
        }
    }
    files
}

/// The second screen of hyptop as a table: the headings, and a row for each user or partition.
struct Screen {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Screen {
    fn read(text: &str) -> Screen {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<&str> = text.lines().collect();
        let head = lines.iter().rposition(|line| line.trim_start().starts_with("system"));
        let head = head.unwrap_or_else(|| panic!("no heads:\n{text}"));
        let rows = lines[head + 1..].iter().map(|line| words(line));
        Screen { heads: words(lines[head]), rows: rows.filter(|row| row.len() > 2).collect() }
    }

    fn value(&self, of: &str, column: &str) -> f64 {
        let row = self.rows.iter().find(|row| row[0] == of);
        let row = row.unwrap_or_else(|| panic!("no row of {of} in {:?}", self.rows));
        let at = self.heads.iter().position(|head| head == column);
        let at = at.unwrap_or_else(|| panic!("no column {column} in {:?}", self.heads));
        row[at].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
    }

    fn is_near(&self, of: &str, column: &str, ours: f64, by: f64) {
        let theirs = self.value(of, column);
        assert!((theirs - ours).abs() < by, "{column} of {of}: {theirs} and {ours}");
    }
}

#[test]
fn columns_of_hyptop_and_pinhead_agree() {
    let _share = e2e::share(1);
    let cache = Cache::from_environment().unwrap();
    let tree = cache.package_set(Arch::S390x, "hyptop", &PACKAGES).unwrap();
    let image = ImageSpec { arch: Arch::S390x, daemon: None, files: files(&tree) };
    let image = image.build(&cache).unwrap();
    let spec = GuestSpec::new("hyptop", image, Accel::Emulation(WhyEmulation::Asked));
    let mut session = Session::boot(&spec, soon()).unwrap_or_else(|error| panic!("{error}"));
    // debugfs is mounted, because programs check this. A second mount over debugfs contains the
    // generated files.
    let mounts = "mount -t debugfs none /sys/kernel/debug; mount -t tmpfs none /sys/kernel/debug";
    session.sh(mounts, soon()).unwrap();
    let users = run(&mut session, "diag_2fc", "#,c,C,o,u,a");
    users_agree(&users);
    let partitions = run(&mut session, "diag_204", "#,c,m");
    partitions_agree(&partitions);
}

/// Returns hyptop's screen for the samples of one of the hypervisor's files.
fn run(session: &mut Session, file: &str, fields: &str) -> Screen {
    let dir = "/sys/kernel/debug/s390_hypfs";
    // Each sample replaces the previous sample atomically, while hyptop waits.
    let script = format!(
        "mkdir {dir}; cp /{file}/0 {dir}/{file}; \
         (for n in 1 2 3 4 5; do sleep 2; cp /{file}/$n {dir}/next; \
         mv {dir}/next {dir}/{file}; done) > /dev/null 2>&1 & looks=$!; \
         LD_LIBRARY_PATH=/lib GCONV_PATH=/lib/gconv timeout 60 hyptop -b -d 1 -n 2 -w sys_list \
         -f '{fields}' 2>&1; echo code $?; kill $looks; wait; rm -r {dir}"
    );
    let text = session.sh(&script, soon()).unwrap();
    println!("{text}");
    Screen::read(&text)
}

fn users_agree(screen: &Screen) {
    let mut hypervisor = Hypervisor::default();
    let [first, second, ..] = looks();
    let mut look = |guests: &[Guest], at_ms| -> Moment {
        hypervisor.guests(&guests_bytes(guests, Tod(0)), at_ms).unwrap()
    };
    let before = look(&first, 0);
    let now = look(&second, i64::try_from(LOOK_US / 1_000).unwrap());
    let ours = Interval::between(&before, &now);
    for (who, over) in &ours.guests {
        let near = |column, ours, by| screen.is_near(&who.name, column, ours, by);
        near("cpu", percent(over.get(G::VcpuRun)), 0.01);
        let gib = |field| over.get(field).unwrap() as f64 / f64::from(1 << 30);
        near("memuse", gib(G::Resident), 0.006);
        near("memmax", gib(G::Memory), 0.006);
        near("#cpu", over.get(G::Vcpus).unwrap() as f64, 0.1);
    }
    assert_eq!(ours.guests.len(), 3);
}

fn partitions_agree(screen: &Screen) {
    let mut hypervisor = Hypervisor::default();
    let [first, second, ..] = machines();
    let before = hypervisor.partitions(&first, 0).unwrap();
    let at_ms = i64::try_from(LOOK_US / 1_000).unwrap();
    let ours = Interval::between(&before, &hypervisor.partitions(&second, at_ms).unwrap());
    for (who, over) in &ours.guests {
        let near = |column, ours, by| screen.is_near(&who.name, column, ours, by);
        near("core", percent(over.get(G::VcpuRun)), 0.01);
        near("mgm", percent(over.get(G::OtherRun)), 0.01);
        near("#core", over.get(G::Vcpus).unwrap() as f64, 0.1);
    }
    assert_eq!(ours.guests.len(), 3);
}

fn percent(ns: Option<u64>) -> f64 {
    ns.unwrap() as f64 / LOOK_US as f64 / 10.0
}
