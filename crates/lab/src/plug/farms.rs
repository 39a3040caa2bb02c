//! The two farms, as files for `pinhead up`.

/// What a guest serves: its image, its port inside, and its heap.
struct Kind {
    image: &'static str,
    port: u32,
    heap_mib: Option<u32>,
}

const DATABASE: Kind = Kind { image: "debian-postgres", port: 5432, heap_mib: None };
const APP: Kind = Kind { image: "debian-app", port: 8000, heap_mib: Some(48) };
const WEB: Kind = Kind { image: "debian-nginx", port: 80, heap_mib: None };
const COMBINED: Kind = Kind { image: "debian-combo", port: 80, heap_mib: Some(48) };

/// A guest, and its size by hand. Its port on the host is the farm's first and its place.
struct Role {
    class: &'static str,
    kind: Kind,
    cpus: u32,
    memory_mib: u32,
    /// The word for its kernel that names the server that it asks, and that one's place.
    asks: Option<(&'static str, usize)>,
}

/// Sizes by hand: what a server of this kind needs to come up and to keep its data in memory. They
/// were chosen once, and not refined by trying smaller and larger ones, as the study's were. Those
/// are four times as large, on a machine forty times as fast.
const ROLES: &[Role] = &[
    Role { class: "dba", kind: DATABASE, cpus: 1, memory_mib: 160, asks: None },
    Role { class: "dbb", kind: DATABASE, cpus: 1, memory_mib: 160, asks: None },
    Role { class: "appa", kind: APP, cpus: 1, memory_mib: 192, asks: Some(("db", 0)) },
    Role { class: "appb", kind: APP, cpus: 2, memory_mib: 192, asks: Some(("db", 1)) },
    Role { class: "weba", kind: WEB, cpus: 1, memory_mib: 128, asks: Some(("app", 2)) },
    Role { class: "webb", kind: WEB, cpus: 1, memory_mib: 128, asks: Some(("app", 3)) },
    Role { class: "comboa", kind: COMBINED, cpus: 3, memory_mib: 256, asks: None },
    Role { class: "combob", kind: COMBINED, cpus: 3, memory_mib: 256, asks: None },
];

/// CPUs and memory of each managed guest: more than any of them needs.
const MANAGED_CPUS: u32 = 4;
const MANAGED_MIB: u32 = 512;
/// Compressed memory of the host, for what managed guests do not touch.
const ZRAM_MIB: u32 = 2048;

/// Memory that these guests have when they are sized by hand, in MiB.
pub(super) fn hand_mib(only: &[&str]) -> u32 {
    wanted(only).map(|(_, role)| role.memory_mib).sum()
}

/// CPUs that they have.
pub(super) fn hand_cpus(only: &[&str]) -> u32 {
    wanted(only).map(|(_, role)| role.cpus).sum()
}

/// The guests of these classes, or all of them if there are none, with their places.
fn wanted<'a>(only: &'a [&str]) -> impl Iterator<Item = (u32, &'static Role)> + 'a {
    let is_wanted = |role: &Role| only.is_empty() || only.contains(&role.class);
    (0..).zip(ROLES).filter(move |(_, role)| is_wanted(role))
}

/// The farm's file. Only these classes, or all of them if there are none.
pub(super) fn text(name: &str, is_managed: bool, first_port: u32, only: &[&str]) -> String {
    let mut out = format!("name = \"{name}\"\n");
    if is_managed {
        out.push_str(&format!("[limits]\nzram = \"{ZRAM_MIB} MiB\"\n"));
    }
    for (place, Role { class, kind, cpus, memory_mib, asks }) in wanted(only) {
        let (cpus, memory_mib) = match is_managed {
            true => (MANAGED_CPUS, MANAGED_MIB),
            false => (*cpus, *memory_mib),
        };
        let asked = asks.and_then(|(what, place)| Some((what, ROLES.get(place)?)));
        // A class that is not started cannot be linked with, and is not asked then.
        let asked = asked.filter(|(_, other)| only.is_empty() || only.contains(&other.class));
        let asks = asked.map(|(what, Role { class: to, kind: Kind { port, .. }, .. })| {
            format!(
                "args = [\"pinhead.{what}={to}:{port}\"]\n\
                 links = [{{ to = \"{to}\", port = {port} }}]\n"
            )
        });
        let heap = kind.heap_mib.map(|mib| format!("heap = \"{mib} MiB\"\n"));
        out.push_str(&format!(
            "[[class]]\nname = \"{class}\"\nimage = \"{}\"\ncpus = {cpus}\n\
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
