//! HTTP loads: `pinhead-lab load web` and `pinhead-lab load wipe`.

use super::args::{Summary, TargetArgs, WebArgs, WipeArgs};
use super::farm;
use super::screen::Screen;
use crate::Error;
use lab::load::{Outcome, Pattern, Plan, Progress, Reuse, Target, class_by_tens, parse_targets};
use pinhead::args::Format;
use pinhead::escape::{json, plain_lines};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of file descriptors that this process needs in addition to its connections.
const FILES_BESIDE: u64 = 64;

pub(super) fn web(args: &WebArgs) -> Result<Summary, Error> {
    let in_flight_max = args.in_flight as usize;
    let pattern = match (args.rate, args.random) {
        (Some(rate), Some(seed)) => Pattern::Random { rate, in_flight_max, seed },
        (Some(rate), None) => Pattern::Open { rate, in_flight_max },
        (None, _) => Pattern::Closed {
            clients: args.clients as usize,
            expected_interval: args.interval.map(Duration::from_millis),
        },
    };
    let plan = Plan {
        targets: targets(&args.targets)?,
        pattern,
        duration: Duration::from_secs(args.seconds),
        timeout: Duration::from_secs(args.timeout),
        reuse: if args.keep_alive { Reuse::KeepAlive } else { Reuse::Close },
    };
    put_on(&plan, args.format)
}

pub(super) fn wipe(args: &WipeArgs) -> Result<Summary, Error> {
    let mut targets = targets(&args.targets)?;
    class_by_tens(&mut targets);
    let plan = Plan {
        targets,
        pattern: Pattern::Once { clients: args.clients as usize },
        duration: lab::load::DURATION_MAX,
        timeout: Duration::from_secs(args.timeout),
        reuse: Reuse::Close,
    };
    put_on(&plan, args.format)
}

fn targets(args: &TargetArgs) -> Result<Vec<Target>, Error> {
    if args.farm.is_some() {
        return farm::targets(args);
    }
    let mut targets = Vec::new();
    for text in &args.targets {
        targets.extend(parse_targets(text, text)?);
    }
    Ok(targets)
}

fn put_on(plan: &Plan, format: Format) -> Result<Summary, Error> {
    plan.check()?;
    make_room(plan);
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, is_ended.clone())
            .map_err(|e| Error::step("Cannot collect signals", e))?;
    }
    let mut screen = Screen::new();
    let outcome = lab::load::run(plan, &mut |progress| {
        let Progress { elapsed_us, answered, failed } = *progress;
        let elapsed = Duration::from_micros(elapsed_us);
        let done = match plan.pattern {
            Pattern::Once { .. } => (answered + failed, plan.targets.len() as u64),
            _ => (elapsed.as_secs(), plan.duration.as_secs()),
        };
        screen.show(elapsed, &format!("{answered} answered, {failed} failed"), Some(done));
        match is_ended.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    drop(screen);
    summary(&outcome, format)
}

/// Raises the limit of open files to the number of files that the load needs, if this user may.
/// Otherwise some requests fail, and are counted as `exhausted`.
fn make_room(plan: &Plan) {
    let kept = if plan.reuse == Reuse::KeepAlive { plan.targets.len() } else { 0 };
    let files = (plan.slots() + kept) as u64 + FILES_BESIDE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < files) {
        let current = Some(maximum.map_or(files, |maximum| maximum.min(files)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

fn summary(outcome: &Outcome, format: Format) -> Result<Summary, Error> {
    let text = match format {
        Format::Json => json(&outcome.to_json())?,
        // Names of guests and of targets are untrusted, so control characters are escaped, line by
        // line.
        Format::Text => plain_lines(&outcome.to_text()),
    };
    Ok(Summary { text, failed: outcome.all.failed_all() })
}
