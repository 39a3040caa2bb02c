//! Results of pinhead's policy and of other managers' rules in the same model, and the cost of a
//! pass.

use crate::clock::now;
use crate::error::Error;
use crate::table::{Figure, Row, figure};
use base::Spread;
use policy::arbiter::RuleVerdicts;
use policy::rivals::{Mom, Proxmox, Rival};
use sim::figures::{self, Kept, Moved};
use sim::policies::{Ours, Policy};
use std::hint::black_box;

const GIB_KIB: f64 = (1 << 20) as f64;
/// Number of recorded passes, and of their repetitions.
const ROUNDS: usize = 20;
const BATCHES: usize = 50;

pub fn rows() -> Result<Vec<Row>, Error> {
    let mut rows = table();
    for count in [100, 1000] {
        rows.extend(cost(count)?);
    }
    Ok(rows)
}

/// Runs one scene under each policy: none, MOM's, Proxmox's, pinhead's.
fn each<T>(mut scene: impl FnMut(&mut dyn Policy) -> T) -> [T; 4] {
    [
        scene(&mut Rival::None),
        scene(&mut Rival::Mom(Mom::default())),
        scene(&mut Rival::Proxmox(Proxmox::default())),
        scene(&mut Ours::default()),
    ]
}

/// Returns a row with pinhead's figure and the promise. A note contains the figures of the other
/// policies.
fn row<T>(name: &str, all: &[T; 4], at_most: f64, figure: impl Fn(&T) -> Figure) -> Row {
    Row::promised(name, figure(&all[3]), at_most).note(&others(all, figure))
}

/// Returns a row with pinhead's figure and the notes of [`row`], but without a promise.
fn listed<T>(name: &str, all: &[T; 4], figure: impl Fn(&T) -> Figure) -> Row {
    Row::plain(name, &text(figure(&all[3]))).note(&others(all, figure))
}

fn others<T>(all: &[T; 4], figure: impl Fn(&T) -> Figure) -> String {
    let [none, mom, proxmox] = [0, 1, 2].map(|index| text(figure(&all[index])));
    format!("in the model; none {none}, MOM {mom}, Proxmox {proxmox}")
}

fn text(Figure { value, digits, unit }: Figure) -> String {
    if value.is_finite() { format!("{value:.digits$}{unit}") } else { "never".into() }
}

fn table() -> Vec<Row> {
    let seconds =
        |ms: &Option<u64>| figure(ms.map_or(f64::INFINITY, |ms| ms as f64 / 1000.0), 1, " s");
    let percent = |permille: u64| figure(permille as f64 / 10.0, 1, " %");
    let gib = |kib: u64| figure(kib as f64 / GIB_KIB, 1, " GiB");
    let plain = |count: u64| figure(count as f64, 0, "");
    let kept = each(figures::caches);
    let moved = each(figures::hoarder);
    let cold = kept[0].cold_kib;
    let unmet = |moved: &Moved| {
        percent(1000 - (moved.in_30_s_kib * 1000 / moved.need_kib.max(1)).min(1000))
    };
    let unmoved = |moved: &Moved| gib(moved.need_kib.saturating_sub(moved.in_600_s_kib));
    vec![
        row(
            "burst 1 to 5 GiB, half of the host free: time to meet it",
            &each(figures::burst),
            5.0,
            seconds,
        ),
        row("16 guests with growing cache: free memory off 20 %", &kept, 2.0, |kept: &Kept| {
            percent(kept.off_permille_max)
        }),
        listed("the same: free memory in the end", &kept, |kept| percent(kept.free_permille)),
        listed("the same: cold cache recovered", &kept, |one| {
            gib(cold.saturating_sub(one.cold_kib))
        }),
        row("hoarder to starved neighbour: need unmet after 30 s", &moved, 20.0, unmet),
        row("the same: 3 GiB needed, not moved in 600 s", &moved, 0.0, unmoved),
        row("shrinks of a starved guest", &each(figures::squeeze), 0.0, |one| plain(one.shrinks)),
        row(
            "reversals a guest an hour, steady load",
            &each(figures::reversals),
            1.0,
            |hundredths| figure(*hundredths as f64 / 100.0, 2, ""),
        ),
    ]
}

/// Measures passes over this many guests, most of them awake.
fn cost(count: u64) -> Result<[Row; 2], Error> {
    let mut world = figures::crowd(count);
    let mut ours = Ours::default();
    while world.now_ms < 30_000 {
        world.step(&mut ours);
    }
    let start = ours.arbiter.clone();
    let mut rounds = Vec::new();
    while rounds.len() < ROUNDS {
        rounds.extend(world.step(&mut ours).map(|round| (world.now_ms, round)));
    }
    let times = (0..BATCHES).map(|_| {
        let mut arbiter = start.clone();
        let before = now();
        for (now_ms, round) in &rounds {
            let mut verdicts = |_, _: &_| RuleVerdicts::default();
            let host = Some(&round.host);
            black_box(arbiter.pass(&world.config, host, &round.samples, &mut verdicts, *now_ms));
        }
        (now() - before).as_secs_f64() * 1e6 / ROUNDS as f64
    });
    let all = Spread::of(times).ok_or(Error::Preset("takes no time"))?;
    let each = figure(all.median / count as f64, 2, " µs");
    let pass = figure(all.median / 1000.0, 2, " ms");
    let note = format!(
        "median of {BATCHES} batches of {ROUNDS} passes; the fastest: {:.0} µs a pass",
        all.low
    );
    Ok([
        Row::promised(&format!("arbiter, {count} guests: a guest a pass"), each, 50.0).note(&note),
        Row::promised(&format!("arbiter, {count} guests: a pass"), pass, 50.0),
    ])
}
