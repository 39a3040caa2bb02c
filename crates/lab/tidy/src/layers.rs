//! The layers, and the allowed dependencies between their crates.
//!
//! A dependency that the crate's row does not list is a complaint, so dependencies go downwards
//! only. The guest daemon stays small because its row lists few crates. The table in
//! ARCHITECTURE.md is generated from these rows and from the heads of the crates
//! ([`crate::heads`]).

use serde_json::Value;

/// A layer with its crates.
pub struct Layer {
    /// Name in ARCHITECTURE.md.
    pub name: &'static str,
    /// Crates of the layer.
    pub crates: &'static [Crate],
}

/// A crate with its allowed dependencies.
pub struct Crate {
    /// Name of the crate.
    pub name: &'static str,
    /// Crates of this workspace that the crate may use, separated by blanks; `None` for any crate.
    pub ours: Option<&'static str>,
    /// External crates that the crate may use.
    pub others: &'static str,
    /// Items to read first, in backticks.
    pub begin: &'static str,
    /// Actions that the crate never takes.
    pub must_not: &'static str,
}

const fn row(name: &'static str, ours: Option<&'static str>, others: &'static str) -> Crate {
    Crate { name, ours, others, begin: "", must_not: "" }
}

impl Crate {
    const fn doc(self, begin: &'static str, must_not: &'static str) -> Crate {
        Crate { begin, must_not, ..self }
    }
}

const ANY: Option<&str> = None;

/// Crates that every crate may use, because they have no dependencies.
const FOR_ALL: &[&str] = &["base"];
/// External crates that every crate may use. A program contains only the code that `thiserror`
/// generates, and no code of `thiserror` itself.
const OTHERS_FOR_ALL: &[&str] = &["thiserror"];

/// All layers, from the bottom to the top.
pub const LAYERS: &[Layer] = &[
    Layer {
        name: "0 pure",
        crates: &[
            // No I/O, no clock, no threads, no randomness.
            // unicode-width is for tables with letters of two columns, behind a feature.
            row("base", Some(""), "unicode-width").doc(
                "`Bytes`, `duration`, `Table`, `chain`",
                "do I/O, read a clock, use a thread or chance (all of layer 0)",
            ),
            row("model", Some(""), "").doc(
                "`counters::Counter`, `GuestIdentity`, `GuestField`, `Folder`, `clause::Clause`, \
                 `quantity`",
                "decide",
            ),
            row("rules", Some("model"), "").doc(
                "`parse`, `compile`, `lint`, `Program`",
                "fail on any text; loop or allocate while a program runs",
            ),
            row("policy", Some("model rules"), "").doc(
                "`guest::step`, `steady`, `arbiter::Arbiter::pass`, `rivals`, `ksm`, `pageout`",
                "act",
            ),
            row("zmon", Some(""), "").doc(
                "`layout`, `file::Reader`, `stream::Stream`, `domain::said`, `hypfs`",
                "believe a length; take a missing field for 0",
            ),
            row("zvm", Some("model zmon"), "").doc(
                "`Monitor`, `Hypervisor`, `Exporter`, `notified`",
                "invent values that z/VM does not report",
            ),
        ],
    },
    Layer {
        name: "1 system",
        crates: &[
            // libc for paths from an open directory.
            row("procfs", Some("model"), "libc").doc(
                "`Reader`, `CpuClock`, `TaskDir`, `Kept`, `parse`",
                "write; read files that no counter needs",
            ),
            row("wire", Some(""), "")
                .doc("`ToHost`, `ToGuest`, `encode`, `Decoder`", "do I/O; trust a length"),
            row("qmp", Some(""), "serde serde_json").doc("`Client`, `Decoder`", "do I/O"),
            row("virtrpc", Some(""), "")
                .doc("`Client`, `Call`, `Decoder`", "do I/O; need libvirt's library"),
            // libc for the peer's credentials.
            row("reactor", Some(""), "libc rustix").doc(
                "`PollSet`, `Connection`, `Watcher`, `Acceptor`, `Lines`, `Outbox`, `Reply`",
                "wait outside its poll; use threads or a runtime",
            ),
            row("agent", Some("reactor wire"), "rustix")
                .doc("`Agent`, `AgentLink`, `DaemonEvent`", "decide about memory; trust a guest"),
            // libc for process_madvise, roxmltree for libvirt's description of a domain.
            row(
                "hypervisor",
                Some("model procfs qmp reactor virtrpc zmon"),
                "libc roxmltree rustix serde_json",
            )
            .doc(
                "`Hypervisor`, `QmpSource`, `Libvirt`, `Zvm`, `ProcessView`, `PageOut`, `KsmFiles`",
                "wait; assume unqueried values; decide",
            ),
            // flate2 for raw samples, which are compressed; rustix for the free space of a disk;
            // serde_json for a decision's numbers.
            row("store", Some("model"), "flate2 rusqlite rustix serde serde_json").doc(
                "`Journal`, `Writer`, `Recorder`, `Records`",
                "make the manager wait; grow without bound",
            ),
            // toml for files of settings.
            row("settings", Some(""), "toml")
                .doc("`load`, `table!`, `Reader`, `Fault`, `Share`", "keep a default"),
        ],
    },
    Layer {
        name: "2 guests",
        crates: &[
            // The daemon links few crates, because every guest loads all of them.
            row("pinheadd", Some("model rules policy procfs wire zmon"), "libc").doc(
                "`daemon`, `look`, `pace`, `plug`, `monitor`, `guestmon`",
                "link more than `libc` and layers 0 and 1",
            ),
            // snap for the compressed requests of remote write; serde for answers of engines;
            // httparse for HTTP heads; hypervisor for the description of a domain.
            row(
                "metrics",
                Some("hypervisor model reactor virtrpc"),
                "httparse rustix serde serde_json snap",
            )
            .doc(
                "`render`, `pasts`, `fleet`, `remote::Host`",
                "make the manager wait; change anything on a host without pinhead; trust that \
                 host; wait for it longer than a minute, or take more than 64 MiB at a time",
            ),
            row("collect", Some("hypervisor procfs model"), "libc rustix").doc(
                "`Collector`, `GuestReader`",
                "wake a guest; make costly reads for an idle guest",
            ),
            // procfs for the sockets of forwarded ports, flate2 for packages and kernels, and
            // crc32fast to detect damage on a disk. lz4_flex for a compressed kernel in an image,
            // and for memory that is read back while a client waits.
            row("vm", Some("procfs qmp wire"), "crc32fast flate2 libc lz4_flex rustix").doc(
                "`GuestSpec`, `Session`, `Template`, `Process`, `evidence`, `images::Cache`, \
                 `images::rootfs`, `parkfile::Reader`",
                "leave a process, a socket or a partial file behind; need root for a guest without \
                 a disk; use a file that another user can change (`images::ours`); trust the file \
                 of a parked guest",
            ),
            row(
                "farm",
                Some("agent hypervisor manager policy procfs qmp reactor settings vm wire"),
                "libc rustix serde serde_json",
            )
            .doc(
                "`fleet::Fleet`, `config`, `links::Switch`, `tiers::Tiers`, `service::Service`, \
                 `running`",
                "leave a change of the host behind",
            ),
            row(
                "manager",
                Some(
                    "agent collect hypervisor procfs metrics model policy reactor rules \
                     settings store wire zmon zvm",
                ),
                "rustix serde serde_json",
            )
            .doc(
                "`Manager`, `config`, `control`, `keeper`",
                "decide about memory; wait outside its poll",
            ),
            // manager for the paths of its files.
            row("reports", Some("manager metrics model store"), "").doc(
                "`build`, `find`, `recorded::local`",
                "read anything outside `recorded`; read a clock; show a name unescaped",
            ),
            // sim is the model of a host, which the tests run.
            row("whatif", Some("manager model policy settings sim store"), "serde").doc(
                "`Player`, `Change`, `size`, `Rule`, `moves`, `backtest::Replay`",
                "read anything outside `backtest`; decide differently from the manager; parse a \
                 command line",
            ),
            // jiff for times as users write them: the system's local time zone cannot be read
            // without unsafe code.
            row("why", Some("base model store"), "jiff serde_json thiserror")
                .doc("`answer`, `diff::answer`, `when`", "decide; parse a command line"),
            // crossterm for terminals; jiff for the local zone.
            row(
                "top",
                Some("base manager procfs model reports store why"),
                "crossterm jiff rustix signal-hook thiserror",
            )
            .doc("`live`, `replay`", "show a guest's text unescaped; parse a command line"),
            // axum with its tokio and hyper for the server, the only place with an async runtime.
            // maud for pages that are checked when they are compiled. subtle for comparing secrets,
            // and argon2 for passwords. rustls with tokio-rustls for TLS, and listenfd for a socket
            // of systemd's. flate2 for compressed answers, and jiff for times in addresses.
            row(
                "web",
                Some("base farm manager metrics model reactor reports store whatif why"),
                "argon2 axum flate2 futures-util hyper hyper-util jiff listenfd maud rustix \
                 rustls serde serde_json subtle thiserror tokio tokio-rustls tower-service",
            )
            .doc(
                "`serve`, `Source`, `access`, `pages`",
                "have rights over guests; load anything from elsewhere; wake a guest",
            ),
        ],
    },
    Layer {
        name: "3 binaries",
        crates: &[
            // The host's side may use more crates. flate2 for the compressed conformance vectors
            // and recorded scenarios, jiff for the local zone, and tar for recordings in transit.
            row(
                "pinhead",
                ANY,
                "annotate-snippets clap clap_complete clap_mangen flate2 jiff rustix serde \
                 serde_json signal-hook tar",
            )
            .doc(
                "`cli`, `up`, `farm_cmds`, `manage`, `check`, `explain`, `conform`",
                "show a guest's text unescaped",
            ),
            row("pinhead-web", ANY, "clap rustix")
                .doc("`main`", "decide; change guests without `--allow-changes`"),
        ],
    },
    Layer {
        name: "3, of its own",
        // A separate workspace, which links with Python.
        crates: &[row("python", ANY, "")
            .doc("`Recording`, `replay`, `simulate`, `size`, `sweep`", "decide")],
    },
    Layer {
        name: "4 not shipped",
        crates: &[
            row("sim", Some("model policy"), "")
                .doc("`scenario`, `check`, `figures`, `table`, `day`", "do I/O, read a clock"),
            row("e2e", ANY, "libc rustix serde_json").doc("`Host`, `Plan`", ""),
            // hdrhistogram for percentiles of any range, httparse for HTTP heads; clap, jiff and
            // signal-hook for the programs `pinhead-lab` and `bench`.
            row(
                "lab",
                ANY,
                "clap hdrhistogram httparse jiff rustix serde serde_json signal-hook",
            )
            .doc(
                "`catalog`, `Bench`, `site::Site`, `load::Plan`, `load::Job`, `bin/`",
                "be needed by a user of guests; change the machine in `bench`; store a ratio in \
                 place of its measurements; lose measurements; ignore a stall of a server",
            ),
            row("fuzz_targets", ANY, "").doc("`TARGETS`", ""),
            row("tidy", ANY, "serde_json").doc("`tests/`", ""),
        ],
    },
];

fn row_of(name: &str) -> Option<&'static Crate> {
    LAYERS.iter().flat_map(|layer| layer.crates).find(|row| row.name == name)
}

/// Returns the complaints about the output of `cargo metadata --no-deps`.
pub fn complaints(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"]);
        let Some(row) = row_of(name) else {
            found.push(format!(
                "crate {name} has no row in tidy's layers::LAYERS: give it one that says what it \
                 may use"
            ));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let used = text(&dependency["name"]);
            // A dependency with a path is in this workspace.
            let is_ours = dependency["path"].is_string();
            let allowed = |names| FOR_ALL.contains(&used) || is_among(names, used);
            if is_ours && !row.ours.is_none_or(allowed) {
                found.push(format!(
                    "crate {name} uses {used}, which is not below it: move what it needs down, \
                     or change tidy's layers::LAYERS and say why"
                ));
            }
            if !is_ours && !is_among(row.others, used) && !OTHERS_FOR_ALL.contains(&used) {
                found.push(format!(
                    "crate {name} takes in {used} from outside: do without it, or list it in \
                     tidy's layers::LAYERS and say why"
                ));
            }
        }
    }
    found
}

/// The crate that every guest loads, and the only external dependency of this crate, direct or
/// indirect.
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
        check("rules", json!({"name": "model", "path": "/m", "kind": null}), None);
        check("model", json!({"name": "rules", "path": "/r", "kind": null}), Some("not below"));
        check("model", json!({"name": "rules", "path": "/r", "kind": "dev"}), Some("not below"));
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
