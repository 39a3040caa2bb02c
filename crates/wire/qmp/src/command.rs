//! The commands that pinhead sends to QEMU.

use serde_json::{Value, json};

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `qmp_capabilities`: ends the negotiation. [`crate::Client`] sends it by itself.
    Capabilities,
    /// `query-cpus-fast`: the virtual CPUs and their host threads. The command does not stop the
    /// guest.
    QueryCpusFast,
    /// `balloon`: requests the guest to keep memory of this size.
    Balloon {
        /// The size that the guest keeps, not the size of the balloon.
        value_bytes: u64,
    },
    /// `query-balloon`: the guest's current memory.
    QueryBalloon,
    /// `query-memory-size-summary`: the memory that the machine was built with.
    QueryMemory,
    /// `query-memdev`: the memory backends, each of which is mapped separately.
    QueryMemdev,
    /// `query-memory-devices`: the part of the memory that virtio-mem devices can unplug.
    QueryMemoryDevices,
    /// `query-name`: the name that the guest was started with.
    QueryName,
    /// `query-uuid`: the guest's UUID.
    QueryUuid,
    /// `query-chardev`: the character devices and their ends on the host.
    QueryChardev,
    /// `query-migrate`: the state of the guest's migration.
    QueryMigrate,
    /// `query-blockstats`: the guest's reads and writes of its disks.
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
        property: &'static str,
    },
    /// `qom-set` of `guest-stats-polling-interval`: the interval of the guest's memory reports.
    SetStatsInterval {
        /// The balloon device's path in QEMU's object tree.
        device_path: String,
        /// The interval; 0 disables the reports, each of which wakes the guest.
        interval_seconds: u32,
    },
    /// `query-status`: the run state of the guest.
    QueryStatus,
    /// `system_powerdown`: presses the guest's power button.
    SystemPowerdown,
    /// `stop`: stops the virtual CPUs.
    Stop,
    /// `cont`: resumes the virtual CPUs.
    Continue,
    /// `migrate-set-parameters` of `max-bandwidth`: the limit for writing a state.
    SetMigrateBandwidth { bytes_a_second: u64 },
    /// `getfd`: stores the file descriptor that is sent with this command.
    GetFile {
        /// QEMU's name for the file.
        name: &'static str,
    },
    /// `add-fd`: stores the file descriptor that is sent with this command, as `/dev/fdset/SET`.
    AddFile {
        /// The number of the descriptor set.
        set: u32,
    },
    /// `migrate`: writes the guest's state. Writing continues after the answer; see `QueryMigrate`.
    Migrate {
        /// The destination, as a URI of QEMU.
        uri: String,
    },
    /// `migrate-set-capabilities`: leaves memory in shared files out of the state.
    LeaveFilesOut,
    /// `migrate-incoming`: loads a state. A later error ends QEMU.
    MigrateIncoming {
        /// The source, as a URI of QEMU.
        uri: String,
    },
    /// `xen-save-devices-state`: writes the state of a stopped guest's devices, without its memory.
    /// Despite its name, every QEMU supports the command.
    SaveDevices {
        /// The destination file.
        path: String,
    },
    /// `human-monitor-command`: a line of the human monitor. The answer is text for humans as well.
    Human { line: String },
    /// `quit`: ends QEMU without involving the guest.
    Quit,
}

impl Command {
    /// Returns the command's name in QMP.
    pub fn name(&self) -> &'static str {
        self.words().0
    }

    /// Returns the line that sends this command to QEMU, with its newline.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        let (name, arguments) = self.words();
        let mut object = json!({ "execute": name, "id": id });
        if !arguments.is_null() {
            object["arguments"] = arguments;
        }
        format!("{object}\n").into_bytes()
    }

    /// Returns the command's name and arguments; null for none.
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
                // QEMU keeps control of its disks, so that the guest may continue.
                ("xen-save-devices-state", json!({ "filename": path, "live": false }))
            }
            Command::Human { line } => ("human-monitor-command", json!({ "command-line": line })),
            Command::Quit => ("quit", null),
        }
    }
}
