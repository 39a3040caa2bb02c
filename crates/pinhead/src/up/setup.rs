//! What has to be there before the first guest starts: rules, daemon, image.

use super::plan::checked_rules;
use crate::Error;
use crate::args::{ArchArg, PaceArg, UpArgs};
use farm::fleet::{Load, load_script};
use images::{Arch, Cache, GuestFile, Image, ImageSpec};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use vm::{Accel, GuestSpec, probe_kvm};

/// Guests up to which each gets room to translate all of its code, so that it boots
/// fast; more guests want memory rather.
const ROOMY_GUESTS: u32 = 8;

/// Everything that is needed to start.
#[derive(Debug)]
pub struct Setup {
    /// How to start each guest.
    pub specs: Vec<GuestSpec>,
    /// How their instructions are executed.
    pub accel: Accel,
}

/// Prepares the guests that were asked for.
pub fn prepare(args: &UpArgs, say: impl Fn(&str)) -> Result<Setup, Error> {
    let rules = checked_rules(&args.rules)?;
    let arch = match args.arch {
        ArchArg::X86_64 => Arch::X86_64,
        ArchArg::S390x => Arch::S390x,
    };
    let daemon = find_daemon(arch)?;
    let cache = Cache::from_environment()?;
    say("Making the guest image (the first time: Debian's kernel is fetched)");
    let mut images: HashMap<Load, Image> = HashMap::new();
    let accel = probe_kvm(arch);
    let mut specs = Vec::new();
    for number in 0..args.guests {
        let load = if args.idle { Load::Idle } else { Load::of(number as usize) };
        let image = match images.get(&load) {
            Some(image) => image.clone(),
            None => {
                let image = image(arch, &daemon, load, args, &rules, &cache)?;
                images.insert(load, image.clone());
                image
            }
        };
        specs.push(GuestSpec {
            name: format!("g{}", number + 1),
            accel,
            cpus: args.cpus,
            memory_mib: args.memory,
            translation_mib: if args.guests <= ROOMY_GUESTS { 32 } else { 16 },
            image,
            kernel_args: Vec::new(),
            ctl: false,
            run_dir: None,
            net: None,
            disk: None,
            restore: None,
            reboot: false,
            page_reporting: true,
        });
    }
    Ok(Setup { specs, accel })
}

fn image(
    arch: Arch,
    daemon: &Path,
    load: Load,
    args: &UpArgs,
    rules: &[u8],
    cache: &Cache,
) -> Result<Image, Error> {
    let pace = match args.pace {
        PaceArg::Fixed => "fixed",
        PaceArg::Adaptive => "adaptive",
        PaceArg::Host => "host",
    };
    let file = |path: &str, bytes: Vec<u8>| GuestFile { path: path.into(), mode: 0o644, bytes };
    let words = format!("-f -c /etc/pinhead.conf --pace {pace}\n");
    let mut files = vec![
        file("/etc/pinhead.conf", rules.to_vec()),
        file("/etc/pinheadd.args", words.into_bytes()),
    ];
    if let Some(script) = load_script(load, args.cpus, args.memory) {
        files.push(file("/etc/load.sh", script.into_bytes()));
    }
    let spec = ImageSpec { arch, daemon: Some(daemon.to_path_buf()), files };
    Ok(spec.build(cache)?)
}

/// The static daemon for an architecture: beside this program, as `make build` leaves
/// it, or where the environment says.
pub fn find_daemon(arch: Arch) -> Result<PathBuf, Error> {
    let below = |dir: PathBuf| dir.join(arch.name()).join("pinheadd");
    let mut looked = Vec::new();
    if let Some(dir) = std::env::var_os("PINHEAD_GUEST_DIR") {
        looked.push(below(dir.into()));
    }
    if let Ok(program) = std::env::current_exe() {
        // target/release/pinhead and target/guest/ARCH/pinheadd; or installed.
        let dirs = program.ancestors().skip(1).take(3);
        looked.extend(dirs.map(|dir| below(dir.join("guest"))));
    }
    looked.extend([below("/usr/lib/pinhead/guest".into())]);
    looked.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = looked.iter().map(|p| p.display().to_string()).collect();
        Error::Message(format!(
            "There is no guest daemon for {}: looked for {}; `make build` makes it",
            arch.name(),
            places.join(", ")
        ))
    })
}
