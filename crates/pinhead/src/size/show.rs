//! Sizes as a table, as CSV and as JSON.

use super::args::SizeFormat;
use crate::Error;
use crate::cells::{mib, number, percent};
use crate::escape::json;
use crate::listing::below_line;
use crate::terminal::fitted_to_stdout;
use base::{Bytes, Table, counted, csv_record, csv_text, left, right};
use whatif::backtest::{Sizes, SizesDocument};
use whatif::{Proof, Rule, Sizing, Together, Tried};
use why::when::{self, Now};

const NAME_MAX: usize = 24;

pub(super) fn show(answer: &Sizes, format: SizeFormat, now: &Now) -> Result<String, Error> {
    match format {
        SizeFormat::Text => Ok(text(answer, now)),
        SizeFormat::Csv => Ok(csv(answer)),
        SizeFormat::Json => json(&SizesDocument::of(answer)),
    }
}

fn hours(ms: u64) -> String {
    match ms < 3_600_000 {
        true => format!("{} min", ms / 60_000),
        false => format!("{}.{} h", ms / 3_600_000, ms % 3_600_000 / 360_000),
    }
}

fn text(answer: &Sizes, now: &Now) -> String {
    let too_little = answer.advice.too_little(answer.question.options.enough_ms);
    if let Some(too_little) = &too_little
        && !answer.advice.guests.iter().any(Sizing::has_enough)
    {
        return fitted_to_stdout(&format!("No sizes yet: {too_little} (set by --enough).\n"));
    }
    let columns = [
        left("GUEST").most(NAME_MAX),
        right("HAS"),
        right("SIZE"),
        right("FROM").rank(5),
        right("TO").rank(5),
        right("MIN").rank(1),
        right("CPUS"),
        right("OF").rank(2),
        right("SHARES").rank(4),
        right("SHORT"),
        right("KILLS").rank(3),
        right("HISTORY").rank(6),
        left("VERDICT"),
    ];
    let mut table = Table::new(&columns);
    for guest in answer.advice.guests.iter().filter(|guest| guest.has_enough()) {
        let memory = guest.memory;
        table.row([
            guest.name.clone(),
            mib(guest.has),
            mib(memory.map(|memory| memory.size)),
            mib(memory.map(|memory| memory.lower)),
            mib(memory.map(|memory| memory.upper)),
            mib(guest.minimum),
            number(guest.cpus.map(|cpus| cpus.size)),
            number(guest.vcpus),
            number(guest.shares.map(u64::from)),
            number(Some(answer.minutes(guest.short_steps))),
            number(Some(guest.kills)),
            hours(guest.known_ms),
            guest.verdict.to_string(),
        ]);
    }
    let to_ms = answer.from_ms + (answer.past.steps as i64) * answer.question.span.step_ms;
    let mut out = fitted_to_stdout(&format!(
        "From {} to {}; sizes in MiB. A guest with a size from FROM to TO needs no change. CPUS is \
         the number of CPUs that the guest needs, OF the number that it has, and SHORT the number \
         of minutes in which it lacked memory.\n",
        when::show(answer.from_ms, now),
        when::show(to_ms.min(now.ms), now)
    ));
    out.push_str(&below_line(&table));
    let gone = Some(answer.gone as u64).filter(|gone| *gone > 0);
    let gone = gone.map(|gone| format!("{} no longer ran at the end", counted(gone, "guest")));
    for left_out in too_little.into_iter().chain(gone) {
        out.push_str(&fitted_to_stdout(&format!("Left out: {left_out}.\n")));
    }
    out.push_str(&sum_text(answer, now));
    out.push_str(&proof_text(answer));
    out
}

fn sum_text(answer: &Sizes, now: &Now) -> String {
    let Together { sizes, at_once, step } = answer.advice.together;
    let at_ms = answer.from_ms + (step as i64) * answer.question.span.step_ms;
    fitted_to_stdout(&format!(
        "\nThe sizes of all guests add up to {} MiB. At any one time all guests together needed at \
         most {} MiB ({}).\n",
        sizes.nearest_mib(),
        at_once.nearest_mib(),
        when::show(at_ms, now)
    ))
}

fn proof_text(answer: &Sizes) -> String {
    let columns = [left("RULE"), right("SIZES"), right("SLACK%"), right("SHORT"), right("BY MiB")];
    let mut table = Table::new(&columns);
    for Tried { rule, proof } in &answer.advice.tried {
        let Some(proof) = proof else { continue };
        table.row([
            rule.name().to_owned(),
            mib(Some(proof.size)),
            percent(proof.slack_permille),
            answer.minutes(proof.short_steps).to_string(),
            mib(Some(mean_short(proof))),
        ]);
    }
    if answer.advice.tried.iter().all(|tried| tried.proof.is_none()) {
        return "\nThe recorded time is too short to judge the rules.\n".into();
    }
    let told = fitted_to_stdout(
        "\nRules that compute sizes, fitted on the first two thirds of the time and tested on the \
         last third. SLACK% is the unused part of the sizes, SHORT the number of minutes in which \
         a guest needed more, and BY the mean lack.\n",
    );
    told + &below_line(&table)
}

fn mean_short(proof: &Proof) -> Bytes {
    Bytes(proof.short.0.checked_div(proof.short_steps).unwrap_or(0))
}

/// Formats a cell of CSV. A missing value is an empty cell.
fn cell(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn csv(answer: &Sizes) -> String {
    let mut out = String::new();
    csv_record(&mut out, HEAD);
    for guest in &answer.advice.guests {
        let memory = guest.memory;
        let proof = ours(guest);
        let cells = [
            csv_text(&guest.name).into_owned(),
            csv_text(&guest.uuid).into_owned(),
            csv_text(&guest.class).into_owned(),
            guest.verdict.name().to_owned(),
            (guest.known_ms / 1000).to_string(),
            cell(guest.has.map(|size| size.0)),
            cell(memory.map(|memory| memory.size.0)),
            cell(memory.map(|memory| memory.lower.0)),
            cell(memory.map(|memory| memory.upper.0)),
            cell(guest.minimum.map(|size| size.0)),
            cell(guest.vcpus),
            cell(guest.cpus.map(|cpus| cpus.size)),
            cell(guest.cpus.map(|cpus| cpus.lower)),
            cell(guest.cpus.map(|cpus| cpus.upper)),
            cell(guest.shares.map(u64::from)),
            answer.minutes(guest.short_steps).to_string(),
            guest.kills.to_string(),
            cell(proof.map(|proof| proof.slack_permille)),
            cell(proof.map(|proof| answer.minutes(proof.short_steps))),
        ];
        csv_record(&mut out, cells);
    }
    out
}

const HEAD: [&str; 19] = [
    "guest",
    "uuid",
    "class",
    "verdict",
    "known_s",
    "has_bytes",
    "size_bytes",
    "lower_bytes",
    "upper_bytes",
    "minimum_bytes",
    "vcpus",
    "cpus",
    "cpus_lower",
    "cpus_upper",
    "shares",
    "short_minutes",
    "oom_kills",
    "proof_slack_permille",
    "proof_short_minutes",
];

fn ours(guest: &Sizing) -> Option<Proof> {
    guest.tried.iter().find(|tried| tried.rule == Rule::Pinhead)?.proof
}
