//! Results for programs: the shapes of `--format json` and of the Python package.
//!
//! Sizes are in bytes, and times in milliseconds since 1970. Names end in the unit.

use crate::backtest::fit::Fit;
use crate::backtest::replay::Played;
use crate::backtest::sizes::Sizes;
use crate::{Agreement, Replayed, Sizing, Tally, Tried};
use serde::Serialize;

/// Recorded passes, replayed unchanged and in another world.
#[derive(Debug, Serialize)]
pub struct ReplayDocument {
    pub recorded: RunDocument,
    pub agreement: Option<AgreementDocument>,
    pub other: Option<RunDocument>,
}

/// Agreement of replayed decisions with the journal.
#[derive(Debug, Serialize)]
pub struct AgreementDocument {
    pub decisions: u64,
    pub same: u64,
    pub moves: u64,
    pub same_moves: u64,
}

impl AgreementDocument {
    /// Creates the document of an agreement.
    pub fn of(agreement: &Agreement) -> AgreementDocument {
        let Agreement { all, same, moves, same_moves, .. } = *agreement;
        AgreementDocument { decisions: all, same, moves, same_moves }
    }
}

/// The result of one replay.
#[derive(Debug, Serialize)]
pub struct RunDocument {
    pub policy: String,
    pub from_ms: i64,
    pub to_ms: i64,
    pub passes: u64,
    pub missing: u64,
    pub unread: u64,
    pub managers: u64,
    pub total: TallyDocument,
    pub host: HostDocument,
    pub guests: Vec<GuestDocument>,
}

/// The host's part of a replay.
#[derive(Debug, Serialize)]
pub struct HostDocument {
    pub seconds: u64,
    pub mean_available_bytes: Option<u64>,
    pub least_available_bytes: Option<u64>,
    pub below_set_point_s: u64,
    pub below_reserve_s: u64,
}

/// A guest's part of a replay.
#[derive(Debug, Serialize)]
pub struct GuestDocument {
    pub guest: String,
    #[serde(flatten)]
    pub tally: TallyDocument,
}

/// Sums over the replayed time, for a guest or for all guests.
#[derive(Debug, Serialize)]
pub struct TallyDocument {
    pub there_s: u64,
    pub had_byte_seconds: f64,
    pub resident_byte_seconds: f64,
    pub unmet_byte_seconds: f64,
    pub short_s: u64,
    pub grows: u64,
    pub shrinks: u64,
}

/// Number of further guests that fit.
#[derive(Debug, Serialize)]
pub struct FitDocument {
    pub like: String,
    pub count: u32,
    pub is_bound: bool,
    pub with: TallyDocument,
    pub beyond: Option<TallyDocument>,
    /// Kind of shortage that one more guest causes: `reserve` or `needs`.
    pub limit: Option<&'static str>,
}

impl TallyDocument {
    /// Creates the document of a tally.
    pub fn of(tally: &Tally) -> TallyDocument {
        let area = |area: u128| area as f64 / 1000.0;
        TallyDocument {
            there_s: tally.there_ms / 1000,
            had_byte_seconds: area(tally.had),
            resident_byte_seconds: area(tally.resident),
            unmet_byte_seconds: area(tally.unmet),
            short_s: tally.short_ms / 1000,
            grows: tally.grows,
            shrinks: tally.shrinks,
        }
    }
}

impl RunDocument {
    /// Creates the document of a replay.
    pub fn of(policy: &str, played: &Played) -> RunDocument {
        let player = &played.player;
        let host = player.host();
        let guest = |(name, tally): (&str, &Tally)| GuestDocument {
            guest: name.to_owned(),
            tally: TallyDocument::of(tally),
        };
        RunDocument {
            policy: policy.to_owned(),
            from_ms: played.from_ms,
            to_ms: played.to_ms,
            passes: player.passes(),
            missing: player.missing(),
            unread: player.unread(),
            managers: player.starts(),
            total: TallyDocument::of(&player.total()),
            host: HostDocument {
                seconds: host.ms / 1000,
                mean_available_bytes: host.mean_available().map(|mean| mean.0),
                least_available_bytes: host.least.map(|least| least.0),
                below_set_point_s: host.below_ms / 1000,
                below_reserve_s: host.below_reserve_ms / 1000,
            },
            guests: player.guests().map(guest).collect(),
        }
    }
}

/// The recommended sizes of guests.
#[derive(Debug, Serialize)]
pub struct SizesDocument {
    pub from_ms: i64,
    pub to_ms: i64,
    pub step_ms: u64,
    pub percentile_permille: u64,
    pub headroom_permille: u64,
    pub guests: Vec<SizeDocument>,
    pub sizes_bytes: u64,
    pub needed_at_once_bytes: u64,
    pub needed_at_once_ms: i64,
    pub rules: Vec<RuleDocument>,
}

/// The recommended size of a guest.
#[derive(Debug, Serialize)]
pub struct SizeDocument {
    pub guest: String,
    pub uuid: String,
    pub class: String,
    pub verdict: &'static str,
    pub known_s: u64,
    pub has_bytes: Option<u64>,
    pub memory_bytes: Option<Range>,
    pub minimum_bytes: Option<u64>,
    pub vcpus: Option<u64>,
    pub cpus: Option<Range>,
    pub shares: Option<u32>,
    pub short_minutes: u64,
    pub oom_kills: u64,
    pub rules: Vec<RuleDocument>,
}

/// A size with its bounds.
#[derive(Debug, Serialize)]
pub struct Range {
    pub size: u64,
    pub lower: u64,
    pub upper: u64,
}

/// A rule that is fitted on the first two thirds of the time, and judged by the last third.
#[derive(Debug, Serialize)]
pub struct RuleDocument {
    pub rule: &'static str,
    pub size_bytes: u64,
    pub judged_minutes: u64,
    pub slack_permille: u64,
    pub short_minutes: u64,
    pub short_bytes_minutes: u64,
}

impl SizesDocument {
    /// Creates the document of recommended sizes.
    pub fn of(answer: &Sizes) -> SizesDocument {
        let advice = &answer.advice;
        let step_ms = |steps: usize| steps as i64 * answer.question.span.step_ms;
        SizesDocument {
            from_ms: answer.from_ms,
            to_ms: answer.from_ms + step_ms(answer.past.steps),
            step_ms: answer.past.step_ms,
            percentile_permille: answer.question.options.percentile_permille,
            headroom_permille: answer.question.options.headroom_permille,
            guests: advice.guests.iter().map(|guest| SizeDocument::of(guest, answer)).collect(),
            sizes_bytes: advice.together.sizes.0,
            needed_at_once_bytes: advice.together.at_once.0,
            needed_at_once_ms: answer.from_ms + step_ms(advice.together.step),
            rules: rules(&advice.tried, answer),
        }
    }
}

impl SizeDocument {
    /// Creates the document of a guest's size.
    pub fn of(guest: &Sizing, answer: &Sizes) -> SizeDocument {
        let range = |size, lower, upper| Range { size, lower, upper };
        SizeDocument {
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
            short_minutes: answer.minutes(guest.short_steps),
            oom_kills: guest.kills,
            rules: rules(&guest.tried, answer),
        }
    }
}

fn rules(tried: &[Tried], answer: &Sizes) -> Vec<RuleDocument> {
    let one = |tried: &Tried| {
        let proof = tried.proof?;
        Some(RuleDocument {
            rule: tried.rule.name(),
            size_bytes: proof.size.0,
            judged_minutes: answer.minutes(proof.steps),
            slack_permille: proof.slack_permille,
            short_minutes: answer.minutes(proof.short_steps),
            short_bytes_minutes: answer.minutes(proof.short.0),
        })
    };
    tried.iter().filter_map(one).collect()
}

/// A decision of a replayed policy.
#[derive(Debug, Serialize)]
pub struct DecisionDocument<'a> {
    pub at_ms: i64,
    pub guest: &'a str,
    pub action: &'static str,
    pub clause: &'static str,
    pub from_bytes: u64,
    pub to_bytes: u64,
    pub moves: bool,
    pub reason: &'a str,
}

impl DecisionDocument<'_> {
    /// Creates the document of a replayed decision.
    pub fn of(one: &Replayed) -> DecisionDocument<'_> {
        DecisionDocument {
            at_ms: one.at_ms,
            guest: &one.who.name,
            action: one.action.name(),
            clause: one.clause.name(),
            from_bytes: one.from.0,
            to_bytes: one.to.0,
            moves: one.moves,
            reason: &one.reason,
        }
    }
}

impl FitDocument {
    /// Builds the output document from the result of a fit.
    pub fn of(fit: &Fit, like: &str) -> FitDocument {
        FitDocument {
            like: like.to_owned(),
            count: fit.count,
            is_bound: fit.is_bound,
            with: TallyDocument::of(&fit.with),
            beyond: fit.beyond.as_ref().map(TallyDocument::of),
            limit: fit.limit.map(|(_, shortage)| shortage.name()),
        }
    }
}
