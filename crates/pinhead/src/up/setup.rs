//! Requirements of guests without a farm's file: rules, daemon and image.

use super::plan::{Plan, checked_rules, daemon_files, find_daemon, translation_mib};
use super::progress::Progress;
use crate::Error;
use crate::args::{UpArgs, UpFormat};
use crate::cache::warning;
use crate::terminal::{fitted, width};
use base::counted;
use clap::ValueEnum;
use farm::config::{Builtin, Limits, Source};
use farm::fleet::{Load, MemberConfig, load_script};
use farm::service::Occupant;
use std::collections::BTreeSet;
use std::io::Write;
use vm::images::{Arch, Cache, GuestFile, Image, ImageSpec, time_of_day};
use vm::{GuestSpec, probe_kvm};

/// Makes everything that guests without a farm's file need.
pub fn prepare(args: &UpArgs, progress: &mut Progress) -> Result<Plan, Error> {
    let show = |line: &str| {
        if args.format == UpFormat::Table {
            // The error of a missing reader is ignored here, because showing the table reports it.
            let mut out = std::io::stdout();
            let _ = out.write_all(fitted(&format!("{line}\n"), width(&out)).as_bytes());
        }
    };
    let rules = checked_rules(&args.rules)?;
    let arch = Arch::from(args.arch);
    let pace =
        args.pace.to_possible_value().map_or_else(String::new, |pace| pace.get_name().into());
    let daemon = find_daemon(arch)?;
    let cache = Cache::from_environment()?;
    let packages = cache.packages_of(arch, "");
    let is_cached = packages.is_dir();
    let loads = if args.idle { &[Load::Idle] } else { Load::IN_TURN.as_slice() };
    let mut images = Vec::new();
    for load in loads.iter().take(args.guests as usize) {
        let mut files = daemon_files(&rules, &pace);
        if let Some(script) = load_script(*load, args.cpus, args.memory) {
            files.push(GuestFile::text("/etc/load.sh", script));
        }
        let spec = ImageSpec { arch, daemon: Some(daemon.clone()), files };
        let built = spec.build_with(&cache, &mut |at| progress.fetch("guest image", at));
        images.push(built.inspect_err(|_| progress.clear())?);
    }
    progress.clear();
    show(image_line(is_cached));
    let accel = probe_kvm(arch);
    let spec = |(number, image): (u32, &Image)| GuestSpec {
        cpus: args.cpus,
        memory_mib: args.memory,
        translation_mib: translation_mib(Source::Builtin(Builtin::Tiny), args.guests),
        ctl: true,
        ..GuestSpec::new(format!("g{number}"), image.clone(), accel)
    };
    let members: Vec<MemberConfig> =
        (1..=args.guests).zip(images.iter().cycle()).map(spec).map(MemberConfig::new).collect();
    show(&format!(
        "Starting {} of {} and {} MiB:\n  {accel}",
        counted(args.guests.into(), "guest"),
        counted(args.cpus.into(), "CPU"),
        args.memory
    ));
    let occupant = Occupant {
        class: "g".into(),
        ports: Vec::new(),
        command: None,
        shares: 100,
        password: None,
    };
    let occupants = vec![occupant; members.len()];
    let limits = Limits::default();
    let used = BTreeSet::from([packages]);
    let warning = warning(&cache, &used, time_of_day().as_secs());
    Ok(Plan {
        name: None,
        limits,
        members,
        occupants,
        links: Vec::new(),
        has_clones: false,
        reach: String::new(),
        warning,
    })
}

/// Returns the line about the guest image. `is_cached` is true if the kernel was not downloaded.
fn image_line(is_cached: bool) -> &'static str {
    match is_cached {
        true => "Guest image: Debian's kernel is cached",
        false => "Guest image: Debian's kernel was downloaded and cached",
    }
}

#[cfg(test)]
mod tests {
    use super::image_line;

    #[test]
    fn download_is_told_only_when_there_was_one() {
        assert_eq!(image_line(true), "Guest image: Debian's kernel is cached");
        assert_eq!(image_line(false), "Guest image: Debian's kernel was downloaded and cached");
    }
}
