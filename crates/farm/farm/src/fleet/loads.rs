//! Loads that switch between busy and idle, for demonstrations.

/// Load of a guest besides its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// No load.
    Idle,
    /// Busy loops for a while, then none for a while.
    Cpu,
    /// Memory in use for a while, then freed.
    Memory,
}

impl Load {
    /// Loads assigned to the guests in rotation, so that each kind is visible.
    pub const IN_TURN: [Load; 3] = [Load::Cpu, Load::Memory, Load::Idle];
}

/// Returns the script for the load in a guest of this size; `None` for an idle guest.
pub fn load_script(load: Load, cpus: u32, memory_mib: u64) -> Option<String> {
    // A shell's loop keeps one CPU busy. The load keeps two thirds of the CPUs busy, so that the
    // remaining CPUs go offline visibly.
    let loops = (cpus * 2).div_ceil(3);
    match load {
        Load::Idle => None,
        Load::Cpu => Some(format!(
            "sleep 10\n\
             while :; do\n\
             \x20   pids=\n\
             \x20   for n in $(seq {loops}); do (while :; do :; done) & pids=\"$pids $!\"; done\n\
             \x20   sleep 12\n\
             \x20   kill $pids\n\
             \x20   wait $pids 2> /dev/null\n\
             \x20   sleep 18\n\
             done\n"
        )),
        // The pages have different content, so that KSM cannot merge them.
        Load::Memory => {
            let mib = memory_mib / 2;
            Some(format!(
                "sleep 25\n\
                 while :; do\n\
                 \x20   dd if=/dev/urandom of=/dev/shm/load bs=64k count={} 2> /dev/null\n\
                 \x20   sleep 5\n\
                 \x20   rm -f /dev/shm/load\n\
                 \x20   sleep 25\n\
                 done\n",
                mib * 16
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_fit_the_guest() {
        assert_eq!(load_script(Load::Idle, 4, 256), None);
        assert!(load_script(Load::Cpu, 4, 256).is_some_and(|s| s.contains("$(seq 3)")));
        assert!(load_script(Load::Memory, 4, 256).is_some_and(|s| s.contains("count=2048")));
    }
}
