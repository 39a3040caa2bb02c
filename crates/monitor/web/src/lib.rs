//! Web pages of a host: the resources that its guests use and wait for, and the decisions.
//!
//! ```text
//!   browser ─► server (bounded connections) ─► access (host, session, rate limit)
//!                                                 │
//!   manager ◄── live (asked once a second, while a page is open) ──┐
//!   recordings ─► past ─────────────────────────────────────────────┼─► pages ─► HTML
//!   journal ─► why ──────────────────────────────────────────────────┘         └─► events
//! ```
//!
//! The process has no rights over guests. The process reads recordings and the journal, and sends
//! requests to the manager's control socket. The manager allows or refuses changes, depending on
//! the user of the calling process. Each page is complete HTML, so that browsers without scripts
//! can show it. The script only refreshes the page. Pages load nothing from other sites.

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

/// Settings of the pages: sources, addresses and access.
pub struct Settings {
    /// Place to listen on.
    pub listen: Listen,
    /// Further host names of the pages, for example of a proxy. The names of this machine are
    /// always allowed.
    pub names: Vec<String>,
    /// Certificate for TLS on a TCP address.
    pub certificate: Option<Certificate>,
    /// File with the password for the pages. If there is a password, there are no tokens.
    pub password_file: Option<PathBuf>,
    /// True if guests may be changed from the pages.
    pub allow_changes: bool,
    /// Hosts that are shown.
    pub source: Arc<dyn Source>,
    /// Function that reports the pages' address, at the start and at each SIGUSR1. Without a
    /// password the address contains a token that opens the pages once.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}
