//! A test that cannot be run here says so where it is heard.

/// Says why a test is skipped, as `scripts/test` counts it. libtest keeps to itself what a passing
/// test prints, but not what is written to the standard error by hand. It is the caller's code:
/// nothing here writes.
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
