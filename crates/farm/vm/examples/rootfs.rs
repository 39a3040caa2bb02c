//! Makes a Debian image with servers, or finds it in the cache: `rootfs [NAME]`.
//!
//! `rootfs NAME MEMORY_MIB PORT [KERNEL_WORDS [COMMAND...]]` also boots a guest from the image. The
//! guest's port 80 is forwarded from PORT of the host's loopback. COMMANDs are run in the guest's
//! shell.

use std::error::Error;
use std::time::Duration;

use vm::images::rootfs::Software;
use vm::images::{self, Cache, Disk, DiskFormat, ImageSpec};
use vm::{Deadline, Forward, GuestSpec, Net, Session, probe_kvm};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().map_or("debian-combo", String::as_str);
    let names: Vec<_> = Software::ALL.iter().map(|software| software.name()).collect();
    let software = Software::from_name(name)
        .ok_or_else(|| format!("no image {name:?}; there are {}", names.join(", ")))?;
    let clock = Deadline::after(Duration::from_secs(600));
    let cache = Cache::from_environment()?;
    let rootfs = software.build(&cache, &mut |progress| {
        eprintln!("{:>3} % {}", progress.permille / 10, progress.what);
    })?;
    println!("image {} after {:?}", rootfs.display(), clock.elapsed());
    let [_, memory_mib, port, more @ ..] = words.as_slice() else { return Ok(()) };
    let arch = images::Arch::X86_64;
    let spec = GuestSpec {
        memory_mib: memory_mib.parse()?,
        translation_mib: 64,
        kernel_args: more
            .first()
            .into_iter()
            .flat_map(|text| text.split(' '))
            .map(str::to_owned)
            .collect(),
        net: Some(Net {
            forwards: vec![Forward { host_port: port.parse()?, guest_port: 80 }],
            ..Net::new(0)
        }),
        disk: Some(Disk::temporary(rootfs, DiskFormat::Raw)),
        reboot: true,
        ..GuestSpec::new(
            name,
            ImageSpec { arch, daemon: None, files: vec![] }.build(&cache)?,
            probe_kvm(arch),
        )
    };
    let clock = Deadline::after(Duration::from_secs(180));
    let mut session = Session::boot(&spec, clock)?;
    println!("--- console\n{}---\nup after {:?}", session.console.text(), clock.elapsed());
    for command in more.iter().skip(1) {
        println!(
            "# {command}\n{}",
            session.sh(command, Deadline::after(Duration::from_secs(300)))?
        );
    }
    Ok(())
}
