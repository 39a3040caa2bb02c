//! A guest under a host manager. It is found at once, is informed of its balloon, and is otherwise
//! left alone.

use agent::Port;
use e2e::{Host, PATIENCE, Plan};
use farm::fleet::State;
use std::time::Duration;
use vm::images::Arch;
use vm::{Deadline, wait_for_exit};
use wire::{Grant, ToGuest, ToHost, Welcome};

/// Rules that never request a change, so that only the manager makes changes.
const HOLDING: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\n\
                       HOTUNPLUG=\"0\"\nCMM_MIN=\"0\"\nCMM_MAX=\"30000\"\nCMM_INC=\"256\"\n\
                       MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

/// Returns the daemon's messages up to the first matching message, and how long the wait took.
fn receive(
    port: &mut Port,
    limit: Duration,
    is: impl Fn(&ToHost) -> bool,
) -> (Vec<ToHost>, Duration) {
    let deadline = Deadline::after(limit);
    let mut messages = Vec::new();
    while !messages.iter().any(&is) {
        assert!(deadline.remaining().is_some(), "not within {limit:?}: {messages:#?}");
        port.receive().expect("the port");
        messages.extend(std::iter::from_fn(|| port.next()));
        // The pause waits for this process's own exit, which cannot come.
        let _ = wait_for_exit(std::process::id(), Duration::from_millis(5));
    }
    (messages, deadline.elapsed())
}

fn greet(dir: &std::path::Path) -> Port {
    let mut port = Port::connect(&dir.join("g1.port"), 0).expect("the port");
    let welcome = Welcome { memory_pages: 65_536, grants: true, paces: true };
    port.send(&ToGuest::Welcome(welcome)).expect("a word");
    port
}

#[test]
fn manager_is_met_at_once_and_unrequested_change_is_kept() {
    let dir = e2e::scratch("manager");
    let mut plan = Plan::new(Arch::X86_64, "-f -V -c /etc/pinhead.conf --pace host");
    plan.rules = HOLDING.into();
    plan.run_dir = Some(dir.path().into());
    let host = Host::start(&[plan]);
    let mut guest = host.guest(0);
    let balloon_status = |guest: &mut e2e::Guest<'_>| guest.sh("/sbin/pinheadd --balloon");
    guest.until("its daemon is there", PATIENCE, |_| true);
    assert_eq!(balloon_status(&mut guest), "No host has reported a balloon to this guest.\n");

    host.yield_to_manager();
    host.until(0, "the guest is yielded", PATIENCE, |seen| seen.state == State::Managed);
    assert!(host.seen(0).status.is_none(), "its state is unknown");
    // Without a manager the daemon settles. After that, only the port can wake it in time.
    let settled = "grep -c settled=1 /run/pinheadd.status || true";
    guest.until_sh(settled, PATIENCE, |text| text == "1");
    let mut port = greet(dir.path());
    let is_hello = |m: &ToHost| matches!(m, ToHost::Hello(_));
    let (_, met) = receive(&mut port, Duration::from_secs(1), is_hello);
    println!("a manager was met after {met:?}");

    let balloon = "awk '/^balloon_inflate/ {i=$2} /^balloon_deflate/ {d=$2} END {print i-d}' \
                   /proc/vmstat";
    let mut monitor = vm::Monitor::new(
        std::os::unix::net::UnixStream::connect(dir.join("g1.qmp")).expect("the second monitor"),
    );
    for (pages, reason) in [(16_384_u64, "g2 needs it\x1b[2J"), (4096, "")] {
        // The grant must precede the balloon's change. A daemon that samples in between would
        // otherwise conclude that the kernel took memory back.
        let grant = Grant { sequence: 0, pages, reason: reason.into() };
        port.send(&ToGuest::Grant(grant)).expect("a word");
        let value_bytes = (65_536 - pages) * 4096;
        let soon = Deadline::after(PATIENCE);
        monitor.call(qmp::Command::Balloon { value_bytes }, soon).expect("a balloon");
        guest.until_sh(balloon, PATIENCE, |text| text == pages.to_string());
        let (messages, _) = receive(
            &mut port,
            PATIENCE,
            |m| matches!(m, ToHost::Status(s) if s.pool_pages == pages),
        );
        for message in messages {
            assert!(!matches!(message, ToHost::PoolRequest(_)), "it fights: {message:?}");
            if let ToHost::Status(status) = message {
                assert_eq!((status.shrinks, status.reason.as_str()), (0, ""));
            }
        }
        let sentence = balloon_status(&mut guest);
        let begins = format!(
            "The host's balloon holds {} MiB ({pages} pages) of this guest's 256 MiB since ",
            pages / 256
        );
        let ends = if reason.is_empty() { ": the host gave no reason.\n" } else { "[2J.\n" };
        assert!(sentence.starts_with(&begins) && sentence.ends_with(ends), "{sentence}");
        assert!(!sentence.contains('\x1b'), "{sentence:?}");
    }

    // New rules are reported.
    guest.sh("sed -i 's/^UPDATE=.*/UPDATE=\"2\"/' /etc/pinhead.conf; kill -HUP $(pidof pinheadd)");
    receive(
        &mut port,
        PATIENCE,
        |m| matches!(m, ToHost::Hello(hello) if hello.reply && hello.update_ms == 2000),
    );

    drop(port);
    host.take_back();
    guest.until_sh(balloon, PATIENCE, |text| text == "0");
    host.until(0, "the guest is up again", PATIENCE, |seen| seen.state == State::Up);
    guest.until_sh("/sbin/pinheadd --balloon", PATIENCE, |sentence| {
        sentence.contains("holds nothing") && sentence.contains("manager has ended")
    });
    let log = host.seen(0).status.map(|status| status.reason);
    assert_eq!(log.as_deref().unwrap_or_default(), "", "no task ran out of memory");
    drop(host);
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("the directory").collect();
    assert!(left.is_empty(), "{left:?}");
}
