//! Sums in the monitor's reports on twenty real guests. The host's busy time is attributed to its
//! users, and the states of virtual CPUs add up to 100 %. The parts of the host's memory add up to
//! the host's total. The CPU times of a guest's processes add up to the guest's CPU time.
//!
//! ```text
//!   20 guests, 2 cores ─► pinhead host, which records ─► pinhead report ... --format json ─► sums
//! ```
//!
//! Other work may run on the machine. The reports must account for it as well.

use e2e::manager::{Manager, Place, Size, observe, wait_until};
use e2e::{Guest, Host, PATIENCE, Plan};
use manager::control::{Answer, Ask, ask};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use vm::Deadline;

const GUESTS: usize = 20;
/// Guests that are always busy. Their work is twice as much as the host's cores can do.
const BUSY: [&str; 4] = ["g1", "g2", "g3", "g4"];
/// Minimum duration of the recording.
const RECORDED: Duration = Duration::from_secs(60);

/// Computes all the time.
const HOG: &str = "while :; do :; done";
/// Writes and removes files repeatedly. A separate short-lived process writes each file.
const FILES: &str = "while :; do dd if=/dev/zero of=/dev/shm/file bs=256k count=4; \
                     rm /dev/shm/file; done";
/// Writes to more memory than exists, a little at a time. The excess is in compressed swap space.
const SWAPPING: &str = "while :; do for n in $(seq 0 87); do \
                        dd if=/dev/zero of=/dev/shm/load bs=1M count=1 seek=$n conv=notrunc; \
                        done; done";
/// Computes for a moment, and is then idle for a longer time.
const BURSTS: &str = "while :; do n=0; while [ $n -lt 4000 ]; do n=$((n + 1)); done; sleep 2; \
                      done";

fn plan(place: &Place, number: usize) -> Plan {
    let mut plan = Plan::holding(place.dir());
    plan.memory_mib = if number == 4 { 96 } else { 128 };
    // On a busy host, an emulated timer may be too late for the kernel's check of the timer.
    plan.kernel_args.push("no_timer_check".into());
    if number == 4 {
        plan.kernel_args.push("pinhead.zram_mib=96".into());
    }
    plan
}

fn begin(guest: &mut Guest<'_>, load: &str) {
    guest.sh(&format!("({load}) > /dev/null 2>&1 &"));
}

/// Requests the list of processes from a guest's daemon, for the recordings. A guest that hardly
/// runs may respond late.
fn scan(place: &Place, guest: &str) {
    let question = Ask::Scan { guest: guest.to_owned() };
    let ask = || ask(&place.socket(), &question, Duration::from_secs(30));
    let answered = wait_until(PATIENCE, || matches!(ask(), Ok(Answer::Scan(_))));
    assert!(answered.is_some(), "{guest}: {:?}", ask());
}

/// Returns a report of the whole recording, and checks its text form.
fn report(place: &Place, name: &str) -> Value {
    let dir = place.dir().join("records");
    let ask = |format: &str| {
        let mut command = Command::new(e2e::program());
        command.args(["report", name, "--top", "1000", "--format", format]);
        let output = command.arg("--dir").arg(&dir).output().expect("a report");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    println!("{}", ask("text"));
    serde_json::from_str(&ask("json")).expect("JSON")
}

/// Returns the rows of a kind in the first table.
fn rows<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = report["tables"][0]["rows"].as_array().expect("rows");
    all.iter().filter(|row| row["row"] == kind).collect()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("there is no {name}: {row}"))
}

/// Asserts that all busy time of the host's CPUs is attributed.
fn busy_time_has_names(main: &Value, guest1: &Value) {
    let all = rows(main, "all")[0];
    let of = |name: &str| number(all, name);
    let busy = of("busy_percent");
    let named = of("attributed_percent");
    println!(
        "busy {busy:.2} % of all CPUs: guests {:.2} %, other processes {:.2} %, kernel {:.2} %, \
         named {named:.2} %; {:.2} % stolen",
        of("capture_percent"),
        of("others_percent"),
        of("kernel_percent"),
        of("steal_percent")
    );
    assert!((99.0..=100.001).contains(&named), "{named} % of {busy} % has a name");
    let stat = std::fs::read_to_string("/proc/stat").expect("the host's CPUs");
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    let guests = number(rows(guest1, "all")[0], "cpu_percent");
    let captured = of("capture_percent") * busy / 100.0 * cpus as f64;
    // While a lower hypervisor has the CPU, a process's time continues and busy time stops. The
    // recording of the host begins a moment before the recording of its guests.
    let stolen = of("steal_percent") / busy;
    let off = (guests / captured - 1.0).abs();
    assert!(off < 0.015 + stolen, "{guests} or {captured} % by guests");
}

/// Asserts that all time of every virtual CPU is counted once.
fn states_sum_to_a_hundred(state: &Value) {
    let kinds = ["interval", "summary", "all"];
    let all: Vec<&Value> = kinds.iter().flat_map(|kind| rows(state, kind)).collect();
    assert!(all.len() > 2 * GUESTS, "{} rows", all.len());
    // A quarter of an hour that began before the recording has minutes without data.
    for row in all.into_iter().filter(|row| number(row, "covered_s") > 0.0) {
        let named = row.as_object().expect("a row").iter();
        let parts = named.filter(|(name, _)| name.ends_with("_percent"));
        let parts = parts.filter(|(name, _)| *name != "states_percent");
        let sum: f64 = parts.filter_map(|(_, value)| value.as_f64()).sum();
        assert!((sum - 100.0).abs() <= 0.5, "{sum}: {row}");
        assert!((number(row, "states_percent") - 100.0).abs() <= 0.5, "{row}");
    }
    // The sums must be right even without scaling.
    let notes = state["notes"].to_string();
    assert!(!notes.contains("scaled to 100 %"), "{notes}");
}

/// Asserts that the recorded parts of the host's memory match the kernel.
fn memory_sums_to_its_total(store1: &Value) {
    let text = std::fs::read_to_string("/proc/meminfo").expect("the host's memory");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a total");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    let all = rows(store1, "interval").into_iter().chain(rows(store1, "all"));
    // A quarter of an hour may have begun before the recording. Its first minutes then have no
    // data.
    for row in all.filter(|row| number(row, "covered_s") > 0.0) {
        let total = number(row, "total_mib");
        assert!((total * 1024.0 / kib - 1.0).abs() < 0.001, "{total} MiB of {kib} KiB");
        let named = row.as_object().expect("a row").iter();
        let parts = named.filter(|(name, _)| name.ends_with("_mib") && *name != "total_mib");
        let parts: Vec<_> = parts.filter_map(|(name, mib)| Some((name, mib.as_f64()?))).collect();
        // `other` is the remainder: pages in transit between lists, and kernel memory of unknown
        // use. The remainder must be small.
        let sum: f64 = parts.iter().filter(|(name, _)| *name != "other_mib").map(|p| p.1).sum();
        println!("{sum:.0} of {total:.0} MiB have a name");
        assert!((sum / total - 1.0).abs() <= 0.02, "{sum} of {total}: {row}");
        let whole = sum + number(row, "other_mib");
        assert!((whole / total - 1.0).abs() <= 0.001, "{whole} of {total}: {row}");
    }
}

/// Asserts that the CPU times of a guest's processes, as the host counts them, add up to the
/// guest's CPU time.
fn processes_sum_to_their_guests(process: &Value, guest1: &Value, state: &Value) {
    let whole = |report, name: &str| {
        let of_guest = |row: &&Value| row["guest"] == name;
        rows(report, "summary").into_iter().find(of_guest).unwrap_or_else(|| panic!("no {name}"))
    };
    for name in BUSY {
        let got = number(whole(guest1, name), "virtual_ms_per_min") / 600.0;
        let stolen = number(whole(state, name), "cpu_wait_percent");
        let rows: Vec<&Value> =
            rows(process, "summary").into_iter().filter(|row| row["guest"] == name).collect();
        let used: f64 = rows.iter().map(|row| number(row, "cpu_percent")).sum();
        let factor = number(rows[0], "prorate_ratio");
        println!(
            "{name}: {used:.2} % of a CPU by {} processes, {got:.2} % by the host; {stolen:.1} % \
             of the time stolen, factor {factor:.3}",
            rows.len()
        );
        assert!(stolen > 33.0, "only {stolen} % of {name}'s time was stolen");
        assert!(rows.iter().all(|row| number(row, "prorate_ratio") == factor));
        assert!((used / got - 1.0).abs() <= 0.02, "{name}: {used} or {got} %");
    }
}

#[test]
fn the_numbers_of_twenty_guests_add_up() {
    let clock = Deadline::after(Duration::from_secs(600));
    let place = Place::new();
    let plans: Vec<Plan> = (1..=GUESTS).map(|number| plan(&place, number)).collect();
    let host = Host::start(&plans);
    let mut guests: Vec<Guest<'_>> = (0..GUESTS).map(|index| host.guest(index)).collect();
    println!("{GUESTS} guests are up after {:?}", clock.elapsed());
    let loads = [HOG, HOG, FILES, SWAPPING, BURSTS, BURSTS, BURSTS];
    guests.iter_mut().zip(loads).for_each(|(guest, load)| begin(guest, load));
    host.yield_to_manager();
    let monitor = format!("\n[monitor]\ndir = \"{}\"\n", place.dir().join("records").display());
    let size = Size::with_free(&host, GUESTS, 512);
    let manager = Manager::start(&place, &place.settings(&size, &monitor));
    let daemons = || {
        let ps = manager.ps();
        ps.guests.len() == GUESTS && ps.guests.iter().all(|guest| guest.daemon)
    };
    assert!(wait_until(PATIENCE, daemons).is_some(), "{}", manager.log());
    // The daemons of running guests report processes once a minute. A user may also request a
    // report.
    BUSY.iter().for_each(|guest| scan(&place, guest));
    let recorded = Deadline::after(PATIENCE);
    observe(RECORDED);
    BUSY.iter().for_each(|guest| scan(&place, guest));
    // The manager records its data every second.
    observe(Duration::from_secs(2));
    drop(manager);
    println!("recorded for {:?}, over after {:?}", recorded.elapsed(), clock.elapsed());

    let [main, state, store1, process, guest1] =
        ["MAIN", "STATE", "STORE1", "PROC", "GUEST1"].map(|name| report(&place, name));
    busy_time_has_names(&main, &guest1);
    states_sum_to_a_hundred(&state);
    memory_sums_to_its_total(&store1);
    processes_sum_to_their_guests(&process, &guest1, &state);
}
