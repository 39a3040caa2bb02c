//! The daemon: waits, samples, decides, acts, and restores its changes at the end.

use crate::args::{Args, Pace};
use crate::balloon::BalloonFile;
use crate::clock::Clock;
use crate::config::{Extras, Loaded, load};
use crate::link::Link;
use crate::log::{Log, Topic};
use crate::look::Guest;
use crate::meet::{hello, listen, meet};
use crate::memory::MemoryReader;
use crate::notify::Notify;
use crate::pace::{Pacer, Past, Wake};
use crate::plug::{self, CmmPool, UndoRecord, boot_id};
use crate::pressure::Triggers;
use crate::rate::Rate;
use crate::scan::Scanner;
use crate::status::StatusFile;
use crate::sys::{self, Interest, Signal, Signals};
use crate::undo::Undo;
use crate::{alarm, capture, config, identity, machine};
use base::{Pages, chain};
use procfs::Root;
use std::os::fd::AsRawFd;
use std::time::Duration;
use wire::{Alarm, Grant, Identified, Identity, Pressure, Scan, ToGuest, ToHost, Welcome};

/// Time limit for the host to take the pool back at the end.
const FAREWELL_MS: u64 = 2_000;
/// A clock error below this value, in seconds, is not corrected.
const CLOCK_BEHIND_S: f64 = 0.1;
/// Maximum number of reports of each pressure per second. The reports show the host how long the
/// pressure lasts, and cost little compared with the waits in the guest.
const NEEDS_A_SECOND: usize = 5;

/// Text for the terminal about a failed start.
#[derive(Debug)]
pub struct Failed(pub String);

/// Files that scripts in this guest may read.
struct RunFiles {
    status: StatusFile,
    balloon: BalloonFile,
}

/// A running daemon.
pub struct Daemon {
    args: Args,
    root: Root,
    clock: Clock,
    log: Log,
    signals: Signals,
    notify: Notify,
    link: Option<Link>,
    triggers: Triggers,
    loaded: Loaded,
    guest: Guest,
    pacer: Pacer,
    files: RunFiles,
    memory_reader: MemoryReader,
    scanner: Scanner,
    /// Rate limits for reports of CPU pressure and of memory pressure.
    needs: [Rate<NEEDS_A_SECOND>; 2],
}

impl Daemon {
    /// Detects the manageable resources and loads the rules. Nothing is changed yet.
    pub fn prepare(args: Args, mut log: Log, signals: Signals) -> Result<Daemon, Failed> {
        let root = Root::at(&args.root);
        machine::check(&args).map_err(Failed)?;
        let clock = Clock::new();
        let mut link = match Link::open(&root, args.port.as_deref()) {
            Ok(link) => link,
            Err(error) if args.port.is_none() => {
                log.error(format_args!("The port to the host cannot be used: {error}"));
                None
            }
            Err(error) => return Err(Failed(format!("Cannot open the port to the host: {error}"))),
        };
        let cmm = CmmPool::find(&root);
        if let Some(open) = &mut link {
            meet(open, &clock, &root, cmm.is_some());
            if open.host.is_none() {
                log.info("The port to the host exists, but no host answers");
            }
        }
        let pool = cmm.is_some() || link.as_ref().is_some_and(Link::grants);
        let loaded = load(&args.config, &root, pool, extras(&link, &log), &log);
        let loaded = loaded.map_err(|refused| {
            if let Some(link) = link.as_mut().filter(|l| l.host.is_some()) {
                // The host got a hello, and must not treat this guest as managed.
                let _ = link.send(&ToHost::Bye);
            }
            Failed(refused.0.join("\n"))
        })?;
        for conflict in plug::conflicts(&root, std::process::id()) {
            log.info(format_args!("Warning: {conflict}"));
        }
        let guest = Guest::new(&root, cmm, &loaded, args.dry_run, &mut log)
            .map_err(|error| Failed(chain(&*error)))?;
        let pacer = pacer(&args, &loaded, &link, &clock);
        let status = StatusFile::new(&args.run_dir);
        let files = RunFiles { status, balloon: BalloonFile::new(&args.run_dir) };
        let triggers = Triggers::open(&root, args.pace, link.as_ref().and_then(|l| l.host));
        let notify = Notify::from_env();
        Ok(Daemon {
            args,
            root,
            clock,
            log,
            signals,
            notify,
            link,
            triggers,
            loaded,
            guest,
            pacer,
            files,
            memory_reader: MemoryReader::new(),
            scanner: Scanner::default(),
            needs: [Rate::new(), Rate::new()],
        })
    }

    /// Records the current state, and brings CPUs and pool into the bounds of the rules.
    pub fn start(&mut self) -> Result<(), Failed> {
        if !self.args.dry_run {
            self.remember().map_err(|error| Failed(chain(&error)))?;
        }
        // The rules were still unknown at the first hello.
        self.greet(true);
        self.keep_balloon();
        self.guest.start(&self.loaded.program, self.link.as_mut(), &mut self.log);
        Ok(())
    }

    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Adopts the undo record of an earlier daemon of this boot, which ended without restoring the
    /// state. Without such a record, records the current state.
    fn remember(&mut self) -> Result<(), plug::Error> {
        let path = self.args.run_dir.join("pinheadd.undo");
        let earlier = match UndoRecord::load(&self.root, &path) {
            Ok(earlier) => earlier,
            // A record from another boot is useless, and so is a broken record.
            Err(error) => {
                self.log.info(format_args!("{}; no earlier undo record is used", chain(&error)));
                None
            }
        };
        let record = match earlier {
            Some(record) => {
                self.log.info("An earlier daemon ended without restoring; its undo record is used");
                record
            }
            None => {
                UndoRecord { boot_id: boot_id(&self.root)?, cpus: self.guest.online()?, pool: None }
            }
        };
        self.guest.undo = Some(Undo::keep(record, path)?);
        Ok(())
    }

    /// Runs until a signal ends the daemon, and then restores the state found at the start.
    pub fn run(&mut self) -> std::io::Result<()> {
        self.notify.send("READY=1");
        self.log.info(format_args!(
            "Waiting {} intervals to accumulate history.",
            self.loaded.program.intervals
        ));
        loop {
            let now = self.clock.ms();
            if now >= self.pacer.next_ms() {
                self.look();
                continue;
            }
            let mut timeout = self.pacer.next_ms() - now;
            if let Some(watchdog) = self.notify.watchdog_ms() {
                timeout = timeout.min(watchdog);
                self.notify.send("WATCHDOG=1");
            }
            if self.wait(timeout)? {
                break;
            }
        }
        self.end();
        Ok(())
    }

    /// Waits for the next event. Returns true if the daemon must end.
    fn wait(&mut self, timeout_ms: u64) -> std::io::Result<bool> {
        let signals = Some((self.signals.as_raw_fd(), Interest::Input));
        let port = self.link.as_ref().filter(|l| !l.closed);
        let port = port.map(|l| (l.as_raw_fd(), l.interest()));
        let [cpu, memory] = self.triggers.files();
        let [signal, host, cpu, memory] = sys::wait([signals, port, cpu, memory], timeout_ms)?;
        if signal.ready {
            while let Some(signal) = self.signals.next() {
                match signal {
                    Signal::End => return Ok(true),
                    Signal::Reload => self.reload(),
                    Signal::Port => self.find_host(),
                }
            }
        }
        if let Some(link) = self.link.as_mut().filter(|_| host.writable) {
            link.settle();
        }
        if host.ready {
            self.receive();
        } else if host.closed {
            self.lose_host("the host closed the port");
        }
        for (seen, pressure) in [(cpu, Pressure::Cpu), (memory, Pressure::Memory)] {
            if seen.closed {
                // A failed trigger would fail at every poll.
                self.triggers.close(pressure);
            } else if seen.ready {
                self.need(pressure);
            }
        }
        Ok(false)
    }

    /// Checks if a host has opened a port that was closed. The check happens at once if the port
    /// signals the change, and otherwise with the next sample.
    fn find_host(&mut self) {
        let Some(link) = self.link.as_mut().filter(|l| l.closed) else { return };
        let seen = sys::wait([Some((link.as_raw_fd(), Interest::Input))], 0);
        if seen.is_ok_and(|[seen]| !seen.closed) {
            link.reopened();
            self.greet(false);
        }
    }

    /// Sends a hello. If the presence of a host `is_known`, the hello is sent only to a host that
    /// is present.
    fn greet(&mut self, is_known: bool) {
        if let Some(link) = self.link.as_mut().filter(|l| !is_known || l.host.is_some()) {
            let hello = hello(&self.root, &self.guest, &self.loaded, is_known);
            link.answer(ToHost::Hello(hello));
        }
    }

    fn look(&mut self) {
        self.find_host();
        let now = self.clock.ms();
        self.scanner.rest(now);
        let epoch_s = self.clock.epoch_s();
        let Daemon { guest, loaded, link, log, .. } = self;
        let outcome = guest.look(loaded, link.as_mut(), log, epoch_s);
        self.pacer.looked(outcome, now);
        // The settled flag is part of the status, so the status is reported last.
        self.report_status();
    }

    fn report_status(&mut self) {
        let tally = self.guest.tally(self.pacer.is_settled());
        if let Err(error) = self.files.status.write(&tally.summary) {
            self.log.error_once(Topic::Status, error);
        }
        if let Some(link) = self.link.as_mut().filter(|l| l.host.is_some() && !l.closed) {
            // If a full port loses this status, the next status repeats its values.
            let _ = link.send(&ToHost::Status(tally.status()));
        }
    }

    fn receive(&mut self) {
        let Some(link) = &mut self.link else { return };
        if let Err(error) = link.receive() {
            return self.lose_host(&error.to_string());
        }
        while let Some(message) = self.link.as_mut().and_then(Link::next) {
            self.handle(message);
        }
    }

    fn handle(&mut self, message: ToGuest) {
        match message {
            ToGuest::Look => self.woken(Wake::Host),
            ToGuest::Grant(grant) => self.granted(grant),
            ToGuest::Sample(sample) => {
                if self.memory_reader.answers(self.clock.ms()) {
                    self.report_memory(sample.sequence);
                }
                // A daemon that looks every second does so now, instead of waking again for it.
                if !self.pacer.is_settled() {
                    self.woken(Wake::Host);
                }
            }
            ToGuest::Scan(scan) => self.report_tasks(scan),
            ToGuest::Welcome(welcome) => self.welcomed(welcome),
            ToGuest::AtHost(host) => {
                if let Some(link) = &mut self.link {
                    link.is_at(host.name);
                }
            }
            ToGuest::Capture(request) => {
                if let Some(link) = &mut self.link {
                    capture::answer(&self.root, &self.loaded, request, link);
                }
            }
            ToGuest::AskAlarm(question) => {
                if let Some(link) = &mut self.link {
                    let in_ms = alarm::next_ms(&self.root, self.clock.epoch_s());
                    link.answer(ToHost::Alarm(Alarm { sequence: question.sequence, in_ms }));
                }
            }
            ToGuest::Identify(identity) => self.become_this_guest(&identity),
            ToGuest::Clock(time) => self.set_clock(time),
        }
    }

    /// Sets the clock forward after a stop of the vCPUs, because the guest cannot measure the stop.
    /// The clock is never set back, because a delayed message contains a past time.
    fn set_clock(&mut self, time: Duration) {
        if time.as_secs_f64() - self.clock.epoch_s() < CLOCK_BEHIND_S {
            return;
        }
        if let Err(error) = sys::set_clock(time) {
            self.log.error(format_args!("Cannot set the clock: {error}"));
        }
    }

    fn welcomed(&mut self, welcome: Welcome) {
        let Some(link) = &mut self.link else { return };
        self.scanner.forget();
        let before = link.grants();
        if link.host.replace(welcome).is_none() {
            self.log.info("The host's manager is connected");
        }
        let regained = link.grants() != before;
        self.greet(true);
        self.pacer.set_hosted(welcome.paces, self.clock.ms());
        self.triggers = Triggers::open(&self.root, self.args.pace, Some(welcome));
        if regained {
            // The compiled rules depend on whether the host grants memory.
            self.reload();
        }
    }

    /// Reports this guest's tasks to the host, unless the host requests them too often. If a full
    /// port loses a part, the host requests the whole report again.
    fn report_tasks(&mut self, scan: Scan) {
        let Some(link) = &mut self.link else { return };
        if self.scanner.answers(self.clock.ms()) {
            let (system, parts) = self.scanner.scan(&self.root, scan, &self.clock);
            let _ = link.send(&ToHost::System(system));
            let _ = parts.into_iter().try_for_each(|p| link.send(&ToHost::Processes(p)));
        }
    }

    fn become_this_guest(&mut self, identity: &Identity) {
        let Some(link) = &mut self.link else { return };
        let taken = identity::take_on(&self.root, identity);
        if let (Ok(()), Some(undo)) = (&taken, self.guest.undo.as_mut()) {
            // This guest must still restore the state that was found at the start.
            let moved = boot_id(&self.root).and_then(|boot| undo.move_to(boot));
            moved.unwrap_or_else(|error| self.log.error(chain(&error)));
        }
        let refusal = taken.err().unwrap_or_default();
        if !refusal.is_empty() {
            self.log.error(format_args!("Cannot adopt the identity {}: {refusal}", identity.name));
        }
        link.answer(ToHost::Identified(Identified { refusal }));
    }

    fn granted(&mut self, grant: Grant) {
        if let Some(link) = &mut self.link {
            link.balloon.granted(&grant);
        }
        if grant.sequence == 0 {
            self.guest.balloon_is_set(Some(Pages(grant.pages)));
        }
        if !grant.reason.is_empty() {
            let line = format_args!("The host granted {} pages: {}", grant.pages, grant.reason);
            self.log.debug(line);
        }
        self.keep_balloon();
    }

    /// Writes the host's last grant to a file for users of this guest.
    fn keep_balloon(&mut self) {
        let Some(link) = &mut self.link else { return };
        let Some(grant) = link.balloon.last_grant.take() else { return };
        let memory = link.host.map(|host| Pages(host.memory_pages));
        if let Err(error) = self.files.balloon.write(grant, memory, self.clock.epoch_s()) {
            self.log.error_once(Topic::Status, error);
        }
    }

    /// Reports the memory to the host. If a full port loses the answer, the next answer repeats its
    /// values.
    fn report_memory(&mut self, sequence: u32) {
        let Some(link) = self.link.as_mut().filter(|l| !l.closed) else { return };
        let memory = self.memory_reader.memory(&self.root, sequence, self.clock.uptime_ms());
        let _ = link.send(&ToHost::Memory(memory));
    }

    fn woken(&mut self, wake: Wake) {
        let now = self.clock.ms();
        if self.pacer.wake(wake, now) == Past::Forget {
            self.guest.forget();
        }
    }

    fn need(&mut self, pressure: Pressure) {
        // The host is informed first, because it can grant memory.
        let now = self.clock.ms();
        if let Some(link) = self.link.as_mut().filter(|l| l.host.is_some())
            && self.needs[pressure as usize].take(now)
        {
            let _ = link.send(&ToHost::Need(pressure));
            if pressure == Pressure::Memory {
                self.report_memory(0);
            }
        }
        self.woken(Wake::Pressure);
    }

    fn lose_host(&mut self, why: &str) {
        if let Some(link) = &mut self.link {
            link.lost();
        }
        self.guest.balloon_is_set(None);
        self.log.info(format_args!("The host's manager is gone ({why}); waiting for the next"));
        self.pacer.set_hosted(false, self.clock.ms());
        // Without a host, only triggers can notice that the guest's CPUs run.
        self.triggers = Triggers::open(&self.root, self.args.pace, None);
    }

    fn reload(&mut self) {
        self.notify.send("RELOADING=1");
        let pool = self.guest.has_cmm() || self.link.as_ref().is_some_and(Link::grants);
        let extras = extras(&self.link, &self.log);
        match load(&self.args.config, &self.root, pool, extras, &self.log) {
            Ok(loaded) => match self.guest.renew(&self.root, &loaded) {
                Ok(()) => {
                    self.loaded = loaded;
                    self.pacer = pacer(&self.args, &self.loaded, &self.link, &self.clock);
                    self.log.info("The rules were read again");
                    self.greet(true);
                    let Daemon { guest, loaded, link, log, .. } = self;
                    guest.start(&loaded.program, link.as_mut(), log);
                }
                Err(error) => {
                    self.log.error(format_args!("{}; the old rules stay in force", chain(&*error)));
                }
            },
            Err(config::Refused(errors)) => {
                errors.iter().for_each(|line| self.log.error(line));
                self.log.error("The new rules are not used: the old rules stay in force");
            }
        }
        self.notify.send("READY=1");
    }

    fn end(&mut self) {
        self.notify.send("STOPPING=1");
        self.log.info("shutting down");
        self.files.status.remove();
        self.files.balloon.remove();
        if let Some(undo) = self.guest.undo.take() {
            self.put_back(&undo);
        }
        if let Some(link) = self.link.as_mut().filter(|l| l.host.is_some()) {
            let _ = link.send(&ToHost::Bye);
        }
    }

    fn put_back(&mut self, undo: &Undo) {
        let (mut errors, mut pool_is_owed) = self.guest.restore(undo, self.link.as_mut());
        let asked = undo.record.pool.is_some() && !self.guest.has_cmm();
        if let Some(link) = self.link.as_mut().filter(|l| asked && l.grants()) {
            let deadline = self.clock.ms() + FAREWELL_MS;
            listen(link, &self.clock, deadline, |link| link.balloon.is_answered());
            pool_is_owed = !link.balloon.is_answered();
        }
        if pool_is_owed {
            self.log.error("No host took the pool back: the next start of pinheadd tries again");
        } else if errors.is_empty() {
            errors.extend(undo.forget().err());
        }
        errors.iter().for_each(|error| self.log.error(chain(error)));
    }
}

fn extras(link: &Option<Link>, log: &Log) -> Extras {
    Extras { status: link.is_some(), intervals: log.shows_intervals() }
}

fn pacer(args: &Args, loaded: &Loaded, link: &Option<Link>, clock: &Clock) -> Pacer {
    let (now, program) = (clock.ms(), &loaded.program);
    let mut pacer = Pacer::new(args.pace, program.update, program.intervals, now);
    let paces = link.as_ref().and_then(|l| l.host).is_some_and(|h| h.paces);
    pacer.set_hosted(paces && args.pace == Pace::Host, now);
    pacer
}
