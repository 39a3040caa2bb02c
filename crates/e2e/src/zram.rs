//! Compressed swap for a test of the host's page-out.
//!
//! It belongs to the whole machine, and a test that is killed cannot take it away: so its label
//! names the process of the test, and the next one removes what a dead one has left.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the label is in a swap header, and how long it is at most.
const LABEL_AT: u64 = 1052;
const LABEL_LEN: usize = 16;
/// What a label begins with; the number of the process follows.
const LABEL: &str = "e2e-test-";

/// A device that is swapped to, before all others. It is gone with this value.
#[derive(Debug)]
pub struct Zram {
    number: String,
}

impl Zram {
    /// One of 2 GiB. `None` where this machine has none to give.
    pub fn new() -> Option<Zram> {
        remove_left();
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").ok()?;
        let zram = Zram { number: number.trim().to_owned() };
        fs::write(zram.file("disksize"), "2G").ok()?;
        let label = format!("{LABEL}{}", std::process::id());
        (run(&["mkswap", "-L", &label, &zram.device()])
            && run(&["swapon", "-p", "32000", &zram.device()]))
        .then_some(zram)
    }

    fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/zram{}/{name}", self.number))
    }

    /// What is stored, and what that takes of the host's memory, in MiB.
    pub fn holds_mib(&self) -> (u64, u64) {
        let path = self.file("mm_stat");
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let numbers: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers.len() > 2, "{}: {text}", path.display());
        (numbers[0] >> 20, numbers[2] >> 20)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        run(&["swapoff", &self.device()]);
        let _ = fs::write(self.file("reset"), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.number);
    }
}

fn run(words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Removes what tests have left that are no more.
fn remove_left() {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for number in swaps.lines().filter_map(|line| {
        let device = line.split_whitespace().next()?;
        device.strip_prefix("/dev/zram")
    }) {
        let owner = File::open(format!("/dev/zram{number}")).ok().and_then(|file| owner(&file));
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            drop(Zram { number: number.to_owned() });
        }
    }
}

/// The process of the test that made a swap device. `None` if no test did.
fn owner(device: &File) -> Option<u32> {
    let mut label = [0; LABEL_LEN];
    device.read_exact_at(&mut label, LABEL_AT).ok()?;
    let text = std::str::from_utf8(&label).ok()?;
    text.trim_end_matches('\0').strip_prefix(LABEL)?.parse().ok()
}
