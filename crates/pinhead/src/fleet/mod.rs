//! `pinhead fleet`: all hosts that push to a metrics server, and guests that should move to another
//! host.
//!
//! ```text
//!   engine ─► glance: one row per host ─► table
//!          ─► values of all hosts, and of guests on short hosts ─► whatif::moves ─► virsh
//! ```
//!
//! This command never moves guests. The output contains the commands that would move them.

mod args;
mod show;
#[cfg(test)]
mod tests;
mod watch;

pub use args::{FleetArgs, FleetCommand};
pub use watch::WatchArgs;

use crate::{Error, FleetError, TimeError, terminal};
use base::{Bytes, duration};
use metrics::Url;
use metrics::fleet::{Glance, Host, Loudest, Steps, glance, guest_lines, lines};
use model::{GuestField as G, GuestIdentity, HostField as H, Interval, Over};
use reports::fleet::{BUSY, busy_percent, glanced, is_silent, silent_then_busy};
use show::{Answer, Shown};
use std::collections::BTreeMap;
use whatif::{Past, Place, Plan, Tenant};
use why::when::{self, Now};

const STEPS: i64 = 60;
const SPAN_MS_MAX: i64 = 7 * 24 * 60 * duration::MINUTE_MS;
/// Maximum number of hosts with examined guests. The hosts with the largest shortage come first.
const SHORT_MAX: usize = 20;
/// A guest with a sample within this time counts as present.
const RECENT_MS: i64 = 5 * duration::MINUTE_MS;
/// Values that are shown for a host, in addition to its busy time.
const SHOWN: [H; 4] = [H::Spare, H::SetPoint, H::PsiCpuSome, H::PsiMemorySome];

/// Shows the hosts, and proposes moves.
pub fn run(args: &FleetArgs) -> Result<String, Error> {
    if let Some(FleetCommand::Watch(args)) = &args.command {
        return watch::run(args);
    }
    let now = ::why::now();
    let answer = ask(args, &now)?;
    show::show(&answer, args, &now, terminal::width(std::io::stdout()))
}

fn ask(args: &FleetArgs, now: &Now) -> Result<Answer, Error> {
    let url = Url::parse(args.from.as_deref().unwrap_or_default())?;
    let span_ms = when::span(&args.last)?;
    if !(duration::MINUTE_MS..=SPAN_MS_MAX).contains(&span_ms) {
        return Err(TimeError::LastOutside.into());
    }
    let step_ms = (span_ms / STEPS).max(duration::MINUTE_MS);
    let steps = Steps { from_ms: now.ms - span_ms, to_ms: now.ms, step_ms };
    let found = glance(&url, &asked(steps))?;
    if found.hosts.is_empty() {
        return Err(FleetError::NoHosts.into());
    }
    let mut hosts: Vec<Shown> =
        found.hosts.into_iter().map(|(name, host)| shown(name, host, steps)).collect();
    let plan = match args.moves {
        0 => Plan::default(),
        most => whatif::moves(places(&url, &hosts, steps)?, most),
    };
    hosts.sort_by(|a, b| silent_then_busy((a.is_silent, &a.single), (b.is_silent, &b.single)));
    Ok(Answer { hosts, plan, steps })
}

fn asked(steps: Steps) -> Glance {
    Glance {
        from_ms: steps.from_ms,
        to_ms: steps.to_ms,
        hosts: [&BUSY[..], &SHOWN].concat(),
        together: vec![G::VcpuRun, G::OtherRun],
        loudest: Loudest {
            most: 1,
            of_each: true,
            by: vec![G::VcpuRun, G::OtherRun],
            like: String::new(),
            fields: vec![G::VcpuRun, G::OtherRun],
        },
    }
}

fn shown(name: String, host: Host, steps: Steps) -> Shown {
    let is_silent = is_silent(steps.to_ms, host.last_ms, host.spacing_ms());
    let Host { last_ms, guests, over, together, loudest, .. } = host;
    let single = glanced((steps.from_ms, steps.to_ms), over, together, guests);
    let cpu = |over: &Over<G>| single.guest(over, "cpu_percent");
    let loudest = loudest
        .iter()
        .map(|(who, over)| (who.name.clone(), cpu(over)))
        .max_by(|a, b| a.1.unwrap_or(0.0).total_cmp(&b.1.unwrap_or(0.0)));
    Shown { name, is_silent, last_ms, guests, single, loudest }
}

/// Returns all hosts over time, and the guests of hosts with a shortage.
fn places(url: &Url, hosts: &[Shown], steps: Steps) -> Result<Vec<Place>, Error> {
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let memory = lines(url, steps, &names, &[H::Spare])?;
    let mut places: Vec<Place> =
        hosts.iter().map(|host| place(host, memory.get(&host.name))).collect();
    let mut short: Vec<(Bytes, usize)> =
        places.iter().enumerate().filter_map(|(at, place)| Some((place.short_by()?, at))).collect();
    short.sort_unstable_by(|a, b| b.cmp(a));
    let fields: Vec<G> = whatif::FIELDS.iter().copied().chain([G::Private, G::Resident]).collect();
    for (_, at) in short.into_iter().take(SHORT_MAX) {
        let guests = guest_lines(url, steps, &places[at].name, &fields)?;
        places[at].tenants = Some(tenants(&guests, steps));
    }
    Ok(places)
}

fn place(host: &Shown, memory: Option<&Vec<Over<H>>>) -> Place {
    let over = &host.single.interval().host;
    let available = memory.into_iter().flatten();
    Place {
        name: host.name.clone(),
        available: available.map(|over| over.get(H::Spare).map(Bytes)).collect(),
        set_point: over.get(H::SetPoint).map(Bytes),
        cpus: over.get(H::Cpus).unwrap_or(0),
        busy_permille: busy_percent(over.clone()).map_or(1_000, |percent| (percent * 10.0) as u64),
        is_silent: host.is_silent,
        tenants: None,
    }
}

/// Returns guests with their needed and held memory in each step.
fn tenants(guests: &BTreeMap<GuestIdentity, Vec<Over<G>>>, steps: Steps) -> Vec<Tenant> {
    let count = guests.values().map(Vec::len).max().unwrap_or(0);
    let mut past = Past::new(steps.step_ms.unsigned_abs());
    for at in 0..count {
        let of_step = |(who, line): (&GuestIdentity, &Vec<Over<G>>)| {
            Some((who.clone(), line.get(at)?.clone()))
        };
        past.add(&Interval {
            guests: guests.iter().filter_map(of_step).collect(),
            ..Interval::default()
        });
    }
    // The guest's rows of all classes are merged, because a guest may be recorded under two
    // classes.
    let held = |name: &str, uuid: &str| {
        let mut held = vec![None; count];
        let own = guests.iter().filter(|(who, _)| who.name == name && who.uuid == uuid);
        for (at, over) in own.flat_map(|(_, line)| line.iter().enumerate()) {
            // For a host without pinhead, only the resident set is known.
            let size = over.get(G::Private).or(over.get(G::Resident));
            held[at] = held[at].max(size.map(Bytes));
        }
        held
    };
    // A guest without recent samples may have moved to another host.
    let recent = usize::try_from(RECENT_MS / steps.step_ms).unwrap_or(0).max(1);
    past.guests()
        .filter(|guest| guest.steps.last().is_some_and(|step| step.at + recent >= count))
        .map(|guest| {
            let mut needs = vec![None; count];
            for step in &guest.steps {
                needs[step.at] = step.needed;
            }
            let cpus = guest.steps.iter().filter_map(|step| step.cpus_permille);
            Tenant {
                name: guest.name.clone(),
                uuid: guest.uuid.clone(),
                needs,
                holds: held(&guest.name, &guest.uuid),
                cpus_permille: cpus.max().unwrap_or(1_000),
            }
        })
        .collect()
}
