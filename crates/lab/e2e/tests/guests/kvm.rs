//! KVM that exists but does not work: QEMU exits, or the guest never prints anything.

use farm::fleet::Fleet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use vm::images::{Arch, Cache, ImageSpec};
use vm::{Accel, GuestSpec, WhyEmulation};

/// Environment variable of the process that runs with a replacement for QEMU.
const CHILD: &str = "PINHEAD_TEST_KVM_STANDS_IN";
/// Time for which an idle QEMU is observed.
const STILL_MS: u64 = 30_000;
/// Timeout of a guest's boot by emulation on a crowded machine.
const LIMIT_MS: u64 = 180_000;

/// Replacement for QEMU. If KVM is not requested, the real QEMU runs. If KVM is requested, the
/// guest's name selects the behaviour: the replacement exits at once, hangs silently, or spins
/// without its guest. For any other name, a real QEMU runs and responds, but its guest never runs.
const STAND_IN: &str = r#"#!/bin/sh
case "$*" in *'-accel kvm'*) ;; *) exec REAL "$@" ;; esac
case "$*" in
    *guest=ends,*) echo 'Could not access KVM kernel module' >&2; exit 1 ;;
    *guest=silent,*) exec sleep 1000 ;;
    *guest=spins,*) while :; do :; done ;;
esac
before=''
for word do
    shift
    case "$before $word" in
        '-accel kvm') set -- "$@" tcg ;;
        '-cpu host') set -- "$@" max ;;
        *) set -- "$@" "$word" ;;
    esac
    before=$word
done
exec REAL "$@" -S
"#;

fn specs(names: &[&str]) -> Vec<GuestSpec> {
    let cache = Cache::from_environment().expect("a cache");
    let image = ImageSpec { arch: Arch::X86_64, daemon: None, files: Vec::new() };
    let image = image.build(&cache).expect("an image");
    let spec =
        |name: &&str| GuestSpec { ctl: false, ..GuestSpec::new(*name, image.clone(), Accel::Kvm) };
    names.iter().map(spec).collect()
}

/// Boots these guests with KVM. Returns for each guest the accelerator, the time at which KVM was
/// given up, and the time at which the guest was up.
fn boot(names: &[&str]) -> Vec<(Accel, Option<u64>, u64)> {
    let mut fleet = Fleet::new(specs(names), names.len());
    let mut given_up_ms = vec![None; names.len()];
    let mut up_ms = vec![None; names.len()];
    while up_ms.contains(&None) {
        let now = fleet.now_ms();
        for (index, member) in fleet.members().iter().enumerate() {
            if member.spec().accel != Accel::Kvm {
                given_up_ms[index].get_or_insert(now);
            }
            let marker = format!("pinhead: {} is up", member.spec().name);
            if String::from_utf8_lossy(member.console()).contains(&marker) {
                up_ms[index].get_or_insert(now);
            }
        }
        let states: Vec<_> = fleet.members().iter().map(|m| (m.spec().accel, m.state())).collect();
        assert!(now < LIMIT_MS, "{states:?}");
        fleet.turn(reactor::PollSet::new(), now + 500).expect("a turn");
    }
    let accel = |index: usize| fleet.members()[index].spec().accel;
    let times = given_up_ms.into_iter().zip(up_ms.into_iter().flatten()).enumerate();
    times.map(|(index, (given_up, up))| (accel(index), given_up, up)).collect()
}

/// A guest started with KVM boots, by KVM if KVM works, and otherwise by emulation. The test prints
/// the accelerator.
#[test]
fn a_guest_comes_up_with_and_without_working_kvm() {
    let _share = e2e::share(1);
    let (accel, _, up_ms) = boot(&["g1"])[0];
    println!("up after {up_ms} ms, by {accel}");
}

/// Helper of the next test. The next test runs it in a process with the replacement on the path.
#[test]
fn child_whose_qemu_stands_in() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let names = ["ends", "silent", "spins", "stopped"];
    for (name, (accel, given_up_ms, up_ms)) in names.iter().zip(boot(&names)) {
        println!("{name}: given up after {given_up_ms:?} ms, up after {up_ms} ms, by {accel}");
        assert_eq!(accel, Accel::Emulation(WhyEmulation::KvmSilent), "{name}");
        let given_up_ms = given_up_ms.expect("when");
        // An idle QEMU gets the full time limit. Other faults are recognised earlier.
        let does_nothing = ["silent", "stopped"].contains(name);
        assert!(!does_nothing || given_up_ms >= STILL_MS, "{name}: {given_up_ms} ms");
        assert!(up_ms > given_up_ms, "{name} came up with KVM");
    }
}

/// On any machine, with KVM or without, a broken QEMU is replaced by an emulation that boots. The
/// broken QEMU exits, never responds, runs without its guest, or responds while its guest is
/// stopped.
#[test]
fn ended_qemu_and_mute_guests_are_restarted_by_emulation() {
    let _share = e2e::share(4);
    let path = std::env::var("PATH").expect("PATH");
    let program = Arch::X86_64.qemu_program();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join(&program));
    let real = places.find(|place| place.is_file()).expect("QEMU");
    // QEMU runs as another user if this process is root.
    let dir = e2e::scratch("kvm");
    let open = |path: &std::path::Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode")
    };
    open(dir.path());
    let stand_in = dir.path().join(&program);
    fs::write(&stand_in, STAND_IN.replace("REAL", real.to_str().expect("a path"))).expect("a file");
    open(&stand_in);
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "kvm::child_whose_qemu_stands_in", "--nocapture"])
        .env("PATH", format!("{}:{path}", dir.path().display()))
        .env(CHILD, "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("given up after").count(), 4, "{text}");
}
