//! Results of the published experiments, for comparison with ours.

/// A row of the study of rules against hand sizing (Doelle and Sutera, 2012), in percent of the
/// hand-sized servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlugRow {
    /// Name of the configuration in the study.
    pub name: &'static str,
    /// Our preset with the rules of this configuration, if the study published rules.
    pub preset: Option<&'static str>,
    /// Transactions.
    pub throughput: u32,
    /// CPU time.
    pub cpu: u32,
    /// Memory in the view of the guests, and in the view of the hypervisor.
    pub sizes: Option<(u32, u32)>,
}

const fn row(
    name: &'static str,
    preset: Option<&'static str>,
    (throughput, cpu): (u32, u32),
    sizes: Option<(u32, u32)>,
) -> PlugRow {
    PlugRow { name, preset, throughput, cpu, sizes }
}

/// The study's table.
pub const PLUG: &[PlugRow] = &[
    row("hand-sized", None, (100, 100), Some((100, 100))),
    row("cpu-loadavg", Some("cpu-loadavg"), (88, 84), None),
    row("cpu-real-load", Some("cpu-real-load"), (96, 96), None),
    row("memory 1", Some("memory-1"), (97, 99), Some((132, 115))),
    row("memory 2", Some("memory-2"), (97, 98), Some((131, 107))),
    row("memory 3", Some("memory-3"), (96, 99), Some((120, 114))),
    row("memory 4", Some("memory-4"), (96, 99), Some((109, 105))),
    row("memory 5", Some("memory-5"), (95, 97), Some((118, 105))),
    row("memory 7", Some("memory-7"), (93, 98), Some((97, 99))),
    row("memory 8", Some("memory-8"), (94, 97), Some((97, 99))),
    row("memory 9 (2 s)", Some("memory-9"), (93, 99), Some((131, 119))),
    row("memory 10 (5 s)", Some("memory-10"), (96, 96), Some((124, 109))),
];

/// A case of the study of swap on a virtual disk (Velocity Software, 2001).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwapRow {
    /// Name of the case.
    pub name: &'static str,
    /// Shares of the guest's time, in percent: page wait, CPU, CPU wait, asynchronous I/O.
    pub states: (u32, u32, u32, Option<u32>),
    /// Working set of the guest, in MiB.
    pub wss_mib: u32,
    /// Paging rate of the guest, in pages per second.
    pub paging: u32,
    /// Trivial responses under a fifth of a second in the rest of the system, in percent.
    pub trivial: u32,
    /// Average response of the rest of the system, in seconds.
    pub response: f64,
}

/// The study's table.
pub const SWAP: &[SwapRow] = &[
    SwapRow {
        name: "large guest",
        states: (53, 25, 15, None),
        wss_mib: 80,
        paging: 20,
        trivial: 80,
        response: 3.0,
    },
    SwapRow {
        name: "small guest, swap in memory",
        states: (3, 52, 21, Some(24)),
        wss_mib: 20,
        paging: 2,
        trivial: 96,
        response: 1.0,
    },
    SwapRow {
        name: "small guest, no such swap",
        states: (3, 60, 20, Some(18)),
        wss_mib: 20,
        paging: 2,
        trivial: 99,
        response: 1.2,
    },
];

/// Results of the talk's three experiments (van der Heij, 2006): measure and value.
pub const PENGUINS: &[(&str, &str)] = &[
    ("idle server, CPU", "350 ms a minute"),
    ("idle server, wake-ups", "120 a minute"),
    ("experiment 1, 40 servers: idle CPU of all", "45 %"),
    ("experiment 1: first transaction, average", "12.5 s"),
    ("experiment 1: working set before, after", "500, 3000 pages"),
    ("experiment 2, 100 servers: first run, average", "12 s"),
    ("experiment 2: second and later runs", "under 2 s"),
    ("experiment 2: working set before, after, settled", "150, 1000, 150-250 pages"),
    ("experiment 2: pages read a server in the first run", "1300-2300"),
    ("experiment 3, 100 servers squeezed: taken before a guest swaps", "10 MB"),
    ("experiment 3: CPU before, while wiping", "68, 100 %"),
    ("experiment 3: expanded storage before, while wiping", "25, 567 pages/s"),
    ("experiment 3: disks before, while wiping", "0, 100 pages/s"),
    ("experiment 3: response, average", "0.6-1.1 s"),
    ("T:V idle, loaded", "1.1, 1.3-1.5"),
    ("reboot of one server", "300 CPU seconds, 8 minutes"),
    ("250 web hits, a hit", "500 ms, 50 of them in Apache, 50 in TCP/IP"),
];

/// Results of the study of CMM (Kammerer, 2009): case and finding.
pub const CMM: &[(&str, &str)] = &[
    ("OLTP on 10 guests, memory twice overcommitted: balloon", "+50 % transactions"),
    ("OLTP: page hinting", "no big gain"),
    ("claim: balloon", "fast while the claim is small; a large one makes guests swap"),
    ("claim: page hinting", "fast always"),
    ("claim: both", "the best choice"),
];
