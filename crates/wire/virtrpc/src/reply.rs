//! The daemon's answers.

use crate::Error;
use crate::call::{Call, STATS_MAX};
use crate::domain::{DOMAINS_MAX, Domain};
use crate::xdr::Reader;

/// Maximum length of a list of domains; libvirt itself lists no more.
pub const LISTED_MAX: usize = 16_384;

/// Maximum length of a domain's description. Ordinary descriptions have 5 to 50 KiB.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum length of an error's message that is kept: a sentence or two, with paths.
const MESSAGE_TEXT_MAX: usize = 16 << 10;

/// Maximum number of values of a domain that are read.
const VALUES_MAX: usize = 1 << 14;

/// Maximum length of a value's name, or of a text as a value. libvirt's names have up to 80 bytes.
const VALUE_NAME_MAX: usize = 255;
const VALUE_TEXT_MAX: usize = 64 << 10;

/// Maximum number of statistics of a host; there are up to 5.
const NODE_STATS_MAX: usize = 16;

/// Maximum number of kinds of authentication; there are 3.
const AUTHS_MAX: usize = 20;

/// A kind of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// No authentication is needed.
    None,
    /// By a mechanism that needs a password or a ticket.
    Sasl,
    /// The daemon checks this process against the host's polkit policy.
    Polkit,
    /// A kind that is newer than this program.
    Other(u32),
}

/// The state of a domain: `domain_get_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The maximum memory.
    pub max_memory_kib: u64,
    /// The current memory.
    pub memory_kib: u64,
    /// Number of virtual CPUs.
    pub vcpus: u32,
}

/// A statistic of a domain's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStat {
    /// libvirt's number of the statistic.
    pub tag: i32,
    /// The value, in KiB for sizes.
    pub value: u64,
}

/// A host's CPUs and memory: `node_get_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// All memory.
    pub memory_kib: u64,
    /// CPUs that are online.
    pub cpus: u32,
}

/// A number with libvirt's name for it, such as `balloon.current`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The name.
    pub name: String,
    /// The number.
    pub value: u64,
}

/// Statistics of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainStats {
    /// The domain.
    pub domain: Domain,
    /// All whole numbers that are not negative; all other values are left out.
    pub values: Vec<Value>,
}

/// The result of a successful call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without a result.
    Done,
    /// The accepted kinds of authentication, of which one is enough.
    Auths(Vec<Auth>),
    /// The domains.
    Domains(Vec<Domain>),
    /// A description in XML.
    Xml(String),
    /// The state of a domain.
    Info(Info),
    /// A domain's state and its reason, in libvirt's numbers.
    State {
        /// The state.
        state: i32,
        /// The reason; its meaning depends on the state.
        reason: i32,
    },
    /// The state of the connection to a domain's hypervisor.
    Control {
        /// 0 if the connection is free, 1 or 2 if a command is open, 3 if the monitor is lost.
        state: u32,
    },
    /// Statistics of a domain's memory.
    MemoryStats(Vec<MemoryStat>),
    /// A host's CPUs and memory.
    NodeInfo(NodeInfo),
    /// Statistics of a host.
    NodeStats {
        /// Number of statistics.
        count: u32,
        /// The statistics; empty unless `count` values were requested.
        values: Vec<Value>,
    },
    /// Statistics of domains.
    Stats(Vec<DomainStats>),
    /// The number of a registration, which is also in its events.
    Callback(i32),
}

impl Call {
    /// Parses the daemon's answer to this call.
    pub fn read_reply(&self, body: &[u8]) -> Result<Reply, Error> {
        let mut reader = Reader::new(body, self.procedure().0);
        let reply = match self {
            Call::AuthList => Reply::Auths(items(&mut reader, AUTHS_MAX, |reader| {
                Ok(match reader.u32("types")? {
                    0 => Auth::None,
                    1 => Auth::Sasl,
                    2 => Auth::Polkit,
                    other => Auth::Other(other),
                })
            })?),
            Call::ListActive => {
                let list = items(&mut reader, LISTED_MAX, Domain::read)?;
                // The number of domains, repeated.
                reader.u32("ret")?;
                Reply::Domains(list)
            }
            Call::Xml(_) | Call::ConfiguredXml(_) => {
                Reply::Xml(reader.text("xml", TEXT_BYTES_MAX)?.to_owned())
            }
            Call::State(_) => {
                Reply::State { state: reader.i32("state")?, reason: reader.i32("reason")? }
            }
            Call::Info(_) => {
                reader.u32("state")?;
                let info = Info {
                    max_memory_kib: reader.u64("maxMem")?,
                    memory_kib: reader.u64("memory")?,
                    vcpus: reader.u32("nrVirtCpu")?,
                };
                reader.u64("cpuTime")?;
                Reply::Info(info)
            }
            Call::Control(_) => {
                let state = reader.u32("state")?;
                reader.u32("details")?;
                reader.u64("stateTime")?;
                Reply::Control { state }
            }
            Call::MemoryStats(_) => Reply::MemoryStats(items(&mut reader, STATS_MAX, |reader| {
                Ok(MemoryStat { tag: reader.i32("tag")?, value: reader.u64("val")? })
            })?),
            Call::NodeInfo => {
                // The processor's name: a word for each of its 32 bytes.
                reader.fixed::<128>("model")?;
                let memory_kib = reader.u64("memory")?;
                let cpus = reader.u32("cpus")?;
                // The frequency, cells, sockets, cores and threads.
                reader.fixed::<20>("(rest)")?;
                Reply::NodeInfo(NodeInfo { memory_kib, cpus })
            }
            Call::NodeCpuStats { .. } | Call::NodeMemoryStats { .. } => {
                let values = items(&mut reader, NODE_STATS_MAX, |reader| {
                    let name = reader.text("field", VALUE_NAME_MAX)?.to_owned();
                    Ok(Value { name, value: reader.u64("value")? })
                })?;
                Reply::NodeStats { count: reader.u32("nparams")?, values }
            }
            Call::Stats(_) => Reply::Stats(items(&mut reader, DOMAINS_MAX, |reader| {
                let domain = Domain::read(reader)?;
                let values = items(reader, VALUES_MAX, value)?;
                Ok(DomainStats { domain, values: values.into_iter().flatten().collect() })
            })?),
            Call::Register(_) => Reply::Callback(reader.i32("callbackID")?),
            // The rest of the answer is not needed.
            Call::AuthPolkit
            | Call::Open { .. }
            | Call::SetMemory { .. }
            | Call::Suspend(_)
            | Call::Resume(_)
            | Call::SetStatsPeriod { .. } => return Ok(Reply::Done),
        };
        reader.end()?;
        Ok(reply)
    }
}

/// Reads a value of any type with its name; `None` if it is negative or not a whole number.
fn value(reader: &mut Reader<'_>) -> Result<Option<Value>, Error> {
    let name = reader.text("params.field", VALUE_NAME_MAX)?.to_owned();
    const VALUE: &str = "params.value";
    let value = match reader.u32("params.type")? {
        // 1 and 6: a signed number of one word, and a boolean. 2: an unsigned number of one word.
        1 | 6 => u64::try_from(reader.i32(VALUE)?).ok(),
        2 => Some(reader.u32(VALUE)?.into()),
        // 3 and 4: numbers of two words. 5: a fraction. 7: a text.
        3 => i64::try_from(reader.u64(VALUE)?).ok().map(i64::unsigned_abs),
        4 => Some(reader.u64(VALUE)?),
        5 => reader.u64(VALUE).map(|_| None)?,
        7 => reader.text(VALUE, VALUE_TEXT_MAX).map(|_| None)?,
        _ => return Err(reader.wrong("params.type")),
    };
    Ok(value.map(|value| Value { name, value }))
}

/// Reads a list, which grows with its items: a count alone allocates nothing.
fn items<T>(
    reader: &mut Reader<'_>,
    max: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let count = reader.count("(list)", max)?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}

/// The error of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// libvirt's number of the error; `None` for an answer that could not be parsed.
    pub code: Option<i32>,
    /// A sentence for the user.
    pub message: String,
}

impl Failure {
    /// libvirt's error code for a domain that does not exist.
    pub const NO_DOMAIN: i32 = 42;
    /// libvirt's error code for a client that did not authenticate.
    pub const AUTH_FAILED: i32 = 45;

    /// Reads the first members of an error. The other members repeat the message for other
    /// programs.
    pub(crate) fn read(body: &[u8]) -> Result<Failure, Error> {
        let mut reader = Reader::new(body, "remote_error");
        let code = reader.i32("code")?;
        reader.i32("domain")?;
        let message =
            reader.optional("message", |reader| reader.text("message", MESSAGE_TEXT_MAX))?;
        let message = message.unwrap_or("libvirt gave no reason").to_owned();
        Ok(Failure { code: Some(code), message })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: None, message: error.to_string() }
    }
}
