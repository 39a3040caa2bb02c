//! What a guest's memory is filled with, and what the guest itself says of it.

use crate::Guest;
use std::time::Duration;
use wire::{Memory, PoolRequest, Pressure, ToHost};

impl Guest<'_> {
    /// Reads so much of a disk once: page cache that nobody uses again. A device of compressed
    /// memory with nothing written on it is a disk that costs nothing. Its cache lasts as long
    /// as somebody has it open.
    pub fn fill_cache(&mut self, mib: u64) {
        self.sh(&format!(
            "swapoff /dev/zram0; echo 1 > /sys/block/zram0/reset; \
             echo {mib}M > /sys/block/zram0/disksize; \
             (exec sleep 100000 < /dev/zram0) > /dev/null 2>&1 & \
             cat /dev/zram0 > /dev/null"
        ));
    }

    /// Takes so much memory into use in the background, 8 MiB at a time and some 40 MiB a second.
    /// It is used until [`Guest::free`].
    pub fn use_memory(&mut self, mib: u64) {
        let pieces = mib.div_ceil(8);
        self.sh(&format!(
            "rm -f /run/load.done; used=$(ls /dev/shm | wc -l); \
             (for n in $(seq {pieces}); do \
             dd if=/dev/zero of=/dev/shm/load.$((used + n)) bs=1M count=8; \
             usleep 150000; done; : > /run/load.done) > /dev/null 2>&1 &"
        ));
    }

    /// Waits until [`Guest::use_memory`] has all that it wanted.
    pub fn until_used(&mut self, limit: Duration) {
        let line = "ls /run/load.done 2> /dev/null || true";
        self.until_sh(line, limit, |text| !text.is_empty());
    }

    /// How much of [`Guest::use_memory`] is in use, in MiB.
    pub fn in_use_mib(&mut self) -> u64 {
        self.number("df -m /dev/shm | awk 'END {print $3}'")
    }

    /// Frees what was taken into use.
    pub fn free(&mut self) {
        self.sh("rm -f /dev/shm/load.* /run/load.done");
    }

    /// What its balloon holds by its own word, in MiB.
    pub fn balloon_mib(&mut self) -> u64 {
        self.number(
            "awk '/^balloon_inflate/ {i=$2} /^balloon_deflate/ {d=$2} \
             END {print int((i-d)/256)}' /proc/vmstat",
        )
    }

    /// How many of its tasks were killed because there was no memory left.
    pub fn oom_kills(&mut self) -> u64 {
        self.number("awk '/^oom_kill / {print $2}' /proc/vmstat")
    }
}

/// The command that prints how often the guest's daemon has waited for something, and so was woken.
/// How often it was given a CPU is more where the guest's other tasks take that away in between.
pub fn wake_ups() -> &'static str {
    "awk '/^voluntary_ctxt_switches/ {print $2}' /proc/$(pidof pinheadd)/status"
}

/// Frames that are well made and claim what cannot be.
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
