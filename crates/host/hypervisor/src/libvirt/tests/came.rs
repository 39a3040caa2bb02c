//! Domains that were restored from a saved state, or migrated from another host.

use super::*;

const CONFIGURED: &str = "<memory>SIZE</memory><currentMemory>786432</currentMemory><devices>\
    <memballoon model='virtio'/></devices></domain>";

/// Starts a domain after the first list. Returns the events.
fn come(detail: u32, state: [u32; 2]) -> (Scene, Id, bool, Vec<Event>) {
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.settle(), []);
    scene.domains = BTreeMap::from([(1, 5)]);
    scene.configured = CONFIGURED;
    scene.state = state;
    scene.send_event(EVENT_LIFECYCLE, 1, 5, &[2, detail]);
    let mut events = scene.settle();
    let Event::Found(id, found) = events.remove(0) else { panic!("{events:?}") };
    (scene, id, found.is_restored, events)
}

const RUNS: [u32; 2] = [1, 1];
const MOVES: [u32; 2] = [3, 2];

#[test]
fn domain_that_was_restored_tells_its_configuration_once() {
    let (mut scene, id, is_restored, events) = come(2, RUNS);
    assert!(is_restored);
    assert_eq!(events, [Event::Configured(id, Bytes::mib(768))]);
    scene.send_event(EVENT_LIFECYCLE, 1, 5, &[4, 0]);
    assert_eq!(scene.settle(), []);
    assert_eq!(scene.configured_calls, 1);
}

#[test]
fn domain_that_moved_tells_its_configuration_when_it_runs() {
    let (mut scene, id, is_restored, events) = come(1, MOVES);
    assert_eq!((is_restored, events), (false, Vec::new()), "no configuration before");
    scene.state = RUNS;
    scene.send_event(EVENT_LIFECYCLE, 1, 5, &[4, 1]);
    let running = Event::State(id, RunState::Running);
    assert_eq!(scene.settle(), [running, Event::Configured(id, Bytes::mib(768))]);
}

#[test]
fn domain_that_was_booted_is_not_asked_for_its_configuration() {
    let (scene, _, is_restored, events) = come(0, RUNS);
    assert_eq!((is_restored, events, scene.configured_calls), (false, Vec::new(), 0));
}

#[test]
fn domain_that_goes_back_to_a_snapshot_is_not_restored() {
    let (_, id, is_restored, events) = come(3, RUNS);
    assert!(!is_restored);
    assert_eq!(events, [Event::Configured(id, Bytes::mib(768))]);
}

#[test]
fn domain_is_restored_when_a_list_has_it_before_its_event() {
    let mut scene = Scene::new(&[(1, 5)]);
    scene.configured = CONFIGURED;
    // The domain's memory is being loaded.
    scene.state = [3, 11];
    assert_eq!(scene.settle(), []);
    scene.state = RUNS;
    scene.send_event(EVENT_LIFECYCLE, 1, 5, &[2, 2]);
    let events = scene.settle();
    let [Event::Found(id, found), configured] = &events[..] else { panic!("{events:?}") };
    assert!(found.is_restored);
    assert_eq!(configured, &Event::Configured(*id, Bytes::mib(768)));
}

#[test]
fn domain_that_starts_without_an_event_is_found_at_a_later_look() {
    let mut scene = Scene::new(&[(1, 5)]);
    scene.state = [3, 11];
    assert_eq!(scene.settle(), []);
    scene.state = RUNS;
    assert!(matches!(scene.at(60_000)[..], [Event::Found(..)]));
}
