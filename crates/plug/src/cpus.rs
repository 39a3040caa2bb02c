//! CPUs, plugged and unplugged through sysfs.

use std::path::PathBuf;

use procfs::{CpuList, Root};

use crate::error::Error;
use crate::fsio;

const DIR: &str = "sys/devices/system/cpu";

/// How an s390x hypervisor dispatches the virtual CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarization {
    /// The machine knows no such thing.
    None,
    /// All CPUs get the same share.
    Horizontal,
    /// The hypervisor concentrates the work on few of the CPUs, and the kernel
    /// parks the others. Who plugs CPUs then works against it.
    Vertical,
    /// There is a word for it, and it could not be read or is a new one.
    Unknown,
}

impl Polarization {
    /// Whether CPUs may be plugged and unplugged. What is not known is no leave.
    pub fn allows_plugging(self) -> bool {
        matches!(self, Polarization::None | Polarization::Horizontal)
    }
}

/// The CPUs of the kernel below a root.
#[derive(Clone, Debug)]
pub struct Cpus {
    root: Root,
}

impl Cpus {
    /// The CPUs below `root`.
    pub fn new(root: &Root) -> Cpus {
        Cpus { root: root.clone() }
    }

    /// The CPUs that the machine has, online or not.
    pub fn present(&self) -> Result<CpuList, Error> {
        fsio::read_cpu_list(&self.root.join(&format!("{DIR}/present")))
    }

    /// The CPUs online: also the snapshot that [`Cpus::restore`] takes.
    pub fn online(&self) -> Result<CpuList, Error> {
        fsio::read_cpu_list(&self.root.join(&format!("{DIR}/online")))
    }

    /// The polarization now. It can change while the guest runs.
    pub fn polarization(&self) -> Polarization {
        let path = self.root.join(&format!("{DIR}/dispatching"));
        let number = match fsio::read_if_there(&path) {
            Ok(None) => return Polarization::None,
            Ok(Some(bytes)) => fsio::number(&path, &bytes),
            Err(error) => Err(error),
        };
        match number {
            Ok(0) => Polarization::Horizontal,
            Ok(1) => Polarization::Vertical,
            _ => Polarization::Unknown,
        }
    }

    /// Brings one CPU online: the lowest that is present, configured and offline.
    /// If the kernel refuses it, the next is tried. `None`: there is none to plug.
    /// An error is given only if none could be plugged; it is the first one met.
    pub fn plug_one(&self) -> Result<Option<u32>, Error> {
        first_that_works(self.present()?.iter(), |cpu| {
            let can = self.is_online(cpu)? == Some(false) && self.is_configured(cpu)?;
            if can {
                self.set_online(cpu, true)?;
            }
            Ok(can)
        })
    }

    /// Takes one CPU offline: the highest that is online and can go. The low
    /// numbers are left for last: cpu0 carries the interrupts that nobody moved and,
    /// on s390x, could go like any other. Never the last CPU. `None` and errors are
    /// as for [`Cpus::plug_one`].
    pub fn unplug_one(&self) -> Result<Option<u32>, Error> {
        let online = self.online()?;
        if online.len() < 2 {
            return Ok(None);
        }
        first_that_works(online.iter().rev(), |cpu| {
            let can = self.is_online(cpu)? == Some(true);
            if can {
                self.set_online(cpu, false)?;
            }
            Ok(can)
        })
    }

    /// Makes exactly the CPUs of `wanted` online. Does what it can and gives back
    /// what it could not. CPUs come before CPUs go, so that the guest is at no time
    /// left with fewer than it had and will have.
    pub fn restore(&self, wanted: &CpuList) -> Vec<Error> {
        let online = match self.online() {
            Ok(online) => online,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        let mut left = online.len();
        for cpu in wanted.iter().filter(|cpu| !online.contains(*cpu)) {
            match self.set_online(cpu, true) {
                Ok(()) => left += 1,
                Err(error) => errors.push(error),
            }
        }
        for cpu in online.iter().rev().filter(|cpu| !wanted.contains(*cpu)) {
            if left < 2 {
                errors.push(Error::LastCpu { cpu });
                continue;
            }
            match self.set_online(cpu, false) {
                Ok(()) => left -= 1,
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    /// `None`: the CPU cannot be plugged or unplugged at all.
    fn is_online(&self, cpu: u32) -> Result<Option<bool>, Error> {
        let path = self.file(cpu, "online");
        match fsio::read_if_there(&path)? {
            None => Ok(None),
            Some(bytes) => Ok(Some(fsio::number(&path, &bytes)? == 1)),
        }
    }

    /// On s390x a CPU can be taken from the guest without leaving its list. Where
    /// there is no such file every CPU is configured.
    fn is_configured(&self, cpu: u32) -> Result<bool, Error> {
        let path = self.file(cpu, "configure");
        match fsio::read_if_there(&path)? {
            None => Ok(true),
            Some(bytes) => Ok(fsio::number(&path, &bytes)? == 1),
        }
    }

    fn set_online(&self, cpu: u32, online: bool) -> Result<(), Error> {
        fsio::write_number(&self.file(cpu, "online"), u64::from(online))
    }

    fn file(&self, cpu: u32, name: &str) -> PathBuf {
        self.root.join(&format!("{DIR}/cpu{cpu}/{name}"))
    }
}

/// The first CPU for which `act` says that it acted. One that fails does not stop
/// the search.
fn first_that_works(
    cpus: impl Iterator<Item = u32>,
    act: impl Fn(u32) -> Result<bool, Error>,
) -> Result<Option<u32>, Error> {
    let mut first_error = None;
    for cpu in cpus {
        match act(cpu) {
            Ok(true) => return Ok(Some(cpu)),
            Ok(false) => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(None), Err)
}
