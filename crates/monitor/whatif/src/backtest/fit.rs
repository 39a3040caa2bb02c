//! Search for the number of further guests that fit.

use crate::backtest::replay::{Played, Replay};
use crate::backtest::{Error, World};
use crate::{Change, HostTally, Tally};
use base::{glob, named, plain};

/// Maximum number of guests that are tried.
const MOST: u32 = 10_000;
/// Growth of the host's shortage up to this value is ignored. The value is in millionths of the
/// guests' memory over time. Estimates of needs are not more precise.
const LACK_PPM: u128 = 100;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of further guests that fit.
    pub count: u32,
    /// True if the search stopped at its limit, and more guests were not tried.
    pub is_bound: bool,
    /// Result for all guests with this number of further guests.
    pub with: Tally,
    /// Result for the host with this number of further guests.
    pub host: HostTally,
    /// Result for all guests with one more guest, if this was tried.
    pub beyond: Option<Tally>,
    /// Result for the host with one more guest, and the shortage that this guest causes.
    pub limit: Option<(HostTally, Shortage)>,
}

named! {
    /// Lack of a host's memory that keeps a further guest out.
    pub enum Shortage {
        /// The host is below its reserve for longer than without further guests.
        Reserve = "reserve",
        /// Guests need more than the host has free above its reserve.
        Needs = "needs",
    }
}

/// Returns the number of further guests that fit into a world. The further guests copy the guests
/// that match the pattern `like`. Before each try, `tried` gets its number of further guests.
pub fn search(
    replay: &Replay,
    world: &World,
    like: &str,
    tried: &dyn Fn(u32),
) -> Result<Fit, Error> {
    let played = replay.play(Change::default(), 0)?;
    played.must_have(like)?;
    if !played.player.present().any(|name| glob::matches(like, name)) {
        return Err(Error::Gone { pattern: plain(like, 60) });
    }
    replay.must_last(&played)?;
    let kind = played.player.kind();
    let play = |count: u32| {
        tried(count);
        let more = Some((count, like.to_owned())).filter(|_| count > 0);
        let mut change = World { more, ..world.clone() }.change()?;
        // Because a policy is set here, the replay without further guests is an estimate, too. The
        // results are therefore comparable.
        change.kind = change.kind.or(Some(kind));
        replay.play(change, 0)
    };
    search_by(&play)
}

/// Doubles the number of additional guests until they do not fit, then bisects. `play` replays with
/// a number of additional guests. Only a shortage of the host counts. A guest's need above its
/// maximum does not count, because no host could meet it.
fn search_by(play: &dyn Fn(u32) -> Result<Played, Error>) -> Result<Fit, Error> {
    let without = play(0)?;
    let before = *without.player.host();
    let lacks = |played: &Played| {
        let (host, had) = (played.player.host(), played.player.total().had);
        if host.below_reserve_ms > before.below_reserve_ms {
            Some(Shortage::Reserve)
        } else {
            let allowed = before.lacked + had * LACK_PPM / 1_000_000;
            (host.lacked > allowed).then_some(Shortage::Needs)
        }
    };
    let results = |played: &Played| (played.player.total(), *played.player.host());
    let (mut low, mut with) = (0, results(&without));
    let mut high = 1;
    let (mut beyond, mut shortage) = loop {
        let played = play(high)?;
        if let Some(shortage) = lacks(&played) {
            break (results(&played), shortage);
        }
        (low, with) = (high, results(&played));
        if high == MOST {
            let (with, host) = with;
            return Ok(Fit { count: low, is_bound: true, with, host, beyond: None, limit: None });
        }
        high = (high * 2).min(MOST);
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let played = play(middle)?;
        match lacks(&played) {
            None => (low, with) = (middle, results(&played)),
            Some(lack) => (high, beyond, shortage) = (middle, results(&played), lack),
        }
    }
    Ok(Fit {
        count: low,
        is_bound: false,
        with: with.0,
        host: with.1,
        beyond: Some(beyond.0),
        limit: Some((beyond.1, shortage)),
    })
}
