//! Which names a kernel has, and what became of those that it had once.

/// The counter names that a kernel shows, so that a rule which asks for another
/// is refused before it runs and not after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelNames {
    /// The names in /proc/meminfo, in its order.
    pub meminfo: Vec<Box<str>>,
    /// The names in /proc/vmstat, in its order.
    pub vmstat: Vec<Box<str>>,
    /// Whether /proc/pressure can be read.
    pub psi: bool,
}

impl KernelNames {
    /// Whether /proc/meminfo has that line.
    pub fn has_meminfo(&self, name: &str) -> bool {
        self.meminfo.iter().any(|n| **n == *name)
    }

    /// Whether /proc/vmstat has that line.
    pub fn has_vmstat(&self, name: &str) -> bool {
        self.vmstat.iter().any(|n| **n == *name)
    }
}

/// What a retired name of /proc/vmstat reads today: the sum of these lines, which for
/// most siblings is no line at all, thus 0.
///
/// Kernels since 4.8 reclaim by node and dropped the counters by zone. What the
/// `_normal` counter of a family reads covers the whole family, and its siblings
/// read 0, so that a rule's sum over the zones stays right.
pub fn retired(name: &str) -> Option<&'static [&'static str]> {
    const ZONES: [&str; 4] = ["dma", "dma32", "movable", "high"];
    const FAMILIES: [(&str, &[&str]); 3] = [
        ("pgscan_kswapd_", &["pgscan_kswapd"]),
        ("pgscan_direct_", &["pgscan_direct"]),
        ("pgsteal_", &["pgsteal_kswapd", "pgsteal_direct"]),
    ];
    if name == "kswapd_steal" {
        return Some(&[]);
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
}
