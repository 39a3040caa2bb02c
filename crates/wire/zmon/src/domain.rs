//! Contents of records by domain. Offsets count from the start of a record, head included.
//!
//! The tables contain only fields that the reports need, and only fields with an offset in a public
//! page or program. CPU times are in units of the clock.

use crate::Error;
use crate::appldata::ProductId;
use crate::frame::{Found, Head};
use crate::layout::{Layout, record};
use crate::text::from_ebcdic;

record! {
    /// Domain 0, record 2: a processor. Each processor has its own record.
    Processor, 96, {
        address: u16 = 20;
        /// Time running the guests' own code.
        guest_time: u64 = 24;
        /// Time working for a guest, CP's work included.
        user_time: u64 = 32;
        /// System time: CP's work for all users together, or for no user.
        system_time: u64 = 40;
        /// Wait time.
        wait_time: u64 = 68;
    }
}

record! {
    /// Domain 0, record 3: real storage, in frames of 4 KiB.
    Storage, 72, {
        /// Frames available for users' pages.
        pageable: u32 = 48;
        /// Free frames.
        available: u32 = 52;
    }
}

record! {
    /// Domain 0, record 8: users.
    Users, 28, {
        /// Users that are logged on.
        logged_on: u32 = 20;
        /// Logged-on users that are dormant.
        dormant: u32 = 24;
    }
}

record! {
    /// Domain 0, record 12: number of samples in each state, of all users together.
    States, 56, {
        test_idle: u32 = 20;
        service: u32 = 24;
        io: u32 = 28;
        page: u32 = 32;
        console: u32 = 36;
        simulation: u32 = 40;
        cpu: u32 = 44;
        running: u32 = 48;
        other: u32 = 52;
    }
}

record! {
    /// Domain 4, record 2: a user logs off.
    Logoff, 28, {
        user: [u8; 8] = 20;
    }
}

record! {
    /// Domain 4, record 3: a virtual processor at each interval. Its times and memory lie in a part
    /// of the record that is not read here.
    Activity, 33, {
        user: [u8; 8] = 20;
        cpu: u16 = 28;
        /// X'37' in the dispatch list, X'21' in the eligible list, X'0B' dormant.
        list: u8 = 32;
    }
}

record! {
    /// Domain 4, record 9: a virtual processor at the end of a transaction. Pages have 4 KiB.
    ActivityAtEnd, 252, {
        user: [u8; 8] = 20;
        cpu: u16 = 28;
        total_time: u64 = 32;
        virtual_time: u64 = 40;
        resident: u32 = 64;
        locked: u32 = 68;
        working_set: u32 = 72;
        page_waits: u32 = 100;
        pages_read: u32 = 104;
        pages_written: u32 = 108;
        /// Pages on the paging disks.
        slots: u32 = 144;
        blocks: Option<u32> = 192;
        relative_share: Option<u32> = 208;
        absolute_share: Option<u32> = 212;
        /// Size of the user's storage.
        storage: Option<u32> = 216;
        /// I/O to virtual disks in storage.
        virtual_disk: Option<u32> = 248;
    }
}

record! {
    /// Domain 4, record 10: samples of a virtual processor by state.
    Interaction, 196, {
        user: [u8; 8] = 20;
        samples: u32 = 48;
        test_idle: u32 = 88;
        service: u32 = 92;
        io: u32 = 96;
        console: u32 = 100;
        simulation: u32 = 104;
        page: u32 = 108;
        cpu: u32 = 112;
        running: u32 = 116;
        eligible: u32 = 120;
        loading: u32 = 124;
        dormant: u32 = 128;
        service_dormant: u32 = 132;
        other: u32 = 136;
        io_active: u32 = 184;
        limit_list: u32 = 188;
        page_active: u32 = 192;
    }
}

record! {
    /// Domain 10, records 1 and 2: head of an application's data.
    ApplicationHead, 52, {
        /// Offset of the data.
        data_at: u16 = 20;
        /// Length of the data.
        data_bytes: u16 = 22;
        user: [u8; 8] = 24;
        product: [u8; 16] = 32;
    }
}

/// Data of an application, with their owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application<'a> {
    /// Guest that provides the data.
    pub user: String,
    /// True if these are the last data of the application, because CP has stopped copying them.
    pub is_over: bool,
    /// Application of the data.
    pub product: ProductId,
    /// Data of the application.
    pub data: &'a [u8],
}

/// Contents of a record, if its kind is supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A processor.
    Processor(Processor),
    /// Real storage.
    Storage(Storage),
    /// Users.
    Users(Users),
    /// States of all users.
    States(States),
    /// A user logs off.
    Logoff(Logoff),
    /// A virtual processor at an interval.
    Activity(Activity),
    /// A virtual processor at the end of a transaction.
    ActivityAtEnd(Box<ActivityAtEnd>),
    /// States of a virtual processor.
    Interaction(Box<Interaction>),
    /// An application's data.
    Application(Application<'a>),
    /// End of an interval, which contains all data since the previous end.
    EndOfInterval,
    /// An unsupported record.
    Other,
}

/// Returns the contents of a record.
pub fn said<'a>(found: &Found<'a>) -> Result<Said<'a>, Error> {
    let bytes = found.bytes;
    Ok(match found.kind {
        (0, 2) => Said::Processor(Processor::read(bytes)?),
        (0, 3) => Said::Storage(Storage::read(bytes)?),
        (0, 8) => Said::Users(Users::read(bytes)?),
        (0, 12) => Said::States(States::read(bytes)?),
        (4, 2) => Said::Logoff(Logoff::read(bytes)?),
        (4, 3) => Said::Activity(Activity::read(bytes)?),
        (4, 9) => Said::ActivityAtEnd(Box::new(ActivityAtEnd::read(bytes)?)),
        (4, 10) => Said::Interaction(Box::new(Interaction::read(bytes)?)),
        (10, 1 | 2) => Said::Application(application(bytes, found.kind == (10, 1))?),
        crate::frame::END_OF_INTERVAL => Said::EndOfInterval,
        _ => Said::Other,
    })
}

fn application(bytes: &[u8], is_over: bool) -> Result<Application<'_>, Error> {
    let head = ApplicationHead::read(bytes)?;
    let (from, length) = (usize::from(head.data_at), usize::from(head.data_bytes));
    let data = bytes.get(from..).and_then(|rest| rest.get(..length)).ok_or(Error::Short {
        record: "Application",
        field: "its data",
        from,
        to: from + length,
        length: bytes.len(),
    })?;
    let product = ProductId::read(&head.product)?;
    Ok(Application { user: from_ebcdic(&head.user), is_over, product, data })
}

impl Application<'_> {
    /// Returns the record with these data.
    pub fn record(&self, at: crate::Tod) -> Vec<u8> {
        let head = ApplicationHead {
            data_at: ApplicationHead::BYTES as u16,
            data_bytes: u16::try_from(self.data.len()).unwrap_or(u16::MAX),
            user: crate::to_ebcdic(&self.user),
            product: self.product.bytes().try_into().unwrap_or_default(),
        };
        let rest = [&head.bytes()[Head::BYTES..], self.data].concat();
        Head::with(if self.is_over { (10, 1) } else { (10, 2) }, at, &rest)
    }
}

/// Returns a record of a kind, from its table.
pub fn record(kind: (u8, u16), at: crate::Tod, of: &impl Layout) -> Vec<u8> {
    Head::with(kind, at, &of.bytes()[Head::BYTES..])
}
