//! Tables of hosts, and commands for the proposed moves.

use super::args::FleetArgs;
use crate::args::Format;
use crate::escape::json;
use crate::listing::{OTHER_OUTPUT, fitted_table};
use crate::terminal::fitted;
use crate::{Error, FleetError};
use base::{Bytes, Table, counted, left, plain, right, shell_word};
use metrics::fleet::Steps;
use model::has_uuid;
use reports::{Single, moment_text, shown};
use serde::Serialize;
use std::fmt::Write;
use whatif::{Move, Plan};
use why::when::{self, Now};

const NAME_MAX: usize = 24;
const NAMES_MAX: usize = 10;
/// Beginning of a move's command.
const COMMAND: &str = "virsh --connect ";

pub(super) struct Answer {
    pub(super) hosts: Vec<Shown>,
    pub(super) plan: Plan,
    pub(super) steps: Steps,
}

/// A host, shown as a row.
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) is_silent: bool,
    pub(super) last_ms: i64,
    pub(super) guests: u64,
    pub(super) single: Single,
    /// Guest with the highest CPU use, and this use.
    pub(super) loudest: Option<(String, Option<f64>)>,
}

/// Formats the answer, on a terminal within its width.
pub(super) fn show(
    answer: &Answer,
    args: &FleetArgs,
    now: &Now,
    width: Option<usize>,
) -> Result<String, Error> {
    match args.format {
        Format::Text => Ok(text(answer, args, now, width)),
        Format::Json => json(&Document::of(answer)),
    }
}

fn text(answer: &Answer, args: &FleetArgs, now: &Now, width: Option<usize>) -> String {
    let columns = [
        left("HOST").most(NAME_MAX),
        left("STATE"),
        right("GUESTS").rank(5),
        right("CPU%").rank(1),
        right("CAPT%").rank(7),
        right("WAIT CPU%").rank(6),
        right("WAIT MEM%").rank(2),
        right("SPARE").rank(3),
        right("WANT").rank(4),
        left("LOUDEST").most(NAME_MAX).rank(8),
        right("CPU%").rank(9),
    ];
    let mut table = Table::new(&columns);
    for host in &answer.hosts {
        let value = |id: &str, decimals| shown(host.single.host(id), decimals);
        let (loudest, cpu) = match &host.loudest {
            Some((name, cpu)) => (plain(name, NAME_MAX), shown(*cpu, 1)),
            None => ("-".into(), "-".into()),
        };
        table.row([
            plain(&host.name, NAME_MAX),
            state(host, now),
            host.guests.to_string(),
            value("busy_percent", 1),
            value("capture_percent", 1),
            value("psi_cpu_percent", 1),
            value("psi_memory_percent", 1),
            value("spare_mib", 0),
            value("set_point_mib", 0),
            loudest,
            cpu,
        ]);
    }
    let mut told = format!("\nOf the last {}; sizes in MiB.\n", args.last);
    if args.moves > 0 {
        moves(answer, &mut told);
    }
    let mut out = fitted_table(&table, width, OTHER_OUTPUT);
    // A command stays in one line, so that it can be copied.
    let is_command = |line: &str| line.trim_start().starts_with(COMMAND);
    out.extend(told.split_inclusive('\n').map(|line| match is_command(line) {
        true => line.to_owned(),
        false => fitted(line, width),
    }));
    out
}

fn state(host: &Shown, now: &Now) -> String {
    if !host.is_silent {
        return "live".into();
    }
    let zone = |at_ms| when::offset_min(at_ms, &now.zone);
    format!("silent since {}", moment_text(host.last_ms, &zone))
}

fn moves(answer: &Answer, out: &mut String) {
    let plan = &answer.plan;
    if plan.moves.is_empty() && plan.stuck.is_empty() && plan.later.is_empty() {
        let known = if plan.unknown.is_empty() { "" } else { " with known values" };
        let _ = writeln!(out, "\nNo guest needs to move: each host{known} is above its set point.");
    }
    let name = |text: &str| plain(text, NAME_MAX);
    for (number, one) in plan.moves.iter().enumerate() {
        let comes = if one.is_enough() { "comes back above" } else { "comes nearer to" };
        let _ = writeln!(
            out,
            "\n{}. {} from {} to {}: {} keeps {} available, and {} {comes} its set point of {} MiB \
             ({} MiB available instead of {}).\n   {} needed at most {} MiB in that time.\n   {}",
            number + 1,
            name(&one.guest),
            name(&one.from),
            name(&one.to),
            name(&one.to),
            size(one.to_keeps),
            name(&one.from),
            one.from_set_point.nearest_mib(),
            one.from_gets.nearest_mib(),
            one.from_had.nearest_mib(),
            name(&one.guest),
            one.needs.nearest_mib(),
            command(one).unwrap_or_else(|why| why.to_string())
        );
    }
    for host in &plan.stuck {
        let _ = writeln!(
            out,
            "\n{} is short of memory, and no host has room for the needs of {} guests.",
            name(host),
            if plan.moves.iter().any(|one| one.from == *host) { "more of its" } else { "its" }
        );
    }
    if !plan.later.is_empty() {
        let hosts = counted(plan.later.len() as u64, "more host");
        let _ =
            writeln!(out, "\n{hosts} short of memory, but without a plan: {}.", names(&plan.later));
    }
    if !plan.unknown.is_empty() {
        let hosts = counted(plan.unknown.len() as u64, "host");
        let _ = writeln!(out, "\nToo little data of {hosts}: {}.", names(&plan.unknown));
    }
    if !plan.moves.is_empty() {
        out.push_str(
            "\nEach move assumes that the moves before it are done. This command moves nothing.\n",
        );
    }
}

fn names(all: &[String]) -> String {
    let first: Vec<String> = all.iter().take(NAMES_MAX).map(|name| plain(name, NAME_MAX)).collect();
    let rest = all.len() - first.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    first.join(", ") + &more
}

fn size(size: Bytes) -> String {
    match size.nearest_mib() {
        mib if mib >= 1_024 => format!("{}.{} GiB", mib / 1_024, mib % 1_024 * 10 / 1_024),
        mib => format!("{mib} MiB"),
    }
}

/// Returns true if a text is a plain host name, without characters that have another meaning in an
/// address.
fn is_host(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_letter)
}

/// Returns the libvirt command for a move, or the reason why there is none. Names are untrusted, so
/// each name is quoted as one word.
fn command(one: &Move) -> Result<String, FleetError> {
    if let Some(odd) = [&one.from, &one.to].into_iter().find(|name| !is_host(name)) {
        return Err(FleetError::NoAddress { name: plain(odd, NAME_MAX) });
    }
    // A guest of another user may have any UUID, so the command contains the guest's name. This
    // name contains the owner.
    let guest = match has_uuid(&one.uuid) && !one.guest.contains('/') {
        true => &one.uuid,
        false => &one.guest,
    };
    let at = |host: &str| shell_word(&format!("qemu+ssh://{host}/system"));
    Ok(format!(
        "{COMMAND}{} migrate --live --persistent --undefinesource --domain {} --desturi {}",
        at(&one.from),
        shell_word(guest),
        at(&one.to)
    ))
}

/// JSON form of the answer. Sizes are in bytes.
#[derive(Serialize)]
struct Document<'a> {
    from: i64,
    to: i64,
    hosts: Vec<HostDocument<'a>>,
    moves: Vec<MoveDocument<'a>>,
    stuck: &'a [String],
    later: &'a [String],
    unknown: &'a [String],
}

#[derive(Serialize)]
struct HostDocument<'a> {
    host: &'a str,
    silent: bool,
    last_ms: i64,
    guests: u64,
    busy_percent: Option<f64>,
    capture_percent: Option<f64>,
    psi_cpu_percent: Option<f64>,
    psi_memory_percent: Option<f64>,
    spare_mib: Option<f64>,
    set_point_mib: Option<f64>,
    loudest: Option<&'a str>,
}

#[derive(Serialize)]
struct MoveDocument<'a> {
    guest: &'a str,
    uuid: &'a str,
    from: &'a str,
    to: &'a str,
    needs_bytes: u64,
    from_had_bytes: u64,
    from_gets_bytes: u64,
    from_set_point_bytes: u64,
    to_keeps_bytes: u64,
    to_set_point_bytes: u64,
    enough: bool,
    command: Option<String>,
}

impl<'a> Document<'a> {
    fn of(answer: &'a Answer) -> Document<'a> {
        let host = |host: &'a Shown| {
            let value = |id: &str| host.single.host(id);
            HostDocument {
                host: &host.name,
                silent: host.is_silent,
                last_ms: host.last_ms,
                guests: host.guests,
                busy_percent: value("busy_percent"),
                capture_percent: value("capture_percent"),
                psi_cpu_percent: value("psi_cpu_percent"),
                psi_memory_percent: value("psi_memory_percent"),
                spare_mib: value("spare_mib"),
                set_point_mib: value("set_point_mib"),
                loudest: host.loudest.as_ref().map(|(name, _)| name.as_str()),
            }
        };
        let one = |one: &'a Move| MoveDocument {
            guest: &one.guest,
            uuid: &one.uuid,
            from: &one.from,
            to: &one.to,
            needs_bytes: one.needs.0,
            from_had_bytes: one.from_had.0,
            from_gets_bytes: one.from_gets.0,
            from_set_point_bytes: one.from_set_point.0,
            to_keeps_bytes: one.to_keeps.0,
            to_set_point_bytes: one.to_set_point.0,
            enough: one.is_enough(),
            command: command(one).ok(),
        };
        Document {
            from: answer.steps.from_ms,
            to: answer.steps.to_ms,
            hosts: answer.hosts.iter().map(host).collect(),
            moves: answer.plan.moves.iter().map(one).collect(),
            stuck: &answer.plan.stuck,
            later: &answer.plan.later,
            unknown: &answer.plan.unknown,
        }
    }
}
