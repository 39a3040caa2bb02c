//! CPUs, plugged and unplugged through sysfs.

use std::path::PathBuf;

use procfs::{CpuList, Kept, Root};

use crate::plug::error::Error;
use crate::plug::fsio;

const DIR: &str = "sys/devices/system/cpu";

/// Dispatching mode of the virtual CPUs under an s390x hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarization {
    /// The machine does not have this feature.
    None,
    /// All CPUs get the same share.
    Horizontal,
    /// The hypervisor concentrates the work on a few CPUs, and the kernel parks the other CPUs.
    /// Plugging CPUs would work against the hypervisor.
    Vertical,
    /// The value could not be read or is unknown.
    Unknown,
}

impl Polarization {
    /// Returns true if CPUs may be plugged and unplugged.
    pub fn allows_plugging(self) -> bool {
        matches!(self, Polarization::None | Polarization::Horizontal)
    }
}

/// Size of the buffer for the list of CPUs that is read in each interval. A longer list is read
/// again without this buffer.
const LIST_BYTES: usize = 256;

/// CPUs present, read repeatedly, because CPUs are added while a guest runs.
#[derive(Debug)]
pub struct PresentCpus {
    path: PathBuf,
    file: Kept,
    text: [u8; LIST_BYTES],
    cpus: CpuList,
}

impl PresentCpus {
    /// Reads the CPUs present below `root`.
    pub fn open(root: &Root) -> Result<PresentCpus, Error> {
        let path = Cpus::new(root).list_path("present");
        let file = Kept::open(&path);
        // The initial text is invalid, so that the first read finds a difference.
        let (text, cpus) = ([0xff; LIST_BYTES], CpuList::default());
        let mut present = PresentCpus { path, file, text, cpus };
        present.renew()?;
        Ok(present)
    }

    /// Reads the CPUs present again. On an error, the previous list is kept.
    pub fn renew(&mut self) -> Result<(), Error> {
        let mut text = [0; LIST_BYTES];
        let is_read = self.file.start(&mut text).is_some();
        if !is_read {
            self.file = Kept::open(&self.path);
        }
        if !is_read || text != self.text || text[LIST_BYTES - 1] != 0 {
            self.cpus = fsio::read_cpu_list(&self.path)?;
            self.text = text;
        }
        Ok(())
    }

    /// Returns the CPUs present when they were last read.
    pub fn cpus(&self) -> &CpuList {
        &self.cpus
    }
}

/// The CPUs of the kernel below a root.
#[derive(Clone, Debug)]
pub struct Cpus {
    root: Root,
}

impl Cpus {
    /// Creates the handle for the CPUs below `root`.
    pub fn new(root: &Root) -> Cpus {
        Cpus { root: root.clone() }
    }

    fn list_path(&self, name: &str) -> PathBuf {
        self.root.join(&format!("{DIR}/{name}"))
    }

    /// Returns the CPUs that the machine has, online or not.
    pub fn present(&self) -> Result<CpuList, Error> {
        fsio::read_cpu_list(&self.list_path("present"))
    }

    /// Returns the CPUs online, which are also the snapshot for [`Cpus::restore`].
    pub fn online(&self) -> Result<CpuList, Error> {
        fsio::read_cpu_list(&self.list_path("online"))
    }

    /// Returns the current polarization, which can change while the guest runs.
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

    /// Returns the CPUs that the kernel keeps for work that is bound to a CPU (`isolcpus`,
    /// `nohz_full`). Other work does not use these CPUs. Bound work loses its CPU if that CPU goes
    /// offline.
    pub fn isolated(&self) -> CpuList {
        let mut all = Vec::new();
        for name in ["isolated", "nohz_full"] {
            // A kernel without the option has no file, or a file that is not a list.
            if let Ok(list) = fsio::read_cpu_list(&self.list_path(name)) {
                all.extend(list.iter());
            }
        }
        all.into_iter().collect()
    }

    /// Returns the CPUs that are online or can be brought online. Unconfigured CPUs are left out,
    /// and so are offline CPUs in a kernel that cannot plug.
    pub fn usable(&self) -> Result<CpuList, Error> {
        let online = self.online()?;
        Ok(chosen(&self.present()?, &|cpu| {
            online.contains(cpu)
                || self.can_become(cpu, true) && self.is_deconfigured(cpu) == Some(false)
        }))
    }

    /// Returns true if the CPU can be brought online, or offline, from its present state. In a
    /// captured tree with only the lists of CPUs, every CPU counts as changeable.
    fn can_become(&self, cpu: u32, online: bool) -> bool {
        let is_other_now = matches!(self.is_online(cpu), Ok(Some(now)) if now != online);
        is_other_now || !self.file(cpu, "").exists()
    }

    fn is_deconfigured(&self, cpu: u32) -> Option<bool> {
        self.is_configured(cpu).ok().map(|configured| !configured)
    }

    /// Returns the reason why no CPU can be plugged, and a remedy; `None` if a CPU can be plugged.
    pub fn why_no_plug(&self) -> Option<String> {
        let usable = without(&self.usable().ok()?, &self.isolated());
        let can_come = !without(&usable, &self.online().ok()?).is_empty();
        (!can_come).then(|| self.nothing_to_plug())
    }

    /// Returns the reason why no CPU can be unplugged; `None` if a CPU can be unplugged.
    pub fn why_no_unplug(&self) -> Option<String> {
        let online = without(&self.online().ok()?, &self.isolated());
        let can_go = online.len() > 1 && online.iter().any(|cpu| self.can_become(cpu, false));
        (!can_go).then(|| self.nothing_to_unplug())
    }

    /// Returns the reason why [`Cpus::plug_one`] found no CPU, and a remedy.
    pub fn nothing_to_plug(&self) -> String {
        let present = self.present().unwrap_or_default();
        let idle = chosen(&present, &|cpu| self.is_deconfigured(cpu) == Some(true));
        match idle.len() {
            0 => self.nothing_to_unplug(),
            1 => format!("CPU {idle} is present and not configured (chcpu --configure {idle})"),
            count => {
                format!("{count} CPUs are present and not configured (chcpu --configure {idle})")
            }
        }
    }

    /// Returns the reason why [`Cpus::unplug_one`] found no CPU.
    pub fn nothing_to_unplug(&self) -> String {
        let isolated = self.isolated();
        match isolated.is_empty() {
            true => "no CPU of this guest can be changed".into(),
            false => format!("no CPU but the isolated ones ({isolated}) can be changed"),
        }
    }

    /// Brings one CPU online: the lowest that is present, configured and offline. Isolated CPUs are
    /// left alone. If the kernel refuses a CPU, the next one is tried. Returns `None` if there is
    /// no CPU to plug, and the first error if every attempt failed.
    pub fn plug_one(&self) -> Result<Option<u32>, Error> {
        first_that_works(without(&self.present()?, &self.isolated()).iter(), |cpu| {
            let can = self.is_online(cpu)? == Some(false) && self.is_configured(cpu)?;
            if can {
                self.set_online(cpu, true)?;
            }
            Ok(can)
        })
    }

    /// Takes one CPU offline: the highest that is online and can go offline. CPU 0 comes last,
    /// because it handles the interrupts that were not moved, and on s390x it could go offline. The
    /// last CPU and isolated CPUs stay online. Returns `None` and errors like [`Cpus::plug_one`].
    pub fn unplug_one(&self) -> Result<Option<u32>, Error> {
        let online = without(&self.online()?, &self.isolated());
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

    /// Brings exactly the CPUs of `wanted` online, as far as possible, and returns the errors. CPUs
    /// are plugged before other CPUs are unplugged, so that the guest never has fewer CPUs than the
    /// smaller of the two sets.
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

    /// Returns true if the CPU is online. Returns `None` if the CPU can never be plugged or
    /// unplugged.
    fn is_online(&self, cpu: u32) -> Result<Option<bool>, Error> {
        let path = self.file(cpu, "online");
        match fsio::read_if_there(&path)? {
            None => Ok(None),
            Some(bytes) => Ok(Some(fsio::number(&path, &bytes)? == 1)),
        }
    }

    /// Returns true if the CPU is configured. On s390x a CPU that was taken from the guest can stay
    /// in the guest's list. Without the file, the CPU counts as configured.
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

/// Returns the CPUs that are not in `others`.
pub fn without(cpus: &CpuList, others: &CpuList) -> CpuList {
    chosen(cpus, &|cpu| !others.contains(cpu))
}

fn chosen(cpus: &CpuList, is_so: &dyn Fn(u32) -> bool) -> CpuList {
    cpus.iter().filter(|cpu| is_so(*cpu)).collect()
}

/// Returns the first CPU for which `act` succeeds. A failure does not stop the search.
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
