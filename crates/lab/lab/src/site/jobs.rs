//! Loads of experiments: requests from outside, such as the wipe over all servers, and jobs inside
//! guests.

use super::Guest;
use crate::load::{self, Exec, Job, Outcome, Pattern, Plan, Reuse, Target, class_by_tens};
use crate::{Error, Measures};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit for a request: the longest time in the published study.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the response of a running server.
const SOON: Duration = Duration::from_secs(2);
/// Time limit for a probe. A server that takes longer counts as not serving the page.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// Time limit for a wipe over a thousand slow servers.
pub const WIPE_MAX: Duration = Duration::from_secs(3600);

/// One request after the other, one for each target.
pub const ONE_BY_ONE: Pattern = Pattern::Once { clients: 1 };

/// Sends one request to every server, and notes the latencies of all servers, and of each class of
/// ten servers.
pub fn wipe(measures: &mut Measures, targets: Vec<Target>) -> Result<(), Error> {
    wipe_until(measures, targets, &NEVER)
}

/// Runs a wipe, which ends early if a flag is set.
pub fn wipe_until(
    measures: &mut Measures,
    mut targets: Vec<Target>,
    is_over: &AtomicBool,
) -> Result<(), Error> {
    class_by_tens(&mut targets);
    let outcome = load_until(measures, targets, ONE_BY_ONE, WIPE_MAX, is_over)?;
    for class in outcome.classes {
        let average = class.tally.latency_us().map(|l| l.average_us as f64 / 1e6);
        measures.note(&format!("average of {}", class.name), "s", average);
    }
    Ok(())
}

/// Returns true if a page is served now.
pub fn answers(page: &Target) -> Result<bool, Error> {
    Ok(run(vec![page.clone()], ONE_BY_ONE, SOON, SOON, &NEVER)?.all.answered == 1)
}

/// Requests a page, and returns the latency in seconds. The latency is infinite if the page is not
/// served.
pub fn probe(page: &Target) -> Result<f64, Error> {
    let answer = run(vec![page.clone()], ONE_BY_ONE, PROBE_MAX, PROBE_MAX, &NEVER)?.all;
    Ok(match answer.latency_us() {
        Some(latency) if answer.answered == 1 => latency.max_us as f64 / 1e6,
        _ => f64::INFINITY,
    })
}

/// Runs a load on servers for at most this long, and notes latencies.
pub fn load(
    measures: &mut Measures,
    targets: Vec<Target>,
    pattern: Pattern,
    duration: Duration,
) -> Result<Outcome, Error> {
    load_until(measures, targets, pattern, duration, &NEVER)
}

/// Runs a load until a flag is set, and for at most this long.
pub fn load_until(
    measures: &mut Measures,
    targets: Vec<Target>,
    pattern: Pattern,
    longest: Duration,
    is_over: &AtomicBool,
) -> Result<Outcome, Error> {
    let outcome = run(targets, pattern, longest, TIMEOUT, is_over)?;
    note(measures, &outcome);
    Ok(outcome)
}

/// Flag for loads that no other thread ends.
static NEVER: AtomicBool = AtomicBool::new(false);

fn run(
    targets: Vec<Target>,
    pattern: Pattern,
    duration: Duration,
    timeout: Duration,
    is_over: &AtomicBool,
) -> Result<Outcome, Error> {
    let plan = Plan { targets, pattern, duration, timeout, reuse: Reuse::Close };
    let mut watch = |_: &load::Progress| match crate::stop::check_stop() {
        Ok(()) if !is_over.load(Ordering::Relaxed) => ControlFlow::Continue(()),
        Ok(()) | Err(_) => ControlFlow::Break(()),
    };
    let outcome = load::run(&plan, &mut watch)?;
    // A load interrupted by a signal gives no figure.
    crate::stop::check_stop()?;
    Ok(outcome)
}

/// Runs a job in several guests at once, and returns the seconds of each round. `dir` is a
/// directory in the guests.
pub fn inside(
    site: &dyn Exec,
    guests: &[Guest],
    job: &Job,
    dir: &str,
    limit: Duration,
) -> Result<Vec<Vec<f64>>, Error> {
    let names: Vec<String> = guests.iter().map(|guest| guest.name.clone()).collect();
    let reports = load::job::run(site, &names, job, dir, limit, &mut |_| {})?;
    reports.into_iter().map(|report| Ok(report.rounds_s?)).collect()
}

fn note(measures: &mut Measures, outcome: &Outcome) {
    let tally = &outcome.all;
    measures.note("answered", "", tally.answered as f64);
    measures.note("failed", "", tally.failed_all() as f64);
    measures.note("throughput", "1/s", outcome.requests_per_s(tally));
    if let Some(latency) = tally.latency_us() {
        for (name, us) in [
            ("average", latency.average_us),
            ("p50", latency.p50_us),
            ("p90", latency.p90_us),
            ("p95", latency.p95_us),
            ("p99", latency.p99_us),
            ("max", latency.max_us),
        ] {
            measures.note(name, "s", us as f64 / 1e6);
        }
    }
}
