//! The report of a skipped test, in a place where it is seen.

/// Reports the reason for skipping a test, as `scripts/test` counts it. libtest hides the output of
/// a passing test, but not direct writes to the standard error. The caller's code writes, not this
/// crate.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)*) => {{
        use std::io::Write as _;
        let reason = format!($($reason)*);
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let _ = writeln!(std::io::stderr(), "skipped {name}: {reason}");
    }};
}
