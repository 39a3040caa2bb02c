//! `pinhead up --check`: guests as they would be started.

use super::plan::{check_ports, checked_rules, files, find_daemon};
use super::serve;
use crate::Error;
use crate::args::UpArgs;
use crate::tell::say;
use base::counted;
use farm::config::{Farm, SECTIONS, Source};
use settings::quoted;
use vm::first_host_port;
use vm::images::Arch;

/// Checks the farm's file or the options, and prints them. Images are not checked, because a start
/// may make them.
pub(super) fn run(args: &UpArgs) -> Result<(), Error> {
    let Some(path) = &args.farm else {
        checked_rules(&args.rules)?;
        find_daemon(args.arch.into())?;
        return say(&of_options(args));
    };
    let farm = serve::load(path, &args.only)?;
    check(&farm)?;
    let text = settings::load(path)?;
    let guests = counted(farm.guests().into(), "guest");
    let name = base::plain(&path.display().to_string(), 4096);
    let only = if args.only.is_empty() { "" } else { " with --only" };
    say(&format!("# {name}: no errors, {guests}{only}\n{}", settings::in_force(&text, SECTIONS)))
}

/// Formats the options as a farm's file with the same guests.
fn of_options(args: &UpArgs) -> String {
    let UpArgs { guests, cpus, memory, rules, .. } = args;
    let arch = Arch::from(args.arch);
    format!(
        "# {} of {} and {memory} MiB, rules {}: no errors\n\
         # A farm's file with such guests. It has no loads, and no --pace.\n\
         [[class]]\nname = \"g\"\ncount = {guests}\narch = {}\ncpus = {cpus}\n\
         memory = \"{memory} MiB\"\nrules = {}\n",
        counted((*guests).into(), "guest"),
        counted((*cpus).into(), "CPU"),
        base::plain(rules, 200),
        quoted(arch.name()),
        quoted(rules),
    )
}

/// Checks everything that the classes name.
fn check(farm: &Farm) -> Result<(), Error> {
    check_ports(farm, first_host_port())?;
    for class in &farm.classes {
        if let Source::Files { kernel, initramfs, disk } = class.source() {
            files(class, kernel, initramfs, disk)?;
        }
        if let (true, Some(rules)) = (class.daemon, &class.rules) {
            checked_rules(rules)?;
        }
        if class.daemon {
            find_daemon(class.arch)?;
        }
    }
    Ok(())
}
