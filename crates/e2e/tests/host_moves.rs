//! `pinhead host` moves memory between real guests, and gives it back however it ends.

use e2e::load::{HAS_ZRAM, HOLDING};
use e2e::manager::{Manager, Place, Size, actual_mib, row, signal, wait_until};
use e2e::{Guest, Host, Plan};
use farm::{Arch, Deadline, Monitor};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pinhead-under-test");
/// What every guest here is started with.
const MEMORY_MIB: u64 = 384;
/// What a guest has that is to be starved.
const STARVED_MIB: u64 = 160;

fn plan(place: &Place) -> Plan {
    let mut plan = Plan::new(Arch::X86_64, "-f -c /etc/pinhead.conf --pace host");
    plan.cpus = 1;
    plan.memory_mib = MEMORY_MIB;
    plan.rules = HOLDING.into();
    plan.kernel_args.push(HAS_ZRAM.into());
    plan.run_dir = Some(place.dir().to_path_buf());
    plan
}

/// Speaks to the second monitor of a guest, while no manager has it.
fn monitor(dir: &Path, name: &str) -> Monitor {
    let stream = UnixStream::connect(dir.join(format!("{name}.qmp")));
    Monitor::new(stream.unwrap_or_else(|e| panic!("the monitor of {name}: {e}")))
}

fn balloon(dir: &Path, name: &str, mib: u64) {
    let command = qmp::Command::Balloon { value_bytes: mib << 20 };
    let done = monitor(dir, name).call(command, Deadline::after(e2e::PATIENCE));
    done.unwrap_or_else(|e| panic!("the balloon of {name}: {e}"));
}

/// The keeper's process, and that of the manager, for the end of either.
fn keeper(manager: &Manager<'_>) -> u32 {
    manager.status().lease.keeper_pid.expect("a keeper")
}

/// Kills the manager while memory is on its way, and says how long the keeper took to give all
/// of it back.
fn kill_in_mid_move(mut manager: Manager<'_>, guests: &mut [Guest<'_>]) -> Duration {
    manager.until("memory moves", Duration::from_secs(20), |ps| {
        ps.guests.iter().any(|guest| guest.target_bytes < guest.actual_bytes)
    });
    signal(manager.pid(), "KILL");
    manager.end(Duration::from_secs(5));
    let taken: u64 = guests.iter_mut().map(Guest::balloon_mib).sum();
    assert!(taken > 0, "nothing had been taken");
    let all_back = || guests.iter_mut().all(|guest| guest.balloon_mib() == 0);
    let took = wait_until(Duration::from_secs(30), all_back).expect("all memory within 30 s");
    println!("kill -9 in mid-move: {taken} MiB of 3 guests were back after {took:?}");
    took
}

#[test]
fn a_hoarder_gives_to_the_starved_and_a_kill_gives_all_back() {
    let place = Place::new();
    let host = Host::start(&[plan(&place), plan(&place), plan(&place)]);
    let mut guests = [host.guest(0), host.guest(1), host.guest(2)];
    host.let_go();
    let [hoarder, starved, third] = &mut guests;
    hoarder.fill_cache(260);
    third.fill_cache(60);
    balloon(place.dir(), "g2", STARVED_MIB);
    starved.sh("true");
    let given = wait_until(Duration::from_secs(30), || {
        starved.balloon_mib() == MEMORY_MIB - STARVED_MIB
    });
    assert!(given.is_some(), "its balloon is not inflated");

    // (a) The host is exactly at its set point.
    let size = Size::with_free(&host, 3, 96);
    println!("{size:?}");
    let settings = place.settings(&size, "");
    let manager = Manager::start(PROGRAM, &place, &settings);
    manager.knows(3);
    let need = 180;
    let clock = Deadline::after(e2e::PATIENCE);
    starved.use_memory(need);
    starved.until_used(Duration::from_secs(10));
    println!("hoarder to starved: {need} MiB more were in use after {:?}", clock.elapsed());
    println!("{}", manager.told());
    assert!(starved.in_use_mib() >= need);
    for guest in [hoarder, starved, third] {
        assert_eq!(guest.oom_kills(), 0, "somebody was killed");
    }
    let clauses = |name: &str, action: &str| -> Vec<String> {
        let all = manager.decisions(name).into_iter();
        let of = all.filter(|one| one.decision.action == action);
        of.map(|one| one.decision.clause.into_owned()).collect()
    };
    assert!(clauses("g2", "grow").contains(&"need".into()));
    assert!(clauses("g1", "shrink").contains(&"shortage".into()));
    assert!(clauses("g2", "shrink").is_empty(), "the starved one was shrunk");
    drop(manager);
}
