//! The manager, recordings, journal and engine that the pages show.

use crate::error::Error;
use ::web::{Fleet, Glance, Glanced, Hosts, Lines, Sources, Wanted};
use base::chain;
use metrics::fleet;
use model::{HostField, Over};
use pinhead::args::Format;
use pinhead::farm_cmds;
use pinhead::manage::ask_manager;
use pinhead::report;
use pinhead::tune::{self, TuneArgs};
use pinhead::web::WebArgs;
use pinhead::why::{default_recordings, journal_of};
use reports::Needs;
use std::collections::BTreeMap;

/// Opens the places that the options name.
pub fn of(args: WebArgs) -> Result<Sources, Error> {
    let WebArgs { dir, journal, from, host, socket, .. } = args;
    if let Some(url) = from {
        // One host alone is no fleet.
        let hosts: Option<Box<dyn Hosts>> = match host {
            None => Some(Box::new(Engine(metrics::Url::parse(&url)?))),
            Some(_) => None,
        };
        let recorded = move |wanted: &Wanted| {
            let host = wanted.host.clone().or_else(|| host.clone());
            report::engine(&url, host, &asked_for(wanted)).map_err(|error| chain(&error))
        };
        return Ok(Sources {
            manager: None,
            recorded: Box::new(recorded),
            hosts,
            journal: None,
            tune: None,
            farms: None,
            clock: Box::new(::why::now),
        });
    }
    let journal = journal.unwrap_or_else(|| journal_of(dir.as_deref()));
    let recordings = dir.clone().unwrap_or_else(default_recordings);
    let tune = move |from_ms: i64, to_ms: i64| {
        let moment = |ms| reports::rfc3339(ms, &reports::Utc);
        let args = TuneArgs {
            from: Some(moment(from_ms)),
            to: Some(moment(to_ms)),
            since: None,
            enough: TuneArgs::ENOUGH.to_owned(),
            format: Format::Json,
            dir: Some(recordings.clone()),
        };
        tune::run(&args).map_err(|error| chain(&error))
    };
    let recorded = move |wanted: &Wanted| {
        report::recordings(dir.as_deref(), host.clone(), &asked_for(wanted))
            .map_err(|error| chain(&error))
    };
    let farms = || {
        let all = farm_cmds::tables().map_err(|error| chain(&error))?;
        serde_json::to_string(&all).map_err(|error| chain(&error))
    };
    Ok(Sources {
        manager: Some(Box::new(move |ask| {
            ask_manager(&socket, ask).map_err(|error| chain(&error))
        })),
        recorded: Box::new(recorded),
        journal: Some(journal),
        hosts: None,
        tune: Some(Box::new(tune)),
        farms: Some(Box::new(farms)),
        clock: Box::new(::why::now),
    })
}

/// An engine's hosts.
struct Engine(metrics::Url);

impl Hosts for Engine {
    fn glance(&self, wanted: &Glance) -> Result<Fleet, String> {
        let Glance { from_ms, to_ms, hosts, together, most, by, like, guests } = wanted.clone();
        let loudest = fleet::Loudest { most, of_each: false, by, like, fields: guests };
        let asked = fleet::Glance { from_ms, to_ms, hosts, together, loudest };
        let found = fleet::glance(&self.0, &asked).map_err(|error| chain(&error))?;
        let host = |(name, host): (String, fleet::Host)| {
            let spacing_ms = host.spacing_ms();
            let fleet::Host { last_ms, guests, over, together, loudest, .. } = host;
            Glanced { name, last_ms, spacing_ms, guests, over, together, loudest }
        };
        Ok(Fleet { hosts: found.hosts.into_iter().map(host).collect(), found: found.found })
    }

    fn lines(&self, wanted: &Lines) -> Result<BTreeMap<String, Vec<Over<HostField>>>, String> {
        let hosts: Vec<&str> = wanted.hosts.iter().map(String::as_str).collect();
        let (from_ms, to_ms) = wanted.times_ms;
        let steps = fleet::Steps { from_ms, to_ms, step_ms: wanted.step_ms };
        fleet::lines(&self.0, steps, &hosts, &wanted.fields).map_err(|error| chain(&error))
    }
}

fn asked_for(wanted: &Wanted) -> report::Wanted {
    let Wanted { from_ms, to_ms, step_ms, guests, processes, .. } = wanted.clone();
    report::Wanted { from_ms, to_ms, step_ms, needs: Needs { guests, processes } }
}
