//! `pinhead fleet watch`: hosts without pinhead, asked by their libvirt over ssh.
//!
//! ```text
//!   a thread a host: remote::Host::ask ─► Moment ─► metrics::Pusher ─► the engine
//! ```

use crate::Error;
use base::{Bytes, Table, chain, duration, left, plain, right};
use clap::Args;
use metrics::{Pusher, Url};
use model::{GuestField as G, HostField as H, Moment};
use remote::{Host, Uri};
use std::collections::BTreeSet;
use std::io::Write;
use std::thread;
use std::time::Duration;
use why::when;

/// Characters of a name.
const NAME_MAX: usize = 24;
/// Who does not answer is asked less and less often, down to this.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// So often at most and at least: engines take a series that is older for one that has ended.
const EVERY_MS: std::ops::RangeInclusive<i64> = 1_000..=4 * duration::MINUTE_MS;

/// `pinhead fleet watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Hosts: qemu+ssh://root@b/system, with the keys of ssh and of its agent
    #[arg(value_name = "URI", required = true)]
    pub hosts: Vec<String>,
    /// The engine's receiver: http://127.0.0.1:8428/api/v1/write
    ///
    /// Without it the hosts are asked once, and shown.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// How often they are asked
    #[arg(long, value_name = "SPAN", default_value = "15s")]
    pub every: String,
}

pub(super) fn run(args: &WatchArgs) -> Result<String, Error> {
    let hosts = hosts(&args.hosts)?;
    let every_ms = when::span(&args.every)?;
    if !EVERY_MS.contains(&every_ms) {
        return Err(Error::Message("--every is one second to four minutes".into()));
    }
    match &args.to {
        None => once(hosts),
        Some(url) => {
            watch(hosts, &Url::parse(url)?, Duration::from_millis(every_ms.unsigned_abs()))
        }
    }
}

fn hosts(texts: &[String]) -> Result<Vec<Host>, Error> {
    let mut names = BTreeSet::new();
    let mut hosts = Vec::new();
    for text in texts {
        let host = Host::new(Uri::parse(text)?);
        if !names.insert(host.name().to_owned()) {
            let message = format!(
                "{text}: {} is there twice, and hosts are told apart by their names: give one of \
                 them another in ~/.ssh/config",
                host.name()
            );
            return Err(Error::Message(message));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// Asks all hosts once, at the same time, and shows what they tell.
fn once(mut hosts: Vec<Host>) -> Result<String, Error> {
    let answers = thread::scope(|scope| {
        let ask = |host| scope.spawn(move || Host::ask(host, ::why::now().ms));
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
    let text = if told.is_empty() { String::new() } else { show(&told) };
    if silent.is_empty() {
        return Ok(text);
    }
    print(&text)?;
    Err(Error::Message(silent.join("\npinhead: ")))
}

fn mib(size: Option<u64>) -> String {
    size.map_or_else(|| "-".into(), |size| Bytes(size).as_mib().to_string())
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "-".into(), |count| count.to_string())
}

fn show(told: &[(&str, Moment)]) -> String {
    let columns = [
        left("HOST").most(NAME_MAX),
        right("GUESTS"),
        right("CPUS"),
        right("MEMORY"),
        right("FREE"),
        right("AVAILABLE"),
    ];
    let mut table = Table::new(&columns);
    for (name, moment) in told {
        let row = &moment.host;
        table.row([
            plain(name, NAME_MAX),
            moment.guests.len().to_string(),
            count(row.get(H::Cpus)),
            mib(row.get(H::Total)),
            mib(row.get(H::Free)),
            mib(row.get(H::Available)),
        ]);
    }
    let mut text = table.text();
    let columns = [
        left("GUEST").most(NAME_MAX),
        left("HOST").most(NAME_MAX),
        right("VCPUS"),
        right("MEMORY"),
        right("HAS"),
        right("IN HOST"),
        right("AVAILABLE"),
    ];
    let mut table = Table::new(&columns);
    for (name, moment) in told {
        for (who, row) in &moment.guests {
            table.row([
                plain(&who.name, NAME_MAX),
                plain(name, NAME_MAX),
                count(row.get(G::Vcpus)),
                mib(row.get(G::Memory)),
                mib(row.get(G::Actual)),
                mib(row.get(G::Resident)),
                mib(row.get(G::OwnAvailable)),
            ]);
        }
    }
    text.push('\n');
    text.push_str(&table.text());
    text.push_str("\nSizes in MiB. With --to all of it is pushed to an engine, again and again.\n");
    text
}

/// Asks and pushes until a signal ends the process.
fn watch(hosts: Vec<Host>, url: &Url, every: Duration) -> Result<String, Error> {
    let mut threads = Vec::new();
    for host in hosts {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let started = Pusher::start(url.clone(), host.name().to_owned(), version);
        let pusher = started.map_err(|error| Error::step("Cannot push", error))?;
        threads.push(thread::spawn(move || follow(host, &pusher, every)));
    }
    for thread in threads {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(String::new())
}

/// Asks a host for ever, and says when that begins to fail, and when it goes again.
fn follow(mut host: Host, pusher: &Pusher, every: Duration) -> Result<(), Error> {
    let mut said = None;
    let mut wait = every;
    loop {
        let (state, next) = match host.ask(::why::now().ms) {
            Ok(moment) => {
                pusher.offer(&moment);
                let state = match pusher.health().trouble {
                    Some(trouble) => format!("cannot push: {trouble}"),
                    None => "is watched".into(),
                };
                (state, every)
            }
            Err(error) => (chain(&error), (wait * 2).min(WAIT_MAX).max(every)),
        };
        wait = next;
        if said.as_ref() != Some(&state) {
            print(&format!("{}: {state}\n", host.name()))?;
            said = Some(state);
        }
        thread::sleep(wait);
    }
}

fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Error::step("Cannot write the answer", error))
}
