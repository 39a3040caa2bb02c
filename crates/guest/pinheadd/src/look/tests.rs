use super::*;
use crate::config::{Extras, load};
use procfs::testing::FakeKernel;

const RULES: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\n\
                     HOTUNPLUG=\"0\"\nCMM_MIN=\"0\"\nCMM_MAX=\"1000\"\nCMM_INC=\"1\"\n\
                     MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

/// Returns the number of read calls of this thread since it started.
fn reads() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let calls = text.lines().find_map(|line| line.strip_prefix("syscr: "));
    calls.unwrap().parse().unwrap()
}

#[test]
fn look_reads_each_file_once() {
    let kernel = FakeKernel::new(2, 4);
    kernel.write("proc/sys/vm/cmm_pages", "0\n");
    kernel.write("rules.conf", RULES);
    let (root, mut log) = (kernel.root(), Log::new(false));
    let path = root.join("rules.conf");
    let extras = Extras { status: false, intervals: false };
    let loaded = load(&path, &root, true, extras, &log).unwrap();
    let cmm = CmmPool::find(&root);
    let mut guest = Guest::new(&root, cmm, &loaded, true, &mut log).unwrap();
    let mut look = |at| {
        guest.look(&loaded, None, &mut log, at);
    };
    look(1.0);
    let counts = [reads(), reads()];
    (2..=4).for_each(|second| look(f64::from(second)));
    let looks = reads() - counts[1] - (counts[1] - counts[0]);
    // The reads are CPUs online, CPUs present, and the pool.
    assert_eq!(looks, 3 * 3);
}
