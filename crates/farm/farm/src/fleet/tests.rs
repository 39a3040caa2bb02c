use super::*;
use agent::{Agent, AgentLink, GuestBounds, PoolGrants};
use base::Bytes;
use dying::Dying;
use open::RunningGuest;
use procfs::testing::FakeKernel;
use procfs::{Chance, KillWatch};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::Write;
use std::net::Shutdown;
use std::ops::RangeInclusive;
use std::process::Command;
use vm::images::{Arch, FirstProcess, Image};
use vm::{Accel, Deadline, Guest, Process, WhyEmulation};

/// A guest that is never started.
pub(crate) fn config(name: &str) -> MemberConfig {
    let image = Image {
        arch: Arch::X86_64,
        kernel: "no-kernel".into(),
        initramfs: "no-initramfs".into(),
        first_process: FirstProcess::Ours,
    };
    let spec = GuestSpec::new(name, image, Accel::Emulation(WhyEmulation::Asked));
    MemberConfig { daemon: Daemon::Missing, ..MemberConfig::new(spec) }
}

/// Waits until a process sleeps or has ended. Loading a program from disk takes time, which must
/// not count against the test's limits.
fn is_settled(pid: u32) {
    let deadline = Deadline::after(std::time::Duration::from_secs(60));
    let is_busy =
        |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['R', 'D']));
    while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(is_busy) {
        assert!(deadline.remaining().is_some(), "process {pid} never sleeps");
        thread::yield_now();
    }
}

/// Starts this command as the QEMU of a running guest. Returns the fleet, and QEMU's ends of the
/// connections.
fn running(command: &mut Command) -> (Fleet, Vec<UnixStream>) {
    let command = std::mem::replace(command, Command::new("true"));
    let (mut ours, theirs): (Vec<_>, Vec<_>) = (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
    let mut next = || ours.pop().unwrap();
    let guest = Guest {
        devices: None,
        name: "g1".into(),
        process: Process::start(command, vec![]).unwrap(),
        qmp: next(),
        port: next(),
        console: next(),
        ctl: None,
        port_file: None,
        monitor_file: None,
        uuid: [0; 16],
        go_on: None,
        link: None,
    };
    is_settled(guest.process.id());
    let mut fleet = Fleet::of(vec![config("g1")], 1);
    let (running, _) = RunningGuest::new(guest, 0).unwrap();
    fleet.members[0].running = Some(running);
    fleet.members[0].state = State::Up;
    (fleet, theirs)
}

#[test]
fn finding_15_end_of_qemu_is_awaited_only_in_the_poll() {
    let (mut fleet, theirs) = running(Command::new("sleep").arg("1000"));
    // The connections are closed while the process still runs, as by a QEMU that still frees much
    // memory. The connections are shut down instead of dropped, because a process that another test
    // starts may hold copies of the sockets.
    for end in theirs {
        end.shutdown(Shutdown::Both).unwrap();
    }
    fleet.members[0].read_console();
    let member = &fleet.members[0];
    assert_eq!((member.state(), member.pid()), (&State::Up, None), "the end of QEMU was awaited");
    let deadline = Deadline::after(std::time::Duration::from_secs(60));
    let mut events = Vec::new();
    while events.is_empty() {
        assert!(deadline.remaining().is_some(), "its end is not seen");
        let until_ms = fleet.now_ms() + 10_000;
        events = fleet.turn(PollSet::new(), until_ms).unwrap().1;
    }
    assert!(matches!(events[..], [Event::Ended(0)]), "{events:?}");
    let ended = State::Ended("QEMU ended: signal: 9 (SIGKILL)".into());
    assert_eq!(fleet.members()[0].state(), &ended);
}

/// Runs turns until the killed QEMU is gone.
fn bury(fleet: &mut Fleet) {
    let deadline = Deadline::after(std::time::Duration::from_secs(60));
    while fleet.members[0].dying.is_some() {
        assert!(deadline.remaining().is_some(), "its end is not seen");
        let until_ms = fleet.now_ms() + 10_000;
        fleet.turn(PollSet::new(), until_ms).unwrap();
    }
}

/// Creates a cgroup in which the kernel has killed a process. The returned counters are from before
/// the kill.
fn killed(shortages: u64) -> (FakeKernel, KillWatch) {
    let kernel = FakeKernel::new(1, 1);
    let events = "sys/fs/cgroup/one/memory.events";
    kernel.write("proc/7/cgroup", "0::/one\n");
    kernel.write("sys/fs/cgroup/one/cgroup.procs", "");
    kernel.write(events, "oom 0\noom_kill 0\n");
    let watch = KillWatch::of(&kernel.root(), 7);
    kernel.write(events, &format!("oom {shortages}\noom_kill 1\n"));
    (kernel, watch)
}

#[test]
fn guest_ends_with_what_lacked_memory_when_its_qemu_is_killed() {
    let whys = ["the host had no more memory", "its control group allows no more memory"];
    for (shortages, why) in whys.into_iter().enumerate() {
        let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
        let member = &mut fleet.members[0];
        let (_kernel, kills) = killed(shortages as u64);
        member.running.as_mut().unwrap().kills = kills;
        member.closed();
        bury(&mut fleet);
        let ended = State::Ended(format!("QEMU was killed: {why}"));
        assert_eq!(fleet.members()[0].state(), &ended);
    }
}

#[test]
fn guest_that_may_have_been_killed_keeps_its_qemus_last_words() {
    let end = |script: &str| {
        let (mut fleet, _theirs) = running(Command::new("sh").args(["-c", script]));
        let member = &mut fleet.members[0];
        let (kernel, kills) = killed(1);
        kernel.write("sys/fs/cgroup/one/cgroup.procs", "8\n");
        let running = member.running.as_mut().unwrap();
        running.kills = kills;
        let pid = Pid::from_raw(running.process.id().cast_signed()).unwrap();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).unwrap();
        (member.state, member.config.spec.accel) = (State::Booting, Accel::Kvm);
        member.closed();
        let is_emulated = member.config.spec.accel != Accel::Kvm;
        if let Some(dying) = &mut member.dying {
            dying.nothing_next();
        }
        let reason = member.dying.as_mut().and_then(Dying::gone).map(|(_, reason)| reason);
        (reason.unwrap(), is_emulated)
    };
    let ended = "QEMU ended: exit status: 1: no disk\n".trim().to_owned();
    assert_eq!(end("echo no disk >&2; exit 1"), (ended, false), "it was not killed");
    let (reason, is_emulated) = end("echo no disk >&2; kill -9 $$");
    assert!(reason.starts_with("QEMU may have been killed"), "{reason}");
    assert!(reason.ends_with("(it ended: signal: 9 (SIGKILL): no disk)"), "{reason}");
    assert!(!is_emulated);
    assert!(end("echo failed to initialize kvm >&2; exit 1").1);
}

#[test]
fn guest_takes_no_boot_when_its_last_qemu_is_not_gone() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    member.state = State::Booting;
    assert!(member.takes_a_boot());
    member.kill(dying::Next::Start);
    assert!(!member.takes_a_boot(), "a disk may block QEMU forever");
}

#[test]
fn guest_ends_when_each_boot_resets_its_machine() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    // The firmware resets the machine once more each time.
    let reset = |member: &mut Member, at_s: u64| {
        [0, 300].iter().for_each(|more_ms| member.was_reset(at_s * 1_000 + more_ms));
    };
    (0..5).for_each(|number| reset(member, 10 * number));
    assert!(member.events.drain(..).all(|event| matches!(event, Event::Reset(0))));
    reset(member, 60);
    assert_eq!(member.events.drain(..).count(), 1, "its firmware's is no event");
    assert_eq!(member.state(), &State::Up, "a running guest may reboot any number of times");
    member.state = State::Booting;
    (0..2).for_each(|number| reset(member, 100 + 10 * number));
    assert_eq!(member.state(), &State::Booting);
    member.console.push(b"pinhead: a module does not load\n");
    member.console.push(b"[1.0] Kernel panic - not syncing: no init\r\nEnd of trace\n");
    reset(member, 120);
    let why = "its machine was reset 3 times while it booted: Kernel panic - not syncing: no init";
    assert_eq!(member.state(), &State::Ended(why.into()));
}

#[test]
fn guest_keeps_kvm_when_its_qemu_is_killed_as_it_starts() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    let (_kernel, kills) = killed(1);
    member.running.as_mut().unwrap().kills = kills;
    (member.state, member.config.spec.accel) = (State::Booting, Accel::Kvm);
    member.closed();
    bury(&mut fleet);
    let member = &fleet.members()[0];
    let ended = "QEMU was killed: its control group allows no more memory".to_owned();
    assert_eq!((member.state(), member.spec().accel), (&State::Ended(ended), Accel::Kvm));
}

#[test]
fn guest_is_not_woken_for_the_reason_of_its_qemus_kill() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    let (_kernel, kills) = killed(1);
    member.running.as_mut().unwrap().kills = kills;
    member.suspension.stage = suspend::Stage::Loading;
    member.closed();
    let suspend::Stage::Failed(failure) = &member.suspension.stage else { panic!("{member:?}") };
    assert_eq!(
        failure.why.to_string(),
        "its QEMU was killed: its control group allows no more memory"
    );
}

#[test]
fn a_guest_that_is_ended_for_a_reason_keeps_it() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    fleet.members[0].refused("no");
    let refused = State::Ended("The clone does not adopt its name: no".into());
    assert_eq!(fleet.members()[0].state(), &refused);
    bury(&mut fleet);
    assert_eq!(fleet.members()[0].state(), &refused);
}

#[test]
fn ended_guest_is_not_restarted_when_its_old_qemu_is_gone() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    fleet.members[0].kill(dying::Next::Start);
    fleet.members[0].end("no".into());
    bury(&mut fleet);
    assert_eq!(fleet.members()[0].state(), &State::Ended("no".into()));
}

#[test]
fn finding2_19_a_silent_qemu_keeps_no_guest_parking() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    member.park().unwrap();
    let late = "its QEMU has not answered for 30 s";
    assert_eq!(notes(member, 1..=30), ("up", vec![]));
    // The process sleeps and never waits for a CPU, so all of its time counts.
    let not_parked = vec![format!("g1 is not parked: {late}")];
    assert_eq!(notes(member, 31..=40), ("waking", not_parked));
    let not_woken = vec![format!("g1 is not woken yet: {late}")];
    assert_eq!(notes(member, 41..=75), ("waking", not_woken));
    member.end("the test is over".into());
}

#[test]
fn silent_qemu_has_its_time_again_after_a_pause_of_the_machine() {
    let (mut fleet, _theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    member.park().unwrap();
    for seconds in [1..=20, 3_600..=3_620] {
        assert_eq!(notes(member, seconds), ("up", vec![]));
    }
    member.end("the test is over".into());
}

/// Ticks a guest in each of these seconds. Returns the word for the guest's
/// state, and the notes.
fn notes(member: &mut Member, seconds: RangeInclusive<u64>) -> (&'static str, Vec<String>) {
    seconds.for_each(|second| member.tick(second * 1_000));
    let note = |event| match event {
        Event::Note(note) => note,
        other => panic!("{other:?}"),
    };
    (member.word(), member.events.drain(..).map(note).collect())
}

/// Creates a clone without a name, started at second 0, with QEMU's ends of its connections.
fn clone() -> (Fleet, Vec<UnixStream>) {
    let (mut fleet, theirs) = running(Command::new("sleep").arg("1000"));
    let member = &mut fleet.members[0];
    let bounds = GuestBounds { memory: Bytes::mib(64), cpus: Some(1) };
    member.link = AgentLink::new(Agent::unnamed(bounds, PoolGrants::Yes));
    member.state = State::Booting;
    member.watch.had = Chance::since(0);
    (fleet, theirs)
}

/// Returns the first of these seconds after which the guest ends because it has no name.
fn nameless_at(member: &mut Member, mut seconds: RangeInclusive<u64>) -> Option<u64> {
    let at = seconds.find(|second| {
        member.tick(second * 1_000);
        matches!(member.state(), State::Ended(_))
    })?;
    let why = "The clone does not adopt its name: its daemon does not answer".to_owned();
    assert_eq!(member.state(), &State::Ended(why));
    Some(at)
}

#[test]
fn clone_has_a_minute_for_its_name_from_its_first_run() {
    let (mut fleet, _theirs) = clone();
    // This QEMU could run all the time and has not loaded any state, so nothing excuses the missing
    // name.
    assert_eq!(nameless_at(&mut fleet.members[0], 1..=300), Some(61));
    let (mut fleet, theirs) = clone();
    let member = &mut fleet.members[0];
    assert_eq!(nameless_at(member, 1..=50), None);
    let version = r#"{"qemu":{"micro":0,"minor":2,"major":7},"package":""}"#;
    let runs = r#"{"timestamp":{"seconds":50,"microseconds":0},"event":"RESUME"}"#;
    let greeting = format!(r#"{{"QMP":{{"version":{version},"capabilities":[]}}}}"#);
    (&theirs[2]).write_all(format!("{greeting}\n{runs}\n").as_bytes()).unwrap();
    member.speak_qmp(50_000);
    assert!(!member.agent().wants_name(), "its name was sent");
    // A second RESUME does not restart the minute.
    (&theirs[2]).write_all(format!("{runs}\n").as_bytes()).unwrap();
    member.speak_qmp(80_000);
    assert_eq!(nameless_at(member, 51..=300), Some(112));
}
