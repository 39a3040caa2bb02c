use super::*;
use crate::args::Format;
use crate::listing::testing::{WIDTHS, check_fits};
use jiff::tz::TimeZone;
use model::Row;
use whatif::Move;

fn answer(plan: Plan) -> Answer {
    let steps = Steps { from_ms: 0, to_ms: 3_600_000, step_ms: 60_000 };
    let host = |available: u64, last_ms| {
        let mut row = Row::default();
        row.extend([
            (H::Cpus, Some(2)),
            (H::User, Some(1_800_000_000_000)),
            (H::System, Some(0)),
            (H::Spare, Some(available << 20)),
            (H::SetPoint, Some(512 << 20)),
        ]);
        let over = Over { covered_ms: 3_600_000, row };
        Host { last_ms, samples: 720.0, guests: 3, over, ..Host::default() }
    };
    let hosts = vec![
        shown("b".into(), host(4_000, 0), steps),
        shown("a".into(), host(100, 3_600_000), steps),
    ];
    Answer { hosts, plan, steps }
}

fn text(plan: Plan) -> String {
    text_in(None, plan)
}

fn text_in(width: Option<usize>, plan: Plan) -> String {
    let args =
        FleetArgs { command: None, from: None, last: "1h".into(), moves: 5, format: Format::Text };
    let now = Now { ms: 3_600_000, zone: TimeZone::UTC };
    show::show(&answer(plan), &args, &now, width).unwrap()
}

#[test]
fn hosts_and_moves_fit_every_width() {
    let names = |count: usize| (0..count).map(|n| format!("h{n}")).collect::<Vec<_>>();
    let plan = || Plan {
        moves: vec![one()],
        stuck: vec!["c".into()],
        later: names(3),
        unknown: names(12),
    };
    for width in WIDTHS {
        let shown = text_in(Some(width), plan());
        let (command, fitted): (Vec<&str>, Vec<&str>) =
            shown.lines().partition(|line| line.starts_with("   virsh --connect "));
        assert_eq!(command.len(), 1, "{shown}");
        let why = "g7; reboot needed at most 300 MiB in that time.";
        check_fits(&fitted.join("\n"), width, [why]);
    }
    let hidden = "not shown in 80 columns: CPU%, LOUDEST";
    assert!(text_in(Some(80), plan()).contains(hidden), "{}", text_in(Some(80), plan()));
}

fn one() -> Move {
    Move {
        guest: "g7; reboot".into(),
        uuid: "00000000-0000-0000-0000-000000000000".into(),
        from: "a".into(),
        to: "b".into(),
        needs: Bytes::mib(300),
        from_had: Bytes::mib(100),
        from_gets: Bytes::mib(600),
        from_set_point: Bytes::mib(512),
        to_keeps: Bytes::mib(3_072),
        to_set_point: Bytes::mib(512),
    }
}

#[test]
fn a_move_is_told_with_its_command_and_its_reason() {
    let told = text(Plan { moves: vec![one()], stuck: vec!["c".into()], ..Plan::default() });
    assert!(told.contains("HOST  STATE"), "{told}");
    assert!(told.contains("b     silent since 1970-01-01 00:00"), "{told}");
    assert!(
        told.contains(
            "1. g7; reboot from a to b: b keeps 3.0 GiB available, and a comes back above its set \
             point of 512 MiB (600 MiB available instead of 100).\n   g7; reboot needed at most \
             300 MiB in that time.\n"
        ),
        "{told}"
    );
    assert!(
        told.contains(
            "virsh --connect qemu+ssh://a/system migrate --live --persistent --undefinesource \
             --domain 'g7; reboot' --desturi qemu+ssh://b/system\n"
        ),
        "{told}"
    );
    assert!(told.contains("c is short of memory, and no host has room for"), "{told}");
    let names = |count: usize| (0..count).map(|n| format!("h{n}")).collect::<Vec<_>>();
    let told = text(Plan { later: names(2), unknown: names(12), ..Plan::default() });
    assert!(told.contains("2 more hosts short of memory, but without a plan: h0, h1."), "{told}");
    assert!(told.contains("Too little data of 12 hosts: h0, h1,"), "{told}");
    assert!(told.contains(" and 2 more.") && !told.contains("No guest needs"), "{told}");
    let told = text(Plan { later: names(1), unknown: names(1), ..Plan::default() });
    assert!(told.contains("1 more host short") && told.contains("data of 1 host: h0"), "{told}");
    // A host chooses its own name, which may be malicious.
    let odd = Move { from: "b/system?command=/tmp/x&x=".into(), ..one() };
    let told = text(Plan { moves: vec![odd], ..Plan::default() });
    assert!(!told.contains("virsh") && told.contains("is not a host name"), "{told}");
    let known = Move { uuid: "12345678-0000-4000-8000-000000000001".into(), ..one() };
    let told = text(Plan { moves: vec![known], ..Plan::default() });
    assert!(told.contains("--domain 12345678-0000-4000-8000-000000000001"), "{told}");
    assert!(text(Plan::default()).contains("No guest needs to move"));
}

#[test]
fn a_guest_is_its_needs_and_what_it_held_step_by_step() {
    let steps = Steps { from_ms: 0, to_ms: 120_000, step_ms: 60_000 };
    let over = |actual: u64, available: u64, private: u64| {
        let mut row = Row::default();
        row.extend([
            (G::Actual, Some(actual << 20)),
            (G::OwnAvailable, Some(available << 20)),
            (G::Private, Some(private << 20)),
            (G::VcpuRun, Some(30_000_000_000)),
        ]);
        Over { covered_ms: 60_000, row }
    };
    let who = GuestIdentity { name: "g".into(), ..GuestIdentity::default() };
    let line = vec![over(256, 200, 90), Over::default(), over(256, 100, 170)];
    let found = tenants(&[(who, line)].into(), steps);
    assert_eq!(found.len(), 1);
    let mib = |mib: u64| Some(Bytes::mib(mib));
    assert_eq!(found[0].needs, [mib(56), None, mib(156)]);
    assert_eq!(found[0].holds, [mib(90), None, mib(170)]);
    assert_eq!(found[0].cpus_permille, 500);
}
