//! Loads on test servers on the loopback, with known delays and faults.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod server;

use lab::load::{Failure, Outcome, Pattern, Plan, Progress, Reuse, Target, class_by_tens, run};
use server::{Answer, Server};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

fn plan(servers: &[&Server], pattern: Pattern, duration: Duration) -> Plan {
    let target = |server: &&Server| Target {
        name: server.address().to_string(),
        class: "web".to_owned(),
        address: server.address(),
        path: "/".to_owned(),
    };
    Plan {
        targets: servers.iter().map(target).collect(),
        pattern,
        duration,
        timeout: Duration::from_secs(10),
        reuse: Reuse::Close,
    }
}

fn run_to_end(plan: &Plan) -> Outcome {
    run(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Starts a server that answers the first request after 400 ms, and all later requests after
/// `others_ms`.
fn slow_at_first(others_ms: u64) -> Arc<Server> {
    Server::start(move |n| {
        let delay_ms = if n == 0 { 400 } else { others_ms };
        Answer::page("hello").after(Duration::from_millis(delay_ms))
    })
}

// The bounds on time in these tests are lower bounds, because a busy machine delays responses.
const LATE_US: u64 = 100_000;

#[test]
fn open_loop_charges_a_stall_with_all_requests_it_kept_back() {
    let server = slow_at_first(0);
    let pattern = Pattern::Open { rate: 100.0, in_flight_max: 1 };
    let open = run_to_end(&plan(&[&server], pattern, Duration::from_millis(500)));
    let all = &open.all;
    assert_eq!((all.answered, all.failed_all()), (50, 0));
    // Forty requests were due before the first response. Of these, all but the last ten waited
    // longer than `LATE_US`.
    let late = all.at_least(LATE_US);
    assert!(late >= 30, "{late} late: {}", open.to_text());
    assert!(all.latency_us().unwrap().p50_us > LATE_US, "{}", open.to_text());
}

#[test]
fn closed_loop_is_corrected_for_requests_a_stall_kept_back() {
    let server = slow_at_first(10);
    let expected_interval = Some(Duration::from_millis(10));
    let pattern = Pattern::Closed { clients: 1, expected_interval };
    let closed = run_to_end(&plan(&[&server], pattern, Duration::from_millis(500)));
    let all = &closed.all;
    // After the stall, at most ten requests of 10 ms each begin before the end.
    assert!((1..=11).contains(&all.answered), "{}", closed.to_text());
    assert!(all.at_least(400_000) >= 1, "{}", closed.to_text());
    let corrected = all.corrected_us().unwrap();
    assert!(corrected.p50_us > LATE_US && corrected.p99_us >= 390_000, "{corrected:?}");
    assert!(closed.to_json()["corrected_us"]["p50"].as_u64().unwrap() > LATE_US);
}

#[test]
fn outcome_has_the_latencies_of_the_server() {
    // One response of ten takes a quarter of a second, and the other nine hardly any time.
    let server = Server::start(|n| {
        let delay = if n % 10 == 9 { 250 } else { 0 };
        Answer::page("x").after(Duration::from_millis(delay))
    });
    let pattern = Pattern::Open { rate: 200.0, in_flight_max: 500 };
    let outcome = run_to_end(&plan(&[&server], pattern, Duration::from_millis(1000)));
    let latency = outcome.all.latency_us().unwrap();
    assert_eq!(outcome.all.answered, 200);
    assert_eq!(outcome.all.bytes, 200);
    assert!(outcome.all.at_least(249_000) >= 20, "{}", outcome.to_text());
    assert!(latency.p99_us >= 249_000 && latency.max_us >= latency.p99_us, "{latency:?}");
    assert!(latency.average_us >= 25_000, "{latency:?}");
    let by_second: u64 = outcome.seconds.iter().map(|count| u64::from(*count)).sum();
    assert_eq!(by_second, 200);
}

#[test]
fn every_failure_is_counted_as_what_it_is() {
    let closed = Server::start(|_| Answer::text("").and_close());
    let cut = Server::start(|_| Answer::text("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"));
    let broken = Server::start(|_| Answer::text("220 mail.example ESMTP\r\n\r\n"));
    let sorry = Server::start(|_| Answer::text("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"));
    let silent = Server::start(|_| Answer::never());
    let good = Server::start(|_| Answer::page("yes"));
    let servers = [&closed, &cut, &broken, &sorry, &silent, &good].map(|server| &**server);
    let mut plan = plan(&servers, Pattern::Once { clients: 7 }, Duration::from_secs(10));
    let mut nobody = plan.targets[0].clone();
    nobody.address = server::nobody_listens();
    plan.targets.push(nobody);
    plan.timeout = Duration::from_millis(700);
    let outcome = run_to_end(&plan);
    let all = &outcome.all;
    assert_eq!((all.answered, all.failed_all()), (1, 6));
    assert_eq!(all.failed(Failure::Closed) + all.failed(Failure::Reset), 2);
    for failure in [Failure::Malformed, Failure::Status, Failure::Timeout, Failure::Refused] {
        assert_eq!(all.failed(failure), 1, "{failure:?}: {}", outcome.to_text());
    }
    assert_eq!(outcome.targets[4].tally.failed(Failure::Timeout), 1);
    assert!(outcome.targets[4].tally.latency_us().unwrap().max_us >= 700_000);
    assert_eq!(outcome.to_json()["failures"]["refused"], 1);
}

#[test]
fn a_server_that_refuses_is_not_asked_in_a_hurry() {
    let server = Server::start(|_| Answer::page("x"));
    let pattern = Pattern::Closed { clients: 1, expected_interval: None };
    let mut plan = plan(&[&server], pattern, Duration::from_millis(300));
    plan.targets[0].address = server::nobody_listens();
    let outcome = run_to_end(&plan);
    let refused = outcome.all.failed(Failure::Refused);
    assert!((1..=31).contains(&refused), "{refused}");
}

#[test]
fn a_wipe_asks_every_server_once_and_tells_by_tens() {
    let servers: Vec<_> = (0..23).map(|_| Server::start(|_| Answer::page("page"))).collect();
    let all: Vec<&Server> = servers.iter().map(|server| &**server).collect();
    let mut plan = plan(&all, Pattern::Once { clients: 4 }, Duration::from_secs(60));
    class_by_tens(&mut plan.targets);
    let outcome = run_to_end(&plan);
    assert!(servers.iter().all(|server| server.requests() == 1));
    let classes: Vec<_> = outcome.classes.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(classes, ["1-10", "11-20", "21-23"]);
    let counts: Vec<_> = outcome.classes.iter().map(|row| row.tally.answered).collect();
    assert_eq!(counts, [10, 10, 3]);
    let text = outcome.to_text();
    assert!(text.contains("11-20") && text.contains("and 3 more targets"), "{text}");
}

#[test]
fn a_connection_serves_many_requests_if_it_may() {
    let server = Server::start(|_| Answer::page("kept"));
    let pattern = Pattern::Closed { clients: 2, expected_interval: None };
    let mut plan = plan(&[&server], pattern, Duration::from_secs(3600));
    plan.reuse = Reuse::KeepAlive;
    let run_for_some = |plan: &Plan| {
        let watch = &mut |progress: &Progress| match progress.answered {
            0..=10 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        run(plan, watch).unwrap()
    };
    let outcome = run_for_some(&plan);
    assert_eq!(outcome.all.failed_all(), 0);
    assert!(outcome.all.answered > 10);
    assert!(server.connections() <= 3, "{}", server.connections());

    // A server that closes connections silently causes no failure.
    let server = Server::start(|_| Answer::page("once").and_close());
    plan.targets[0].address = server.address();
    let outcome = run_for_some(&plan);
    assert_eq!(outcome.all.failed_all(), 0, "{}", outcome.to_text());
    assert!(outcome.all.answered > 10);
}

#[test]
fn the_watcher_ends_it() {
    let server = Server::start(|_| Answer::page("x"));
    let pattern = Pattern::Closed { clients: 1, expected_interval: None };
    let plan = plan(&[&server], pattern, Duration::from_secs(3600));
    let outcome = run(&plan, &mut |progress| {
        if progress.elapsed_us > 300_000 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.is_interrupted && outcome.all.answered > 0);
}

#[test]
fn a_plan_that_cannot_be_is_refused() {
    let server = Server::start(|_| Answer::page("x"));
    let closed = Pattern::Closed { clients: 1, expected_interval: None };
    let good = plan(&[&server], closed, Duration::from_secs(1));
    good.check().unwrap();
    let mut bad = good.clone();
    bad.targets.clear();
    assert!(bad.check().unwrap_err().to_string().contains("there are no targets"));
    for pattern in [
        Pattern::Closed { clients: 0, expected_interval: None },
        Pattern::Closed { clients: 1, expected_interval: Some(Duration::ZERO) },
        Pattern::Open { rate: 0.0, in_flight_max: 1 },
        Pattern::Open { rate: f64::NAN, in_flight_max: 1 },
        Pattern::Open { rate: 1.0, in_flight_max: 1_000_000 },
    ] {
        assert!(Plan { pattern, ..good.clone() }.check().is_err(), "{pattern:?}");
    }
    assert!(Plan { timeout: Duration::ZERO, ..good.clone() }.check().is_err());
}
