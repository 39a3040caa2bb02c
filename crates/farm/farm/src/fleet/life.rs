//! Life of a guest apart from its boot: the start from a template's state, and parking and waking,
//! in memory or on disk.
//!
//! ```text
//!   a template  ─► QEMU loads its state ─► the guest runs, and gets its own name (see `daemon`)
//!   a park file ─► read ─► QEMU starts ─► its pages are filled in ─► its devices are loaded
//!     ─► cont ─► its daemon gets Welcome and Clock
//! ```

use std::sync::atomic::AtomicBool;

use base::chain;
use hypervisor::ProcessId;
use procfs::{Chance, Work};
use qmp::{Reply, Ticket};
use vm::images::{self, FirstProcess};

use super::alarm::Leave;
use super::dying::Next;
use super::event::Event;
use super::fault::Fault;
use super::member::Member;
use super::member_config::may_be_saved;
use super::open::RunningGuest;
use super::park::ParkNews;
use super::park_clock::{ParkWish, asleep_percent};
use super::parking::{Parking, SaveNews};
use super::refusal::Refusal;
use super::state::{Holder, State};
use super::suspend::{self, Failure, Saved, Stage};
use super::worker::{Job, Worker};
use crate::relay::{Far, Relay};

/// Number of attempts to bring back a guest with a damaged or missing park file.
const BROKEN_FILE_TRIES: u32 = 6;
/// Wait after the first failed attempt. The wait doubles `DOUBLINGS_MAX` times, to about a minute.
const RETRY_MS: u64 = 2_000;
const DOUBLINGS_MAX: u32 = 5;

/// The threads that page guests out, write their park files and bring them back. Each thread
/// handles one guest at a time. Separate threads read and write, so a guest that comes back does
/// not wait while another guest is written.
#[derive(Debug)]
pub(super) struct Parkers {
    pub(super) pager: Worker,
    pub(super) saver: Worker,
    pub(super) waker: Worker,
}

impl Parkers {
    pub(super) fn all(&self) -> impl Iterator<Item = &Worker> {
        [&self.pager, &self.saver, &self.waker].into_iter()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Worker> {
        [&mut self.pager, &mut self.saver, &mut self.waker].into_iter()
    }
}

impl Default for Parkers {
    fn default() -> Parkers {
        let [pager, saver, waker] = ["pager", "parker", "waker"].map(Worker::new);
        Parkers { pager, saver, waker }
    }
}

impl Member {
    /// Starts to park the guest.
    pub(super) fn park(&mut self) -> Result<(), Refusal> {
        match &mut self.running {
            Some(running)
                if self.state.is_up()
                    && self.link.agent().is_named()
                    && !self.suspension.is_away() =>
            {
                if self.config.spec.suspends {
                    may_be_saved(&self.config, self.holder, &self.balloon)?;
                }
                self.suspension.shut(running.parking.is_awake())?;
                if let Err(why) = running.park(&self.config.spec, self.config.park) {
                    self.open_door();
                    return Err(why);
                }
                self.flush_qmp();
                Ok(())
            }
            None if self.suspension.is_at_rest() => Ok(()),
            _ if self.suspension.is_away() => Err(Refusal::State("waking")),
            _ => Err(Refusal::State(self.state.word())),
        }
    }

    /// Lets the guest run if it is parked.
    pub(super) fn wake(&mut self) {
        self.suspension.wake();
        let woken = self.running.as_mut().map_or(Ok(()), RunningGuest::wake);
        match woken {
            Ok(()) => self.flush_qmp(),
            Err(why) => self.end(chain(&why)),
        }
    }

    /// Handles QEMU's response to `stop` or `cont`. Returns false for any other response.
    pub(super) fn park_answered(
        &mut self,
        answer: (Ticket, &Result<Reply, qmp::Failure>),
        now_ms: u64,
    ) -> bool {
        let Some(running) = &mut self.running else { return false };
        let how = (&self.config.spec, self.config.park);
        match running.park_answered(answer, how, now_ms) {
            None => return false,
            Some(Ok(ParkNews::Nothing)) => {}
            Some(Ok(ParkNews::Woken)) => self.woken(now_ms),
            Some(Err(why)) => self.end(chain(&why)),
        }
        true
    }

    /// Lets the pager page out the guest's remaining memory.
    pub(super) fn page_out(&mut self, pager: &mut Worker) {
        if self.running.as_mut().is_some_and(|running| running.page_out(pager)) {
            self.events.push(Event::Parked(self.place));
        }
    }

    /// Returns true if the guest is parked and due to wake, because its timer is due or the rule's
    /// maximum time has passed.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let is_parked = self.parking().is_some_and(Parking::is_parked);
        let is_over = |parking: &Parking| parking.was_long_enough(self.config.park, now_ms);
        let is_wanted = self.suspension.alarm.is_due(now_ms);
        (is_parked || self.suspension.is_at_rest()) && is_wanted
            || self.parking().is_some_and(is_over)
    }

    /// Parks the guest if its rule requires parking and `may_park` is set. Returns true if the rule
    /// required parking.
    pub(super) fn tick_parking(&mut self, now_ms: u64, is_short: bool, may_park: bool) -> bool {
        let (ran, spec) = (self.cpu.ran(), &self.config.spec);
        let Some(running) = &mut self.running.as_mut().filter(|_| !self.suspension.is_away())
        else {
            return false;
        };
        let rule = if is_short { self.config.park.on_a_short_host() } else { self.config.park };
        let wish = match running.parking.is_awake() {
            true => {
                let rule = (rule, asleep_percent(spec.image.arch, spec.accel));
                running.parking.clock.awake(ran, rule, may_park, now_ms)
            }
            false => ParkWish::Nothing,
        };
        match wish {
            ParkWish::Nothing => {}
            ParkWish::ParkIfSilent
                if !self.suspension.is_for_nothing(running, &self.config.spec, now_ms) => {}
            ParkWish::Park | ParkWish::ParkIfSilent => self.park_unless_due(now_ms),
        }
        matches!(wish, ParkWish::Park | ParkWish::ParkIfSilent)
    }

    /// Parks the guest, unless its daemon reports a timer that is due soon.
    fn park_unless_due(&mut self, now_ms: u64) {
        let may_be_saved = may_be_saved(&self.config, self.holder, &self.balloon);
        if self.config.spec.suspends && may_be_saved.is_err() {
            // A request to the daemon would wake the guest in vain.
            return;
        }
        let pid = self.pid();
        let work = || Work::of_process(pid?);
        match self.suspension.alarm.leave(now_ms, work) {
            Leave::Stay => {}
            Leave::Wait => {
                if let Some(running) = &mut self.running {
                    running.parking.clock.looks_again(now_ms);
                }
            }
            Leave::Ask if self.ask_alarm() => {
                self.suspension.alarm.was_asked(now_ms, work());
                if let Some(running) = &mut self.running {
                    running.parking.clock.is_asked(now_ms);
                }
            }
            // A later tick tries again, so the error is dropped.
            Leave::Ask | Leave::Go => drop(self.park()),
        }
    }

    /// Returns the reason why the guest was not paged out, or not saved on disk, at its last park.
    pub fn kept_because(&self) -> Option<String> {
        Some(chain(self.parking()?.refused()?))
    }

    /// Sends QEMU the state to resume from. Called when QEMU listens.
    pub(super) fn send_state(&mut self) {
        let Some(go_on) = self.running.as_mut().and_then(|running| running.go_on.take()) else {
            return;
        };
        for command in go_on.commands() {
            let ticket = self.ask(command);
            if let Some(running) = &mut self.running {
                running.going_on.extend(ticket);
            }
        }
    }

    /// Handles a response in which QEMU refuses to load the state. The guest then ends, unless it
    /// is coming back from disk. Returns false for any other response.
    pub(super) fn refuses_state(
        &mut self,
        ticket: Ticket,
        outcome: &Result<Reply, qmp::Failure>,
    ) -> bool {
        let asked = |running: &RunningGuest| running.going_on.contains(&ticket);
        let asked = self.running.as_ref().is_some_and(asked);
        match outcome {
            Err(failure) if asked => {
                let why = Fault::State { desc: failure.desc.clone() };
                match self.is_away() {
                    true => self.fails_to_come_back(why),
                    false => self.end(chain(&why)),
                }
                true
            }
            _ => false,
        }
    }

    /// Starts the guest. If a complete park file of the guest exists, the guest is restored from
    /// that file.
    pub(super) fn begin(&mut self, relay: &mut Relay, parkers: &mut Parkers, now_ms: u64) {
        let spec = &self.config.spec;
        if spec.suspends
            && self.suspension.door.is_none()
            && let Some(net) = &spec.net
        {
            match relay.door(net) {
                Ok(door) => self.suspension.door = Some(door),
                Err(error) => return self.end(error.to_string()),
            }
        }
        match self.config.park_file.as_ref().filter(|file| file.exists()) {
            Some(_) => {
                self.state = State::Booting;
                self.read_file(&mut parkers.waker, now_ms);
            }
            None => self.start(now_ms),
        }
    }

    fn read_file(&mut self, worker: &mut Worker, now_ms: u64) {
        let Some(path) = self.config.park_file.clone() else { return };
        self.watch.had = Chance::since(now_ms);
        let spec = self.config.spec.clone();
        let read = move |_: &AtomicBool| suspend::read_devices(&path, &spec);
        self.suspension.stage = Stage::Reading(Job::begin(worker, read));
    }

    /// Takes the next step of saving the guest in its park file, or of restoring the guest, when a
    /// thread has finished a job.
    pub(super) fn turn_suspension(&mut self, parkers: &mut Parkers, now_ms: u64) {
        self.turn_saving(&mut parkers.saver, now_ms);
        let waker = &mut parkers.waker;
        match &self.suspension.stage {
            // The previous QEMU holds the ports until it is gone.
            Stage::OnDisk { is_wanted: true, retry_ms } => {
                if self.dying.is_none() && now_ms >= *retry_ms {
                    self.read_file(waker, now_ms);
                }
            }
            Stage::Reading(job) => match job.done() {
                None => {}
                Some(Ok(Ok(devices))) => {
                    self.watch.had = Chance::since(now_ms);
                    self.suspension.stage = Stage::Starting { is_ready: false };
                    if let Err(why) = self.start_qemu(Some(&devices), now_ms) {
                        self.fails_to_come_back(why);
                    }
                }
                Some(Ok(Err(why))) => {
                    self.suspension.stage = Stage::Failed(Failure { why, is_of_file: true });
                }
                Some(Err(why)) => self.fails_to_come_back(why),
            },
            Stage::Starting { is_ready: true } => self.fill(waker),
            Stage::Filling(job) => match job.done() {
                None => {}
                Some(Ok(())) => {
                    self.watch.had = Chance::since(now_ms);
                    self.suspension.stage = Stage::Loading;
                    self.send_state();
                }
                Some(Err(why)) => self.fails_to_come_back(why),
            },
            Stage::Awake | Stage::OnDisk { .. } | Stage::Starting { .. } => {}
            Stage::Loading | Stage::Failed(_) => {}
        }
        let waits = matches!(self.suspension.stage, Stage::Starting { .. } | Stage::Loading);
        let pid = self.pid();
        if waits && self.watch.is_lost(now_ms, || Work::of_process(pid?)) {
            self.fails_to_come_back(Fault::Stuck);
        }
        if let Stage::Failed(failure) = &self.suspension.stage {
            self.has_not_come_back(failure.clone(), now_ms);
        }
    }

    /// Records that the guest cannot be brought back although its file is complete. The next turn
    /// decides what follows.
    pub(super) fn fails_to_come_back(&mut self, why: Fault) {
        self.kill(Next::Nothing);
        self.suspension.stage = Stage::Failed(Failure { why, is_of_file: false });
    }

    fn fill(&mut self, waker: &mut Worker) {
        let process = self.pid().and_then(ProcessId::of);
        match (process, self.config.park_file.clone()) {
            (Some(process), Some(path)) => {
                let spec = self.config.spec.clone();
                let fill = move |_: &AtomicBool| suspend::fill(&path, &spec, process);
                self.suspension.stage = Stage::Filling(Job::begin(waker, fill));
            }
            _ => self.fails_to_come_back(Fault::NoQemu),
        }
    }

    /// Handles a failed return from disk. The cause may be temporary. The guest therefore stays on
    /// disk with its ports open, and the return is tried again. After `BROKEN_FILE_TRIES` attempts
    /// in a row with an unusable file, the guest ends. A guest that has never run in this farm
    /// starts from its template at once.
    fn has_not_come_back(&mut self, Failure { why, is_of_file }: Failure, now_ms: u64) {
        let (name, why) = (self.config.spec.name.clone(), chain(&why));
        if self.state == State::Booting {
            self.config.park_file.iter().for_each(|file| suspend::remove(file));
            let note = format!(
                "{name} starts from its template, because its state on disk cannot be used: {why}"
            );
            self.events.push(Event::Note(note));
            self.suspension.stage = Stage::Awake;
            match &mut self.dying {
                Some(dying) => dying.starts_next(),
                None => self.start(now_ms),
            }
            return;
        }
        let suspension = &mut self.suspension;
        suspension.broken_files = if is_of_file { suspension.broken_files + 1 } else { 0 };
        if suspension.broken_files >= BROKEN_FILE_TRIES {
            return self.end(format!("The guest cannot be woken: {why}"));
        }
        self.events.push(Event::Note(format!("{name} is not woken yet: {why}")));
        let retry_ms = now_ms + (RETRY_MS << suspension.failures.min(DOUBLINGS_MAX));
        suspension.failures += 1;
        self.suspension.stage = Stage::OnDisk { is_wanted: true, retry_ms };
    }

    fn turn_saving(&mut self, saver: &mut Worker, now_ms: u64) {
        let (Some(running), Some(path)) = (&mut self.running, &self.config.park_file) else {
            return;
        };
        let (spec, pid) = (&self.config.spec, running.process.id());
        let is_free = saver.is_idle();
        let begin = |devices| {
            let saved = Saved::new(spec, path, pid, devices);
            Job::begin(saver, move |is_left: &AtomicBool| saved?.write(is_left))
        };
        // A wanted guest continues in its existing QEMU, because a new QEMU would serve the client
        // later.
        let is_wanted = self.suspension.is_wanted || self.suspension.client_came();
        let why = match running.parking.save(is_wanted, is_free, begin) {
            None => return,
            Some(SaveNews::Saved) => {
                self.kill(Next::Nothing);
                self.suspension.stage = Stage::OnDisk { is_wanted: false, retry_ms: 0 };
                self.suspension.alarm.was_parked(self.config.park.at_most_ms, now_ms);
                self.events.push(Event::Parked(self.place));
                return;
            }
            Some(SaveNews::Wanted) => None,
            Some(SaveNews::Failed(why)) => Some(why),
        };
        self.suspension.is_wanted = false;
        match running.is_not_saved(why, now_ms) {
            Ok(()) => self.flush_qmp(),
            Err(why) => self.end(chain(&why)),
        }
    }

    /// Completes the return of a guest from disk when QEMU runs. Returns true if QEMU was loading
    /// the guest's state.
    pub(super) fn has_resumed(&mut self, now_ms: u64) -> bool {
        let is_so = matches!(self.suspension.stage, Stage::Loading);
        if is_so {
            self.suspension.stage = Stage::Awake;
            (self.suspension.failures, self.suspension.broken_files) = (0, 0);
            if let Some(running) = &mut self.running {
                running.is_resumed = true;
                running.parking.clock.wakes(self.suspension.for_client_ms.take());
            }
            self.woken(now_ms);
        }
        is_so
    }

    /// Returns true if nothing may be sent to the guest, because its QEMU is stopped or is about to
    /// write the devices' state. The devices' state must not change any more.
    pub(super) fn is_left_alone(&self) -> bool {
        let is_on_its_way = |parking: &Parking| self.config.spec.suspends && parking.is_leaving();
        self.parking().is_some_and(|parking| parking.is_stopped() || is_on_its_way(parking))
    }

    /// Returns true if the guest was resumed from disk in a new QEMU.
    pub fn is_resumed(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_resumed)
    }

    /// Handles a reset of the guest's machine. A guest resumed from disk cannot boot, because its
    /// firmware was not restored. The guest starts again from its template.
    pub(super) fn was_reset(&mut self, now_ms: u64) {
        // A later start must not resume the state from before the reset.
        self.config.park_file.iter().for_each(|file| suspend::remove(file));
        if !self.is_resumed() {
            let work = self.pid().and_then(Work::of_process);
            if self.watch.is_firmwares_reset(now_ms, work) {
                return;
            }
            self.events.push(Event::Reset(self.place));
            // A user's own system may reboot for its own reasons.
            if self.state == State::Booting
                && self.config.spec.image.first_process == FirstProcess::Ours
                && let Some(reason) = self.watch.was_reset(self.console.kept())
            {
                self.end(reason);
            }
            return;
        }
        let name = &self.config.spec.name;
        let note =
            format!("{name} was reset while it was parked on disk: it starts from its template");
        self.events.push(Event::Hung { guest: self.place, note });
        self.kill(Next::Start);
    }

    /// Notes that QEMU listens on its monitor and its ports.
    pub(super) fn qemu_listens(&mut self) {
        if let Stage::Starting { is_ready } = &mut self.suspension.stage {
            *is_ready = true;
            return;
        }
        self.opens();
        self.send_state();
    }

    /// Admits clients to QEMU's ports, unless the guest is still on its way back.
    fn opens(&mut self) {
        if self.suspension.door.is_none() || self.is_away() {
            return;
        }
        if let Some(running) = &self.running {
            // QEMU's backlog holds one waiting client. The call enlarges the socket's backlog.
            let _ = running.sockets_at(&self.config.spec);
        }
        self.open_door();
    }

    fn open_door(&self) {
        let Some(door) = &self.suspension.door else { return };
        if let (Some(running), Some(net)) = (&self.running, &self.config.spec.net)
            // If there is no descriptor, QEMU has ended. A later turn handles this end.
            && let Ok(process) = running.process.descriptor()
        {
            let user = vm::user_of(running.process.id());
            door.open(Far::new(process, user, net.listens_at));
        }
    }

    fn woken(&mut self, now_ms: u64) {
        self.opens();
        if self.config.spec.suspends {
            // A new QEMU has no record of the messages that its predecessor exchanged with the
            // daemon.
            self.link.welcome();
        }
        // The guest's clock was stopped while the guest was parked.
        self.link.clock(images::time_of_day());
        match self.holder {
            Holder::Farm => {}
            Holder::Manager => self.leave_to_manager(),
            Holder::FarmWhenWoken => self.take_back(now_ms),
        }
        self.events.push(Event::Woken(self.place));
    }
}
