//! A conversation with a host's libvirt, one question after the other.

use crate::clock::Until;
use crate::rows::is_used;
use crate::ssh::Ssh;
use crate::{Error, Uri};
use std::collections::BTreeMap;
use std::time::Duration;
use virtrpc::{
    Auth, Call, Client, Domain, DomainStats, Failure, Incoming, NodeInfo, Reply, Uuid, Value,
};

/// An answer takes no longer: a login through a slow network, or a host that swaps.
const PATIENCE: Duration = Duration::from_secs(30);
/// Domains in one question: about 60 KB in the answer, with a disk and an interface of each. One
/// with thousands of devices is asked alone, and left out if that is too long still.
const DOMAINS_AT_ONCE: usize = 50;

/// A connection on which questions are answered.
pub(crate) struct Session {
    ssh: Ssh,
    client: Client,
    /// Virtual CPUs of domains, which are asked for once.
    vcpus: BTreeMap<(Uuid, i32), Option<u32>>,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) domain: Domain,
    pub(crate) vcpus: Option<u32>,
    /// What of its numbers is used.
    pub(crate) values: Vec<Value>,
}

/// What libvirt told at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) node: NodeInfo,
    pub(crate) cpu: Vec<Value>,
    pub(crate) memory: Vec<Value>,
    pub(crate) domains: Vec<Seen>,
}

impl Session {
    pub(crate) fn open(uri: &Uri) -> Result<Session, Error> {
        let mut session =
            Session { ssh: Ssh::start(uri)?, client: Client::new(), vcpus: BTreeMap::new() };
        let auths = match session.ask(Call::AuthList)? {
            Reply::Auths(auths) => auths,
            _ => Vec::new(),
        };
        if !auths.is_empty() && !auths.contains(&Auth::None) {
            if !auths.contains(&Auth::Polkit) {
                let why = "it wants a password or a ticket, which is not known here";
                return Err(Error::Refused { call: "auth_list", why: why.to_owned() });
            }
            session.ask(Call::AuthPolkit)?;
        }
        session.ask(Call::Open { uri: uri.to_open().to_owned(), is_read_only: true })?;
        Ok(session)
    }

    /// Asks for everything.
    pub(crate) fn look(&mut self) -> Result<Told, Error> {
        let Reply::NodeInfo(node) = self.ask(Call::NodeInfo)? else { return Err(odd()) };
        let cpu = self.values(|count| Call::NodeCpuStats { count })?;
        let memory = self.values(|count| Call::NodeMemoryStats { count })?;
        let Reply::Domains(all) = self.ask(Call::ListActive)? else { return Err(odd()) };
        let mut stats = Vec::new();
        for some in all.chunks(DOMAINS_AT_ONCE) {
            self.stats(some, &mut stats)?;
        }
        let mut domains = Vec::new();
        let mut vcpus = BTreeMap::new();
        for DomainStats { domain, values } in stats {
            let key = (domain.uuid, domain.id);
            let count = match self.vcpus.get(&key) {
                Some(count) => *count,
                None => self.vcpus_of(&domain)?,
            };
            vcpus.insert(key, count);
            domains.push(Seen { domain, vcpus: count, values });
        }
        self.vcpus = vcpus;
        Ok(Told { node, cpu, memory, domains })
    }

    /// What is known of some domains, in as many questions as their answers need.
    fn stats(&mut self, some: &[Domain], found: &mut Vec<DomainStats>) -> Result<(), Error> {
        match self.ask(Call::Stats(some.to_vec())) {
            Ok(Reply::Stats(stats)) => {
                // Nobody is told of who was not asked for.
                let asked = stats.into_iter().filter(|stats| some.contains(&stats.domain));
                found.extend(asked.map(|mut stats| {
                    stats.values.retain(|value| is_used(&value.name));
                    stats
                }));
                Ok(())
            }
            Ok(_) => Err(odd()),
            Err(Error::Unread { .. }) if some.len() > 1 => {
                let (first, second) = some.split_at(some.len() / 2);
                self.stats(first, found)?;
                self.stats(second, found)
            }
            Err(Error::Unread { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn vcpus_of(&mut self, domain: &Domain) -> Result<Option<u32>, Error> {
        match self.ask(Call::Info(domain.clone())) {
            Ok(Reply::Info(info)) => Ok(Some(info.vcpus)),
            // It has gone meanwhile.
            Ok(_) | Err(Error::Refused { .. } | Error::Unread { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Statistics of the host, of which there is a number that has to be asked for first.
    fn values(&mut self, call: impl Fn(u32) -> Call) -> Result<Vec<Value>, Error> {
        let Reply::NodeStats { count, .. } = self.ask(call(0))? else { return Err(odd()) };
        if count == 0 {
            return Ok(Vec::new());
        }
        match self.ask(call(count))? {
            Reply::NodeStats { values, .. } => Ok(values),
            _ => Err(odd()),
        }
    }

    fn ask(&mut self, call: Call) -> Result<Reply, Error> {
        let name = call.name();
        let ticket = self.client.ask(call).map_err(Error::Foreign)?;
        let until = Until::after(PATIENCE);
        let mut buffer = [0; 16 << 10];
        loop {
            while let Some(incoming) = self.client.poll() {
                match incoming {
                    Ok(Incoming::Reply { ticket: of, outcome }) if of == ticket => {
                        return outcome.map_err(|failure| failed(name, &failure));
                    }
                    Err(error) if error.is_fatal() => return Err(Error::Foreign(error)),
                    // An event, or a message that cannot be read: nobody waits for it.
                    Ok(_) | Err(_) => {}
                }
            }
            if until.left().is_zero() {
                let said = self.ssh.said();
                return Err(Error::Slow { call: name, seconds: PATIENCE.as_secs(), said });
            }
            let (sent, read) = self.ssh.turn(self.client.output(), &mut buffer, until)?;
            self.client.advance(sent);
            self.client.feed(&buffer[..read]);
        }
    }
}

fn failed(call: &'static str, failure: &Failure) -> Error {
    let why = base::plain(&failure.message, 500);
    match failure.code {
        Some(_) => Error::Refused { call, why },
        // It is we who could not read it.
        None => Error::Unread { call, why },
    }
}

/// A reply to another call than the one that was asked; the client lets none come.
fn odd() -> Error {
    Error::Refused { call: "a call", why: "the answer is one to another".to_owned() }
}
