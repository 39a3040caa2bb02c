//! The one table of the keys that a file of settings may have.
//!
//! What is not here is refused; the documentation is held to it by a test.

use settings::{Key, Section, key};

const HOST: &[Key] = &[
    key("set_point", "10%", "free memory that the host is to have"),
    key("hysteresis", "1%", "how far it may be missed before memory is moved for it"),
    key("reserve", "3%", "free memory that no grant touches"),
    key("budget", "all of it", "what guests may use together"),
    key("interval", "1s", "time between two passes, at least 100ms"),
];

const SOURCES: &[Key] = &[
    key("qmp", "pinhead's and Proxmox's", "patterns of QMP sockets; none switches this off"),
    key("libvirt", "auto", "libvirt's URIs; none switches it off, `auto` uses it if it is there"),
];

const POLICY: &[Key] = &[
    key("idle_tax", "75%", "how much more idle memory costs than memory in use"),
    key("step", "12.5%", "the largest part of its memory that a guest gives in one pass"),
    key("rules", "none", "rules of the operator's own, relative to this file"),
    key("shadow", "none", "settings of a second policy that decides beside and acts never"),
];

const CLASS: &[Key] = &[
    key("name", "needed", "its name"),
    key("match", "needed", "patterns of its guests' names; the first class that fits has them"),
    key("min", "15%, and 64 MiB", "a guest never has less"),
    key("max", "100%", "a guest never has more"),
    key("shares", "100", "a guest's weight against others"),
    key("pin", "none", "a guest has this much, always"),
    key("release", "false", "its guests are not managed"),
];

const KSM: &[Key] = &[key("mode", "auto", "`auto` drives it, `off` stops it, `leave` leaves it")];

const JOURNAL: &[Key] = &[
    key("path", "/var/lib/pinhead/journal.db", "where decisions are kept"),
    key("keep", "30d", "how long"),
    key("max_size", "200 MiB", "how much of them"),
];

const MONITOR: &[Key] = &[
    key("record", "true", "whether anything is recorded"),
    key("dir", "recordings, beside the journal", "where it is kept"),
    key("minutes", "3d", "how long one-minute rows are kept"),
    key("quarters", "90d", "how long rows of 15 minutes are kept"),
    key("max_size", "1 GiB", "how much of both"),
    key("raw", "24h", "how long samples of single seconds are kept"),
    key("raw_size", "256 MiB", "how much of them"),
];

const CONTROL: &[Key] = &[
    key("socket", "/run/pinhead/host.sock", "where the manager is asked"),
    key("group", "none", "the group that may ask, by name or number, besides the owner"),
];

const METRICS: &[Key] = &[
    key("listen", "nowhere", "where metrics are served: an address and port, or a socket's path"),
    key("remote_write", "nowhere", "where metrics are pushed to: http:// only, no TLS"),
    key("interval", "5s", "time between two pushes"),
    key("host", "its host name", "what the host is called in metrics"),
    key("processes", "false", "processes of guests are metrics too: a series each"),
];

/// All tables.
pub const SECTIONS: &[Section] = &[
    Section { name: "host", keys: HOST },
    Section { name: "sources", keys: SOURCES },
    Section { name: "policy", keys: POLICY },
    Section { name: "class", keys: CLASS },
    Section { name: "ksm", keys: KSM },
    Section { name: "journal", keys: JOURNAL },
    Section { name: "monitor", keys: MONITOR },
    Section { name: "control", keys: CONTROL },
    Section { name: "metrics", keys: METRICS },
];
