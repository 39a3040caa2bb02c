//! The two farms, as files for `pinhead up`.

/// The ports of one farm on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports(pub u32);

/// A guest: its class, image, the words for its kernel, and its size by hand.
struct Role {
    class: &'static str,
    image: &'static str,
    heap_mib: Option<u32>,
    cpus: u32,
    memory_mib: u32,
    /// Which of the farm's ports it has, and which it needs.
    port: u32,
    inside: u32,
    asks: Option<(&'static str, u32)>,
}

/// Sizes by hand: what a server of this kind needs to come up and to keep its data in memory. They
/// were chosen once, and not refined by trying smaller and larger ones, as the study's were. Those
/// are four times as large, on a machine forty times as fast.
const ROLES: &[Role] = &[
    Role {
        class: "dba",
        image: "debian-postgres",
        heap_mib: None,
        cpus: 1,
        memory_mib: 160,
        port: 0,
        inside: 5432,
        asks: None,
    },
    Role {
        class: "dbb",
        image: "debian-postgres",
        heap_mib: None,
        cpus: 1,
        memory_mib: 160,
        port: 1,
        inside: 5432,
        asks: None,
    },
    Role {
        class: "appa",
        image: "debian-app",
        heap_mib: Some(48),
        cpus: 1,
        memory_mib: 192,
        port: 2,
        inside: 8000,
        asks: Some(("db", 0)),
    },
    Role {
        class: "appb",
        image: "debian-app",
        heap_mib: Some(48),
        cpus: 2,
        memory_mib: 192,
        port: 3,
        inside: 8000,
        asks: Some(("db", 1)),
    },
    Role {
        class: "weba",
        image: "debian-nginx",
        heap_mib: None,
        cpus: 1,
        memory_mib: 128,
        port: 4,
        inside: 80,
        asks: Some(("app", 2)),
    },
    Role {
        class: "webb",
        image: "debian-nginx",
        heap_mib: None,
        cpus: 1,
        memory_mib: 128,
        port: 5,
        inside: 80,
        asks: Some(("app", 3)),
    },
    Role {
        class: "comboa",
        image: "debian-combo",
        heap_mib: Some(48),
        cpus: 3,
        memory_mib: 256,
        port: 6,
        inside: 80,
        asks: None,
    },
    Role {
        class: "combob",
        image: "debian-combo",
        heap_mib: Some(48),
        cpus: 3,
        memory_mib: 256,
        port: 7,
        inside: 80,
        asks: None,
    },
];

/// CPUs and memory of each managed guest: more than any of them needs.
const MANAGED_CPUS: u32 = 4;
const MANAGED_MIB: u32 = 512;
/// The gateway of every guest, behind which the host's loopback is.
const GATEWAY: std::net::Ipv4Addr = vm::GATEWAY;

/// Memory that these guests have when they are sized by hand, in MiB.
pub(super) fn hand_mib(only: &[&str]) -> u32 {
    wanted(only).map(|role| role.memory_mib).sum()
}

/// The guests of these classes, or all of them if there are none.
fn wanted<'a>(only: &'a [&str]) -> impl Iterator<Item = &'static Role> + 'a {
    ROLES.iter().filter(move |role| only.is_empty() || only.contains(&role.class))
}

/// The farm's file. Only these classes, or all of them if there are none.
pub(super) fn text(name: &str, is_managed: bool, ports: Ports, only: &[&str]) -> String {
    let mut out = format!("name = \"{name}\"\n");
    for role in wanted(only) {
        let (cpus, memory) = match is_managed {
            true => (MANAGED_CPUS, MANAGED_MIB),
            false => (role.cpus, role.memory_mib),
        };
        let Ports(first) = ports;
        let asks = role.asks.map(|(what, port)| {
            format!("args = [\"pinhead.{what}={GATEWAY}:{}\"]\n", first + port)
        });
        let heap = role.heap_mib.map(|mib| format!("heap = \"{mib} MiB\"\n"));
        out.push_str(&format!(
            "[[class]]\nname = \"{}\"\nimage = \"{}\"\ncpus = {cpus}\nmemory = \"{memory} MiB\"\n\
             memory_min = \"64 MiB\"\n{}{}ports = [{{ guest = {}, host = {} }}]\n",
            role.class,
            role.image,
            asks.unwrap_or_default(),
            heap.unwrap_or_default(),
            role.inside,
            first + role.port
        ));
    }
    out
}
