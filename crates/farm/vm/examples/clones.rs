//! Makes a template of a web server's guest and starts clones from it: `clones COUNT [MEMORY_MIB]
//! [KERNEL WORDS...]`. Prints the cost of each clone. After that, standard input is read. A line
//! with a command runs in the first clone's shell, and an empty line ends the program.

use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use vm::images::{Arch, Cache, GuestFile, ImageSpec, web_files};
use vm::{Clones, Deadline, Forward, GuestSpec, Net, Session, Template, probe_kvm};

const HOST_PORT: u16 = 18000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let count: u16 = words.first().map_or(Ok(4), |word| word.parse())?;
    let memory_mib: u64 = words.get(1).map_or(Ok(96), |word| word.parse())?;
    let cache = Cache::from_environment()?;
    let clock = Deadline::after(Duration::from_secs(900));
    let mut files = web_files(&cache, Arch::X86_64)?;
    files.push(GuestFile::text("/etc/pinheadd.args", "-f -c /etc/pinhead.conf --pace host"));
    files.push(GuestFile::text("/etc/pinhead.conf", std::env::var("RULES").unwrap_or_default()));
    let daemon = std::env::var_os("PINHEAD_GUEST_DIR").map(PathBuf::from);
    let daemon = daemon.map(|dir| dir.join("x86_64/pinheadd"));
    let image = ImageSpec { arch: Arch::X86_64, daemon, files }.build(&cache)?;
    let spec = |number: u16| GuestSpec {
        memory_mib,
        translation_mib: 16,
        kernel_args: words.iter().skip(2).cloned().collect(),
        net: Some(Net {
            forwards: vec![Forward { host_port: HOST_PORT + number, guest_port: 80 }],
            ..Net::new(number.into())
        }),
        reboot: true,
        ..GuestSpec::new(format!("web{number}"), image.clone(), probe_kvm(Arch::X86_64))
    };
    let template = Template::make(&spec(0), Clones::Share, &cache, clock)?;
    println!(
        "template {} ({} KiB) after {:?}",
        template.state.path().display(),
        template.bytes / 1024,
        clock.elapsed()
    );
    let mut guests = Vec::new();
    for number in 1..=count {
        let clock = Deadline::after(Duration::from_secs(60));
        let spec = GuestSpec { restore: Some(template.clone()), ..spec(number) };
        let guest = Session::boot(&spec, clock)?;
        let up = clock.elapsed();
        let bytes = page(HOST_PORT + number)?;
        println!(
            "{} pid {} is up after {up:?}, answers {bytes} bytes after {:?}, {} ms of CPU",
            guest.name,
            guest.process.id(),
            clock.elapsed(),
            cpu_ms(guest.process.id())
        );
        guests.push(guest);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(ctl) = guests[0].ctl.as_mut() {
            let output = ctl.run(&line, Deadline::after(Duration::from_secs(60)))?;
            println!("[{}]\n{}", output.code, output.text);
        }
    }
    Ok(())
}

/// Returns the size of the answer to a request for the page.
fn page(port: u16) -> Result<usize, Box<dyn Error>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"GET /page.html HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.len())
}

/// Returns the CPU time that all threads of a process have used.
fn cpu_ms(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ns = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    ns.sum::<u64>() / 1_000_000
}
