//! Targets for the load: servers' answers, guests' reports of a job, and targets that a user types.

use lab::load::http::Answer;
use lab::load::{job, parse_targets};
use vm::Output;

/// Parses a server's answer, split into pieces of any size. The answer must always end at the same
/// byte, or be refused for the same reason. The body must never be longer than the input.
pub(crate) fn answer(data: &[u8]) {
    let read = |size: usize| {
        let mut answer = Answer::default();
        let mut status = None;
        for piece in data.chunks(size) {
            status = answer.feed(piece)?;
        }
        assert!(answer.body_bytes() <= data.len() as u64);
        let end = answer.end();
        assert!(status.is_none_or(|status| end == Ok(status)), "a complete answer stays complete");
        Ok::<_, lab::load::http::Wrong>((status, answer.body_bytes(), end))
    };
    let whole = read(data.len().max(1));
    assert_eq!(read(1), whole);
    assert_eq!(read(7), whole);
}

/// Parses a guest's report of its rounds. The result must have one duration for each requested
/// round, or be a failure.
pub(crate) fn rounds(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let output = Output { code: 0, text };
    if let Ok(rounds) = job::read(&output, 3) {
        assert!(rounds.len() == 3 && rounds.iter().all(|seconds| *seconds >= 0.0));
    }
}

/// Parses a target that a user types. The path of the target must be usable in a request.
pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(targets) = parse_targets(&text, "web") {
        assert!((1..=lab::load::TARGETS_MAX).contains(&targets.len()));
        let is_path = |path: &str| path.starts_with('/') && !path.contains(['\r', '\n', ' ']);
        assert!(targets.iter().all(|target| target.address.port() > 0 && is_path(&target.path)));
    }
}
