//! Memory load in a guest, and the guest's own counts of this load.

use crate::Guest;
use std::time::Duration;
use wire::{Memory, PoolRequest, Pressure, ToHost};

impl Guest<'_> {
    /// Fills the guest's page cache with data of a disk that is read only once. An empty device of
    /// compressed memory serves as the disk, because reading this device costs the host nothing.
    /// The cache stays while a process has the device open.
    pub fn fill_cache(&mut self, mib: u64) {
        self.sh(&format!(
            "swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset; \
             echo {mib}M > /sys/block/zram0/disksize; \
             (exec sleep 100000 < /dev/zram0) > /dev/null 2>&1 & \
             cat /dev/zram0 > /dev/null"
        ));
    }

    /// Allocates and touches this much memory in the background, 8 MiB at a time and about 40 MiB a
    /// second. The memory stays in use until [`Guest::free`].
    pub fn use_memory(&mut self, mib: u64) {
        let pieces = mib.div_ceil(8);
        self.sh(&format!(
            "rm -f /run/load.done; used=$(ls /dev/shm | wc -l); \
             (for n in $(seq {pieces}); do \
             dd if=/dev/zero of=/dev/shm/load.$((used + n)) bs=1M count=8; \
             usleep 150000; done; : > /run/load.done) > /dev/null 2>&1 &"
        ));
    }

    /// Waits until [`Guest::use_memory`] has allocated all of its memory.
    pub fn until_used(&mut self, limit: Duration) {
        let line = "ls /run/load.done 2> /dev/null || true";
        self.until_sh(line, limit, |text| !text.is_empty());
    }

    /// Returns the memory in use by [`Guest::use_memory`], in MiB.
    pub fn in_use_mib(&mut self) -> u64 {
        self.number("df -m /dev/shm | awk 'END {print $3}'")
    }

    /// Frees the memory allocated by [`Guest::use_memory`].
    pub fn free(&mut self) {
        self.sh("rm -f /dev/shm/load.* /run/load.done");
    }

    /// Returns the balloon's size as the guest counts it, in MiB.
    pub fn balloon_mib(&mut self) -> u64 {
        self.number(
            "awk '/^balloon_inflate/ {i=$2} /^balloon_deflate/ {d=$2} \
             END {print int((i-d)/256)}' /proc/vmstat",
        )
    }

    /// Returns the number of tasks killed because memory ran out.
    pub fn oom_kills(&mut self) -> u64 {
        self.number("awk '/^oom_kill / {print $2}' /proc/vmstat")
    }
}

/// Returns the command that prints the number of the daemon's wake-ups, which equals the number of
/// its waits. The number of dispatches is higher if other tasks of the guest preempt the daemon.
pub fn wake_ups() -> &'static str {
    "awk '/^voluntary_ctxt_switches/ {print $2}' /proc/$(pidof pinheadd)/status"
}

/// Returns well-formed frames with impossible values.
pub fn nonsense() -> Vec<u8> {
    let mut bytes = Vec::new();
    for sequence in 0..200 {
        let memory = Memory {
            sequence,
            uptime_ms: u64::MAX,
            total_kib: Some(u64::MAX - 1),
            available_kib: Some(0),
            oom_kills: Some(u64::MAX - 1),
            ..Memory::default()
        };
        let request = PoolRequest { sequence, pages: u64::MAX };
        let need = ToHost::Need(Pressure::Memory);
        for message in [ToHost::Memory(memory), ToHost::PoolRequest(request), need] {
            wire::encode(&message, &mut bytes);
        }
    }
    bytes
}
