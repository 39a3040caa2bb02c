//! Targets for the parts of guest images: apt's sources and answers, kernels and their modules,
//! disks, and the records of the image cache.

use vm::images::apt::ListedFile;
use vm::images::sources::{one_line_entries, stanza_entries};
use vm::images::{Header, Record, depends, libraries, unwrap_kernel};

/// Filters the system's sources. A second filtering must change nothing. The result must have no
/// option that makes apt accept unsigned packages.
pub(crate) fn apt_sources(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = one_line_entries(&text);
    assert_eq!(one_line_entries(&lines), lines);
    for line in lines.lines() {
        let rest = line.strip_prefix("deb ").expect("an entry");
        let options = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let options = options.map_or("", |(options, _)| options);
        assert_eq!(line.matches('[').count(), usize::from(!options.is_empty()), "{line}");
        assert!(options.split_ascii_whitespace().all(is_kept), "{line}");
    }
    let stanzas = stanza_entries(&text);
    assert_eq!(stanza_entries(&stanzas), stanzas);
    for line in stanzas.lines().filter(|line| !line.starts_with([' ', '\t'])) {
        let field = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        let place = ["", "types", "uris", "suites", "components"];
        assert!(place.contains(&&*field) || is_kept(&field), "{line}");
    }
}

fn is_kept(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or_default();
    ["signed-by", "inrelease-path", "by-hash"].contains(&name)
}

/// Parses apt's list of files. A name must be a plain file name of a package, and a digest must
/// have 64 characters.
pub(crate) fn apt_files(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for file in text.lines().filter_map(ListedFile::parse) {
        assert!(file.name.ends_with(".deb") && !file.name.contains('/'));
        assert!(!file.name.starts_with(['-', '.']) && file.sha256.len() == 64);
    }
}

/// Reads a record of the image cache. An accepted record must be the same when it is written and
/// read again. The names of its packages must be ASCII.
pub(crate) fn cache_record(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Record::parse(&text) {
        Ok(record) => {
            let packages = record.packages.iter();
            assert!(packages.flat_map(|(a, b)| [a, b]).all(|word| word.is_ascii()));
            assert_eq!(Record::parse(&record.text()), Ok(record));
        }
        Err(reason) => assert!(reason.starts_with("line "), "{reason}"),
    }
}

/// Unpacks a compressed kernel. The result must look like a kernel.
pub(crate) fn kernel_image(data: &[u8]) {
    if let Some(kernel) = unwrap_kernel(data) {
        assert!(kernel.starts_with(b"\x7fELF"));
    }
}

/// Parses a module or a program. The names of the required modules together must fit into the file.
/// The file must be at least sixteen bytes long for each library name.
pub(crate) fn kernel_module(data: &[u8]) {
    let names = depends(data).unwrap_or_default();
    assert!(names.iter().map(|name| name.len() + 1).sum::<usize>() <= data.len());
    assert!(libraries(data).unwrap_or_default().len() <= data.len() / 16);
}

/// Parses the header of a disk. The names found must occur in the file.
pub(crate) fn qcow2(data: &[u8]) {
    let Ok(header) = Header::parse(data) else { return };
    assert!(header.backing.is_some() || header.format.is_none());
    assert!(header.backing.as_ref().is_none_or(|name| name.len() <= 1023));
    for text in header.backing.iter().chain(&header.format).filter(|text| !text.is_empty()) {
        assert!(data.windows(text.len()).any(|part| part == text.as_bytes()));
    }
}
