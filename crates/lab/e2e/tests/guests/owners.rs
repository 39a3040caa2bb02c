//! Every byte of the host's memory has exactly one owner. The manager's counts for clones of a
//! template must match the kernel's walk over their pages.

use super::farm_clones::{Web, web_spec};
use e2e::manager::{Manager, Place, Size};
use e2e::soon;
use manager::control::Ps;
use vm::images::Cache;
use vm::{Clones, GuestSpec, Template};

const CLONES: usize = 8;
/// Tolerated relative difference. The manager rounds nothing, but guests continue to run between
/// the manager's sample and the kernel's walk.
const SLACK: f64 = 0.04;

/// Memory of a process in KiB, by a walk over all of its pages.
struct Walk {
    resident: u64,
    /// Resident memory, with each shared page divided among the processes that share it.
    proportional: u64,
    anonymous: u64,
}

impl Walk {
    fn of(pid: u32) -> Walk {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a walk");
        let of = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect(name)
        };
        Walk { resident: of("Rss"), proportional: of("Pss"), anonymous: of("Anonymous") }
    }
}

fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) as f64 <= SLACK * one.max(other) as f64
}

#[test]
fn memory_of_clones_and_their_owners_match_the_hosts_loss() {
    let _share = e2e::share(CLONES);
    let cache = Cache::from_environment().expect("a cache");
    let place = Place::new();
    let plain = web_spec(&cache);
    let made = Template::make(&plain, Clones::Share, &cache, soon());
    let template = made.unwrap_or_else(|e| panic!("{e}"));
    let like = GuestSpec { run_dir: Some(place.dir().to_path_buf()), ..plain };
    let clones: Vec<Web> =
        (1..=CLONES).map(|number| Web::start(number, &like, &template)).collect();
    let size = Size { budget_mib: 2000, set_point_mib: 96, hysteresis_mib: 24, reserve_mib: 32 };
    let manager = Manager::start(&place, &place.settings(&size, ""));
    manager.knows(CLONES);
    let walks = || clones.iter().map(|clone| Walk::of(clone.guest.process.id()));
    let kib = |bytes: Option<u64>| bytes.unwrap_or(0) >> 10;
    let private = |ps: &Ps| ps.guests.iter().map(|guest| kib(guest.private_bytes)).sum::<u64>();

    // The manager samples idle guests rarely, and measures one hypervisor in each turn.
    let is_true = |ps: &Ps| {
        let anonymous = walks().map(|walk| walk.anonymous).sum();
        ps.guests.iter().all(|guest| guest.own_measured) && is_near(private(ps), anonymous)
    };
    manager.until("each byte has its owner", e2e::PATIENCE, is_true);
    let ps = manager.ps();
    let host = &ps.host.owners;
    let own: u64 = ps.guests.iter().map(|guest| kib(guest.own_bytes)).sum();
    let of_guests: u64 = ps.guests.iter().map(|guest| kib(guest.resident_bytes)).sum();
    let (resident, proportional) = walks().fold((0, 0), |(resident, proportional), walk| {
        (resident + walk.resident, proportional + walk.proportional)
    });
    let shared = host.shared_bytes >> 10;
    let owners = private(&ps) + shared;
    println!(
        "{CLONES} clones: guests {of_guests} + hypervisors {own} + shared {shared} KiB = {owners}; \
         the kernel's walk finds {proportional}, resident sets are {resident}"
    );
    assert!(
        is_near(of_guests + own, private(&ps)),
        "the sum of all owners' memory is not the private memory"
    );
    assert!(is_near((host.guests_bytes + host.hypervisors_bytes) >> 10, private(&ps)));
    // Other programs on this machine may also map some of the shared pages. The kernel counts a
    // part of these pages for those programs.
    assert!(proportional as f64 <= owners as f64 * (1.0 + SLACK), "{proportional} KiB");
    assert!(proportional + shared / 2 >= owners, "{proportional} KiB");
    assert!(owners * 3 < resident * 2, "what is shared is counted with each of them");
    // The budget is charged for exactly this memory, and for the manager.
    let paid = kib(ps.host.budget_bytes) - kib(ps.host.available_bytes);
    assert!(is_near(paid, owners + kib(host.manager_bytes)), "{paid} KiB");
    let sum = host.guests_bytes
        + host.hypervisors_bytes
        + host.shared_bytes
        + host.compressed_bytes.unwrap_or(0)
        + host.manager_bytes.unwrap_or(0)
        + host.huge_pages_bytes
        + host.zfs_bytes
        + host.other_bytes.unwrap_or(0);
    assert!(is_near(sum, host.used_bytes.unwrap_or(0)), "{sum} of {:?}", host.used_bytes);
    // A hypervisor's own memory is a part of the clone's private memory, and smaller than the
    // private memory.
    for guest in &ps.guests {
        let (own, private) = (kib(guest.own_bytes), kib(guest.private_bytes));
        assert!(own > 4 << 10 && own < private, "{}: {own} of {private} KiB", guest.name);
    }
}
