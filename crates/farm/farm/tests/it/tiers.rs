//! Tests of the tiers on this machine. Tiers must work, and must be undone after a SIGKILL. The
//! tests need root and zram, and are skipped without them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use base::Bytes;
use farm::config::Limits;
use farm::tiers::{GuestLimits, Live, Places, Tiers, restore_left_at};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Environment variable with the directory for the child that is killed.
const CHILD_DIR: &str = "PINHEAD_TEST_TIERS_DIR";
const LIMIT: Bytes = Bytes::mib(64);
/// Size of the zram device and of the swap file. No other device has this size.
const TIER: Bytes = Bytes((96 << 20) + 5 * 4096);

/// Lock that serialises the tests, because each test compares the machine's state before and after.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn why_not() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if !Path::new("/sys/class/zram-control").exists() {
        return Some("no zram in this kernel");
    }
    let groups = ["memory/memory.limit_in_bytes", "cgroup.controllers"];
    let is_there = |name: &&str| Path::new("/sys/fs/cgroup").join(name).exists();
    (!groups.iter().any(is_there)).then_some("no memory cgroups")
}

fn places(dir: &Path) -> Places {
    Places { root: PathBuf::from("/"), records: dir.join("records"), swap_dir: dir.join("swap") }
}

fn limits() -> Limits {
    let size = Some(TIER);
    Limits { memory: Some(LIMIT), zram: size, zram_reads: None, swap: size, ksm: true }
}

/// Swap areas and devices of the tiers in this directory. Other farms on this machine start and end
/// meanwhile, so ours are identified by their path and size.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    swap_files: usize,
    swap_devices: usize,
    devices: usize,
    ksm: Option<Vec<String>>,
}

fn seen(dir: &Path) -> Seen {
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    let swaps: Vec<Vec<&str>> =
        swaps.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let shown_kib = (TIER.0 / 1024 - 4).to_string();
    let dir = dir.canonicalize().unwrap();
    let is_file = |swap: &&Vec<&str>| Path::new(swap[0]).starts_with(&dir);
    let is_device = |swap: &&Vec<&str>| swap[0].starts_with("/dev/zram") && swap[2] == shown_kib;
    let blocks = fs::read_dir("/sys/block").unwrap().flatten();
    let sizes = blocks.filter_map(|entry| fs::read_to_string(entry.path().join("disksize")).ok());
    Seen {
        swap_files: swaps.iter().filter(is_file).count(),
        swap_devices: swaps.iter().filter(is_device).count(),
        devices: sizes.filter(|size| size.trim() == TIER.0.to_string()).count(),
        ksm: ksm(),
    }
}

/// Returns KSM's settings; `None` while a farm of this machine may change them.
fn ksm() -> Option<Vec<String>> {
    let others = fs::read_dir(Places::usual().records).into_iter().flatten().flatten();
    if others.into_iter().any(|entry| entry.path().extension().is_some_and(|e| e == "json")) {
        return None;
    }
    let names = ["advisor_mode", "pages_to_scan", "sleep_millisecs", "run"];
    let setting = |name| fs::read_to_string(Path::new("/sys/kernel/mm/ksm").join(name)).ok();
    names.into_iter().map(setting).collect()
}

/// Asserts that all our resources exist, and that KSM runs.
fn assert_made(seen: &Seen) {
    let made = (seen.swap_files, seen.swap_devices, seen.devices);
    assert_eq!(made, (1, 1, 1), "{seen:?}");
    if let Some(ksm) = &seen.ksm {
        assert_eq!(ksm[3].trim(), "1");
    }
}

/// Asserts that none of our resources is left.
fn assert_undone(before: &Seen, after: &Seen) {
    let left = (after.swap_files, after.swap_devices, after.devices);
    assert_eq!(left, (0, 0, 0), "{after:?}");
    if let (Some(before), Some(after)) = (&before.ksm, &after.ksm) {
        assert_eq!(before, after);
    }
}

/// Returns the paths made by a farm: its cgroups and those of its guests, its zram device, its swap
/// file and its record.
fn made_by(pid: u32, limited: &Path, dir: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
    let ours = format!("pinhead-{pid}-");
    let is_ours = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&ours);
    let pids = below(Path::new("/sys/fs/cgroup/pids")).filter(is_ours);
    let mut made: Vec<PathBuf> = pids.chain([limited.to_path_buf()]).collect();
    let guests: Vec<PathBuf> =
        made.iter().flat_map(|group| below(group)).filter(|path| path.is_dir()).collect();
    let has_our_size = |path: &PathBuf| {
        let size = fs::read_to_string(path.join("disksize"));
        size.is_ok_and(|size| size.trim() == TIER.0.to_string())
    };
    made.extend(guests);
    made.extend(below(Path::new("/sys/block")).filter(has_our_size));
    made.extend(["records", "swap"].iter().flat_map(|name| below(&dir.join(name))));
    made
}

/// Creates a directory on a disk, as the kernel cannot swap to a file in memory.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = dir.join(format!("tiers-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn more_than_the_limit_goes_to_the_tiers_below() {
    let _alone = alone();
    if let Some(reason) = why_not() {
        base::skipped!("{reason}");
        return;
    }
    let dir = scratch("limit");
    let before = seen(&dir);
    let mut tiers = Tiers::open_at(&places(&dir), Box::new(Live), &limits()).unwrap();
    tiers.turn(2, 0);
    assert_made(&seen(&dir));

    // The process touches more than the limit after it joins the cgroup. Without swap the kernel
    // would kill the process.
    let script = "read _; dd if=/dev/urandom of=/dev/null bs=120M count=1";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tiers.tier().join(child.id()).unwrap();
    drop(child.stdin.take());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    let group = tiers.tier().cgroup().unwrap();
    let peak = peak(&group);
    assert!(peak <= LIMIT.0 && peak > LIMIT.0 / 2, "{peak}");

    assert_eq!(tiers.close(), Vec::<String>::new());
    assert!(!group.exists());
    assert_undone(&before, &seen(&dir));
    assert_eq!(fs::read_dir(dir.join("swap")).unwrap().count(), 0);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
#[allow(clippy::disallowed_methods, reason = "it measures how long pages are away")]
fn guests_wait_for_zram_as_for_a_disk() {
    /// Limit in pages per second. With a lower limit, a manager on this host would detect a memory
    /// shortage.
    const READS: u32 = 200;
    /// Limit, and memory beyond the limit, in MiB. The process touches the sum of both twice.
    const LIMIT_MIB: u32 = 4;
    const OVER_MIB: u32 = 2;
    let _alone = alone();
    if let Some(reason) = why_not() {
        base::skipped!("{reason}");
        return;
    }
    let dir = scratch("reads");
    let before = seen(&dir);
    let memory = Some(Bytes::mib(u64::from(LIMIT_MIB)));
    let limits = Limits { memory, zram_reads: Some(READS), swap: None, ksm: false, ..limits() };
    let mut tiers = match Tiers::open_at(&places(&dir), Box::new(Live), &limits) {
        Err(error) if error.to_string().contains("remove `zram_reads`") => {
            base::skipped!("{error}");
            return;
        }
        opened => opened.unwrap(),
    };
    let size = LIMIT_MIB + OVER_MIB;
    let mut child = Command::new("sh")
        .args(["-c", &format!("read _; dd if=/dev/urandom of=/dev/null bs={size}M count=2")])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // `pinhead up` also puts each guest into a cgroup of its own.
    tiers.separate_guests();
    let guest = GuestLimits { name: "db1", memory_bytes: LIMIT.0, threads: 20 };
    tiers.tier().join_guest(child.id(), &guest).unwrap();
    let begun = Instant::now();
    drop(child.stdin.take());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    // The limit makes the reads take at least this time. A tenth is subtracted for the first
    // throttling slice.
    let least = f64::from(OVER_MIB * 256) / f64::from(READS) * 0.9;
    assert!(begun.elapsed().as_secs_f64() >= least, "{:?}", begun.elapsed());
    assert_eq!(tiers.close(), Vec::<String>::new());
    assert_undone(&before, &seen(&dir));
    fs::remove_dir_all(dir).unwrap();
}

/// Runs as the child process that the next test starts and kills.
#[test]
fn child_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let mut tiers = Tiers::open_at(&places(Path::new(&dir)), Box::new(Live), &limits()).unwrap();
    tiers.turn(2, 0);
    tiers.separate_guests();
    // This guest outlives its farm, unlike any real guest.
    let mut guest = Command::new("sleep").arg("1000").spawn().unwrap();
    let limits = GuestLimits { name: "web1", memory_bytes: LIMIT.0, threads: 20 };
    tiers.tier().join_guest(guest.id(), &limits).unwrap();
    println!("\nready {} {}", guest.id(), tiers.tier().cgroup().unwrap().display());
    // The parent never writes, so this read lasts until the kill, or until the parent is gone.
    let _ = std::io::stdin().lines().next();
    guest.kill().unwrap();
    guest.wait().unwrap();
}

#[test]
fn after_a_sigkill_the_next_start_puts_everything_back() {
    let _alone = alone();
    if let Some(reason) = why_not() {
        base::skipped!("{reason}");
        return;
    }
    let dir = scratch("killed");
    let before = seen(&dir);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tiers::child_that_is_killed", "--nocapture"])
        .env(CHILD_DIR, &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut ready = lines.filter(|line| line.starts_with("ready "));
    let ready = ready.next().expect("the child's tiers");
    let words: Vec<&str> = ready.split(' ').collect();
    let (guest, group) = (words[1], Path::new(words[2]));
    child.kill().unwrap();
    child.wait().unwrap();

    // SIGKILL undoes nothing.
    let (there, made) = (seen(&dir), made_by(child.id(), group, &dir));
    let own = made.iter().find(|path| path.ends_with("guest-web1"));
    let procs = own.map(|own| fs::read_to_string(own.join("cgroup.procs")).unwrap());

    let left = restore_left_at(&places(&dir), Box::new(Live)).unwrap();
    let still_runs = Path::new("/proc").join(guest).exists();
    Command::new("kill").arg(guest).status().unwrap();
    assert_made(&there);
    println!("a killed farm left {made:?}");
    for end in [".swap", ".json"] {
        let is_so = |path: &PathBuf| path.to_string_lossy().ends_with(end);
        assert!(made.iter().any(is_so), "no {end}: {made:?}");
    }
    let is_device = |path: &PathBuf| path.starts_with("/sys/block");
    assert_eq!(made.iter().filter(|path| is_device(path)).count(), 1, "{made:?}");
    assert_eq!(procs.as_deref().map(str::trim), Some(guest), "{made:?}");
    assert_eq!(left.len(), 1);
    assert!(left[0].faults.is_empty(), "{left:?}");
    // The lock file of a record remains, as another process may wait for it.
    let is_lock = |path: &PathBuf| path.to_string_lossy().ends_with(".lock");
    let still: Vec<&PathBuf> = made.iter().filter(|path| path.exists() && !is_lock(path)).collect();
    assert!(still.is_empty(), "left: {still:?}");
    assert_undone(&before, &seen(&dir));
    // The process that still ran was moved out of the cgroup and not killed.
    assert!(still_runs);
    assert!(restore_left_at(&places(&dir), Box::new(Live)).unwrap().is_empty());
    fs::remove_dir_all(dir).unwrap();
}

/// Returns the path of a guest's own memory cgroup, from its process's `/proc/PID/cgroup`.
fn own(places: &str, guest: &str) -> PathBuf {
    let of = |start: &str| places.lines().find_map(|line| line.split_once(start)).map(|at| at.1);
    let (top, place) = match of(":memory:") {
        Some(place) => ("/sys/fs/cgroup/memory", place),
        None => ("/sys/fs/cgroup", of("0::").unwrap()),
    };
    assert!(place.ends_with(&format!("/guest-{guest}")), "{places}");
    Path::new(top).join(place.trim_start_matches('/'))
}

/// Returns the peak memory of a cgroup.
fn peak(group: &Path) -> u64 {
    let names = ["memory.max_usage_in_bytes", "memory.peak"];
    let text = names.iter().find_map(|name| fs::read_to_string(group.join(name)).ok()).unwrap();
    text.trim().parse().unwrap()
}

/// A child process plays a process that has broken out of a guest and allocates as much memory and
/// as many threads as it can.
#[test]
fn finding_03_guest_takes_no_more_of_host_than_its_cgroup_has() {
    let _alone = alone();
    if let Some(reason) = why_not() {
        base::skipped!("{reason}");
        return;
    }
    let dir = scratch("guests");
    let mut tiers = Tiers::open_at(&places(&dir), Box::new(Live), &Limits::default()).unwrap();
    tiers.separate_guests();
    assert_eq!(tiers.take_notes(), [""; 0]);
    let guest = |name| GuestLimits { name, memory_bytes: LIMIT.0, threads: 20 };
    let run = |name, script: &str| {
        let mut child = Command::new("sh")
            .args(["-c", &format!("read _; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tiers.tier().join_guest(child.id(), &guest(name)).unwrap();
        let places = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        (output.status, String::from_utf8(output.stdout).unwrap(), own(&places, name))
    };
    let dd = "exec dd if=/dev/zero of=/dev/null count=1";
    // The process takes twice its limit at once. Without swap it is killed.
    let (status, _, group) = run("web1", &format!("{dd} bs=128M"));
    let peak = peak(&group);
    assert!(peak <= LIMIT.0 && peak > LIMIT.0 / 2, "it had {peak} bytes: {status}");
    let (status, ..) = run("web2", &format!("{dd} bs=16M"));
    assert!(status.success(), "the guest did not get its own memory: {status}");
    let count = "trap \"kill -s KILL 0\" EXIT; n=0; \
                 while [ $n -lt 60 ]; do sleep 60 & n=$((n + 1)); done; echo all of them";
    let (_, text, _) = run("web3", &format!("exec setsid sh -c '{count}'"));
    assert!(!text.contains("all"), "it started 60 processes");
    tiers.tier().leave_guest("web1");
    assert!(!group.exists(), "the cgroup of an ended guest is left");
    assert_eq!(tiers.close(), Vec::<String>::new());
    let left = restore_left_at(&places(&dir), Box::new(Live)).unwrap();
    assert!(left.is_empty(), "{left:?}");
    let tops = ["memory", "pids", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let ours = format!("pinhead-{}-", std::process::id());
    for top in tops {
        for entry in fs::read_dir(top).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.starts_with(&ours), "{name} is left");
        }
    }
    fs::remove_dir_all(dir).unwrap();
}
