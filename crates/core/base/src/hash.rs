//! A hash for names on disk: the same in every build of every version.

/// FNV-1a with 64 bits. The hash suffices for the data of one user, but is not cryptographic: two
/// contents with the same hash can be constructed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableHash(u64);

impl Default for StableHash {
    fn default() -> StableHash {
        StableHash(0xcbf2_9ce4_8422_2325)
    }
}

impl StableHash {
    /// Adds one part. The part's length is hashed as well, so that the parts `ab`, `c` differ from
    /// the parts `a`, `bc`.
    pub fn put(&mut self, part: &[u8]) {
        self.bytes(&(part.len() as u64).to_le_bytes());
        self.bytes(part);
    }

    /// Returns the hash of all parts.
    pub fn finish(self) -> u64 {
        self.0
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let mut hash = StableHash::default();
            hash.bytes(text.as_bytes());
            assert_eq!(hash.finish(), expected, "{text}");
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |parts: [&str; 2]| {
            let mut hash = StableHash::default();
            parts.iter().for_each(|part| hash.put(part.as_bytes()));
            hash.finish()
        };
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
        assert_eq!(of(["ab", "c"]), of(["ab", "c"]));
    }
}
