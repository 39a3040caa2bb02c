//! Late and long lists of domains.

use super::*;

#[test]
fn slow_daemon_has_more_time_with_each_try() {
    let mut scene = Scene::new(&[(1, 5)]);
    scene.silent = Some(LIST);
    let (mut lasts_s, mut longest_s) = (0, 0);
    for second in 0..200 {
        scene.at(second * 1_000);
        lasts_s = if scene.libvirt.connection.up.is_some() { lasts_s + 1 } else { 0 };
        longest_s = longest_s.max(lasts_s);
    }
    assert_eq!(longest_s, 30, "its list may take so long");
}

/// Creates a lost connection with two guests, and the next connection without a list.
fn without_a_list() -> (Scene, Vec<Id>) {
    let mut scene = Scene::new(&[(1, 5), (2, 6)]);
    let found = ids(&scene.settle());
    scene.silent = Some(LIST);
    scene.peers.clear();
    scene.at(100);
    scene.at(1_100);
    scene.calls.clear();
    (scene, found)
}

#[test]
fn report_h12_restarted_domain_is_not_acted_on_as_the_old_one() {
    let (mut scene, found) = without_a_list();
    scene.domains = BTreeMap::from([(1, 15), (2, 6)]);
    for id in &found {
        scene.libvirt.set_target(*id, Bytes(1 << 20), 1_100);
    }
    let events = scene.at(6_100);
    let restarted = Event::Gone(found[0], "it was restarted".into());
    for event in [restarted, Event::Answers(found[1], true)] {
        assert!(events.contains(&event), "{event:?} in {events:?}");
    }
    assert!(!events.contains(&Event::Answers(found[0], true)), "{events:?}");
    let is_new = |event: &Event| matches!(event, Event::Found(id, _) if !found.contains(id));
    assert_eq!(events.iter().filter(|event| is_new(event)).count(), 1, "{events:?}");
}

#[test]
fn report_h12_guest_answers_only_after_it_was_asked() {
    let (mut scene, found) = without_a_list();
    scene.refuse = Some((GET_XML, "not now"));
    let events = scene.at(6_100);
    assert!(matches!(&events[..], [Event::Trouble(late)] if late.contains("does not list")));
    assert!(!scene.calls.contains(&GET_STATE), "its number is not known: {:?}", scene.calls);
    scene.refuse = None;
    let events = scene.at(8_100);
    for id in found {
        assert!(events.contains(&Event::Answers(id, true)), "{events:?}");
    }
}

#[test]
fn report_h12_hanging_guest_is_asked_for_its_number_first() {
    let (mut scene, found) = without_a_list();
    scene.domains = BTreeMap::from([(1, 15), (2, 6)]);
    for guest in scene.libvirt.guests.values_mut() {
        guest.reach.is_stuck = true;
    }
    let events = [scene.at(6_100), scene.at(8_100)].concat();
    let restarted = Event::Gone(found[0], "it was restarted".into());
    for event in [restarted, Event::Answers(found[1], true)] {
        assert!(events.contains(&event), "{event:?} in {events:?}");
    }
    assert!(!events.contains(&Event::Answers(found[0], true)), "{events:?}");
}

#[test]
fn report_h12_domain_that_is_off_without_a_list_is_gone() {
    let (mut scene, found) = without_a_list();
    scene.domains.clear();
    let events = scene.at(6_100);
    for id in found {
        assert!(events.contains(&Event::Gone(id, "it is off".into())), "{events:?}");
    }
}

#[test]
fn report_h12_domains_beyond_the_bound_are_told_by_their_number() {
    let mut scene = Scene::new(&[(1, 5)]);
    scene.others = 4_098;
    let told = |events: Vec<Event>| -> Vec<String> {
        let told = events.into_iter().filter_map(|event| match event {
            Event::Trouble(sentence) => Some(sentence),
            _ => None,
        });
        told.collect()
    };
    let sentences = told(scene.settle());
    assert!(
        matches!(&sentences[..], [one] if one.contains("until others end: 3")),
        "{sentences:?}"
    );
    scene.libvirt.connection.up.as_mut().unwrap().list_ms = Some(0);
    assert!(told(scene.settle()).is_empty(), "reported again");
}

#[test]
fn report_h12_a_late_list_silences_no_guest_that_answers() {
    let mut scene = Scene::new(&[(1, 5), (2, 6)]);
    let ids = ids(&scene.settle());
    // The first domain delays the next list, and its own calls hang as well.
    (scene.silent, scene.stuck) = (Some(LIST), vec![b'1']);
    let mut events = Vec::new();
    for second in 1..60 {
        for id in &ids {
            scene.libvirt.set_target(*id, Bytes::mib(600 + second % 2), second * 1000);
        }
        events.extend(scene.at(second * 1000));
    }
    let silent = |id| events.iter().any(|e| matches!(e, Event::Answers(of, false) if *of == id));
    assert!(silent(ids[0]) && !silent(ids[1]), "{events:?}");
    let sentences: Vec<_> = events.iter().filter(|e| matches!(e, Event::Trouble(_))).collect();
    assert!(matches!(&sentences[..], [Event::Trouble(one)] if one.contains("does not list")));

    // The next connection begins with the earlier guests.
    scene.peers.clear();
    events = scene.at(60_000);
    assert!(events.iter().any(|e| matches!(e, Event::Answers(of, false) if *of == ids[1])));
    events = (61..80).flat_map(|second| scene.at(second * 1000)).collect();
    assert!(events.iter().any(|e| matches!(e, Event::Answers(of, true) if *of == ids[1])));
}
