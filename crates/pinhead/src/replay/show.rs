//! Results of a replay, as text and as JSON.

use crate::Error;
use crate::args::Format;
use crate::escape::json;
use crate::listing::below_line;
use base::{Bytes, Table, counted, left, plain, right};
use settings::Share;
use whatif::backtest::{
    AgreementDocument, Fit, FitDocument, Played, ReplayDocument, RunDocument, Shortage,
};
use whatif::{Agreement, Difference, Replayed, Tally};
use why::when::{self, Now};

const GUESTS: usize = 20;
const DIFFERENCES: usize = 5;
/// Maximum length of a name, and of a reason, in characters.
const NAME_MAX: usize = 24;
const REASON_MAX: usize = 120;

/// Formats a product of bytes and milliseconds as GiB·h, in hundredths.
fn gib_hours(area: u128) -> String {
    let hundredths = area * 100 / (u128::from(base::GIB) * 3_600_000);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Formats a product of bytes and milliseconds as MiB minutes.
fn mib_minutes(area: u128) -> String {
    (area / (u128::from(base::MIB) * 60_000)).to_string()
}

fn seconds(ms: u64) -> String {
    (ms / 1000).to_string()
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        whole => {
            let permille = u128::from(part) * 1000 / u128::from(whole);
            Share::Permille(u64::try_from(permille).unwrap_or(u64::MAX)).to_string()
        }
    }
}

pub(super) fn replay(
    played: &Played,
    agreement: Option<&Agreement>,
    other: Option<&(String, Played)>,
    format: Format,
    now: &Now,
) -> Result<String, Error> {
    if format == Format::Json {
        let named = other.map(|(name, other)| RunDocument::of(name, other));
        return json(&ReplayDocument {
            recorded: RunDocument::of("recorded", played),
            agreement: agreement.map(AgreementDocument::of),
            other: named,
        });
    }
    let mut out = head(played, now);
    out.push_str(&match agreement {
        Some(agreement) => agreement_text(agreement, now),
        None => "No journal covers this time, so the decisions were not compared.\n".into(),
    });
    let mut runs = vec![("recorded", played)];
    runs.extend(other.map(|(name, other)| (name.as_str(), other)));
    out.push_str(&table(&runs));
    if let Some((name, other)) = other {
        out.push_str(&parted(played, name, other, now));
    }
    out.push_str(&guests(&runs));
    Ok(out)
}

pub(super) fn simulate(
    played: &Played,
    other: &Played,
    format: Format,
    now: &Now,
) -> Result<String, Error> {
    if format == Format::Json {
        return json(&ReplayDocument {
            recorded: RunDocument::of("recorded", played),
            agreement: None,
            other: Some(RunDocument::of("simulated", other)),
        });
    }
    let runs = [("recorded", played), ("simulated", other)];
    let mut out = head(played, now) + &table(&runs);
    out.push_str(&breaks(other));
    out.push_str(&guests(&runs));
    Ok(out)
}

pub(super) fn fit(fit: &Fit, like: &str, format: Format) -> Result<String, Error> {
    if format == Format::Json {
        return json(&FitDocument::of(fit, like));
    }
    let like = plain(like, 60);
    let more = counted(fit.count.into(), "more guest");
    let Some((beyond, shortage)) = fit.limit else {
        return Ok(format!("At least {more} like {like} fit. A larger number was not tried.\n"));
    };
    let verb = if fit.count == 1 { "fits" } else { "fit" };
    let why = match shortage {
        Shortage::Reserve => format!(
            "with one more guest the host would be below its reserve for {} s instead of {} s",
            seconds(beyond.below_reserve_ms),
            seconds(fit.host.below_reserve_ms)
        ),
        Shortage::Needs => format!(
            "with one more guest, needs would exceed free memory by {} MiB·min instead of {} \
             MiB·min",
            mib_minutes(beyond.lacked),
            mib_minutes(fit.host.lacked)
        ),
    };
    Ok(format!(
        "{more} like {like} {verb}. The limit is the memory of the host: {why}. CPUs are not \
         considered.\n"
    ))
}

fn head(played: &Played, now: &Now) -> String {
    let player = &played.player;
    let mut out = format!(
        "{} passes from {} to {}",
        player.passes(),
        when::show(played.from_ms, now),
        when::show(played.to_ms, now)
    );
    if player.starts() > 1 {
        out.push_str(&format!(", of {} successive managers", player.starts()));
    }
    if player.missing() > 0 {
        out.push_str(&format!("; {} passes are missing", player.missing()));
    }
    if player.unread() > 0 {
        out.push_str(&format!(
            "; passes of a later version, which are not replayed: {}",
            player.unread()
        ));
    }
    out + ".\n"
}

fn agreement_text(agreement: &Agreement, now: &Now) -> String {
    let Agreement { all, same, moves, same_moves, differences } = agreement;
    let mut out = format!(
        "Same decisions as in the journal: {same} of {all} ({}), with {same_moves} of {moves} \
         moves.\n",
        percent(*same, *all)
    );
    for difference in differences.iter().take(DIFFERENCES) {
        out.push_str(&difference_text(difference, now));
    }
    if differences.len() > DIFFERENCES {
        out.push_str("  ...\n");
    }
    if same < all {
        out.push_str("Decisions differ if another version of pinhead made those in the journal.\n");
    }
    out
}

fn difference_text(difference: &Difference, now: &Now) -> String {
    let recorded = difference.recorded.as_ref().map_or_else(
        || "nothing".to_owned(),
        |one| format!("{} {}", one.action, sizes(one.from, one.to)),
    );
    let replayed = difference.replayed.as_ref().map_or_else(
        || "nothing".to_owned(),
        |one| format!("{} {}", one.action.told(one.clause), sizes(one.from, one.to)),
    );
    format!(
        "  {} {}: {recorded} in the journal, {replayed} now\n",
        when::show(difference.at_ms, now),
        plain(&difference.guest, NAME_MAX)
    )
}

fn sizes(from: Bytes, to: Bytes) -> String {
    match from == to {
        true => format!("{} MiB", to.nearest_mib()),
        false => format!("{} -> {} MiB", from.nearest_mib(), to.nearest_mib()),
    }
}

fn table(runs: &[(&str, &Played)]) -> String {
    let columns = [
        left("POLICY").most(NAME_MAX),
        right("HAD GiB·h"),
        right("IN HOST GiB·h"),
        right("NOT MET MiB·min"),
        right("FOR s").rank(1),
        right("UP moves").rank(3),
        right("DOWN moves").rank(3),
        right("FREE MiB").rank(4),
        right("LEAST MiB").rank(5),
        right("BELOW s").rank(2),
        right("RESERVE s").rank(6),
    ];
    let mut table = Table::new(&columns);
    for (name, run) in runs {
        let (total, host) = (run.player.total(), run.player.host());
        table.row([
            (*name).to_owned(),
            gib_hours(total.had),
            gib_hours(total.resident),
            mib_minutes(total.unmet),
            seconds(total.short_ms),
            total.grows.to_string(),
            total.shrinks.to_string(),
            host.mean_available().unwrap_or(Bytes::ZERO).nearest_mib().to_string(),
            host.least.map_or_else(|| "-".into(), |least| least.nearest_mib().to_string()),
            seconds(host.below_ms),
            seconds(host.below_reserve_ms),
        ]);
    }
    below_line(&table)
}

/// Describes the first difference between two policies, and its reason.
fn parted(played: &Played, name: &str, other: &Played, now: &Now) -> String {
    let mut ours = played.decisions.iter().filter(|one| one.moves);
    let mut theirs = other.decisions.iter().filter(|one| one.moves);
    loop {
        let (a, b) = (ours.next(), theirs.next());
        let key = |one: Option<&Replayed>| one.map(|one| (one.at_ms, one.who.name.clone(), one.to));
        match (a, b) {
            (None, None) => return "No difference.\n".into(),
            (a, b) if key(a) == key(b) => {}
            (a, b) => {
                let at_ms = |one: Option<&Replayed>| one.map_or(i64::MAX, |one| one.at_ms);
                let (who, one) = if at_ms(a) <= at_ms(b) { ("recorded", a) } else { (name, b) };
                let Some(one) = one else { return String::new() };
                return format!(
                    "First difference at {}: {}, {} {}: {}\n",
                    when::show(one.at_ms, now),
                    plain(who, NAME_MAX),
                    plain(&one.who.name, NAME_MAX),
                    format_args!("{} {}", one.action.name(), sizes(one.from, one.to)),
                    plain(&one.reason, REASON_MAX)
                );
            }
        }
    }
}

/// Describes the unmet needs in a simulation, and names the guest most affected.
fn breaks(other: &Played) -> String {
    let mut worst: Vec<(&str, &Tally)> =
        other.player.guests().filter(|(_, tally)| tally.unmet > 0).collect();
    worst.sort_by_key(|(name, tally)| (std::cmp::Reverse(tally.unmet), name.to_owned()));
    let host = other.player.host();
    let below = match host.below_reserve_ms {
        0 => String::new(),
        ms => format!(" The host has less than its reserve for {} s.", seconds(ms)),
    };
    match worst.first() {
        Some((name, tally)) => format!(
            "The needs of {} are not met. {} lacks most: {} MiB·min within {} s.{below}\n",
            counted(worst.len() as u64, "guest"),
            plain(name, NAME_MAX),
            mib_minutes(tally.unmet),
            seconds(tally.short_ms)
        ),
        None => format!("Every need is met.{below}\n"),
    }
}

/// Lists the guests, those with the largest unmet need first.
fn guests(runs: &[(&str, &Played)]) -> String {
    let columns = [
        left("GUEST").most(NAME_MAX),
        left("POLICY").most(NAME_MAX),
        right("HAD MiB"),
        right("IN HOST MiB").rank(2),
        right("NOT MET MiB·min"),
        right("FOR s").rank(1),
        right("UP moves").rank(3),
        right("DOWN moves").rank(3),
    ];
    let Some((_, last)) = runs.last() else { return String::new() };
    let mut order: Vec<(&str, &Tally)> = last.player.guests().collect();
    order.sort_by_key(|(name, tally)| {
        (std::cmp::Reverse(tally.unmet), std::cmp::Reverse(tally.moves()), name.to_owned())
    });
    let mut table = Table::new(&columns);
    for (name, _) in order.iter().take(GUESTS) {
        for (policy, run) in runs {
            let found = run.player.guests().find(|(other, _)| other == name);
            let Some((_, tally)) = found else { continue };
            let mean = |area: u128| {
                let mean = area.checked_div(u128::from(tally.there_ms)).unwrap_or(0);
                (mean / u128::from(base::MIB)).to_string()
            };
            table.row([
                (*name).to_owned(),
                (*policy).to_owned(),
                mean(tally.had),
                mean(tally.resident),
                mib_minutes(tally.unmet),
                seconds(tally.short_ms),
                tally.grows.to_string(),
                tally.shrinks.to_string(),
            ]);
        }
    }
    if order.len() > GUESTS {
        table.note(&format!("and {} more guests", order.len() - GUESTS));
    }
    below_line(&table)
}
