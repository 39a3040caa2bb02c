//! Warning about guests with old packages. The warning is shown once, with the command that renews
//! the packages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use vm::images::{self, Cache, OLD_S, Record};

const DAY_S: u64 = 86_400;

/// Returns a warning for the user of guests made from these parts of the cache. Returns `None` if
/// no part is old.
pub fn warning(cache: &Cache, used: &BTreeSet<PathBuf>, now_s: u64) -> Option<String> {
    // A part of unknown age does not count as old.
    let age_s = |path: &PathBuf| {
        Some(now_s.saturating_sub(Record::beside(path).ok()?.made_s)).filter(|age| *age > OLD_S)
    };
    let old = used.iter().filter_map(|path| Some((age_s(path)? / DAY_S, path)));
    let old: Vec<(u64, &PathBuf)> = old.collect();
    let days = old.iter().map(|(days, _)| *days).max()?;
    let names: Vec<String> = old.iter().map(|(_, path)| name(path)).collect();
    let names = names.join(", ");
    // Only root can renew disks that root has made for all users.
    let command = match old.iter().all(|(_, path)| path.starts_with(cache.root())) {
        true => "run `pinhead cache refresh`".to_owned(),
        false => format!("run `PINHEAD_CACHE={} pinhead cache refresh` as root", images::SYSTEM),
    };
    Some(format!(
        "The guests' packages are {days} days old ({names}) and lack later security fixes; \
         {command}"
    ))
}

/// Returns a part's name for `pinhead cache refresh`.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match path.extension().is_some_and(|end| end == "img") {
        true => name.rsplit_once('-').map_or(name.clone(), |(software, _)| software.to_owned()),
        false => name,
    }
}
