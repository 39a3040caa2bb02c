//! Golden files of every report over a generated day. `UPDATE_GOLDEN=1 cargo test -p reports`
//! writes the files again; read the difference before you keep it.

use model::GuestIdentity;
use reports::{By, Detail, HostData, Options, Pattern, REPORTS, Report, Utc, build, testing};
use std::path::{Path, PathBuf};

/// Terminal width that reports keep to.
const WIDTH: usize = 80;

fn options(by: By, detail: Detail) -> Options<'static> {
    Options { by, pattern: None, top: 8, detail, zone: &Utc }
}

fn report(name: &str, hosts: &[HostData], options: &Options<'_>) -> Report {
    let definition = reports::find(name).expect("a report")[0];
    build(definition, hosts, options).expect("a report")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Compares the output with the golden file, or writes the file.
fn check(name: &str, printed: &str) {
    let path = path(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(&path, printed).expect("written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if kept == printed {
        return;
    }
    let lines = kept.lines().zip(printed.lines());
    let first = lines.zip(1..).find(|((kept, printed), _)| kept != printed);
    panic!("{}: differs, first at {first:?}", path.display());
}

#[test]
fn every_report_as_text() {
    let day = [testing::day(12, 120)];
    for definition in REPORTS {
        let report = report(definition.name, &day, &options(By::Guest, Detail::Sums));
        let text = reports::text(&report, &Utc, WIDTH);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", definition.name);
            assert_eq!(line.trim_end(), line);
        }
        check(&format!("{}.txt", definition.name), &text);
    }
}

#[test]
fn report_has_its_numbers_below_each_other_after_wide_letters() {
    let mut day = testing::day(2, 120);
    for interval in &mut day.intervals {
        let guests = std::mem::take(&mut interval.guests).into_iter().zip(["网页1", "a"]);
        let renamed =
            guests.map(|((who, row), name)| (GuestIdentity { name: name.into(), ..who }, row));
        interval.guests = renamed.collect();
    }
    let report = report("GUEST1", &[day], &options(By::Guest, Detail::Sums));
    let text = reports::text(&report, &Utc, WIDTH);
    let end = |name: &str| text.lines().find(|line| line.starts_with(name)).map(base::columns);
    assert_eq!(end("网页1"), end("a "), "{text}");
}

#[test]
fn newest_interval_is_first_for_people_and_last_for_programs() {
    let day = [testing::day(2, 480)];
    let report = report("GUEST1", &day, &options(By::Guest, Detail::Sums));
    let order = |printed: &str, marks: [&str; 3]| {
        marks.map(|mark| printed.find(mark).unwrap_or_else(|| panic!("no {mark}: {printed}")))
    };
    let text = reports::text(&report, &Utc, WIDTH);
    assert!(order(&text, ["\n16:00 ", "\n08:00 ", "\n00:00 "]).is_sorted(), "{text}");
    let page = reports::html(&report, &Utc);
    let times = ["label\">16:00</th", "label\">08:00</th", "label\">00:00</th"];
    assert!(order(&page, times).is_sorted(), "{page}");
    let times = ["T00:00:00Z,2026-11-21T08", "T08:00:00Z,2026-11-21T16", "T16:00:00Z,2026-11-22"];
    let csv = reports::csv(&report, &Utc);
    assert!(order(&csv, times).is_sorted(), "{csv}");
}

#[test]
fn every_report_as_csv_and_json() {
    let day = [testing::day(4, 480)];
    for definition in REPORTS {
        let report = report(definition.name, &day, &options(By::Guest, Detail::Each));
        check(&format!("{}.csv", definition.name), &reports::csv(&report, &Utc));
        check(&format!("{}.json", definition.name), &reports::json(&report, &Utc));
    }
}

#[test]
fn every_report_as_a_page() {
    let day = [testing::day(4, 240)];
    for definition in REPORTS {
        let report = report(definition.name, &day, &options(By::Guest, Detail::Sums));
        let page = reports::html(&report, &Utc);
        // The page loads nothing, runs nothing, and every chart has a title.
        for absent in ["<script", "http:", "https:", "url(", "src=", "href="] {
            assert!(!page.contains(absent), "{}: {absent}", definition.name);
        }
        assert_eq!(page.matches("role=\"img\"").count(), page.matches("<title id=").count());
        // A picture that is scaled as a whole has small labels on a phone.
        let mut pictures = page.split("<svg").skip(1).filter_map(|part| part.split('>').next());
        assert!(!pictures.any(|tag| tag.contains("role=") && tag.contains("viewBox")));
        check(&format!("{}.html", definition.name), &page);
    }
}

#[test]
fn classes_hosts_and_patterns() {
    let day = [testing::day(12, 240)];
    let by_class = report("GUEST1", &day, &options(By::Class, Detail::Sums));
    check("GUEST1-class.txt", &reports::text(&by_class, &Utc, WIDTH));
    let by_class = report("PROC", &day, &options(By::Class, Detail::Sums));
    check("PROC-class.txt", &reports::text(&by_class, &Utc, WIDTH));
    let pattern = Pattern::new("LNX100*").expect("a pattern");
    let few = Options { pattern: Some(&pattern), ..options(By::Host, Detail::Sums) };
    check("STATE-host.txt", &reports::text(&report("STATE", &day, &few), &Utc, WIDTH));
}

#[test]
fn three_hosts_in_one_report() {
    let hosts: Vec<HostData> = ["lab1", "lab2", "lab3"]
        .iter()
        .zip([3, 5, 2])
        .map(|(name, guests)| HostData { name: (*name).into(), ..testing::day(guests, 480) })
        .collect();
    for (name, by) in [("MAIN", By::Guest), ("GUEST1", By::Guest), ("STATE", By::Host)] {
        let report = report(name, &hosts, &options(by, Detail::Sums));
        check(&format!("{name}-hosts.txt"), &reports::text(&report, &Utc, 100));
    }
}
