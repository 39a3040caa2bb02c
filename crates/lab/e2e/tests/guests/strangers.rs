//! Attacks on the real `pinhead host`, through guests' ports and by users of the host. Scripted
//! monitors replace QEMU.

use base::Bytes;
use e2e::PATIENCE;
use e2e::load::nonsense;
use e2e::manager::{Manager, Place, Size, wait_until};
use hypervisor::{Claim, Stranger};
use procfs::{Root, TaskDir};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use wire::{Decoder, Hello, PoolKind, Pressure, ToGuest, ToHost};

const NEIGHBOURS: usize = 40;
/// Time over which dispatches are counted.
const MEASURED: Duration = Duration::from_secs(5);
/// Maximum number of additional dispatches of the manager per second: sixteen, plus the noise of a
/// busy machine. Without a read budget there are more than four thousand.
const DISPATCHES: u64 = 500;
/// Time between two bytes. It is long enough for each byte to wake the manager.
const BETWEEN: Duration = Duration::from_micros(30);

fn claim(dir: &Path, number: usize) -> Claim {
    Claim {
        name: format!("g{number}"),
        uuid: format!("00112233-4455-6677-8899-{number:012x}"),
        memory: Bytes::mib(256),
        port: dir.join(format!("g{number}.port")),
        need: false,
    }
}

fn hello() -> ToHost {
    ToHost::Hello(Hello {
        boot_id: [7; 16],
        cpus_present: 1,
        update_ms: 1_000,
        pool: PoolKind::Host,
        reply: false,
        version: "1".into(),
    })
}

/// Returns the manager's dispatches per second. This measure is also valid on a busy machine.
fn dispatches_a_second(manager: &Manager<'_>) -> u64 {
    let dispatches = || {
        let mut tasks = TaskDir::open(&Root::default());
        let all = tasks.of_process(manager.pid(), usize::MAX);
        all.iter().map(|task| task.ran.dispatches).sum::<u64>()
    };
    let before = dispatches();
    let took = wait_until(MEASURED * 2, {
        let clock = vm::Deadline::after(MEASURED);
        move || clock.remaining().is_none()
    });
    (dispatches() - before) / took.expect("time passes").as_secs().max(1)
}

/// Reports that tasks wait for memory, and returns the time until the daemon is sampled.
fn is_served(port: &mut UnixStream) -> Duration {
    let mut bytes = [0; 64 * 1024];
    port.set_nonblocking(true).expect("a port");
    while port.read(&mut bytes).is_ok() {}
    port.set_nonblocking(false).expect("a port");
    let clock = vm::Deadline::after(PATIENCE);
    let mut need = Vec::new();
    wire::encode(&ToHost::Need(Pressure::Memory), &mut need);
    port.write_all(&need).expect("a port");
    let mut decoder = Decoder::<ToGuest>::new();
    loop {
        let count = port.read(&mut bytes).expect("a request in time");
        decoder.feed(&bytes[..count]);
        let mut messages = std::iter::from_fn(|| decoder.next());
        if messages.any(|message| matches!(message, ToGuest::Sample(_))) {
            return clock.elapsed();
        }
    }
}

/// Result of a flood on one port, next to forty idle guests.
struct Flooded {
    /// The manager's dispatches per second without the flood and during it.
    quiet: u64,
    loud: u64,
    /// Bytes written during the measurement, and the duration of the measurement.
    written: u64,
    lasted: Duration,
}

/// Writes this block to the first guest's port repeatedly, with a pause between two blocks.
fn flooded(block: Vec<u8>, pause: Duration) -> Flooded {
    let place = Place::new();
    let dir = place.dir();
    let mut guests = Stranger::of_ours(dir);
    let listen = |number| UnixListener::bind(claim(dir, number).port).expect("a port");
    let (hostile, neighbour) = (listen(0), listen(1));
    for number in 0..=NEIGHBOURS {
        guests.claim(&format!("g{number}.qmp"), &claim(dir, number)).expect("a monitor");
    }
    let size = Size { budget_mib: 20_000, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let settings = place.settings(&size, "");
    let manager = Manager::start(&place, &settings);
    manager.until("all are found", PATIENCE, |ps| ps.guests.len() == NEIGHBOURS + 1);
    let (mut hostile, _) = hostile.accept().expect("the manager");
    let (mut neighbour, _) = neighbour.accept().expect("the manager");
    neighbour.set_read_timeout(Some(PATIENCE)).expect("a port");
    let mut bytes = Vec::new();
    wire::encode(&hello(), &mut bytes);
    neighbour.write_all(&bytes).expect("a port");
    let quiet = dispatches_a_second(&manager);
    let written = Arc::new(AtomicU64::new(0));
    let clock = vm::Deadline::after(PATIENCE);
    // The flood ends when the manager closes the port.
    let flood = thread::spawn({
        let written = Arc::clone(&written);
        move || {
            while hostile.write_all(&block).is_ok() {
                written.fetch_add(block.len() as u64, Ordering::Relaxed);
                let pause = vm::Deadline::after(pause);
                while pause.remaining().is_some() {
                    std::hint::spin_loop();
                }
            }
        }
    });
    let served = is_served(&mut neighbour);
    let loud = dispatches_a_second(&manager);
    let (written, lasted) = (written.load(Ordering::Relaxed), clock.elapsed());
    drop(manager);
    flood.join().expect("the flood");
    println!(
        "{quiet} dispatches a second in peace, {loud} beside the flood, of which {written} bytes \
         were written in {lasted:?}; the neighbour was asked after {served:?}"
    );
    Flooded { quiet, loud, written, lasted }
}

/// Single bytes on a port wake the manager only within a budget, and a neighbour in need is
/// sampled.
#[test]
fn finding_05_single_bytes_wake_manager_within_a_budget() {
    let Flooded { quiet, loud, .. } = flooded(vec![0], BETWEEN);
    assert!(loud <= quiet + DISPATCHES, "{quiet} dispatches, then {loud}");
}

/// Well-formed messages arrive in large blocks at full speed. The manager reads no more than a port
/// may send. This limits the cost of the messages on any machine.
#[test]
fn large_blocks_on_a_port_are_read_within_a_budget() {
    /// Bytes that a port may send at once, and per second.
    const BURST: u64 = 262_144;
    const A_SECOND: u64 = 32_768;
    /// Kernel buffers between the two ends, and the block being written.
    const UNREAD: u64 = 524_288;
    let mut block = Vec::new();
    wire::encode(&hello(), &mut block);
    while block.len() < 65_536 {
        block.extend(nonsense());
    }
    let Flooded { quiet, loud, written, lasted } = flooded(block, Duration::ZERO);
    let most = BURST + A_SECOND * (lasted.as_secs() + 1) + UNREAD;
    assert!(written <= most, "{written} bytes were taken in {lasted:?}, {most} at most");
    assert!(loud <= quiet + DISPATCHES, "{quiet} dispatches, then {loud}");
}
