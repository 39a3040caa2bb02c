use super::*;

/// Returns a recording of a minute. One guest works more each second. Two idle guests, and a
/// process of the working guest, are reported every 30 s.
fn recording() -> Vec<Moment> {
    let who = |name: &str| GuestIdentity {
        name: name.into(),
        class: name.into(),
        ..GuestIdentity::default()
    };
    let row = |run: u64, resident: u64| {
        let mut row = Row::default();
        row.set(G::VcpuRun, Some(run));
        row.set(G::Resident, Some(resident));
        row
    };
    let name = ProcessName { name: "worker".into(), pid: 7 };
    let process = |run: u64| {
        let mut row = Row::default();
        row.set(ProcessField::Run, Some(run));
        [(name.clone(), row)].into()
    };
    (0..=60)
        .map(|second: u64| {
            let mut moment = Moment { at_ms: 5_000 + second as i64 * 1_000, ..Moment::default() };
            moment.host.set(H::Cpus, Some(2));
            moment.host.set(H::User, Some(100 * second));
            let worked = second * second * 1_000;
            moment.guests.insert(who("worker"), row(worked, 500 + second));
            if second.is_multiple_of(30) {
                moment.guests.insert(who("asleep"), row(7 + second, 100));
                moment.guests.insert(who("idle"), row(3, 100));
                moment.processes.insert(who("worker"), process(worked));
            }
            moment
        })
        .collect()
}

/// Returns the day's moments up to a time, a step apart.
fn made(guests: usize, step_ms: i64, to_ms: i64) -> Vec<Moment> {
    let mut day = Day::new(&recording(), guests, 0).expect("enough to follow");
    (1..=to_ms / step_ms).map(|number| day.at(number * step_ms)).collect()
}

fn run(moment: &Moment, number: usize) -> Option<u64> {
    let name = format!("lnx{number:03}");
    let found = moment.guests.iter().find(|(who, _)| who.name == name);
    found.and_then(|(_, row)| row.get(G::VcpuRun))
}

#[test]
fn a_guest_grows_as_the_one_it_follows() {
    // Guest 20 always works and follows the busy guest. In ten minutes it repeats the recording ten
    // times. Each repetition adds 60 * 60 * 1000, except the one that the starting position cuts
    // off.
    let moments = made(21, 1_000, 600_000);
    let first = run(&moments[0], 20).expect("guest 20 works");
    let last = run(&moments[599], 20).expect("guest 20 works");
    assert!((30_000_000..=36_000_000).contains(&(last - first)), "{first} {last}");
    let all: Vec<u64> = moments.iter().filter_map(|moment| run(moment, 20)).collect();
    assert!(all.is_sorted() && all.len() == 600);
}

#[test]
fn steps_do_not_change_what_is_counted() {
    let (fine, coarse) = (made(21, 1_000, 3_600_000), made(21, 10_000, 3_600_000));
    let last = |moments: &[Moment]| run(&moments[moments.len() - 1], 20);
    // Both days begin where the first step ends, so they differ by less than ten seconds of work.
    let (fine, coarse) =
        (last(&fine).expect("it is reported"), last(&coarse).expect("it is reported"));
    assert!(fine.abs_diff(coarse) < 10 * 120_000, "{fine} {coarse}");
}

#[test]
fn host_counts_its_guests_run_time_in_the_same_moment() {
    let mut runs: BTreeMap<String, u64> = BTreeMap::new();
    let (mut own, mut before) = (0, None);
    // The recorded host counts 100 of its own in each second.
    for moment in made(21, 1_000, 50_000) {
        for (who, row) in &moment.guests {
            let now = row.get(G::VcpuRun).expect("it counts");
            own += runs.insert(who.name.clone(), now).map_or(0, |before| now - before);
        }
        let user = moment.host.get(H::User).expect("it counts");
        if let Some(before) = before.replace(user) {
            assert_eq!(user - before, 100 + std::mem::take(&mut own), "at {}", moment.at_ms);
        }
    }
    assert!(runs["lnx020"] > 0);
}

#[test]
fn sleeping_guest_reports_each_minute_and_works_in_its_hours() {
    let hours = made(9, 1_000, 24 * 3_600_000);
    let reported = |number: usize, hour: usize| {
        let of_hour = &hours[hour * 3_600..(hour + 1) * 3_600 - 1];
        of_hour.iter().filter(|moment| run(moment, number).is_some()).count()
    };
    for number in 0..9 {
        let counts: Vec<usize> = (0..24).map(|hour| reported(number, hour)).collect();
        assert!(counts.iter().all(|count| *count >= 60), "{number}: {counts:?}");
        let works = counts.iter().filter(|count| **count > 3_000).count();
        assert!(works <= 9, "{number}: {counts:?}");
    }
    // Guest 2 follows the busy guest in the hours of its class.
    assert!((0..24).any(|hour| reported(2, hour) > 3_000));
}

#[test]
fn processes_grow_and_are_reported_when_they_were_recorded() {
    let moments = made(21, 1_000, 600_000);
    let runs: Vec<u64> = moments
        .iter()
        .flat_map(|moment| moment.processes.iter())
        .filter(|(who, _)| who.name == "lnx020")
        .filter_map(|(_, processes)| processes.values().next()?.get(ProcessField::Run))
        .collect();
    assert!(runs.is_sorted() && (19..=31).contains(&runs.len()), "{runs:?}");
    assert!(runs.last() > runs.first());
}

#[test]
fn a_host_without_guests_is_no_day() {
    assert!(Day::new(&[], 10, 0).is_none());
    assert!(Day::new(&recording()[..1], 10, 0).is_none());
}
