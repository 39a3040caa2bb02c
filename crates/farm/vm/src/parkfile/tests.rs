use super::*;
use base::PageRun;

const PAGE: u64 = 4096;

fn header() -> Header {
    Header {
        guest: "web1".into(),
        machine: 7,
        memory_bytes: 4096 * PAGE,
        page_bytes: PAGE,
        saved_at_s: 1_790_000_000,
    }
}

const RUNS: [PageRun; 3] = [
    PageRun { first: 1, count: 1 },
    PageRun { first: 10, count: 600 },
    PageRun { first: 4095, count: 1 },
];

fn read(runs: &[PageRun]) -> std::io::Result<Vec<u8>> {
    let pages = runs.iter().flat_map(|run| run.first..run.end());
    Ok(pages.flat_map(|page| [page as u8; PAGE as usize]).collect())
}

fn whole() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    writer.devices(&[5; 3 << 20]).unwrap();
    writer.pages(&RUNS, read).unwrap();
    writer.finish().unwrap()
}

/// Returns a small file, for tests that change each of its bytes.
fn small() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    writer.devices(b"some devices").unwrap();
    writer.pages(&RUNS[..1], read).unwrap();
    writer.finish().unwrap()
}

#[test]
fn written_file_is_read_back() {
    let file = whole();
    assert!(file.len() < 100_000, "{} bytes of what is all alike", file.len());
    assert_eq!(check(file.as_slice()).unwrap(), header());
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let (mut devices, mut pages) = (Vec::new(), Vec::new());
    while let Some(part) = reader.next_part().unwrap() {
        match part {
            Part::Devices(bytes) => devices.extend(bytes),
            Part::Pages { runs, bytes } => {
                assert_eq!(bytes, read(&runs).unwrap());
                pages.extend(runs.iter().flat_map(|run| run.first..run.end()));
            }
        }
    }
    assert_eq!(devices, [5; 3 << 20]);
    assert_eq!(pages, RUNS.iter().flat_map(|run| run.first..run.end()).collect::<Vec<_>>());
    assert!(reader.next_part().unwrap().is_none(), "it stays at its end");
}

#[test]
fn a_file_that_was_cut_or_changed_anywhere_is_none() {
    let file = small();
    for length in 0..file.len() {
        let error = check(&file[..length]).unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{length}: {error}");
    }
    for at in 0..file.len() {
        let mut file = file.clone();
        file[at] ^= 0x10;
        assert!(matches!(check(file.as_slice()), Err(Error::Damaged(_))), "byte {at}");
    }
    let mut longer = file.clone();
    longer.push(0);
    assert!(check(longer.as_slice()).unwrap_err().to_string().contains("behind its end"));
}

#[test]
fn large_pages_fit_into_blocks_too() {
    let page_bytes = 64 << 10;
    let large = Header { memory_bytes: 4096 * page_bytes, page_bytes, ..header() };
    let mut writer = Writer::new(Vec::new(), &large).unwrap();
    let read = |runs: &[PageRun]| Ok(vec![1; (PageRun::pages(runs) * page_bytes) as usize]);
    writer.pages(&RUNS, read).unwrap();
    assert_eq!(check(writer.finish().unwrap().as_slice()).unwrap(), large);
}

#[test]
fn pages_that_cannot_be_are_refused() {
    let behind = PageRun { first: 4095, count: 2 };
    let twice = [PageRun { first: 4, count: 2 }, PageRun { first: 5, count: 1 }];
    let none = PageRun { first: 4, count: 0 };
    for runs in [&[behind][..], &twice, &[PageRun { first: u64::MAX, count: 1 }], &[none]] {
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        // A run without pages is never written, but a damaged file could contain one.
        let mut bytes = (runs.len() as u32).to_le_bytes().to_vec();
        runs.iter().for_each(|run| {
            bytes.extend(run.first.to_le_bytes());
            bytes.extend(run.count.to_le_bytes());
        });
        bytes.extend(vec![0; (PageRun::pages(runs) * PAGE) as usize]);
        writer.raw_pages(&bytes);
        let error = check(writer.finish().unwrap().as_slice()).unwrap_err();
        assert!(error.to_string().contains("impossible page numbers"), "{error}");
    }
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    assert!(writer.pages(&RUNS, |_| Ok(vec![0; 3])).is_err(), "too few bytes");
}

#[test]
fn two_headers_and_an_early_end_are_refused() {
    let file = whole();
    let header_end = Writer::new(Vec::new(), &header()).unwrap().into_parts().len();
    let twice = [&file[..header_end], &file[MAGIC_BYTES..]].concat();
    assert!(check(twice.as_slice()).unwrap_err().to_string().contains("second header"));
    let short = Writer::new(Vec::new(), &header()).unwrap().finish().unwrap();
    let early = [&file[..header_end], &short[header_end..]].concat();
    assert_eq!(check(early.as_slice()).unwrap(), header(), "one without parts is whole");
    let late = [&file[..file.len() - 1 - (file.len() - header_end) / 2]].concat();
    assert!(check(late.as_slice()).is_err());
    let mut other = Writer::new(Vec::new(), &header()).unwrap();
    other.devices(b"x").unwrap();
    let other = other.finish().unwrap();
    let tail = &other[other.len() - (short.len() - header_end)..];
    let early = [&file[..header_end], tail].concat();
    assert!(check(early.as_slice()).unwrap_err().to_string().contains("too early"));
    assert!(check(&b"GIF89a, and more"[..]).unwrap_err().to_string().contains("begin"));
}

const MAGIC_BYTES: usize = block::MAGIC.len();
