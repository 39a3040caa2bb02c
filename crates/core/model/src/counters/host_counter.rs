//! The counters of a host's rules: values of a guest and of the host, from the manager.
//!
//! These counters are derived values, which the manager computes again in each pass. This table is
//! the only place that names the counters. The parser's suggestions, `explain` and the tables of
//! the manuals are generated from it.

use base::named;

named! {
    /// The unit of a host's counter, with the unit's name in tables.
    pub enum HostUnit {
        /// MiB of memory.
        Mib = "MiB",
        /// Pages of 4 KiB a second.
        PagesPerSecond = "pages/s",
        /// Events a second.
        PerSecond = "1/s",
        /// Thousandths of the time.
        Permille = "‰",
        /// Hundredths of one CPU's time.
        Percent = "%",
        /// Seconds.
        Seconds = "s",
        /// 1 for yes, 0 for no.
        Flag = "0 or 1",
        /// A plain number.
        Count = "count",
    }
}

impl HostUnit {
    /// Returns the largest value that the unit allows, if there is one. The smallest value is 0.
    pub fn largest(self) -> Option<f64> {
        match self {
            HostUnit::Permille => Some(1000.0),
            HostUnit::Flag => Some(1.0),
            _ => None,
        }
    }
}

macro_rules! host_counters {
    ($($variant:ident = $name:literal, $unit:ident, $doc:literal;)+) => {
        named! {
            /// A value that a host's rules can use. The part of the name before the dot is `guest`
            /// or `host`. The values of a guest come first, then the values of the host.
            pub enum HostCounter { $(#[doc = $doc] $variant = $name),+ }
        }

        impl HostCounter {
            /// Returns the counter's unit.
            pub fn unit(self) -> HostUnit {
                match self { $(HostCounter::$variant => HostUnit::$unit),+ }
            }

            /// Returns a description of a few words, for a table.
            pub fn doc(self) -> &'static str {
                match self { $(HostCounter::$variant => $doc),+ }
            }
        }
    };
}

host_counters! {
    GuestActual = "guest.actual", Mib, "current memory of the guest, by its balloon";
    GuestMin = "guest.min", Mib, "smallest memory of the guest";
    GuestMax = "guest.max", Mib, "largest memory of the guest";
    GuestUsed = "guest.used", Mib, "memory that the guest could not give without swapping";
    GuestAvailable = "guest.available", Mib, "MemAvailable of the guest's kernel";
    GuestFree = "guest.free", Mib, "MemFree of the guest's kernel";
    GuestCache = "guest.cache", Mib, "page cache of the guest";
    GuestCold = "guest.cold", Mib, "page cache of the guest that is not in use";
    GuestHot = "guest.hot", Mib, "page cache of the guest that is in use";
    GuestComfort = "guest.comfort", Mib,
        "headroom that the guest keeps, as the arbiter computes it";
    GuestResident = "guest.resident", Mib,
        "resident memory of the guest that no other process shares";
    GuestShares = "guest.shares", Count, "weight of the guest against other guests";
    GuestRequest = "guest.request", Mib, "size that the guest's own rules request";
    GuestSwapin = "guest.swapin", PagesPerSecond, "pages read from the guest's swap space";
    GuestSwapout = "guest.swapout", PagesPerSecond, "pages written to the guest's swap space";
    GuestRefault = "guest.refault", PagesPerSecond, "pages read again soon after they were dropped";
    GuestStall = "guest.stall", PerSecond,
        "allocations in the guest that had to wait for direct reclaim of memory";
    GuestPressure = "guest.pressure", Permille,
        "time in which at least one task of the guest waited for memory";
    GuestCpu = "guest.cpu", Percent, "run time of the guest's virtual CPUs; 100 is one CPU";
    GuestSteal = "guest.steal", Percent,
        "time in which the guest's virtual CPUs were ready but did not run; 100 is one CPU";
    GuestAge = "guest.age", Seconds, "age of the guest's newest sample";
    GuestNeed = "guest.need", Mib, "memory that the guest lacks, as the arbiter computes it";
    GuestStrained = "guest.strained", Flag, "1 if a task of the guest waits for memory";
    HostTotal = "host.total", Mib, "memory of the host, or memory that all guests may use";
    HostAvailable = "host.available", Mib, "memory that could be granted now without swapping";
    HostSetpoint = "host.setpoint", Mib, "free memory that the host should have";
    HostReserve = "host.reserve", Mib, "free memory that no grant may touch";
    HostSwapin = "host.swapin", PagesPerSecond, "pages read from the host's swap space";
    HostSwapout = "host.swapout", PagesPerSecond, "pages written to the host's swap space";
    HostPressure = "host.pressure", Permille,
        "time in which at least one task of the host waited for memory";
    HostGuests = "host.guests", Count, "number of managed guests";
    HostKsm = "host.ksm", Mib, "memory saved by sharing equal pages";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_own_and_says_whose_it_is() {
        for (index, counter) in HostCounter::ALL.iter().enumerate() {
            assert_eq!(HostCounter::from_name(counter.name()), Some(*counter));
            assert_eq!(*counter as usize, index);
            let family = counter.name().split_once('.').map(|(family, _)| family);
            assert!(matches!(family, Some("guest" | "host")), "{counter:?}");
            assert!(!counter.doc().is_empty() && !counter.unit().name().is_empty());
        }
        assert_eq!(HostCounter::from_name("guest.MemFree"), None);
    }
}
