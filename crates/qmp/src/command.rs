//! The commands that pinhead gives to QEMU.

use serde_json::{Value, json};

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
    /// `query-memory-size-summary`: how much memory the machine was built with.
    QueryMemory,
    /// `query-memdev`: the pieces that its memory comes from, of which each is mapped alone.
    QueryMemdev,
    /// `query-memory-devices`: what of its memory a device of its own can take back.
    QueryMemoryDevices,
    /// `query-name`: what the guest was called when it was started.
    QueryName,
    /// `query-uuid`: the UUID that the guest was given.
    QueryUuid,
    /// `query-chardev`: the character devices and where they end on the host.
    QueryChardev,
    /// `query-migrate`: whether the guest moves to another host.
    QueryMigrate,
    /// `query-blockstats`: what the guest read from its disks and wrote to them.
    QueryBlockstats,
    /// `qom-list`: the properties of an object in QEMU's tree.
    QomList {
        /// The object, such as `/machine/peripheral`.
        path: String,
    },
    /// `qom-get`: the value of a property.
    QomGet {
        /// The object.
        path: String,
        /// The property.
        property: &'static str,
    },
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
    /// `stop`: stops the virtual CPUs.
    Stop,
    /// `cont`: lets the virtual CPUs run again.
    Continue,
    /// `migrate-set-parameters` of `max-bandwidth`: how fast a state may be written.
    SetMigrateBandwidth {
        /// Bytes a second.
        bytes_a_second: u64,
    },
    /// `getfd`: takes the file that comes with these bytes.
    GetFile {
        /// What QEMU calls it from then on.
        name: &'static str,
    },
    /// `add-fd`: takes over the file that comes with this command, as `/dev/fdset/SET`.
    AddFile {
        /// The number of QEMU's name for it.
        set: u32,
    },
    /// `migrate`: writes the guest's state. It goes on after the answer; see `QueryMigrate`.
    Migrate {
        /// Where to, in QEMU's words.
        uri: String,
    },
    /// `migrate-set-capabilities`: memory that is a file of its own is no part of the state.
    LeaveFilesOut,
    /// `migrate-incoming`: goes on from a state. What fails later ends QEMU.
    MigrateIncoming {
        /// Where from, in QEMU's words.
        uri: String,
    },
    /// `xen-save-devices-state`: writes the state of a stopped guest's devices, without its memory.
    /// Every QEMU has it, whatever it is called after.
    SaveDevices {
        /// Where to.
        path: String,
    },
    /// `human-monitor-command`: a line of the monitor for people. What it answers is for them too.
    Human {
        /// The line.
        line: String,
    },
    /// `quit`: ends QEMU without asking the guest.
    Quit,
}

impl Command {
    /// The command's name in QMP.
    pub fn name(&self) -> &'static str {
        self.words().0
    }

    /// The line that gives this command to QEMU, with its newline.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        let (name, arguments) = self.words();
        let mut object = json!({ "execute": name, "id": id });
        if !arguments.is_null() {
            object["arguments"] = arguments;
        }
        format!("{object}\n").into_bytes()
    }

    /// The command's name and arguments; null for none.
    fn words(&self) -> (&'static str, Value) {
        let null = Value::Null;
        match self {
            Command::Capabilities => ("qmp_capabilities", null),
            Command::QueryCpusFast => ("query-cpus-fast", null),
            Command::Balloon { value_bytes } => ("balloon", json!({ "value": value_bytes })),
            Command::QueryBalloon => ("query-balloon", null),
            Command::QueryMemory => ("query-memory-size-summary", null),
            Command::QueryMemdev => ("query-memdev", null),
            Command::QueryMemoryDevices => ("query-memory-devices", null),
            Command::QueryName => ("query-name", null),
            Command::QueryUuid => ("query-uuid", null),
            Command::QueryChardev => ("query-chardev", null),
            Command::QueryMigrate => ("query-migrate", null),
            Command::QueryBlockstats => ("query-blockstats", null),
            Command::QomList { path } => ("qom-list", json!({ "path": path })),
            Command::QomGet { path, property } => {
                ("qom-get", json!({ "path": path, "property": property }))
            }
            Command::SetStatsInterval { device_path, interval_seconds } => {
                let property = "guest-stats-polling-interval";
                let value = interval_seconds;
                ("qom-set", json!({ "path": device_path, "property": property, "value": value }))
            }
            Command::QueryStatus => ("query-status", null),
            Command::SystemPowerdown => ("system_powerdown", null),
            Command::Stop => ("stop", null),
            Command::Continue => ("cont", null),
            Command::SetMigrateBandwidth { bytes_a_second } => {
                ("migrate-set-parameters", json!({ "max-bandwidth": bytes_a_second }))
            }
            Command::GetFile { name } => ("getfd", json!({ "fdname": name })),
            Command::AddFile { set } => ("add-fd", json!({ "fdset-id": set })),
            Command::Migrate { uri } => ("migrate", json!({ "uri": uri })),
            Command::LeaveFilesOut => {
                let capability = json!({ "capability": "x-ignore-shared", "state": true });
                ("migrate-set-capabilities", json!({ "capabilities": [capability] }))
            }
            Command::MigrateIncoming { uri } => ("migrate-incoming", json!({ "uri": uri })),
            Command::SaveDevices { path } => {
                // Its disks stay its own: it may go on.
                ("xen-save-devices-state", json!({ "filename": path, "live": false }))
            }
            Command::Human { line } => ("human-monitor-command", json!({ "command-line": line })),
            Command::Quit => ("quit", null),
        }
    }
}
