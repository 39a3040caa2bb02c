//! Targets for farms: their files, their tables, and the output of a guest's control port.

use crate::input::stand_in;
use ::farm::config::parse;
use manager::control::{Answer, decode_answer};
use pinhead::args::Format;
use pinhead::listing::ListingArgs;
use vm::Mark;
use vm::parkfile;

/// Reads a `FARM.toml`. In an accepted file, no two guests share a name, and no two guests share a
/// port of the host. A refused file has errors with positions in the text.
pub(crate) fn farm_toml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, "stem") {
        Ok(farm) => {
            assert!((1..=2000).contains(&farm.guests()) && !farm.name.is_empty());
            let mut names = std::collections::HashSet::new();
            let mut ports = std::collections::HashSet::new();
            for class in &farm.classes {
                assert!(class.memory_min_mib.is_none_or(|min| min <= class.memory_mib));
                for number in 1..=class.count {
                    assert!(names.insert(class.guest_name(number)), "two guests of one name");
                    for port in &class.ports {
                        let host = class.host_port(port, number);
                        assert!(host > 0 && ports.insert(host), "two guests at port {host}");
                    }
                }
            }
            for link in farm.links() {
                assert!(link.client != link.server, "a guest linked with itself");
                assert!([link.client, link.server].iter().all(|n| (1..=farm.guests()).contains(n)));
            }
        }
        Err(faults) => stand_in(text, &faults),
    }
}

/// Checks that the end of a guest's command is found at the same place for every split of its
/// output. The first byte selects the split.
pub(crate) fn farm_exec(data: &[u8]) {
    let Some((cut, words)) = data.split_first() else { return };
    let whole = end_of(words, words.len().max(1));
    assert_eq!(end_of(words, usize::from(*cut).max(1)), whole);
    let (text, end, used) = whole;
    assert!(used <= words.len() && text.len() <= used);
    assert!(end.is_some() || used == words.len());
    assert!(words.starts_with(&text));
}

/// Returns a command's output, the end of the command if found, and the number of bytes that belong
/// to the command.
fn end_of(words: &[u8], piece: usize) -> (Vec<u8>, Option<Option<i32>>, usize) {
    let mut mark = Mark::default();
    let (mut text, mut used) = (Vec::new(), 0);
    for piece in words.chunks(piece) {
        let fed = mark.feed(piece);
        text.extend(fed.text);
        used += fed.used;
        if fed.end.is_some() {
            return (text, fed.end, used);
        }
    }
    (text, None, used)
}

/// Checks that any table of a farm can be printed, even the table of another user's farm.
pub(crate) fn farm_control(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        let Ok((_, Ok(Answer::Farm(table)))) = decode_answer(line) else { continue };
        let listing = ListingArgs::default();
        for (format, width) in
            [(Format::Text, None), (Format::Text, Some(40)), (Format::Json, None)]
        {
            let shown = pinhead::farm_cmds::shown(vec![table.clone()], format, &listing, width);
            let is_shown = |c| base::is_plain(c) || c == '\n';
            assert!(shown.is_ok_and(|text| text.chars().all(is_shown)));
        }
    }
}

/// Reads the file of a parked guest twice: unchanged, and with corrected checksums. The content
/// must be within the limits in the file's header. `check` must accept all complete files and no
/// others.
pub(crate) fn park_file(data: &[u8]) {
    for file in [data.to_vec(), parkfile::with_checksums(data)] {
        let Ok(mut reader) = parkfile::Reader::new(file.as_slice()) else { continue };
        let (pages, page_bytes) = {
            let header = reader.header();
            (header.memory_bytes / header.page_bytes, header.page_bytes)
        };
        let mut next = 0;
        let is_whole = loop {
            match reader.next_part() {
                Ok(None) => break true,
                Err(_) => break false,
                Ok(Some(parkfile::Part::Devices(_))) => {}
                Ok(Some(parkfile::Part::Pages { runs, bytes })) => {
                    for run in &runs {
                        assert!(run.first >= next && run.end() <= pages, "{run:?}");
                        next = run.end();
                    }
                    assert_eq!(base::PageRun::pages(&runs) * page_bytes, bytes.len() as u64);
                }
            }
        };
        assert_eq!(parkfile::check(file.as_slice()).is_ok(), is_whole);
    }
}
