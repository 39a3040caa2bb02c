//! Session with a host's libvirt, one call after the other.

use crate::clock::Deadline;
use crate::remote::rows::{MAXIMUM, NUMBERS_MAX, Seen, Told, find, is_used};
use crate::remote::ssh::Ssh;
use crate::remote::{Error, Uri};
use base::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use virtrpc::{Auth, Call, Client, Domain, DomainStats, Failure, Incoming, Reply, Uuid, Value};

/// Time limit for all answers together. The limit is enough for a login through a slow network, or
/// for a host that swaps.
const PATIENCE: Duration = Duration::from_secs(60);
/// Size limit for all answers together, in bytes. 4,096 domains take 5 MiB.
const BYTES_MAX: usize = 64 << 20;
/// Number of domains in one call. The answer takes about 60 KB if each domain has a disk and an
/// interface. A domain with thousands of devices is queried alone, and is left out if its answer is
/// still too long.
const DOMAINS_AT_ONCE: usize = 50;

/// Number of domains that are queried again in one round. Through a slow network 32 answers take 6
/// s.
const AGAIN_MAX: usize = 32;
/// Number of rounds after which a domain with missing answers is queried again: five minutes by
/// default.
const AGAIN_LOOKS: u64 = 20;

/// Identity of a domain since its start.
type Key = (Uuid, i32);

/// A connection that answers calls.
pub(crate) struct Session {
    ssh: Ssh,
    client: Client,
    /// Answers about single domains.
    known: BTreeMap<Key, Known>,
    looks: u64,
    until: Deadline,
    left_bytes: usize,
}

/// Answers about a single domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    vcpus: Option<u32>,
    /// Memory that the domain can have now, and true if virtio-mem may change this memory.
    memory: Option<(Bytes, bool)>,
    /// Maximum memory of the domain at the last query, as libvirt counts it.
    maximum: Option<u64>,
    /// Round in which the domain was last queried.
    asked: u64,
}

/// Order in which domains are queried: first unknown domains, then domains with changed memory,
/// then domains that may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Unknown,
    Changed,
    Again { asked: u64 },
}

impl Known {
    /// Returns the last known memory, unless it has changed since.
    fn memory_at(&self, maximum: Option<u64>) -> Option<Bytes> {
        self.memory.filter(|_| self.maximum == maximum).map(|(bytes, _)| bytes)
    }

    /// Returns the reason to query the domain in this round, if there is one.
    fn due(&self, maximum: Option<u64>, look: u64) -> Option<Due> {
        if self.maximum != maximum {
            return Some(Due::Changed);
        }
        let is_virtio_mem = self.memory.is_some_and(|(_, is_virtio_mem)| is_virtio_mem);
        let is_refused = self.memory.is_none() || self.vcpus.is_none();
        let is_old = look.saturating_sub(self.asked) >= AGAIN_LOOKS;
        let asked = self.asked;
        (is_virtio_mem || (is_refused && is_old)).then_some(Due::Again { asked })
    }
}

/// Returns the indexes of the domains to query in this round, the most urgent first.
fn due(stats: &[DomainStats], known: &BTreeMap<Key, Known>, look: u64) -> Vec<usize> {
    let due_of = |stats: &DomainStats| match known.get(&key(&stats.domain)) {
        None => Some(Due::Unknown),
        Some(known) => known.due(find(&stats.values, MAXIMUM), look),
    };
    let mut all: Vec<(Due, usize)> =
        stats.iter().zip(0..).filter_map(|(stats, at)| Some((due_of(stats)?, at))).collect();
    all.sort_unstable();
    let first = all.partition_point(|(due, _)| *due <= Due::Changed);
    all.truncate(first + AGAIN_MAX);
    all.into_iter().map(|(_, at)| at).collect()
}

fn key(domain: &Domain) -> Key {
    (domain.uuid, domain.id)
}

impl Session {
    fn new(ssh: Ssh) -> Session {
        Session {
            ssh,
            client: Client::new(),
            known: BTreeMap::new(),
            looks: 0,
            until: Deadline::within(PATIENCE),
            left_bytes: BYTES_MAX,
        }
    }

    /// Resets the host's time and byte limits for the following calls.
    pub(crate) fn begin(&mut self) {
        self.until = Deadline::within(PATIENCE);
        self.left_bytes = BYTES_MAX;
    }

    /// Uses up the host's time for optional calls.
    #[cfg(test)]
    pub(crate) fn use_up(&mut self) {
        self.until = Deadline::within(PATIENCE / 2);
    }

    pub(crate) fn open(uri: &Uri) -> Result<Session, Error> {
        Session::greet(Ssh::start(uri)?, uri)
    }

    /// Starts the conversation with the process that connects to the host.
    pub(crate) fn greet(ssh: Ssh, uri: &Uri) -> Result<Session, Error> {
        let mut session = Session::new(ssh);
        let auths = match session.ask(Call::AuthList)? {
            Reply::Auths(auths) => auths,
            _ => Vec::new(),
        };
        if !auths.is_empty() && !auths.contains(&Auth::None) {
            if !auths.contains(&Auth::Polkit) {
                let why = "the host requires a password or a ticket, which pinhead cannot give";
                return Err(Error::Refused { call: "auth_list", why: why.to_owned() });
            }
            session.ask(Call::AuthPolkit)?;
        }
        session.ask(Call::Open { uri: uri.to_open().to_owned(), is_read_only: true })?;
        Ok(session)
    }

    pub(crate) fn look(&mut self, now_ms: impl FnOnce() -> i64) -> Result<Told, Error> {
        let Reply::NodeInfo(node) = self.ask(Call::NodeInfo)? else { return Err(odd()) };
        let cpu = self.values(|count| Call::NodeCpuStats { count })?;
        let memory = self.values(|count| Call::NodeMemoryStats { count })?;
        let Reply::Domains(all) = self.ask(Call::ListActive)? else { return Err(odd()) };
        let mut stats = Vec::new();
        for some in all.chunks(DOMAINS_AT_ONCE) {
            self.stats(some, &mut stats)?;
        }
        // The following calls take seconds, and change no counter.
        let at_ms = now_ms();
        self.looks += 1;
        let there: BTreeSet<Key> = stats.iter().map(|stats| key(&stats.domain)).collect();
        self.known.retain(|key, _| there.contains(key));
        for at in due(&stats, &self.known, self.looks) {
            // Calls for thousands of domains may exceed the time limit. The next round then
            // continues.
            if !self.has_room() {
                break;
            }
            if let Some(stats) = stats.get(at) {
                self.ask_alone(stats)?;
            }
        }
        let seen = |DomainStats { domain, values }| {
            let known = self.known.get(&key(&domain));
            let memory = known.and_then(|known| known.memory_at(find(&values, MAXIMUM)));
            Seen { vcpus: known.and_then(|known| known.vcpus), memory, domain, values }
        };
        Ok(Told { at_ms, node, cpu, memory, domains: stats.into_iter().map(seen).collect() })
    }

    /// Makes the calls for a single domain. If libvirt refuses these calls, earlier answers stay
    /// valid.
    fn ask_alone(&mut self, stats: &DomainStats) -> Result<(), Error> {
        let DomainStats { domain, values } = stats;
        let maximum = find(values, MAXIMUM);
        let before = self.known.get(&key(domain)).copied().unwrap_or_default();
        let vcpus = match before.vcpus {
            Some(vcpus) => Some(vcpus),
            None => self.vcpus_of(domain)?,
        };
        let told = self.memory_of(domain)?;
        let memory = told.or(before.memory.filter(|_| before.maximum == maximum));
        self.known.insert(key(domain), Known { vcpus, memory, maximum, asked: self.looks });
        Ok(())
    }

    /// Returns the statistics of some domains, in as many calls as their answers need.
    fn stats(&mut self, some: &[Domain], found: &mut Vec<DomainStats>) -> Result<(), Error> {
        match self.ask(Call::Stats(some.to_vec())) {
            Ok(Reply::Stats(stats)) => {
                // Statistics of other domains are dropped.
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
            // The domain has gone meanwhile.
            Ok(_) | Err(Error::Refused { .. } | Error::Unread { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests a domain's description, the only source of the sizes of its virtio-mem devices.
    fn memory_of(&mut self, domain: &Domain) -> Result<Option<(Bytes, bool)>, Error> {
        match self.ask(Call::Xml(domain.clone())) {
            Ok(Reply::Xml(xml)) => {
                let parts = hypervisor::describe_domain(&xml).ok();
                Ok(parts.map(|parts| (parts.memory, parts.is_virtio_mem)))
            }
            // The domain has gone meanwhile.
            Ok(_) | Err(Error::Refused { .. } | Error::Unread { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if half of the time and of the bytes are left, for optional calls.
    fn has_room(&self) -> bool {
        self.until.left() > Some(PATIENCE / 2) && self.left_bytes > BYTES_MAX / 2
    }

    /// Returns statistics of the host. The number of statistics has to be requested first.
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
                    // No call waits for an event, or for a message that cannot be parsed.
                    Ok(_) | Err(_) => {}
                }
            }
            if self.until.left().is_none() {
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
        // The error is on this side: the answer could not be parsed.
        None => Error::Unread { call, why },
    }
}

/// Returns the error for a reply to another call. The client never passes such a reply on.
fn odd() -> Error {
    Error::Refused { call: "a call", why: "the answer belongs to another call".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::fake::{FakeHost, MEMORY_MIB, VCPUS, domains};
    use std::process::Command;

    /// Starts a session with a program in place of ssh.
    fn session(program: &str, args: &[&str]) -> Session {
        let mut command = Command::new(program);
        command.args(args);
        Session::new(Ssh::spawn(command).unwrap())
    }

    fn known(memory: Option<(u64, bool)>, asked: u64) -> Known {
        let memory = memory.map(|(mib, is_virtio_mem)| (Bytes::mib(mib), is_virtio_mem));
        Known { vcpus: Some(2), memory, maximum: Some(4_096), asked }
    }

    #[test]
    fn memory_that_may_have_changed_is_not_reported() {
        for is_virtio_mem in [false, true] {
            let known = known(Some((3, is_virtio_mem)), 1);
            assert_eq!(known.memory_at(Some(4_096)), Some(Bytes::mib(3)));
            assert_eq!(known.memory_at(Some(8_192)), None, "a DIMM was plugged in");
        }
    }

    #[test]
    fn domain_is_queried_again_when_its_memory_may_differ() {
        let due = |known: Known, maximum| known.due(Some(maximum), 20);
        assert_eq!(due(known(Some((3, false)), 0), 4_096), None);
        assert_eq!(due(known(Some((3, false)), 19), 8_192), Some(Due::Changed));
        assert_eq!(due(known(Some((3, true)), 19), 4_096), Some(Due::Again { asked: 19 }));
        assert_eq!(due(known(None, 1), 4_096), None, "it has refused");
        assert_eq!(due(known(None, 0), 4_096), Some(Due::Again { asked: 0 }));
        let refused = Known { vcpus: None, ..known(Some((3, false)), 0) };
        assert_eq!(due(refused, 4_096), Some(Due::Again { asked: 0 }));
    }

    #[test]
    fn unknown_domains_are_queried_before_those_of_virtio_mem() {
        let domain = |id| Domain { name: format!("g{id}"), uuid: [7; 16], id };
        let stats: Vec<_> =
            (0..200).map(|id| DomainStats { domain: domain(id), values: Vec::new() }).collect();
        let virtio_mem = Known { maximum: None, ..known(Some((3, true)), 0) };
        let mut all: BTreeMap<Key, Known> =
            (0..150).map(|id| (key(&domain(id)), virtio_mem)).collect();
        let first = due(&stats, &all, 1);
        assert!(first.iter().copied().eq((150..200).chain(0..AGAIN_MAX)), "{first:?}");
        for at in first {
            let known = Known { asked: 1, ..virtio_mem };
            all.insert(key(&stats[at].domain), known);
        }
        let second = due(&stats, &all, 2);
        assert!(second.iter().copied().eq(AGAIN_MAX..2 * AGAIN_MAX), "{second:?}");
    }

    #[test]
    fn query_skips_single_domains_after_half_of_its_time() {
        let fake = FakeHost::new().looks().looks().tells_of_each();
        let uri = Uri::parse("qemu+ssh://b/system").unwrap();
        let mut session = Session::greet(Ssh::spawn(fake.program()).unwrap(), &uri).unwrap();
        let look = |session: &mut Session| {
            let told = session.look(|| 7).unwrap();
            let alone: Vec<_> = told.domains.iter().map(|it| (it.vcpus, it.memory)).collect();
            assert!(told.domains.iter().map(|it| &it.domain).eq(&domains()));
            alone
        };
        session.use_up();
        assert_eq!(look(&mut session), [(None, None); 2], "they are there all the same");
        session.begin();
        assert_eq!(look(&mut session), [(Some(VCPUS), Some(Bytes::mib(MEMORY_MIB))); 2]);
    }

    #[test]
    fn finding2_06_session_has_one_time_limit_for_all_calls() {
        // The program never answers as long as its input is open.
        let mut session = session("tail", &["-f", "/dev/null"]);
        session.until = Deadline::within(Duration::ZERO);
        for _ in 0..2 {
            let error = session.ask(Call::NodeInfo).unwrap_err();
            assert!(matches!(error, Error::Slow { seconds: 60, .. }), "{error}");
        }
        session.begin();
        assert!(session.until.left() > Some(PATIENCE / 2));
    }

    #[test]
    fn finding2_06_session_ends_when_the_host_sends_too_much() {
        // The program sends a keep-alive message of libvirt again and again.
        let ping = [28, 0x6b65_6570, 1, 1, 2, 0, 0_u32].map(u32::to_be_bytes).concat();
        let octal: String = ping.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let mut session = session("sh", &["-c", &format!("while printf '{octal}'; do :; done")]);
        session.left_bytes = 64 << 10;
        let error = session.ask(Call::NodeInfo).unwrap_err();
        assert!(matches!(error, Error::Long { call: "node_get_info", mib: 64 }), "{error}");
    }
}
