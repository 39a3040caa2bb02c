//! When the daemon ends, the state from its start is restored, whatever ends the daemon.

use e2e::{Guest, Host, PATIENCE, Plan};
use std::time::Duration;
use vm::images::Arch;

fn plan(arch: Arch) -> Plan {
    Plan { daemon: None, ..Plan::new(arch, "") }
}

const START: &str = "/sbin/pinheadd -f -c /etc/pinhead.conf --pace fixed \
                     > /run/log 2>&1 < /dev/null & \
     echo $! > /run/pid";

fn online(guest: &mut Guest<'_>) -> String {
    guest.sh("cat /sys/devices/system/cpu/online").trim().to_owned()
}

fn wait_for_end(guest: &mut Guest<'_>) {
    guest.until_sh(
        "kill -0 $(cat /run/pid) 2> /dev/null && echo there || echo gone",
        Duration::from_secs(30),
        |text| text == "gone",
    );
}

/// SIGTERM restores the values found at the start. After SIGKILL, a start and SIGTERM, the values
/// of the first start are restored.
fn restores(arch: Arch, pool: &str) {
    let host = Host::start(&[plan(arch)]);
    let mut guest = host.guest(0);
    // An unusual start: one of four CPUs is offline, and it is not the CPU with the highest number.
    guest.sh("echo 0 > /sys/devices/system/cpu/cpu2/online");
    let (cpus, pages) = (online(&mut guest), guest.sh(pool));
    assert_eq!(cpus, "0-1,3");

    for kill_first in [false, true] {
        guest.sh(START);
        guest.until_sh("cat /sys/devices/system/cpu/online", PATIENCE, |text| text == "0");
        guest.until_sh(pool, PATIENCE, |text| text.parse::<u64>().is_ok_and(|n| n > 1000));
        if kill_first {
            guest.sh("kill -9 $(cat /run/pid)");
            wait_for_end(&mut guest);
            assert_eq!(online(&mut guest), "0", "SIGKILL restores nothing");
            guest.sh(START);
            guest.until_sh("cat /run/log", PATIENCE, |text| {
                text.contains("its undo record is used")
            });
        }
        guest.sh("kill $(cat /run/pid)");
        wait_for_end(&mut guest);
        assert_eq!(online(&mut guest), cpus, "killed first: {kill_first}");
        // A kernel may return the pages of a pool slowly.
        let found = pages.trim();
        guest.until_sh(pool, PATIENCE, |text| text == found);
        let left = guest.sh("ls /run/pinheadd.undo 2> /dev/null || true");
        assert_eq!(left, "", "the record is used up");
    }
}

#[test]
fn x86_64_restores() {
    restores(
        Arch::X86_64,
        "awk '/^balloon_inflate/ {i=$2} /^balloon_deflate/ {d=$2} END {print i-d}' /proc/vmstat",
    );
}

#[test]
fn s390x_restores() {
    restores(Arch::S390x, "cat /proc/sys/vm/cmm_pages");
}

/// New rules are applied at runtime. Invalid rules are refused with a message.
#[test]
fn rules_are_read_again_or_the_old_ones_stay() {
    let host = Host::start(&[plan(Arch::X86_64)]);
    let mut guest = host.guest(0);
    guest.sh(START);
    guest.until_sh("cat /sys/devices/system/cpu/online", PATIENCE, |text| text == "0");

    guest.sh("sed -i 's/MemFree/MemFre/' /etc/pinhead.conf; kill -HUP $(cat /run/pid)");
    guest.until_sh("cat /run/log", PATIENCE, |log| {
        log.contains("did you mean `MemFree`?") && log.contains("the old rules stay in force")
    });
    guest.sh("sed -i 's/MemFre/MemFree/; s/^CPU_MIN=.*/CPU_MIN=\"2\"/' /etc/pinhead.conf; \
         kill -HUP $(cat /run/pid)");
    guest.until_sh("cat /sys/devices/system/cpu/online", PATIENCE, |text| text == "0-1");
    let second = guest.sh("/sbin/pinheadd -f -c /etc/pinhead.conf 2>&1 || true");
    assert!(second.contains("Another pinheadd is running"), "{second}");
}

/// Runs the daemon as the original runs: in the background, with a pid file for scripts.
#[test]
fn daemon_runs_in_the_background_and_scripts_find_it() {
    let host = Host::start(&[plan(Arch::X86_64)]);
    let mut guest = host.guest(0);
    guest.sh("/sbin/pinheadd -c /etc/pinhead.conf; cat /run/pinheadd.pid > /run/pid");
    guest.until_sh("cat /sys/devices/system/cpu/online", PATIENCE, |text| text == "0");
    // The kernel reports the CPU offline before the daemon writes the file.
    guest.until_sh("cat /run/pinheadd.status", PATIENCE, |status| {
        status.contains("cpus_online=1\ncpus_present=4\n")
    });
    guest.sh("kill $(cat /run/pid)");
    wait_for_end(&mut guest);
    assert_eq!(online(&mut guest), "0-3");
    assert_eq!(guest.sh("ls /run/pinheadd.pid /run/pinheadd.status 2> /dev/null || true"), "");

    // In the foreground with -V, the daemon prints the lines that users' scripts parse.
    guest.sh("/sbin/pinheadd -f -V -c /etc/pinhead.conf > /run/log 2>&1 < /dev/null & \
         echo $! > /run/pid");
    guest.until_sh("cat /run/log", PATIENCE, |log| {
        [
            "onumcpus:   1",
            "cmm_pages: ",
            "changing number of pages permanently reserved to ",
            "seconds since the Epoch)",
            "cpu1 will be disabled",
        ]
        .iter()
        .all(|line| log.contains(line))
    });
    guest.sh("kill -INT $(cat /run/pid)");
    wait_for_end(&mut guest);
    assert_eq!(online(&mut guest), "0-3");
}
