//! Sums that must hold for any recording: random intervals with missing fields.

use model::{
    Field, Gap, GuestField as G, GuestIdentity, HostField as H, Interval, Over, ProcessField as P,
    ProcessName, Row,
};
use reports::{By, Detail, HostData, LineKind, Options, Report, Utc, build, find, testing};

struct Chance(u64);

impl Chance {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    /// Returns a small, large, absurd or missing value.
    fn value(&mut self) -> Option<u64> {
        match self.below(8) {
            0 => None,
            1 => Some(0),
            2 => Some(u64::MAX - self.below(1000)),
            3 => Some(self.below(1 << 50)),
            _ => Some(self.below(100_000_000_000)),
        }
    }

    fn row<F: Field>(&mut self) -> Row<F> {
        let mut row = Row::default();
        for field in F::ALL {
            row.set(*field, self.value());
        }
        row
    }
}

fn options(by: By) -> Options<'static> {
    Options { by, pattern: None, top: 5, detail: Detail::Each, zone: &Utc }
}

fn report(name: &str, hosts: &[HostData], by: By) -> Report {
    build(find(name).expect("a report")[0], hosts, &options(by)).expect("a report")
}

fn column(report: &Report, id: &str) -> usize {
    let fields = &report.tables[0].fields;
    fields.iter().position(|field| field.id == id).expect("a column")
}

/// Returns intervals that no host would record.
fn absurd(seed: u64) -> HostData {
    let mut chance = Chance(seed);
    let mut intervals = Vec::new();
    for turn in 0..6 {
        let length_ms = chance.below(200_000);
        let mut interval = Interval { from_ms: turn * 100_000, length_ms, ..Interval::default() };
        let covered_ms = chance.below(length_ms + 10);
        interval.host = Over { covered_ms, row: chance.row() };
        for guest in 0..chance.below(9) {
            let who = GuestIdentity {
                name: format!("g{}\u{1b}[2J<b>\"", chance.below(6)),
                class: format!("c{}", chance.below(2)),
                boot: format!("{guest}"),
                ..GuestIdentity::default()
            };
            let covered_ms = chance.below(length_ms + 1);
            interval.guests.insert(who.clone(), Over { covered_ms, row: chance.row() });
            let name = model::ProcessName { name: "=cmd|'x'!A1,\"".into(), pid: 1 };
            let process = Over { covered_ms, row: chance.row() };
            interval.processes.insert(who, [(name, process)].into());
        }
        let tier = Over { covered_ms, row: chance.row() };
        interval.tiers.insert("<i>zram\u{7}".into(), tier);
        intervals.push(interval);
    }
    HostData { name: "h&<\u{202e}".into(), intervals, ..HostData::default() }
}

#[test]
fn states_sum_to_a_hundred() {
    let mut seen = 0;
    let days = (1..200).map(absurd).chain([testing::day(20, 60)]);
    for day in days {
        for by in [By::Guest, By::Class, By::Host] {
            let report = report("STATE", std::slice::from_ref(&day), by);
            let sum = column(&report, "states_percent");
            for line in &report.tables[0].lines {
                let parts: f64 = line.values[..sum].iter().flatten().sum();
                let Some(whole) = line.values[sum] else { continue };
                assert!((whole - 100.0).abs() < 0.5 && (parts - 100.0).abs() < 0.5, "{line:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn host_memory_sums_to_its_total_with_a_small_remainder() {
    let day = [testing::day(20, 60)];
    let report = report("STORE1", &day, By::Guest);
    let (total, other) = (column(&report, "total_mib"), column(&report, "other_mib"));
    for line in &report.tables[0].lines {
        let parts: f64 = line.values[..total].iter().flatten().sum();
        let whole = line.values[total].expect("a total");
        assert!((parts - whole).abs() < whole / 100.0, "{parts} of {whole}");
        assert!(line.values[other].expect("a remainder").abs() < whole / 100.0, "{line:?}");
    }
}

#[test]
fn guests_rest_and_all_are_the_same_time() {
    let day = [testing::day(20, 60)];
    for (name, id) in [("GUEST1", "cpu_percent"), ("GIO", "read_kib_per_s")] {
        let report = report(name, &day, By::Guest);
        let column = column(&report, id);
        let of = |kind| {
            let lines = report.tables[0].lines.iter().filter(move |line| line.kind == kind);
            lines.filter_map(|line| line.values[column]).sum::<f64>()
        };
        let parts = of(LineKind::Whole) + of(LineKind::Rest);
        let all = of(LineKind::All);
        assert!((parts - all).abs() < all * 1e-6, "{name}: {parts} of {all}");
    }
}

#[test]
fn processes_sum_to_what_their_guests_got() {
    let day = [testing::day(9, 60)];
    let report = report("PROC", &day, By::Guest);
    let cpu = column(&report, "cpu_percent");
    let of = |kind| {
        let lines = report.tables[0].lines.iter().filter(move |line| line.kind == kind);
        lines.filter_map(|line| line.values[cpu]).sum::<f64>()
    };
    let mut truth = 0;
    let mut covered_ms = 0;
    for interval in &day[0].intervals {
        covered_ms += interval.host.covered_ms;
        for guest in interval.guests.values().filter(|guest| guest.get(G::OwnBusy).is_some()) {
            truth += guest.get(G::VcpuGuest).or(guest.get(G::VcpuRun)).unwrap_or(0);
        }
    }
    let truth = truth as f64 / 1e6 / covered_ms as f64 * 100.0;
    assert!((of(LineKind::All) - truth).abs() < truth / 1000.0);
    let parts = of(LineKind::Whole) + of(LineKind::Rest);
    assert!((parts - truth).abs() < truth / 50.0, "{parts} of {truth}");
}

/// A shell that starts one short command after the other has no CPU time of its own.
#[test]
fn shell_of_short_commands_is_first_and_little_is_unlisted() {
    let who = GuestIdentity { name: "g1".into(), ..GuestIdentity::default() };
    let minute = |ns: &[(P, u64)]| {
        let mut row = Row::default();
        ns.iter().for_each(|(field, ns)| row.set(*field, Some(*ns)));
        Over { covered_ms: 60_000, row }
    };
    let thread = |pid: u32| {
        let ns = [(P::User, 0), (P::System, 100_000_000), (P::Dispatches, 500)];
        (ProcessName { name: "kworker".into(), pid }, minute(&ns))
    };
    let shell = [
        (P::User, 20_000_000),
        (P::System, 0),
        (P::ChildUser, 40_000_000_000),
        (P::ChildSystem, 15_000_000_000),
        (P::Dispatches, 70),
    ];
    let shell = (ProcessName { name: "sh".into(), pid: 118 }, minute(&shell));
    let mut row = Row::default();
    row.set(G::VcpuRun, Some(56_500_000_000));
    row.set(G::OtherRun, Some(0));
    row.set(G::OwnBusy, Some(5_650));
    let interval = Interval {
        length_ms: 60_000,
        host: Over { covered_ms: 60_000, row: Row::default() },
        guests: [(who.clone(), Over { covered_ms: 60_000, row })].into(),
        processes: [(who, (1..13).map(thread).chain([shell]).collect())].into(),
        ..Interval::default()
    };
    let host = [HostData { intervals: vec![interval], ..HostData::default() }];
    for (name, table) in [("PROC", 0), ("IDLE", 1)] {
        let report = report(name, &host, By::Guest);
        let table = &report.tables[table];
        let is_cpu = |id: &str| matches!(id, "cpu_percent" | "cpu_ms_per_min");
        let cpu = table.fields.iter().position(|field| is_cpu(field.id)).expect("a column");
        let value = |kind| {
            let line = table.lines.iter().find(|line| line.kind == kind).expect("a line");
            line.values[cpu].expect("a value")
        };
        assert_eq!(table.lines[0].labels[2..], ["sh", "118"], "{name}");
        assert!(value(LineKind::Whole) > 0.95 * value(LineKind::All), "{name}");
        assert!(value(LineKind::Rest) < 0.1 * value(LineKind::All), "{name}");
    }
}

/// Guests that start within a minute are recorded for a part of the minute, and a sleeping guest
/// for a smaller part.
#[test]
fn sum_of_a_young_recording_is_that_of_its_rows() {
    let guest = |name: &str, mib: u64, covered_ms: u64| {
        let mut row = Row::default();
        row.set(G::Vcpus, Some(4));
        row.set(G::Resident, Some(mib << 20));
        row.set(G::VcpuRun, Some(1_000_000 * covered_ms));
        row.set(G::OtherRun, Some(0));
        let who = GuestIdentity { name: name.into(), ..GuestIdentity::default() };
        (who, Over { covered_ms, row })
    };
    let minute = |at: i64, guests: Vec<(GuestIdentity, Over<G>)>| Interval {
        from_ms: at * 60_000,
        length_ms: 60_000,
        host: Over { covered_ms: 60_000, row: Row::default() },
        guests: guests.into_iter().collect(),
        ..Interval::default()
    };
    let young = vec![guest("g1", 226, 50_000), guest("g2", 271, 48_000), guest("g3", 177, 10_000)];
    let host = HostData {
        intervals: vec![minute(0, Vec::new()), minute(1, young)],
        ..HostData::default()
    };
    let report = report("HDR", &[host], By::Guest);
    let table = &report.tables[2];
    let value = |kind, id: &str| {
        let column = table.fields.iter().position(|field| field.id == id).expect("a column");
        let lines = table.lines.iter().filter(|line| line.kind == kind);
        lines.filter_map(|line| line.values[column]).sum::<f64>()
    };
    for (id, sum) in [("vcpus", 12.0), ("resident_mib", 674.0)] {
        assert_eq!((value(LineKind::Whole, id), value(LineKind::All, id)), (sum, sum), "{id}");
    }
}

#[test]
fn processes_that_are_summed_as_they_come_are_the_same() {
    let day = testing::day(5, 60);
    let mut folded = HostData { name: day.name.clone(), ..HostData::default() };
    day.intervals.iter().for_each(|interval| folded.add(interval.clone()));
    assert!(folded.intervals[1..].iter().all(|interval| interval.processes.is_empty()));
    let lines = |host: &HostData, name| {
        let report = report(name, std::slice::from_ref(host), By::Guest);
        let tables = report.tables.iter();
        tables.map(|table| format!("{:?}", table.lines)).collect::<Vec<_>>()
    };
    for name in ["PROC", "IDLE"] {
        assert_eq!(lines(&day, name), lines(&folded, name));
    }
}

#[test]
fn a_class_is_the_sum_of_its_guests() {
    let day = [testing::day(12, 240)];
    let (guests, classes) = (report("GUEST1", &day, By::Guest), report("GUEST1", &day, By::Class));
    let cpu = column(&guests, "cpu_ms_per_min");
    let all = |report: &Report| {
        let mut lines = report.tables[0].lines.iter();
        lines.find(|line| line.kind == LineKind::All).and_then(|line| line.values[cpu])
    };
    let lines = classes.tables[0].lines.iter().filter(|line| line.kind == LineKind::Whole);
    let sum: f64 = lines.filter_map(|line| line.values[cpu]).sum();
    assert_eq!(all(&guests), all(&classes));
    assert!((sum - all(&classes).expect("a sum")).abs() < sum * 1e-6);
}

#[test]
fn guests_that_come_one_after_the_other_are_not_counted_twice() {
    let one = |turn: i64| {
        let who = GuestIdentity { name: format!("g{turn}"), ..GuestIdentity::default() };
        let mut row = Row::default();
        row.set(G::VcpuRun, Some(30_000_000_000));
        row.set(G::OtherRun, Some(0));
        let mut host = Row::default();
        host.set(H::Cpus, Some(1));
        let over = Over { covered_ms: 60_000, row };
        Interval {
            from_ms: turn * 60_000,
            length_ms: 60_000,
            host: Over { covered_ms: 60_000, row: host },
            guests: [(who, over)].into(),
            ..Interval::default()
        }
    };
    let host = HostData { intervals: vec![one(0), one(1)], ..HostData::default() };
    let report = report("GUEST1", &[host], By::Guest);
    let cpu = column(&report, "cpu_percent");
    let mut all = report.tables[0].lines.iter().filter(|line| line.kind == LineKind::All);
    assert_eq!(all.next().and_then(|line| line.values[cpu]), Some(50.0));
}

/// Returns a minute of runs of the guest `g`: for each its UUID, and its covered seconds.
fn minute(turn: i64, runs: &[(&str, u64)]) -> Interval {
    let mut interval =
        Interval { from_ms: turn * 60_000, length_ms: 60_000, ..Interval::default() };
    interval.host.covered_ms = 60_000;
    for (uuid, seconds) in runs {
        let who =
            GuestIdentity { uuid: (*uuid).into(), name: "g".into(), ..GuestIdentity::default() };
        let mut guest = Over { covered_ms: seconds * 1_000, ..Over::default() };
        guest.row.set(G::VcpuRun, Some(seconds * 500_000_000));
        guest.row.set(G::OtherRun, Some(0));
        interval.guests.insert(who.clone(), guest);
        let mut process = Over { covered_ms: seconds * 1_000, ..Over::default() };
        process.row.set(P::User, Some(seconds * 100_000_000));
        process.row.set(P::System, Some(0));
        process.row.set(P::Count, Some(2));
        let name = ProcessName { name: "sh".into(), pid: 0 };
        interval.processes.insert(who, [(name, process)].into());
    }
    interval
}

/// Returns the names in the rows of single guests, and their values of a column.
fn rows_of(name: &str, id: &str, intervals: Vec<Interval>) -> Vec<(String, Option<f64>)> {
    let report = report(name, &[HostData { intervals, ..HostData::default() }], By::Guest);
    let column = column(&report, id);
    let lines = report.tables[0].lines.iter().filter(|line| line.kind == LineKind::Whole);
    lines.map(|line| (line.labels[1].clone(), line.values[column])).collect()
}

#[test]
fn a_guest_that_was_started_again_has_one_row() {
    let minutes = || {
        vec![
            minute(0, &[("7", 60)]),
            minute(1, &[("7", 20), ("3", 40)]),
            minute(2, &[("3", 30), ("5", 10)]),
        ]
    };
    let one = |value: Option<f64>| [("g".to_owned(), value)];
    assert_eq!(rows_of("GUEST1", "cpu_percent", minutes()), one(Some(50.0)));
    assert_eq!(rows_of("PROC", "processes", minutes()), one(Some(2.0)));
}

#[test]
fn guests_of_one_name_at_the_same_time_have_a_row_each() {
    let together = vec![minute(0, &[("7", 60), ("3", 60)])];
    assert_eq!(rows_of("GUEST1", "cpu_percent", together).len(), 2);
    // Each of them is seldom reported, but they take turns more than once.
    let mixed = [("7", 10), ("3", 10), ("7", 10)];
    let mixed: Vec<Interval> =
        mixed.into_iter().zip(0..).map(|(run, turn)| minute(turn, &[run])).collect();
    assert_eq!(rows_of("GUEST1", "cpu_percent", mixed).len(), 2);
}

#[test]
fn absurd_recordings_do_not_break_any_report_format() {
    for seed in 1..12 {
        let day = [absurd(seed), absurd(seed + 1000)];
        for definition in reports::REPORTS {
            for by in [By::Guest, By::Class, By::Host] {
                let report = report(definition.name, &day, by);
                let text = reports::text(&report, &Utc, 80);
                let csv = reports::csv(&report, &Utc);
                let json = reports::json(&report, &Utc);
                let html = reports::html(&report, &Utc);
                let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\r');
                for printed in [&text, &csv, &json, &html] {
                    assert!(!printed.contains(is_obeyed) && !printed.contains('\u{202e}'));
                    assert!(!printed.contains("NaN") && !printed.contains("inf"), "{printed}");
                }
                assert!(!html.contains("<b>\"") && !html.contains("<i>zram"));
                assert!(!csv.contains("\n=") && !csv.contains(",=") && !csv.contains(",\"="));
            }
        }
    }
}

#[test]
fn empty_recording_is_reported_as_not_recorded() {
    for definition in reports::REPORTS {
        let host = HostData { name: "h".into(), ..HostData::default() };
        let text = reports::text(&report(definition.name, &[host], By::Guest), &Utc, 80);
        assert!(text.lines().count() < 12, "{text}");
        assert!(text.contains("recorded") || text.contains("No rule"), "{text}");
    }
}

/// The host is recorded from the start of its manager, and its guests are recorded once they are
/// found.
#[test]
fn an_interval_before_the_first_guest_tells_nothing_of_guests() {
    let mut day = testing::day(3, 4);
    day.intervals[0].guests.clear();
    for name in ["STATE", "GUEST1"] {
        let report = report(name, std::slice::from_ref(&day), By::Guest);
        let of_all = report.tables[0].lines.iter().filter(|line| line.kind == LineKind::Interval);
        let covered: Vec<u64> = of_all.map(|line| line.covered_ms).collect();
        assert_eq!(covered[0], 0, "{name}: {covered:?}");
        assert!(covered[1..].iter().all(|covered_ms| *covered_ms > 0), "{name}: {covered:?}");
    }
}

#[test]
fn incomplete_newest_row_is_named_and_no_gap_without_length() {
    let mut host = testing::day(2, 3);
    let last = host.intervals.last_mut().expect("a minute");
    (last.length_ms, last.host.covered_ms) = (17_000, 17_000);
    let gap = |from_ms: i64, to_ms: i64| Gap { from_ms, to_ms, reason: "restart".into() };
    let from_ms = host.intervals[0].from_ms;
    host.gaps = vec![gap(from_ms, from_ms + 300), gap(from_ms + 2_000, from_ms + 35_000)];
    let report = report("MAIN", &[host], By::Guest);
    let newest = "The newest row covers only 17 s: its interval is incomplete.";
    assert!(report.notes.iter().any(|note| note == newest), "{:?}", report.notes);
    let starts: Vec<i64> = report.hosts[0].gaps.iter().map(|gap| gap.from_ms).collect();
    assert!(starts.contains(&(from_ms + 2_000)) && !starts.contains(&from_ms), "{starts:?}");
}
