//! Recorded data of hosts from an engine with Prometheus' interface.

use crate::HostData;
use crate::recorded::{Error, Wanted};
use metrics::Url;
use metrics::read::{Ask, Past};
use model::Parts;

/// Reads all hosts of an engine, or one of them.
pub fn engine(url: &Url, host: Option<&str>, wanted: &Wanted) -> Result<Vec<HostData>, Error> {
    let ask = Ask {
        from_ms: wanted.from_ms,
        to_ms: wanted.to_ms,
        step_ms: wanted.step_ms,
        host: host.map(str::to_owned),
        parts: Parts { processes: !wanted.needs.processes.is_empty(), ..Parts::ALL },
    };
    let hosts = metrics::pasts(url, &ask)?;
    if hosts.is_empty() {
        return Err(Error::Unknown);
    }
    let of_host = |past: Past| {
        let gaps = wanted.within(past.gaps);
        let recorded = past.first_ms.map(|first_ms| (first_ms, i64::MAX));
        let mut host = HostData { name: past.host, gaps, ..HostData::default() };
        past.intervals.into_iter().for_each(|interval| host.add(interval));
        host.only_sampled(recorded);
        host
    };
    Ok(hosts.into_iter().map(of_host).collect())
}
