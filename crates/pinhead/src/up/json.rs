//! JSON object at the end of `pinhead up --format json`.

use farm::fleet::Member;
use serde_json::{Value, json};

/// Returns the results of each guest as JSON.
pub fn report<'a>(members: impl Iterator<Item = &'a Member>, seconds: f64) -> Value {
    let guests: Vec<Value> = members.map(guest).collect();
    json!({ "seconds": seconds, "guests": guests })
}

fn guest(member: &Member) -> Value {
    let spec = member.spec();
    let tally = member.tally();
    // A number that a guest never sent is null instead of 0.
    let online = tally.cpus_online;
    json!({
        "name": spec.name,
        "arch": spec.image.arch.name(),
        "accelerator": spec.accel.to_string(),
        "cpus_present": member.status().map_or(spec.cpus, |s| s.cpus_present),
        "cpus_online_min": online.map(|(min, _)| min),
        "cpus_online_max": online.map(|(_, max)| max),
        "cpu_plugs": tally.plugs,
        "cpu_unplugs": tally.unplugs,
        "pool_pages_max": tally.pool_pages_max,
        "pool_grows": tally.grows,
        "pool_shrinks": tally.shrinks,
        "state": member.word(),
    })
}
