//! Events, which the daemon sends without a call.

use crate::Error;
use crate::domain::Domain;
use crate::xdr::Reader;

pub(crate) const LIFECYCLE: i32 = 318;
pub(crate) const REBOOT: i32 = 319;
pub(crate) const BALLOON_CHANGE: i32 = 331;
pub(crate) const MIGRATION_ITERATION: i32 = 359;
pub(crate) const JOB_COMPLETED: i32 = 363;
pub(crate) const MEMORY_DEVICE_SIZE: i32 = 438;

/// A change in a domain's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// The domain was defined, or its configuration changed.
    Defined,
    /// The domain's configuration was deleted.
    Undefined,
    /// The domain has started.
    Started,
    /// The domain's virtual CPUs were stopped.
    Suspended,
    /// The domain's virtual CPUs run again.
    Resumed,
    /// The domain has ended, and its process with it.
    Stopped,
    /// The guest has shut down, but its process still exists.
    Shutdown,
    /// The guest is suspended.
    PmSuspended,
    /// The guest has crashed.
    Crashed,
    /// A value that is newer than this program.
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

/// An event of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change in the domain's life cycle.
    Lifecycle {
        /// The domain.
        domain: Domain,
        /// The change.
        what: Lifecycle,
        /// libvirt's number of the reason; its meaning depends on the change.
        detail: i32,
    },
    /// The domain restarts in the same process.
    Reboot(Domain),
    /// The domain's memory size has changed.
    BalloonChange {
        /// The domain.
        domain: Domain,
        /// The current size.
        actual_kib: u64,
    },
    /// A round of the domain's migration is complete.
    MigrationIteration(Domain),
    /// The domain's migration, save or dump has ended, in any way.
    JobCompleted(Domain),
    /// A virtio-mem device of the domain has changed its size.
    MemoryDeviceSize(Domain),
}

impl Event {
    /// Parses an event; `None` for an event that was not requested.
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
            // The device and its size follow, but the domain's description has the sizes of all
            // devices.
            MEMORY_DEVICE_SIZE => return Ok(Some(Event::MemoryDeviceSize(domain))),
            // The job's figures follow, which are not needed.
            _ => return Ok(Some(Event::JobCompleted(domain))),
        };
        reader.end()?;
        Ok(Some(event))
    }
}
