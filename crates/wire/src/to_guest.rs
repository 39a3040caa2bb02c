//! What a host says, as far as it is short.

use crate::body::body;
use crate::file::File;

body! {
    /// A host introduces itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Welcome {
        /// The guest's memory as the hypervisor gave it, in pages.
        pub memory_pages: u64;
        /// Whether pool requests are answered.
        pub grants: bool;
        /// Whether the host says when to look.
        pub paces: bool;
    }
}

body! {
    /// A host answers a request for a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Grant {
        /// The request that it answers; 0 for a change that nobody asked for.
        pub sequence: u32;
        /// The size granted, in pages.
        pub pages: u64;
        /// Why it is not what was asked for; empty if it is.
        pub reason: String;
    }
}

body! {
    /// A host tells its name, once a daemon has introduced itself: a guest that comes to another
    /// host can tell there where it was.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AtHost {
        /// Its name.
        pub name: String;
    }
}

body! {
    /// A host asks for the text of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capture {
        /// Comes back with the chunks.
        pub sequence: u32;
        /// Which file.
        pub file: File;
    }
}

body! {
    /// A host asks when the guest wants to run by itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AskAlarm {
        /// Comes back with the answer.
        pub sequence: u32;
    }
}

body! {
    /// A host asks how the guest's memory is now.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sample {
        /// Comes back with the answer; not 0, which stands for an answer that nobody asked for.
        pub sequence: u32;
    }
}
