//! Who asks.

use std::sync::Arc;

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By an address: who has a session is let in.
    Tcp,
    /// By a unix socket: whom its mode lets in is let in.
    Unix,
}

/// Who was let in.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// What a form has to send back: another site's page does not know it.
    pub(crate) form_key: Arc<str>,
}
