//! Runs of consecutive pages.

/// A run of consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Number of the first page, counted from an origin that the run's owner defines.
    pub first: u64,
    /// Number of pages.
    pub count: u32,
}

impl PageRun {
    /// Returns the number of the page behind the last page.
    pub fn end(self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// Appends a page, which must be behind all pages in the runs.
    pub fn add(runs: &mut Vec<PageRun>, page: u64) {
        match runs.last_mut() {
            Some(run) if run.end() == page && run.count < u32::MAX => run.count += 1,
            _ => runs.push(PageRun { first: page, count: 1 }),
        }
    }

    /// Returns the number of pages in the runs.
    pub fn pages(runs: &[PageRun]) -> u64 {
        runs.iter().map(|run| u64::from(run.count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_runs() {
        let mut runs = Vec::new();
        [3, 4, 5, 9, 11, 12].into_iter().for_each(|page| PageRun::add(&mut runs, page));
        let found: Vec<_> = runs.iter().map(|run| (run.first, run.count)).collect();
        assert_eq!(found, [(3, 3), (9, 1), (11, 2)]);
        assert_eq!((PageRun::pages(&runs), runs[0].end()), (6, 6));
    }
}
