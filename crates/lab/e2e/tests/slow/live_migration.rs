//! Live migration of a real guest from one QEMU to another while it serves pages. The guest also
//! changes from one manager to another. Clients hardly notice the move. The guest keeps its memory
//! and identity, and the new host's manager reports the guest's previous host.

use e2e::HOLDING;
use e2e::daemon_dir;
use e2e::engines::free_port;
use e2e::manager::{Manager, Place, Size, actual_mib, row, wait_until};
use manager::control::GuestRunState;
use qmp::{Command as Qmp, Reply};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::kinds;
use vm::images::{Arch, Cache, GuestFile, Image, ImageSpec, web_files};
use vm::{Deadline, Monitor, Process};

const MEMORY_MIB: u64 = 128;
/// Memory of the guest when it migrates, in MiB. It is less than the initial memory.
const PINNED_MIB: u64 = 96;
const UUID: &str = "6f1c3c52-0000-4000-8000-00000000abcd";
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time without a page.
const AWAY: Duration = Duration::from_secs(2);
/// Timeout until the new manager manages the guest.
const MANAGED: Duration = Duration::from_secs(5);
/// Timeout of a response. After this time the client tries the other host.
const ANSWER: Duration = Duration::from_millis(250);

fn image() -> Image {
    let cache = Cache::from_environment().unwrap_or_else(|e| panic!("{e}"));
    let mut files = web_files(&cache, Arch::X86_64).unwrap_or_else(|e| panic!("{e}"));
    files.push(GuestFile::text("/etc/pinhead.conf", HOLDING));
    files.push(GuestFile::text("/etc/pinheadd.args", "-f -c /etc/pinhead.conf --pace host"));
    let daemon = daemon_dir().join(Arch::X86_64.name()).join("pinheadd");
    let spec = ImageSpec { arch: Arch::X86_64, daemon: Some(daemon), files };
    spec.build(&cache).unwrap_or_else(|e| panic!("{e}"))
}

/// Starts a QEMU by hand, with its sockets in a directory. The two QEMUs differ only in their
/// sockets, their port on this machine, and the incoming state.
fn start(image: &Image, dir: &Path, web: u16, incoming: Option<u16>) -> Process {
    let mut command = Command::new(Arch::X86_64.qemu_program());
    let mut words = |line: &str| {
        command.args(line.split_ascii_whitespace());
    };
    let sockets = dir.display();
    words("-name guest=mover -machine q35,hpet=off,smbus=off,sata=off -cpu max -smp 1");
    words("-accel tcg,thread=multi,tb-size=32 -display none -nodefaults -no-user-config");
    words(&format!("-m {MEMORY_MIB}M -uuid {UUID}"));
    words("-device virtio-balloon-pci,id=balloon0,deflate-on-oom=on,free-page-reporting=on");
    words("-device virtio-serial-pci,id=serial0,max_ports=4");
    words(&format!("-chardev socket,id=port,path={sockets}/mover.port,server=on,wait=off"));
    words("-device virtserialport,bus=serial0.0,chardev=port,name=org.pinhead.0");
    words(&format!(
        "-netdev user,id=n,ipv6=off,net=10.0.0.0/8,host=10.0.0.2,\
         hostfwd=tcp:127.0.0.1:{web}-10.1.0.1:80"
    ));
    words("-device virtio-net-pci,netdev=n,romfile=,guest_announce=off");
    words(&format!("-chardev socket,id=managed,path={sockets}/mover.qmp,server=on,wait=off"));
    words("-mon chardev=managed,mode=control");
    words(&format!("-chardev socket,id=moved,path={sockets}/mover.move,server=on,wait=off"));
    words("-mon chardev=moved,mode=control");
    if let Some(port) = incoming {
        words(&format!("-incoming tcp:127.0.0.1:{port}"));
    }
    command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initramfs);
    command.arg("-append").arg(
        "console=ttyS0 tsc=reliable clocksource=tsc nowatchdog no_timer_check quiet psi=1 panic=-1 \
         mitigations=off ipv6.disable=1 pinhead.name=mover pinhead.ip=10.1.0.1",
    );
    Process::start(command, Vec::new()).unwrap_or_else(|e| panic!("QEMU: {e}"))
}

/// Connects to the monitor that no manager uses.
fn monitor(dir: &Path) -> Monitor {
    let path = dir.join("mover.move");
    let mut stream = None;
    let there = wait_until(PATIENCE, || stream.insert(UnixStream::connect(&path)).is_ok());
    assert!(there.is_some(), "{}", path.display());
    match stream {
        Some(Ok(stream)) => Monitor::new(stream),
        _ => panic!("no monitor at {}", path.display()),
    }
}

fn call(monitor: &mut Monitor, command: Qmp) -> Reply {
    monitor.call(command, Deadline::after(PATIENCE)).unwrap_or_else(|e| panic!("{e}"))
}

/// Requests the page once.
fn page(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: mover\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// Requests the page repeatedly, and changes to the other host after a failure. Returns the longest
/// time without a page.
#[allow(clippy::disallowed_methods, reason = "it measures how long a page is away")]
fn visit(ports: [u16; 2], stop: &AtomicBool, served: &AtomicU64) -> Duration {
    let (mut at, mut longest) = (0, Duration::ZERO);
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if page(ports[at]) {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            served.fetch_add(1, Ordering::Relaxed);
        } else {
            at = 1 - at;
        }
    }
    longest.max(last.elapsed())
}

fn settings(place: &Place, name: &str) -> std::path::PathBuf {
    let size = Size { budget_mib: 4_096, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    place.settings(&size, &format!("\n[metrics]\nhost = \"{name}\"\n"))
}

#[test]
fn a_guest_that_moves_serves_its_page_and_is_managed_at_once() {
    let image = image();
    let places = [Place::new(), Place::new()];
    let ports = [free_port(), free_port()];
    let managers: Vec<Manager<'_>> = ["left", "right"]
        .iter()
        .zip(&places)
        .map(|(name, place)| Manager::start(place, &settings(place, name)))
        .collect();
    let [left, right] = &managers[..] else { panic!("two managers") };
    let mut source = start(&image, places[0].dir(), ports[0], None);
    assert!(wait_until(PATIENCE, || page(ports[0])).is_some(), "{}", source.stderr());
    left.knows(1);
    left.succeed(&["set", "mover", "pin", &format!("{PINNED_MIB} MiB")]);
    left.until("the guest has its pinned size", PATIENCE, |ps| {
        row(ps, "mover").is_some_and(|row| actual_mib(row) == PINNED_MIB)
    });

    let incoming = free_port();
    let destination = start(&image, places[1].dir(), ports[1], Some(incoming));
    right.until("it waits for the guest", PATIENCE, |ps| {
        row(ps, "mover").is_some_and(|row| row.state == GuestRunState::Migrating)
    });
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let (away, moved) = std::thread::scope(|scope| {
        let visitor = scope.spawn(|| visit(ports, &stop, &served));
        let more = |count: u64| {
            let before = served.load(Ordering::Relaxed);
            wait_until(PATIENCE, || served.load(Ordering::Relaxed) >= before + count)
        };
        assert!(more(20).is_some(), "pages before");
        let mut monitor = monitor(places[0].dir());
        call(&mut monitor, Qmp::Migrate { uri: format!("tcp:127.0.0.1:{incoming}") });
        let moved = wait_until(PATIENCE, || {
            let status = call(&mut monitor, Qmp::QueryMigrate);
            matches!(status, Reply::Migration(Some(status)) if status == "completed")
        });
        let managed = right.until("the guest is managed", PATIENCE, |ps| {
            row(ps, "mover").is_some_and(|row| {
                row.state == GuestRunState::Running && row.age_ms.is_some() && row.reason.is_some()
            })
        });
        println!("managed {managed:.1?} after it had moved");
        assert!(managed <= MANAGED, "{managed:?}");
        assert!(more(20).is_some(), "pages after: {}", destination.stderr());
        stop.store(true, Ordering::Relaxed);
        (visitor.join().unwrap_or_else(|_| panic!("the visitor")), moved)
    });
    let pages = served.load(Ordering::Relaxed);
    println!("moved in {moved:.1?}; {pages} pages, and none for {away:.2?} at most");
    assert!(moved.is_some() && away <= AWAY, "{away:?}");

    // The guest is the same, with the same memory.
    let found = right.row("mover");
    assert_eq!(found.uuid, UUID);
    assert!(actual_mib(&found) >= PINNED_MIB, "{found:?}");
    let came = wait_until(PATIENCE, || right.events().iter().any(|e| e.kind == kinds::CAME_FROM));
    assert!(came.is_some(), "{}", right.journal_text());
    let mut why = Command::new(e2e::program());
    why.args(["why", "mover", "--journal"]).arg(places[1].dir().join("journal.db"));
    let told = why.output().unwrap_or_else(|e| panic!("{e}"));
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    println!("{told}");
    assert!(told.contains("it reports left as its previous host"), "{told}");

    // The test ends the source QEMU that remains. The source's manager then drops the guest.
    assert_eq!(left.row("mover").state, GuestRunState::Migrating);
    source.kill().unwrap_or_else(|e| panic!("{e}"));
    left.until("the guest is gone", PATIENCE, |ps| ps.guests.is_empty());
    assert!(page(ports[1]));
}
