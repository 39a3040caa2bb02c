//! Tests of `pinhead why` and `pinhead host diff` with generated journals: exact output, hostile
//! names, unknown guests, and times without decisions.

use jiff::tz;
use model::GuestIdentity;
use store::{Decision, Event, Fate, GuestKey, Journal, Outcome, Policy, Word, kinds};
use why::when::Now;
use why::{Question, Time, diff};

/// 2026-11-21 14:00:00 in a zone of UTC+1.
const START_MS: i64 = 1_795_266_000_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const MIB: u64 = 1 << 20;

fn now() -> Now {
    Now { ms: START_MS + 10 * MINUTE, zone: tz::offset(1).to_time_zone() }
}

fn args(guest: &str) -> Question {
    let time = Time::Last("1h".into());
    Question { guest: guest.into(), time, policy: Policy::Active }
}

fn at(guest: &str, time: &str) -> Question {
    Question { time: Time::At(time.into()), ..args(guest) }
}

fn ask(journal: &Journal, args: &Question) -> String {
    why::answer(journal, args, now()).expect("an answer").text()
}

fn add_guest(journal: &mut Journal, name: &str) -> GuestKey {
    let guest = GuestIdentity {
        uuid: format!("uuid-of-{name}"),
        name: name.into(),
        class: String::new(),
        pid: Some(7),
        start_ticks: Some(8),
        boot: "1".into(),
    };
    journal.guest(&guest, START_MS).expect("written")
}

fn decision(at_ms: i64, action: &'static str, from_mib: u64, to_mib: u64) -> Decision {
    Decision {
        at_ms,
        policy: Policy::Active,
        action: action.into(),
        clause: "setpoint".into(),
        detail: String::new(),
        from_bytes: from_mib * MIB,
        to_bytes: to_mib * MIB,
        bounds: Vec::new(),
        inputs: Vec::new(),
        acted: true,
    }
}

fn inputs(pairs: &[(&'static str, f64)]) -> Vec<(Word, Option<f64>)> {
    pairs.iter().map(|(name, value)| (Word::from(*name), Some(*value))).collect()
}

/// Returns a journal with a guest that is shrunk, held and grown, and an unselected neighbour.
fn story() -> Journal {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let mail = add_guest(&mut journal, "mail");
    let start = Event {
        at_ms: START_MS,
        kind: kinds::MANAGER_START.into(),
        text: "2 guests were found.".into(),
    };
    journal.event(None, &start).expect("written");

    let mut shrunk = decision(START_MS + 187 * SECOND, "shrink", 2048, 1792);
    shrunk.bounds = vec!["step".into()];
    shrunk.inputs = inputs(&[
        ("host_available", 3.1 * 1024.0 * MIB as f64),
        ("host_set_point", 4096.0 * MIB as f64),
        ("guest_available", 900.0 * MIB as f64),
        ("guest_cold", 610.0 * MIB as f64),
        ("psi_permille", 0.0),
    ]);
    let id = journal.decision(web, &shrunk).expect("written");
    let outcome = Outcome {
        at_ms: shrunk.at_ms + 1_200,
        fate: Fate::Reached,
        reached_bytes: 1797 * MIB,
        host_got_bytes: Some(248 * MIB),
    };
    journal.outcome(id, &outcome).expect("written");

    for second in 0..212 {
        let mut hold = decision(START_MS + (190 + second) * SECOND, "hold", 1797, 1797);
        hold.clause = "content".into();
        journal.decision(web, &hold).expect("written");
        journal.decision(mail, &hold).expect("written");
    }
    let mut grown = decision(START_MS + 420 * SECOND, "grow", 1797, 2021);
    grown.clause = "need".into();
    grown.bounds = vec!["max".into(), "shares".into()];
    grown.inputs = inputs(&[
        ("need", 224.0 * MIB as f64),
        ("psi_permille", 125.0),
        ("swap_in_pages_s", 40.0),
        ("sample_age_ms", 1_500.0),
    ]);
    journal.decision(web, &grown).expect("written");
    journal
}

const SHRUNK: &str = "14:03:07  web1 was shrunk from 2048 to 1792 MiB (-256): the host had \
    3.1 GiB free for guests, and its set point was 4.0 GiB (clause setpoint). The guest had \
    900 MiB available, 610 MiB of them free or cold cache; no task in the guest waited for \
    memory. Limited by the largest step of one pass. The guest gave back 251 MiB within 1.2 s; the \
    host got 248 MiB.\n";
const HELD: &str = "14:03:10  web1 was held at 1797 MiB, 212 times from 14:03:10 to 14:06:41: \
    the guest needed no memory, and no other guest needed its memory (clause content). The guest's \
    own state was unknown.\n";
const GROWN: &str = "14:07:00  web1 was grown from 1797 to 2021 MiB (+224): the guest needed \
    224 MiB more (clause need). A task in the guest waited for memory 12.5 % of the time; the \
    guest swapped in 40 pages a second. This sample was 1.5 s old. Limited by the guest's \
    maximum or own rules, and by the shares of other guests. The outcome is not in the journal.\n";
const STARTED: &str = "14:00:00  2 guests were found.\n";

#[test]
fn an_hour_is_shown_in_sentences_with_holds_folded() {
    assert_eq!(ask(&story(), &args("web1")), format!("{STARTED}{SHRUNK}{HELD}{GROWN}"));
}

#[test]
fn a_minute_is_shown_with_the_decision_in_force_before() {
    let journal = story();
    let held = HELD.replace("212 times", "50 times").replace("14:06:41", "14:03:59");
    assert_eq!(ask(&journal, &at("web*", "14:03")), format!("{SHRUNK}{held}"));
    let before = "earlier: 14:06:41  web1 was held at 1797 MiB: the guest needed no memory, and no \
                  other guest needed its memory (clause content). The guest's own state was \
                  unknown.\n";
    assert_eq!(
        ask(&journal, &at("uuid-of-web1", "14:07:00")),
        format!("earlier: {SHRUNK}{before}{GROWN}")
    );
}

#[test]
fn merged_holds_count_how_often_the_kernel_took_memory_back() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    for (second, mib) in [(187, 256), (188, 272), (189, 300)] {
        let mut hold = decision(START_MS + second * SECOND, "hold", mib, mib);
        hold.clause = "strained".into();
        let id = journal.decision(web, &hold).expect("written");
        let (at_ms, reached_bytes) = (hold.at_ms + 900, (mib + 16) * MIB);
        let outcome = Outcome { at_ms, fate: Fate::TookBack, reached_bytes, host_got_bytes: None };
        if mib < 300 {
            journal.outcome(id, &outcome).expect("written");
        }
    }
    let text = ask(&journal, &args("web1"));
    assert!(text.contains("held 3 times") && text.contains("256 to 300 MiB"), "{text}");
    let took = "The guest's kernel took memory back from the balloon 2 times meanwhile.";
    assert!(text.trim_end().ends_with(took), "{text}");
    let answer = why::answer(&journal, &args("web1"), now()).expect("an answer").json();
    assert_eq!(answer["entries"][0]["took_back"], 2);
}

#[test]
fn a_time_without_decisions_is_answered_with_other_times() {
    let journal = story();
    let nothing = "The active policy decided nothing about web1 between 14:08:00 and 14:08:59. \
                   The journal contains decisions of this policy from 14:03:07 to 14:07:00.\n";
    assert_eq!(ask(&journal, &at("web1", "14:08")), format!("earlier: {GROWN}{nothing}"));
    let before = ask(&journal, &at("web1", "2026-11-20 14:08"));
    assert!(before.starts_with("The active policy decided nothing about web1"), "{before}");
    let shadow = ask(&journal, &Question { policy: Policy::Shadow, ..args("web1") });
    assert!(shadow.ends_with("no decision of the shadow policy about web1.\n"), "{shadow}");
}

#[test]
fn guests_are_distinguished_and_unknown_names_get_suggestions() {
    let journal = story();
    let both = ask(&journal, &args("*"));
    assert!(both.contains("  web1 was held") && both.contains("  mail was held"), "{both}");
    let error = why::answer(&journal, &args("web2"), now()).expect_err("unknown").to_string();
    let expected = "The journal contains no guest web2; the nearest names are web1, mail \
                    (`*` stands for any text)";
    assert_eq!(error, expected);
}

#[test]
fn json_contains_the_whole_answer() {
    let answer = why::answer(&story(), &at("web1", "14:03:07"), now()).expect("an answer").json();
    assert_eq!(answer["guests"][0]["uuid"], "uuid-of-web1");
    assert_eq!(answer["from"], "2026-11-21T14:03:07.000+01:00");
    let entry = &answer["entries"][0];
    assert_eq!(entry["at_ms"], START_MS + 187 * SECOND);
    assert_eq!((&entry["action"], &entry["clause"]), (&"shrink".into(), &"setpoint".into()));
    assert_eq!(entry["inputs"]["guest_cold"], 610.0 * MIB as f64);
    assert_eq!(entry["outcomes"][0]["result"], "reached");
    assert_eq!(entry["bounds"][0], "step");
    assert_eq!(entry["told"].as_str().map(|line| format!("{line}\n")).as_deref(), Some(SHRUNK));
    assert!(entry["clause_means"].as_str().is_some_and(|means| means.ends_with('.')));
    let all = why::answer(&story(), &args("web1"), now()).expect("an answer").json();
    assert_eq!(all["entries"][2]["times"], 212);
}

#[test]
fn dry_runs_and_shadows_are_described_as_hypothetical() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let mut dry = decision(START_MS, "shrink", 2048, 1792);
    dry.acted = false;
    journal.decision(web, &dry).expect("written");
    let mut hold = decision(START_MS, "hold", 2048, 2048);
    (hold.policy, hold.acted) = (Policy::Shadow, false);
    journal.decision(web, &hold).expect("written");
    let text = ask(&journal, &args("web1"));
    assert!(text.contains("web1 would have been shrunk from 2048"), "{text}");
    assert!(!text.contains("outcome"), "{text}");
    let text = ask(&journal, &Question { policy: Policy::Shadow, ..args("web1") });
    assert!(text.contains("web1 would have been held at 2048 MiB"), "{text}");
}

#[test]
fn report_h14_an_acting_manager_has_done_what_needs_no_order() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    for (minute, action, mib) in [(0, "let-go", 128), (1, "stuck", 256), (2, "hold", 0)] {
        let mut one = decision(START_MS + minute * MINUTE, action, mib, mib);
        one.acted = false;
        journal.decision(web, &one).expect("written");
    }
    let text = ask(&journal, &args("web1"));
    for sentence in
        ["left to another manager at 128 MiB", "at 256 MiB with a stuck balloon", "left unchanged"]
    {
        assert!(text.contains(sentence), "{sentence} is not in {text}");
    }
}

/// Returns a journal with a move in four steps. Each outcome is a fate and a size in MiB.
fn movement(steps: &[(Fate, u64)]) -> Journal {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let id = journal.decision(web, &decision(START_MS, "shrink", 147, 139)).expect("written");
    for ((fate, mib), number) in steps.iter().zip(1..) {
        let outcome = Outcome {
            at_ms: START_MS + number * 3_000,
            fate: *fate,
            reached_bytes: mib * MIB,
            host_got_bytes: (*fate == Fate::Reached).then_some((147 - mib) * MIB),
        };
        journal.outcome(id, &outcome).expect("written");
    }
    journal
}

#[test]
fn run_of_steps_has_its_range_and_count() {
    use Fate::{Gone, Reached, Stuck};
    let told = |steps: &[(Fate, u64)]| ask(&movement(steps), &args("web1"));
    let text = told(&[(Reached, 139), (Reached, 120), (Reached, 101), (Reached, 86)]);
    let run = "web1 was shrunk in 4 steps from 147 to 86 MiB (-61) within 12.0 s: ";
    assert!(text.contains(run) && text.ends_with(" The host got 61 MiB.\n"), "{text}");
    let text = told(&[(Reached, 139), (Stuck, 130)]);
    assert!(text.contains("in 2 steps from 147 to 130 MiB (-17) within 6.0 s: "), "{text}");
    assert!(text.ends_with(" The balloon then stopped.\n"), "{text}");
    let text = told(&[(Reached, 139), (Gone, 0)]);
    assert!(text.contains("in 2 steps from 147 to 139 MiB (-8) within 3.0 s: "), "{text}");
    assert!(text.ends_with(" The guest ended within 6.0 s.\n"), "{text}");
    let answer = why::answer(&movement(&[(Reached, 139), (Reached, 86)]), &args("web1"), now());
    assert_eq!(answer.expect("an answer").lines()[0].to_mib, Some(86));
}

#[test]
fn age_of_an_old_sample_is_shown_with_the_reason_why_it_counts() {
    let told = |clause: &'static str, asleep: f64| {
        let mut journal = Journal::in_memory().expect("memory");
        let web = add_guest(&mut journal, "web1");
        let mut shrunk = decision(START_MS, "shrink", 256, 218);
        shrunk.clause = clause.into();
        shrunk.inputs =
            inputs(&[("psi_permille", 0.0), ("sample_age_ms", 14_000.0), ("asleep", asleep)]);
        journal.decision(web, &shrunk).expect("written");
        ask(&journal, &args("web1"))
    };
    let unchanged = " This sample was 14.0 s old, but still valid, because the guest was asleep.";
    assert!(told("setpoint", 1.0).contains(unchanged), "{}", told("setpoint", 1.0));
    assert!(told("setpoint", 0.0).contains(" This sample was 14.0 s old. "));
    let stale = told("stale", 0.0);
    assert!(stale.contains("last sample was 14.0 s old, and the guest may have run"), "{stale}");
    assert_eq!(stale.matches("14.0 s").count(), 1, "{stale}");
}

#[test]
fn a_wait_that_just_ended_is_shown_for_a_strained_guest() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let mut hold = decision(START_MS, "hold", 127, 127);
    hold.clause = "strained".into();
    hold.inputs = inputs(&[("psi_permille", 0.0), ("strained", 1.0)]);
    journal.decision(web, &hold).expect("written");
    let text = ask(&journal, &args("web1"));
    assert!(text.contains(" A task in the guest had waited for memory just before."), "{text}");
    assert!(!text.contains("o task in the guest waited"), "{text}");
}

#[test]
fn holds_at_several_sizes_have_their_range() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    for (second, mib) in [(0, 94), (1, 150), (2, 197)] {
        let hold = decision(START_MS + second * SECOND, "hold", mib, mib);
        journal.decision(web, &hold).expect("written");
    }
    let text = ask(&journal, &args("web1"));
    let held = "web1 was held 3 times from 14:00:00 to 14:00:02, while its size was 94 to 197 MiB:";
    assert!(text.contains(held), "{text}");
    assert_eq!(text.matches("web1").count(), 1, "{text}");
}

#[test]
fn size_of_a_line_is_rounded_as_in_its_text() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let hold = Decision { to_bytes: 2266 * MIB / 10, ..decision(START_MS, "hold", 227, 0) };
    journal.decision(web, &hold).expect("written");
    let answer = why::answer(&journal, &args("web1"), now()).expect("an answer");
    let line = &answer.lines()[0];
    assert_eq!((line.to_mib, line.text.contains("held at 227 MiB")), (Some(227), true));
}

#[test]
fn present_run_is_shown_unless_a_time_is_given() {
    let mut journal = Journal::in_memory().expect("memory");
    for (minute, uuid) in [(0, "dead"), (5, "alive")] {
        let guest = GuestIdentity {
            uuid: format!("{uuid}-uuid"),
            name: "g2".into(),
            pid: Some(7),
            ..GuestIdentity::default()
        };
        let at_ms = START_MS + minute * MINUTE;
        let key = journal.guest(&guest, at_ms).expect("written");
        journal.decision(key, &decision(at_ms, "shrink", 256, 218)).expect("written");
        if uuid == "dead" {
            let ended = Event { at_ms, kind: kinds::GONE.into(), text: String::new() };
            journal.event(Some(key), &ended).expect("written");
        }
    }
    let recent = Question { time: Time::Recent("1h".into()), ..args("g2") };
    let text = ask(&journal, &recent);
    assert!(text.starts_with("14:05:00  g2 was shrunk from 256"), "{text}");
    let note = "Earlier runs of g2 are not shown: use --last SPAN or --at TIME to see them.\n";
    assert!(text.ends_with(note), "{text}");
    let all = ask(&journal, &args("g2"));
    assert!(all.contains("14:00:00  g2 [dead-uui] was shrunk"), "{all}");
    assert!(!all.contains("Earlier runs"), "{all}");
    let now = ask(&journal, &at("g2", "14:08"));
    assert!(now.starts_with("earlier: 14:05:00  g2 was shrunk"), "the dead one is left out: {now}");
}

#[test]
fn every_outcome_has_a_sentence_even_an_unknown_one() {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let mut odd = decision(START_MS, "shrink", 2048, 1792);
    (odd.action, odd.clause) = ("compact".into(), "moon-phase".into());
    journal.decision(web, &odd).expect("written");
    for (fate, number) in Fate::ALL.iter().copied().zip(1..) {
        let shrink = decision(START_MS + number * MINUTE, "shrink", 2048, 1792);
        let id = journal.decision(web, &shrink).expect("written");
        let outcome = Outcome {
            at_ms: shrink.at_ms + 5 * SECOND,
            fate,
            reached_bytes: 1948 * MIB,
            host_got_bytes: None,
        };
        journal.outcome(id, &outcome).expect("written");
    }
    let text = ask(&journal, &args("web1"));
    for sentence in [
        "web1: compact from 2048 to 1792 MiB (-256): this version of pinhead does not know \
         the reason (clause moon-phase).",
        "The guest gave back 100 MiB within 5.0 s; the host's gain was not measured.",
        "The guest gave back 100 of 256 MiB within 5.0 s; then the balloon stopped.",
        "The change was refused, and the guest has 1948 MiB.",
        "A later decision replaced this one after 5.0 s, at 1948 MiB.",
        "The guest ended within 5.0 s.",
        "The guest's kernel took memory back within 5.0 s, up to 1948 MiB.",
        "Another program moved the guest's balloon within 5.0 s, to 1948 MiB.",
    ] {
        assert!(text.contains(sentence), "{sentence} is not in {text}");
    }
}

#[test]
fn hostile_guest_texts_are_escaped_in_answers() {
    let mut journal = Journal::in_memory().expect("memory");
    let evil = "\u{1b}[2J\u{9b}é\r\n\u{202e}x";
    let guest = add_guest(&mut journal, evil);
    let mut shrink = decision(START_MS, "shrink", 2048, 1792);
    for word in [&mut shrink.action, &mut shrink.clause] {
        *word = Word::Owned(evil.into());
    }
    shrink.detail = evil.into();
    shrink.bounds = vec![Word::Owned(evil.into())];
    journal.decision(guest, &shrink).expect("written");
    shrink.policy = Policy::Shadow;
    shrink.to_bytes = 5;
    journal.decision(guest, &shrink).expect("written");
    let event = Event { at_ms: START_MS, kind: Word::Owned(evil.into()), text: evil.into() };
    journal.event(Some(guest), &event).expect("written");
    let mut all = ask(&journal, &args(evil));
    all += &ask(&journal, &at("*", "2026-11-01 00:00"));
    all += &differ(&journal, None).text();
    all += &why::answer(&journal, &args("\u{1b}]0;x"), now()).expect_err("unknown").to_string();
    let json = why::answer(&journal, &args(evil), now()).expect("an answer").json();
    let printed = base::plain_json(&json.to_string());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).expect("JSON"), json);
    assert!(printed.contains("\\u202ex") && printed.contains("\\u009b"), "{printed}");
    all += &printed;
    all += &base::plain_json(&differ(&journal, None).json().to_string());
    assert!(all.lines().count() >= 6, "{all}");
    let bad: Vec<char> =
        all.chars().filter(|c| c.is_control() && *c != '\n' || *c == '\u{202e}').collect();
    assert_eq!(bad, [], "{all:?}");
}

fn differ(journal: &Journal, guest: Option<&str>) -> diff::Answer {
    diff::answer(journal, "10m", guest, now()).expect("an answer")
}

/// Returns a journal in which both policies agree, differ for 5 minutes by up to 256 MiB, and agree
/// again. A neighbour differs by less than 1 %.
fn parted() -> Journal {
    let mut journal = Journal::in_memory().expect("memory");
    let web = add_guest(&mut journal, "web1");
    let mail = add_guest(&mut journal, "mail");
    let mut add = |guest, minute: i64, policy, from, to, clause: &'static str| {
        let mut shrink = decision(START_MS + minute * MINUTE, "shrink", from, to);
        (shrink.policy, shrink.clause) = (policy, clause.into());
        journal.decision(guest, &shrink).expect("written");
    };
    use Policy::{Active, Shadow};
    add(web, -30, Active, 2048, 2048, "content");
    add(web, -30, Shadow, 2048, 2048, "content");
    add(mail, -30, Active, 1000, 1000, "content");
    add(mail, -30, Shadow, 1000, 991, "wish");
    add(web, 2, Shadow, 2048, 1920, "setpoint");
    add(web, 3, Shadow, 1920, 1792, "shortage");
    // In one pass both policies decide the same size.
    add(web, 7, Active, 2048, 1792, "setpoint");
    journal
}

#[test]
fn policy_differences_are_shown_as_intervals() {
    let text = differ(&parted(), None).text();
    // 1 minute of 128 MiB and 4 minutes of 256 MiB are 19.2 MiB·h.
    let expected = "14:02:00 to 14:07:00  web1: active 2048 MiB (content: no demand), \
        shadow 1792 MiB (shortage: another guest needs memory that this guest can spare), \
        difference at most -256 MiB, for 5 min\n\
        mail: the targets agreed for 10 min; moves: active 0, shadow 0\n\
        web1: the targets differed once, for 5 min of 10 min; the shadow policy would change the \
        guest's memory by -19.2 MiB·h; moves: active 1, shadow 2\n";
    assert_eq!(text, expected);
    let only = differ(&parted(), Some("mail"));
    assert_eq!(only.guests.len(), 1);
    let json = differ(&parted(), None).json();
    let web = &json["guests"][1];
    assert_eq!(web["partings"][0]["shadow"]["clause"], "shortage");
    assert_eq!((&web["parted_ms"], &web["known_ms"]), (&300_000.into(), &600_000.into()));
}

#[test]
fn policies_do_not_differ_while_no_manager_runs() {
    let mut journal = parted();
    let stop = |minute, kind: &'static str| Event {
        at_ms: START_MS + minute * MINUTE,
        kind: kind.into(),
        text: String::new(),
    };
    journal.event(None, &stop(4, kinds::MANAGER_STOP)).expect("written");
    let answer = differ(&journal, Some("web1"));
    let total = &answer.guests[0].1;
    assert_eq!((total.count, total.parted_ms, total.known_ms), (1, 2 * MINUTE, 4 * MINUTE));

    let mut journal = parted();
    journal.event(None, &stop(-1, kinds::MANAGER_START)).expect("written");
    let answer = differ(&journal, Some("web1"));
    assert_eq!(answer.guests[0].1.parted_ms, 0, "the shadow is alone until minute 7");
}

#[test]
fn without_a_shadow_the_answer_explains_how_to_add_one() {
    let text = differ(&story(), None).text();
    assert!(text.contains("no guest has decisions of both policies"), "{text}");
}
