//! The guest's side of a virtio balloon: which features the two sides agreed on.

use procfs::Root;

use crate::fsio;

/// Bits of the balloon device's features, from the virtio specification.
const STATISTICS: usize = 1;
const DEFLATE_ON_OOM: usize = 2;
const FREE_PAGE_REPORTING: usize = 5;

/// A guest has one balloon; more devices than this are not looked at.
const MAX_DEVICES: usize = 64;

/// A balloon that the guest's driver has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balloon {
    /// The device's name below /sys/bus/virtio/devices.
    pub device: String,
    /// The guest may take pages back rather than kill, and its MemTotal stays as it
    /// is while the balloon grows: as with a CMM pool.
    pub deflate_on_oom: bool,
    /// The host can ask for statistics.
    pub statistics: bool,
    /// The guest tells the host of free pages by itself.
    pub free_page_reporting: bool,
}

/// The balloon of the guest below `root`: the first, should there be more. `None`
/// if there is none, or its features cannot be read.
pub fn guest_balloon(root: &Root) -> Option<Balloon> {
    let mut devices =
        fsio::entries(&root.join("sys/bus/virtio/drivers/virtio_balloon"), MAX_DEVICES);
    devices.sort_unstable();
    devices.iter().find_map(|path| {
        let device = path.file_name()?.to_str()?.to_owned();
        if !device.starts_with("virtio") {
            return None;
        }
        // One character a bit, the lowest first.
        let bits = fsio::read(&path.join("features")).ok()?;
        let bits = bits.trim_ascii();
        if bits.is_empty() || bits.iter().any(|bit| !matches!(bit, b'0' | b'1')) {
            return None;
        }
        let has = |bit: usize| bits.get(bit) == Some(&b'1');
        Some(Balloon {
            device,
            deflate_on_oom: has(DEFLATE_ON_OOM),
            statistics: has(STATISTICS),
            free_page_reporting: has(FREE_PAGE_REPORTING),
        })
    })
}
