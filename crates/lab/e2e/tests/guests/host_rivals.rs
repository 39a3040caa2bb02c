//! `pinhead host` with the rules of another manager. It moves memory by these rules, and still
//! returns all memory at its end.

use e2e::manager::{Manager, Place, Size, actual_mib, wait_until};
use e2e::{Host, MANAGED_MIB, PATIENCE, Plan};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use store::Decided;

/// Timeout that allows three passes on a loaded machine. Proxmox's rules run every 10 s.
const BEATS: Duration = Duration::from_secs(60);

/// Writes settings with Proxmox's rules, and with MOM's rules as a shadow policy.
fn settings(place: &Place, budget_mib: u64) -> PathBuf {
    let size = Size { budget_mib, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let shadow = place.dir().join("shadow.toml");
    let text = format!("[host]\nbudget = \"{budget_mib} MiB\"\n[policy]\nkind = \"mom\"\n");
    std::fs::write(&shadow, text).expect("the shadow's settings");
    place.settings(&size, "[policy]\nkind = \"proxmox\"\nshadow = \"shadow.toml\"\n")
}

/// Reloads the settings, and waits until each guest's memory has moved in that direction.
fn until_all(manager: &Manager<'_>, what: &str) {
    let count = |name: &str| of_action(manager, name, what).len();
    let before = ["g1", "g2"].map(count);
    manager.signal("HUP");
    manager.until(what, BEATS, |_| count("g1") > before[0] && count("g2") > before[1]);
}

fn of_action(manager: &Manager<'_>, name: &str, action: &str) -> Vec<Decided> {
    let all = manager.decisions(name).into_iter();
    all.filter(|one| one.decision.action == action).collect()
}

/// Runs a command that needs no manager, and returns its output.
fn said(words: &[&str]) -> String {
    let output = Command::new(e2e::program()).args(words).stdin(Stdio::null()).output();
    let output = output.expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn manager_with_proxmox_rules_moves_memory_and_returns_all() {
    let place = Place::new();
    let host = Host::start(&[Plan::managed(place.dir()), Plan::managed(place.dir())]);
    let mut guests = [host.guest(0), host.guest(1)];
    host.yield_to_manager();

    // The host is smaller than the guests' total. A fifth of the host's memory is therefore
    // requested from the guests in each pass.
    let full = Size::with_free(&host, 2, 0).budget_mib * 2 / 3;
    let manager = Manager::start(&place, &settings(&place, full));
    manager.knows(2);
    assert!(manager.log().contains("pinhead's own policy is not in use"), "{}", manager.log());
    manager.until("both gave", BEATS, |ps| {
        ps.guests.iter().filter(|guest| actual_mib(guest) + 50 < MANAGED_MIB).count() == 2
    });
    // The host first has free memory, and then has none.
    settings(&place, 4 * full);
    until_all(&manager, "grow");
    settings(&place, full);
    until_all(&manager, "shrink");

    for name in ["g1", "g2"] {
        for Decided { decision: one, .. } in manager.decisions(name) {
            println!("{name} {} {} {}", one.action, one.clause, one.reason());
            if one.action == "grow" || one.action == "shrink" {
                assert_eq!(one.clause, "proxmox");
                let reason = one.reason();
                assert!(reason.starts_with("by the rules of Proxmox: "), "{reason}");
                assert!(one.from_bytes.abs_diff(one.to_bytes) <= 100 << 20, "{one:?}");
                assert!(one.to_bytes >= 64 << 20, "below the least that a guest has: {one:?}");
            }
        }
    }
    let journal = place.dir().join("journal.db").display().to_string();
    let why = said(&["why", "g1", "--journal", &journal]);
    assert!(why.contains("by the rules of Proxmox"), "{why}");
    let diff = said(&["host", "diff", "--guest", "g1", "--journal", &journal]);
    assert!(diff.contains("by the rules of MOM"), "{diff}");

    let taken: u64 = guests.iter_mut().map(e2e::Guest::balloon_mib).sum();
    drop(manager);
    let all_back = || guests.iter_mut().all(|guest| guest.balloon_mib() == 0);
    let took = wait_until(PATIENCE, all_back);
    println!("{taken} MiB of two guests were back after {took:?}");
    assert!(took.is_some());
    // The replay also covers the rules of other managers, and changes of the settings.
    assert!(place.replayed() > 0, "nothing moved");
}
