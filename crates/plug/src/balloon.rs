//! The guest's side of a virtio balloon: which features the two sides agreed on.

use procfs::Root;

use crate::fsio;

/// A bit of the balloon device's features, from the virtio specification.
const DEFLATE_ON_OOM: usize = 2;

/// A guest has one balloon; more devices than this are not looked at.
const MAX_DEVICES: usize = 64;

/// Whether the guest below `root` may take pages back from its balloon rather than kill, and its
/// MemTotal stays as it is while the balloon grows, as with a CMM pool. `None` if there is no
/// balloon that the guest's driver has taken, or its features cannot be read; of several the
/// first counts.
pub fn balloon_deflates_on_oom(root: &Root) -> Option<bool> {
    let mut devices =
        fsio::entries(&root.join("sys/bus/virtio/drivers/virtio_balloon"), MAX_DEVICES);
    devices.sort_unstable();
    devices.iter().find_map(|path| {
        if !path.file_name()?.to_str()?.starts_with("virtio") {
            return None;
        }
        // One character a bit, the lowest first.
        let bits = fsio::read(&path.join("features")).ok()?;
        let bits = bits.trim_ascii();
        let is_text = !bits.is_empty() && bits.iter().all(|bit| matches!(bit, b'0' | b'1'));
        is_text.then(|| bits.get(DEFLATE_ON_OOM) == Some(&b'1'))
    })
}
