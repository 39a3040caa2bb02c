//! Token buckets, which limit rates.

/// Token bucket, with a burst of requests and an average rate per second.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Remaining tokens, in thousandths of a request.
    left: u64,
    most: u64,
    a_second: u64,
    at_ms: u64,
}

impl Bucket {
    pub(crate) fn new(at_once: u64, a_second: u64, now_ms: u64) -> Bucket {
        let most = at_once.saturating_mul(1_000);
        Bucket { left: most, most, a_second, at_ms: now_ms }
    }

    /// Removes a token. Returns false if no token is left.
    pub(crate) fn take(&mut self, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = now_ms.max(self.at_ms);
        let gained = passed_ms.saturating_mul(self.a_second);
        self.left = self.left.saturating_add(gained).min(self.most);
        let has_one = self.left >= 1_000;
        if has_one {
            self.left -= 1_000;
        }
        has_one
    }

    pub(crate) fn is_full(&self, now_ms: u64) -> bool {
        let gained = now_ms.saturating_sub(self.at_ms).saturating_mul(self.a_second);
        self.left.saturating_add(gained) >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_allows_burst_and_average_rate() {
        let mut bucket = Bucket::new(3, 2, 1_000);
        let taken: Vec<bool> = (0..4).map(|_| bucket.take(1_000)).collect();
        assert_eq!(taken, [true, true, true, false]);
        assert!(!bucket.take(1_499) && bucket.take(1_500) && !bucket.take(1_500));
        // After a long time the bucket is full, and never holds more. A clock that is set back adds
        // no token.
        assert!(bucket.take(u64::MAX) && bucket.take(0) && bucket.take(0) && !bucket.take(0));
    }
}
