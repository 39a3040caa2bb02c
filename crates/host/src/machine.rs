//! The host itself: what it has, and whether it is in want.

use counters::{Bytes, Counter, PsiField, PsiLine, PsiResource};
use kernfs::{Reader, Root};
use policy::arbiter::HostSample;

/// What is read of the host once a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// MemTotal.
    pub total: Bytes,
    /// MemAvailable.
    pub available: Bytes,
    /// Pages read from swap since boot.
    pub swap_in: u64,
    /// Pages written to swap since boot.
    pub swap_out: u64,
    /// Microseconds in which some task waited for memory, where the kernel counts that.
    pub psi_some_us: Option<u64>,
}

/// Reads the host's counters, with files that stay open.
#[derive(Debug)]
pub struct MachineReader {
    reader: Reader,
    pressure: Option<Reader>,
    row: [f64; 4],
}

impl MachineReader {
    /// Opens the files below a root.
    pub fn open(root: &Root) -> Result<MachineReader, kernfs::Error> {
        let meminfo = |name: &str| Counter::Meminfo(name.into());
        let vmstat = |name: &str| Counter::Vmstat(name.into());
        let wanted =
            [meminfo("MemTotal"), meminfo("MemAvailable"), vmstat("pswpin"), vmstat("pswpout")];
        let psi = Counter::Psi(PsiResource::Memory, PsiLine::Some, PsiField::Total);
        Ok(MachineReader {
            reader: Reader::open(root, &wanted)?,
            // A kernel may have it compiled in and switched off.
            pressure: Reader::open(root, &[psi]).ok(),
            row: [f64::NAN; 4],
        })
    }

    /// What the host has now.
    pub fn read(&mut self) -> Result<Machine, kernfs::Error> {
        self.reader.read(0.0, &mut self.row)?;
        let [total, available, swap_in, swap_out] = self.row.map(|value| value as u64);
        let mut psi = [f64::NAN];
        let read = self.pressure.as_mut().map(|reader| reader.read(0.0, &mut psi));
        Ok(Machine {
            total: Bytes(total.saturating_mul(1024)),
            available: Bytes(available.saturating_mul(1024)),
            swap_in,
            swap_out,
            psi_some_us: matches!(read, Some(Ok(()))).then_some(psi[0] as u64),
        })
    }
}

impl Machine {
    /// What the arbiter is told. With a budget guests may use that much together, whatever
    /// else the host has.
    pub fn sample(
        &self,
        budget: Option<Bytes>,
        resident: Bytes,
        strained: bool,
        at_ms: u64,
    ) -> HostSample {
        let (total, available) = match budget {
            Some(budget) => (budget.min(self.total), self.available.min(budget.less(resident))),
            None => (self.total, self.available),
        };
        HostSample { at_ms, total, available, strained }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bounds_what_is_free() {
        let machine =
            Machine { total: Bytes::mib(1000), available: Bytes::mib(600), ..Machine::default() };
        let free =
            |budget, used| machine.sample(budget, Bytes::mib(used), false, 7).available.as_mib();
        assert_eq!(free(None, 300), 600);
        assert_eq!(free(Some(Bytes::mib(500)), 300), 200);
        assert_eq!(free(Some(Bytes::mib(950)), 300), 600, "what is not there is not free");
        assert_eq!(free(Some(Bytes::mib(100)), 300), 0);
    }
}
