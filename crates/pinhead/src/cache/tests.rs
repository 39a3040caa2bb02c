//! Tests of refresh, removal and messages.

use super::*;
use crate::listing::testing::{WIDTHS, check_fits};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use vm::images::{self, OLD_S, Record};

const NOW_S: u64 = 1_795_000_000;

fn part(kind: Kind, name: &str, made_s: u64, used_s: u64, is_current: bool) -> Part {
    Part {
        kind,
        name: name.to_owned(),
        arch: images::Arch::host(),
        path: PathBuf::from("/c").join(name),
        with: Vec::new(),
        bytes: 3 << 20,
        record: Record { made_s, packages: Vec::new() },
        used_s,
        is_current,
    }
}

/// A directory with a cache and a /proc, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path =
            std::env::temp_dir().join(format!("pinhead-cache-{name}-{}", std::process::id()));
        Place(images::create_dir(&path).expect("a directory"))
    }

    fn file(&self, path: &str, content: &str) -> PathBuf {
        let path = self.0.join(path);
        images::create_dir(path.parent().expect("a directory")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn args(names: &[&str], older_than_s: u64) -> RefreshArgs {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    RefreshArgs { names, older_than_s, format: Format::Text }
}

#[test]
fn old_and_named_parts_are_refreshed() {
    let parts = [
        part(Kind::Packages, "x86_64", NOW_S - 2, NOW_S, true),
        part(Kind::Packages, "x86_64-web", NOW_S - 200, NOW_S, true),
        part(Kind::Disk, "debian-nginx", NOW_S - 200, NOW_S, true),
        part(Kind::Disk, "debian-app-0.img", NOW_S - 200, NOW_S, false),
        part(Kind::Boot, "1.cpio", NOW_S - 200, NOW_S, true),
    ];
    let (web, nginx) = (Wanted::Packages("x86_64-web".into()), Wanted::Disk(Software::Nginx));
    assert_eq!(wanted(&parts, &args(&[], 100), NOW_S).unwrap(), [web, nginx]);
    assert_eq!(wanted(&parts, &args(&[], 300), NOW_S).unwrap(), []);
    let named = wanted(&parts, &args(&["debian-app", "x86_64"], 0), NOW_S).unwrap();
    assert_eq!(named, [Wanted::Packages("x86_64".into()), Wanted::Disk(Software::App)]);
    for (name, hint) in [("debian-ngnix", "did you mean debian-nginx?"), ("1.cpio", "cache list")] {
        let error = wanted(&parts, &args(&[name], 0), NOW_S).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn parts_needed_again_or_in_use_are_not_removed() {
    let long_ago = NOW_S - UNUSED_S - 1;
    let kept = |kind, used_s, is_current| is_kept(&part(kind, "x", 0, used_s, is_current), NOW_S);
    assert!(kept(Kind::Packages, 0, true) && kept(Kind::Hang, 0, true));
    assert!(kept(Kind::Disk, 0, true) && !kept(Kind::Disk, NOW_S, false));
    assert!(kept(Kind::Boot, NOW_S, true) && !kept(Kind::Boot, long_ago, true));
    assert!(kept(Kind::Left, NOW_S - 60, false) && !kept(Kind::Left, long_ago, false));

    let place = Place::new("use");
    let cache = |name: &str| place.file(&format!("cache/{name}"), "x");
    let (opened, mapped, named) = (cache("a/open"), cache("b"), cache("c"));
    let _ = fs::create_dir_all(place.0.join("proc/7/fd"));
    symlink(&opened, place.0.join("proc/7/fd/3")).unwrap();
    symlink("/dev/null", place.0.join("proc/7/fd/0")).unwrap();
    place.file("proc/7/maps", &format!("7f-80 r--p 0 fe:00 12      {}\n", mapped.display()));
    place.file("proc/8/cmdline", &format!("qemu\0-drive\0id=d,file={},x\0", named.display()));
    place.file("proc/self/cmdline", &place.0.join("cache/d").display().to_string());
    let found = in_use::below(&place.0.join("cache"), &place.0.join("proc"));
    for (name, used) in [("a", true), ("b", true), ("c", true), ("d", false), ("a/op", false)] {
        let mut part = part(Kind::Boot, "x", 0, 0, true);
        part.path = place.0.join("cache").join(name);
        assert_eq!(found.has(&part), used, "{name}");
    }
    let mut with = part(Kind::Template, "x", 0, 0, true);
    with.with.push(mapped);
    assert!(found.has(&with), "a part's other files count as well");
}

/// A guest that is started from the same packages for years would lack all later security fixes.
#[test]
fn finding_12_packages_older_than_30_days_warn_with_remedy() {
    let place = Place::new("age");
    let record = |days: u64| format!("pinhead packages 1\nmade {}\n", NOW_S - days * 86_400);
    place.file("packages/x86_64/pinhead.packages", &record(31));
    place.file("packages/x86_64-web/pinhead.packages", &record(29));
    let disk = place.file("disks/x86_64/debian-nginx-00.img", "");
    place.file("disks/x86_64/debian-nginx-00.packages", &record(45));
    let cache = Cache::at(&place.0).unwrap();
    let packages = |name: &str| place.0.join("packages").join(name);
    let said = |used: &[&PathBuf]| {
        let used: BTreeSet<PathBuf> = used.iter().map(|&path| path.clone()).collect();
        warning(&cache, &used, NOW_S)
    };
    assert_eq!(said(&[&packages("x86_64-web"), &packages("none")]), None);
    let text = said(&[&packages("x86_64"), &packages("x86_64-web"), &disk]).unwrap();
    assert!(text.contains("45 days old (debian-nginx, x86_64)"), "{text}");
    assert!(text.contains("`pinhead cache refresh`"), "{text}");
    assert_eq!(OLD_S, 30 * 24 * 3600);
}

#[test]
fn the_list_is_for_people_and_for_programs() {
    let place = Place::new("list");
    let cache = Cache::at(&place.0).unwrap();
    assert!(list(&cache, Format::Text).unwrap().starts_with("The cache is empty: /"));
    let made_s = time_of_day().as_secs() - 40 * 86_400;
    let packages = "busybox-static 1:1.35.0-4\nlibc6 2.36-9\nnginx 1.22.1-9\nzlib1g 1:1.2.13\n";
    let record = format!("pinhead packages 1\nmade {made_s}\n{packages}");
    place.file("packages/x86_64-web/pinhead.packages", &record);
    let text = list(&cache, Format::Text).unwrap();
    let row = text.lines().nth(1).unwrap();
    for part in ["packages", "x86_64-web", "40 d", "nginx 1.22.1-9, libc6", "and 1 more"] {
        assert!(row.contains(part), "{row}");
    }
    for width in WIDTHS {
        let shown = table(&cache.parts().unwrap(), time_of_day().as_secs()).fit(width).text();
        check_fits(&shown, width, ["nginx 1.22.1-9, libc6", "and 1 more"]);
    }
    let all: Value = serde_json::from_str(&list(&cache, Format::Json).unwrap()).unwrap();
    let part = &all["parts"][0];
    assert_eq!(part["packages"]["zlib1g"], "1:1.2.13");
    assert!(part["old"] == true && part["age_s"].as_u64() >= Some(40 * 86_400));
}
