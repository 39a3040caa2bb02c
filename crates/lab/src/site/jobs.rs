//! Loads from outside as experiments use them: the wipe over all servers, clients without think
//! time, a rate.

use crate::{Error, Measures};
use load::{Outcome, Pattern, Plan, Reuse, Tally, Target, class_by_tens};
use std::ops::ControlFlow;
use std::time::Duration;

/// A request that takes longer than the published study's worst has failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A server that is there answers in this time.
const SOON: Duration = Duration::from_secs(2);
/// A wipe over a thousand servers that each take long.
const WIPE_MAX: Duration = Duration::from_secs(3600);

/// Hits every server once, `clients` at a time, and notes latencies: of all, and by class of ten.
pub fn wipe(
    measures: &mut Measures,
    mut targets: Vec<Target>,
    clients: usize,
) -> Result<Outcome, Error> {
    class_by_tens(&mut targets);
    let outcome = run(Plan {
        targets,
        pattern: Pattern::Once { clients },
        duration: WIPE_MAX,
        timeout: TIMEOUT,
        reuse: Reuse::Close,
    })?;
    note(measures, &outcome, outcome.all());
    for class in outcome.classes() {
        let average = class.tally.latency_us().map(|l| l.average_us as f64 / 1e6);
        measures.note_some(&format!("average of {}", class.name), "s", average);
    }
    Ok(outcome)
}

/// Hits one server so often, one hit after the other.
pub fn count(measures: &mut Measures, targets: Vec<Target>, hits: usize) -> Result<Outcome, Error> {
    let targets: Vec<Target> = targets.iter().cycle().take(hits).cloned().collect();
    let pattern = Pattern::Once { clients: 1 };
    let plan = Plan { targets, pattern, duration: WIPE_MAX, timeout: TIMEOUT, reuse: Reuse::Close };
    let outcome = run(plan)?;
    note(measures, &outcome, outcome.all());
    Ok(outcome)
}

/// Whether a page is served now.
pub fn answers(page: &Target) -> Result<bool, Error> {
    let targets = vec![page.clone()];
    let pattern = Pattern::Once { clients: 1 };
    let plan = Plan { targets, pattern, duration: SOON, timeout: SOON, reuse: Reuse::Close };
    Ok(run(plan)?.all().answered() == 1)
}

/// Clients without think time, for so long.
pub fn closed(
    measures: &mut Measures,
    targets: Vec<Target>,
    clients: usize,
    duration: Duration,
) -> Result<Outcome, Error> {
    let pattern = Pattern::Closed { clients, expected_interval: None };
    let plan = Plan { targets, pattern, duration, timeout: TIMEOUT, reuse: Reuse::Close };
    let outcome = run(plan)?;
    note(measures, &outcome, outcome.all());
    Ok(outcome)
}

/// Requests at a rate, for so long.
pub fn open(
    measures: &mut Measures,
    targets: Vec<Target>,
    rate: f64,
    duration: Duration,
) -> Result<Outcome, Error> {
    let pattern = Pattern::Open { rate, in_flight_max: 1000 };
    let plan = Plan { targets, pattern, duration, timeout: TIMEOUT, reuse: Reuse::Close };
    let outcome = run(plan)?;
    note(measures, &outcome, outcome.all());
    Ok(outcome)
}

fn run(plan: Plan) -> Result<Outcome, Error> {
    let mut watch = |_: &load::Progress| match crate::stop::check_stop() {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    load::run(&plan, &mut watch).map_err(|error| Error::Failed(base::chain(&error)))
}

/// Notes a tally: answers, failures, rate, latencies in seconds.
pub fn note(measures: &mut Measures, outcome: &Outcome, tally: &Tally) {
    measures.note("answered", "", tally.answered() as f64);
    measures.note("failed", "", tally.failed_all() as f64);
    measures.note_some("throughput", "1/s", outcome.requests_per_s(tally));
    if let Some(latency) = tally.latency_us() {
        for (name, us) in [
            ("average", latency.average_us),
            ("p50", latency.p50_us),
            ("p90", latency.p90_us),
            ("p99", latency.p99_us),
            ("max", latency.max_us),
        ] {
            measures.note(name, "s", us as f64 / 1e6);
        }
    }
}
