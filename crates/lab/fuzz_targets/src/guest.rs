//! Targets for the files that a z/VM guest reads for the monitor.

use pinheadd::guestmon::{NAME_MAX, Names, ids, mount};
use procfs::parse::lines;

/// Reads account names, mount lines and the owners of a process, all from one text. No name may be
/// longer than a record allows, and no text may grow when it is unescaped.
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
