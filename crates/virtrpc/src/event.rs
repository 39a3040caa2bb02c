//! What the daemon tells without being asked.

use crate::Error;
use crate::domain::Domain;
use crate::xdr::Reader;

pub(crate) const LIFECYCLE: i32 = 318;
pub(crate) const REBOOT: i32 = 319;
pub(crate) const BALLOON_CHANGE: i32 = 331;
pub(crate) const MIGRATION_ITERATION: i32 = 359;
pub(crate) const JOB_COMPLETED: i32 = 363;
pub(crate) const MEMORY_DEVICE_SIZE: i32 = 438;

/// What happened in a domain's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It was defined, or what is kept of it changed.
    Defined,
    /// What is kept of it was deleted.
    Undefined,
    /// It started.
    Started,
    /// Its virtual CPUs were stopped.
    Suspended,
    /// Its virtual CPUs go on.
    Resumed,
    /// It ended, and its process with it.
    Stopped,
    /// The guest has shut down and its process is still there.
    Shutdown,
    /// The guest sleeps.
    PmSuspended,
    /// The guest has crashed.
    Crashed,
    /// Something newer than this program.
    Other(i32),
}

impl Lifecycle {
    fn of(number: i32) -> Lifecycle {
        match number {
            0 => Lifecycle::Defined,
            1 => Lifecycle::Undefined,
            2 => Lifecycle::Started,
            3 => Lifecycle::Suspended,
            4 => Lifecycle::Resumed,
            5 => Lifecycle::Stopped,
            6 => Lifecycle::Shutdown,
            7 => Lifecycle::PmSuspended,
            8 => Lifecycle::Crashed,
            other => Lifecycle::Other(other),
        }
    }
}

/// Something that happened to a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// In its life.
    Lifecycle {
        /// The domain.
        domain: Domain,
        /// What.
        what: Lifecycle,
        /// libvirt's number of the reason, whose meaning depends on what happened.
        detail: i32,
    },
    /// It restarts in the same process.
    Reboot(Domain),
    /// Its memory became more or less.
    BalloonChange {
        /// The domain.
        domain: Domain,
        /// What it has now.
        actual_kib: u64,
    },
    /// A round of copying it to another host is over.
    MigrationIteration(Domain),
    /// Its move, save or dump is over, however it ended.
    JobCompleted(Domain),
    /// A virtio-mem device of it gives more or less.
    MemoryDeviceSize(Domain),
}

impl Event {
    /// Reads an event; `None` for one that was never asked for.
    pub(crate) fn read(procedure: i32, body: &[u8]) -> Result<Option<Event>, Error> {
        let what = match procedure {
            LIFECYCLE => "domain_event_callback_lifecycle",
            REBOOT => "domain_event_callback_reboot",
            BALLOON_CHANGE => "domain_event_callback_balloon_change",
            MIGRATION_ITERATION => "domain_event_callback_migration_iteration",
            JOB_COMPLETED => "domain_event_callback_job_completed",
            MEMORY_DEVICE_SIZE => "domain_event_memory_device_size_change",
            _ => return Ok(None),
        };
        let mut reader = Reader::new(body, what);
        reader.i32("callbackID")?;
        let domain = Domain::read(&mut reader)?;
        let event = match procedure {
            LIFECYCLE => Event::Lifecycle {
                domain,
                what: Lifecycle::of(reader.i32("event")?),
                detail: reader.i32("detail")?,
            },
            REBOOT => Event::Reboot(domain),
            BALLOON_CHANGE => Event::BalloonChange { domain, actual_kib: reader.u64("actual")? },
            MIGRATION_ITERATION => {
                reader.i32("iteration")?;
                Event::MigrationIteration(domain)
            }
            // The device and its size follow: the description has those of all.
            MEMORY_DEVICE_SIZE => return Ok(Some(Event::MemoryDeviceSize(domain))),
            // The job's figures follow, of which nothing is asked.
            _ => return Ok(Some(Event::JobCompleted(domain))),
        };
        reader.end()?;
        Ok(Some(event))
    }
}
