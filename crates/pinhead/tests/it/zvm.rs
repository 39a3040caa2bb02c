//! MONWRITE files as recordings. The data of a made-up system is read back, and damage is reported
//! with its position.

use model::{
    GuestField as G, GuestIdentity, HostField as H, Moment, ProcessField as P, ProcessName, Row,
};
use sim::zvm::{HAS_SECOND_CPU, INTERVAL_MS, LOGS_OFF, System};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use store::{Keep, Recorder, Records, Span};
use zmon::hypfs::{Guest, guests_bytes};
use zmon::tree::{self, Tree};
use zmon::{Tod, to_ebcdic};

const BEGIN_MS: i64 = 1_763_942_400_000;
const INTERVALS: usize = 90;
const GUESTS: usize = 12;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("pinhead-zvm-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        Dir(dir)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a file");
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pinhead"))
        .args(words)
        .env("TZ", "UTC")
        .output()
        .expect("it runs")
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns a file, and the state of the system at the file's end.
fn file() -> (Vec<u8>, System) {
    let mut system = System::new(16, GUESTS, 3);
    let bytes = (0..INTERVALS).flat_map(|_| system.interval(BEGIN_MS)).collect();
    (bytes, system)
}

#[test]
fn imported_recordings_match_the_system() {
    let dir = Dir::new("truth");
    let (bytes, system) = file();
    // MONWRITE ends a file each hour and begins the next, so the data is split into two files.
    let half = bytes.len() / 2 / 4_096 * 4_096;
    let files = [dir.file("one", &bytes[..half]), dir.file("two", &bytes[half..])];
    let to = dir.0.join("recordings");
    let [one, two] = files.each_ref().map(|path| path.to_str().expect("text"));
    let output = run(&["zvm", "import", one, two, "--to", to.to_str().expect("text")]);
    assert!(output.status.success(), "{}", said(&output));
    let told = said(&output);
    let line = format!("{INTERVALS} intervals from 2025-11-24 00:01");
    assert!(told.contains(&line) && told.contains("12 guests at most"), "{told}");

    let records = Records::open(&to).expect("recordings");
    // The counters begin with the first sample, so no earlier value is known.
    let (from_ms, to_ms) = (BEGIN_MS + INTERVAL_MS, BEGIN_MS + INTERVAL_MS * INTERVALS as i64);
    let step_ms = INTERVAL_MS;
    let found = records.intervals(from_ms, to_ms, step_ms).expect("intervals");
    assert_eq!(found.len(), INTERVALS - 1);
    let span = Span { from_ms, to_ms, step_ms };
    let processes = records.processes(span, &[P::Run]).expect("processes");
    let mut before = System::new(16, GUESTS, 3);
    before.interval(BEGIN_MS);
    let first = before.guests.clone();
    before.interval(BEGIN_MS);
    // The second CPU appears with the second interval.
    let second_ms = before.guests[HAS_SECOND_CPU].second_ms;
    for (number, (truth, first)) in system.guests.iter().zip(&first).enumerate() {
        let who = found[0].guests.keys().find(|who| who.name == truth.name).expect("a guest");
        let grown = |field| -> u64 {
            let there = found.iter().filter_map(|one| one.guests.get(who));
            there.map(|over| over.get(field).expect("it is recorded")).sum()
        };
        let ms = |now: u64, then: u64| (now - then) * 1_000_000;
        let second = if number == HAS_SECOND_CPU { ms(truth.second_ms, second_ms) } else { 0 };
        let total = ms(truth.total_ms, first.total_ms) + second;
        assert_eq!(grown(G::VcpuRun), total, "{}", truth.name);
        assert_eq!(grown(G::VcpuGuest), ms(truth.virtual_ms, first.virtual_ms));
        assert_eq!(grown(G::MajorFaults), u64::from(truth.page_waits - first.page_waits));
        assert_eq!(grown(G::OwnBusy), u64::from(truth.busy_ticks - first.busy_ticks));
        assert_eq!(grown(G::OwnReceived), truth.received - first.received);
        let ran: u64 = processes[who].values().filter_map(|over| over.get(P::Run)).sum();
        assert_eq!(ran, (truth.process_time - first.process_time) * 10_000_000, "{}", truth.name);
    }
    let gone = &system.guests[LOGS_OFF.0].name;
    let is_there = |one: &model::Interval| one.guests.keys().any(|who| who.name == *gone);
    let times = found.iter().filter(|one| is_there(one)).count();
    assert_eq!(times, LOGS_OFF.1 as usize - 2, "a logged-off user is gone");
    let seconds = (INTERVALS as u64 - 1) * 60;
    let host = |field| -> u64 { found.iter().filter_map(|one| one.host.get(field)).sum() };
    assert_eq!(host(H::Guest), seconds * 450_000_000);
    assert_eq!(host(H::Idle), seconds * 450_000_000);
    assert_eq!(found[0].host.get(H::Total), Some(4 << 30));

    // Every report on hosts and guests has an answer.
    let dir = to.to_str().expect("text");
    for report in ["MAIN", "GUEST1", "GUEST2", "STATE", "QUEUE", "STORE1", "PROC", "LNXS", "HDR"] {
        let words = [
            "report",
            report,
            "--dir",
            dir,
            "--from",
            "2025-11-24 00:01",
            "--to",
            "2025-11-24 01:30",
        ];
        let output = run(&words);
        assert!(output.status.success(), "{report}: {}", said(&output));
        let text = said(&output);
        if ["GUEST1", "PROC"].contains(&report) {
            assert!(text.contains("LINUX000") && text.contains("LINUX011"), "{report}: {text}");
        }
    }
}

#[test]
fn broken_file_is_reported_with_place_and_rest_is_read() {
    let dir = Dir::new("broken");
    let (bytes, _) = file();
    let import = |name: &str, bytes: &[u8]| {
        let path = dir.file(name, bytes);
        let to = dir.0.join(format!("{name}-recordings"));
        let words =
            ["zvm", "import", path.to_str().expect("text"), "--to", to.to_str().expect("text")];
        (run(&words), to)
    };
    let (cut, _) = import("cut", &bytes[..bytes.len() / 2 + 1_000]);
    let told = said(&cut);
    assert!(cut.status.success() && told.contains("the file ends"), "{told}");
    let lost = [&bytes[..4_096 * 40], &bytes[4_096 * 41..]].concat();
    let (lost, _) = import("lost", &lost);
    assert!(lost.status.success() && said(&lost).contains("at byte"), "{}", said(&lost));
    // A file of another kind leaves no directory behind.
    for (name, bytes) in [("empty", &b""[..]), ("text", &b"hello\n".repeat(5_000)[..])] {
        let (output, to) = import(name, bytes);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("Check that MONWRITE wrote this"), "{}", said(&output));
        let left: Vec<_> = fs::read_dir(&dir.0)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .filter(|entry| entry.contains(&format!("{name}-recordings")))
            .collect();
        assert!(!to.exists() && left.is_empty(), "{left:?}");
    }
    // An import into an existing directory fails, so that recordings are never mixed.
    let (again, _) = import("cut", &bytes);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("exists already"), "{}", said(&again));
}

#[test]
fn the_levels_above_are_shown_with_what_bounds_the_cpus() {
    let dir = Dir::new("capacity");
    let text = "Type: 8561\nCPUs Configured: 12\nLPAR Name: LP1\nLPAR CPUs Configured: 6\n\
                VM00 Name: LINUX01\nVM00 Control Program: z/VM    7.3.0\nVM00 CPUs Configured: 3\n";
    let path = dir.file("sysinfo", text.as_bytes());
    let output = run(&["capacity", "--sysinfo", path.to_str().expect("text")]);
    let told = said(&output);
    assert!(
        told.contains("At most 3 CPUs, because LINUX01 under z/VM 7.3.0 has no more"),
        "{told}"
    );
    // According to STHYI the guest has two and a half of the LPAR's four CPUs.
    let mut page = vec![0_u8; 4096];
    page[12..20].copy_from_slice(&[0, 0, 0, 0, 0, 48, 0, 56]);
    page[48 + 2] = 0xa0;
    page[48 + 10..48 + 12].copy_from_slice(&[0, 4]);
    page[48 + 36..48 + 40].copy_from_slice(&[0, 2, 0x80, 0]);
    let sthyi = |bytes: &[u8]| {
        let (path, page) = (path.to_str().expect("text"), dir.file("sthyi", bytes));
        run(&["capacity", "--sysinfo", path, "--sthyi", page.to_str().expect("text")])
    };
    let told = said(&sthyi(&page));
    assert!(told.contains("At most 2.5 CPUs, because the LPAR LP1 has this cap"), "{told}");
    let cut = sthyi(&page[..60]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(
        said(&cut).contains("not a response of STHYI") && said(&cut).contains("60"),
        "{}",
        said(&cut)
    );
    let missing = run(&["capacity", "--sysinfo", "/nowhere"]);
    assert!(said(&missing).contains("only s390x kernels have it"), "{}", said(&missing));
}

/// Returns a STHYI response with an LPAR in a group with 12 IFLs, z/VM, and LINUX1 with 4 of the
/// IFLs in a pool.
fn sthyi_of_linux1(group_cap: [u8; 4], pool_cap: [u8; 4]) -> Vec<u8> {
    let mut page = vec![0_u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(7, &[1]);
    put(8, &[1, 24, 0, 48, 0, 48, 0, 64, 0, 112, 0, 56, 0, 168, 0, 48, 0, 216, 0, 64]);
    put(48 + 2, &[0x80]);
    put(48 + 8, &[0, 12]);
    put(112 + 2, &[0x98]);
    put(112 + 10, &[0, 12]);
    put(112 + 16, &to_ebcdic::<8>("L16"));
    put(112 + 40, &to_ebcdic::<8>("GRP1"));
    put(112 + 52, &group_cap);
    put(168 + 8, &to_ebcdic::<8>("ZVM1"));
    put(168 + 28, &[0, 12]);
    put(216 + 4, &to_ebcdic::<8>("LINUX1"));
    put(216 + 24, &[0, 4]);
    put(216 + 40, &to_ebcdic::<8>("POOL1"));
    put(216 + 52, &pool_cap);
    page
}

#[test]
fn report_g01_capacity_counts_cpus_for_linux() {
    let dir = Dir::new("ifl");
    let text = "Type: 2964\nCPUs Configured: 0\nLPAR Name: L16\nLPAR Characteristics: Shared \
                Limited\nLPAR CPUs Configured: 12\nVM00 Name: LINUX1\n\
                VM00 Control Program: z/VM    6.4.0\nVM00 CPUs Configured: 4\n";
    let path = dir.file("sysinfo", text.as_bytes());
    let told = said(&run(&["capacity", "--sysinfo", path.to_str().expect("text")]));
    assert!(told.contains("At most 4 CPUs, because LINUX1 under z/VM 6.4.0"), "{told}");
    assert!(told.contains("counts only general CPUs"), "{told}");
    assert!(told.contains("The LPAR L16 is capped by its weight: --sthyi"), "{told}");
    let page = dir.file("sthyi", &sthyi_of_linux1([0; 4], [0; 4]));
    let (path, page) = (path.to_str().expect("text"), page.to_str().expect("text"));
    let told = said(&run(&["capacity", "--sysinfo", path, "--sthyi", page]));
    assert!(told.contains("At most 4 CPUs") && !told.contains("general"), "{told}");
}

#[test]
fn report_g02_capacity_names_the_group_or_the_pool() {
    let dir = Dir::new("caps");
    let told = |page: &[u8]| {
        let page = dir.file("page", page);
        let page = page.to_str().expect("text");
        said(&run(&["capacity", "--sysinfo", "/nowhere", "--sthyi", page]))
    };
    let group = told(&sthyi_of_linux1([0, 2, 0, 0], [0; 4]));
    assert!(group.contains("At most 2 CPUs, because the LPAR group GRP1 has this cap"), "{group}");
    let pool = told(&sthyi_of_linux1([0; 4], [0, 1, 0x80, 0]));
    assert!(pool.contains("At most 1.5 CPUs, because the pool POOL1 has this cap"), "{pool}");
    let none = told(&sthyi_of_linux1([0; 4], [0; 4]));
    assert!(none.contains("At most 4 CPUs, because the guest LINUX1 has no more"), "{none}");
}

#[test]
fn report_g03_capacity_compares_threads_with_threads() {
    let dir = Dir::new("threads");
    let text = |cpus: u8| {
        let text = format!(
            "LPAR Name: LP12\nLPAR CPUs Configured: 8\nLPAR CPUs S-MTID: 1\n\
             LPAR CPUs PS-MTID: 1\nVM00 Name: guest1\nVM00 Control Program: KVM/Linux\n\
             VM00 CPUs Configured: {cpus}\n"
        );
        let path = dir.file("sysinfo", text.as_bytes());
        said(&run(&["capacity", "--sysinfo", path.to_str().expect("text")]))
    };
    let guest = text(12);
    assert!(guest.contains("At most 12 CPUs, because guest1 under KVM/Linux"), "{guest}");
    assert!(
        guest.contains("The LPAR and the levels above it count cores of 2 CPUs each"),
        "{guest}"
    );
    let lpar = text(20);
    assert!(lpar.contains("At most 16 CPUs (8 cores), because the LPAR LP12"), "{lpar}");
}

#[test]
fn report_g04_capacity_says_that_the_call_failed() {
    let dir = Dir::new("zeros");
    let page = dir.file("zeros", &[0; 4096]);
    let page = page.to_str().expect("text");
    let output = run(&["capacity", "--sysinfo", "/nowhere", "--sthyi", page]);
    assert_eq!(output.status.code(), Some(2));
    let told = said(&output);
    assert!(told.contains("zeros is empty") && told.contains("s390_sthyi failed"), "{told}");
}

/// Records ten minutes of three guests, as a manager of KVM guests does.
fn recorded(dir: &Dir) -> PathBuf {
    let to = dir.0.join("kvm");
    let mut recorder = Recorder::new(&to, Keep::USUAL);
    for second in 0..=600_u64 {
        let mut host = Row::default();
        host.extend([
            (H::Cpus, Some(2)),
            (H::User, Some(second * 100_000_007)),
            (H::System, Some(second * 50_000_003)),
            (H::Idle, Some(second * 1_850_000_000)),
            (H::Total, Some(8 << 30)),
            (H::Available, Some((4 << 30) + second * 4_096)),
            (H::Guests, Some(3)),
        ]);
        let mut moment =
            Moment { at_ms: BEGIN_MS + second as i64 * 1_000, host, ..Moment::default() };
        for (number, name) in ["web1", "web-server-1", "web-server-2"].into_iter().enumerate() {
            let who = GuestIdentity { name: name.into(), ..GuestIdentity::default() };
            let number = number as u64 + 1;
            let mut row = Row::default();
            row.extend([
                (G::Vcpus, Some(number)),
                (G::VcpuRun, Some(second * number * 12_345_679)),
                (G::OtherRun, Some(second * 1_000_001)),
                (G::Resident, Some(number << 26)),
                (G::Private, Some(number << 25)),
                (G::MajorFaults, Some(second / 7)),
                (G::OwnTotal, Some(96 << 20)),
                (G::OwnFree, Some(7 << 20)),
                (G::OwnBusy, Some(second * number)),
                (G::OwnIdle, Some(second * (100 - number))),
                (G::OwnSteal, Some(second)),
                (G::OwnLoad, Some(150)),
                (G::OwnReceived, Some(second * 1_000)),
            ]);
            moment.guests.insert(who.clone(), row);
            let mut process = Row::default();
            process.extend([
                (P::Count, Some(2)),
                (P::User, Some(second * 10_000_000)),
                (P::System, Some(second * 10_000_000)),
                (P::Resident, Some(3 << 20)),
            ]);
            let name = ProcessName { name: "nginx".into(), pid: 0 };
            moment.processes.insert(who, [(name, process)].into());
        }
        assert!(recorder.record(&moment).is_none(), "the moment is on disk");
    }
    recorder.close().expect("it ends");
    to
}

#[test]
fn exported_and_imported_recordings_match_the_original() {
    let dir = Dir::new("export");
    let kvm = recorded(&dir);
    let file = dir.0.join("monwrite");
    let text = |path: &PathBuf| path.to_str().expect("text").to_owned();
    let output = run(&["zvm", "export", &text(&file), "--dir", &text(&kvm)]);
    let told = said(&output);
    assert!(output.status.success() && told.contains("10 intervals in"), "{told}");
    // Names in z/VM have eight letters, and each guest gets a different name.
    for line in
        ["web1 has the user name WEB1", "web-server-1 has the user name WEB-SERV", "name WEB-SER2"]
    {
        assert!(told.contains(line), "{told}");
    }
    let again = run(&["zvm", "export", &text(&file), "--dir", &text(&kvm)]);
    assert_eq!(again.status.code(), Some(2), "an existing file is left alone");
    let zvm = dir.0.join("zvm");
    let output = run(&["zvm", "import", &text(&file), "--to", &text(&zvm)]);
    assert!(output.status.success(), "{}", said(&output));

    let intervals = |dir: &PathBuf| {
        let records = Records::open(dir).expect("recordings");
        let to_ms = BEGIN_MS + 600_000;
        records.intervals(BEGIN_MS, to_ms, INTERVAL_MS).expect("intervals")
    };
    let (before, after) = (intervals(&kvm), intervals(&zvm));
    assert_eq!((before.len(), after.len()), (10, 10));
    let users = [("web1", "WEB1"), ("web-server-1", "WEB-SERV"), ("web-server-2", "WEB-SER2")];
    for (was, is) in before.iter().zip(&after) {
        for field in [H::Cpus, H::User, H::System, H::Idle, H::Total, H::Guests] {
            assert_eq!(is.host.get(field), was.host.get(field), "{field:?}");
        }
        for (guest, user) in users {
            let of = |all: &model::Interval, name: &str| {
                let found = all.guests.iter().find(|(who, _)| who.name == name);
                found.unwrap_or_else(|| panic!("no {name}")).1.clone()
            };
            let (was, is) = (of(was, guest), of(is, user));
            // A guest's total time includes CP's work for the guest.
            let all = was.get(G::VcpuRun).zip(was.get(G::OtherRun)).map(|(run, other)| run + other);
            assert_eq!(is.get(G::VcpuRun), all);
            let same = [
                G::Vcpus,
                G::Resident,
                G::MajorFaults,
                G::OwnTotal,
                G::OwnFree,
                G::OwnBusy,
                G::OwnIdle,
                G::OwnSteal,
                G::OwnReceived,
            ];
            for field in same {
                assert_eq!(is.get(field), was.get(field), "{guest} {field:?}");
            }
        }
    }
    let processes = |dir: &PathBuf, field| -> u64 {
        let records = Records::open(dir).expect("recordings");
        let span = Span { from_ms: BEGIN_MS, to_ms: BEGIN_MS + 600_000, step_ms: INTERVAL_MS };
        let found = records.processes(span, &[P::User, P::System, P::Run]).expect("processes");
        found.values().flat_map(|all| all.values()).filter_map(|over| over.get(field)).sum()
    };
    let was = processes(&kvm, P::User) + processes(&kvm, P::System);
    assert_eq!(processes(&zvm, P::Run), was);
}

/// Returns the device's output for a file. Each entry precedes the bytes that it describes.
fn as_read(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let entries: Vec<&[u8]> =
            file[at + 40..at + 4_096].chunks(12).take_while(|entry| entry[0] != 0).collect();
        at += 4_096;
        for entry in entries {
            let word = |from: usize| {
                u32::from_be_bytes(entry[from..from + 4].try_into().expect("four bytes"))
            };
            bytes.extend(entry);
            bytes.extend(&file[at..at + (word(8) - word(4)) as usize + 1]);
            at += 4_096;
        }
    }
    bytes
}

#[test]
fn device_and_hypervisor_files_are_recorded() {
    let dir = Dir::new("live");
    let mut system = System::new(5, 2, 1);
    let file: Vec<u8> = (0..4).flat_map(|_| system.interval(BEGIN_MS)).collect();
    let text = |path: &PathBuf| path.to_str().expect("text").to_owned();
    let device = dir.file("monreader", &as_read(&file));
    let to = dir.0.join("recordings");
    let output = run(&["zvm", "read", "--device", &text(&device), "--to", &text(&to)]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("4 intervals, 2 guests at most"), "{}", said(&output));
    let records = Records::open(&to).expect("recordings");
    let to_ms = BEGIN_MS + 4 * INTERVAL_MS;
    let found = records.intervals(BEGIN_MS, to_ms, INTERVAL_MS).expect("intervals");
    assert_eq!(found.iter().filter(|one| one.guests.len() == 2).count(), 3);

    let hypfs = dir.0.join("hypfs");
    fs::create_dir_all(&hypfs).expect("a directory");
    let guest = Guest { name: to_ebcdic("LINUX01"), used_us: 5, ..Guest::default() };
    fs::write(hypfs.join("diag_2fc"), guests_bytes(&[guest], Tod(0))).expect("a file");
    let to = dir.0.join("users");
    let words = ["zvm", "hypfs", "--from", &text(&hypfs), "--to", &text(&to), "--every", "1s"];
    let output = run(&[&words[..], &["--times", "2"]].concat());
    assert!(said(&output).contains("2 times, 1 guest at most"), "{}", said(&output));
    assert!(Records::open(&to).expect("recordings").extent().expect("read").is_some());
    fs::write(hypfs.join("diag_2fc"), b"short").expect("a file");
    let output = run(&[&words[..], &["--times", "1"]].concat());
    assert!(said(&output).contains("diag_2fc: GuestsHead has 5 bytes"), "{}", said(&output));
    fs::remove_dir_all(&hypfs).expect("it was there");
    let guest = Guest { name: to_ebcdic("LINUX01"), used_us: 5, ..Guest::default() };
    for (path, text) in tree::write(&Tree::Guests(vec![guest])) {
        let path = hypfs.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let output = run(&[&words[..], &["--times", "1"]].concat());
    assert!(said(&output).contains("1 time, 1 guest at most"), "{}", said(&output));
    fs::write(hypfs.join("systems/LINUX01/cpus/count"), "many").expect("a file");
    let output = run(&[&words[..], &["--times", "1"]].concat());
    assert!(said(&output).contains("systems/LINUX01/cpus/count has `many`"), "{}", said(&output));
    let output = run(&["zvm", "read", "--device", "/nowhere", "--to", &text(&to)]);
    assert!(said(&output).contains("IUCV *MONITOR"), "{}", said(&output));
}
