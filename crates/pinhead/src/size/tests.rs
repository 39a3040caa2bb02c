use super::*;
use crate::listing::testing::check_widths;
use crate::manage::SocketArg;
use crate::terminal::testing::on_terminal;
use base::duration;
use clap::Parser;
use jiff::tz::TimeZone;
use model::{GuestField as G, GuestIdentity, HostField, Moment, Row};
use std::path::Path;
use store::{Keep, Recorder};
use vm::Scratch;
use whatif::Source;

const BEGIN_MS: i64 = 1_795_500_000_000;

fn now(minutes: i64) -> Now {
    Now { ms: BEGIN_MS + minutes * duration::MINUTE_MS, zone: TimeZone::UTC }
}

fn args(dir: &Path, typed: &[&str]) -> SizeArgs {
    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        args: SizeArgs,
    }
    let dir = dir.to_string_lossy().into_owned();
    let words = [["pinhead", "--dir", dir.as_str()].as_slice(), typed].concat();
    Typed::try_parse_from(words).unwrap().args
}

/// Records a number of minutes of guests of 256 MiB. Each guest needs the given memory in MiB.
fn record(dir: &Path, minutes: i64, guests: &[(&str, u64)]) {
    record_with_ends(dir, minutes, &guests.iter().map(|one| (*one, minutes)).collect::<Vec<_>>());
}

/// Records guests of which each ends after a number of minutes.
fn record_with_ends(dir: &Path, minutes: i64, guests: &[((&str, u64), i64)]) {
    let mut recorder = Recorder::new(dir, Keep::USUAL);
    for at in 0..=minutes * 6 {
        let mut host = Row::default();
        host.set(HostField::Total, Some(8 << 30));
        let mut moment = Moment { at_ms: BEGIN_MS + at * 10_000, host, ..Moment::default() };
        for ((name, need), _) in guests.iter().filter(|(_, end)| at <= end * 6) {
            let mut row = Row::default();
            row.extend([
                (G::Memory, Some(256 << 20)),
                (G::Actual, Some(256 << 20)),
                (G::Vcpus, Some(2)),
                (G::OwnAvailable, Some((256 - need) << 20)),
                (G::VcpuRun, Some(at.unsigned_abs() * 5_000_000_000)),
            ]);
            let who = GuestIdentity { name: (*name).into(), ..GuestIdentity::default() };
            moment.guests.insert(who, row);
        }
        let _ = recorder.record(&moment);
    }
    recorder.close().unwrap();
}

#[test]
fn guests_are_sized_by_what_was_recorded_of_them() {
    let dir = Scratch::new("sized").unwrap();
    record(dir.path(), 240, &[("web1", 100), ("web2", 200), ("db", 60)]);
    let typed = args(dir.path(), &["web*"]);
    let answer = answer(&typed, &now(240)).unwrap();
    let text = show::show(&answer, SizeFormat::Text, &now(240)).unwrap();
    assert!(text.contains("\nweb1   256   112    96  120  100     1   2     100"), "{text}");
    assert!(text.contains("\nweb2   256   220"), "{text}");
    assert!(!text.contains("\ndb "), "{text}");
    assert!(
        text.contains(
            "add up to 332 MiB. At any one time all guests together needed at most 332 MiB"
        ),
        "{text}"
    );
    let krr = text.lines().find(|line| line.starts_with("krr ")).unwrap();
    assert_eq!(krr.split_whitespace().collect::<Vec<_>>(), ["krr", "348", "13.7", "0", "0"]);
    let csv = show::show(&answer, SizeFormat::Csv, &now(240)).unwrap();
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.lines().nth(1).unwrap().starts_with("web1,,,too large,1"), "{csv}");
    let json = show::show(&answer, SizeFormat::Json, &now(240)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["guests"][1]["memory_bytes"]["size"], 220u64 << 20);
    assert_eq!(json["rules"][0]["rule"], "pinhead");
}

#[test]
fn sizes_fit_every_width() {
    let dir = Scratch::new("widths").unwrap();
    let long = "a-guest-with-a-name-that-fills-a-terminal";
    record_with_ends(
        dir.path(),
        240,
        &[((long, 100), 240), (("web2", 200), 240), (("old", 9), 60)],
    );
    let enough = answer(&args(dir.path(), &[]), &now(240)).unwrap();
    let young = answer(&args(dir.path(), &["--enough", "1d"]), &now(240)).unwrap();
    for found in [enough, young] {
        let shown = || show::show(&found, SizeFormat::Text, &now(240)).unwrap();
        check_widths(|width| on_terminal(width, shown));
    }
}

#[test]
fn guest_that_ended_has_no_size() {
    let dir = Scratch::new("ended").unwrap();
    record_with_ends(dir.path(), 240, &[(("web1", 100), 240), (("old", 200), 120)]);
    let found = answer(&args(dir.path(), &[]), &now(240)).unwrap();
    let text = show::show(&found, SizeFormat::Text, &now(240)).unwrap();
    assert!(text.contains("\nweb1") && !text.contains("\nold"), "{text}");
    assert!(text.contains("Left out: 1 guest no longer ran at the end.\n"), "{text}");
    assert!(text.contains("The sizes of all guests add up to 112 MiB."), "{text}");
    let csv = show::show(&found, SizeFormat::Csv, &now(240)).unwrap();
    assert!(csv.lines().count() == 2 && !csv.contains("old,"), "{csv}");
}

/// The present is a month after the end of the recordings.
#[test]
fn old_recordings_are_sized_by_their_last_time() {
    let dir = Scratch::new("old").unwrap();
    record(dir.path(), 240, &[("web1", 100)]);
    let typed = args(dir.path(), &[]);
    let text = |now: &Now| {
        show::show(&answer(&typed, now).unwrap(), SizeFormat::Text, &self::now(240)).unwrap()
    };
    assert_eq!(text(&now(240 + 30 * 24 * 60)), text(&now(240)));
    assert!(text(&now(240)).contains("\nweb1"), "{}", text(&now(240)));
}

#[test]
fn directory_above_the_recordings_is_refused_with_their_place() {
    let dir = Scratch::new("above").unwrap();
    let below = dir.join("recordings");
    std::fs::create_dir(&below).unwrap();
    record(&below, 240, &[("web1", 100)]);
    let error = answer(&args(dir.path(), &[]), &now(240)).unwrap_err().to_string();
    assert!(error.contains(&format!("are in {}", below.display())), "{error}");
}

#[test]
fn impossible_size_question_is_refused_with_reason() {
    let dir = Scratch::new("refused").unwrap();
    record(dir.path(), 10, &[("web1", 100)]);
    let refused =
        |typed: &[&str]| answer(&args(dir.path(), typed), &now(10)).unwrap_err().to_string();
    assert!(refused(&["wep1"]).contains("did you mean web1?"), "{}", refused(&["wep1"]));
    assert!(refused(&["--from", "2026-11-25", "--to", "2026-11-24"]).contains("--from is after"));
    assert!(refused(&["--from", "2020-01-01"]).contains("longer than the maximum of 200 days"));
    assert!(refused(&["--from", "2026-01-01", "--to", "2026-01-02"]).contains("No guest"));
    let short = answer(&args(dir.path(), &[]), &now(10)).unwrap();
    let none = Sources::default();
    let error = apply::apply(&short, Apply::Virsh, &none, &SocketArg { socket: None }).unwrap_err();
    assert!(error.to_string().contains("--enough"), "{error}");
    let text = show::show(&short, SizeFormat::Text, &now(10)).unwrap();
    assert_eq!(
        text,
        "No sizes yet: 1 of 1 guest reported for 10 min at most; at least 1 h is needed (set by \
         --enough).\n"
    );
}

#[test]
fn sizes_become_settings_of_those_who_are_known_for_long_enough() {
    let dir = Scratch::new("settings").unwrap();
    record(dir.path(), 200, &[("web1", 100)]);
    let answer = answer(&args(dir.path(), &["--enough", "1h"]), &now(200)).unwrap();
    let none = Sources::default();
    let text = apply::apply(&answer, Apply::Settings, &none, &SocketArg { socket: None }).unwrap();
    let block = "[[class]]\nname = \"web1\"\nmatch = [\"web1\"]\nmin = \"100 MiB\"\n\
                 max = \"112 MiB\"\nshares = 100\n";
    assert!(text.contains(block), "{text}");
}

#[test]
fn virsh_commands_are_for_guests_of_libvirt_only() {
    let dir = Scratch::new("virsh").unwrap();
    record(dir.path(), 200, &[("vm1", 100), ("g1", 100)]);
    let answer = answer(&args(dir.path(), &[]), &now(200)).unwrap();
    let socket = SocketArg { socket: None };
    let applied = |of: &[(&str, Source)]| {
        let sources: Sources = of.iter().map(|(name, of)| ((*name).to_owned(), *of)).collect();
        apply::apply(&answer, Apply::Virsh, &sources, &socket)
    };
    let text = applied(&[("vm1", Source::Libvirt), ("g1", Source::Farm)]).unwrap();
    assert!(text.contains("--domain vm1 ") && !text.contains("--domain g1 "), "{text}");
    assert!(text.ends_with("# Left out: 1 guest not of libvirt\n"), "{text}");
    let error = applied(&[("vm1", Source::Other), ("g1", Source::Farm)]).unwrap_err();
    assert!(error.to_string().contains("--apply manager"), "{error}");
}
