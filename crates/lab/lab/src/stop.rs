//! The early end of an experiment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use crate::Error;

/// Returns the flag that is set when the user ends an experiment. Phases and waits check the flag,
/// so that all programs that were started end in order.
pub fn stop_flag() -> &'static Arc<AtomicBool> {
    static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
    &STOP
}

/// Returns an error if the experiment is to end.
pub(crate) fn check_stop() -> Result<(), Error> {
    match stop_flag().load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}
