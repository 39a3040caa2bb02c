//! `pinhead ps --farm`: guests as seen by their farm and by the host's kernel.

use super::find;
use crate::Error;
use crate::args::Format;
use crate::escape;
use crate::listing::ListingArgs;
use crate::terminal::fitted;
use base::{Column, Table, counted, left, plain, prose, right};
use farm::running::{self, Farms, tables_within};
use farm::service;
use manager::control::{FarmGuest, FarmTable, Ps, ServedPort};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::time::Duration;

/// Timeout for a farm's response if guests of a manager are shown already.
const BESIDE: Duration = Duration::from_secs(1);

/// A guest with the kernel's counts of its memory. The command reads the counts itself, to save the
/// farm's process this work.
#[derive(Serialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    guest: FarmGuest,
    resident_kib: Option<u64>,
    proportional_kib: Option<u64>,
    swapped_kib: Option<u64>,
}

pub(crate) fn is_any() -> bool {
    running::all().is_ok_and(|farms| !farms.is_empty())
}

/// Lists the guests of one farm, or of all.
pub fn ps(
    named: Option<&str>,
    format: Format,
    listing: &ListingArgs,
    width: Option<usize>,
) -> Result<String, Error> {
    let found = match named {
        Some(_) => vec![find::farm(named)?],
        None => find::farms()?,
    };
    let tables = found.iter().map(|found| Ok(service::table(&found.socket)?));
    shown(tables.collect::<Result<_, Error>>()?, format, listing, width)
}

/// Returns guests of this user's farms that a manager does not have. Such guests are parked on
/// disk, have ended, or were never handed to the manager.
pub(crate) fn beside(ps: &Ps) -> Result<Beside, Error> {
    let Farms { farms, silent } = tables_within(BESIDE)?;
    Ok(Beside { farms: unmanaged(farms, ps).into_iter().map(measure).collect(), silent })
}

/// Reduces farms to guests that a manager does not have. Farms without such guests are left out.
fn unmanaged(mut farms: Vec<FarmTable>, ps: &Ps) -> Vec<FarmTable> {
    let is_managed = |pid| ps.guests.iter().any(|row| row.pid == Some(pid));
    for farm in &mut farms {
        farm.guests.retain(|guest| guest.pid.is_none_or(|pid| !is_managed(pid)));
    }
    farms.retain(|farm| !farm.guests.is_empty());
    farms
}

/// Farms shown next to a manager's guests, and farms that returned no table.
#[derive(Serialize)]
pub(crate) struct Beside {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    farms: Vec<FarmTable<Measured>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    silent: Vec<String>,
}

impl Beside {
    /// Returns the names and UUIDs of the guests. Each UUID is empty, because farms report no
    /// UUIDs.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        names(&self.farms)
    }

    /// Keeps only the guests that `listing` selects.
    pub(crate) fn retain(&mut self, listing: &ListingArgs) {
        retain(&mut self.farms, listing);
    }

    pub(crate) fn text(self, listing: &ListingArgs, width: Option<usize>) -> String {
        let silent: String =
            self.silent.iter().map(|line| format!("farm {}\n", plain(line, 300))).collect();
        let farms: String = self.farms.into_iter().map(|farm| text(farm, listing, width)).collect();
        farms + &fitted(&silent, width)
    }
}

/// Formats the farms' tables.
pub fn shown(
    tables: Vec<FarmTable>,
    format: Format,
    listing: &ListingArgs,
    width: Option<usize>,
) -> Result<String, Error> {
    let mut tables: Vec<FarmTable<Measured>> = tables.into_iter().map(measure).collect();
    listing.check_guests(names(&tables))?;
    listing.check_columns(&Table::new(&COLUMNS))?;
    retain(&mut tables, listing);
    match format {
        Format::Json => escape::json(&json!({ "farms": tables })),
        Format::Text => Ok(tables.into_iter().map(|farm| text(farm, listing, width)).collect()),
    }
}

fn names(farms: &[FarmTable<Measured>]) -> impl Iterator<Item = (&str, &str)> + Clone {
    farms.iter().flat_map(|farm| &farm.guests).map(|one| (one.guest.name.as_str(), ""))
}

/// Keeps only the guests that `listing` selects. Farms without such guests are left out.
fn retain(farms: &mut Vec<FarmTable<Measured>>, listing: &ListingArgs) {
    if !listing.guests.is_empty() {
        farms
            .iter_mut()
            .for_each(|farm| farm.guests.retain(|one| listing.takes(&one.guest.name, "")));
        farms.retain(|farm| !farm.guests.is_empty());
    }
}

fn measure(farm: FarmTable) -> FarmTable<Measured> {
    let FarmTable { farm, pid, uptime_ms, guests } = farm;
    FarmTable { farm, pid, uptime_ms, guests: guests.into_iter().map(measured).collect() }
}

fn measured(guest: FarmGuest) -> Measured {
    let rollup = guest.pid.and_then(|pid| fs::read(format!("/proc/{pid}/smaps_rollup")).ok());
    let kib = |field| procfs::parse::value_of(rollup.as_deref()?, field);
    Measured {
        resident_kib: kib("Rss"),
        proportional_kib: kib("Pss"),
        swapped_kib: kib("Swap"),
        guest,
    }
}

const COLUMNS: [Column; 9] = [
    left("GUEST").least(16).most(64),
    left("CLASS").gap(1).least(12).most(64).rank(4),
    right("PID").gap(1).least(8).rank(5),
    left("STATE").gap(1).width(9),
    right("RSS").gap(1).least(6),
    right("PSS").gap(1).least(6).rank(3),
    right("OF").gap(1).least(6).rank(2),
    right("VCPU%").gap(1).least(6).rank(1),
    prose("ADDRESS, PORTS").most(400),
];

fn text(farm: FarmTable<Measured>, listing: &ListingArgs, width: Option<usize>) -> String {
    let sum_kib: u64 = farm.guests.iter().filter_map(|guest| guest.proportional_kib).sum();
    let count = counted(farm.guests.len() as u64, "guest");
    let foot = format!(
        "farm {}: {count} in {} MiB, for {} s (process {})\n",
        plain(farm.farm.as_deref().unwrap_or("-"), 60),
        mib(Some(sum_kib)),
        farm.uptime_ms / 1000,
        farm.pid
    );
    let mut table = Table::new(&COLUMNS);
    farm.guests.into_iter().for_each(|guest| table.row(row(guest)));
    listing.show(table, width) + &fitted(&foot, width)
}

fn mib(kib: Option<u64>) -> String {
    reports::mib(kib.map(|kib| kib.saturating_mul(1024)))
}

fn row(Measured { guest, resident_kib, proportional_kib, .. }: Measured) -> [String; 9] {
    let state = guest.shown_state().to_owned();
    let port = |port: &ServedPort| format!("127.0.0.1:{}>{}", port.host, port.guest);
    let places = guest.address.clone().into_iter().chain(guest.ports.iter().map(port));
    let places = places.collect::<Vec<_>>().join(" ");
    [
        guest.name,
        guest.class,
        guest.pid.map_or("-".to_owned(), |pid| pid.to_string()),
        state,
        mib(resident_kib),
        mib(proportional_kib),
        guest.memory_mib.to_string(),
        reports::shown(guest.cpu_percent, 1),
        guest.reason.unwrap_or(places),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, Words, check_fits};
    use manager::control::{GuestRow, HostRow, KsmRow};

    #[test]
    fn guests_beside_a_manager_are_those_it_does_not_have() {
        let guest = |name: &str, pid| FarmGuest { name: name.into(), pid, ..FarmGuest::default() };
        let farm = |name: &str, guests| FarmTable {
            farm: Some(name.into()),
            pid: 9,
            uptime_ms: 0,
            guests,
        };
        let farms = vec![
            farm("a", vec![guest("here", Some(1)), guest("on-disk", None), guest("new", Some(2))]),
            farm("b", vec![guest("here-too", Some(3))]),
        ];
        let row = |pid| GuestRow { pid: Some(pid), ..GuestRow::default() };
        let (host, ksm) = (HostRow::default(), KsmRow::default());
        let left = unmanaged(farms, &Ps { host, ksm, guests: vec![row(1), row(3)] });
        let names: Vec<_> =
            left.iter().flat_map(|farm| &farm.guests).map(|g| g.name.as_str()).collect();
        assert_eq!((left.len(), names), (1, vec!["on-disk", "new"]));
        let silent = vec!["c: it hung up\u{1b}[2J".to_owned()];
        let beside = Beside { farms: left.into_iter().map(measure).collect(), silent };
        let json = serde_json::to_value(&beside).unwrap();
        assert_eq!(json["farms"][0]["guests"][0]["name"], "on-disk");
        assert_eq!(json["farms"][0]["guests"][0]["resident_kib"], json!(null));
        let text = beside.text(&ListingArgs::default(), None);
        assert!(text.ends_with("farm c: it hung up\u{fffd}[2J\n"), "{text}");
    }

    #[test]
    fn table_shows_known_values_and_escapes_controls() {
        let ports = vec![ServedPort { guest: 80, host: 18000 }];
        let up = FarmGuest {
            name: "web1".into(),
            class: "web".into(),
            pid: Some(7),
            state: "up".into(),
            ready: true,
            ports,
            address: Some("10.1.0.1".into()),
            memory_mib: 96,
            cpu_percent: Some(0.25),
            ..FarmGuest::default()
        };
        let ended = FarmGuest {
            name: "\u{1b}[2J".into(),
            state: "ended".into(),
            reason: Some("QEMU ended\u{7}".into()),
            ..FarmGuest::default()
        };
        let guests = [(up, Some(51_200), Some(20_480)), (ended, None, None)];
        let guests = guests.map(|(guest, resident_kib, proportional_kib)| Measured {
            guest,
            resident_kib,
            proportional_kib,
            swapped_kib: None,
        });
        let farm = Some("f".to_owned());
        let table = FarmTable { farm, pid: 9, uptime_ms: 5000, guests: guests.into() };
        let text = text(table, &ListingArgs::default(), None);
        let lines: Vec<&str> = text.lines().collect();
        let heads: Vec<&str> = lines[0].split_ascii_whitespace().collect();
        assert_eq!(heads[4..8], ["RSS", "PSS", "OF", "VCPU%"], "{text}");
        assert_eq!(
            lines[1],
            "web1             web                 7 up            50     20     96    0.2  \
             10.1.0.1 127.0.0.1:18000>80"
        );
        assert!(lines[2].contains("QEMU ended\u{fffd}") && !text.contains('\u{1b}'));
        assert!(lines[2].contains("       - "), "an unknown value is not 0: {}", lines[2]);
        assert_eq!(lines[3], "farm f: 2 guests in 20 MiB, for 5 s (process 9)");
    }

    #[test]
    fn table_of_a_farm_fits_every_width() {
        Words::each(|mut words| {
            let guest = |words: &mut Words| FarmGuest {
                name: words.name(),
                class: words.name(),
                memory_mib: words.number(1 << 20),
                reason: Some(words.sentence()),
                ..FarmGuest::default()
            };
            let guests: Vec<FarmGuest> = (0..words.number(9)).map(|_| guest(&mut words)).collect();
            let farm = FarmTable { farm: Some("shop".into()), pid: 9, uptime_ms: 5000, guests };
            for width in WIDTHS {
                let listing = ListingArgs::default();
                let shown = shown(vec![farm.clone()], Format::Text, &listing, Some(width)).unwrap();
                let texts = farm.guests.iter().flat_map(|guest| {
                    [Some(guest.name.as_str()), guest.reason.as_deref()].into_iter().flatten()
                });
                check_fits(&shown, width, texts);
            }
        });
    }
}
