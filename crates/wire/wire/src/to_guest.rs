//! The short messages of a host.

use crate::body::body;
use crate::file::File;

body! {
    /// A host's introduction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Welcome {
        /// The guest's memory as the hypervisor assigned it, in pages.
        pub memory_pages: u64;
        /// Set if pool requests are answered.
        pub grants: bool;
        /// Set if the host schedules the daemon's samples.
        pub paces: bool;
    }
}

body! {
    /// A host's answer to a request for a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Grant {
        /// The number of the answered request; 0 for a change without a request.
        pub sequence: u32;
        /// The size granted, in pages.
        pub pages: u64;
        /// The reason if the size differs from the request; empty otherwise.
        pub reason: String;
    }
}

body! {
    /// A host's name, sent after a daemon's introduction: a guest that is migrated can report its
    /// previous host.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AtHost {
        /// The host's name.
        pub name: String;
    }
}

body! {
    /// A host's request for the text of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capture {
        /// Returned with the chunks.
        pub sequence: u32;
        /// The requested file.
        pub file: File;
    }
}

body! {
    /// A host's request for the time at which the guest wants to run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AskAlarm {
        /// Returned with the answer.
        pub sequence: u32;
    }
}

body! {
    /// A host's request for the guest's memory statistics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sample {
        /// Returned with the answer; not 0, which marks an answer without a request.
        pub sequence: u32;
    }
}
