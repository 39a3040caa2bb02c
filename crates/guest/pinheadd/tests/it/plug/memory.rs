//! The pool, the balloon and the undo record.

use std::error::Error as _;
use std::fs;

use base::Pages;
use pinheadd::plug::{CmmPool, Cpus, Error, Pool, UndoRecord, balloon_deflates_on_oom, boot_id};
use procfs::testing::{BOOT_ID, FakeKernel};

#[test]
fn the_pool_is_read_and_written() {
    let kernel = FakeKernel::s390x(1, 1, 123_456);
    let mut pool = CmmPool::find(&kernel.root()).unwrap();
    assert_eq!(pool.size().unwrap(), Pages(123_456));
    pool.request(Pages(7)).unwrap();
    assert_eq!(kernel.read("proc/sys/vm/cmm_pages"), "7\n");
    assert_eq!(pool.size().unwrap(), Pages(7));
}

#[test]
fn a_kernel_without_a_pool_has_none() {
    assert!(CmmPool::find(&FakeKernel::new(1, 1).root()).is_none());
}

#[test]
fn a_pool_that_fails_says_so_and_recovers() {
    let kernel = FakeKernel::s390x(1, 1, 5);
    let mut pool = CmmPool::find(&kernel.root()).unwrap();
    let path = pool.path().to_path_buf();
    kernel.write("proc/sys/vm/cmm_pages", "many\n");
    assert!(matches!(pool.size(), Err(Error::Malformed { .. })));
    kernel.break_file("proc/sys/vm/cmm_pages");
    let error = pool.request(Pages(9)).unwrap_err();
    assert_eq!(error.to_string(), format!("Cannot write 9 to {}", path.display()));
    assert!(error.source().is_some());
    let mut pool = CmmPool::find(&kernel.root()).unwrap();
    assert!(matches!(pool.size(), Err(Error::Read { .. })));
    kernel.remove("proc/sys/vm/cmm_pages");
    assert!(matches!(pool.request(Pages(9)), Err(Error::Write { .. })));
    assert!(!path.exists(), "a request makes no file");
    kernel.write("proc/sys/vm/cmm_pages", "6\n");
    assert_eq!(pool.size().unwrap(), Pages(6));
}

#[test]
fn the_features_of_the_balloon_are_distinguished() {
    let kernel = FakeKernel::new(1, 1);
    let driver = "sys/bus/virtio/drivers/virtio_balloon";
    let deflates = || balloon_deflates_on_oom(&kernel.root());
    assert_eq!(deflates(), None);
    kernel.write(&format!("{driver}/bind"), "");
    assert_eq!(deflates(), None);
    kernel.write(&format!("{driver}/virtio3/features"), "0010010000000000\n");
    assert_eq!(deflates(), Some(true));
    kernel.write(&format!("{driver}/virtio3/features"), "01\n");
    assert_eq!(deflates(), Some(false));
    for bad in ["", "0010x\n"] {
        kernel.write(&format!("{driver}/virtio3/features"), bad);
        assert_eq!(deflates(), None, "{bad:?}");
    }
}

fn record(pool: Option<u64>) -> UndoRecord {
    let cpus = [0, 1, 3].into_iter().collect();
    UndoRecord { boot_id: BOOT_ID.into(), cpus, pool: pool.map(Pages) }
}

#[test]
fn a_record_survives_the_daemon() {
    let kernel = FakeKernel::new(1, 4);
    let path = kernel.path("undo");
    assert_eq!(boot_id(&kernel.root()).unwrap(), BOOT_ID);
    assert_eq!(UndoRecord::load(&kernel.root(), &path).unwrap(), None);
    for pool in [None, Some(0), Some(4096)] {
        record(pool).save(&path).unwrap();
        assert_eq!(UndoRecord::load(&kernel.root(), &path).unwrap(), Some(record(pool)));
    }
    assert_eq!(
        kernel.read("undo"),
        format!("pinhead-undo 1\nboot {BOOT_ID}\ncpus 0-1,3\npool 4096\nend\n")
    );
    assert!(!kernel.path("undo.new").exists());
    UndoRecord::remove(&path).unwrap();
    UndoRecord::remove(&path).unwrap();
    assert_eq!(UndoRecord::load(&kernel.root(), &path).unwrap(), None);
}

#[test]
fn a_record_of_another_boot_is_not_ours() {
    let kernel = FakeKernel::new(1, 4);
    let path = kernel.path("undo");
    let mut foreign = record(None);
    foreign.boot_id = "ffffffff-0000".into();
    foreign.save(&path).unwrap();
    let error = UndoRecord::load(&kernel.root(), &path).unwrap_err();
    assert!(matches!(error, Error::ForeignRecord { boot_id, .. } if boot_id == foreign.boot_id));
    kernel.write("proc/sys/kernel/random/boot_id", "\x1b[2J\n");
    assert!(matches!(UndoRecord::load(&kernel.root(), &path), Err(Error::Malformed { .. })));
    kernel.remove("proc/sys/kernel/random/boot_id");
    assert!(matches!(UndoRecord::load(&kernel.root(), &path), Err(Error::Read { .. })));
}

#[test]
fn cut_or_changed_record_is_refused_or_means_itself() {
    let text = record(Some(4096)).to_string().into_bytes();
    for cut in 0..text.len() {
        assert!(UndoRecord::parse(&text[..cut]).is_err(), "cut at {cut}");
    }
    let mut taken = 0;
    for at in 0..text.len() {
        for byte in 0..=255 {
            let mut changed = text.clone();
            changed[at] = byte;
            if let Ok(record) = UndoRecord::parse(&changed) {
                assert_eq!(record.to_string().as_bytes(), changed);
                taken += usize::from(changed != text);
            }
        }
    }
    // The changed records that are valid have another digit in the boot id, other CPUs or another
    // size. Much more valid records would mean that a part of the record is not checked.
    assert!((36 * 22..1000).contains(&taken), "{taken}");
}

#[test]
fn the_error_of_a_bad_record_has_its_line() {
    let kernel = FakeKernel::new(1, 4);
    let path = kernel.path("undo");
    let good = record(Some(1)).to_string();
    for (text, expect) in [
        (String::new(), 1),
        (good.replace("undo 1", "undo 2"), 1),
        (good.replace(BOOT_ID, ""), 2),
        (good.replace(BOOT_ID, &"0".repeat(65)), 2),
        (good.replace("0-1,3", ""), 3),
        (good.replace("0-1,3", "3-1"), 3),
        (good.replace("0-1,3", "0,1,3"), 3),
        (good.replace("pool 1", "pool 01"), 4),
        (good.replace("pool 1", "pool 18446744073709551616"), 4),
        (good.replace("pool 1", "pool -1"), 4),
        (good.replace("end", "end."), 5),
        (format!("{good}\n"), 6),
        (format!("{good}more"), 6),
        ("x".repeat(1 << 20), 1),
    ] {
        kernel.write("undo", &text);
        let error = UndoRecord::load(&kernel.root(), &path).unwrap_err();
        assert!(matches!(error, Error::BadRecord { line, .. } if line == expect), "{error}");
    }
}

#[test]
fn a_record_that_cannot_be_saved_leaves_the_old_one() {
    let kernel = FakeKernel::new(1, 4);
    let path = kernel.path("undo");
    record(Some(1)).save(&path).unwrap();
    kernel.break_file("undo.new");
    let error = record(Some(2)).save(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("Cannot write the undo record to {}", path.display()));
    assert_eq!(UndoRecord::load(&kernel.root(), &path).unwrap(), Some(record(Some(1))));
    kernel.remove("undo.new");
    // The destination is a directory, which a rename cannot replace.
    kernel.break_file("undo");
    fs::write(path.join("something"), "").unwrap();
    assert!(matches!(record(Some(2)).save(&path), Err(Error::Write { .. })));
    assert!(!kernel.path("undo.new").exists(), "nothing half-done stays");
    assert!(matches!(UndoRecord::remove(&path), Err(Error::Write { .. })));
    assert!(record(None).save(&kernel.path("no/such/directory")).is_err());
}

#[test]
fn the_whole_guest_is_restored_as_far_as_it_goes() {
    let kernel = FakeKernel::s390x(1, 4, 9000);
    let cpus = Cpus::new(&kernel.root());
    let mut pool = CmmPool::find(&kernel.root()).unwrap();
    let errors = record(Some(44)).undo(&cpus, Some(&mut pool));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(kernel.online(), [0, 1, 3]);
    assert_eq!(pool.size().unwrap(), Pages(44));

    kernel.settle();
    kernel.break_file("proc/sys/vm/cmm_pages");
    let mut to_all = record(Some(45));
    to_all.cpus = (0..4).collect();
    let errors = to_all.undo(&cpus, Some(&mut pool));
    assert!(matches!(errors[..], [Error::Write { .. }]), "{errors:?}");
    assert_eq!(kernel.online(), [0, 1, 2, 3], "the CPUs came all the same");
    assert!(record(None).undo(&cpus, None).is_empty());
}
