use super::*;
use procfs::testing::Tree;

const DIR: &str = "sys/kernel/mm/ksm";

fn turn(ksm: &mut Ksm, now_ms: u64) {
    turn_of(ksm, 1, now_ms);
}

fn turn_of(ksm: &mut Ksm, owners: usize, now_ms: u64) {
    let sample = Sample {
        guests: 8,
        owners,
        arrivals: 8,
        available: Bytes::mib(500),
        set_point: Bytes::mib(1000),
        hysteresis: Bytes::mib(100),
        counters: ksm.read(now_ms),
    };
    ksm.drive(&sample, now_ms);
}

fn tree() -> Tree {
    let tree = Tree::create();
    tree.ksm();
    tree.file(&format!("{DIR}/full_scans"), "0\n");
    tree
}

fn driven(tree: &Tree) -> [String; 4] {
    let names = ["advisor_mode", "pages_to_scan", "sleep_millisecs", "run"];
    names.map(|name| tree.read(&format!("{DIR}/{name}")))
}

#[test]
fn ksm_is_driven_and_restored_to_its_former_settings() {
    let tree = tree();
    let mut ksm = Ksm::open(tree.path(), KsmMode::Auto);
    assert_eq!(ksm.take_note(), None);
    turn(&mut ksm, 0);
    assert_eq!(driven(&tree)[0], "none");
    assert_eq!(driven(&tree)[3], "1");
    let row = ksm.row();
    assert_eq!(row.phase, Some(Phase::Hard));
    assert_eq!(row.gain_bytes, Some(2 << 20));
    assert_eq!((row.runs, row.profit_bytes), (Some(true), Some(-4096)));
    assert!(ksm.restore().is_empty());
    assert_eq!(driven(&tree), ["scan-time", "77", "200", "0"]);
}

#[test]
fn saved_settings_reach_the_keeper_and_name_no_other_file() {
    let tree = tree();
    let ksm = Ksm::open(tree.path(), KsmMode::Off);
    let text = serde_json::to_string(ksm.saved().unwrap()).unwrap();
    let saved: Saved = serde_json::from_str(&text).unwrap();
    assert!(saved.put_back(tree.path()).is_empty());
    assert_eq!(driven(&tree), ["scan-time", "77", "200", "0"]);
    let other: Saved = serde_json::from_str(r#"[["../../../../other", "x"]]"#).unwrap();
    assert!(other.put_back(tree.path()).is_empty());
    assert!(!tree.path().join("other").exists());
}

#[test]
fn cost_is_that_of_the_kernels_own_thread() {
    let tree = tree();
    let mut ksm = Ksm::open(tree.path(), KsmMode::Leave);
    turn(&mut ksm, 0);
    tree.file("proc/41/schedstat", "2120000000 5 5\n");
    turn(&mut ksm, 20_000);
    assert_eq!(ksm.row().cost_percent, Some(10.0));
    assert_eq!(driven(&tree)[3], "0\n", "left alone");
    assert!(ksm.saved().is_none());
}

#[test]
fn another_program_that_drives_it_has_it() {
    let tree = tree();
    let mut ksm = Ksm::open(tree.path(), KsmMode::Auto);
    turn(&mut ksm, 0);
    tree.file(&format!("{DIR}/pages_to_scan"), "5000\n");
    turn(&mut ksm, 1000);
    assert!(ksm.take_note().unwrap().contains("Another program"));
    assert_eq!(ksm.take_note(), None, "reported once");
    assert_eq!((ksm.row().driven, ksm.row().phase), (false, None));
    ksm.restore();
    assert_eq!(tree.read(&format!("{DIR}/pages_to_scan")), "5000\n");
}

#[test]
fn a_kernel_without_ksm_is_reported_once() {
    let tree = Tree::create();
    let mut ksm = Ksm::open(tree.path(), KsmMode::Auto);
    assert!(ksm.take_note().unwrap().contains("no KSM"));
    turn(&mut ksm, 0);
    assert_eq!(ksm.take_note(), None);
    let row = ksm.row();
    assert_eq!((row.runs, row.gain_bytes, row.cost_percent), (None, None, None));
}

#[test]
fn finding_11_ksm_stops_with_a_note_when_a_second_user_comes() {
    let tree = tree();
    let mut ksm = Ksm::open(tree.path(), KsmMode::Auto);
    turn(&mut ksm, 0);
    assert_eq!(driven(&tree)[3], "1");
    turn_of(&mut ksm, 2, 1000);
    assert_eq!(driven(&tree)[3], "0", "merged pages stay merged, unlike with 2");
    assert_eq!(ksm.row().phase, Some(Phase::Apart));
    let note = ksm.take_note().unwrap();
    assert!(note.contains("guests of 2 users"), "{note}");
    turn(&mut ksm, 2000);
    assert_eq!(driven(&tree)[3], "1");
    turn_of(&mut ksm, 3, 3000);
    assert_eq!((driven(&tree)[3].as_str(), ksm.take_note()), ("0", None));
}
