//! The allowed dependencies between crates.
//!
//! The table describes the architecture by the dependencies that are absent. Arrows go downwards
//! only, and the crates of layer 0 depend only on each other and on `std`. The guest daemon stays
//! small because it cannot use crates that are not listed.

use serde_json::Value;

/// The allowed dependencies of a crate.
pub struct Crate {
    /// Its name.
    pub name: &'static str,
    /// Crates of this workspace, separated by blanks.
    pub ours: Option<&'static str>,
    /// External crates.
    pub others: &'static str,
}

const fn row(name: &'static str, ours: Option<&'static str>, others: &'static str) -> Crate {
    Crate { name, ours, others }
}

/// Any crate of the workspace: for the top layer, and for tests.
const ANY: Option<&str> = None;

/// Crates that every crate may use, because they have no dependencies.
const FOR_ALL: &[&str] = &["base"];
/// External crates that every crate may use: a macro for errors, which leaves nothing in a program.
const OTHERS_FOR_ALL: &[&str] = &["thiserror"];

/// All crates, from the bottom layer to the top.
pub const CRATES: &[Crate] = &[
    // Layer 0, pure: no I/O, no clock, no threads, no randomness. unicode-width is for tables with
    // letters of two columns, behind a feature.
    row("base", Some(""), "unicode-width"),
    row("counters", Some(""), ""),
    row("rules", Some("counters"), ""),
    row("model", Some("counters"), ""),
    row("policy", Some("counters model rules"), ""),
    // The monitor data of z/VM, both ways.
    row("zmon", Some(""), ""),
    row("zvm", Some("model zmon"), ""),
    // Layer 1, the system.
    // libc for paths from an open directory.
    row("procfs", Some("counters"), "libc"),
    row("plug", Some("counters procfs"), ""),
    // The data of a z/VM guest for its monitor.
    row("guestmon", Some("counters procfs zmon"), ""),
    row("wire", Some("counters"), ""),
    row("qmp", Some(""), "serde serde_json"),
    // libvirt's wire protocol, without its library: no C, nothing that blocks.
    row("virtrpc", Some(""), ""),
    // A poll set, and parts of a server that never blocks. libc for the peer's credentials.
    row("reactor", Some(""), "libc rustix"),
    // The host's side of the daemon.
    row("agent", Some("counters reactor wire"), "rustix"),
    // libc for process_madvise, roxmltree for libvirt's description of a domain.
    row(
        "hypervisor",
        Some("counters model procfs qmp reactor virtrpc zmon"),
        "libc roxmltree rustix serde_json",
    ),
    // Hosts without pinhead, through libvirt over ssh. hypervisor for the description of a domain.
    row("remote", Some("hypervisor model reactor virtrpc"), "rustix"),
    // The file of a guest that is parked on disk. crc32fast for damage on a disk, lz4_flex for
    // memory that is read back while a client waits.
    row("parkfile", Some(""), "crc32fast lz4_flex"),
    // flate2 for raw samples, which are compressed; rustix for the free space of a disk; serde_json
    // for a decision's numbers.
    row("store", Some("model"), "flate2 rusqlite rustix serde serde_json"),
    // toml for files of settings.
    row("settings", Some(""), "toml"),
    // The reports, as pure as layer 0: events come in as arguments.
    row("reports", Some("model"), ""),
    // The what-if analysis: as pure as the reports, for the same reason. Its tests run the model.
    row("whatif", Some("base model policy sim"), ""),
    // snap for the compressed requests of remote write; serde for answers of engines; httparse for
    // HTTP heads.
    row("metrics", Some("model"), "httparse serde serde_json snap"),
    // Layer 2, real guests, their recordings, and their manager.
    row("collect", Some("counters hypervisor procfs model"), "libc rustix"),
    // Loads on guests and their latencies. hdrhistogram for percentiles of any range, httparse for
    // HTTP heads.
    row("load", Some(""), "hdrhistogram httparse rustix serde_json"),
    // lz4_flex for a kernel that is compressed in its image.
    row("images", Some(""), "flate2 lz4_flex rustix"),
    // procfs for the sockets of forwarded ports.
    row("vm", Some("images procfs qmp wire"), "libc rustix"),
    row(
        "farm",
        Some(
            "agent counters hypervisor images manager parkfile policy procfs qmp reactor settings \
             vm wire",
        ),
        "libc rustix serde serde_json",
    ),
    row(
        "manager",
        Some(
            "agent collect counters hypervisor procfs metrics model policy reactor rules \
             settings store wire zmon zvm",
        ),
        "rustix serde serde_json",
    ),
    // The past of hosts, for reports and pages. manager for the places of its files.
    row("recorded", Some("manager metrics model reports store"), ""),
    // The what-if analysis of recordings on disk.
    row(
        "backtest",
        Some("base manager model policy settings store whatif"),
        "serde serde_json thiserror",
    ),
    // Decisions and their reasons. jiff for times as users write them: the system's local time zone
    // cannot be read without unsafe code.
    row("why", Some("base model store"), "jiff serde_json thiserror"),
    // The screens. crossterm for terminals; jiff for the local zone.
    row(
        "top",
        Some("base manager procfs model reports store why"),
        "crossterm jiff rustix signal-hook thiserror",
    ),
    // The pages. axum with its tokio and hyper for the server, the only place with an async
    // runtime; maud for pages that are checked when they are compiled; subtle for comparing
    // secrets, argon2 for passwords; rustls with tokio-rustls for TLS; listenfd for a socket of
    // systemd's; flate2 for answers that are compressed; jiff for times in addresses.
    row(
        "web",
        Some("backtest base farm manager metrics model reactor recorded reports store whatif why"),
        "argon2 axum flate2 futures-util hyper hyper-util jiff listenfd maud rustix rustls serde \
         serde_json subtle thiserror tokio tokio-rustls tower-service",
    ),
    // The experiments: guests, load and managers combined, and their results.
    row("lab", ANY, "rustix serde serde_json"),
    // Layer 3, the binaries. A hundred guests load all that the daemon links.
    row("pinheadd", Some("counters guestmon rules policy procfs plug wire zmon"), "libc"),
    // The host's side may use more crates. flate2 for the conformance vectors and for recorded
    // scenarios, which are compressed; jiff for the local zone; tar for recordings in transit.
    row(
        "pinhead",
        ANY,
        "annotate-snippets clap clap_complete clap_mangen flate2 jiff rustix serde serde_json \
         signal-hook tar",
    ),
    // The pages' program: the command line of `web`.
    row("pinhead-web", ANY, "clap rustix"),
    // The laboratory: experiments and loads, which are not shipped.
    row("pinhead-lab", ANY, "clap jiff rustix serde_json signal-hook"),
    // Tests. A model of guests and of the host, as pure as the policies that it tests.
    row("sim", Some("counters model policy"), ""),
    row("e2e", ANY, "libc rustix serde_json"),
    row("bench", ANY, "clap rustix"),
    row("fuzz_targets", ANY, ""),
    row("tidy", ANY, "serde_json"),
];

/// Returns the complaints about the output of `cargo metadata --no-deps`.
pub fn complaints(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"]);
        let Some(row) = CRATES.iter().find(|row| row.name == name) else {
            found.push(format!(
                "crate {name} has no row in tidy's layers::CRATES: give it one that says what it \
                 may use, and name it in the table of CONTRIBUTING.md"
            ));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let used = text(&dependency["name"]);
            // A path means that it is in this workspace.
            let is_ours = dependency["path"].is_string();
            let allowed = |names| FOR_ALL.contains(&used) || is_among(names, used);
            if is_ours && !row.ours.is_none_or(allowed) {
                found.push(format!(
                    "crate {name} uses {used}, which is not below it: move what it needs down, \
                     or change tidy's layers::CRATES and say why"
                ));
            }
            if !is_ours && !is_among(row.others, used) && !OTHERS_FOR_ALL.contains(&used) {
                found.push(format!(
                    "crate {name} takes in {used} from outside: do without it, or list it in \
                     tidy's layers::CRATES and say why"
                ));
            }
        }
    }
    found
}

/// The crate that a hundred guests load, and its only external dependency, direct or indirect.
const DAEMON: &str = "pinheadd";
const DAEMON_OTHERS: &str = "libc";

/// Returns the complaints about the daemon's dependencies in the output of `cargo metadata
/// --no-deps`.
pub fn complaints_of_daemon(metadata: &Value) -> Vec<String> {
    let packages = list(&metadata["packages"]);
    let (mut found, mut made_of) = (Vec::new(), vec![DAEMON]);
    let mut at = 0;
    while let Some(name) = made_of.get(at).copied() {
        at += 1;
        let package = packages.iter().find(|package| text(&package["name"]) == name);
        let dependencies = package.map_or(&[][..], |package| list(&package["dependencies"]));
        // Dependencies for tests or builds are not part of the daemon.
        for dependency in dependencies.iter().filter(|it| it["kind"].is_null()) {
            let used = text(&dependency["name"]);
            if dependency["path"].is_string() {
                if used == "base" && has_features(dependency) {
                    found.push(format!(
                        "{name}, of which the daemon is made, asks for features of base: take \
                         base as the workspace has it, without"
                    ));
                }
                if !made_of.contains(&used) {
                    made_of.push(used);
                }
            } else if dependency["optional"] != true
                && !is_among(DAEMON_OTHERS, used)
                && !OTHERS_FOR_ALL.contains(&used)
            {
                found.push(format!(
                    "the daemon takes in {used} by {name}: do without it there, or make it \
                     optional, by a feature that the daemon does not ask for"
                ));
            }
        }
    }
    found
}

fn has_features(dependency: &Value) -> bool {
    dependency["uses_default_features"] != false || !list(&dependency["features"]).is_empty()
}

fn is_among(names: &str, used: &str) -> bool {
    names.split(' ').any(|name| name == used)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, dependency: Value, expected: Option<&str>) {
        let metadata = json!({"packages": [{"name": name, "dependencies": [dependency]}]});
        let found = complaints(&metadata);
        match expected {
            None => assert!(found.is_empty(), "{found:?}"),
            Some(part) => assert!(found.len() == 1 && found[0].contains(part), "{found:?}"),
        }
    }

    #[test]
    fn arrows_go_downwards_only() {
        check("rules", json!({"name": "counters", "path": "/c", "kind": null}), None);
        check("counters", json!({"name": "rules", "path": "/r", "kind": null}), Some("not below"));
        check("counters", json!({"name": "rules", "path": "/r", "kind": "dev"}), Some("not below"));
        check("pinhead", json!({"name": "farm", "path": "/f", "kind": null}), None);
    }

    #[test]
    fn others_are_listed() {
        check("pinheadd", json!({"name": "libc", "kind": null}), None);
        check("pinheadd", json!({"name": "serde", "kind": null}), Some("from outside"));
        check("policy", json!({"name": "libc", "kind": "build"}), Some("from outside"));
    }

    #[test]
    fn daemon_is_made_of_nothing_but_libc() {
        let found = |base: Value, width: Value| {
            let rules = json!({"name": "rules", "path": "/r", "kind": null});
            complaints_of_daemon(&json!({"packages": [
                {"name": "pinheadd", "dependencies": [rules, {"name": "libc", "kind": null}]},
                {"name": "rules", "dependencies": [base, {"name": "snap", "kind": "dev"}]},
                {"name": "base", "dependencies": [width]},
            ]}))
        };
        let base = |features: &[&str], is_default: bool| {
            json!({"name": "base", "path": "/b", "kind": null, "features": features,
                "uses_default_features": is_default})
        };
        let width = |optional: bool| json!({"name": "width", "kind": null, "optional": optional});
        assert!(found(base(&[], false), width(true)).is_empty());
        let taken = found(base(&[], false), width(false));
        assert!(taken.len() == 1 && taken[0].contains("takes in width by base"), "{taken:?}");
        for base in [base(&[], true), base(&["terminal"], false)] {
            let asked = found(base, width(true));
            assert!(asked.len() == 1 && asked[0].contains("rules, of which"), "{asked:?}");
        }
    }

    #[test]
    fn a_crate_without_a_row_is_told_what_to_do() {
        check("newcomer", json!({"name": "libc"}), Some("give it one"));
    }
}
