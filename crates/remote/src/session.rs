//! A conversation with a host's libvirt, one question after the other.

use crate::clock::Until;
use crate::rows::{MAXIMUM, NUMBERS_MAX, find, is_used};
use crate::ssh::Ssh;
use crate::{Error, Uri};
use base::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use virtrpc::{
    Auth, Call, Client, Domain, DomainStats, Failure, Incoming, NodeInfo, Reply, Uuid, Value,
};

/// All answers together take no longer: a login through a slow network, or a host that swaps.
const PATIENCE: Duration = Duration::from_secs(60);
/// All answers together are no longer. 4,096 domains are told of in 5 MiB.
const BYTES_MAX: usize = 64 << 20;
/// Domains in one question: about 60 KB in the answer, with a disk and an interface of each. One
/// with thousands of devices is asked alone, and left out if that is too long still.
const DOMAINS_AT_ONCE: usize = 50;

/// A connection on which questions are answered.
pub(crate) struct Session {
    ssh: Ssh,
    client: Client,
    /// What domains were asked for by themselves.
    known: BTreeMap<(Uuid, i32), Known>,
    until: Until,
    left_bytes: usize,
}

/// Answers about one domain alone. One that cannot be had is no reason to ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Virtual CPUs.
    vcpus: Option<u32>,
    /// Memory that it can have now, and whether that may change by virtio-mem.
    memory: Option<(Bytes, bool)>,
    /// libvirt's own number for its memory at that time.
    maximum: Option<u64>,
}

impl Known {
    /// Returns the memory, unless it may be another by now.
    fn memory_at(&self, maximum: Option<u64>) -> Option<Option<Bytes>> {
        let is_steady = self.memory.is_none_or(|(_, is_virtio_mem)| !is_virtio_mem);
        (is_steady && self.maximum == maximum).then(|| self.memory.map(|(bytes, _)| bytes))
    }
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) domain: Domain,
    pub(crate) vcpus: Option<u32>,
    /// Memory that it can have now.
    pub(crate) memory: Option<Bytes>,
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
    fn new(ssh: Ssh) -> Session {
        Session {
            ssh,
            client: Client::new(),
            known: BTreeMap::new(),
            until: Until::after(PATIENCE),
            left_bytes: BYTES_MAX,
        }
    }

    /// Gives the host its time and bytes for the questions that follow.
    pub(crate) fn begin(&mut self) {
        self.until = Until::after(PATIENCE);
        self.left_bytes = BYTES_MAX;
    }

    pub(crate) fn open(uri: &Uri) -> Result<Session, Error> {
        Session::greet(Ssh::start(uri)?, uri)
    }

    /// Begins the conversation with what speaks to the host.
    pub(crate) fn greet(ssh: Ssh, uri: &Uri) -> Result<Session, Error> {
        let mut session = Session::new(ssh);
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
        let mut all_known = BTreeMap::new();
        for DomainStats { domain, values } in stats {
            let key = (domain.uuid, domain.id);
            let maximum = find(&values, MAXIMUM);
            let mut known = self.known.get(&key).copied();
            let mut memory = known.and_then(|known| known.memory_at(maximum));
            // Calls for each of thousands may take longer than there is: the next look goes on.
            if memory.is_none() && self.has_room() {
                let vcpus = match known {
                    Some(known) => known.vcpus,
                    None => self.vcpus_of(&domain)?,
                };
                let asked = self.memory_of(&domain)?;
                memory = Some(asked.map(|(bytes, _)| bytes));
                known = Some(Known { vcpus, memory: asked, maximum });
            }
            all_known.extend(known.map(|known| (key, known)));
            let vcpus = known.and_then(|known| known.vcpus);
            domains.push(Seen { domain, vcpus, memory: memory.flatten(), values });
        }
        self.known = all_known;
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
                if found.iter().map(|stats| stats.values.len()).sum::<usize>() > NUMBERS_MAX {
                    return Err(Error::Numbers { most: NUMBERS_MAX });
                }
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

    /// Asks for a domain's description, which alone tells what its virtio-mem devices give.
    fn memory_of(&mut self, domain: &Domain) -> Result<Option<(Bytes, bool)>, Error> {
        match self.ask(Call::Xml(domain.clone())) {
            Ok(Reply::Xml(xml)) => {
                let parts = hypervisor::describe_domain(&xml).ok();
                Ok(parts.map(|parts| (parts.memory, parts.is_virtio_mem)))
            }
            // It has gone meanwhile.
            Ok(_) | Err(Error::Refused { .. } | Error::Unread { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether half of the time and of the bytes are left, for questions that can wait.
    fn has_room(&self) -> bool {
        self.until.left() > PATIENCE / 2 && self.left_bytes > BYTES_MAX / 2
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
            if self.until.left().is_zero() {
                let said = self.ssh.said();
                return Err(Error::Slow { call: name, seconds: PATIENCE.as_secs(), said });
            }
            let (sent, read) = self.ssh.turn(self.client.output(), &mut buffer, self.until)?;
            self.client.advance(sent);
            let left = self.left_bytes.checked_sub(read);
            self.left_bytes = left.ok_or(Error::Long { call: name, mib: BYTES_MAX >> 20 })?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A conversation with a program that stands in for ssh.
    fn session(program: &str, args: &[&str]) -> Session {
        let mut command = Command::new(program);
        command.args(args);
        Session::new(Ssh::spawn(command).unwrap())
    }

    #[test]
    fn memory_is_asked_again_when_it_may_be_another() {
        let known = |is_virtio_mem| Known {
            memory: Some((Bytes::mib(3), is_virtio_mem)),
            maximum: Some(4_096),
            ..Known::default()
        };
        assert_eq!(known(false).memory_at(Some(4_096)), Some(Some(Bytes::mib(3))));
        assert_eq!(known(false).memory_at(Some(8_192)), None, "a DIMM was plugged in");
        assert_eq!(known(true).memory_at(Some(4_096)), None, "virtio-mem may give more by now");
        let refused = Known { maximum: Some(4_096), ..Known::default() };
        assert_eq!(refused.memory_at(Some(4_096)), Some(None), "it is not asked again");
    }

    #[test]
    fn finding2_06_session_gives_all_calls_one_time() {
        // Answers nothing, for as long as something may be written to it.
        let mut session = session("tail", &["-f", "/dev/null"]);
        session.until = Until::after(Duration::ZERO);
        for _ in 0..2 {
            let error = session.ask(Call::NodeInfo).unwrap_err();
            assert!(matches!(error, Error::Slow { seconds: 60, .. }), "{error}");
        }
        session.begin();
        assert!(session.until.left() > PATIENCE / 2);
    }

    #[test]
    fn finding2_06_session_ends_when_too_much_comes() {
        // A sign of life of libvirt's, over and over.
        let ping = [28, 0x6b65_6570, 1, 1, 2, 0, 0_u32].map(u32::to_be_bytes).concat();
        let octal: String = ping.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let mut session = session("sh", &["-c", &format!("while printf '{octal}'; do :; done")]);
        session.left_bytes = 64 << 10;
        let error = session.ask(Call::NodeInfo).unwrap_err();
        assert!(matches!(error, Error::Long { call: "node_get_info", mib: 64 }), "{error}");
    }
}
