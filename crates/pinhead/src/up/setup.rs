//! What has to be there before the first guest starts: rules, daemon, image.

use super::plan::{Plan, checked_rules, daemon_files, text_file, translation_mib};
use crate::Error;
use crate::args::{ArchArg, PaceArg, UpArgs, UpFormat};
use farm::config::{Builtin, Limits, Source};
use farm::fleet::{Daemon, Floor, Load, Seat, load_script};
use farm::service::Occupant;
use images::{Arch, Cache, Image, ImageSpec};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use vm::{GuestSpec, probe_kvm};

/// Makes everything that guests without a farm's file need.
pub fn prepare(args: &UpArgs) -> Result<Plan, Error> {
    let say = |line: &str| {
        if args.format == UpFormat::Table {
            println!("{line}");
        }
    };
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
    let mut seats = Vec::new();
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
        let spec = GuestSpec {
            name: format!("g{}", number + 1),
            accel,
            cpus: args.cpus,
            memory_mib: args.memory,
            translation_mib: translation_mib(Source::Builtin(Builtin::Tiny), args.guests),
            image,
            kernel_args: Vec::new(),
            ctl: false,
            run_dir: None,
            net: None,
            disk: None,
            restore: None,
            reboot: false,
            page_reporting: true,
        };
        seats.push(Seat { spec, floor: Floor::default(), daemon: Daemon::Expected });
    }
    say(&format!(
        "Starting {} guests of {} CPUs and {} MiB:\n  {accel}",
        args.guests, args.cpus, args.memory
    ));
    let occupant = Occupant { class: "g".into(), ports: Vec::new(), command: None, shares: 100 };
    let occupants = vec![occupant; seats.len()];
    let limits = Limits::default();
    Ok(Plan { name: None, limits, seats, occupants, has_clones: false, reach: String::new() })
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
    let mut files = daemon_files(rules, pace);
    if let Some(script) = load_script(load, args.cpus, args.memory) {
        files.push(text_file("/etc/load.sh", script));
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
