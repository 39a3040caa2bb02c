//! Memory, balloons and ports of domains that are attached and detached.

use super::*;

/// End of the devices, with a DIMM.
const DIMM: &str = "<memory model='dimm'><target><size unit='GiB'>1</size></target></memory>\
    </devices>";

#[test]
fn report_h02_memory_of_a_domain_follows_its_devices() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    for (gib, attached, second) in [(2, DIMM, 10), (1, "</devices>", 70)] {
        (scene.max_kib, scene.attached) = (gib << 20, attached);
        scene.libvirt.ask_actual(id, second * 1000);
        let memory = Bytes(u64::from(gib) << 30);
        let ram = vec![Bytes(1 << 30); gib as usize];
        let machine = Event::Machine(id, Machine { memory, ram, vcpu_tids: Vec::new() });
        let events = scene.at(second * 1000);
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events.contains(&machine) && events.contains(&Event::Actual(id, Bytes(1 << 29))));
    }
    // A size of 0 is ignored, because every domain has memory.
    scene.max_kib = 0;
    scene.libvirt.ask_actual(id, 80_000);
    assert_eq!(scene.at(80_000), [Event::Actual(id, Bytes(1 << 29))]);
    let described = scene.calls(GET_XML);
    for second in 81..90 {
        scene.libvirt.ask_actual(id, second * 1000);
        scene.at(second * 1000);
    }
    assert_eq!(scene.calls(GET_XML), described, "it was asked for within 10 s");
}

#[test]
fn report_h02_pieces_of_a_domain_change_once_a_minute() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    let mut told = Vec::new();
    for second in (10..=130).step_by(10) {
        let is_plugged = second / 10 % 2 == 1;
        (scene.max_kib, scene.attached) =
            if is_plugged { (2 << 20, DIMM) } else { (1 << 20, "</devices>") };
        scene.libvirt.ask_actual(id, second * 1000);
        for event in scene.at(second * 1000) {
            let Event::Machine(_, machine) = event else { continue };
            told.push(machine.ram.len());
        }
    }
    told.dedup();
    assert_eq!(told, [2, 1], "at 10 s, and at 80 s");
}

/// End of the devices, with a virtio-mem device of 1 GiB that has plugged a half or a quarter of
/// its size.
const HALF: &str = "<memory model='virtio-mem'><target><size unit='GiB'>1</size>\
    <current unit='MiB'>512</current></target></memory></devices>";
const QUARTER: &str = "<memory model='virtio-mem'><target><size unit='GiB'>1</size>\
    <current unit='MiB'>256</current></target></memory></devices>";

#[test]
fn report_h16_balloon_of_a_domain_is_without_virtio_mem() {
    let mut scene = Scene::new(&[(1, 5)]);
    (scene.max_kib, scene.attached) = (2 << 20, HALF);
    scene.memory_kib = 1536 << 10;
    let events = scene.settle();
    let [Event::Found(id, found)] = &events[..] else { panic!("{events:?}") };
    let id = *id;
    assert_eq!((found.memory, found.actual), (Bytes::mib(1536), Bytes::mib(1536)));
    assert_eq!(found.ram, [Bytes::mib(1024); 2]);
    for mib in [1536, 700, 100] {
        scene.libvirt.set_target(id, Bytes::mib(mib), 0);
        assert_eq!(scene.settle(), [Event::Taken(id, Bytes::mib(mib))]);
    }
    assert_eq!(scene.targets_kib, [1024 << 10, 188 << 10, 1 << 10], "without virtio-mem");
    scene.attached = QUARTER;
    scene.now_ms = 5_000;
    scene.send_event(EVENT_BALLOON, 1, 5, &[0, 1280 << 10]);
    let ram = vec![Bytes::mib(1024); 2];
    let machine = Machine { memory: Bytes::mib(1280), ram, vcpu_tids: Vec::new() };
    assert_eq!(scene.settle(), [Event::Actual(id, Bytes::mib(1280))]);
    scene.memory_kib = 1280 << 10;
    scene.libvirt.ask_actual(id, 10_000);
    let events = scene.at(10_000);
    assert_eq!(events, [Event::Machine(id, machine), Event::Actual(id, Bytes::mib(1280))]);
    scene.libvirt.set_target(id, Bytes::mib(700), 10_000);
    scene.settle();
    assert_eq!(scene.targets_kib.last(), Some(&(444 << 10)));
}

#[test]
fn report_h16_domain_without_balloon_has_what_virtio_mem_gives() {
    let mut scene = Scene::new(&[(1, 5)]);
    scene.xml = "<memory>SIZE</memory><devices></devices></domain>";
    (scene.max_kib, scene.memory_kib, scene.attached) = (2 << 20, 2 << 20, HALF);
    let events = scene.settle();
    let [Event::Found(_, found)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((found.memory, found.actual), (Bytes::mib(1536), Bytes::mib(1536)));
}

#[test]
fn virtio_mem_of_a_domain_is_known_at_once_when_it_changes() {
    let mut scene = Scene::new(&[(1, 5)]);
    (scene.max_kib, scene.attached) = (2 << 20, HALF);
    scene.memory_kib = 1536 << 10;
    let id = ids(&scene.settle())[0];
    let mut gives = |attached, mib: u32, now_ms| {
        (scene.attached, scene.memory_kib) = (attached, mib << 10);
        scene.now_ms = now_ms;
        // The device's name and size follow.
        scene.send_event(EVENT_MEMORY_DEVICE, 1, 5, &[3, 0x7561_3100, 0, mib << 20]);
        scene.settle()
    };
    let has = |mib: u64| {
        let memory = Bytes::mib(mib);
        let machine = Machine { memory, ram: vec![Bytes::mib(1024); 2], vcpu_tids: Vec::new() };
        [Event::Machine(id, machine), Event::Actual(id, memory)]
    };
    assert_eq!(gives(QUARTER, 1280, 20_000), has(1280));
    // A guest may change its memory each second, but the description is read only every 10 s.
    assert_eq!(gives(HALF, 1536, 21_000), [Event::Actual(id, Bytes::mib(1536))]);
    assert_eq!(scene.at(29_999), []);
    assert_eq!(scene.at(30_000), has(1536)[..1], "no size was requested");
}

#[test]
fn libvirt_without_an_event_of_virtio_mem_is_no_failure() {
    let mut scene = Scene::new(&[(1, 5)]);
    scene.refuse = Some((REGISTER, "unsupported event ID 26"));
    assert_eq!(ids(&scene.settle()).len(), 1);
    assert_eq!(scene.calls(REGISTER), virtrpc::EventKind::ALL.len());
}

#[test]
fn report_h04_channel_that_is_attached_to_a_domain_is_noticed() {
    let mut scene = Scene::new(&[(1, 5)]);
    let id = ids(&scene.settle())[0];
    scene.attached = "<channel type='unix'><source mode='bind' path='/run/a.port'/>\
        <target type='virtio' name='org.pinhead.0'/></channel></devices>";
    let mut devices = |second: u64| {
        scene.libvirt.ask_actual(id, second * 1000);
        let events = scene.at(second * 1000);
        let found = |event: &Event| matches!(event, Event::Devices(..));
        events.into_iter().find(found)
    };
    assert_eq!(devices(30), None);
    let found = devices(60);
    let Some(Event::Devices(of, can, port)) = found else { panic!("{found:?}") };
    assert!(of == id && can.port && can.balloon);
    assert_eq!(port, Some("/run/a.port".into()));
    assert_eq!(devices(120), None, "reported before");
}
