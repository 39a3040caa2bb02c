//! `pinhead fleet watch`: hosts without pinhead, polled through libvirt over ssh.
//!
//! ```text
//!   one thread per host: metrics::remote::Host::ask ─► Moment ─► metrics::Pusher ─► the engine
//! ```

use crate::cells::{mib, number};
use crate::listing::{OTHER_OUTPUT, fitted_table};
use crate::quantities::span;
use crate::tell::say;
use crate::terminal::{self, fitted};
use crate::{Error, FleetError, TimeError};
use base::{Bytes, Table, chain, duration, left, plain, right};
use clap::Args;
use metrics::remote::{Host, Uri};
use metrics::{Pusher, Url};
use model::{GuestField as G, HostField as H, Moment};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use why::when;

const NAME_MAX: usize = 24;
/// Maximum wait between two requests to a host that does not answer. The wait grows up to this
/// limit.
const WAIT_MAX_MS: i64 = 5 * duration::MINUTE_MS;
/// Allowed intervals. A metrics server treats a series without newer samples as ended.
const EVERY_MS: std::ops::RangeInclusive<i64> = 1_000..=4 * duration::MINUTE_MS;

/// `pinhead fleet watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Hosts: qemu+ssh://root@b/system, with the keys of ssh and its agent
    #[arg(value_name = "URI", required = true)]
    pub hosts: Vec<String>,
    /// Receiver of the metrics server: http://127.0.0.1:8428/api/v1/write
    ///
    /// Without this option the hosts are polled once and shown.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Interval between two polls
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = span)]
    pub every: String,
}

pub(super) fn run(args: &WatchArgs) -> Result<String, Error> {
    let hosts = hosts(&args.hosts)?;
    let every_ms = when::span(&args.every)?;
    if !EVERY_MS.contains(&every_ms) {
        return Err(TimeError::EveryOutside.into());
    }
    match &args.to {
        None => once(hosts),
        Some(url) => watch(hosts, &Url::parse(url)?, every_ms),
    }
}

fn hosts(texts: &[String]) -> Result<Vec<Host>, Error> {
    let mut names = BTreeSet::new();
    let mut hosts = Vec::new();
    for text in texts {
        let host = Host::new(Uri::parse(text)?);
        if !names.insert(host.name().to_owned()) {
            let (uri, name) = (text.clone(), host.name().to_owned());
            return Err(FleetError::SameHost { uri, name }.into());
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// Queries all hosts once, at the same time, and shows their responses.
fn once(mut hosts: Vec<Host>) -> Result<String, Error> {
    let answers = thread::scope(|scope| {
        let ask = |host| scope.spawn(move || Host::ask(host, || ::why::now().ms));
        let asked: Vec<_> = hosts.iter_mut().map(ask).collect();
        asked.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut told = Vec::new();
    let mut silent = Vec::new();
    for (host, answer) in hosts.iter().zip(answers) {
        match answer {
            Ok(Ok(moment)) => told.push((host.name(), moment)),
            Ok(Err(error)) => silent.push(format!("{}: {}", host.name(), chain(&error))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    let width = terminal::width(std::io::stdout());
    let text = if told.is_empty() { String::new() } else { show(&told, width) };
    if silent.is_empty() {
        return Ok(text);
    }
    say(&text)?;
    Err(FleetError::Silent { hosts: silent }.into())
}

fn show(told: &[(&str, Moment)], width: Option<usize>) -> String {
    let columns = [
        left("HOST").most(NAME_MAX),
        right("GUESTS").rank(2),
        right("CPUS").rank(1),
        right("MEMORY"),
        right("FREE").rank(3),
        right("AVAILABLE"),
    ];
    let mut table = Table::new(&columns);
    for (name, moment) in told {
        let row = &moment.host;
        table.row([
            plain(name, NAME_MAX),
            moment.guests.len().to_string(),
            number(row.get(H::Cpus)),
            mib(row.get(H::Total).map(Bytes)),
            mib(row.get(H::Free).map(Bytes)),
            mib(row.get(H::Available).map(Bytes)),
        ]);
    }
    let mut text = fitted_table(&table, width, OTHER_OUTPUT);
    let columns = [
        left("GUEST").most(NAME_MAX),
        left("HOST").most(NAME_MAX).rank(1),
        right("VCPUS").rank(4),
        right("MEMORY").rank(3),
        right("HAS"),
        right("IN HOST").rank(2),
        right("AVAILABLE"),
    ];
    let mut table = Table::new(&columns);
    for (name, moment) in told {
        for (who, row) in &moment.guests {
            table.row([
                plain(&who.name, NAME_MAX),
                plain(name, NAME_MAX),
                number(row.get(G::Vcpus)),
                mib(row.get(G::Memory).map(Bytes)),
                mib(row.get(G::Actual).map(Bytes)),
                mib(row.get(G::Resident).map(Bytes)),
                mib(row.get(G::OwnAvailable).map(Bytes)),
            ]);
        }
    }
    text.push('\n');
    text.push_str(&fitted_table(&table, width, OTHER_OUTPUT));
    text.push_str(&fitted(
        "\nSizes are in MiB. Use --to to push the values to a metrics server repeatedly.\n",
        width,
    ));
    text
}

/// Queries and pushes until a signal ends the process, or until the reader of its messages is gone.
fn watch(hosts: Vec<Host>, url: &Url, every_ms: i64) -> Result<String, Error> {
    let (ended, ends) = channel();
    for host in hosts {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let started = Pusher::start(url.clone(), host.name().to_owned(), version);
        let pusher = started.map_err(|error| Error::step("Cannot push", error))?;
        let ended = ended.clone();
        thread::spawn(move || {
            // If the receiver is gone, the waiting thread has already ended.
            let _ = ended.send(follow(host, &pusher, every_ms));
        });
    }
    drop(ended);
    // If one thread ends, the whole command ends. Otherwise the thread's host would seem to be
    // watched.
    match ends.recv() {
        Ok(result) => result.map(|()| String::new()),
        Err(_) => Err(FleetError::Unwatched.into()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Watched,
    NotPushed,
    Silent,
}

/// Queries a host forever. Reports when requests begin to fail and when they work again.
fn follow(mut host: Host, pusher: &Pusher, every_ms: i64) -> Result<(), Error> {
    let clock = || ::why::now().ms;
    let mut said = None;
    let mut wait_ms = every_ms;
    let mut due_ms = clock();
    loop {
        let told = match host.ask(clock) {
            Ok(moment) => {
                pusher.offer(&moment);
                wait_ms = every_ms;
                let health = pusher.health();
                match health.trouble {
                    Some(trouble) => Some((State::NotPushed, format!("cannot push: {trouble}"))),
                    // The offered samples have not been pushed yet.
                    None if health.pushed == 0 => None,
                    None => Some((State::Watched, "is watched".to_owned())),
                }
            }
            Err(error) => {
                wait_ms = (wait_ms * 2).min(WAIT_MAX_MS).max(every_ms);
                Some((State::Silent, chain(&error)))
            }
        };
        if let Some((state, words)) = told
            && said != Some(state)
        {
            say(&format!("{}: {words}\n", host.name()))?;
            said = Some(state);
        }
        // The schedule does not depend on the duration of a request. After a change of the clock a
        // new schedule starts.
        due_ms += wait_ms;
        let left_ms = due_ms - clock();
        if !(0..=wait_ms).contains(&left_ms) {
            due_ms = clock() + left_ms.clamp(0, wait_ms);
        }
        thread::sleep(Duration::from_millis(left_ms.clamp(0, wait_ms).unsigned_abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, check_fits};
    use model::{GuestIdentity, Row};

    #[test]
    fn hosts_and_guests_fit_every_width() {
        let who = GuestIdentity { name: "a guest of 20 letters".into(), ..Default::default() };
        let mut row = Row::default();
        row.set(G::Memory, Some(1 << 40));
        let moment = Moment { guests: [(who, row)].into(), ..Moment::default() };
        let told = [("host1.a-domain.example", moment)];
        for width in WIDTHS {
            let words = ["host1.a-domain.example", "a guest of 20 letters"];
            check_fits(&show(&told, Some(width)), width, words);
        }
    }
}
