//! The two farms, as files for `pinhead up`.

/// What a guest serves: its image, its port inside, its heap, and the memory with which it was seen
/// to serve under load, below which no size is looked for: one with less may hang for minutes, and
/// all that ask it.
struct Kind {
    image: &'static str,
    port: u32,
    heap_mib: Option<u32>,
    boots_mib: u32,
}

const DATABASE: Kind = Kind { image: "debian-postgres", port: 5432, heap_mib: None, boots_mib: 96 };
const APP: Kind = Kind { image: "debian-app", port: 8000, heap_mib: Some(48), boots_mib: 136 };
const WEB: Kind = Kind { image: "debian-nginx", port: 80, heap_mib: None, boots_mib: 88 };
const COMBINED: Kind = Kind { image: "debian-combo", port: 80, heap_mib: Some(48), boots_mib: 144 };

/// A guest. Its port on the host is the farm's first and its place.
struct Role {
    class: &'static str,
    kind: Kind,
    /// The word for its kernel that names the server that it asks, and that one's place.
    asks: Option<(&'static str, usize)>,
}

/// The study's guests, whose memory was four times as large, on a machine forty times as fast.
const ROLES: [Role; 8] = [
    Role { class: "dba", kind: DATABASE, asks: None },
    Role { class: "dbb", kind: DATABASE, asks: None },
    Role { class: "appa", kind: APP, asks: Some(("db", 0)) },
    Role { class: "appb", kind: APP, asks: Some(("db", 1)) },
    Role { class: "weba", kind: WEB, asks: Some(("app", 2)) },
    Role { class: "webb", kind: WEB, asks: Some(("app", 3)) },
    Role { class: "comboa", kind: COMBINED, asks: None },
    Role { class: "combob", kind: COMBINED, asks: None },
];

/// CPUs and memory of each managed guest: more than any of them needs. Guests that are sized by
/// hand have as many CPUs to be put on, of which those beyond their size are off: an emulator that
/// has but one is 2 to 10 % faster, which no policy could make good.
const MANAGED_CPUS: u32 = 4;
pub(super) const MANAGED_MIB: u32 = 512;
/// Compressed memory of the host, for what managed guests do not touch.
const ZRAM_MIB: u32 = 2048;

/// How large a guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub class: &'static str,
    pub cpus: u32,
    pub memory_mib: u32,
}

/// The least memory that a guest of a class comes up with.
pub(super) fn boots_mib(class: &str) -> Option<u32> {
    ROLES.iter().find(|role| role.class == class).map(|role| role.kind.boots_mib)
}

/// The classes, in the farms' order.
pub(super) fn classes() -> [&'static str; ROLES.len()] {
    std::array::from_fn(|at| ROLES[at].class)
}

/// The guests of these classes, or all of them if there are none, larger than any of them needs.
pub(super) fn large(only: &[&str]) -> Vec<Size> {
    let size =
        |role: &Role| Size { class: role.class, cpus: MANAGED_CPUS, memory_mib: MANAGED_MIB };
    let is_wanted = |role: &&Role| only.is_empty() || only.contains(&role.class);
    ROLES.iter().filter(is_wanted).map(size).collect()
}

/// The file of a farm with guests of these sizes, whose CPUs are all on as they start.
pub(super) fn text(name: &str, sizes: &[Size], has_zram: bool, first_port: u32) -> String {
    let mut out = format!("name = \"{name}\"\n");
    if has_zram {
        out.push_str(&format!("[limits]\nzram = \"{ZRAM_MIB} MiB\"\n"));
    }
    let size_of = |class: &str| sizes.iter().find(|size| size.class == class);
    for (place, Role { class, kind, asks }) in (0..).zip(&ROLES) {
        let Some(Size { memory_mib, .. }) = size_of(class) else { continue };
        let asked = asks.and_then(|(what, place)| Some((what, ROLES.get(place)?)));
        // A class that is not started cannot be linked with, and is not asked then.
        let asked = asked.filter(|(_, other)| size_of(other.class).is_some());
        let asks = asked.map(|(what, Role { class: to, kind: Kind { port, .. }, .. })| {
            format!(
                "args = [\"pinhead.{what}={to}:{port}\"]\n\
                 links = [{{ to = \"{to}\", port = {port} }}]\n"
            )
        });
        let heap = kind.heap_mib.map(|mib| format!("heap = \"{mib} MiB\"\n"));
        out.push_str(&format!(
            "[[class]]\nname = \"{class}\"\nimage = \"{}\"\ncpus = {MANAGED_CPUS}\n\
             memory = \"{memory_mib} MiB\"\nmemory_min = \"64 MiB\"\n{}{}\
             ports = [{{ guest = {}, host = {} }}]\n",
            kind.image,
            asks.unwrap_or_default(),
            heap.unwrap_or_default(),
            kind.port,
            first_port + place
        ));
    }
    out
}
