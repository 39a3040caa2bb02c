//! Replays of simulated recordings. With the recorded policy the decisions must be the same.
//! Estimates for another policy are compared with the results of that policy in the same world.

use base::Bytes;
use model::{GuestIdentity, PassEvent, PassGuest, PassInput};
use policy::arbiter::{Key, PassHost, PassSample, RuleVerdicts};
use policy::rivals::{Kind, Rival};
use sim::policies::{Order, Ours, Policy, Scene};
use sim::scenario::{LENGTH_MS, Scenario};
use sim::world::World;
use std::sync::Arc;
use whatif::{Change, Player, Recorded, Tally, compare};

/// A policy with recorded passes.
struct Taped<P> {
    policy: P,
    kind: Kind,
    passes: Vec<PassInput>,
    events: Vec<PassEvent>,
    decisions: Vec<Recorded>,
}

impl<P: Policy> Taped<P> {
    fn new(policy: P, kind: Kind) -> Taped<P> {
        let (passes, events, decisions) = (Vec::new(), Vec::new(), Vec::new());
        Taped { policy, kind, passes, events, decisions }
    }
}

fn name(key: Key) -> String {
    format!("g{}", key.0)
}

fn input(scene: &Scene<'_>, kind: Kind, number: u64, events: Vec<PassEvent>) -> PassInput {
    let host =
        PassHost { config: *scene.config, kind, sample: Some(scene.host), psi_permille: None };
    let guest = |sample: &policy::arbiter::GuestSample| {
        let who = GuestIdentity { name: name(sample.key), ..GuestIdentity::default() };
        let row = PassSample { sample: *sample, verdicts: RuleVerdicts::default() }.row();
        (sample.key.0, PassGuest { who: Arc::new(who), row })
    };
    PassInput {
        number,
        at_ms: scene.now_ms.cast_signed(),
        now_ms: scene.now_ms,
        host: host.row(),
        guests: scene.samples.iter().map(guest).collect(),
        events,
    }
}

impl<P: Policy + Decides> Policy for Taped<P> {
    fn pass(&mut self, scene: &Scene<'_>) -> Vec<Order> {
        let events = std::mem::take(&mut self.events);
        self.passes.push(input(scene, self.kind, self.passes.len() as u64, events));
        let orders = self.policy.pass(scene);
        self.decisions.extend(self.policy.decided(scene.now_ms));
        orders
    }

    fn rebooted(&mut self, key: Key) {
        self.events.push(PassEvent::Rebooted(key.0));
        self.policy.rebooted(key);
    }

    fn reserve(&mut self, id: u64, size: Bytes, deadline_ms: u64) {
        let held_ms = deadline_ms + 30_000;
        self.events.push(PassEvent::Reserved { id, bytes: size.0, deadline_ms, held_ms });
        self.policy.reserve(id, size, deadline_ms);
    }
}

/// The decisions of the last pass, in the form of a journal.
trait Decides {
    fn decided(&self, now_ms: u64) -> Vec<Recorded>;
}

impl Decides for Ours {
    fn decided(&self, now_ms: u64) -> Vec<Recorded> {
        let kept = self.last.decisions.iter().filter(|decision| !decision.goes_on);
        kept.map(|decision| Recorded {
            at_ms: now_ms.cast_signed(),
            guest: name(decision.key),
            uuid: String::new(),
            action: decision.action.told(decision.clause),
            from: decision.from,
            to: decision.to,
        })
        .collect()
    }
}

impl Decides for Rival {
    fn decided(&self, _now_ms: u64) -> Vec<Recorded> {
        Vec::new()
    }
}

fn run(world: &World, policy: &mut dyn Policy) {
    let mut world = world.clone();
    while world.now_ms < LENGTH_MS {
        world.step(policy);
    }
}

fn play(passes: &[PassInput], change: Change) -> (Player, Vec<whatif::Replayed>) {
    let mut player = Player::new(change);
    let decisions = passes.iter().flat_map(|pass| player.play(pass)).collect();
    (player, decisions)
}

#[test]
fn replayed_decisions_equal_the_recorded_decisions() {
    let (mut all, mut moves) = (0, 0);
    for seed in 0..40 {
        let mut taped = Taped::new(Ours::default(), Kind::Pinhead);
        run(&Scenario::new(seed).world, &mut taped);
        let (player, replayed) = play(&taped.passes, Change::default());
        assert_eq!((player.missing(), player.unread(), player.starts()), (0, 0, 1));
        let agreement = compare(&taped.decisions, &replayed);
        assert_eq!(agreement.same, agreement.all, "seed {seed}: {:?}", agreement.differences);
        (all, moves) = (all + agreement.all, moves + agreement.moves);
    }
    assert!(all > 1_000 && moves > 500, "{all} decisions, {moves} moves");
}

#[test]
fn missing_passes_count_and_new_manager_starts_fresh() {
    let mut taped = Taped::new(Ours::default(), Kind::Pinhead);
    run(&Scenario::new(3).world, &mut taped);
    let mut passes = taped.passes.clone();
    passes.drain(10..15);
    let (player, _) = play(&passes, Change::default());
    assert_eq!((player.missing(), player.starts()), (5, 1));
    // The second manager process counts passes from 0 again. Its first three passes were lost.
    let twice: Vec<PassInput> = taped.passes.iter().chain(&taped.passes[3..]).cloned().collect();
    let (player, _) = play(&twice, Change::default());
    assert_eq!((player.missing(), player.starts()), (3, 2));
    let mut of_later = taped.passes;
    of_later[5].host.set(model::PassField::Rules, Some(99));
    let (player, _) = play(&of_later, Change::default());
    assert_eq!(player.unread(), 1);
}

/// Returns the error of an estimate, in percent of the true value.
fn error_percent(foretold: u128, came: u128) -> f64 {
    (foretold as f64 - came as f64).abs() * 100.0 / came.max(1) as f64
}

/// Returns the estimate for another policy, and its true result in the same world.
fn foretold(world: &World, recorded: Kind, other: Kind) -> (Tally, Tally) {
    let tape = |kind: Kind| match Rival::of(kind) {
        Some(rival) => {
            let mut taped = Taped::new(rival, kind);
            run(world, &mut taped);
            taped.passes
        }
        None => {
            let mut taped = Taped::new(Ours::default(), kind);
            run(world, &mut taped);
            taped.passes
        }
    };
    let change = Change { kind: Some(other), ..Change::default() };
    let (foretold, _) = play(&tape(recorded), change);
    let (came, _) = play(&tape(other), Change::default());
    (foretold.total(), came.total())
}

#[test]
fn estimate_for_another_policy_is_near_its_true_result() {
    let pairs = [
        (Kind::None, Kind::Pinhead),
        (Kind::Pinhead, Kind::Proxmox),
        (Kind::Proxmox, Kind::Pinhead),
    ];
    for (recorded, other) in pairs {
        let mut errors: Vec<f64> = Vec::new();
        for seed in 0..150 {
            let scenario = Scenario::new(seed);
            let options = scenario.options;
            if scenario.liars > 0 || options.traffic || options.rival || options.reboots {
                continue;
            }
            let (foretold, came) = foretold(&scenario.world, recorded, other);
            println!(
                "{seed} {recorded} -> {other}: had {:.1} %, in host {:.1} %, unmet {} of {} GiB s, \
                 {} of {} moves",
                error_percent(foretold.had, came.had),
                error_percent(foretold.resident, came.resident),
                foretold.unmet >> 40,
                came.unmet >> 40,
                foretold.moves(),
                came.moves(),
            );
            errors.push(error_percent(foretold.had, came.had));
        }
        errors.sort_by(f64::total_cmp);
        let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        let count = errors.len();
        println!("{recorded} -> {other}: median {median:.1} %, at most {worst:.1} %, of {count}");
        assert!(count >= 10, "{count} worlds");
        assert!(median <= 3.0 && worst <= 15.0, "memory times time: {errors:?}");
    }
}
