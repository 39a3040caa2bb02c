//! Machine that a rules file is checked against: this machine, or a captured tree.

use base::Kib;
use model::counters::Counter;
use pinheadd::plug::Cpus;
use procfs::{Reader, Root};
use rules::Machine;

/// Reads the properties of the machine below a root.
pub fn of(root: &Root) -> Result<Machine, procfs::Error> {
    let names = procfs::kernel_names(root)?;
    let mut total = [f64::NAN];
    let read = Reader::open(root, &[Counter::meminfo("MemTotal")])
        .and_then(|mut reader| reader.read(0.0, &mut total));
    Ok(Machine {
        names: Some(names),
        cpus_usable: Cpus::new(root).usable().ok().map(|cpus| cpus.len() as u32),
        memory: read.is_ok().then_some(Kib(total[0] as u64)),
        // This machine may be the host of a guest with a pool, so a missing pool proves nothing.
        pool: None,
    })
}
