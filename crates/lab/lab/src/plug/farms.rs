//! The two farms, as files for `pinhead up`.

/// A kind of guest: its image, its port, its heap, and its minimum memory under load. The search
/// tries no less memory, because a smaller guest and its clients may hang for minutes.
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

/// A guest. Its host port is the farm's first port plus its index.
struct Role {
    class: &'static str,
    kind: Kind,
    /// Name of the kernel argument with the server to which this guest sends requests, and the
    /// server's index.
    asks: Option<(&'static str, usize)>,
}

/// The study's guests, with a quarter of their memory, on a machine forty times slower.
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

/// CPUs and memory of each managed guest, more than any guest needs. Guests sized by hand have the
/// same number of CPUs, but the CPUs beyond their size are offline. With a single CPU the emulator
/// would be 2 to 10 % faster, and no policy could make up for this advantage.
const MANAGED_CPUS: u32 = 4;
pub(super) const MANAGED_MIB: u32 = 512;
/// Compressed memory of the host, for pages that managed guests do not touch.
const ZRAM_MIB: u32 = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub class: &'static str,
    pub cpus: u32,
    pub memory_mib: u32,
}

/// Returns the smallest memory that the search tries for a guest of a class.
pub(super) fn boots_mib(class: &str) -> Option<u32> {
    ROLES.iter().find(|role| role.class == class).map(|role| role.kind.boots_mib)
}

/// Returns the classes, in the order of the farms' files.
pub(super) fn classes() -> [&'static str; ROLES.len()] {
    std::array::from_fn(|at| ROLES[at].class)
}

/// Returns the sizes of guests of these classes, or of all classes if `only` is empty. Each size is
/// larger than any guest needs.
pub(super) fn large(only: &[&str]) -> Vec<Size> {
    let size =
        |role: &Role| Size { class: role.class, cpus: MANAGED_CPUS, memory_mib: MANAGED_MIB };
    let is_wanted = |role: &&Role| only.is_empty() || only.contains(&role.class);
    ROLES.iter().filter(is_wanted).map(size).collect()
}

/// Returns the file of a farm with guests of these sizes, with all CPUs on at the start.
pub(super) fn text(name: &str, sizes: &[Size], has_zram: bool, first_port: u32) -> String {
    let mut out = format!("name = \"{name}\"\n");
    if has_zram {
        out.push_str(&format!("[limits]\nzram = \"{ZRAM_MIB} MiB\"\n"));
    }
    let size_of = |class: &str| sizes.iter().find(|size| size.class == class);
    for (place, Role { class, kind, asks }) in (0..).zip(&ROLES) {
        let Some(Size { memory_mib, .. }) = size_of(class) else { continue };
        let asked = asks.and_then(|(what, place)| Some((what, ROLES.get(place)?)));
        // Without guests, a class cannot be the target of a link, and gets no requests.
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
