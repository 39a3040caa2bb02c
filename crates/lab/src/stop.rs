//! The end of an experiment before its time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use crate::Error;

/// Set when the user ends the experiments: phases and waits look at it, so that what was
/// started is ended in peace.
pub fn stop_flag() -> &'static Arc<AtomicBool> {
    static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
    &STOP
}

/// The error of an experiment that is to end.
pub(crate) fn check_stop() -> Result<(), Error> {
    match stop_flag().load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}
