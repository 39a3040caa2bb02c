//! Targets for recordings: blocks of raw samples, and day files that are damaged or foreign.

use crate::files::beside;
use model::{Moment, Parts, PassInput};
use policy::rivals::Kind;
use std::ops::ControlFlow;
use std::path::Path;
use store::pack::{Damaged, Decoder, Encoder, block, chain};
use store::{Records, Span, pass_codec};
use vm::Scratch;
use whatif::{Change, Player};

fn decoded(bytes: &[u8]) -> (Vec<Moment>, Result<(), Damaged>) {
    let mut moments = Vec::new();
    let result = Decoder::default().decode(bytes, |moment| moments.push(moment));
    (moments, result)
}

/// Reads a chain of moments. The readable moments must be the same when they are written again, and
/// when they are read in parts.
pub(crate) fn raw_chain(data: &[u8]) {
    let (moments, _) = decoded(data);
    let mut encoder = Encoder::default();
    let again: Vec<Vec<u8>> = moments.iter().map(|moment| encoder.encode(moment)).collect();
    assert_eq!(decoded(&again.concat()), (moments.clone(), Ok(())));
    let mut decoder = Decoder::default();
    let mut parts = Vec::new();
    for part in &again {
        assert_eq!(decoder.decode(part, |moment| parts.push(moment)), Ok(()));
    }
    assert_eq!(parts, moments);
}

/// Unpacks a block. Its content must be the same when it is packed again.
pub(crate) fn raw_block(data: &[u8]) {
    if let Ok(unpacked) = chain(data) {
        assert_eq!(chain(&block(&unpacked)), Ok(unpacked.clone()));
        raw_chain(&unpacked);
    }
}

fn decoded_passes(bytes: &[u8]) -> (Vec<PassInput>, Result<(), Damaged>) {
    let mut passes = Vec::new();
    let result = pass_codec::decode(bytes, |pass| passes.push(pass));
    (passes, result)
}

/// Reads a chain of passes. The readable passes must be the same when they are written again. A
/// policy must be able to decide for any such passes.
pub(crate) fn passes(data: &[u8]) {
    let (passes, _) = decoded_passes(data);
    let mut encoder = pass_codec::Encoder::default();
    let again: Vec<u8> = passes.iter().flat_map(|pass| encoder.encode(pass)).collect();
    assert_eq!(decoded_passes(&again), (passes.clone(), Ok(())));
    let more = Some((2, "*".to_owned()));
    let other =
        Change { kind: Some(Kind::Pinhead), growth_permille: 30, more, ..Change::default() };
    for change in [Change::default(), other] {
        let mut player = Player::new(change);
        passes.iter().for_each(|pass| drop(player.play(pass)));
        assert_eq!(player.passes(), passes.len() as u64);
    }
}

/// Reads a day file or a file of samples. The first byte selects the file. The file must be
/// accepted or refused, and steps must be in order.
pub(crate) fn day_file(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    beside(if kind & 1 == 0 { "2026-11-21.db" } else { "raw.db" }, bytes, read);
}

/// Unpacks a stream of recordings. Whatever it contains, only files of recordings may be created,
/// and only in their directory.
pub(crate) fn record_tar(data: &[u8]) {
    let Ok(dir) = Scratch::new("fuzz-tar") else { return };
    let recordings = dir.join("to").join("recordings");
    if std::fs::create_dir_all(&recordings).is_ok() {
        let _ = pinhead::record::unpack(&mut &*data, &dir.join("to"));
        let names = |dir: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(dir.path()), ["to"]);
        let known = ["recordings", "journal.db"];
        assert!(names(&dir.join("to")).iter().all(|name| known.contains(&name.as_str())));
        assert!(names(&recordings).iter().all(|name| name.ends_with(".db")));
    }
}

fn read(dir: &Path) {
    let Ok(records) = Records::open(dir) else { return };
    let mut last_ms = i64::MIN;
    let span = Span { from_ms: 0, to_ms: i64::MAX, step_ms: 900_000 };
    let _ = records.visit(span, Parts::ALL, |interval| {
        assert!(interval.from_ms > last_ms);
        last_ms = interval.from_ms;
        ControlFlow::Continue(())
    });
    let _ = records.processes(span, model::Field::ALL);
    let _ = records.gaps(i64::MIN, i64::MAX);
    let _ = records.raw(i64::MIN, i64::MAX, |_| ControlFlow::Continue(()));
}
