//! The guest's side of a virtio balloon: the negotiated features.

use procfs::Root;

use crate::plug::fsio;

/// Number of a feature bit of the balloon device, from the virtio specification.
const DEFLATE_ON_OOM: usize = 2;

/// Maximum number of devices that are checked. A guest has one balloon.
const MAX_DEVICES: usize = 64;

/// Returns true if the guest below `root` may take pages back from its balloon rather than kill
/// processes. The guest's MemTotal then does not change while the balloon grows, as with a CMM
/// pool. Returns `None` if no balloon has a driver, or if the features cannot be read. If there are
/// several balloons, the first one counts.
pub fn balloon_deflates_on_oom(root: &Root) -> Option<bool> {
    let mut devices =
        fsio::entries(&root.join("sys/bus/virtio/drivers/virtio_balloon"), MAX_DEVICES);
    devices.sort_unstable();
    devices.iter().find_map(|path| {
        if !path.file_name()?.to_str()?.starts_with("virtio") {
            return None;
        }
        // One character for each bit, the lowest first.
        let bits = fsio::read(&path.join("features")).ok()?;
        let bits = bits.trim_ascii();
        let is_text = !bits.is_empty() && bits.iter().all(|bit| matches!(bit, b'0' | b'1'));
        is_text.then(|| bits.get(DEFLATE_ON_OOM) == Some(&b'1'))
    })
}
