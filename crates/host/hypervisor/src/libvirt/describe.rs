//! Parser of libvirt's description of a domain: its memory, CPUs and port.

use std::path::PathBuf;

use base::Bytes;
use roxmltree::{Document, Node, ParsingOptions};

use crate::{Capabilities, Pinned};

/// Maximum number of XML nodes of a description. A domain with a hundred disks has 5,000.
const NODES_MAX: u32 = 50_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// Number of the running domain; `None` if it is off.
    pub(super) number: Option<i32>,
    /// Memory as libvirt counts it, including the maximum of the virtio-mem devices.
    pub(super) total: Bytes,
    /// Maximum memory now, including the memory plugged by these devices.
    pub(super) memory: Bytes,
    /// Memory plugged by these devices. libvirt includes it in the balloon's size, and QEMU does
    /// not.
    pub(super) beside: Bytes,
    /// Sizes of the memory blocks: of each memory node, DIMM and virtio-mem device.
    pub(super) ram: Vec<Bytes>,
    /// Number of vCPUs, as libvirt counted them last.
    pub(super) vcpus: Option<u32>,
    pub(super) can: Capabilities,
    pub(super) port: Option<PathBuf>,
    /// Period of the balloon's statistics outside of requests, in seconds. 0 means never.
    pub(super) period_seconds: i32,
}

impl Description {
    /// Parses libvirt's XML. The error names the missing part.
    pub(super) fn parse(xml: &str) -> Result<Description, String> {
        let document =
            open(xml).map_err(|error| format!("the description is not valid XML: {error}"))?;
        let domain = document.root_element();
        let total = child(domain, "memory").and_then(size);
        let total = total.filter(|total| *total > Bytes::ZERO);
        let total = total.ok_or("the description has no valid <memory>")?;
        let devices = child(domain, "devices").ok_or("the description has no <devices>")?;
        let balloon = child(devices, "memballoon")
            .filter(|balloon| balloon.attribute("model").is_some_and(|model| model != "none"));
        let is_virtio = |balloon: Node<'_, '_>| {
            balloon.attribute("model").is_some_and(|model| model.starts_with("virtio"))
        };
        // QEMU's default is off, and libvirt passes on only explicit settings.
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
        let ram = pieces(domain, devices, total);
        let (sizes, beside) = virtio_mem(devices);
        let memory = total.less(sizes).plus(beside);
        let memory = Some(memory).filter(|memory| *memory > Bytes::ZERO);
        let memory = memory.ok_or("its virtio-mem devices take all of its <memory>")?;
        let vcpus = None;
        Ok(Description { number, total, memory, beside, ram, vcpus, can, port, period_seconds })
    }

    /// Returns true if memory may be changed by virtio-mem.
    pub(super) fn has_virtio_mem(&self) -> bool {
        self.total > self.memory || self.beside > Bytes::ZERO
    }
}

/// Returns the memory that a balloon leaves to a domain by its configuration. With virtio-mem the
/// result is `None`, because libvirt adds the memory of the virtio-mem devices.
pub(super) fn configured_memory(xml: &str) -> Option<Bytes> {
    let document = open(xml).ok()?;
    let domain = document.root_element();
    let memory = child(domain, "memory").and_then(size)?;
    let current = child(domain, "currentMemory").and_then(size);
    let (sizes, _) = virtio_mem(child(domain, "devices")?);
    (sizes == Bytes::ZERO).then(|| current.unwrap_or(memory).min(memory))
}

fn open(xml: &str) -> Result<Document<'_>, roxmltree::Error> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(xml, options)
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &'a str) -> Option<Node<'a, 'i>> {
    children(node, name).next()
}

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

/// Returns the maximum size and the plugged memory of each memory device. If the description has no
/// plugged size, the plugged memory is 0.
fn sizes<'a>(devices: Node<'a, '_>, model: &'a str) -> impl Iterator<Item = (Bytes, Bytes)> {
    let is_it = move |device: &Node<'_, '_>| device.attribute("model") == Some(model);
    children(devices, "memory").filter(is_it).filter_map(|device| {
        let target = child(device, "target")?;
        let most = size(child(target, "size")?)?;
        let given = child(target, "current").and_then(size).unwrap_or(Bytes::ZERO);
        Some((most, given.min(most)))
    })
}

/// Returns the maximum memory of all virtio-mem devices, and their plugged memory.
fn virtio_mem(devices: Node<'_, '_>) -> (Bytes, Bytes) {
    sizes(devices, "virtio-mem").fold((Bytes::ZERO, Bytes::ZERO), |sum, (most, given)| {
        (sum.0.plus(most), sum.1.plus(given))
    })
}

/// Returns the sizes of the memory nodes and devices. A domain without nodes has one node with all
/// memory outside of devices.
fn pieces(domain: Node<'_, '_>, devices: Node<'_, '_>, total: Bytes) -> Vec<Bytes> {
    let numa = child(domain, "cpu").and_then(|cpu| child(cpu, "numa"));
    let cells = numa.into_iter().flat_map(|numa| children(numa, "cell"));
    let mut nodes: Vec<Bytes> = cells
        .filter_map(|cell| in_unit(cell.attribute("memory")?, cell.attribute("unit")))
        .collect();
    let plugged = sizes(devices, "dimm").chain(sizes(devices, "virtio-mem"));
    let plugged: Vec<Bytes> = plugged.map(|(most, _)| most).collect();
    if nodes.is_empty() {
        nodes.push(total.less(plugged.iter().copied().sum()));
    }
    nodes.extend(plugged);
    nodes
}

/// Returns the reason why the memory stays resident on the host, if there is one.
fn pinned(domain: Node<'_, '_>, devices: Node<'_, '_>) -> Option<Pinned> {
    let is_passed = |device: Node<'_, '_>| {
        let kind = device.attribute("type");
        match device.tag_name().name() {
            // IBM Z's channels and crypto cards pin only the pages in current use.
            "hostdev" if kind == Some("mdev") => device.attribute("model") == Some("vfio-pci"),
            "hostdev" => kind == Some("pci"),
            // A network card of the host.
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
        target.attribute("type") == Some("virtio")
            && target.attribute("name") == Some(crate::PORT_NAME)
    })
}

/// Returns the socket to connect to. A port in connect mode belongs to its listener, so this
/// process must not use it.
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
    fn all_capabilities_are_parsed() {
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
            total: Bytes(1 << 30),
            memory: Bytes(1 << 30),
            beside: Bytes::ZERO,
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
    fn configured_memory_is_what_the_balloon_leaves() {
        let read = |top: &str, devices: &str| {
            configured_memory(&domain(top, devices)).map(|size| size.as_mib())
        };
        let top = "<memory unit='MiB'>256</memory>";
        assert_eq!(read(top, ""), Some(256));
        let current = |mib| format!("{top}<currentMemory unit='MiB'>{mib}</currentMemory>");
        assert_eq!((read(&current(160), ""), read(&current(512), "")), (Some(160), Some(256)));
        let virtio = "<memory model='virtio-mem'><target><size unit='MiB'>64</size></target>\
                      </memory>";
        assert_eq!(read(&current(160), virtio), None, "libvirt adds virtio-mem's memory");
        assert_eq!((read("", ""), configured_memory("no XML")), (None, None));
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
    fn report_h16_virtio_mem_of_a_domain_is_told_apart() {
        let device = |most: &str, rest: &str| {
            format!(
                "<memory model='virtio-mem'><target><size unit='MiB'>{most}</size>\
                 <requested unit='MiB'>512</requested>{rest}</target></memory>"
            )
        };
        let given = |mib| format!("<current unit='MiB'>{mib}</current>");
        let read = |devices: &str| {
            Description::parse(&domain("<memory unit='GiB'>2</memory>", devices))
                .map(|it| (it.memory.as_mib(), it.beside.as_mib(), it.has_virtio_mem()))
        };
        let one = device("1024", &given(256));
        assert_eq!(read(""), Ok((2048, 0, false)));
        assert_eq!(read(&one), Ok((1024 + 256, 256, true)));
        assert_eq!(read(&device("1024", &given(1024))), Ok((2048, 1024, true)));
        assert_eq!(read(&device("1024", &given(4096))), Ok((2048, 1024, true)), "never above it");
        assert_eq!(read(&device("1024", "")), Ok((1024, 0, true)), "it is off");
        assert_eq!(read(&device("many", &given(1))), Ok((2048, 0, false)));
        let two = format!("{}{}", device("512", &given(64)), device("512", &given(32)));
        assert_eq!(read(&two), Ok((1024 + 96, 96, true)));
        let error = read(&device("2048", &given(0))).unwrap_err();
        assert!(error.contains("all of its <memory>"), "{error}");
        let top = "<memory unit='GiB'>2</memory>";
        let ram = Description::parse(&domain(top, &one)).unwrap().ram;
        assert_eq!(ram, [Bytes::mib(1024); 2], "the device's maximum size");
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
    fn report_h06_mediated_device_has_the_memory_by_its_model() {
        let pinned = |model: &str| {
            let device = format!("<hostdev mode='subsystem' type='mdev' {model}/>");
            Description::parse(&domain("<memory>1</memory>", &device)).unwrap().can.pinned
        };
        assert_eq!(pinned("model='vfio-pci'"), Some(Pinned::Device));
        for model in ["model='vfio-ccw'", "model='vfio-ap'", ""] {
            assert_eq!(pinned(model), None, "{model}");
        }
    }

    #[test]
    fn missing_device_gives_no_capability() {
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
        // The port exists, but another process listens on its socket.
        let connects = Description::parse(&domain(top, &channel("connect"))).unwrap();
        assert_eq!((connects.can.port, connects.port), (true, None));
    }

    #[test]
    fn error_names_the_unreadable_part() {
        let check = |xml: &str, part: &str| {
            let error = Description::parse(xml).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check("<domain>", "not valid XML");
        check(&domain("", ""), "<memory>");
        check(&domain("<memory unit='acre'>1</memory>", ""), "<memory>");
        check(&domain("<memory unit='TiB'>18446744073709551615</memory>", ""), "<memory>");
        check("<domain><memory>1</memory></domain>", "<devices>");
        let bomb = "<!DOCTYPE d [<!ENTITY a 'b'>]><domain>&a;</domain>";
        check(bomb, "not valid XML");
        check(&domain(&"<a/>".repeat(60_000), ""), "not valid XML");
        let deep = format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000));
        check(&deep, "<memory>");
    }
}
