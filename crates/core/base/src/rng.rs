//! Reproducible random numbers: xorshift with a multiplied output, seeded through splitmix.

/// A stream of numbers that is determined by its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// Creates the stream of this seed. Similar seeds give unrelated streams.
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed).max(1))
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from `low` up to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        low + ((u128::from(self.draw()) * u128::from(span)) >> 64) as u64
    }

    /// Returns true with this probability, in thousandths.
    pub fn permille(&mut self, permille: u64) -> bool {
        self.within(0, 999) < permille
    }
}

/// A step of splitmix: every bit of the input changes half of the bits of the output.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_another_does_not() {
        let take = |seed| {
            let mut rng = Rng::new(seed);
            (0..50).map(|_| rng.within(10, 19)).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        assert!(take(0).iter().all(|n| (10..=19).contains(n)));
        assert!((10..=19).all(|n| (0..9).any(|seed| take(seed).contains(&n))));
    }
}
