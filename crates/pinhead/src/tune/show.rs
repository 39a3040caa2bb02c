//! Advice as text and as JSON.

use crate::Error;
use crate::args::Format;
use crate::escape::json;
use crate::terminal;
use base::plain;
use serde::Serialize;
use whatif::backtest::{Advised, Findings, Foretold};
use whatif::{Finding, Gain, Sources, points};
use why::when::{self, Now};

/// Indent of the lines of a finding.
const INDENT: usize = 3;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum length of a name, and of a text in the evidence, in characters.
const NAME_MAX: usize = 60;

pub(super) fn show(found: &Findings, sources: &Sources, format: Format) -> Result<String, Error> {
    let all = &found.all;
    if format == Format::Json {
        return json(&all.iter().map(|one| Document::of(one, sources)).collect::<Vec<_>>());
    }
    let numbered = all.iter().enumerate();
    let mut out: Vec<String> = numbered.map(|(at, one)| text(at + 1, one, sources)).collect();
    out.extend(found.notes().into_iter().map(|note| note + "\n"));
    Ok(out.join("\n"))
}

/// Shows the findings before a change, their state after it, and the remaining findings.
pub(super) fn since(
    before: &Findings,
    after: &Findings,
    since_ms: i64,
    sources: &Sources,
    format: Format,
    now: &Now,
) -> Result<String, Error> {
    let still = |one: &Advised| {
        let is_it = |other: &&Advised| {
            let (a, b) = (&one.finding, &other.finding);
            (a.fault, &a.guest) == (b.fault, &b.guest)
        };
        after.all.iter().find(is_it)
    };
    if format == Format::Json {
        let earlier = before.all.iter().map(|one| EarlierDocument {
            before: Document::of(one, sources),
            since: still(one).map(|one| Document::of(one, sources)),
        });
        let findings = after.all.iter().map(|one| Document::of(one, sources)).collect();
        return json(&SinceDocument { findings, earlier: earlier.collect() });
    }
    let mut out =
        format!("Found before {}, with the result since then:\n", when::show(since_ms, now));
    for one in &before.all {
        let came = match still(one) {
            None => "the fault is gone".to_owned(),
            Some(now) => format!("the fault remains. {}", gain(&now.finding.gain)),
        };
        let Finding { fault, guest, .. } = &one.finding;
        let gain = gain(&one.finding.gain);
        out.push_str(&format!("   {}: {fault}. {gain} Since then {came}\n", who(guest)));
    }
    if before.all.is_empty() {
        out.push_str("   nothing\n");
    }
    out.push('\n');
    Ok(out + &show(after, sources, format)?)
}

fn who(guest: &str) -> String {
    if guest.is_empty() { "the host".into() } else { plain(guest, NAME_MAX) }
}

fn text(number: usize, one: &Advised, sources: &Sources) -> String {
    let Finding { fault, guest, evidence, .. } = &one.finding;
    let who = who(guest);
    let mut out = format!("{number}. {who}: {fault}. {}\n", gain(&one.finding.gain));
    let rows: Vec<String> =
        evidence.iter().map(|(name, value)| format!("{name} {}", plain(value, NAME_MAX))).collect();
    out.push_str(&format!("   {}\n", rows.join(", ")));
    let chart = chart(&one.finding.chart);
    if !chart.is_empty() {
        out.push_str(&format!("   {chart}\n"));
    }
    let command = one.finding.command(sources.of(guest));
    out.push_str(&format!("   {}\n", plain(&command, 400)));
    if let Some(foretold) = &one.foretold {
        out.push_str(&format!("   {}\n", told(foretold)));
    }
    out
}

fn gain(gain: &Gain) -> String {
    format!("Potential gain: {gain}.")
}

/// Draws a series in one line. A narrow terminal gets fewer points.
fn chart(series: &[u64]) -> String {
    let points = points(series);
    let room = terminal::width(std::io::stdout()).map(|width| width.saturating_sub(INDENT));
    let part = room.map_or(1, |room| points.len().div_ceil(room.max(1))).max(1);
    let points: Vec<u64> =
        points.chunks(part).filter_map(|part| part.iter().max().copied()).collect();
    let most = points.iter().copied().max().unwrap_or(0).max(1);
    let level = |value: &u64| {
        let at = u128::from(*value) * (LEVELS.len() as u128 - 1) / u128::from(most);
        LEVELS[usize::try_from(at).unwrap_or(0).min(LEVELS.len() - 1)]
    };
    if points.len() < 2 { String::new() } else { points.iter().map(level).collect() }
}

fn told(foretold: &Foretold) -> String {
    let minutes = |area: u128| (area / (u128::from(base::MIB) * 60_000)).to_string();
    let Foretold { before, after } = foretold;
    format!(
        "Replayed with this change: {} MiB free on average instead of {}, {} MiB·min of \
         unmet need instead of {}, {} moves instead of {}",
        after.free.nearest_mib(),
        before.free.nearest_mib(),
        minutes(after.tally.unmet),
        minutes(before.tally.unmet),
        after.tally.moves(),
        before.tally.moves()
    )
}

#[derive(Debug, Serialize)]
struct Document {
    fault: &'static str,
    guest: String,
    evidence: Vec<(&'static str, String)>,
    series: Vec<u64>,
    command: String,
    gains_bytes: u64,
    gains_cpu_permille: u64,
    gains_met_permille: u64,
    foretold: Option<ForetoldDocument>,
}

#[derive(Debug, Serialize)]
struct SinceDocument {
    findings: Vec<Document>,
    earlier: Vec<EarlierDocument>,
}

#[derive(Debug, Serialize)]
struct EarlierDocument {
    before: Document,
    since: Option<Document>,
}

#[derive(Debug, Serialize)]
struct ForetoldDocument {
    free_bytes_before: u64,
    free_bytes_after: u64,
    unmet_byte_seconds_before: f64,
    unmet_byte_seconds_after: f64,
    moves_before: u64,
    moves_after: u64,
}

impl Document {
    fn of(one: &Advised, sources: &Sources) -> Document {
        let finding = &one.finding;
        Document {
            fault: finding.fault.name(),
            guest: finding.guest.clone(),
            evidence: finding.evidence.clone(),
            series: points(&finding.chart),
            command: finding.command(sources.of(&finding.guest)),
            gains_bytes: finding.gain.memory.0,
            gains_cpu_permille: finding.gain.cpu_permille,
            gains_met_permille: finding.gain.met_permille,
            foretold: one.foretold.as_ref().map(|told| ForetoldDocument {
                free_bytes_before: told.before.free.0,
                free_bytes_after: told.after.free.0,
                unmet_byte_seconds_before: told.before.tally.unmet as f64 / 1000.0,
                unmet_byte_seconds_after: told.after.tally.unmet as f64 / 1000.0,
                moves_before: told.before.tally.moves(),
                moves_after: told.after.tally.moves(),
            }),
        }
    }
}
