//! `pinhead explain`: every value that a rules file sees, and the daemon's decision.

mod explained;
mod host_rules;

use crate::args::ExplainArgs;
use crate::farm_cmds::{self, At};
use crate::rulesfile;
use crate::waiting::Waiting;
use crate::{Error, ManageError, RulesError, check, machine};
use base::Pages;
use farm::service;
use manager::control::{self, Answer, Ask, Captured, POOL};
use model::counters::History;
use pinheadd::plug::{CmmPool, CpuSet, Cpus, Pool, without};
use policy::guest::{self, CpuAction, Resources};
use procfs::{Reader, Root};
use rules::{Fault, FileKind, Program};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vm::Scratch;

pub use explained::Explained;
pub use host_rules::{Snapshot, explain_host};

/// Reads as many snapshots as the rules' history needs, and evaluates all rules.
pub fn run(args: &ExplainArgs) -> Result<Explained, Error> {
    let rules = rulesfile::read(&args.file)?;
    if args.values.is_some() || rules::host::recognise(&rules.text) == FileKind::Host {
        return host_rules::run(rules, args);
    }
    let (file, mut found) = rules::parse(&rules.text);
    let trees = Trees::open(args)?;
    let machine = machine::of(&trees.first())?;
    let (program, more) = rules::compile(&file, &machine);
    found.extend(more);
    let Some(program) = program.filter(|_| !rules::has_errors(&found)) else {
        return Err(RulesError::Faults(check::errors(rules, found)).into());
    };
    let (history, root, seen) = gather(&program, &trees, args.interval)?;
    let explanation = rules::explain(&file, &program, &machine, &history);
    let resources = resources(&root);
    let verdicts = verdicts(&program, &history, resources, &Cpus::new(&root));
    Ok(Explained { rules, explanation, counters: Vec::new(), verdicts, seen })
}

enum Trees {
    /// The machine itself, read at intervals.
    Live(Root),
    /// One captured tree, which is the same in every sample.
    Still(Root),
    /// Captured trees, oldest first.
    Series(Vec<PathBuf>),
    /// A running guest. Each sample is a tree of its own.
    Guest { guest: Guest, dir: Scratch },
}

struct Guest {
    name: String,
    /// Place of the guest in a farm, if a farm has the guest.
    at: Option<At>,
    /// Manager's socket, if it is not the default.
    socket: Option<PathBuf>,
}

impl Trees {
    fn open(args: &ExplainArgs) -> Result<Trees, Error> {
        if let Some(name) = &args.guest {
            let dir = Scratch::new("explain")
                .map_err(|e| Error::step("Cannot create a temporary directory", e))?;
            let found = farm_cmds::guest(name);
            let (at, error) = found.map_or_else(|error| (None, Some(error)), |at| (Some(at), None));
            let guest = Guest { name: name.to_owned(), at, socket: args.socket.clone() };
            // If no manager has such a guest either, the farms' error is more helpful.
            fetch(&guest, &dir.join("0")).map_err(|own| error.unwrap_or(own))?;
            return Ok(Trees::Guest { guest, dir });
        }
        let Some(root) = &args.root else { return Ok(Trees::Live(Root::default())) };
        if root.join("proc").is_dir() {
            return Ok(Trees::Still(Root::at(root)));
        }
        let series: Vec<PathBuf> = (0..)
            .map(|n| root.join(n.to_string()))
            .take_while(|d| d.join("proc").is_dir())
            .collect();
        if series.is_empty() {
            return Err(RulesError::NoTree { root: root.clone() }.into());
        }
        Ok(Trees::Series(series))
    }

    /// Returns the tree that describes the machine.
    fn first(&self) -> Root {
        match self {
            Trees::Live(root) | Trees::Still(root) => root.clone(),
            Trees::Series(all) => Root::at(&all[0]),
            Trees::Guest { dir, .. } => Root::at(dir.join("0")),
        }
    }

    /// Returns the tree for one of several samples. Returns `None` if the tree is the same as for
    /// the previous sample.
    fn next(&self, look: usize, looks: usize) -> Result<Option<Root>, Error> {
        match self {
            Trees::Live(_) | Trees::Still(_) => Ok(None),
            Trees::Series(all) => Ok(Some(Root::at(&all[all.len() - looks + look]))),
            Trees::Guest { .. } if look == 0 => Ok(None),
            Trees::Guest { guest, dir } => {
                let dir = dir.join(look.to_string());
                fetch(guest, &dir)?;
                Ok(Some(Root::at(dir)))
            }
        }
    }

    /// Describes the source of the values for the user.
    fn seen(&self, looks: usize, pause: Duration) -> String {
        match self {
            Trees::Live(_) => {
                format!("this machine, {looks} samples, {} ms apart", pause.as_millis())
            }
            Trees::Still(root) => {
                let root = root.path().display();
                format!("{root}, a single tree, so nothing changes between two samples")
            }
            Trees::Series(all) => {
                let newest = all.last().map(|dir| dir.display().to_string()).unwrap_or_default();
                format!("{newest} and the trees before it, {looks} in total")
            }
            Trees::Guest { guest, .. } => {
                let name = guest.at.as_ref().map_or(&guest.name, |at| &at.guest);
                format!("guest {}, {looks} samples", base::plain(name, 64))
            }
        }
    }
}

impl Guest {
    /// Requests the guest's files from its farm. A request to a manager names the guest by the path
    /// of its monitor, which is unique.
    fn capture(&self) -> Result<Captured, Error> {
        let of_manager = |guest: String| {
            control::ask_manager(self.socket.as_deref(), &Ask::Capture { guest })
                .map_err(Error::Control)
        };
        let answer = match &self.at {
            None => of_manager(self.name.clone())?,
            Some(At { socket, guest }) => {
                let monitor = socket.with_file_name(format!("{guest}.qmp"));
                let ask = Ask::Capture { guest: guest.clone() };
                service::ask(socket, &ask)
                    .or_else(|error| of_manager(monitor.display().to_string()).map_err(|_| error))?
            }
        };
        match answer {
            Answer::Capture(captured) => Ok(captured),
            _ => Err(ManageError::OtherAnswer.into()),
        }
    }
}

/// Writes the files of a running guest as a tree.
fn fetch(guest: &Guest, dir: &Path) -> Result<(), Error> {
    let Captured { files } = guest.capture()?;
    // File names come only from this program's own table, never from the socket.
    let names = wire::File::ALL.iter().filter_map(|file| file.path());
    for name in names.chain([POOL]) {
        let Some(text) = files.get(name) else { continue };
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| Error::read(&path, e))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the time of a sample is the value of `time`")]
fn epoch_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn gather(
    program: &Program,
    trees: &Trees,
    interval_ms: Option<u64>,
) -> Result<(History, Root, String), Error> {
    let mut history = History::new(program.counters.len(), program.intervals);
    let looks = program.intervals + 1;
    if let Trees::Series(all) = trees
        && all.len() < looks
    {
        return Err(RulesError::FewTrees { looks, found: all.len() }.into());
    }
    let pause = Duration::from_millis(interval_ms.unwrap_or(program.update * 1000));
    let is_live = matches!(trees, Trees::Live(_) | Trees::Guest { .. });
    let mut root = trees.first();
    let mut reader = Reader::open(&root, &program.counters)?;
    let pauses = u32::try_from(program.intervals).unwrap_or(u32::MAX);
    let mut waiting = Waiting::new("reading counters".to_owned(), pause.saturating_mul(pauses));
    for look in 0..looks {
        if is_live && look > 0 {
            waiting.wait(pause);
        }
        if let Some(next) = trees.next(look, looks)? {
            root = next;
            reader = Reader::open(&root, &program.counters)?;
        }
        let at_s = if is_live { epoch_s() } else { look as f64 * program.update as f64 };
        reader.read(at_s, history.advance())?;
    }
    Ok((history, root, trees.seen(looks, pause)))
}

fn resources(root: &Root) -> Resources {
    let cpus = Cpus::new(root);
    let isolated = cpus.isolated();
    let count = |cpus: CpuSet| without(&cpus, &isolated).len() as u32;
    let counts = cpus.online().ok().zip(cpus.present().ok());
    let pool = CmmPool::find(root).and_then(|mut cmm| cmm.size().ok());
    Resources {
        // A machine with vertical CPU polarization does not allow plugging.
        cpus: counts.filter(|_| cpus.polarization().allows_plugging()).map(|(online, present)| {
            guest::Cpus { online: count(online), present: count(present) }
        }),
        // A guest without a pool of its own requests pages of the host's pool, starting at 0.
        pool: Some(pool.unwrap_or(Pages(0))),
    }
}

fn verdicts(
    program: &Program,
    history: &History,
    resources: Resources,
    cpus: &Cpus,
) -> Vec<String> {
    let guest::GuestDecision { cpu, memory, .. } = guest::step(program, history, resources);
    let obstacle = match cpu {
        Some(Ok(decision)) => match decision.action {
            CpuAction::Plug => cpus.why_no_plug(),
            CpuAction::Unplug => cpus.why_no_unplug(),
            CpuAction::Hold => None,
        },
        _ => None,
    };
    let but = obstacle.map_or(String::new(), |why| format!(", but {why}"));
    vec![
        verdict(
            "CPU",
            cpu,
            "unchanged: this file has no CPU rules, or this machine does not allow CPU changes",
        ) + &but,
        verdict("Memory", memory, "not managed by this file"),
    ]
}

fn verdict<T: Display>(what: &str, decided: Option<Result<T, Fault>>, without: &str) -> String {
    match decided {
        Some(Ok(decision)) => format!("{what}: {decision}"),
        Some(Err(fault)) => format!("{what}: held, because the rules have no value: {fault}"),
        None => format!("{what}: {without}"),
    }
}
