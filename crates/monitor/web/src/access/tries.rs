//! Rate limits per origin. A stranger cannot use up the share of others.

use super::{Bucket, Origin};
use std::collections::BTreeMap;

/// Maximum number of origins with a bucket of their own. All other origins share one bucket.
const ORIGINS_MAX: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Tries {
    at_once: u64,
    a_second: u64,
    /// Number of seconds of real time per second of a bucket.
    slower: u64,
    origins: BTreeMap<Origin, Bucket>,
    others: Option<Bucket>,
}

impl Tries {
    /// Allows each origin `at_once` tries, and further tries at the rate `a_second` per second.
    pub(crate) fn new(at_once: u64, a_second: u64) -> Tries {
        Tries { at_once, a_second, slower: 1, origins: BTreeMap::new(), others: None }
    }

    /// Allows each origin `at_once` tries, and one further try every `seconds` seconds.
    pub(crate) fn slow(at_once: u64, seconds: u64) -> Tries {
        Tries { slower: seconds, ..Tries::new(at_once, 1) }
    }

    /// Uses up one try of an origin. Returns false if no try is left.
    pub(crate) fn may(&mut self, origin: Origin, now_ms: u64) -> bool {
        let now = now_ms / self.slower;
        let (at_once, a_second) = (self.at_once, self.a_second);
        let full = || Bucket::new(at_once, a_second, now);
        if !self.origins.contains_key(&origin) && self.origins.len() >= ORIGINS_MAX {
            // Origins with a full bucket are removed, because a new bucket would be the same.
            self.origins.retain(|_, bucket| !bucket.is_full(now));
            if self.origins.len() >= ORIGINS_MAX {
                return self.others.get_or_insert_with(full).take(now);
            }
        }
        self.origins.entry(origin).or_insert_with(full).take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn tries_of_one_origin_do_not_count_for_another() {
        let at = |text: &str| Origin::of(text.parse().unwrap());
        let mut tries = Tries::slow(5, 10);
        let mut taken = |origin, now_ms| (0..9).filter(|_| tries.may(origin, now_ms)).count();
        assert_eq!(taken(at("192.0.2.1"), 1_000), 5);
        assert_eq!(taken(at("192.0.2.2"), 1_000), 5);
        assert_eq!(taken(at("::ffff:192.0.2.2"), 1_000), 0, "the same address");
        assert_eq!(taken(at("2001:db8::1"), 1_000), 5);
        assert_eq!(taken(at("2001:db8::2"), 1_000), 0, "the same network");
        assert_eq!(taken(at("2001:db8:0:1::2"), 1_000), 0, "the same /48 network");
        assert_eq!(taken(at("2001:db8:1::2"), 1_000), 5);
        assert_eq!(taken(at("127.0.0.1"), 1_000), 5);
        for own in ["127.7.1.1", "::1", "::ffff:127.9.9.9"] {
            assert_eq!(taken(at(own), 1_000), 0, "{own}: another address of this machine");
        }
        assert_eq!(taken(Origin::Unknown, 1_000), 5);
        assert_eq!(taken(Origin::User(65_534), 1_000), 5);
        assert_eq!(taken(Origin::User(65_534), 1_000), 0);
        assert_eq!(taken(Origin::User(0), 1_000), 5, "another user of this machine");
        assert_eq!(taken(at("192.0.2.1"), 10_990), 0);
        assert_eq!(taken(at("192.0.2.1"), 11_010), 1);
        assert_eq!(taken(at("192.0.2.1"), 1_000_000), 5);
    }

    #[test]
    fn origins_without_a_bucket_share_one() {
        let mut tries = Tries::slow(5, 10);
        let ip = |number: u32| Origin::of(IpAddr::from((0x0a00_0000 + number).to_be_bytes()));
        let many = u32::try_from(ORIGINS_MAX).unwrap();
        assert!((0..many).all(|number| tries.may(ip(number), 0)));
        let more = (many..many + 100).filter(|number| tries.may(ip(*number), 0)).count();
        assert_eq!(more, 5);
        // A known origin still has the tokens that are left in its bucket.
        assert!(tries.may(ip(7), 0));
        assert!(tries.may(ip(5_000), 60_000) && tries.origins.len() < 10);
    }
}
