//! Tests of a daemon's life, without a port.

use super::*;

const NOTHING: (Option<ToGuest>, Option<DaemonEvent>) = (None, None);

fn bounds() -> GuestBounds {
    GuestBounds { memory: Bytes::mib(64), cpus: Some(2) }
}

fn hello(reply: bool, pool: PoolKind) -> ToHost {
    let (boot_id, cpus_present, update_ms, version) = ([7; 16], 2, 2_000, String::new());
    ToHost::Hello(Hello { boot_id, cpus_present, update_ms, pool, reply, version })
}

fn settled() -> ToHost {
    ToHost::Status(Status { settled: true, ..Status::default() })
}

/// Returns a daemon that has sent its hello and has settled.
fn met() -> Agent {
    let mut agent = Agent::new(bounds(), PoolGrants::Yes);
    agent.take(hello(true, PoolKind::Host), 0);
    agent.take(settled(), 0);
    agent
}

fn sample(sequence: u32) -> ToHost {
    ToHost::Memory(Memory { sequence, ..Memory::default() })
}

#[test]
fn a_hello_is_welcomed_unless_it_is_the_answer_to_a_welcome() {
    for grants in [PoolGrants::Yes, PoolGrants::No] {
        let mut agent = Agent::new(bounds(), grants);
        let here = || Some(DaemonEvent::Here([7; 16]));
        let welcome =
            Welcome { memory_pages: 64 * 256, grants: grants == PoolGrants::Yes, paces: true };
        let outcome = agent.take(hello(false, PoolKind::Host), 0);
        assert_eq!(outcome, (Some(ToGuest::Welcome(welcome)), here()));
        assert_eq!(agent.take(hello(true, PoolKind::Host), 0), (None, here()));
    }
}

#[test]
fn settled_daemon_is_woken_by_load_as_often_as_its_rules_look() {
    let mut agent = met();
    let look = || Some(ToGuest::Look);
    assert_eq!(agent.look(BUSY_PERCENT - 0.1, 10_000), None);
    assert_eq!(agent.look(BUSY_PERCENT, 10_000), look());
    assert_eq!(agent.look(100.0, 11_999), None);
    assert_eq!(agent.look(100.0, 12_000), look());
    // A daemon that reports tasks waiting for memory checks its guest without a request.
    agent.take(ToHost::Need(Pressure::Memory), 13_000);
    assert_eq!(agent.look(100.0, 14_999), None);
    assert_eq!((agent.memory_needs(), agent.asked.looks), (1, 2));
    agent.take(ToHost::Status(Status::default()), 15_000);
    assert_eq!(agent.look(100.0, 60_000), None, "it has not settled");
}

#[test]
fn daemon_of_busy_guest_looks_together_with_its_sample() {
    let mut agent = met();
    let kinds = |agent: &mut Agent, now_ms| match &agent.ask_sample(now_ms)[..] {
        [ToGuest::Sample(_)] => "sample",
        [ToGuest::Look, ToGuest::Sample(_)] => "look and sample",
        other => panic!("{other:?}"),
    };
    assert_eq!(kinds(&mut agent, 10_000), "sample", "the guest is idle");
    for second in 11..20 {
        assert_eq!(agent.look(100.0, second * 1_000), None, "a sample was requested");
        assert_eq!(kinds(&mut agent, second * 1_000), "look and sample");
    }
    assert_eq!(agent.look(0.0, 20_000), None);
    assert_eq!(kinds(&mut agent, 20_000), "sample");
    assert_eq!(agent.look(100.0, 21_400), None);
    assert_eq!(agent.look(100.0, 21_500), Some(ToGuest::Look), "no sample is requested any more");
    agent.take(ToHost::Status(Status::default()), 22_000);
    assert_eq!(kinds(&mut agent, 23_000), "sample", "the daemon looks by itself");
}

#[test]
fn answer_is_as_old_as_its_request_and_older_one_is_ignored() {
    let mut agent = met();
    let true_ms_of =
        |agent: &mut Agent, sequence, now_ms| match agent.take(sample(sequence), now_ms) {
            (None, Some(DaemonEvent::Sample(_, true_ms))) => true_ms,
            other => panic!("{other:?}"),
        };
    let question = |sequence| [ToGuest::Sample(Sample { sequence })];
    assert_eq!(agent.ask_sample(100), question(1));
    assert_eq!(agent.ask_sample(200), question(2));
    assert_eq!(true_ms_of(&mut agent, 1, 250), None);
    assert_eq!(true_ms_of(&mut agent, 2, 260), Some(200));
    assert_eq!(true_ms_of(&mut agent, 0, 300), Some(300), "without a request it is new");
}

#[test]
fn a_daemon_that_is_silent_counts_as_gone_until_it_answers() {
    let mut agent = Agent::new(bounds(), PoolGrants::Yes);
    assert_eq!(agent.ask_sample(0), [], "no daemon is connected");
    assert_eq!((agent.ask_tasks(), agent.is_up()), (None, false));
    let mut agent = met();
    for asked in 1..=5 {
        assert_eq!(agent.ask_sample(asked).len(), 1);
        assert_eq!((agent.is_up(), agent.is_worth_waiting()), (asked < 3, asked <= 3));
    }
    agent.take(sample(5), 0);
    assert!(agent.is_up());
}

#[test]
fn reports_of_a_daemon_that_is_gone_are_not_current() {
    let ends: [fn(&mut Agent); 2] = [|agent| drop(agent.take(ToHost::Bye, 0)), Agent::gone];
    for end in ends {
        let mut agent = met();
        agent.take(ToHost::System(System::default()), 0);
        end(&mut agent);
        assert_eq!((agent.hello(), agent.status(), agent.system()), (None, None, None));
        assert!(agent.last_status().is_some());
        assert_eq!(agent.look(100.0, 60_000), None);
        agent.take(hello(true, PoolKind::Host), 0);
        assert!(agent.hello().is_some() && agent.status().is_none() && agent.system().is_none());
    }
}

#[test]
fn a_guest_with_a_pool_of_its_own_is_granted_nothing() {
    let grant = |agent: &Agent| agent.grant(3, Bytes::mib(60), "why".into());
    let expected = Grant { sequence: 3, pages: 4 * 256, reason: "why".into() };
    let mut agent = met();
    assert_eq!(grant(&agent), Some(ToGuest::Grant(expected)));
    agent.take(hello(true, PoolKind::Cmm), 0);
    assert_eq!(grant(&agent), None);
    agent.gone();
    assert_eq!(grant(&agent), None);
}

#[test]
fn messages_of_a_clone_are_ignored_before_it_has_its_name() {
    let identity = Identity {
        name: "g7".into(),
        uuid: [1; 16],
        boot_id: [2; 16],
        addresses: None,
        seed: [3; 32],
        clock: std::time::Duration::ZERO,
    };
    let named = |refusal: &str| ToHost::Identified(Identified { refusal: refusal.into() });
    for refusal in ["", "no"] {
        let mut agent = Agent::unnamed(bounds(), PoolGrants::Yes);
        assert_eq!(agent.take(hello(false, PoolKind::Host), 0), NOTHING);
        assert_eq!(agent.take(named(refusal), 0), NOTHING, "it was not sent its identity yet");
        assert!(agent.wants_name() && agent.identify(identity.clone()).is_some());
        assert_eq!(agent.identify(identity.clone()), None, "once");
        assert_eq!(agent.take(settled(), 0), NOTHING);
        let outcome = if refusal.is_empty() { Ok(()) } else { Err(refusal.to_owned()) };
        let expected = (None, Some(DaemonEvent::Named(outcome)));
        assert_eq!(agent.take(named(refusal), 0), expected);
        assert_eq!(agent.is_named(), refusal.is_empty());
    }
}
