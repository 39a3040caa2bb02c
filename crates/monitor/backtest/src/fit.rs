//! Search for the number of further guests that fit.

use crate::replay::{Played, Replay};
use crate::{Error, World};
use whatif::{Change, Tally};

/// Maximum number of guests that are tried.
const MOST: u32 = 10_000;
/// Growth of unmet needs that does not count, in millionths of the guests' memory over time. An
/// estimate of needs is no finer.
const UNMET_PPM: u128 = 100;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of further guests that fit.
    pub count: u32,
    /// True if the limit was reached, so that more were not tried.
    pub is_bound: bool,
    /// Result with this number.
    pub with: Tally,
    /// Result with one more guest, unless it was not tried.
    pub beyond: Option<Tally>,
}

/// Returns the number of further guests like those of a pattern that fit into a world.
pub fn search(replay: &Replay, world: &World, like: &str) -> Result<Fit, Error> {
    let played = replay.play(Change::default(), 0)?;
    played.must_have(like)?;
    let kind = played.player.kind();
    let play = |count: u32| {
        let more = Some((count, like.to_owned())).filter(|_| count > 0);
        let mut change = World { more, ..world.clone() }.change()?;
        // If the kind is set, the replay without more guests is an estimate, too, so that the
        // results are comparable.
        change.kind = change.kind.or(Some(kind));
        replay.play(change, 0)
    };
    search_by(&play)
}

/// Doubles the number until the guests do not fit, then bisects. `play` replays with this number of
/// additional guests.
fn search_by(play: &dyn Fn(u32) -> Result<Played, Error>) -> Result<Fit, Error> {
    let without = play(0)?;
    let tally = without.player.total();
    let unmet = tally.unmet;
    let least_ms = without.player.host().below_reserve_ms;
    let fits = |played: &Played| {
        let total = played.player.total();
        let allowed = unmet.max(1) * (total.there_ms.max(1) as u128)
            / (tally.there_ms.max(1) as u128)
            + total.had * UNMET_PPM / 1_000_000;
        total.unmet <= allowed && played.player.host().below_reserve_ms <= least_ms
    };
    let (mut low, mut with) = (0, tally);
    let mut high = 1;
    let mut beyond = loop {
        let played = play(high)?;
        if !fits(&played) {
            break played.player.total();
        }
        (low, with) = (high, played.player.total());
        if high == MOST {
            return Ok(Fit { count: low, is_bound: true, with, beyond: None });
        }
        high = (high * 2).min(MOST);
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let played = play(middle)?;
        match fits(&played) {
            true => (low, with) = (middle, played.player.total()),
            false => (high, beyond) = (middle, played.player.total()),
        }
    }
    Ok(Fit { count: low, is_bound: false, with, beyond: Some(beyond) })
}
