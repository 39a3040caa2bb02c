//! Guests with Debian's servers on disks of one shared image. A page passes through all servers,
//! and the writes of each guest stay separate.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, not in their helpers")]

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use e2e::farms::Farm;
use e2e::{PATIENCE, alone, daemon_dir, soon};
use farm::links::{Link, Switch, class_address};
use rustix::fs::{SeekFrom, seek};
use vm::images::rootfs::{Settings, Software};
use vm::images::{Arch, Cache, Disk, DiskFormat, GuestFile, ImageSpec, Writes};
use vm::{Deadline, Forward, GuestSpec, Net, Session, probe_kvm};

/// Timeout of making an image on a busy machine with a slow network.
const BUILD: Duration = Duration::from_secs(900);

fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let held = [(); COUNT].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

fn get(port: u16, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: guest\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| {
        panic!("no answer to {path}: {:?}", String::from_utf8_lossy(&answer));
    });
    let status = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = status.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_off(end + 4))
}

/// Returns a checksum of a file's data and the offsets of the data. Holes, which are most of the
/// file, are not read. Zeros count as holes, because the file system may turn zeros into holes at
/// any time.
fn checksum(path: &Path) -> u64 {
    const BLOCK: u64 = 4096;
    let file = File::open(path).unwrap();
    let mut hasher = DefaultHasher::new();
    let mut block = [0; BLOCK as usize];
    let mut end = 0;
    // Seeking beyond the last data is an error, which ends the loop.
    while let Ok(start) = seek(&file, SeekFrom::Data(end)) {
        end = seek(&file, SeekFrom::Hole(start)).unwrap();
        for at in (start / BLOCK * BLOCK..end).step_by(BLOCK as usize) {
            file.read_exact_at(&mut block, at).unwrap();
            if block.iter().any(|byte| *byte != 0) {
                hasher.write_u64(at);
                hasher.write(&block);
            }
        }
    }
    hasher.finish()
}

/// Properties of a guest of the image, except for the guest's name.
struct Role {
    memory_mib: u64,
    number: u32,
    forward: Forward,
    settings: Settings,
    disk: Disk,
}

fn spec(name: &str, cache: &Cache, role: Role) -> GuestSpec {
    let arch = Arch::X86_64;
    let daemon = daemon_dir().join(arch.name()).join("pinheadd");
    let rules = rules::preset("default").map(|preset| preset.text()).unwrap();
    let files = vec![
        GuestFile::text("/etc/pinhead.conf", &rules),
        GuestFile::text("/etc/pinheadd.args", "-f -c /etc/pinhead.conf"),
    ];
    let image = ImageSpec { arch, daemon: Some(daemon), files }.build(cache).unwrap();
    GuestSpec {
        memory_mib: role.memory_mib,
        translation_mib: 64,
        kernel_args: role.settings.kernel_words(),
        net: Some(Net { forwards: vec![role.forward], linked: true, ..Net::new(role.number) }),
        disk: Some(role.disk),
        reboot: true,
        ..GuestSpec::new(name, image, probe_kvm(arch))
    }
}

/// Passes the database's password to a guest as a farm does.
fn give_password(back: &mut Session) {
    let line = "(umask 077; echo secret > /run/pinhead/database-password); \
                sh /usr/lib/pinhead/take-password";
    back.sh(line, soon()).unwrap();
}

/// Returns the number of transactions in the database.
fn transactions(back: &mut Session) -> u64 {
    let count = "setpriv --reuid=postgres --regid=postgres --clear-groups psql -h /run/postgresql \
                 -At -c 'SELECT count(*) FROM pgbench_history' pinhead";
    let text = back.sh(count, soon()).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("not a count: {text:?}"))
}

/// Two guests use one image. The first runs nginx on a read-only disk below a layer in memory. The
/// second runs the application server and PostgreSQL on a disk with its own overlay.
#[test]
fn page_uses_all_three_servers_and_no_write_leaves_its_guest() {
    let _alone = alone();
    let cache = Cache::from_environment().unwrap();
    let clock = Deadline::after(BUILD);
    let image = Software::Combo.build(&cache, &mut |_| ()).unwrap_or_else(|e| panic!("{e}"));
    println!("image {} after {:?}", image.display(), clock.elapsed());
    let before = checksum(&image);

    let scratch = e2e::scratch("disks");
    let overlay = scratch.join("back.qcow2");
    let [web_port, app_port] = free_ports();
    let link = Link { client: 1, address: class_address(1), port: 8000, server: 2 };
    let switch = Switch::start(&[link]).unwrap();
    let disk = |writes| Disk { writes, ..Disk::temporary(&image, DiskFormat::Raw) };
    let web = Role {
        memory_mib: 128,
        number: 1,
        forward: Forward { host_port: web_port, guest_port: 80 },
        settings: Settings {
            services: Some(vec!["nginx"]),
            app: Some(SocketAddrV4::new(link.address, link.port)),
            ..Settings::default()
        },
        disk: disk(Writes::Layer),
    };
    let back = Role {
        memory_mib: 256,
        number: 2,
        forward: Forward { host_port: app_port, guest_port: 8000 },
        settings: Settings {
            services: Some(vec!["postgres", "app"]),
            heap_mib: Some(32),
            ..Settings::default()
        },
        disk: disk(Writes::Overlay(overlay.clone())),
    };
    let (web, back) = (spec("web", &cache, web), spec("back", &cache, back));
    let clock = soon();
    let boot =
        |spec: GuestSpec| move || Session::boot(&spec, clock).unwrap_or_else(|e| panic!("{e}"));
    let (web, back) = (std::thread::spawn(boot(web)), std::thread::spawn(boot(back)));
    let (mut web, mut back) = (web.join().unwrap(), back.join().unwrap());
    println!("both are up after {:?}", clock.elapsed());
    switch.connect(1, web.link.take().unwrap());
    switch.connect(2, back.link.take().unwrap());
    give_password(&mut back);

    // The image contains no guest's identity.
    for guest in [&mut web, &mut back] {
        let name = guest.name.clone();
        assert_eq!(guest.sh("hostname", soon()).unwrap().trim(), name);
        guest.sh("pidof pinheadd", soon()).unwrap();
        println!("{name}: {}", guest.sh("free -m; cat /proc/uptime", soon()).unwrap());
    }
    let machine_id = "cat /etc/machine-id";
    assert_ne!(web.sh(machine_id, soon()).unwrap(), back.sh(machine_id, soon()).unwrap());

    // The first page comes from nginx alone. The second page uses all three servers.
    let (status, page) = get(web_port, "/page7.html");
    assert_eq!((status, page.len()), (200, 27 * 1024));
    let (status, page) = get(web_port, "/app");
    let page = String::from_utf8(page).unwrap();
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("<td>account</td>") && page.contains("<td>balance</td>"), "{page}");
    assert_eq!(transactions(&mut back), 1);
    let (_, heap) = get(web_port, "/app/heap");
    assert!(String::from_utf8(heap).unwrap().contains("<td>32</td>"));
    let resident = "awk '/^VmRSS/ { print $2 }' /proc/$(pidof -s uwsgi-core uwsgi)/status";
    let resident_kib: u64 = back.sh(resident, soon()).unwrap().trim().parse().unwrap();
    assert!(resident_kib > 32 * 1024, "a heap of 32 MiB is in {resident_kib} KiB");

    web.sh("echo web > /var/mark", soon()).unwrap();
    let hidden = "[ ! -e /var/mark ]";
    back.sh(hidden, soon()).unwrap();
    // After its restart, the guest prints this line from its own disk.
    let mark = "the overlay is still here";
    back.sh(&format!("echo 'echo {mark}' > /etc/load.sh; sync"), soon()).unwrap();
    back.sh("{ usleep 200000; reboot -f; } > /dev/null 2>&1 &", soon()).unwrap();
    back.console.wait_for(mark, soon()).unwrap();
    println!("back has started again after {:?}", clock.elapsed());
    give_password(&mut back);
    assert_eq!(transactions(&mut back), 1, "the database has recovered");
    assert_eq!(get(web_port, "/app").0, 200);
    assert_eq!(transactions(&mut back), 2);
    assert_eq!(web.sh("cat /var/mark", soon()).unwrap(), "web\n");
    assert!(std::fs::metadata(&overlay).unwrap().len() > 1 << 20);

    drop((web, back));
    assert_eq!(checksum(&image), before, "a guest has written to the image");
}

fn bytes_read(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn disk_is_read_past_host_cache_at_the_set_rate() {
    const MIB: u64 = 1 << 20;
    let farm = Farm::new(
        "cache",
        "[[class]]\nname = 'past'\nimage = 'debian-nginx'\nmemory = '160 MiB'\n\
         disk_cache = 'none'\ndisk_reads = 50\n\
         [[class]]\nname = 'through'\nimage = 'debian-nginx'\nmemory = '160 MiB'\n",
        alone(),
    );
    farm.succeed(&["up", &farm.file(), "--detach"]);
    let (_, pids) = farm.processes();
    let [past, through] = pids.as_slice() else { panic!("two guests: {pids:?}") };
    // Direct reads bypass the guest's own cache, so each read reaches the host.
    let read = |guest: &str, size: &str, count: u32| {
        let line = format!("dd if=/dev/vda of=/dev/null bs={size} count={count} iflag=direct 2>&1");
        farm.succeed(&["exec", &farm.guest(guest), "--", "sh", "-c", &line]);
    };
    let again = |guest: &str, pid: u32| {
        read(guest, "1M", 16);
        let before = bytes_read(pid);
        read(guest, "1M", 16);
        bytes_read(pid) - before
    };
    let through = again("through1", *through);
    assert!(through < MIB, "{through} bytes were read that the host has in memory");
    let past = again("past1", *past);
    // Much of the range consists of holes in the image's file, which need no disk read.
    assert!(past >= 2 * MIB, "{past} bytes were read");
    let clock = Deadline::after(PATIENCE);
    read("past1", "4k", 200);
    assert!(clock.elapsed() >= Duration::from_secs(3), "200 reads after {:?}", clock.elapsed());
}
