//! Targets for what a guest of z/VM reads of itself to tell the monitor.

use guestmon::{NAME_MAX, Names, ids, mount};
use procfs::parse::lines;

/// Names of accounts, lines of mounts and the owners of a process, all from one text: no name is
/// longer than a record takes, and no text grows by being unescaped.
pub(crate) fn guest_files(data: &[u8]) {
    let names = Names::parse(data);
    for name in [b"Uid:", b"Gid:"] {
        ids(data, name).into_iter().for_each(|id| assert!(names.of(id).len() <= NAME_MAX));
    }
    for line in lines(data) {
        let texts = mount(line).into_iter().flatten();
        assert!(texts.map(|text| text.len()).sum::<usize>() <= line.len());
    }
}
