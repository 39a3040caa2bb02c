//! Builds the settings from all tables: fills in defaults that depend on the place, and checks keys
//! that depend on each other.

use std::path::PathBuf;

use base::glob;
use hypervisor::QMP_PATTERNS;
use policy::rivals::Kind;
use settings::{Entries, Reader, Share, Tree, shown};

use super::kinds::Libvirt;
use super::place::Place;
use super::settings::{
    Class, ControlSettings, HostSettings, JournalSettings, KsmSettings, MonitorSettings,
    PolicySettings, Settings, Sources, UserSettings,
};
use super::zvm::zvm;

/// Pattern of the directories with most users' sockets.
const USUAL_OWN_DIR: &str = "/run/user/*/pinhead";
/// Maximum number of classes in a file, more than any host has guests.
const CLASSES_MAX: usize = 1000;
const USERS_MAX: usize = 1000;

/// Builds the settings. Faults are reported to the reader.
pub(super) fn build(reader: &mut Reader<'_>, tree: &Tree<'_>, place: &Place) -> Settings {
    let zvm = zvm(reader, tree);
    let place = &Place { host_total: zvm.host_total().or(place.host_total), ..place.clone() };
    let (mut host, at): (HostSettings, _) = reader.table(tree);
    host.budget = place.budget.or(host.budget);
    check_set_point(reader, &at, &host, place);
    zvm.check_interval(reader, &at, host.interval_ms);
    let (mut sources, at): (Sources, _) = reader.table(tree);
    if zvm.is_on() {
        keep_zvm_alone(reader, &at, &mut sources);
    } else if at.get("qmp").is_none() {
        sources.qmp = default_qmp(place);
    }
    let mut journal: JournalSettings = reader.table(tree).0;
    journal.path = journal.path.or_else(|| place.journal());
    let mut monitor: MonitorSettings = reader.table(tree).0;
    let default_dir = || Some(journal.path.as_ref()?.parent()?.join("recordings"));
    monitor.dir = monitor.dir.or_else(default_dir);
    let mut control: ControlSettings = reader.table(tree).0;
    control.socket = control.socket.or_else(|| default_socket(place));
    let (policy, at): (PolicySettings, _) = reader.table(tree);
    if policy.rules.is_some() && policy.kind != Kind::Pinhead {
        let message = format!("the policy \"{}\" does not use the operator's rules", policy.kind);
        reader.refuse(&at, &["rules", "kind"], message, "remove `kind`, or remove `rules`");
    }
    Settings {
        host,
        policy,
        users: users(reader, tree, &sources.users),
        sources,
        zvm,
        classes: classes(reader, tree),
        ksm: reader.table::<KsmSettings>(tree).0.mode,
        page_out: reader.table(tree).0,
        journal,
        monitor,
        control,
        metrics: reader.table(tree).0,
    }
}

/// Refuses other sources together with z/VM. Guests of this kernel use this machine's memory and
/// not z/VM's, and a manager manages the memory of one host only.
fn keep_zvm_alone(reader: &mut Reader<'_>, at: &Entries<'_, '_>, sources: &mut Sources) {
    let has_uris = matches!(&sources.libvirt, Libvirt::Uris(uris) if !uris.is_empty());
    for (key, is_used) in [("qmp", !sources.qmp.is_empty()), ("libvirt", has_uris)] {
        if is_used {
            let message = "this setting is for guests of this machine, but [zvm] manages users of \
                           z/VM";
            let help = "remove this setting, or write mode = \"off\" in [zvm]";
            reader.refuse(at, &[key], message.to_owned(), help);
        }
    }
    sources.libvirt = Libvirt::Uris(Vec::new());
}

fn default_qmp(place: &Place) -> Vec<String> {
    let own = place.own_dir.as_ref().filter(|_| !place.is_root).and_then(|dir| dir.to_str());
    let own = own.filter(|dir| !glob::matches(USUAL_OWN_DIR, dir));
    let own = own.map(|dir| format!("{dir}/up/*/*.qmp"));
    QMP_PATTERNS.iter().map(|glob| (*glob).to_owned()).chain(own).collect()
}

fn default_socket(place: &Place) -> Option<PathBuf> {
    match place.is_root {
        true => Some("/run/pinhead/host.sock".into()),
        false => place.own_dir.as_ref().map(|dir| dir.join("host.sock")),
    }
}

/// Reads the tables of users. Each user must also be named in `[sources] users`, and has only one
/// table.
fn users(reader: &mut Reader<'_>, tree: &Tree<'_>, named: &[String]) -> Vec<UserSettings> {
    let mut users: Vec<UserSettings> = Vec::new();
    for (user, at) in reader.tables::<UserSettings>(tree, USERS_MAX) {
        let name = shown(&user.name);
        if at.get("name").is_none() {
            let message = "a user needs a name".to_owned();
            reader.fault(
                at.span.clone(),
                "user",
                message,
                Some("write the user's name, such as name = \"alice\""),
            );
        } else if !named.contains(&user.name) {
            let message = format!("the guests of `{name}` are not searched for");
            reader.refuse(&at, &["name"], message, "list the user in [sources] users as well");
        } else if users.iter().any(|other| other.name == user.name) {
            let message = format!("there is a user `{name}` already");
            reader.refuse(&at, &["name"], message, "write one table for each user");
        }
        users.push(user);
    }
    users
}

/// Checks that the reserve is below the set point, the hysteresis below the difference of the two,
/// and the set point below the host's memory.
fn check_set_point(
    reader: &mut Reader<'_>,
    at: &Entries<'_, '_>,
    host: &HostSettings,
    place: &Place,
) {
    let HostSettings { set_point, reserve, hysteresis, .. } = host;
    let is_all = |total| set_point.of(total) >= total;
    if *set_point == Share::Permille(1000) || place.host_total.is_some_and(is_all) {
        let message = "no memory would be left for guests".to_owned();
        reader.refuse(at, &["set_point"], message, "write a smaller size, such as \"10%\"");
    }
    let sizes = comparable([*set_point, *reserve, *hysteresis], place);
    let [Some(set_point_size), Some(reserve_size), hysteresis_size] = sizes else { return };
    if reserve_size >= set_point_size {
        let message = format!("the reserve ({reserve}) is not below the set point ({set_point})");
        let help = "guests get memory only down to the reserve, so the set point must be above the \
                    reserve";
        reader.refuse(at, &["reserve", "set_point", "hysteresis"], message, help);
    } else if hysteresis_size.is_some_and(|size| size >= set_point_size - reserve_size) {
        let message = format!(
            "the hysteresis ({hysteresis}) is not smaller than the set point ({set_point}) minus \
             the reserve ({reserve})"
        );
        let help = "make the hysteresis smaller than the set point minus the reserve";
        reader.refuse(at, &["hysteresis", "set_point", "reserve"], message, help);
    }
}

/// Returns numbers that can be compared: permille if all values are shares, else bytes. A share has
/// a size in bytes only if the host's memory is known.
fn comparable<const N: usize>(shares: [Share; N], place: &Place) -> [Option<u64>; N] {
    let are_parts = shares.iter().all(|share| matches!(share, Share::Permille(_)));
    shares.map(|share| match (share, place.host_total) {
        (Share::Permille(permille), _) if are_parts => Some(permille),
        (Share::Bytes(bytes), _) => Some(bytes.0),
        (Share::Permille(_), total) => total.map(|total| share.of(total).0),
    })
}

fn classes(reader: &mut Reader<'_>, tree: &Tree<'_>) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (class, at) in reader.tables::<Class>(tree, CLASSES_MAX) {
        if at.get("name").is_none() || at.get("match").is_none() {
            let message = "a class needs a name and patterns".to_owned();
            let help = "write name = \"web\" and match = [\"web*\"]";
            reader.fault(at.span.clone(), "class", message, Some(help));
        }
        if classes.iter().any(|other| other.name == class.name) {
            let message = format!("there is a class `{}` already", shown(&class.name));
            reader.refuse(&at, &["name"], message, "give each a different name");
        }
        check_order(reader, &at, &class);
        classes.push(class);
    }
    classes
}

/// Checks min <= pin <= max among values of one kind, and that a class is not both pinned and
/// released.
fn check_order(reader: &mut Reader<'_>, at: &Entries<'_, '_>, class: &Class) {
    let max = Some(class.max);
    for (key, low, low_name, high, high_name) in [
        ("min", class.min, "min", max, "max"),
        ("pin", class.min, "min", class.pin, "pin"),
        ("pin", class.pin, "pin", max, "max"),
    ] {
        if let (Some(low), Some(high)) = (low, high)
            && is_more(low, high)
        {
            let message = format!("{low_name} ({low}) is more than {high_name} ({high})");
            reader.refuse(at, &[key], message, "`min` may not exceed `pin`, nor `pin` `max`");
        }
    }
    if class.pin.is_some() && class.release {
        let message = "a released guest is not managed, so it cannot be pinned".to_owned();
        reader.refuse(at, &["pin"], message, "remove `pin` or `release`");
    }
}

/// Returns true if `a` is more than `b`. A share and a size cannot be compared before a guest's
/// memory is known.
fn is_more(a: Share, b: Share) -> bool {
    match (a, b) {
        (Share::Permille(a), Share::Permille(b)) => a > b,
        (Share::Bytes(a), Share::Bytes(b)) => a > b,
        _ => false,
    }
}
