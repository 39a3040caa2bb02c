//! Gains and costs of page-out, and their descriptions.

use crate::control::{LeverRow, PagedOutRow};
use base::{Bytes, duration};
use hypervisor::Id;
use model::quantity::{self, short};
use model::{HostField, Row};
use policy::pageout::Taken;
use std::collections::BTreeMap;

/// Amount of refaulted memory from which a guest's wake-up is reported.
const NEWS: Bytes = Bytes::mib(4);

/// Account of a guest: its last page-out, and the memory that has become resident since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub times: u64,
    pub at_ms: i64,
    pub gained: Bytes,
    pub takes: Option<Bytes>,
    pub cpu_us: u64,
    pub came_back: Bytes,
    pub promoted: Bytes,
}

/// Accounts of all present guests, and sums over all guests, including ended guests.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<Id, Account>,
    gained: Bytes,
    takes: Bytes,
    came_back: Bytes,
    promoted: Bytes,
    times: u64,
}

impl Ledger {
    pub(super) fn get(&self, guest: Id) -> Option<&Account> {
        self.accounts.get(&guest)
    }

    pub(super) fn retain(&mut self, is_there: impl Fn(Id) -> bool) {
        self.accounts.retain(|guest, _| is_there(*guest));
    }

    pub(super) fn taken(&mut self, guest: Id, taken: &Taken, cpu_us: u64, at_ms: i64) {
        let gained = taken.before.own.less(taken.after.own);
        let takes = taken.stored.map(|(_, takes)| takes);
        let account = self.accounts.entry(guest).or_default();
        let times = account.times + 1;
        *account = Account { times, at_ms, gained, takes, cpu_us, ..Account::default() };
        self.times += 1;
        self.gained = self.gained.plus(gained);
        self.takes = self.takes.plus(takes.unwrap_or(Bytes::ZERO));
    }

    pub(super) fn came_back(&mut self, guest: Id, size: Bytes) {
        self.came_back = self.came_back.plus(size);
        self.accounts.entry(guest).or_default().came_back = size;
    }

    /// Adds memory that became resident later. Returns true once for each page-out, when [`NEWS`]
    /// is reached.
    pub(super) fn promoted(&mut self, guest: Id, size: Bytes) -> bool {
        self.came_back = self.came_back.plus(size);
        self.promoted = self.promoted.plus(size);
        let account = self.accounts.entry(guest).or_default();
        let was_news = account.promoted >= NEWS;
        account.promoted = account.promoted.plus(size);
        !was_news && account.promoted >= NEWS
    }

    /// Returns the number of present guests with an account.
    pub(super) fn guests(&self) -> u64 {
        self.accounts.len() as u64
    }

    /// Adds the sums to a recorded row.
    pub(super) fn record(&self, row: &mut Row<HostField>) {
        row.extend([
            (HostField::PageOuts, Some(self.times)),
            (HostField::PagedOut, Some(self.gained.0)),
            (HostField::PagedOutStored, Some(self.takes.0)),
            (HostField::CameBack, Some(self.came_back.0)),
        ]);
    }

    /// Returns the sums as a row for display.
    pub(super) fn row(&self) -> LeverRow {
        LeverRow {
            times: Some(self.times),
            gained_bytes: Some(self.gained.0),
            compressed_bytes: Some(self.takes.0),
            came_back_bytes: Some(self.came_back.0),
            promoted_bytes: Some(self.promoted.0),
            ..LeverRow::default()
        }
    }
}

impl Account {
    pub(super) fn row(self, name: &str, state: &str, working_set: Option<Bytes>) -> PagedOutRow {
        let is_known = self.times > 0;
        PagedOutRow {
            name: name.to_owned(),
            state: state.to_owned(),
            times: self.times,
            at_ms: is_known.then_some(self.at_ms),
            gained_bytes: is_known.then_some(self.gained.0),
            compressed_bytes: self.takes.map(|takes| takes.0),
            cost_us: is_known.then_some(self.cpu_us),
            came_back_bytes: is_known.then_some(self.came_back.plus(self.promoted).0),
            working_set_bytes: working_set.map(|size| size.0),
        }
    }
}

fn size(bytes: Bytes) -> String {
    quantity::size(bytes.0 as f64)
}

/// Describes a page-out.
pub(super) fn gained(gained: Bytes, taken: &Taken, cpu_us: u64, ran: bool) -> String {
    let takes = match taken.stored {
        Some((_, takes)) => format!(", and compressed memory grew by {}", size(takes)),
        None => String::new(),
    };
    let cut = if taken.is_cut { "; the page-out was ended early" } else { "" };
    let why = if ran { "the host is short of memory" } else { "it sleeps" };
    format!(
        "{why}: {} of its memory were moved to the host's swap{takes}; this took {} ms of CPU \
         time{cut}",
        size(gained),
        short(cpu_us as f64 / 1000.0)
    )
}

/// Describes the measurement a minute after a page-out.
pub(super) fn measured(account: &Account, working_set: Bytes, came_back: Bytes) -> String {
    format!(
        "{} were moved to the host's swap, {} came back within a minute; the working set is {}",
        size(account.gained),
        size(came_back),
        size(working_set)
    )
}

/// Describes a guest that has woken.
pub(super) fn woken(account: &Account, rest_ms: u64) -> String {
    let rest = duration::show(i64::try_from(rest_ms).unwrap_or(i64::MAX));
    format!(
        "the guest has run: {} more came back from the host's swap; the next page-out begins at \
         least {rest} after the last one",
        size(account.promoted)
    )
}

/// Describes a guest with memory that does not compress.
pub(super) fn incompressible(ratio_permille: u64) -> String {
    format!(
        "the guest's memory compresses only {} : 1; the guest is not paged out again",
        short(ratio_permille as f64 / 1000.0)
    )
}

/// Describes a guest with little memory that the host can reclaim.
pub(super) fn barren(gained: Bytes) -> String {
    format!(
        "the host could page out only {} of the guest (is the rest locked, or in huge pages?); the \
         guest is not paged out again",
        size(gained)
    )
}
