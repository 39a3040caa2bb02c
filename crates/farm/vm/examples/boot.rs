//! Boots one guest and shows the time that this took: `boot [x86_64|s390x] [MEMORY_MIB] [TB_MIB]`.
//! Further words are run as a command in the guest's shell.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use vm::images::{Arch, Cache, ImageSpec};
use vm::{Console, Ctl, Deadline, GuestSpec, probe_kvm};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| words.get(index).map(String::as_str);
    let arch = if word(0) == Some("s390x") { Arch::S390x } else { Arch::X86_64 };
    let limit = Deadline::after(Duration::from_secs(600));
    let spec = ImageSpec { arch, daemon: None, files: vec![] };
    let image = spec.build(&Cache::from_environment()?)?;
    println!("image {} after {:?}", image.initramfs.display(), limit.elapsed());
    let accel = probe_kvm(arch);
    println!("runs by {accel}");
    let spec = GuestSpec {
        cpus: 2,
        memory_mib: word(1).unwrap_or("128").parse()?,
        translation_mib: word(2).unwrap_or("32").parse()?,
        ..GuestSpec::new(format!("boot-{arch}"), image, accel)
    };
    let clock = Deadline::after(Duration::from_secs(120));
    let mut guest = spec.start()?;
    println!("QEMU {}", guest.process.id());
    let console = Console::start(guest.console.try_clone()?)?;
    let up = console.wait_for("is up", clock);
    println!("--- console\n{}---", console.text());
    guest.process.check(&guest.name)?;
    up?;
    println!("up after {:?}", clock.elapsed());
    let mut ctl = Ctl::new(guest.ctl.take().ok_or("no control port")?);
    let first = ctl.run("cat /proc/uptime", clock)?;
    println!("control port answers after {:?}: {first:?}", clock.elapsed());
    for command in words.iter().skip(3) {
        let output = ctl.run(command, Deadline::after(Duration::from_secs(300)))?;
        println!("# {command}  [{}]\n{}", output.code, output.text);
        std::io::stdout().flush()?;
    }
    Ok(())
}
