//! A change of a guest's limits: its check and its result.

use crate::config::Share;
use crate::control::{Change, Failure};
use crate::effect::Override;
use crate::guest::ManagedGuest;
use base::Bytes;
use policy::arbiter::Mode;

/// Smallest size in which a guest can run.
const SIZE_MIN: Bytes = Bytes::mib(16);

/// Adds a change to the operator's overrides, if the guest allows it.
pub(super) fn changed(
    over: &mut Override,
    change: Change,
    guest: &ManagedGuest,
) -> Result<(), Failure> {
    let (memory, limits) = (guest.found.memory, guest.limits);
    let name = &guest.found.name;
    let size_of = |share: Share, word: &str| {
        let size = share.of(memory);
        if size > memory {
            return Err(Failure::new(format!(
                "The value of `{word}` exceeds the memory that {name} was started with"
            ))
            .help(format!("the guest was started with {} MiB", memory.nearest_mib())));
        }
        if size < SIZE_MIN {
            return Err(Failure::new(format!("The value of `{word}` is too small for a guest"))
                .help(format!("give at least {} MiB", SIZE_MIN.nearest_mib())));
        }
        Ok(size)
    };
    let beyond = |word: &str, bound: &str, size: Bytes| {
        Failure::new(format!("The value of `{word}` conflicts with `{bound}` of {name}"))
            .help(format!("`{bound}` is {} MiB", size.nearest_mib()))
    };
    match change {
        Change::Min(share) => {
            let size = size_of(share, "min")?;
            if size > limits.max {
                return Err(beyond("min", "max", limits.max));
            }
            over.min = Some(size);
        }
        Change::Max(share) => {
            let size = size_of(share, "max")?;
            if size < limits.min {
                return Err(beyond("max", "min", limits.min));
            }
            over.max = Some(size);
        }
        Change::Shares(shares) => over.shares = Some(shares.max(1)),
        Change::Pin(share) => {
            let size = size_of(share, "pin")?;
            if size < limits.min {
                return Err(beyond("pin", "min", limits.min));
            }
            if size > limits.max {
                return Err(beyond("pin", "max", limits.max));
            }
            over.mode = Some(Mode::Pinned(size));
        }
        Change::Release => over.mode = Some(Mode::Released),
        Change::Manage => over.mode = Some(Mode::Managed),
    }
    Ok(())
}

pub(super) fn in_words(change: Change) -> String {
    let share = |share: Share| match share {
        Share::Permille(permille) => format!("{} %", permille as f64 / 10.0),
        Share::Bytes(size) => format!("{} MiB", size.nearest_mib()),
    };
    match change {
        Change::Min(size) => format!("min to {}", share(size)),
        Change::Max(size) => format!("max to {}", share(size)),
        Change::Shares(shares) => format!("shares to {shares}"),
        Change::Pin(size) => format!("pin to {}", share(size)),
        Change::Release => "release: the guest is not managed any more".into(),
        Change::Manage => "manage: the guest is managed".into(),
    }
}
