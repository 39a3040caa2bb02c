//! Sizes as a table, as CSV and as JSON.

use super::{Answer, SizeFormat};
use crate::Error;
use crate::escape::json;
use base::{Bytes, Table, csv_record, csv_text, left, right};
use serde::Serialize;
use whatif::{Proof, Rule, Sizing, Together, Tried};
use why::when::{self, Now};

/// Characters of a name.
const NAME_MAX: usize = 24;

pub(super) fn show(answer: &Answer, format: SizeFormat, now: &Now) -> Result<String, Error> {
    match format {
        SizeFormat::Text => Ok(text(answer, now)),
        SizeFormat::Csv => Ok(csv(answer)),
        SizeFormat::Json => json(&Document::of(answer)),
    }
}

fn mib(size: Option<Bytes>) -> String {
    size.map_or_else(|| "-".into(), |size| size.as_mib().to_string())
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn percent(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

fn minutes(steps: u64, answer: &Answer) -> u64 {
    steps.saturating_mul(answer.past.step_ms) / 60_000
}

fn hours(ms: u64) -> String {
    format!("{}.{} h", ms / 3_600_000, ms % 3_600_000 / 360_000)
}

fn text(answer: &Answer, now: &Now) -> String {
    let columns = [
        left("GUEST").most(NAME_MAX),
        right("HAS"),
        right("SIZE"),
        right("FROM"),
        right("TO"),
        right("MIN"),
        right("CPUS"),
        right("OF"),
        right("SHARES"),
        right("SHORT"),
        right("KILLS"),
        right("KNOWN"),
        left("SO IT IS"),
    ];
    let mut table = Table::new(&columns);
    for guest in &answer.advice.guests {
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
            number(Some(minutes(guest.short_steps, answer))),
            number(Some(guest.kills)),
            hours(guest.known_ms),
            guest.verdict.to_string(),
        ]);
    }
    let to_ms = answer.from_ms + (answer.past.steps as i64) * answer.question.span.step_ms;
    let mut out = format!(
        "From {} to {}; sizes in MiB; SHORT are minutes in which a guest lacked memory.\n\n",
        when::show(answer.from_ms, now),
        when::show(to_ms.min(now.ms), now)
    );
    out.push_str(&table.text());
    out.push_str(&sum_text(answer, now));
    out.push_str(&proof_text(answer));
    out
}

fn sum_text(answer: &Answer, now: &Now) -> String {
    let Together { sizes, at_once, step } = answer.advice.together;
    let at_ms = answer.from_ms + (step as i64) * answer.question.span.step_ms;
    format!(
        "\nAll together: sizes of {} MiB, of which at most {} MiB were needed at one time ({}).\n",
        sizes.as_mib(),
        at_once.as_mib(),
        when::show(at_ms, now)
    )
}

fn proof_text(answer: &Answer) -> String {
    let columns = [left("RULE"), right("SIZES"), right("SLACK%"), right("SHORT"), right("BY MiB")];
    let mut table = Table::new(&columns);
    for Tried { rule, proof } in &answer.advice.tried {
        let Some(proof) = proof else { continue };
        table.row([
            rule.name().to_owned(),
            mib(Some(proof.size)),
            percent(proof.slack_permille),
            minutes(proof.short_steps, answer).to_string(),
            mib(Some(mean_short(proof))),
        ]);
    }
    if answer.advice.tried.iter().all(|tried| tried.proof.is_none()) {
        return "\nToo little was recorded to try a rule on a part of it.\n".into();
    }
    format!(
        "\nEach rule on the first two thirds of the time, judged by the last: what of the sizes \
         was idle, in how\nmany minutes a guest needed more, and how much more on average.\n\n{}",
        table.text()
    )
}

fn mean_short(proof: &Proof) -> Bytes {
    Bytes(proof.short.0.checked_div(proof.short_steps).unwrap_or(0))
}

/// A cell of CSV: missing is empty.
fn cell(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn csv(answer: &Answer) -> String {
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
            minutes(guest.short_steps, answer).to_string(),
            guest.kills.to_string(),
            cell(proof.map(|proof| proof.slack_permille)),
            cell(proof.map(|proof| minutes(proof.short_steps, answer))),
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

/// The answer for programs.
#[derive(Debug, Serialize)]
struct Document {
    from_ms: i64,
    to_ms: i64,
    step_ms: u64,
    percentile_permille: u64,
    headroom_permille: u64,
    guests: Vec<GuestDocument>,
    sizes_bytes: u64,
    needed_at_once_bytes: u64,
    needed_at_once_ms: i64,
    rules: Vec<RuleDocument>,
}

#[derive(Debug, Serialize)]
struct GuestDocument {
    guest: String,
    uuid: String,
    class: String,
    verdict: &'static str,
    known_s: u64,
    has_bytes: Option<u64>,
    memory_bytes: Option<Range>,
    minimum_bytes: Option<u64>,
    vcpus: Option<u64>,
    cpus: Option<Range>,
    shares: Option<u32>,
    short_minutes: u64,
    oom_kills: u64,
    rules: Vec<RuleDocument>,
}

#[derive(Debug, Serialize)]
struct Range {
    size: u64,
    lower: u64,
    upper: u64,
}

#[derive(Debug, Serialize)]
struct RuleDocument {
    rule: &'static str,
    size_bytes: u64,
    judged_minutes: u64,
    slack_permille: u64,
    short_minutes: u64,
    short_bytes_minutes: u64,
}

impl Document {
    fn of(answer: &Answer) -> Document {
        let advice = &answer.advice;
        let step_ms = |steps: usize| steps as i64 * answer.question.span.step_ms;
        Document {
            from_ms: answer.from_ms,
            to_ms: answer.from_ms + step_ms(answer.past.steps),
            step_ms: answer.past.step_ms,
            percentile_permille: answer.question.options.percentile_permille,
            headroom_permille: answer.question.options.headroom_permille,
            guests: advice.guests.iter().map(|guest| GuestDocument::of(guest, answer)).collect(),
            sizes_bytes: advice.together.sizes.0,
            needed_at_once_bytes: advice.together.at_once.0,
            needed_at_once_ms: answer.from_ms + step_ms(advice.together.step),
            rules: rules(&advice.tried, answer),
        }
    }
}

impl GuestDocument {
    fn of(guest: &Sizing, answer: &Answer) -> GuestDocument {
        let range = |size, lower, upper| Range { size, lower, upper };
        GuestDocument {
            guest: guest.name.clone(),
            uuid: guest.uuid.clone(),
            class: guest.class.clone(),
            verdict: guest.verdict.name(),
            known_s: guest.known_ms / 1000,
            has_bytes: guest.has.map(|size| size.0),
            memory_bytes: guest.memory.map(|m| range(m.size.0, m.lower.0, m.upper.0)),
            minimum_bytes: guest.minimum.map(|size| size.0),
            vcpus: guest.vcpus,
            cpus: guest.cpus.map(|cpus| range(cpus.size, cpus.lower, cpus.upper)),
            shares: guest.shares,
            short_minutes: minutes(guest.short_steps, answer),
            oom_kills: guest.kills,
            rules: rules(&guest.tried, answer),
        }
    }
}

fn rules(tried: &[Tried], answer: &Answer) -> Vec<RuleDocument> {
    let one = |tried: &Tried| {
        let proof = tried.proof?;
        Some(RuleDocument {
            rule: tried.rule.name(),
            size_bytes: proof.size.0,
            judged_minutes: minutes(proof.steps, answer),
            slack_permille: proof.slack_permille,
            short_minutes: minutes(proof.short_steps, answer),
            short_bytes_minutes: proof.short.0,
        })
    };
    tried.iter().filter_map(one).collect()
}
