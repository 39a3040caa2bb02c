//! Real guests for the end-to-end tests: booted in QEMU, driven through a shell on a control port,
//! observed by a real fleet.
//!
//! Every wait ends when a condition holds, or at a deadline. A failed test prints the guest's
//! console.

#![forbid(unsafe_code)]

pub mod browser;
pub mod engines;
pub mod farms;
pub mod kvm_host;
pub mod libvirtd;
pub mod load;
pub mod manager;
pub mod pages;
mod share;
pub mod terminal;

pub use share::{Share, alone, share};

use farm::fleet::{Fleet, State, Tally};
use procfs::parse::schedstat;
use reactor::PollFlags;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use vm::images::{Arch, Cache, GuestFile, ImageSpec};
use vm::{Clones, Ctl, Deadline, GuestSpec, Scratch, Template, probe_kvm, wait_for_exit};
use wire::{Memory, Status};

/// Timeout of a boot. Under emulation on a busy machine, a boot may take many times its usual five
/// seconds.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Maximum number of guests that boot at the same time, because the machine has two cores.
const BOOTS: usize = 3;

/// Memory of a guest of [`Plan::managed`], in MiB.
pub const MANAGED_MIB: u64 = 384;

/// Pause between two polls. A poll starts a process on the host or in a guest, and many tests poll
/// at the same time.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Rules that never change anything, so that only the manager makes changes.
pub const HOLDING: &str = "UPDATE=\"1\"\nCPU_MIN=\"1\"\nCPU_MAX=\"0\"\nHOTPLUG=\"0\"\n\
                           HOTUNPLUG=\"0\"\nCMM_MIN=\"0\"\nCMM_MAX=\"300000\"\nCMM_INC=\"256\"\n\
                           MEMPLUG=\"0\"\nMEMUNPLUG=\"0\"\n";

/// Kernel argument that keeps the modules of compressed memory loaded, with a little swap, for
/// [`Guest::fill_cache`].
pub const HAS_ZRAM: &str = "pinhead.zram_mib=4";

/// A guest's state as seen by its host.
#[derive(Clone, Debug)]
pub struct Seen {
    /// State: booting, up, ended.
    pub state: State,
    /// Last status reported by the daemon.
    pub status: Option<Status>,
    /// Counts of the daemon's actions so far.
    pub tally: Tally,
    /// Last memory report.
    pub memory: Option<Memory>,
    /// Number of times that the daemon reported that tasks wait for memory.
    pub needs: u64,
    /// Number of requests to the daemon for a sample. A request is sent because the guest's virtual
    /// CPUs have run.
    pub looks_asked: u64,
    /// QEMU process of the guest.
    pub pid: Option<u32>,
    /// Number of invalid bytes on the port, and number of times that the port exceeded its budget
    /// of bytes.
    pub misbehaviour: (u64, u64),
    /// CPU time of the fleet's thread so far.
    pub host_cpu: Duration,
    console: String,
}

#[derive(Default)]
struct Shared {
    seen: Vec<Seen>,
    ctl: Vec<Option<UnixStream>>,
    requests: Vec<Request>,
}

type Request = Box<dyn FnOnce(&mut Fleet) + Send>;

/// A fleet with its thread.
pub struct Host {
    _share: Share,
    shared: Arc<(Mutex<Shared>, Condvar)>,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// A guest of a host, with a shell.
pub struct Guest<'a> {
    host: &'a Host,
    index: usize,
    shell: Ctl,
}

/// Configuration of a guest.
pub struct Plan {
    /// Architecture.
    pub arch: Arch,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Command line of the daemon; `None` for a guest without a daemon.
    pub daemon: Option<&'static str>,
    /// Rules file, at /etc/pinhead.conf.
    pub rules: String,
    /// Additional files.
    pub files: Vec<GuestFile>,
    /// Additional kernel arguments.
    pub kernel_args: Vec<String>,
    /// Directory for sockets that other processes may connect to.
    pub run_dir: Option<PathBuf>,
    /// True if the guest resumes a copy of a booted guest's state.
    pub restored: bool,
    /// True if the guest's driver reports free pages to its host.
    pub page_reporting: bool,
}

impl Plan {
    /// Returns a guest of four CPUs with the default preset.
    pub fn new(arch: Arch, daemon: &'static str) -> Plan {
        let rules = rules::preset("default").map(|preset| preset.text()).unwrap_or_default();
        Plan {
            arch,
            cpus: 4,
            memory_mib: 256,
            daemon: Some(daemon),
            rules,
            files: Vec::new(),
            kernel_args: Vec::new(),
            run_dir: None,
            restored: false,
            page_reporting: true,
        }
    }

    /// Returns a guest of one CPU for a manager, with sockets in this directory and the rules
    /// [`HOLDING`].
    pub fn holding(dir: &Path) -> Plan {
        Plan {
            cpus: 1,
            rules: HOLDING.into(),
            run_dir: Some(dir.to_path_buf()),
            ..Plan::new(Arch::X86_64, "-f -c /etc/pinhead.conf --pace host")
        }
    }

    /// Returns a guest with 384 MiB, the rules [`HOLDING`] and room for [`Guest::fill_cache`]. All
    /// such guests resume one saved state, so they need not boot.
    pub fn managed(dir: &Path) -> Plan {
        Plan {
            memory_mib: MANAGED_MIB,
            kernel_args: vec![HAS_ZRAM.into()],
            restored: true,
            ..Plan::holding(dir)
        }
    }
}

/// Returns the program under test, as built by `make build`. The path comes from the environment,
/// so that no test runs a stale build by accident.
pub fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| given("PINHEAD_PROGRAM"));
    &PROGRAM
}

/// Returns the directory of the guests' daemons, as built by `make build`.
pub fn daemon_dir() -> PathBuf {
    given("PINHEAD_GUEST_DIR").into()
}

/// Makes a directory for a test's files.
pub fn scratch(name: &str) -> Scratch {
    Scratch::new(&format!("e2e-{name}")).unwrap_or_else(|e| panic!("a directory: {e}"))
}

/// Returns the deadline of a step of a test.
pub fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

/// Returns true if a program is on the path.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Reports that a test is skipped, with the reason.
pub fn skipped(reason: &str) {
    base::skipped!("{reason}");
}

/// Reports that a test is skipped because a program is not installed.
pub fn skipped_without(program: &str) {
    skipped(&format!("there is no {program}; `scripts/setup test` installs it"));
}

/// Returns a shell line that writes a file, for shells that take one line at a time.
pub fn line_that_writes(path: &str, text: &str) -> String {
    let quoted = text.replace('\\', "\\\\").replace('\'', "\\047").replace('%', "%%");
    format!("printf '{}' > {path}", quoted.replace('\n', "\\n"))
}

fn given(variable: &str) -> String {
    let path = std::env::var(variable).unwrap_or_default();
    let is_there = std::path::Path::new(&path).exists();
    assert!(
        is_there,
        "{variable} is {path:?}, where nothing is: run `make test` or `make test-kvm`"
    );
    path
}

impl Host {
    /// Starts guests. Other tests may have guests at the same time.
    pub fn start(plans: &[Plan]) -> Host {
        Host::start_with(plans, share(plans.len()))
    }

    /// Starts guests while no other test of this program has guests.
    pub fn start_alone(plans: &[Plan]) -> Host {
        Host::start_with(plans, alone())
    }

    fn start_with(plans: &[Plan], share: Share) -> Host {
        let cache = Cache::from_environment().unwrap_or_else(|e| panic!("{e}"));
        let specs = plans.iter().enumerate().map(|(n, plan)| spec(n, plan, &cache)).collect();
        let fleet = Fleet::new(specs, plans.len().min(BOOTS));
        let shared = Arc::new((Mutex::new(Shared::default()), Condvar::new()));
        let (stop, stopped) = UnixStream::pair().unwrap_or_else(|e| panic!("{e}"));
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || run(fleet, &theirs, &stopped));
        Host { _share: share, shared, stop, thread: Some(thread) }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a guest's present state.
    pub fn seen(&self, index: usize) -> Seen {
        self.lock().seen.get(index).cloned().unwrap_or_else(|| panic!("no guest {index} yet"))
    }

    fn ask(&self, request: impl FnOnce(&mut Fleet) + Send + 'static) {
        self.lock().requests.push(Box::new(request));
    }

    /// Requests a memory report from a guest. The response has this sequence number.
    pub fn sample(&self, index: usize, sequence: u32) {
        self.ask(move |fleet| fleet.sample(index, sequence));
    }

    /// Yields the guests to a manager.
    pub fn yield_to_manager(&self) {
        self.ask(Fleet::yield_to_other_manager);
    }

    /// Takes the guests back from their manager.
    pub fn take_back(&self) {
        self.ask(Fleet::take_back);
    }

    /// Waits until a condition holds for a guest, and returns how long that took. A timeout fails
    /// with the guest's last state.
    pub fn until(
        &self,
        index: usize,
        what: &str,
        limit: Duration,
        so: impl Fn(&Seen) -> bool,
    ) -> Duration {
        let deadline = Deadline::after(limit);
        let mut shared = self.lock();
        loop {
            if shared.seen.get(index).is_some_and(&so) {
                return deadline.elapsed();
            }
            let Some(left) = deadline.remaining() else {
                let seen = shared.seen.get(index);
                let console = seen.map_or("", |s| s.console.as_str());
                panic!(
                    "not within {limit:?}: {what}\n{:#?}\n--- console\n{console}",
                    seen.map(|s| (&s.state, &s.status, &s.tally, s.misbehaviour))
                );
            };
            let waited = self.shared.1.wait_timeout(shared, left);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns a guest's shell, once the guest has booted.
    pub fn guest(&self, index: usize) -> Guest<'_> {
        // A guest that resumes a saved state prints nothing to its console.
        let is_up = |seen: &Seen| seen.console.contains(" is up") || seen.state.is_up();
        self.until(index, "the guest is up", PATIENCE, is_up);
        let ctl = self.lock().ctl.get_mut(index).and_then(Option::take);
        let stream = ctl.unwrap_or_else(|| panic!("guest {index} has no control port left"));
        Guest { host: self, index, shell: Ctl::new(stream) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.stop.write_all(b"x");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if std::thread::panicking() {
            for seen in &self.lock().seen {
                eprintln!("--- {:?} {:?}\n{}", seen.state, seen.status, seen.console);
            }
        }
    }
}

fn spec(number: usize, plan: &Plan, cache: &Cache) -> GuestSpec {
    let daemon = daemon_dir().join(plan.arch.name()).join("pinheadd");
    assert!(daemon.is_file(), "no {}: `make test` makes it", daemon.display());
    let mut files = plan.files.clone();
    files.push(GuestFile::text("/etc/pinhead.conf", &plan.rules));
    // A guest that starts its daemon later gets `-v`: its daemon only prints the version at boot.
    files.push(GuestFile::text("/etc/pinheadd.args", plan.daemon.unwrap_or("-v")));
    let image = ImageSpec { arch: plan.arch, daemon: Some(daemon), files }.build(cache);
    let mut spec = GuestSpec {
        cpus: plan.cpus,
        memory_mib: plan.memory_mib,
        kernel_args: plan.kernel_args.clone(),
        run_dir: plan.run_dir.clone(),
        page_reporting: plan.page_reporting,
        ..GuestSpec::new(
            format!("g{}", number + 1),
            image.unwrap_or_else(|e| panic!("{e}")),
            probe_kvm(plan.arch),
        )
    };
    if plan.restored {
        let made = Template::make(&spec, Clones::Copy, cache, Deadline::after(PATIENCE));
        spec.restore = Some(made.unwrap_or_else(|e| panic!("{e}")));
    }
    spec
}

fn run(mut fleet: Fleet, shared: &(Mutex<Shared>, Condvar), stopped: &UnixStream) {
    loop {
        let until_ms = fleet.now_ms() + 100;
        let mut others = reactor::PollSet::new();
        others.owner(farm::fleet::owner::OTHERS).add(0, stopped.as_fd(), PollFlags::IN);
        let turn = fleet.turn(others, until_ms);
        let (ready, _) = turn.unwrap_or_else(|e| panic!("{e}"));
        if ready.has(farm::fleet::owner::OTHERS) {
            return;
        }
        let mut shared_now = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        for request in shared_now.requests.drain(..) {
            request(&mut fleet);
        }
        for index in 0..fleet.members().len() {
            if shared_now.ctl.len() <= index {
                shared_now.ctl.push(None);
            }
            if let Some(ctl) = fleet.take_ctl(index) {
                shared_now.ctl[index] = Some(ctl);
            }
        }
        shared_now.seen = fleet
            .members()
            .iter()
            .map(|member| {
                let (dropped, floods) = member.misbehaviour();
                Seen {
                    state: member.state().clone(),
                    status: member.status().cloned(),
                    tally: *member.tally(),
                    memory: member.agent().last_sample().copied(),
                    needs: member.agent().memory_needs(),
                    looks_asked: member.agent().asked.looks,
                    pid: member.pid(),
                    misbehaviour: (dropped.bytes, floods),
                    host_cpu: own_cpu_time(),
                    console: String::from_utf8_lossy(member.console()).into_owned(),
                }
            })
            .collect();
        drop(shared_now);
        shared.1.notify_all();
    }
}

fn own_cpu_time() -> Duration {
    let text = std::fs::read("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(schedstat::parse(&text).map_or(0, |ran| ran.run_ns))
}

impl Guest<'_> {
    /// Runs one line in the guest's shell, and returns its output.
    pub fn sh(&mut self, line: &str) -> String {
        let outcome = self.shell.succeed(line, Deadline::after(PATIENCE));
        outcome.unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// Runs a line that prints a number, and returns the number.
    pub fn number(&mut self, line: &str) -> u64 {
        let text = self.sh(line);
        text.trim().parse().unwrap_or_else(|e| panic!("{line}: {text:?}: {e}"))
    }

    /// Returns the number of online CPUs, as the guest reports it.
    pub fn online(&mut self) -> u64 {
        self.number("grep -c ^processor /proc/cpuinfo || grep -c ^cpu[0-9] /proc/stat")
    }

    /// Waits until the daemon's last status satisfies a condition.
    pub fn until(&self, what: &str, limit: Duration, so: impl Fn(&Status) -> bool) -> Duration {
        self.host.until(self.index, what, limit, |seen| seen.status.as_ref().is_some_and(&so))
    }

    /// Waits until the daemon's status satisfies a condition, for at most this many of the daemon's
    /// samples. The limit is not a time, because a busy host delays the guest's timer.
    pub fn until_looked(&self, what: &str, looks: u32, so: impl Fn(&Status) -> bool) -> u32 {
        let sequence = || self.seen().status.map_or(0, |s| s.sequence);
        let first = sequence();
        self.until(what, PATIENCE, |s| so(s) || s.sequence.saturating_sub(first) > looks);
        let last = self.seen().status.unwrap_or_default();
        let took = last.sequence.saturating_sub(first);
        assert!(took <= looks, "not within {looks} samples: {what}: {last:#?}");
        took
    }

    /// Returns the guest's present state.
    pub fn seen(&self) -> Seen {
        self.host.seen(self.index)
    }

    /// Waits until a command of the guest prints the wanted output. Each try runs the command
    /// again. The pause between two tries is on the host, so it needs no process in the guest.
    pub fn until_sh(&mut self, line: &str, limit: Duration, so: impl Fn(&str) -> bool) -> Duration {
        let deadline = Deadline::after(limit);
        loop {
            let text = self.sh(line);
            if so(text.trim()) {
                return deadline.elapsed();
            }
            assert!(deadline.remaining().is_some(), "not within {limit:?}: {line}: {text}");
            let _ = wait_for_exit(std::process::id(), LOOK);
        }
    }
}
