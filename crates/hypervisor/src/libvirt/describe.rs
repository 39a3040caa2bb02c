//! A domain's description: its memory, CPUs and port.

use std::path::PathBuf;

use counters::Bytes;
use roxmltree::{Document, Node, ParsingOptions};

use crate::{Capabilities, Pinned};

/// The name that the daemon's port has in the guest.
const PORT_NAME: &str = "org.pinhead.0";

/// The most elements and texts of a description. A domain with a hundred disks has 5,000.
const NODES_MAX: u32 = 50_000;

/// A domain as its description shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// Number of the domain since it was started; `None`: it is off.
    pub(super) number: Option<i32>,
    pub(super) memory: Bytes,
    /// Sizes of the pieces that it comes in: of each memory node and DIMM.
    pub(super) ram: Vec<Bytes>,
    /// Virtual CPUs, as libvirt counted them last.
    pub(super) vcpus: Option<u32>,
    pub(super) can: Capabilities,
    pub(super) port: Option<PathBuf>,
    /// How often the guest reports its memory when nobody asks; 0 for never.
    pub(super) period_seconds: i32,
}

impl Description {
    /// Reads libvirt's XML; the error names what is missing.
    pub(super) fn parse(xml: &str) -> Result<Description, String> {
        let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        let document = Document::parse_with_options(xml, options)
            .map_err(|error| format!("it is not proper XML: {error}"))?;
        let domain = document.root_element();
        let memory = child(domain, "memory").and_then(size);
        let memory = memory.filter(|memory| *memory > Bytes::ZERO);
        let memory = memory.ok_or("it has no proper <memory>")?;
        let devices = child(domain, "devices").ok_or("it has no <devices>")?;
        let balloon = child(devices, "memballoon")
            .filter(|balloon| balloon.attribute("model").is_some_and(|model| model != "none"));
        let is_virtio = |balloon: Node<'_, '_>| {
            balloon.attribute("model").is_some_and(|model| model.starts_with("virtio"))
        };
        // What is not set is off in QEMU, and libvirt passes on what is set only.
        let is_on = |name| balloon.map(|node| node.attribute(name) == Some("on"));
        let period = balloon.and_then(|node| child(node, "stats")?.attribute("period"));
        let port = children(devices, "channel").find(is_our_port);
        let can = Capabilities {
            balloon: balloon.is_some(),
            statistics: balloon.is_some_and(is_virtio),
            deflate_on_oom: is_on("autodeflate"),
            page_reporting: is_on("freePageReporting"),
            port: port.is_some(),
            pinned: pinned(domain, devices),
        };
        let port = port.and_then(socket_of);
        let number = domain.attribute("id").and_then(|text| text.parse().ok());
        let number = number.filter(|number| *number >= 0);
        let period_seconds = period.and_then(|text| text.parse().ok()).unwrap_or(0);
        let ram = pieces(domain, devices, memory);
        Ok(Description { number, memory, ram, vcpus: None, can, port, period_seconds })
    }
}

impl Description {
    /// Its memory was another: a DIMM of the difference came, or went.
    pub(super) fn plugged(&mut self, before: Bytes) {
        let (more, less) = (self.memory.less(before), before.less(self.memory));
        let gone = self.ram.iter().rposition(|piece| *piece == less);
        if let Some(place) = gone.filter(|_| less > Bytes::ZERO) {
            self.ram.remove(place);
        }
        self.ram.extend((more > Bytes::ZERO).then_some(more));
    }
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &'a str) -> Option<Node<'a, 'i>> {
    children(node, name).next()
}

/// A size in the unit that it names, or in KiB.
fn size(node: Node<'_, '_>) -> Option<Bytes> {
    in_unit(node.text()?, node.attribute("unit"))
}

fn in_unit(number: &str, unit: Option<&str>) -> Option<Bytes> {
    let unit: u64 = match unit {
        None | Some("KiB" | "k") => 1 << 10,
        Some("b" | "bytes") => 1,
        Some("KB") => 1_000,
        Some("MiB" | "M") => 1 << 20,
        Some("MB") => 1_000_000,
        Some("GiB" | "G") => 1 << 30,
        Some("GB") => 1_000_000_000,
        Some("TiB" | "T") => 1 << 40,
        Some("TB") => 1_000_000_000_000,
        Some(_) => return None,
    };
    let number: u64 = number.trim().parse().ok()?;
    number.checked_mul(unit).map(Bytes)
}

/// The sizes of its nodes and DIMMs. A domain without nodes has one, of all that is no DIMM.
fn pieces(domain: Node<'_, '_>, devices: Node<'_, '_>, memory: Bytes) -> Vec<Bytes> {
    let numa = child(domain, "cpu").and_then(|cpu| child(cpu, "numa"));
    let cells = numa.into_iter().flat_map(|numa| children(numa, "cell"));
    let mut nodes: Vec<Bytes> = cells
        .filter_map(|cell| in_unit(cell.attribute("memory")?, cell.attribute("unit")))
        .collect();
    let is_dimm = |device: &Node<'_, '_>| device.attribute("model") == Some("dimm");
    let dimms = children(devices, "memory").filter(is_dimm);
    let size = |dimm| size(child(child(dimm, "target")?, "size")?);
    let dimms: Vec<Bytes> = dimms.filter_map(size).collect();
    if nodes.is_empty() {
        nodes.push(memory.less(dimms.iter().copied().sum()));
    }
    nodes.extend(dimms);
    nodes
}

/// The reason for which its memory stays in the host's, if there is one.
fn pinned(domain: Node<'_, '_>, devices: Node<'_, '_>) -> Option<Pinned> {
    let is_passed = |device: Node<'_, '_>| {
        let kind = device.attribute("type");
        match device.tag_name().name() {
            "hostdev" => matches!(kind, Some("pci" | "mdev")),
            // A network card of the host's.
            "interface" => kind == Some("hostdev"),
            _ => false,
        }
    };
    let backing = child(domain, "memoryBacking");
    let has = |name| backing.is_some_and(|backing| child(backing, name).is_some());
    if devices.children().any(is_passed) {
        return Some(Pinned::Device);
    }
    if has("locked") {
        return Some(Pinned::Locked);
    }
    has("hugepages").then_some(Pinned::HugePages)
}

fn is_our_port(channel: &Node<'_, '_>) -> bool {
    child(*channel, "target").is_some_and(|target| {
        target.attribute("type") == Some("virtio") && target.attribute("name") == Some(PORT_NAME)
    })
}

/// Where to connect. A port that itself connects is its listener's, and not ours.
fn socket_of(channel: Node<'_, '_>) -> Option<PathBuf> {
    let source = child(channel, "source")?;
    if channel.attribute("type") != Some("unix") || source.attribute("mode") != Some("bind") {
        return None;
    }
    source.attribute("path").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(top: &str, devices: &str) -> String {
        format!("<domain type='kvm' id='7'>{top}<devices>{devices}</devices></domain>")
    }

    fn channel(mode: &str) -> String {
        format!(
            "<channel type='unix'><source mode='{mode}' path='/run/port'/>\
             <target type='virtio' name='org.pinhead.0' state='disconnected'/></channel>"
        )
    }

    #[test]
    fn everything_that_can_be_done_is_read() {
        let other = channel("bind").replace("org.pinhead", "org.qemu.guest_agent");
        let top = "<memory unit='KiB'>1048576</memory><currentMemory>524288</currentMemory>\
                   <vcpu placement='static' current='2'>4</vcpu>";
        let devices = format!(
            "{other}{}<memballoon model='virtio' autodeflate='on' freePageReporting='on'>\
             <stats period='10'/><alias name='balloon0'/></memballoon>",
            channel("bind")
        );
        let expected = Description {
            number: Some(7),
            vcpus: None,
            memory: Bytes(1 << 30),
            ram: vec![Bytes(1 << 30)],
            can: Capabilities {
                balloon: true,
                statistics: true,
                deflate_on_oom: Some(true),
                page_reporting: Some(true),
                port: true,
                pinned: None,
            },
            port: Some("/run/port".into()),
            period_seconds: 10,
        };
        assert_eq!(Description::parse(&domain(top, &devices)), Ok(expected));
    }

    #[test]
    fn report_h15_nodes_and_dimms_are_pieces_of_the_memory() {
        let cell = |mib| format!("<cell id='0' cpus='0' memory='{mib}' unit='MiB'/>");
        let numa = format!("<cpu><numa>{}{}</numa></cpu>", cell(128), cell(256));
        let dimm = "<memory model='dimm'><target><size unit='KiB'>65536</size></target></memory>";
        let ram = |top: &str, devices: &str| {
            let top = format!("<memory unit='MiB'>448</memory>{top}");
            Description::parse(&domain(&top, devices)).unwrap().ram
        };
        let mib = Bytes::mib;
        assert_eq!(ram(&numa, dimm), [mib(128), mib(256), mib(64)]);
        assert_eq!(ram("", dimm), [mib(384), mib(64)]);
        assert_eq!(ram("", ""), [mib(448)]);
    }

    #[test]
    fn report_h06_memory_that_stays_in_the_host_is_known_before() {
        let pinned = |top: &str, devices: &str| {
            let top = format!("<memory>1</memory>{top}");
            Description::parse(&domain(&top, devices)).unwrap().can.pinned
        };
        let backing = |what: &str| format!("<memoryBacking>{what}</memoryBacking>");
        let huge = "<hugepages><page size='2048' unit='KiB'/></hugepages>";
        assert_eq!(pinned(&backing(huge), ""), Some(Pinned::HugePages));
        assert_eq!(pinned(&backing(&format!("{huge}<locked/>")), ""), Some(Pinned::Locked));
        let device = "<hostdev mode='subsystem' type='pci'/>";
        assert_eq!(pinned(&backing("<locked/>"), device), Some(Pinned::Device));
        assert_eq!(pinned("", "<interface type='hostdev'/>"), Some(Pinned::Device));
        let usb = "<hostdev mode='subsystem' type='usb'/><interface type='network'/>";
        assert_eq!(pinned(&backing("<nosharepages/>"), usb), None);
    }

    #[test]
    fn what_is_not_there_cannot_be_done() {
        let top = "<memory unit='MiB'>3</memory><vcpu>4</vcpu>";
        for devices in ["", "<memballoon model='none'/>", "<memballoon/>"] {
            let read = Description::parse(&domain(top, devices)).unwrap();
            assert_eq!((read.memory, read.can), (Bytes(3 << 20), Capabilities::default()));
            assert_eq!((read.port, read.period_seconds), (None, 0));
        }
        let plain = Description::parse(&domain(top, "<memballoon model='virtio'/>")).unwrap();
        assert_eq!(plain.can.deflate_on_oom, Some(false));
        assert_eq!(plain.can.page_reporting, Some(false));
        let off = "<domain id='-'><memory>1</memory><devices/></domain>";
        assert_eq!(Description::parse(off).unwrap().number, None);
        // The port is there, and another process has it.
        let connects = Description::parse(&domain(top, &channel("connect"))).unwrap();
        assert_eq!((connects.can.port, connects.port), (true, None));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let check = |xml: &str, part: &str| {
            let error = Description::parse(xml).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check("<domain>", "not proper XML");
        check(&domain("", ""), "<memory>");
        check(&domain("<memory unit='acre'>1</memory>", ""), "<memory>");
        check(&domain("<memory unit='TiB'>18446744073709551615</memory>", ""), "<memory>");
        check("<domain><memory>1</memory></domain>", "<devices>");
        let bomb = "<!DOCTYPE d [<!ENTITY a 'b'>]><domain>&a;</domain>";
        check(bomb, "not proper XML");
        check(&domain(&"<a/>".repeat(60_000), ""), "not proper XML");
        let deep = format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000));
        check(&deep, "<memory>");
    }
}
