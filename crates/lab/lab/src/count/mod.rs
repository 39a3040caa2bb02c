//! The number of servers that run at the same time. Each server is parked after a while without
//! requests. A parked server costs neither CPU nor private memory, and a request wakes it.
//!
//! A rule decides that the machine is full ([`full`]), before anything fails. The reason is part of
//! the result.

mod full;
mod run;
mod view;

pub use run::run;
pub use view::view;

/// Counts of servers for comparison. All counts below the requested count run, too.
const MARKS: [u32; 4] = [100, 500, 1000, 2000];
/// Maximum number of guests in a farm.
pub const COUNT_MAX: u32 = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub name: String,
    pub servers: u32,
}

/// Returns the counts up to the requested count, or up to the largest count.
pub(crate) fn counts(asked: Option<u32>) -> Vec<Count> {
    let last = asked.unwrap_or(COUNT_MAX).min(COUNT_MAX);
    let below = MARKS.into_iter().filter(|mark| *mark < last);
    let count = |servers| Count { name: format!("{servers} servers"), servers };
    below.chain([last]).map(count).collect()
}

pub(crate) mod phase {
    pub const START: &str = "start";
    pub const PARKED: &str = "all are parked";
    pub const IDLE: &str = "idle";
    pub const WIPES: [&str; 2] = ["first answers", "second answers"];
    pub const END: &str = "end";
}

pub(crate) mod measure {
    pub const ANSWER: &str = "servers that answer";
    pub const READY: &str = "all answer after";
    pub const USED: &str = "memory of the host";
    pub const TABLES: &str = "page tables";
    pub const PRIVATE: &str = "private";
    pub const SHARED: &str = "shared, once for all";
    pub const COMPRESSED: &str = "compressed";
    pub const REST: &str = "the host's own for them";
    pub const CPU: &str = "CPU of all, with the farm's own";
    pub const DISPATCHES: &str = "dispatches of virtual CPUs";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_count_comes_after_the_smaller_ones() {
        let servers = |asked| counts(asked).iter().map(|one| one.servers).collect::<Vec<_>>();
        assert_eq!(servers(Some(1000)), [100, 500, 1000]);
        assert_eq!(servers(Some(700)), [100, 500, 700]);
        assert_eq!(servers(Some(8)), [8]);
        assert_eq!(servers(None), [100, 500, 1000, 2000]);
        assert_eq!(counts(Some(8))[0].name, "8 servers");
    }
}
