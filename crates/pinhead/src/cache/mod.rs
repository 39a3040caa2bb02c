//! `pinhead cache`: lists, rebuilds and removes the files that guests are made from.
//!
//! ```text
//!   the cache's parts ──┬─► list: kind, size, age, versions
//!                       ├─► refresh: old parts, or parts that the user names
//!   open files of       └─► prune: parts that are not open and not needed soon
//!   processes ───────────────┘
//! ```

mod age;
mod in_use;

pub use age::warning;

use crate::Error;
use crate::args::Format;
use crate::escape::json;
use crate::listing::{OTHER_OUTPUT, fitted_table};
use crate::terminal;
use crate::up::progress::{Progress, Step};
use base::duration::parse_seconds;
use base::{Bytes, Table, duration, left, nearest, prose, right, size_text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use vm::images::rootfs::Software;
use vm::images::{self, Cache, Kind, Part, time_of_day};

/// Time since the last use, in seconds, below which a part is kept because its guest may be started
/// again.
const UNUSED_S: u64 = 86_400;
/// Time since the last change, in seconds, after which an unfinished file is abandoned. A working
/// process changes its files more often.
const WORKED_ON_S: u64 = 3_600;
/// Maximum number of packages in a line of the list.
const SHOWN: usize = 3;
/// Packages that are shown first, because a guest exposes them to the outside.
const OF_NOTE: [&str; 8] =
    ["linux-image", "nginx", "postgresql", "uwsgi", "python3", "libssl3", "libc6", "busybox"];

/// `pinhead cache`
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// Action on the cache
    #[command(subcommand)]
    pub what: What,
}

/// Actions on the cache.
#[derive(Debug, Subcommand)]
pub enum What {
    /// List images with their age and package versions
    List(ListArgs),
    /// Rebuild old or named packages and disks
    Refresh(RefreshArgs),
    /// Remove unused images
    Prune(PruneArgs),
}

/// `pinhead cache list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead cache refresh`
#[derive(Debug, Args)]
pub struct RefreshArgs {
    /// Packages or disks named in `pinhead cache list`, of any age
    #[arg(value_name = "NAME", conflicts_with = "older_than_s")]
    pub names: Vec<String>,
    /// Rebuild packages and disks older than this
    #[arg(long = "older-than", value_name = "SPAN", default_value = "30d",
          value_parser = parse_seconds)]
    pub older_than_s: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// `pinhead cache prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// List unused images without removing them
    #[arg(long)]
    pub dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Runs a `pinhead cache` command.
pub fn run(args: &CacheArgs) -> Result<String, Error> {
    let cache = Cache::from_environment()?;
    match &args.what {
        What::List(args) => list(&cache, args.format),
        What::Refresh(args) => refresh(&cache, args),
        What::Prune(args) => prune(&cache, args),
    }
}

fn list(cache: &Cache, format: Format) -> Result<String, Error> {
    answer(cache, &cache.parts()?, format, "The cache is empty")
}

fn answer(cache: &Cache, parts: &[Part], format: Format, none: &str) -> Result<String, Error> {
    let now_s = time_of_day().as_secs();
    let root = cache.root().display().to_string();
    if format == Format::Json {
        let parts: Vec<Value> = parts.iter().map(|part| to_json(part, now_s)).collect();
        return json(&json!({ "cache": root, "parts": parts }));
    }
    if parts.is_empty() {
        return Ok(base::plain(&format!("{none}: {root}"), 400) + "\n");
    }
    Ok(fitted_table(&table(parts, now_s), terminal::width(std::io::stdout()), OTHER_OUTPUT))
}

fn table(parts: &[Part], now_s: u64) -> Table {
    let columns = [
        left("KIND").least(8),
        left("NAME"),
        left("ARCH").rank(2),
        right("SIZE"),
        right("AGE").rank(1),
        prose("PACKAGES"),
    ];
    let mut table = Table::new(&columns);
    for part in parts {
        table.row([
            part.kind.name(),
            &part.name,
            part.arch.map_or("-", images::Arch::name),
            &size_text(Bytes(part.bytes)),
            &shown_age(part.age_s(now_s)),
            &shown_packages(part),
        ]);
    }
    table
}

fn to_json(part: &Part, now_s: u64) -> Value {
    let packages: serde_json::Map<String, Value> =
        part.record.packages.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
    json!({
        "kind": part.kind.name(),
        "name": part.name,
        "arch": part.arch.map(images::Arch::name),
        "path": part.path.display().to_string(),
        "bytes": part.bytes,
        "made": part.record.made_s,
        "age_s": part.age_s(now_s),
        "old": part.is_old(now_s),
        "current": part.is_current,
        "packages": packages,
    })
}

fn shown_age(age_s: u64) -> String {
    let ms = i64::try_from(age_s.saturating_mul(1000)).unwrap_or(i64::MAX);
    // An age of one day or more is shown in days only.
    let shown = duration::show(ms);
    shown.split_once(" d ").map_or(shown.clone(), |(days, _)| format!("{days} d"))
}

/// Returns the most important versions, and the number of the other packages.
fn shown_packages(part: &Part) -> String {
    let packages = &part.record.packages;
    let noted = |of: &&str| packages.iter().find(|(name, _)| name.starts_with(*of));
    let mut shown: Vec<String> = OF_NOTE
        .iter()
        .filter_map(noted)
        .take(SHOWN)
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let rest = packages.len() - shown.len().min(packages.len());
    if rest > 0 {
        shown.push(format!("and {rest} more"));
    }
    shown.join(", ")
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Packages(String),
    Disk(Software),
}

impl Wanted {
    /// Returns the part to rebuild, or `None` if it cannot be rebuilt.
    fn of(part: &Part) -> Option<Wanted> {
        match part.kind {
            Kind::Packages => Some(Wanted::Packages(part.name.clone())),
            Kind::Disk if part.is_current => Software::from_name(&part.name).map(Wanted::Disk),
            _ => None,
        }
    }
}

fn refresh(cache: &Cache, args: &RefreshArgs) -> Result<String, Error> {
    let mut progress = match args.format {
        Format::Text => Progress::shown(),
        Format::Json => Progress::silent(),
    };
    let wanted = wanted(&cache.parts()?, args, time_of_day().as_secs())?;
    for one in &wanted {
        let made = remake(cache, one, &mut progress);
        progress.clear();
        made?;
    }
    let mut parts = cache.parts()?;
    parts.retain(|part| Wanted::of(part).is_some_and(|one| wanted.contains(&one)));
    answer(cache, &parts, args.format, "No part of the cache is old enough to be rebuilt")
}

/// Returns the named parts, or else the old parts. Disks come last, because they take longest.
fn wanted(parts: &[Part], args: &RefreshArgs, now_s: u64) -> Result<Vec<Wanted>, Error> {
    if args.names.is_empty() {
        let old = parts.iter().filter(|part| part.age_s(now_s) > args.older_than_s);
        return Ok(old.filter_map(Wanted::of).collect());
    }
    let named = |name: &String| {
        // A disk can be made even before a farm requests it.
        if let Some(software) = Software::from_name(name) {
            return Ok(Wanted::Disk(software));
        }
        if let Some(part) = parts.iter().find(|part| part.name == *name).and_then(Wanted::of) {
            return Ok(part);
        }
        let known: Vec<&str> = parts
            .iter()
            .filter(|part| Wanted::of(part).is_some())
            .map(|part| &*part.name)
            .collect();
        let disks = Software::ALL.iter().map(|software| software.name());
        let near = nearest(name, known.iter().copied().chain(disks));
        let hint = match near.first() {
            Some(near) => format!("did you mean {near}?"),
            None => "`pinhead cache list` names them".to_owned(),
        };
        Err(Error::NotCached { name: base::plain(name, 80), hint })
    };
    let mut all = args.names.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|one| matches!(one, Wanted::Disk(_)));
    Ok(all)
}

fn remake(cache: &Cache, wanted: &Wanted, progress: &mut Progress) -> Result<(), Error> {
    match wanted {
        Wanted::Packages(name) => {
            let making = format!("packages {name}: fetching the newest");
            progress.report(Step::Making { making, permille: None, bytes: None });
            Ok(cache.refresh_packages(name)?)
        }
        Wanted::Disk(software) => {
            let mut report = |at: images::rootfs::Progress| {
                let making = format!("image {}: {}", software.name(), at.what);
                progress.report(Step::Making { making, permille: Some(at.permille), bytes: None });
            };
            Ok(software.rebuild(cache, &mut report).map(drop)?)
        }
    }
}

fn prune(cache: &Cache, args: &PruneArgs) -> Result<String, Error> {
    let now_s = time_of_day().as_secs();
    let in_use = in_use::below(cache.root(), std::path::Path::new("/proc"));
    let mut parts = cache.parts()?;
    parts.retain(|part| !is_kept(part, now_s) && !in_use.has(part));
    if !args.dry_run {
        for part in &parts {
            part.remove()?;
        }
    }
    let mut text = answer(cache, &parts, args.format, "There is nothing to remove")?;
    if args.format == Format::Text && !parts.is_empty() {
        let bytes = size_text(Bytes(parts.iter().map(|part| part.bytes).sum()));
        let what = if args.dry_run { "would be removed" } else { "removed" };
        text.push_str(&format!("{} parts, {bytes} {what}\n", parts.len()));
    }
    Ok(text)
}

/// Returns true if a part that no guest has open is kept, because it may be needed again or is
/// unfinished.
fn is_kept(part: &Part, now_s: u64) -> bool {
    let unused_s = now_s.saturating_sub(part.used_s);
    match part.kind {
        Kind::Packages | Kind::Hang => true,
        Kind::Disk => part.is_current,
        // Parts of these kinds are rebuilt in seconds.
        Kind::Boot | Kind::Template => unused_s < UNUSED_S,
        Kind::Left => unused_s < WORKED_ON_S,
    }
}

#[cfg(test)]
mod tests;
