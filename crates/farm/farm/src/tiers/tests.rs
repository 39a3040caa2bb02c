use super::*;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use vm::Scratch;

const KSM_DIR: &str = "sys/kernel/mm/ksm";
const GROUP: &str = "sys/fs/cgroup/memory/api/07";

/// A machine that consists of files, with a fake kernel that changes these files.
struct Tree {
    places: Places,
    calls: Fake,
    _scratch: Scratch,
}

/// The fake kernel, with the calls that it refuses.
#[derive(Clone, Debug)]
struct Fake {
    root: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    refuses: Arc<Mutex<Option<&'static str>>>,
}

impl Fake {
    fn call(&self, what: &str) -> io::Result<()> {
        self.log.lock().unwrap().push(what.to_owned());
        let refuses = self.refuses.lock().unwrap();
        match refuses.filter(|refused| what.starts_with(refused)) {
            Some(_) => Err(io::Error::from(io::ErrorKind::OutOfMemory)),
            None => Ok(()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

impl Calls for Fake {
    fn swap_on(&self, path: &Path, priority: u16) -> io::Result<()> {
        self.call(&format!("on {} {priority}", name(path)))?;
        let page = fs::read(path)?;
        assert_eq!(&page[4086..4096], b"SWAPSPACE2");
        let last = u32::from_ne_bytes(page[1028..1032].try_into().unwrap());
        let mut swaps = fs::read_to_string(self.path("proc/swaps"))?;
        swaps.push_str(&format!("{} file {} 0 {priority}\n", path.display(), last * 4));
        fs::write(self.path("proc/swaps"), swaps)
    }

    fn swap_off(&self, path: &Path) -> io::Result<()> {
        self.call(&format!("off {}", name(path)))?;
        let swaps = fs::read_to_string(self.path("proc/swaps"))?;
        let start = format!("{} ", path.display());
        let kept: String = swaps
            .lines()
            .filter(|line| !line.starts_with(&start))
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(self.path("proc/swaps"), kept)
    }

    fn module(&self, arguments: &[&str]) -> io::Result<()> {
        self.call(&arguments.join(" "))?;
        let control = self.path("sys/class/zram-control");
        if arguments[0] == "-r" { fs::remove_dir(control) } else { fs::create_dir_all(control) }
    }

    fn make_cgroup(&self, dir: &Path) -> io::Result<()> {
        self.call("mkdir")?;
        fs::create_dir(dir)?;
        let limits = ["memory.limit_in_bytes", "memory.max", "blkio.throttle.read_iops_device"];
        for file in limits.into_iter().chain(["cgroup.procs", "io.max"]) {
            fs::write(dir.join(file), "")?;
        }
        Ok(())
    }

    fn remove_cgroup(&self, dir: &Path) -> io::Result<()> {
        // The limit must be lifted before memory is read back from swap.
        let limit = fs::read_to_string(dir.join("memory.limit_in_bytes"))?;
        self.call(&format!("rmdir {limit}"))?;
        fs::remove_dir_all(dir)
    }

    fn add_zram(&self, _: &Path) -> io::Result<String> {
        self.call("add")?;
        fs::create_dir_all(self.path("sys/block/zram1"))?;
        fs::write(self.path("sys/block/zram1/disksize"), "0\n")?;
        fs::write(self.path("sys/block/zram1/dev"), "253:1\n")?;
        fs::write(self.path("dev/zram1"), "")?;
        Ok("1\n".to_owned())
    }

    fn remove_zram(&self, _: &Path, id: u32) -> io::Result<()> {
        self.call(&format!("remove {id}"))?;
        fs::remove_dir_all(self.path(&format!("sys/block/zram{id}")))
    }
}

impl Tree {
    fn new(name: &str) -> Tree {
        let scratch = Scratch::new(&format!("tiers-{name}")).unwrap();
        // The kernel shows the path of a swap file with all links resolved.
        let dir = scratch.path().canonicalize().unwrap();
        let root = dir.join("root");
        let calls = Fake { root, log: Arc::default(), refuses: Arc::default() };
        let (records, swap_dir) = (dir.join("records"), dir.join("swap"));
        let places = Places { root: calls.root.clone(), records, swap_dir };
        let tree = Tree { places, calls, _scratch: scratch };
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/swap.img file 1048 0 -2\n");
        tree.file("proc/self/cgroup", "4:memory:/api/07\n0::/\n");
        tree.file("proc/sys/kernel/osrelease", "6.3.0\n");
        tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
        tree.file(&format!("{GROUP}/cgroup.procs"), "");
        tree.file("sys/class/zram-control/hot_add", "");
        tree.file("sys/block/zram0/disksize", "4096\n");
        tree.file("dev/null", "");
        let ksm = [("run", "0\n"), ("pages_to_scan", "77\n"), ("sleep_millisecs", "200\n")];
        for (name, text) in ksm {
            tree.file(&format!("{KSM_DIR}/{name}"), text);
        }
        tree.file(&format!("{KSM_DIR}/advisor_mode"), "none [scan-time]\n");
        tree
    }

    /// Creates a tree with cgroup version 2 only, in which we run in a user's cgroup.
    fn version_two(name: &str) -> Tree {
        let tree = Tree::new(name);
        fs::remove_dir_all(tree.calls.path("sys/fs/cgroup")).unwrap();
        tree.file("proc/self/cgroup", "0::/user/me\n");
        tree.file("sys/fs/cgroup/user/me/cgroup.procs", "");
        tree
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.calls.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.calls.path(name)).unwrap()
    }

    fn ksm(&self) -> Vec<String> {
        let names = ["advisor_mode", "pages_to_scan", "sleep_millisecs", "run"];
        names.map(|name| self.text(&format!("{KSM_DIR}/{name}")).trim().to_owned()).to_vec()
    }

    fn open(&self, limits: &Limits) -> Result<Tiers, Error> {
        Tiers::open_at(&self.places, Box::new(self.calls.clone()), limits)
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.log.lock().unwrap())
    }

    fn count(&self, dir: &Path) -> usize {
        fs::read_dir(dir).map_or(0, |entries| entries.flatten().count())
    }

    /// Asserts the initial state, except for the advisor, which shows the written text.
    fn assert_untouched(&self) {
        assert_eq!(self.text("proc/swaps").lines().count(), 2, "{}", self.text("proc/swaps"));
        assert!(!self.calls.path("sys/block/zram1").exists());
        assert!(self.calls.path("sys/block/zram0").exists());
        assert_eq!(self.count(&self.calls.path(GROUP)), 1);
        assert_eq!(self.count(&self.places.swap_dir), 0);
        assert_eq!(self.ksm()[1..], ["77", "200", "0"]);
        assert!(self.ksm()[0].contains("scan-time"));
        assert_eq!(self.count(&self.places.records), 1, "the lock of the directory stays");
    }
}

fn all() -> Limits {
    let size = Some(Bytes::mib(4));
    let memory = Some(Bytes::mib(64));
    Limits { memory, zram: size, zram_reads: None, swap: size, ksm: true }
}

/// Simulates SIGKILL: nothing is undone, and the lock is free.
fn kill(mut tiers: Tiers) {
    drop(tiers.record.take());
    drop(tiers.swap_file.take());
}

#[test]
fn tiers_are_made_and_undone_in_the_opposite_order() {
    let tree = Tree::new("order");
    let mut tiers = tree.open(&all()).unwrap();
    let group = tiers.tier().cgroup().unwrap();
    assert!(group.starts_with(tree.calls.path(GROUP)), "below our own: {group:?}");
    assert_eq!(fs::read_to_string(group.join("memory.limit_in_bytes")).unwrap(), "67108864");
    tiers.tier().join(4711).unwrap();
    assert_eq!(fs::read_to_string(group.join("cgroup.procs")).unwrap(), "4711");
    fs::write(group.join("cgroup.procs"), "").unwrap();
    tiers.turn(2, 0);
    assert_eq!((tree.ksm()[0].as_str(), tree.ksm()[3].as_str()), ("none", "1"));
    assert_eq!(tree.text("sys/block/zram1/disksize"), "4194304");
    assert_eq!(tree.text("proc/swaps").lines().count(), 4);
    let made = tree.log();
    assert_eq!(made[..3], ["mkdir", "add", "on zram1 100"]);
    assert!(made[3].starts_with("on pinhead-") && made[3].ends_with(".swap 10"), "{made:?}");
    assert!(tiers.close().is_empty());
    let undone = tree.log();
    assert!(undone[0].starts_with("off pinhead-"), "{undone:?}");
    assert_eq!(undone[1..], ["off zram1", "remove 1", "rmdir -1"]);
    tree.assert_untouched();
}

#[test]
fn changes_of_killed_process_are_undone_by_the_next() {
    let tree = Tree::new("killed");
    let mut tiers = tree.open(&all()).unwrap();
    tiers.turn(2, 0);
    let living = tree.open(&Limits { memory: all().memory, ..Limits::default() }).unwrap();
    kill(tiers);
    assert_eq!(tree.text("proc/swaps").lines().count(), 4);
    let left = restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    assert_eq!(left.len(), 1, "the living one is not touched: {left:?}");
    assert!(left[0].faults.is_empty(), "{left:?}");
    assert!(living.tier().cgroup().unwrap().exists());
    assert!(living.close().is_empty());
    tree.assert_untouched();
    // The next start undoes the changes in the same way.
    kill(tree.open(&all()).unwrap());
    drop(tree.open(&all()).unwrap());
    tree.assert_untouched();
}

#[test]
fn kill_at_any_moment_is_undone_by_the_next_start() {
    // Each kernel call fails once.
    for refused in ["mkdir", "add", "on zram1", "on pinhead"] {
        let tree = Tree::new(&format!("moment-{}", refused.replace(' ', "-")));
        *tree.calls.refuses.lock().unwrap() = Some(refused);
        let error = tree.open(&all()).unwrap_err();
        assert!(matches!(error, Error::Tier { source: Some(_), .. }), "{error:?}");
        tree.assert_untouched();
    }
    // The process is killed between adding a device and recording it.
    let tree = Tree::new("half-made");
    let machine = Machine::new(&tree.places, Box::new(tree.calls.clone()));
    drop(restore::alone(&tree.places).unwrap());
    let mut record = Record::create(&tree.places).unwrap();
    record.add(step::Undo::ZramAdding { before: vec![0] }).unwrap();
    machine.calls.add_zram(Path::new("")).unwrap();
    drop(record);
    restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    tree.assert_untouched();
}

#[test]
fn failed_undo_stays_in_the_record_and_is_reported() {
    let tree = Tree::new("stays");
    let tiers = tree.open(&all()).unwrap();
    *tree.calls.refuses.lock().unwrap() = Some("off pinhead");
    let faults = tiers.close();
    assert!(faults[0].contains("end the guests first"), "{faults:?}");
    let left = restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    assert_eq!(left[0].faults.len(), 1, "{left:?}");
    *tree.calls.refuses.lock().unwrap() = None;
    let left = restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    assert!(left[0].faults.is_empty(), "{left:?}");
    assert!(restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap().is_empty());
    assert_eq!(tree.text("proc/swaps").lines().count(), 2);
}

#[test]
fn changes_taken_over_by_others_are_left_alone() {
    let tree = Tree::new("others");
    let mut tiers = tree.open(&all()).unwrap();
    tiers.turn(2, 0);
    kill(tiers);
    // Another program has added a device of the same number, and has changed KSM's settings.
    tree.file("sys/block/zram1/disksize", "8192\n");
    let device = tree.calls.path("dev/zram1");
    let line = format!("H\n/swap.img file 1 0 -2\n{} partition 4 0 5\n", device.display());
    tree.file("proc/swaps", &line);
    tree.file(&format!("{KSM_DIR}/pages_to_scan"), "5000\n");
    tree.log();
    restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    assert_eq!(tree.text("proc/swaps"), line);
    assert_eq!(tree.text("sys/block/zram1/disksize"), "8192\n");
    assert_eq!((tree.ksm()[1].as_str(), tree.ksm()[3].as_str()), ("5000", "1"));
    assert_eq!(tree.log(), ["rmdir -1"]);
    // The other program ends and restores our setting. Then the setting that we found is restored.
    let files = fs::read_dir(&tree.places.records).unwrap().flatten().map(|entry| entry.path());
    let record = files.into_iter().find(|path| path.extension().is_some_and(|e| e == "json"));
    let record = fs::read_to_string(record.unwrap()).unwrap();
    assert!(record.contains("ksm") && !record.contains("zram"), "{record}");
    tree.file(&format!("{KSM_DIR}/pages_to_scan"), "100\n");
    let left = restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    assert!(left[0].faults.is_empty(), "{left:?}");
    assert_eq!(tree.ksm()[1..], ["77", "200", "0"]);
    assert!(restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap().is_empty());
}

#[test]
fn cgroups_of_guests_that_came_after_ksm_go_too() {
    let tree = Tree::new("ksm-guests");
    tree.file("sys/fs/cgroup/pids/cgroup.procs", "");
    let made = || tree.count(&tree.calls.path("sys/fs/cgroup/pids")) - 1;
    let mut tiers = tree.open(&all()).unwrap();
    tiers.separate_guests();
    assert_eq!(made(), 1);
    tiers.turn(2, 0);
    assert_eq!(tree.ksm()[3], "1");
    assert_eq!(tiers.close(), [""; 0]);
    assert_eq!((made(), tree.ksm()[3].as_str()), (0, "0"));
    tree.assert_untouched();
}

#[test]
fn ksm_that_runs_already_stays_as_it_is() {
    let tree = Tree::new("ksm");
    tree.file(&format!("{KSM_DIR}/run"), "1\n");
    let mut tiers = tree.open(&all()).unwrap();
    tiers.turn(2, 0);
    assert!(tiers.take_notes()[0].contains("the farm does not control KSM"));
    tiers.close();
    assert_eq!(tree.ksm(), ["none [scan-time]", "77", "200", "1"]);
    // Another program starts to drive KSM while we drive it.
    tree.file(&format!("{KSM_DIR}/run"), "0\n");
    let mut tiers = tree.open(&all()).unwrap();
    tiers.turn(2, 0);
    tree.file(&format!("{KSM_DIR}/pages_to_scan"), "5000\n");
    tiers.turn(2, 1000);
    assert!(tiers.take_notes()[0].contains("Another program"));
    tiers.close();
    assert_eq!(tree.ksm()[1], "5000");
}

#[test]
fn version_two_group_is_next_to_ours_and_controller_is_reset() {
    let tree = Tree::version_two("v2");
    tree.file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    tree.file("sys/fs/cgroup/cgroup.subtree_control", "cpu\n");
    tree.file("sys/fs/cgroup/user/cgroup.subtree_control", "\n");
    let limits = Limits { memory: Some(Bytes::mib(64)), ..Limits::default() };
    let tiers = tree.open(&limits).unwrap();
    let group = tiers.tier().cgroup().unwrap();
    assert_eq!(group.parent(), Some(tree.calls.path("sys/fs/cgroup").as_path()));
    assert_eq!(fs::read_to_string(group.join("memory.max")).unwrap(), "67108864");
    assert_eq!(tree.text("sys/fs/cgroup/cgroup.subtree_control"), "+memory");
    tiers.close();
    assert_eq!(tree.text("sys/fs/cgroup/cgroup.subtree_control"), "-memory");
    // If a directory above delegates the controller already, the top directory is not changed.
    tree.file("sys/fs/cgroup/user/cgroup.subtree_control", "memory pids\n");
    let tiers = tree.open(&limits).unwrap();
    let group = tiers.tier().cgroup().unwrap();
    assert_eq!(group.parent(), Some(tree.calls.path("sys/fs/cgroup/user").as_path()));
    tiers.close();
    assert_eq!(tree.text("sys/fs/cgroup/user/cgroup.subtree_control"), "memory pids\n");
}

#[test]
fn zram_is_as_slow_as_a_disk_for_guests_alone() {
    let limits = Limits { zram_reads: Some(200), swap: None, ksm: false, ..all() };
    let tree = Tree::new("reads");
    let can = |t: &Tree| reads::can_limit_reads_at(&t.places, Box::new(t.calls.clone()));
    assert!(!can(&tree), "there is no blkio");
    let error = tree.open(&limits).unwrap_err().to_string();
    assert!(error.contains("blkio.throttle.read_iops_device"), "{error}");
    tree.assert_untouched();
    tree.file("sys/fs/cgroup/blkio/cgroup.procs", "");
    assert!(can(&tree));
    let tiers = tree.open(&limits).unwrap();
    let group = tree.calls.path("sys/fs/cgroup/blkio").join(name(&tiers.tier().cgroup().unwrap()));
    let text = |file: &str| fs::read_to_string(group.join(file)).unwrap();
    assert_eq!(text("blkio.throttle.read_iops_device"), "253:1 200");
    tiers.tier().join(4711).unwrap();
    assert_eq!(text("cgroup.procs"), "4711");
    for list in [group.clone(), tiers.tier().cgroup().unwrap()] {
        fs::write(list.join("cgroup.procs"), "").unwrap();
    }
    kill(tiers);
    restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
    assert!(!group.exists());
    tree.assert_untouched();
    // Kernels before 6.3 read zram without counting the reads.
    tree.file("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
    assert!(!can(&tree) && tree.open(&limits).unwrap_err().to_string().contains("Linux 6.3 does"));
    tree.assert_untouched();
    // Version 2 has the limit in the cgroup with the memory limit.
    let tree = Tree::version_two("reads-v2");
    assert!(!can(&tree), "io is not handed on");
    tree.file("sys/fs/cgroup/cgroup.subtree_control", "memory io\n");
    assert!(can(&tree));
    let tiers = tree.open(&limits).unwrap();
    let group = tiers.tier().cgroup().unwrap();
    assert_eq!(fs::read_to_string(group.join("io.max")).unwrap(), "253:1 riops=200");
    assert_eq!(tiers.close(), [""; 0]);
}

#[test]
fn guests_cannot_escape_a_version_two_limit_on_us() {
    let tree = Tree::version_two("v2-limited");
    tree.file("sys/fs/cgroup/cgroup.subtree_control", "memory pids\n");
    let limits = Limits { memory: Some(Bytes::mib(64)), ..Limits::default() };
    let of_none = [
        ("memory.max", "max"),
        ("memory.high", "max"),
        ("cpu.max", "max 100000"),
        ("cpuset.cpus", ""),
    ];
    for dir in ["user", "user/me"] {
        let set = |file: &str, text: &str| {
            tree.file(&format!("sys/fs/cgroup/{dir}/{file}"), &format!("{text}\n"));
        };
        of_none.iter().for_each(|(file, text)| set(file, text));
        for ((file, none), text) in of_none.iter().zip(["8589934592", "1", "50000 100000", "0-3"]) {
            set(file, text);
            let error = tree.open(&limits).unwrap_err().to_string();
            assert!(error.contains(&format!("{dir}/{file} is {text}, and guests")), "{error}");
            let mut tiers = tree.open(&Limits::default()).unwrap();
            tiers.separate_guests();
            let notes = tiers.take_notes();
            assert!(notes[0].contains(&format!("{file} is {text}")), "{notes:?}");
            tiers.close();
            set(file, none);
        }
    }
    // A limit of the top directory also applies to the guests' cgroup.
    tree.file("sys/fs/cgroup/memory.max", "1\n");
    tree.open(&limits).unwrap().close();
    assert!(!tree.log().is_empty());
}

#[test]
fn unsupported_machine_is_refused_with_a_reason() {
    let tree = Tree::new("cannot");
    fs::remove_dir_all(tree.calls.path("sys/class/zram-control")).unwrap();
    // The module is loaded and would be unloaded at the end, but zram0 needs it.
    let tiers = tree.open(&Limits { zram: all().zram, ..Limits::default() }).unwrap();
    assert_eq!(tree.log()[0], "zram num_devices=0");
    fs::remove_dir_all(tree.calls.path("sys/block/zram0")).unwrap();
    tiers.close();
    assert_eq!(tree.log().last().unwrap(), "-r zram");
    *tree.calls.refuses.lock().unwrap() = Some("zram");
    let error = tree.open(&Limits { zram: all().zram, ..Limits::default() }).unwrap_err();
    assert!(error.to_string().contains("has no zram"), "{error}");
    fs::remove_dir_all(tree.calls.path("sys/fs/cgroup/memory")).unwrap();
    let error = tree.open(&Limits { memory: all().memory, ..Limits::default() }).unwrap_err();
    assert!(error.to_string().contains("no memory controller"), "{error}");
    fs::remove_dir_all(tree.calls.path(KSM_DIR)).unwrap();
    let error = tree.open(&Limits { ksm: true, ..Limits::default() }).unwrap_err();
    assert!(error.to_string().contains("has no KSM"), "{error}");
    // Without limits nothing is done, for any user.
    let tiers = Tiers::open(&Limits::default()).unwrap();
    tiers.tier().join(1).unwrap();
    assert!(tiers.tier().cgroup().is_none() && tiers.close().is_empty());
}

#[test]
fn a_record_that_is_not_ours_undoes_nothing() {
    let tree = Tree::new("record");
    drop(restore::alone(&tree.places).unwrap());
    for wrong in [
        "",
        "{}",
        r#"{"steps":[{"undo":"swap-file","path":"/etc/passwd"}]}"#,
        r#"{"steps":[{"undo":"swap-file","path":"/a/../etc/pinhead-1.swap/.."}]}"#,
        r#"{"steps":[{"undo":"cgroup","dir":"/sys/fs/cgroup/user","home":"/"}]}"#,
        r#"{"steps":[{"undo":"ksm","saved":[["../../x","1"]],"told":[]}]}"#,
        r#"{"steps":[{"undo":"format"}]}"#,
    ] {
        fs::write(tree.places.records.join("7-0.lock"), "").unwrap();
        fs::write(tree.places.records.join("7-0.json"), wrong).unwrap();
        let left = restore_left_at(&tree.places, Box::new(tree.calls.clone())).unwrap();
        assert!(left[0].faults[0].contains("not a record of tiers"), "{wrong}: {left:?}");
    }
    // Entries as written by this version and earlier ones.
    let texts = [
        r#"{"dir":"/c","undo":"controller"}"#,
        r#"{"dir":"/c/pinhead-1-0","home":"/c","undo":"cgroup"}"#,
        r#"{"dir":"/c/pinhead-1-0","home":"/c","undo":"guests"}"#,
        r#"{"undo":"zram-module"}"#,
        r#"{"before":[0,3],"undo":"zram-adding"}"#,
        r#"{"bytes":4096,"id":3,"undo":"zram"}"#,
        r#"{"path":"/var/pinhead-1-0.swap","undo":"swap-file"}"#,
        r#"{"bytes":4096,"path":"/dev/zram3","undo":"swap"}"#,
        r#"{"saved":[["run","0"]],"told":[],"undo":"ksm"}"#,
    ];
    for text in texts {
        let step: step::Undo = serde_json::from_str(text).unwrap();
        assert!(step.is_plausible(), "{text}");
        assert_eq!(serde_json::to_value(step).unwrap().to_string(), text);
    }
}
