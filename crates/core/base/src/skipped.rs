//! The report of a skipped test, written where it is visible.

/// Reports the reason for skipping a test, in the form that `scripts/test` counts. libtest hides
/// the output of a passing test, but not direct writes to the standard error. The macro expands in
/// the caller's crate, so this crate itself writes nothing.
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
