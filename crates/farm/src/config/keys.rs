//! The one table of the keys that a `FARM.toml` may have.
//!
//! What is not here is refused; the documentation is held to it by a test.

use settings::{Key, Section, key};

const TOP: &[Key] = &[key("name", "the file's name", "what the farm is called")];

const LIMITS: &[Key] = &[
    key("memory", "none", "what all guests together may have of the host's memory"),
    key("zram", "none", "swap in compressed memory of the host, of this size"),
    key("swap", "none", "a swap file of the host behind it, of this size"),
    key("ksm", "false", "whether the host's equal pages are shared"),
];

const CLASS: &[Key] = &[
    key("name", "needed", "its guests are called by it and a number: web1, web2"),
    key("count", "1", "how many guests"),
    key("arch", "x86_64", "`x86_64` or `s390x`"),
    key("image", "tiny", "what its guests are made of: the table below"),
    key("kernel", "none", "a kernel of your own, instead of `image`"),
    key("initramfs", "none", "the archive that your kernel starts with"),
    key(
        "disk",
        "none",
        "a disk image, .qcow2, .raw or .img; writes go to an overlay of each guest",
    ),
    key("template", "false", "one guest boots, the others go on from its state; needs the daemon"),
    key(
        "copy",
        "false",
        "each clone has a copy of the template's memory, instead of sharing what it does not write",
    ),
    key("cpus", "1", "CPUs, 1 to 64"),
    key("memory", "128 MiB", "memory at most"),
    key("memory_min", "15%, and 48 MiB", "memory that a guest keeps whatever it asks for"),
    key("page_reporting", "true", "whether a guest tells the host which of its memory is free"),
    key("shares", "100", "a guest's weight against others"),
    key("rules", "none that act", "the daemon's rules: a preset or a file"),
    key("daemon", "true", "false: guests without the daemon"),
    key("ports", "none", "ports of the guest that are reached on the host's 127.0.0.1"),
    key("swap", "none", "swap inside the guest, as \"zram:64 MiB\""),
    key("heap", "16 MiB", "what the application of debian-app and debian-combo keeps"),
    key("args", "none", "more words for the guest's kernel"),
    key("command", "none", "a line for the guest's shell, when the guest is ready"),
];

const PORT: &[Key] = &[
    key("guest", "needed", "the port in the guest"),
    key("host", "needed", "the port on the host of the first guest; the next has the next"),
    key("probe", "by the port", "how a guest is asked whether it is ready: http, postgres, none"),
];

/// All tables; the first is the file itself.
pub const SECTIONS: &[Section] = &[
    Section { name: "", keys: TOP },
    Section { name: "limits", keys: LIMITS },
    Section { name: "class", keys: CLASS },
    Section { name: "class.ports", keys: PORT },
];
