//! The commands that pinhead gives to QEMU, and the shapes of their answers.

use serde_json::{Value, json};

use crate::Error;

/// More virtual CPUs than any machine type of QEMU offers: an answer that lists more is wrong.
pub const VCPUS_MAX: usize = 4096;

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `qmp_capabilities`: ends the negotiation. [`crate::Client`] sends it by itself.
    Capabilities,
    /// `query-cpus-fast`: the virtual CPUs and their host threads. It does not stop the guest.
    QueryCpusFast,
    /// `balloon`: asks the guest to keep this much memory.
    Balloon {
        /// The size that the guest keeps, not the size of the balloon.
        value_bytes: u64,
    },
    /// `query-balloon`: how much memory the guest has now.
    QueryBalloon,
    /// `qom-set` of `guest-stats-polling-interval`: how often the guest reports its memory.
    SetStatsInterval {
        /// Where the balloon device is in QEMU's object tree.
        device_path: String,
        /// 0 turns the reports off; each report wakes the guest.
        interval_seconds: u32,
    },
    /// `query-status`: whether the guest runs.
    QueryStatus,
    /// `system_powerdown`: presses the guest's power button.
    SystemPowerdown,
    /// `quit`: ends QEMU without asking the guest.
    Quit,
}

/// A virtual CPU and the host thread that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuThread {
    /// The CPU's index in QEMU.
    pub index: u32,
    /// The thread's id on the host.
    pub tid: u32,
}

/// Whether a guest runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunState {
    /// True while the virtual CPUs run.
    pub running: bool,
    /// QEMU's word for it, such as `paused` or `guest-panicked`.
    pub status: String,
}

/// What a command that succeeded returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done; there is nothing to say.
    Done,
    /// The answer to [`Command::QueryCpusFast`], sorted by index.
    Vcpus(Vec<VcpuThread>),
    /// The answer to [`Command::QueryBalloon`].
    Balloon {
        /// The memory that the guest keeps.
        actual_bytes: u64,
    },
    /// The answer to [`Command::QueryStatus`].
    Status(RunState),
}

impl Command {
    /// The command's name in QMP.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Capabilities => "qmp_capabilities",
            Command::QueryCpusFast => "query-cpus-fast",
            Command::Balloon { .. } => "balloon",
            Command::QueryBalloon => "query-balloon",
            Command::SetStatsInterval { .. } => "qom-set",
            Command::QueryStatus => "query-status",
            Command::SystemPowerdown => "system_powerdown",
            Command::Quit => "quit",
        }
    }

    /// The line that gives this command to QEMU, with its newline.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        let mut object = json!({ "execute": self.name(), "id": id });
        if let Some(arguments) = self.arguments() {
            object["arguments"] = arguments;
        }
        format!("{object}\n").into_bytes()
    }

    fn arguments(&self) -> Option<Value> {
        match self {
            Command::Balloon { value_bytes } => Some(json!({ "value": value_bytes })),
            Command::SetStatsInterval { device_path, interval_seconds } => Some(json!({
                "path": device_path,
                "property": "guest-stats-polling-interval",
                "value": interval_seconds,
            })),
            _ => None,
        }
    }

    /// Reads the value that QEMU returned for this command.
    pub fn read_reply(&self, value: &Value) -> Result<Reply, Error> {
        let wrong = |member| Error::Reply { command: self.name(), member };
        match self {
            Command::QueryCpusFast => {
                let list = value.as_array().ok_or(wrong("(list)"))?;
                if list.len() > VCPUS_MAX {
                    return Err(wrong("(list)"));
                }
                let mut vcpus = list
                    .iter()
                    .map(|cpu| {
                        Ok(VcpuThread {
                            index: small(cpu, "cpu-index").ok_or(wrong("cpu-index"))?,
                            tid: small(cpu, "thread-id").ok_or(wrong("thread-id"))?,
                        })
                    })
                    .collect::<Result<Vec<_>, Error>>()?;
                vcpus.sort_by_key(|cpu| cpu.index);
                Ok(Reply::Vcpus(vcpus))
            }
            Command::QueryBalloon => {
                let actual = value.get("actual").and_then(Value::as_u64);
                Ok(Reply::Balloon { actual_bytes: actual.ok_or(wrong("actual"))? })
            }
            Command::QueryStatus => {
                let running = value.get("running").and_then(Value::as_bool);
                let status = value.get("status").and_then(Value::as_str);
                Ok(Reply::Status(RunState {
                    running: running.ok_or(wrong("running"))?,
                    status: status.ok_or(wrong("status"))?.to_owned(),
                }))
            }
            _ => Ok(Reply::Done),
        }
    }
}

/// A member that is an unsigned number and fits.
fn small(value: &Value, member: &str) -> Option<u32> {
    value.get(member)?.as_u64()?.try_into().ok()
}
