//! Guests that would be better off on another host.
//!
//! ```text
//!   hosts short of memory ─► each of their guests × each other host ─► played over the past
//!                            from: what is available, and what the guest held       ─┐
//!                            to:   what is available, less what the guest needed     ─┴─► best
//! ```
//!
//! A guest's need at each step of the past is compared with the free memory of the other host at
//! the same step. Peaks that do not coincide can use the same free memory. The configured memory of
//! a guest does not count. Missing data count as the worst observed value, and a host with too
//! little data receives no guest.

use base::Bytes;

/// Part of the time for which a host may be below its set point, in thousandths.
const SHORT_PERMILLE: usize = 20;
/// Part of the time for which a host's data must be known, in thousandths.
const KNOWN_PERMILLE: usize = 900;
/// Highest CPU use of a host with an additional guest, in thousandths.
const BUSY_PERMILLE: u64 = 800;
/// Memory that a hypervisor process needs for itself.
const HYPERVISOR: Bytes = Bytes::mib(32);

/// A guest of a host, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Name of the guest.
    pub name: String,
    /// UUID of the guest.
    pub uuid: String,
    /// Memory that the guest needed.
    pub needs: Vec<Option<Bytes>>,
    /// Memory resident on the host.
    pub holds: Vec<Option<Bytes>>,
    /// Highest CPU use, in thousandths of a CPU.
    pub cpus_permille: u64,
}

/// A host, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Name of the host.
    pub name: String,
    /// Available memory.
    pub available: Vec<Option<Bytes>>,
    /// Set point: target of the available memory.
    pub set_point: Option<Bytes>,
    /// Number of CPUs, and the use of all CPUs together, in thousandths.
    pub cpus: u64,
    pub busy_permille: u64,
    /// True while the host sends no data. No guest is then moved to or from this host.
    pub is_silent: bool,
    /// Guests on the host now; `None` if they were not requested.
    pub tenants: Option<Vec<Tenant>>,
}

/// A move that would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The guest to move.
    pub guest: String,
    pub uuid: String,
    /// Source and destination.
    pub from: String,
    pub to: String,
    /// Highest need of the guest.
    pub needs: Bytes,
    /// Available memory of the source, without the lowest 2 % of its values, before and after the
    /// move.
    pub from_had: Bytes,
    pub from_gets: Bytes,
    pub from_set_point: Bytes,
    /// Least available memory of the destination after the move.
    pub to_keeps: Bytes,
    pub to_set_point: Bytes,
}

impl Move {
    /// Returns true if this move, after the earlier moves, brings the source at least to its set
    /// point.
    pub fn is_enough(&self) -> bool {
        self.from_gets >= self.from_set_point
    }
}

/// Moves to make, and hosts without a helpful move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Moves in their order. Each move assumes that all earlier moves are made.
    pub moves: Vec<Move>,
    /// Hosts short of memory for which no helpful move is known.
    pub stuck: Vec<String>,
    /// Hosts short of memory that were not considered, because enough moves were found.
    pub later: Vec<String>,
    /// Hosts that send no data, or that have too little data.
    pub unknown: Vec<String>,
}

impl Place {
    fn is_known(&self) -> bool {
        let known = self.available.iter().flatten().count();
        !self.is_silent
            && self.set_point.is_some()
            && known > 0
            && known * 1000 >= self.available.len() * KNOWN_PERMILLE
    }

    /// Returns the memory by which the host is below its set point. Returns `None` unless the host
    /// was below its set point for too long, both in the whole time and in the last quarter. A host
    /// is therefore not reported again after a guest has left.
    pub fn short_by(&self) -> Option<Bytes> {
        let set_point = self.set_point.filter(|_| self.is_known())?;
        let lately = &self.available[self.available.len() / 4 * 3..];
        let lately = low(lately.iter().copied())?;
        let low = low(self.available.iter().copied())?;
        (low < set_point && lately < set_point).then(|| set_point.less(low))
    }
}

/// Returns the minimum of the values, without the lowest `SHORT_PERMILLE` thousandths of the
/// values.
fn low(values: impl Iterator<Item = Option<Bytes>>) -> Option<Bytes> {
    let mut known: Vec<Bytes> = values.flatten().collect();
    known.sort_unstable();
    let at = known.len() * SHORT_PERMILLE / 1000;
    known.get(at).copied()
}

/// Returns a guest's value at a step, or the worst known value.
fn at(values: &[Option<Bytes>], step: usize, worst: Option<Bytes>) -> Option<Bytes> {
    values.get(step).copied().flatten().or(worst)
}

fn most(values: &[Option<Bytes>]) -> Option<Bytes> {
    values.iter().flatten().copied().max()
}

/// Returns the available memory of a host without a guest. Unknown values of the guest count as
/// zero.
fn without<'a>(
    place: &'a Place,
    tenant: &'a Tenant,
) -> impl Iterator<Item = Option<Bytes>> + use<'a> {
    place.available.iter().enumerate().map(|(step, available)| {
        let held = at(&tenant.holds, step, None).unwrap_or(Bytes::ZERO);
        Some(available.as_ref()?.plus(held))
    })
}

/// Returns the available memory of a host with an additional guest.
fn with<'a>(place: &'a Place, tenant: &'a Tenant) -> impl Iterator<Item = Option<Bytes>> + use<'a> {
    let worst = most(&tenant.needs);
    place.available.iter().enumerate().map(move |(step, available)| {
        let needed = at(&tenant.needs, step, worst)?.plus(HYPERVISOR);
        Some(available.as_ref()?.less(needed))
    })
}

/// Returns the CPU use of a host with an additional guest; `None` if the host's CPUs are unknown.
fn busy_with(place: &Place, tenant: &Tenant) -> Option<u64> {
    Some(place.busy_permille.saturating_add(tenant.cpus_permille.checked_div(place.cpus)?))
}

/// Returns the minimum of the available memory with the guest, if the host has room for the guest
/// at each step.
fn room(place: &Place, tenant: &Tenant) -> Option<Bytes> {
    let set_point = place.set_point.filter(|_| place.is_known())?;
    let busy = busy_with(place, tenant)?;
    let kept = with(place, tenant).flatten().min()?;
    (kept >= set_point && busy <= BUSY_PERMILLE).then_some(kept)
}

/// Returns the moves that help most, at most `most_moves` of them.
pub fn moves(mut places: Vec<Place>, most_moves: usize) -> Plan {
    let unknown = places.iter().filter(|place| !place.is_known()).map(|place| place.name.clone());
    let mut plan = Plan { unknown: unknown.collect(), ..Plan::default() };
    while plan.moves.len() < most_moves {
        let is_open = |place: &Place| place.tenants.is_some() && !plan.stuck.contains(&place.name);
        let short = places.iter().enumerate().filter(|(_, place)| is_open(place));
        let short = short.filter_map(|(from, place)| Some((place.short_by()?, from)));
        let Some((_, from)) = short.max() else { break };
        match best(&places, from) {
            Some((found, tenant, to)) => {
                plan.moves.push(found);
                play(&mut places, from, tenant, to);
            }
            None => plan.stuck.push(places[from].name.clone()),
        }
    }
    let later = places.iter().filter(|place| place.short_by().is_some());
    let later = later.map(|place| &place.name).filter(|name| !plan.stuck.contains(name));
    plan.later = later.cloned().collect();
    plan
}

/// Returns the best move away from a host. Among moves that suffice, the guest with the smallest
/// need is best. If no move suffices, the move with the largest gain is best.
fn best(places: &[Place], from: usize) -> Option<(Move, usize, usize)> {
    let place = &places[from];
    let had = low(place.available.iter().copied())?;
    let from_set_point = place.set_point?;
    let mut found: Option<(Move, usize, usize)> = None;
    for (number, tenant) in place.tenants.iter().flatten().enumerate() {
        let Some(needs) = most(&tenant.needs) else { continue };
        let Some(gets) = low(without(place, tenant)).filter(|gets| *gets > had) else { continue };
        let others = places.iter().enumerate().filter(|(to, _)| *to != from);
        let rooms = others.filter_map(|(to, other)| {
            let kept = room(other, tenant)?;
            Some((kept.less(other.set_point?), kept, to))
        });
        let Some((_, to_keeps, to)) = rooms.max() else { continue };
        let candidate = Move {
            guest: tenant.name.clone(),
            uuid: tenant.uuid.clone(),
            from: place.name.clone(),
            to: places[to].name.clone(),
            needs,
            from_had: had,
            from_gets: gets,
            from_set_point,
            to_keeps,
            to_set_point: places[to].set_point?,
        };
        let is_better = found.as_ref().is_none_or(|(best, ..)| {
            match (candidate.is_enough(), best.is_enough()) {
                (true, true) => candidate.needs < best.needs,
                (false, false) => candidate.from_gets > best.from_gets,
                (is_enough, _) => is_enough,
            }
        });
        if is_better {
            found = Some((candidate, number, to));
        }
    }
    found
}

/// Applies a move to the past. Further moves are then chosen from the new state.
fn play(places: &mut [Place], from: usize, tenant: usize, to: usize) {
    let Some(tenants) = &mut places[from].tenants else { return };
    let tenant = tenants.remove(tenant);
    let left: Vec<Option<Bytes>> = without(&places[from], &tenant).collect();
    let joined: Vec<Option<Bytes>> = with(&places[to], &tenant).collect();
    places[from].available = left;
    // The guest is not added to the guests of the destination, so that the guest is not moved
    // again.
    let to = &mut places[to];
    to.available = joined;
    to.busy_permille = busy_with(to, &tenant).unwrap_or(to.busy_permille);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(values: &[u64]) -> Vec<Option<Bytes>> {
        values.iter().map(|value| Some(Bytes::mib(*value))).collect()
    }

    fn place(name: &str, available: &[u64]) -> Place {
        Place {
            name: name.into(),
            available: mib(available),
            set_point: Some(Bytes::mib(512)),
            cpus: 2,
            ..Place::default()
        }
    }

    fn tenant(name: &str, needs: &[u64], holds: &[u64]) -> Tenant {
        Tenant { name: name.into(), needs: mib(needs), holds: mib(holds), ..Tenant::default() }
    }

    #[test]
    fn smallest_sufficient_guest_goes_to_roomiest_host() {
        let mut a = place("a", &[100, 200, 100]);
        a.tenants = Some(vec![
            tenant("small", &[50, 50, 50], &[60, 60, 60]),
            tenant("right", &[300, 350, 300], &[450, 450, 450]),
            tenant("large", &[900, 900, 900], &[1000, 1000, 1000]),
        ]);
        let plan = moves(vec![a, place("b", &[1000; 3]), place("c", &[3000; 3])], 5);
        assert_eq!(plan.moves.len(), 1, "one is enough: {plan:?}");
        let found = &plan.moves[0];
        assert_eq!(
            (found.guest.as_str(), found.from.as_str(), found.to.as_str()),
            ("right", "a", "c")
        );
        assert_eq!(found.needs, Bytes::mib(350));
        assert_eq!((found.from_had, found.from_gets), (Bytes::mib(100), Bytes::mib(550)));
        assert_eq!(found.to_keeps, Bytes::mib(3000 - 350 - 32));
        assert!(found.is_enough());
    }

    #[test]
    fn guests_with_peaks_at_other_times_can_share_memory() {
        let mut a = place("a", &[100, 100]);
        a.tenants = Some(vec![tenant("g", &[800, 50], &[800, 800])]);
        // The other host has much free memory while the guest needs much.
        let apart = moves(vec![a.clone(), place("b", &[1400, 600])], 5);
        assert_eq!(apart.moves.len(), 1, "{apart:?}");
        assert_eq!(apart.moves[0].to_keeps, Bytes::mib(518));
        let together = moves(vec![a, place("b", &[600, 1400])], 5);
        assert_eq!((together.moves.len(), together.stuck), (0, vec!["a".to_owned()]));
    }

    #[test]
    fn each_move_presumes_the_moves_before_it() {
        let mut a = place("a", &[0; 4]);
        a.tenants = Some((0..4).map(|n| tenant(&format!("g{n}"), &[200; 4], &[200; 4])).collect());
        // Each other host has room for one guest.
        let others = ["b", "c", "d"].map(|name| place(name, &[800; 4]));
        let plan = moves([vec![a], others.to_vec()].concat(), 9);
        let to: Vec<&str> = plan.moves.iter().map(|one| one.to.as_str()).collect();
        assert_eq!(plan.moves.len(), 3, "{plan:?}");
        assert!(["b", "c", "d"].iter().all(|name| to.contains(name)), "{to:?}");
        assert_eq!(plan.moves[2].from_gets, Bytes::mib(600));
        assert!(plan.moves[2].is_enough() && !plan.moves[1].is_enough());
        // The plan names the hosts that were not considered, and the hosts without data.
        let asked = |most| {
            let mut a = place("a", &[0; 4]);
            a.tenants = Some(vec![tenant("g", &[200; 4], &[600; 4])]);
            let mut all = vec![a, place("unasked", &[0; 4]), place("dark", &[])];
            all.extend(others.clone());
            moves(all, most)
        };
        let plan = asked(9);
        assert_eq!(
            (plan.moves.len(), plan.later, plan.unknown),
            (1, vec!["unasked".into()], vec!["dark".into()])
        );
        assert_eq!(asked(0).later, ["a", "unasked"]);
        // A host that lacked memory only early in the time does not count as short.
        let better = moves(vec![place("a", &[0, 0, 0, 0, 0, 0, 900, 900])], 9);
        assert_eq!(better, Plan::default());
        let one = moves([vec![place("x", &[9000; 4])], others.to_vec()].concat(), 9);
        assert_eq!(one, Plan::default(), "no host is short");
    }

    #[test]
    fn unknown_values_count_as_the_worst() {
        let mut a = place("a", &[100; 10]);
        let mut g = tenant("g", &[100, 700], &[600; 10]);
        g.needs.resize(10, None);
        a.tenants = Some(vec![g.clone()]);
        // If the guest had needed only 100 MiB all the time, the other host would have room.
        let plan = moves(vec![a.clone(), place("b", &[1000; 10])], 5);
        assert_eq!(plan.stuck, ["a"]);
        let silent = Place { is_silent: true, ..place("b", &[9000; 10]) };
        assert_eq!(moves(vec![a.clone(), silent], 5).stuck, ["a"]);
        let mut seldom = place("b", &[9000; 10]);
        seldom.available[3..].fill(None);
        assert_eq!(moves(vec![a.clone(), seldom], 5).stuck, ["a"]);
        let busy = Place { busy_permille: 700, ..place("b", &[9000; 10]) };
        let mut with_cpus = |permille: u64| {
            a.tenants = Some(vec![Tenant { cpus_permille: permille, ..g.clone() }]);
            a.clone()
        };
        let a = with_cpus(300);
        assert_eq!(moves(vec![a.clone(), busy.clone()], 5).stuck, ["a"]);
        let a = with_cpus(200);
        assert_eq!(moves(vec![a.clone(), busy.clone()], 5).moves.len(), 1);
        let absurd = Place { cpus: u64::MAX, busy_permille: u64::MAX, ..busy.clone() };
        assert_eq!(moves(vec![a.clone(), absurd], 5).stuck, ["a"]);
        assert_eq!(moves(vec![a, Place { cpus: 0, ..busy }], 5).stuck, ["a"]);
        // A guest without any known need stays on its host.
        let mut a = place("a", &[100; 10]);
        a.tenants = Some(vec![Tenant { needs: vec![None; 10], ..g }]);
        assert_eq!(moves(vec![a, place("b", &[9000; 10])], 5).stuck, ["a"]);
    }
}
