//! QEMU's answers, command by command, checked before they are used.

use serde_json::Value;

use crate::{Command, Error};

/// The most virtual CPUs, more than any machine type has. An answer that lists more is invalid.
pub const VCPUS_MAX: usize = 4096;

/// The most devices or properties of a guest. An answer that lists more is invalid.
pub const LIST_MAX: usize = 4096;

/// The longest name, path or type in an answer, in bytes. Linux has the same limit for a path.
pub const TEXT_BYTES_MAX: usize = 4096;

/// A virtual CPU and the host thread that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuThread {
    /// The CPU's index in QEMU.
    pub index: u32,
    /// The thread's id on the host.
    pub tid: u32,
}

/// The run state of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunState {
    /// True while the virtual CPUs run.
    pub running: bool,
    /// QEMU's name of the state, such as `paused` or `guest-panicked`.
    pub status: String,
}

/// A property of an object in QEMU's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name. A device in `/machine/peripheral` has its id here.
    pub name: String,
    /// The property's type, such as `bool` or `child<virtio-balloon-pci>`.
    pub kind: String,
}

/// A character device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chardev {
    /// The device's id.
    pub label: String,
    /// The host's end, such as `disconnected:unix:/run/port,server=on`.
    pub filename: String,
}

/// A guest's disk accesses since QEMU started, all disks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// The result of a successful command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without a result.
    Done,
    /// The answer to [`Command::QueryCpusFast`], sorted by index.
    Vcpus(Vec<VcpuThread>),
    /// The answer to [`Command::QueryBalloon`].
    Balloon {
        /// The size that the guest keeps.
        actual_bytes: u64,
    },
    /// The answer to [`Command::QueryMemory`].
    Memory {
        /// The memory that the machine was started with.
        base_bytes: u64,
        /// The memory plugged since, if the machine supports it.
        plugged_bytes: Option<u64>,
    },
    /// The answer to [`Command::QueryMemdev`]: the size of each memory backend, in bytes.
    Memdevs(Vec<u64>),
    /// The answer to [`Command::QueryMemoryDevices`].
    MemoryDevices {
        /// Memory plugged by virtio-mem, which the balloon does not count.
        virtio_mem_bytes: u64,
    },
    /// The answer to [`Command::QueryName`]; `None` without a name.
    Name(Option<String>),
    /// The answer to [`Command::QueryUuid`]; zeroes without a UUID.
    Uuid([u8; 16]),
    /// The answer to [`Command::QueryChardev`].
    Chardevs(Vec<Chardev>),
    /// The answer to [`Command::QueryMigrate`]; `None` without a migration.
    Migration(Option<String>),
    /// The answer to [`Command::QueryBlockstats`].
    Blocks(BlockStats),
    /// The answer to [`Command::QomList`].
    Properties(Vec<Property>),
    /// The answer to [`Command::QomGet`]. Its shape depends on the property.
    Value(Value),
    /// The answer to [`Command::QueryStatus`].
    Status(RunState),
    /// The answer to [`Command::Human`]. Its format is not stable.
    Text(String),
}

impl Command {
    /// Parses QEMU's return value for this command.
    pub fn read_reply(&self, value: &Value) -> Result<Reply, Error> {
        let reader = Reader { command: self };
        match self {
            Command::QueryCpusFast => {
                let mut vcpus = reader.list(value, VCPUS_MAX, |cpu| {
                    let index = reader.small(cpu, "cpu-index")?;
                    Ok(VcpuThread { index, tid: reader.small(cpu, "thread-id")? })
                })?;
                vcpus.sort_by_key(|cpu| cpu.index);
                Ok(Reply::Vcpus(vcpus))
            }
            Command::QueryBalloon => {
                Ok(Reply::Balloon { actual_bytes: reader.number(value, "actual")? })
            }
            Command::QueryMemory => Ok(Reply::Memory {
                base_bytes: reader.number(value, "base-memory")?,
                plugged_bytes: match value.get("plugged-memory") {
                    None => None,
                    Some(_) => Some(reader.number(value, "plugged-memory")?),
                },
            }),
            Command::QueryMemdev => {
                let size = |piece: &Value| reader.number(piece, "size");
                Ok(Reply::Memdevs(reader.list(value, LIST_MAX, size)?))
            }
            Command::QueryMemoryDevices => {
                let sizes = reader.list(value, LIST_MAX, |device| {
                    if reader.text(device, "type")? != "virtio-mem" {
                        return Ok(0);
                    }
                    reader.number(device.get("data").ok_or(reader.wrong("data"))?, "size")
                })?;
                let virtio_mem_bytes = sizes.into_iter().fold(0, u64::saturating_add);
                Ok(Reply::MemoryDevices { virtio_mem_bytes })
            }
            Command::QueryName => Ok(Reply::Name(reader.optional_text(value, "name")?)),
            Command::QueryUuid => {
                let text = reader.text(value, "UUID")?;
                Ok(Reply::Uuid(uuid(&text).ok_or(reader.wrong("UUID"))?))
            }
            Command::QueryChardev => {
                Ok(Reply::Chardevs(reader.list(value, LIST_MAX, |device| {
                    let label = reader.text(device, "label")?;
                    Ok(Chardev { label, filename: reader.text(device, "filename")? })
                })?))
            }
            Command::QueryMigrate => Ok(Reply::Migration(reader.optional_text(value, "status")?)),
            Command::QueryBlockstats => {
                let disks = reader.list(value, LIST_MAX, |disk| {
                    let of = disk.get("stats").ok_or(reader.wrong("stats"))?;
                    Ok(BlockStats {
                        reads: reader.number(of, "rd_operations")?,
                        read_bytes: reader.number(of, "rd_bytes")?,
                        writes: reader.number(of, "wr_operations")?,
                        write_bytes: reader.number(of, "wr_bytes")?,
                    })
                })?;
                Ok(Reply::Blocks(disks.iter().fold(BlockStats::default(), |sum, disk| {
                    BlockStats {
                        reads: sum.reads.saturating_add(disk.reads),
                        read_bytes: sum.read_bytes.saturating_add(disk.read_bytes),
                        writes: sum.writes.saturating_add(disk.writes),
                        write_bytes: sum.write_bytes.saturating_add(disk.write_bytes),
                    }
                })))
            }
            Command::QomList { .. } => {
                Ok(Reply::Properties(reader.list(value, LIST_MAX, |property| {
                    let name = reader.text(property, "name")?;
                    Ok(Property { name, kind: reader.text(property, "type")? })
                })?))
            }
            Command::QomGet { .. } => Ok(Reply::Value(value.clone())),
            Command::Human { .. } => {
                let text = value.as_str().ok_or(reader.wrong("(text)"))?;
                Ok(Reply::Text(text.to_owned()))
            }
            Command::QueryStatus => {
                let running = value.get("running").and_then(Value::as_bool);
                Ok(Reply::Status(RunState {
                    running: running.ok_or(reader.wrong("running"))?,
                    status: reader.text(value, "status")?,
                }))
            }
            Command::Capabilities
            | Command::Balloon { .. }
            | Command::SetStatsInterval { .. }
            | Command::SystemPowerdown
            | Command::Stop
            | Command::SetMigrateBandwidth { .. }
            | Command::GetFile { .. }
            | Command::AddFile { .. }
            | Command::Migrate { .. }
            | Command::LeaveFilesOut
            | Command::MigrateIncoming { .. }
            | Command::SaveDevices { .. }
            | Command::Continue
            | Command::Quit => Ok(Reply::Done),
        }
    }
}

/// Parser of the answer to one command, with the command's name for errors.
#[derive(Clone, Copy)]
struct Reader<'a> {
    command: &'a Command,
}

impl Reader<'_> {
    fn wrong(self, member: &'static str) -> Error {
        Error::Reply { command: self.command.name(), member }
    }

    fn list<T>(
        self,
        value: &Value,
        most: usize,
        read: impl Fn(&Value) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let list = value.as_array().filter(|list| list.len() <= most);
        list.ok_or(self.wrong("(list)"))?.iter().map(read).collect()
    }

    fn number(self, value: &Value, member: &'static str) -> Result<u64, Error> {
        value.get(member).and_then(Value::as_u64).ok_or(self.wrong(member))
    }

    fn small(self, value: &Value, member: &'static str) -> Result<u32, Error> {
        self.number(value, member)?.try_into().map_err(|_| self.wrong(member))
    }

    fn text(self, value: &Value, member: &'static str) -> Result<String, Error> {
        let text = value.get(member).and_then(Value::as_str);
        let text = text.filter(|text| text.len() <= TEXT_BYTES_MAX);
        text.map(str::to_owned).ok_or(self.wrong(member))
    }

    /// Returns an optional member of a required object.
    fn optional_text(self, value: &Value, member: &'static str) -> Result<Option<String>, Error> {
        let object = value.as_object().ok_or(self.wrong("(object)"))?;
        object.contains_key(member).then(|| self.text(value, member)).transpose()
    }
}

/// Parses the 16 bytes of a UUID in its usual spelling: five groups of hexadecimal digits.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = [8, 13, 18, 23];
    let well_spelt = |(at, c): (usize, char)| match hyphens.contains(&at) {
        true => c == '-',
        false => c.is_ascii_hexdigit(),
    };
    if text.len() != 36 || !text.char_indices().all(well_spelt) {
        return None;
    }
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    Some(number.to_be_bytes())
}
