//! Counter names of a kernel, and the replacements of retired names.

/// The counter names of a kernel. A rule with any other name is refused before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelNames {
    /// The names in /proc/meminfo, in its order.
    pub meminfo: Vec<Box<str>>,
    /// The names in /proc/vmstat, in its order.
    pub vmstat: Vec<Box<str>>,
    /// True if /proc/pressure can be read.
    pub psi: bool,
}

impl KernelNames {
    /// Returns true if /proc/meminfo has that line.
    pub fn has_meminfo(&self, name: &str) -> bool {
        self.meminfo.iter().any(|n| **n == *name)
    }

    /// Returns true if /proc/vmstat has that line.
    pub fn has_vmstat(&self, name: &str) -> bool {
        self.vmstat.iter().any(|n| **n == *name)
    }
}

/// The lines that have replaced `allocstall`.
const ALLOCSTALL: [&str; 6] = [
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_normal",
    "allocstall_high",
    "allocstall_movable",
    "allocstall_device",
];

/// Returns the lines that replace a retired name of /proc/vmstat. The retired counter's value is
/// the sum of those lines that the kernel has, or 0 without such lines.
///
/// Since 4.8, kernels reclaim by node and no longer count by zone. In each family of zone counters,
/// `_normal` gets the value of the whole family, and the other zones get 0. A rule that sums over
/// all zones therefore stays right. Only `allocstall` was replaced by several lines, one for each
/// zone that the kernel was built with.
pub fn retired(name: &str) -> Option<&'static [&'static str]> {
    const ZONES: [&str; 4] = ["dma", "dma32", "movable", "high"];
    const FAMILIES: [(&str, &[&str]); 6] = [
        ("pgscan_kswapd_", &["pgscan_kswapd"]),
        ("pgscan_direct_", &["pgscan_direct"]),
        ("pgsteal_kswapd_", &["pgsteal_kswapd"]),
        ("pgsteal_direct_", &["pgsteal_direct"]),
        ("pgsteal_", &["pgsteal_kswapd", "pgsteal_direct"]),
        ("pgrefill_", &["pgrefill"]),
    ];
    match name {
        "kswapd_steal" => return Some(&[]),
        "allocstall" => return Some(&ALLOCSTALL),
        _ => {}
    }
    FAMILIES.iter().find_map(|(family, reads)| {
        let zone = name.strip_prefix(family)?;
        match zone {
            "normal" => Some(*reads),
            _ if ZONES.contains(&zone) => Some(&[]),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_counted_once() {
        let reads = retired;
        assert_eq!(reads("pgscan_direct_normal"), Some(&["pgscan_direct"][..]));
        assert_eq!(reads("pgscan_direct_dma"), Some(&[][..]));
        assert_eq!(reads("pgsteal_normal"), Some(&["pgsteal_kswapd", "pgsteal_direct"][..]));
        assert_eq!(reads("kswapd_steal"), Some(&[][..]));
        assert_eq!(reads("pgsteal_kswapd"), None);
        assert_eq!(reads("pgscan_direct_throttle"), None);
    }

    #[test]
    fn report_g06_counters_of_kernels_3_4_to_4_7_are_known() {
        let reads = retired;
        assert_eq!(reads("pgsteal_kswapd_normal"), Some(&["pgsteal_kswapd"][..]));
        assert_eq!(reads("pgsteal_direct_normal"), Some(&["pgsteal_direct"][..]));
        assert_eq!(reads("pgrefill_normal"), Some(&["pgrefill"][..]));
        for name in ["pgsteal_kswapd_dma", "pgsteal_direct_movable", "pgrefill_high"] {
            assert_eq!(reads(name), Some(&[][..]), "{name}");
        }
        let stalls = reads("allocstall").expect("retired");
        assert!(stalls.contains(&"allocstall_normal") && stalls.contains(&"allocstall_device"));
        assert_eq!(reads("allocstall_normal"), None);
    }
}
