//! Tests of files and streams: complete, truncated at any byte, with swapped pages, and with lost
//! pages.

use zmon::Tod;
use zmon::domain::{Users, record};
use zmon::file::{Gap, Reader, Writer};
use zmon::frame::{END_OF_INTERVAL, FRAME_BYTES, Head};
use zmon::layout::Layout;
use zmon::stream::{Entry, Read, Set, Stream, parts};

const INTERVALS: u32 = 4;
/// Number of records of an interval: more than fit a frame.
const RECORDS: u32 = 200;

/// Returns a file with records numbered from 0.
fn file() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(|page: &[u8]| bytes.extend(page));
    for interval in 0..INTERVALS {
        let at = Tod::of_ms(i64::from(interval) * 60_000).expect("a time");
        let mut records: Vec<Vec<u8>> = (0..RECORDS)
            .map(|number| {
                let users = Users { logged_on: interval * RECORDS + number, dormant: 0 };
                record((0, 8), at, &users)
            })
            .collect();
        records.push(Head::with(END_OF_INTERVAL, at, &[]));
        writer.interval(records.iter().map(Vec::as_slice));
    }
    bytes
}

/// Returns the numbers of the records in a file, and its gaps.
fn read(file: &[u8]) -> (Vec<u32>, Vec<Gap>) {
    let mut reader = Reader::default();
    let mut numbers = Vec::new();
    for page in file.chunks(FRAME_BYTES) {
        reader.page(page, |found| {
            if found.kind == (0, 8) {
                numbers.push(Users::read(found.bytes).expect("users").logged_on);
            }
        });
    }
    (numbers, reader.end())
}

#[test]
fn a_whole_file_gives_every_record_in_its_order() {
    let file = file();
    // One directory page and two frames for each interval.
    assert_eq!(file.len(), INTERVALS as usize * 3 * FRAME_BYTES);
    let (numbers, gaps) = read(&file);
    assert_eq!(numbers, (0..INTERVALS * RECORDS).collect::<Vec<_>>());
    assert_eq!(gaps, []);
}

#[test]
fn cut_file_gives_its_whole_pages_and_the_place_of_the_cut() {
    let file = file();
    let all = read(&file).0;
    for end in (1..file.len()).step_by(61) {
        let (numbers, gaps) = read(&file[..end]);
        assert!(all.starts_with(&numbers), "{end}");
        // A cut between two intervals cannot be detected.
        let is_between = end % (3 * FRAME_BYTES) == 0;
        assert_eq!(gaps.is_empty(), is_between, "{end}: {gaps:?}");
        // All records of whole pages are read.
        let pages = end / FRAME_BYTES;
        let least = read(&file[..pages * FRAME_BYTES]).0.len();
        assert!(numbers.len() >= least, "{end}");
    }
}

#[test]
fn swapped_pages_lose_no_record() {
    let file = file();
    let mut swapped = file.clone();
    let (one, two) = (FRAME_BYTES, 2 * FRAME_BYTES);
    swapped[one..two].copy_from_slice(&file[two..two + FRAME_BYTES]);
    swapped[two..two + FRAME_BYTES].copy_from_slice(&file[one..two]);
    let (mut numbers, gaps) = read(&swapped);
    numbers.sort_unstable();
    assert_eq!(numbers.len(), (INTERVALS * RECORDS) as usize, "{gaps:?}");
    let place = Gap {
        at: two as u64,
        bytes: FRAME_BYTES as u64,
        what: "another page stands in the place of the expected page",
    };
    assert_eq!(gaps, [place]);
}

#[test]
fn lost_page_costs_at_most_its_frames_and_is_reported() {
    let file = file();
    // Directory page of the second interval.
    let at = 3 * FRAME_BYTES;
    let lost = [&file[..at], &file[at + FRAME_BYTES..]].concat();
    let (numbers, gaps) = read(&lost);
    assert_eq!(gaps[0].at, at as u64, "{gaps:?}");
    assert_eq!(gaps[0].what, "a control page is missing");
    assert_eq!(numbers, read(&file).0, "its frames can be read for themselves");
    // A frame of the second interval.
    let at = 4 * FRAME_BYTES;
    let lost = [&file[..at], &file[at + FRAME_BYTES..]].concat();
    let (numbers, gaps) = read(&lost);
    assert!(
        gaps.iter().any(|gap| gap.what == "pages listed in a control page are missing"),
        "{gaps:?}"
    );
    let missing = (INTERVALS * RECORDS) as usize - numbers.len();
    assert!(missing > 0 && missing <= RECORDS as usize, "{missing}");
    // A frame of noise.
    let mut noise = file.clone();
    noise[at..at + FRAME_BYTES].fill(0xff);
    let (numbers, gaps) = read(&noise);
    assert_eq!(
        (gaps.len(), gaps[0].at, gaps[0].what),
        (1, at as u64, "these bytes are not a record")
    );
    assert!(numbers.len() < (INTERVALS * RECORDS) as usize);
}

#[test]
fn a_set_of_the_device_is_handed_out_when_it_is_certain() {
    let at = Tod::of_ms(0).expect("a time");
    let records = record((0, 8), at, &Users { logged_on: 5, dormant: 2 });
    let from = 0x1000 * 9 + 100;
    let entry = Entry::of_samples(from, from + records.len() as u32 - 1).bytes();
    let mut stream = Stream::default();
    assert_eq!(stream.take(Read::Bytes(&entry)), None);
    assert_eq!(stream.take(Read::Bytes(&records[..7])), None);
    assert_eq!(stream.take(Read::Bytes(&records[7..])), None);
    let Some(Set::Whole(set)) = stream.take(Read::Bytes(&[])) else { panic!("a set") };
    let (found, end) = parts(&set);
    assert_eq!(end, Ok(()));
    assert_eq!(found.into_iter().flatten().count(), 1);
    // A set that CP has overwritten is dropped; the set after it is whole.
    stream.take(Read::Bytes(&entry));
    assert_eq!(stream.take(Read::Failed), Some(Set::Lost(12)));
    let whole = [entry.clone(), records.clone()].concat();
    stream.take(Read::Bytes(&whole));
    assert_eq!(stream.take(Read::Bytes(&[])), Some(Set::Whole(whole.clone())));
    // The report of lost records comes between two sets, and affects neither.
    assert_eq!(stream.take(Read::Overflow), None);
    stream.take(Read::Bytes(&whole));
    assert_eq!(stream.take(Read::Overflow), Some(Set::Part(whole.clone())));
    stream.take(Read::Bytes(&whole));
    assert_eq!(stream.take(Read::Bytes(&[])), Some(Set::Whole(whole)));
    // An entry that names more bytes than were read.
    let short = [entry, records[..10].to_vec()].concat();
    let (found, end) = parts(&short);
    assert!(end.is_err() && found.into_iter().flatten().count() == 0);
    assert!(parts(&[0; 12]).1.is_err());
}

#[test]
fn records_go_over_frames_as_their_entry_says() {
    let at = Tod::of_ms(0).expect("a time");
    let one = record((0, 8), at, &Users { logged_on: 1, dormant: 0 });
    // The first frame ends 30 bytes after its record, so the second record is in the next frame.
    let from = (FRAME_BYTES - one.len() - 30) as u32;
    let records = [one.clone(), vec![0; 30], one.clone()].concat();
    let entry = Entry::of_samples(from, from + records.len() as u32 - 1).bytes();
    let set = [entry, records].concat();
    let (found, end) = parts(&set);
    assert_eq!((found.len(), end), (2, Ok(())));
    assert_eq!(found.into_iter().flatten().count(), 2);
}
