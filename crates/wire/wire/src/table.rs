//! The table of all messages. Its rows generate the two enums, their kinds on the wire and the list
//! in `docs/protocol.md`.

use std::time::Duration;

use crate::body::{Body, Reader, Writer};
use crate::identity::Identity;
use crate::memory::Memory;
use crate::processes::{Processes, Scan};
use crate::system::System;
use crate::to_guest::{AskAlarm, AtHost, Capture, Grant, Sample, Welcome};
use crate::to_host::{Alarm, CameFrom, Chunk, Hello, Identified, PoolRequest, Pressure, Status};

/// The messages of one end.
pub trait Message: Sized {
    /// The sending end, as `docs/protocol.md` names it.
    const FROM: &'static str;
    /// All rows.
    const ROWS: &'static [Row];

    /// Returns the message's number in a frame.
    fn kind(&self) -> u8;

    #[doc(hidden)]
    fn write(&self, out: &mut Writer<'_>);

    #[doc(hidden)]
    fn read(kind: u8, from: &mut Reader<'_>) -> Option<Self>;
}

/// A row of the table of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The message's number in a frame.
    pub kind: u8,
    /// The message's name.
    pub name: &'static str,
    /// The fields of the message's body, in this order.
    pub body: &'static str,
}

macro_rules! messages {
    ($(#[$doc:meta])* $Name:ident from $from:literal {
        $($kind:literal $variant:ident $(($value:ident: $type:ty))? $body:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $Name {
            $(#[doc = concat!("Its body: ", $body, ".")] $variant $(($type))?,)*
        }

        impl Message for $Name {
            const FROM: &'static str = $from;
            const ROWS: &'static [Row] =
                &[$(Row { kind: $kind, name: stringify!($variant), body: $body }),*];

            fn kind(&self) -> u8 {
                match self {
                    $($Name::$variant { .. } => $kind,)*
                }
            }

            fn write(&self, _out: &mut Writer<'_>) {
                match self {
                    $($Name::$variant $(($value))? => { $($value.write(_out);)? })*
                }
            }

            fn read(kind: u8, from: &mut Reader<'_>) -> Option<$Name> {
                match kind {
                    $($kind => Some($Name::$variant $((<$type as Body>::read(from)?))?),)*
                    _ => None,
                }
            }
        }
    };
}

messages! {
    /// A message of a guest's daemon to its host.
    ToHost from "guest" {
        1 Hello(hello: Hello)
            "boot id (16 bytes), CPUs present, milliseconds between samples, kind of pool (0 \
             none, 1 CMM, 2 host's), 1 if the Hello answers a Welcome, version",
        2 Status(status: Status)
            "number, CPUs online and present, pool, MemTotal, MemFree, MemAvailable, busy, \
             idle and stolen ticks, plugs, unplugs, grows, shrinks, settled, reason",
        3 PoolRequest(request: PoolRequest) "number, pages wanted",
        4 Need(pressure: Pressure) "0: tasks wait for a CPU; 1: for memory",
        5 Chunk(chunk: Chunk) "number, file, offset, last, bytes (at most 2,048)",
        6 Bye "empty; the daemon ends, and has restored CPUs and pool",
        7 Memory(memory: Memory) "number of the Sample, uptime, and the 18 numbers below",
        8 Processes(processes: Processes)
            "number of the Scan and of the Scan before it, part, last, 15 numbers of all \
             tasks, tasks",
        9 System(system: System) "number of the Scan, and the 11 numbers below",
        10 Identified(identified: Identified)
            "empty if the guest has adopted its identity, else the reason why not",
        11 Alarm(alarm: Alarm)
            "number of the AskAlarm, milliseconds until the guest's next timer",
        12 CameFrom(came: CameFrom)
            "name of the guest's previous host, as that host sent it",
    }
}

messages! {
    /// A message of a host to a guest's daemon. Kinds begin at 65, so that the number shows the
    /// direction.
    ToGuest from "host" {
        65 Welcome(welcome: Welcome)
            "the guest's memory in pages, 1 if requests are granted, 1 if the host sets the \
             pace",
        66 Grant(grant: Grant) "number of the request, pages of the pool, reason",
        67 Look "empty; the virtual CPUs have run, so the daemon samples",
        68 Capture(capture: Capture) "number, file",
        69 Sample(sample: Sample) "number, not 0; requests a Memory",
        70 Clock(time: Duration)
            "time since 1970 (seconds, ns), after the guest and its clock were stopped",
        71 Scan(scan: Scan)
            "number, not 0, and the maximum number of tasks; requests Processes",
        72 Identify(identity: Identity)
            "name, UUID and boot id (16 bytes each), 1 if the guest has addresses, hardware \
             address and address (10 bytes), seed (32 bytes), time since 1970 (seconds, ns)",
        73 AskAlarm(question: AskAlarm)
            "number; requests an Alarm",
        74 AtHost(host: AtHost) "the host's name, after a Hello",
    }
}
