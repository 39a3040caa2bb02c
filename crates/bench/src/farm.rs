//! Many real web servers from one template: how soon they answer, what they hold, what they cost
//! while nobody asks, and how soon they are gone.
//!
//! ```text
//!   template (made before) ─► clones ─► each answers once ─► KSM ─► idle ─► a limit ─► all again
//! ```
//!
//! Too much for a run beside others: it is measured only when it is asked for by name.

use crate::args::Args;
use crate::clock::now;
use crate::error::Error;
use crate::meter::{self, Used};
use crate::scratch::write;
use crate::soak;
use crate::table::{Row, figure};
use counters::Bytes;
use farm::config::Limits;
use farm::fleet::{Event, Fleet, Floor};
use farm::tiers::{Tier, Tiers};
use images::{Arch, Cache, PAGE_BYTES, WEB_PORT, web_files};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use vm::{Clones, Deadline, Forward, GuestSpec, Net, Template, probe_kvm};

/// The promises.
const ANSWER_S: f64 = 30.0;
const SHARED_MB: f64 = 35.0;
const SQUEEZED_MB: f64 = 18.0;
const IDLE_PERCENT: f64 = 0.2;
const DOWN_S: f64 = 5.0;

const MEMORY_MIB: u64 = 96;
const TRANSLATION_MIB: u32 = 16;
/// The first guest's port on the host; the others follow.
const FIRST_PORT: u16 = 20_000;
/// Clones that start at the same time, one for each core of the machine in mind.
const STARTS: usize = 2;
/// A farm that does not come up or come to rest by then never will.
const PATIENCE: Duration = Duration::from_secs(900);
/// Sharing has ended when so long a time frees less than this part of a guest's memory.
const CALM: Duration = Duration::from_secs(10);
const CALM_MB: f64 = 0.2;
/// And not before KSM has looked at everything so often.
const SCANS: u64 = 3;
/// A request waits so long for a guest whose memory has to come back first.
const REQUEST: Duration = Duration::from_secs(30);

struct Servers {
    fleet: Fleet,
    tiers: Tiers,
    tier: Tier,
    pids: Vec<u32>,
    guests: usize,
}

impl Servers {
    /// Lets the fleet live until a moment.
    fn turn_until(&mut self, moment: Instant) -> Result<(), Error> {
        while now() < moment {
            let left = moment.saturating_duration_since(now()).min(Duration::from_millis(250));
            let until_ms = self.fleet.now_ms() + left.as_millis() as u64;
            self.turn(until_ms)?;
        }
        Ok(())
    }

    fn turn(&mut self, until_ms: u64) -> Result<Vec<Event>, Error> {
        let (_, events) = self.fleet.turn(reactor::PollSet::new(), until_ms)?;
        for pid in self.fleet.members().iter().filter_map(|member| member.pid()) {
            if !self.pids.contains(&pid) {
                self.tier.join(pid)?;
                self.pids.push(pid);
            }
        }
        self.tiers.turn(self.pids.len(), self.fleet.now_ms());
        Ok(events)
    }

    /// What all QEMUs and we have used.
    fn used(&self) -> Result<(Used, Used), Error> {
        let all = self.pids.iter().map(|pid| meter::used(*pid));
        Ok((all.sum::<Result<Used, Error>>()?, meter::used(std::process::id())?))
    }

    /// What a guest's QEMU has in memory, a shared page by the part of those who share it.
    fn held_mb(&self) -> Result<f64, Error> {
        let each = self.pids.iter().map(|pid| meter::proportional_kib(*pid));
        Ok(self.each(each.sum::<Result<u64, Error>>()? as f64 * 1024.0 / 1e6))
    }

    fn ports(&self) -> impl Iterator<Item = u16> {
        (0..self.guests as u16).map(|number| FIRST_PORT + number)
    }

    fn each(&self, all: f64) -> f64 {
        all / self.guests as f64
    }
}

/// The figures.
pub fn rows(args: &Args, guest_dir: &Path) -> Result<Vec<Row>, Error> {
    let cache = Cache::from_environment()?;
    let like = web_spec(guest_dir, &cache)?;
    let clock = Deadline::after(PATIENCE);
    let template = Template::make(&like, Clones::Share, &cache, clock)?;
    let made_s = clock.elapsed().as_secs_f64();
    let guests = args.guests as usize;
    let specs = (0..guests).map(|number| clone_of(&like, &template, number)).collect();
    // No limit yet: what is set here only makes the group and the compressed memory.
    let limits = Limits {
        memory: Some(Bytes(u64::from(args.guests) << 28)),
        zram: Some(Bytes((u64::from(args.guests) * MEMORY_MIB) << 20)),
        swap: None,
        ksm: true,
    };
    let tiers = Tiers::open(&limits)?;
    let tier = tiers.tier();
    let free_mb = available_mb()?;

    let start = now();
    let fleet = Fleet::new(specs, Floor::default(), STARTS);
    let mut servers = Servers { fleet, tiers, tier, pids: Vec::new(), guests };
    answer_all(&mut servers, start)?;
    let answered_s = start.elapsed().as_secs_f64();
    let started_ms = servers.each(servers.used()?.0.cpu_ns as f64 / 1e6);
    let unshared_mb = servers.held_mb()?;
    let shared_s = share(&mut servers)?;
    let shared_mb = servers.held_mb()?;
    let host_mb = servers.each(free_mb - available_mb()?);

    let window = Duration::from_secs(args.seconds.max(20));
    let (before, ours_before) = servers.used()?;
    servers.turn_until(now() + window)?;
    let (after, ours_after) = servers.used()?;
    let (idle, ours) = (after - before, ours_after - ours_before);
    let percent = |ns: u64| servers.each(ns as f64 / 1e7 / window.as_secs_f64());

    let mut rows = vec![
        Row::promised(
            &format!("{guests} web servers have answered"),
            figure(answered_s, 1, " s"),
            ANSWER_S,
        )
        .note(&format!(
            "each used {started_ms:.0} ms of CPU for it; the template was there after \
             {made_s:.1} s and has {} KiB",
            template.bytes / 1024
        )),
        Row::promised("host memory a guest, shared", figure(shared_mb, 1, " MB"), SHARED_MB).note(
            &format!(
                "their proportional parts; {unshared_mb:.1} MB before KSM, which took \
                 {shared_s:.0} s; the host has {host_mb:.1} MB a guest less than before"
            ),
        ),
        Row::promised(
            "idle, a guest, all of ours included",
            figure(percent(idle.cpu_ns + ours.cpu_ns), 3, " %"),
            IDLE_PERCENT,
        )
        .note(&format!(
            "of one core, in {} s: QEMU {:.3} %, we {:.3} %; {:.2} dispatches and {:.2} wake-ups \
             a second",
            window.as_secs(),
            percent(idle.cpu_ns),
            percent(ours.cpu_ns),
            servers.each(idle.dispatches as f64 / window.as_secs_f64()),
            servers.each(idle.sleeps as f64 / window.as_secs_f64()),
        )),
    ];
    rows.push(match squeeze(&mut servers) {
        Ok(row) => row,
        Err(error) => Row::failed("resident memory a guest, squeezed", &error),
    });
    let start = now();
    servers.fleet.end();
    let Servers { fleet, tiers, .. } = servers;
    drop(fleet);
    let down_s = start.elapsed().as_secs_f64();
    let left = tiers.close();
    let row = Row::promised("all of them are gone", figure(down_s, 2, " s"), DOWN_S);
    rows.push(left.iter().fold(row, |row, note| row.note(note)));
    Ok(rows)
}

fn web_spec(guest_dir: &Path, cache: &Cache) -> Result<GuestSpec, Error> {
    let arch = Arch::X86_64;
    let image = soak::image(arch, guest_dir, web_files(cache, arch)?, cache)?;
    Ok(GuestSpec {
        memory_mib: MEMORY_MIB,
        translation_mib: TRANSLATION_MIB,
        net: Some(Net { number: 0, forwards: Vec::new() }),
        reboot: true,
        ..GuestSpec::new("web", image, probe_kvm(arch))
    })
}

fn clone_of(like: &GuestSpec, template: &Template, number: usize) -> GuestSpec {
    let host_port = FIRST_PORT + number as u16;
    let forwards = vec![Forward { host_port, guest_port: WEB_PORT }];
    GuestSpec {
        name: format!("web{}", number + 1),
        net: Some(Net { number: number as u32 + 1, forwards }),
        restore: Some(template.clone()),
        ..like.clone()
    }
}

/// Starts all, and asks each for its page as soon as it is up.
fn answer_all(servers: &mut Servers, start: Instant) -> Result<(), Error> {
    let (ports, waiting) = std::sync::mpsc::channel::<u16>();
    let asking = std::thread::spawn(move || {
        waiting.into_iter().try_fold(0, |count, port| page(port).map(|_| count + 1))
    });
    let mut up = 0;
    while up < servers.guests {
        let late = || Error::Usage(format!("only {up} of {} are up", servers.guests));
        if start.elapsed() > PATIENCE {
            return Err(late());
        }
        let until_ms = servers.fleet.now_ms() + 5;
        let events = servers.turn(until_ms)?;
        for event in events {
            match event {
                Event::Up(guest) => {
                    up += 1;
                    let _ = ports.send(FIRST_PORT + guest as u16);
                }
                Event::Ended(guest) => {
                    let state = servers.fleet.members().get(guest).map(|member| member.state());
                    return Err(Error::Usage(format!("guest {}: {state:?}", guest + 1)));
                }
                Event::Reset(_) | Event::Hung { .. } | Event::Captured { .. } => {}
            }
        }
    }
    drop(ports);
    match asking.join() {
        Ok(asked) => asked.map(|_: usize| ()),
        Err(_) => Err(Error::Usage("asking for pages has failed".to_owned())),
    }
}

/// How often KSM has looked at all memory.
fn full_scans() -> Result<u64, Error> {
    number(Path::new("/sys/kernel/mm/ksm/full_scans"))
}

fn number(path: &Path) -> Result<u64, Error> {
    meter::of_file(path, "number", |text| text.trim().parse().ok())
}

/// Waits until KSM has shared what it can, and says how many seconds that took.
fn share(servers: &mut Servers) -> Result<f64, Error> {
    let (start, scans) = (now(), full_scans()?);
    let mut before = f64::MAX;
    loop {
        let held_mb = servers.held_mb()?;
        // A page is shared at the earliest when it was seen twice without a change.
        if full_scans()? >= scans + SCANS && before - held_mb < CALM_MB {
            return Ok(start.elapsed().as_secs_f64());
        }
        if start.elapsed() > PATIENCE {
            return Err(Error::Usage(format!("sharing goes on at {held_mb:.1} MB a guest")));
        }
        before = held_mb;
        servers.turn_until(now() + CALM)?;
    }
}

/// Limits all to what is promised, and asks all of them again, one after the other.
fn squeeze(servers: &mut Servers) -> Result<Row, Error> {
    let missing = || Error::Usage("there is no cgroup here".to_owned());
    let group = servers.tier.cgroup().ok_or_else(missing)?;
    let (limit, usage) = match group.join("memory.limit_in_bytes") {
        path if path.exists() => (path, group.join("memory.usage_in_bytes")),
        _ => (group.join("memory.max"), group.join("memory.current")),
    };
    let bytes = (SQUEEZED_MB * 1e6) as u64 * servers.guests as u64;
    write(&limit, &bytes.to_string())?;
    servers.turn_until(now() + CALM)?;
    let mut times = Vec::new();
    for round in 0..2 {
        let start = now();
        for port in servers.ports() {
            page(port)?;
        }
        times.push(servers.each(start.elapsed().as_secs_f64()) * 1000.0);
        if round == 0 {
            servers.turn_until(now() + CALM)?;
        }
    }
    let held_mb = servers.each(number(&usage)? as f64 / 1e6);
    let row =
        Row::promised("resident memory a guest, squeezed", figure(held_mb, 1, " MB"), SQUEEZED_MB);
    let (first, second) = (times[0], times[1]);
    Ok(row.note(&format!(
        "under a limit, over compressed memory; all were asked twice after that, one after the \
         other: {first:.0} and {second:.0} ms a page"
    )))
}

/// Asks a web server for its page.
fn page(port: u16) -> Result<(), Error> {
    let asked = || -> std::io::Result<usize> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(REQUEST))?;
        stream.write_all(b"GET /page.html HTTP/1.0\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)
    };
    match asked() {
        Ok(bytes) if bytes > PAGE_BYTES => Ok(()),
        Ok(bytes) => Err(Error::Usage(format!("port {port} answers with {bytes} bytes"))),
        Err(error) => Err(Error::Usage(format!("port {port} does not answer: {error}"))),
    }
}

/// What of the host's memory is to be had, in millions of bytes.
fn available_mb() -> Result<f64, Error> {
    let find = |text: &str| meter::field(text, "MemAvailable");
    let kib = meter::of_file(Path::new("/proc/meminfo"), "MemAvailable", find)?;
    Ok(kib as f64 * 1024.0 / 1e6)
}
