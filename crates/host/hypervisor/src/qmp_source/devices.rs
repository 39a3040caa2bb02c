//! The devices of a QEMU that pinhead uses: its balloon, and the port of a daemon. They may be
//! attached and detached at run time.

use std::path::PathBuf;

use qmp::{Chardev, Command, Property, Reply, Value};

use super::link::{Link, Purpose};
use crate::{Capabilities, Pinned};

/// Maximum number of serial ports that are probed. QEMU's own bus has room for 31.
const PORTS_MAX: usize = 8;
/// Parents of devices in QEMU's object tree: of devices with an id, and of devices without an id.
const DEVICES: [&str; 2] = ["/machine/peripheral", "/machine/peripheral-anon"];
/// Prefix of the types of passed-through devices, which can access all guest memory.
const PASSED_DEVICE: &str = "child<vfio-pci";

#[derive(Debug, Default)]
struct SerialPort {
    is_ours: bool,
    chardev: Option<String>,
}

/// Responses about devices so far.
#[derive(Debug, Default)]
pub(super) struct DeviceLook {
    chardevs: Vec<Chardev>,
    balloon: Option<String>,
    statistics: bool,
    deflate_on_oom: Option<bool>,
    page_reporting: Option<bool>,
    ports: Vec<SerialPort>,
    has_passed_device: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Devices {
    /// Path of the balloon in QEMU's object tree.
    pub(super) balloon: Option<String>,
    pub(super) can: Capabilities,
    /// Socket of the daemon's port.
    pub(super) port: Option<PathBuf>,
}

impl DeviceLook {
    pub(super) fn begin(link: &mut Link, now_ms: u64) -> DeviceLook {
        link.ask(Purpose::Chardevs, Command::QueryChardev, now_ms);
        for path in DEVICES {
            link.ask(Purpose::Devices(path), Command::QomList { path: path.into() }, now_ms);
        }
        DeviceLook::default()
    }

    pub(super) fn is_ours(purpose: &Purpose) -> bool {
        matches!(
            purpose,
            Purpose::Chardevs
                | Purpose::Devices(_)
                | Purpose::DeflateOnOom
                | Purpose::PageReporting
                | Purpose::StatsThere
                | Purpose::PortName(_)
                | Purpose::PortChardev(_)
        )
    }

    pub(super) fn answer(&mut self, purpose: Purpose, reply: Reply, link: &mut Link, now_ms: u64) {
        match (purpose, reply) {
            (Purpose::Chardevs, Reply::Chardevs(list)) => self.chardevs = list,
            (Purpose::Devices(path), Reply::Properties(list)) => {
                self.devices(path, &list, link, now_ms);
            }
            (Purpose::DeflateOnOom, Reply::Value(value)) => self.deflate_on_oom = value.as_bool(),
            (Purpose::PageReporting, Reply::Value(value)) => self.page_reporting = value.as_bool(),
            (Purpose::StatsThere, Reply::Value(_)) => self.statistics = true,
            (Purpose::PortName(place), Reply::Value(value)) => {
                if let Some(port) = self.ports.get_mut(place) {
                    port.is_ours = value.as_str() == Some(crate::PORT_NAME);
                }
            }
            (Purpose::PortChardev(place), Reply::Value(Value::String(label))) => {
                if let Some(port) = self.ports.get_mut(place) {
                    port.chardev = Some(label);
                }
            }
            _ => {}
        }
    }

    fn devices(&mut self, parent: &str, list: &[Property], link: &mut Link, now_ms: u64) {
        let mut get = |purpose, path: &str, property| {
            link.ask(purpose, Command::QomGet { path: path.to_owned(), property }, now_ms);
        };
        for device in list {
            let path = format!("{parent}/{}", device.name);
            if device.kind.starts_with("child<virtio-balloon") && self.balloon.is_none() {
                get(Purpose::DeflateOnOom, &path, "deflate-on-oom");
                get(Purpose::PageReporting, &path, "free-page-reporting");
                get(Purpose::StatsThere, &path, "guest-stats");
                self.balloon = Some(path);
            } else if device.kind == "child<virtserialport>" && self.ports.len() < PORTS_MAX {
                get(Purpose::PortName(self.ports.len()), &path, "name");
                get(Purpose::PortChardev(self.ports.len()), &path, "chardev");
                self.ports.push(SerialPort::default());
            } else if device.kind.starts_with(PASSED_DEVICE) {
                self.has_passed_device = true;
            }
        }
    }

    /// Returns the devices once all responses are there. `has_balloon` is true if QEMU reports a
    /// balloon's size.
    pub(super) fn finish(self, has_balloon: bool) -> Devices {
        let port = self.ports.iter().find(|port| port.is_ours);
        let can = Capabilities {
            balloon: has_balloon,
            statistics: self.statistics,
            deflate_on_oom: self.deflate_on_oom,
            page_reporting: self.page_reporting,
            port: port.is_some(),
            pinned: self.has_passed_device.then_some(Pinned::Device),
        };
        let port = port.and_then(|port| listens_at(&self.chardevs, port.chardev.as_deref()?));
        Devices { balloon: self.balloon, can, port }
    }
}

/// Returns the socket on which a character device listens, such as the PATH of
/// `disconnected:unix:PATH,server=on`.
fn listens_at(chardevs: &[Chardev], label: &str) -> Option<PathBuf> {
    let filename = &chardevs.iter().find(|device| device.label == label)?.filename;
    let filename = filename.strip_prefix("disconnected:").unwrap_or(filename);
    let address = filename.strip_prefix("unix:")?;
    let path = address.strip_suffix(",server=on").or(address.strip_suffix(",server"))?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_where_its_character_device_listens() {
        let at = |filename: &str| {
            let device = Chardev { label: "port".into(), filename: filename.into() };
            listens_at(&[device], "port").map(|path| path.display().to_string())
        };
        let path = Some("/run/a,b.port".to_owned());
        assert_eq!(at("disconnected:unix:/run/a,b.port,server=on"), path);
        assert_eq!(at("unix:/run/a,b.port,server=on"), path);
        assert_eq!(at("unix:/run/a,b.port,server"), path);
        assert_eq!(at("unix:/run/a.port"), None, "it is a client itself");
        assert_eq!(at("unix:,server=on"), None, "an inherited socket has no name");
        assert_eq!(at("disconnected:tcp:0.0.0.0:1,server=on"), None);
        assert_eq!(listens_at(&[], "port"), None);
    }
}
