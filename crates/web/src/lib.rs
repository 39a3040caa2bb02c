//! The pages: what a host's guests use and wait for, and why, in a browser.
//!
//! ```text
//!   browser ─► server (bounded connections) ─► access (whose page? who asks? how often?)
//!                                                 │
//!   manager ◄── live (asked once a second, while somebody looks) ──┐
//!   recordings ─► past ─────────────────────────────────────────────┼─► pages ─► HTML
//!   journal ─► why ──────────────────────────────────────────────────┘         └─► events
//! ```
//!
//! The process has no rights over guests: it reads recordings and the journal, and asks the
//! manager at its control socket, which decides by itself who may change something. A page is
//! made here, whole: a browser without scripts shows it, and the script only keeps it up to
//! date. Nothing is loaded from anywhere else.

#![forbid(unsafe_code)]

mod access;
mod app;
mod assets;
mod clock;
mod entry;
mod error;
mod extract;
mod fault;
mod listen;
mod live;
pub mod outside;
mod pages;
mod past;
mod plot;
mod room;
mod router;
mod secret_file;
mod server;
mod source;
mod span;
mod squeeze;
mod tls;
mod visitor;
mod who;

pub use access::write_password;
pub use error::Error;
pub use listen::Listen;
pub use server::serve;
pub use source::{Engine, Error as SourceError, Lines, LocalHost, Source};
pub use tls::Certificate;

use std::path::PathBuf;
use std::sync::Arc;

/// What is shown, where, and to whom.
pub struct Settings {
    /// Where browsers come.
    pub listen: Listen,
    /// Names by which browsers may ask for the pages, besides those of this machine itself: of a
    /// proxy in front of it.
    pub names: Vec<String>,
    /// With which TLS is spoken at an address.
    pub certificate: Option<Certificate>,
    /// Has the password that opens the pages, in place of tokens.
    pub password_file: Option<PathBuf>,
    /// Whether guests may be changed from the pages.
    pub allow_changes: bool,
    /// The hosts that are shown.
    pub source: Arc<dyn Source>,
    /// Told the address of the pages, with a token that opens them once if there is no password: at
    /// the start, and at each SIGUSR1.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}
