//! Other programs and settings in the guest that conflict with the daemon's control of CPUs and
//! pool.
//!
//! A conflict does not stop the daemon, which logs it at the start, with its remedy. The search is
//! limited, because users that can start processes or create cgroups in the guest control the
//! number of conflicts.

use std::path::{Path, PathBuf};

use base::Pages;
use procfs::{CpuList, Root, parse};

use crate::plug::cpus::{Cpus, without};
use crate::plug::fsio;

/// Maximum number of processes that are checked.
const MAX_PROCESSES: usize = 4096;

/// Maximum number of pinned tasks, and of cpusets, that are listed one by one.
const MAX_REPORTED: usize = 16;

/// Maximum depth below the root cgroup, and maximum number of groups, that are searched.
const MAX_DEPTH: usize = 3;
const MAX_GROUPS: usize = 1024;

/// Names in the kernel of processes that plug CPUs or change the pool.
const MANAGERS: [&str; 2] = ["cpuplugd", "pinheadd"];

/// Returns a text for each conflict below `root` with the daemon of the process `own_pid`.
pub fn conflicts(root: &Root, own_pid: u32) -> Vec<String> {
    let mut found = Vec::new();
    processes(root, own_pid, &mut found);
    cpusets(root, &mut found);
    found.extend(cmm_sender(root));
    found.extend(cmm_timed_pages(root));
    found
}

struct Process {
    pid: u32,
    name: String,
    cpus: CpuList,
}

fn processes(root: &Root, own_pid: u32, found: &mut Vec<String>) {
    let cpus = Cpus::new(root);
    // Without a list of all CPUs, pinned processes cannot be detected.
    let isolated = cpus.isolated();
    if !isolated.is_empty() {
        found.push(format!(
            "CPUs {isolated} are isolated (isolcpus, nohz_full): they are neither plugged nor \
             unplugged, and do not count for CPU_MIN and CPU_MAX."
        ));
    }
    let all = without(&cpus.present().unwrap_or_default(), &isolated);
    let online = without(&cpus.online().unwrap_or_default(), &isolated);
    let mut pinned = 0;
    for process in pids(root).iter().filter_map(|pid| process(root, *pid)) {
        let Process { pid, name, cpus } = process;
        let is_manager = MANAGERS.contains(&name.as_str()) && pid != own_pid;
        // A process that may run only on isolated CPUs is not affected.
        let is_isolated = cpus.iter().all(|cpu| isolated.contains(cpu));
        let is_pinned = pid != own_pid && !is_isolated && is_pinned(&cpus, &all, &online);
        if !(is_manager || is_pinned) || is_kernel_thread(root, pid) {
            continue;
        }
        if is_manager {
            found.push(format!(
                "Process {pid} ({}) also plugs CPUs or sets the pool: stop it, or stop pinheadd.",
                name.escape_debug()
            ));
            continue;
        }
        pinned += 1;
        if pinned <= MAX_REPORTED {
            found.push(format!(
                "Process {pid} ({}) is pinned to CPUs {cpus}: it cannot use other CPUs that are \
                 plugged, and loses its pinning when the last of its CPUs goes offline. Start it \
                 without taskset, or set CPU_MIN so high that its CPUs stay online.",
                name.escape_debug()
            ));
        }
    }
    if pinned > MAX_REPORTED {
        found.push(format!("{} more processes are pinned to CPUs.", pinned - MAX_REPORTED));
    }
}

/// Returns true if a task cannot use all CPUs. A task in an unlimited cpuset is shown with exactly
/// the CPUs online, because the kernel itself narrows the cpuset when a CPU goes offline. Such a
/// task is not pinned, but cannot be distinguished from a task that is pinned to exactly these
/// CPUs.
fn is_pinned(cpus: &CpuList, all: &CpuList, online: &CpuList) -> bool {
    let lacks = |set: &CpuList| set.iter().any(|cpu| !cpus.contains(cpu));
    let is_online_set =
        !lacks(online) && cpus.iter().all(|c| online.contains(c) || !all.contains(c));
    lacks(all) && !is_online_set
}

fn pids(root: &Root) -> Vec<u32> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
    // The limit applies only to numbers. /proc has about fifty other entries.
    let entries = fsio::entries(&root.join("proc"), MAX_PROCESSES + 256);
    let mut pids: Vec<u32> = entries.iter().filter_map(number).take(MAX_PROCESSES).collect();
    pids.sort_unstable();
    pids
}

fn process(root: &Root, pid: u32) -> Option<Process> {
    let status = fsio::read(&root.join(&format!("proc/{pid}/status"))).ok()?;
    let field = |key: &[u8]| parse::lines(&status).find_map(|l| l.strip_prefix(key));
    let name = String::from_utf8_lossy(field(b"Name:")?.trim_ascii()).into_owned();
    let cpus = parse::cpulist::parse(field(b"Cpus_allowed_list:")?.trim_ascii()).ok()?;
    Some(Process { pid, name, cpus })
}

/// Returns true for a kernel thread, which has no command line, and for an ended process. The
/// kernel pins many of its threads to one CPU each, and moves them when the CPU goes offline.
fn is_kernel_thread(root: &Root, pid: u32) -> bool {
    let cmdline = fsio::read(&root.join(&format!("proc/{pid}/cmdline")));
    cmdline.is_ok_and(|cmdline| cmdline.is_empty())
}

fn cpusets(root: &Root, found: &mut Vec<String>) {
    let mut limits = Vec::new();
    let bases = [
        ("sys/fs/cgroup", false),
        ("sys/fs/cgroup/unified", false),
        ("sys/fs/cgroup/cpuset", true),
    ];
    for (base, is_v1) in bases {
        let base = root.join(base);
        let marker = if is_v1 { "cpuset.cpus" } else { "cgroup.controllers" };
        if !base.join(marker).exists() {
            continue;
        }
        // In version 1 of cgroups, each group has a list of CPUs. A group with all CPUs corresponds
        // to a group of version 2 without a list.
        let of_root = if is_v1 { cpus_of(&base) } else { None };
        for group in groups_below(&base) {
            let Some(cpus) = cpus_of(&group) else { continue };
            if of_root.as_ref() != Some(&cpus) {
                let group = group.strip_prefix(root.path()).unwrap_or(&group);
                limits.push(limited(group, &cpus, is_v1));
            }
        }
    }
    let more = limits.len().saturating_sub(MAX_REPORTED);
    found.extend(limits.into_iter().take(MAX_REPORTED));
    if more > 0 {
        found.push(format!("{more} more cgroups are limited to CPUs."));
    }
}

fn limited(group: &Path, cpus: &str, is_v1: bool) -> String {
    let group = group.display().to_string();
    let (group, cpus) = (group.escape_debug(), cpus.escape_debug());
    let advice = match is_v1 {
        true => {
            "a cgroup of version 1 loses a CPU for good when the CPU goes offline. Use version 2, \
             or set the CPUs again after each change."
        }
        false => {
            "it cannot use other CPUs that are plugged. Give it a weight (cpu.weight) or a limit \
             (cpu.max) in place of CPUs."
        }
    };
    format!("The cgroup /{group} is limited to CPUs {cpus}: {advice}")
}

/// Returns the groups below `base`, in order of their depth.
fn groups_below(base: &Path) -> Vec<PathBuf> {
    let mut groups: Vec<PathBuf> = Vec::new();
    let mut level = vec![base.to_path_buf()];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for dir in &level {
            let room = MAX_GROUPS.saturating_sub(groups.len() + next.len());
            // A group has about a hundred files, and its subgroups.
            let mut entries = fsio::entries(dir, MAX_GROUPS + 256);
            entries.sort_unstable();
            next.extend(entries.into_iter().filter(|path| is_real_dir(path)).take(room));
        }
        groups.extend_from_slice(&next);
        level = next;
    }
    groups
}

/// Returns false for a link, which could lead out of the tree, or in circles.
fn is_real_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_dir())
}

fn cpus_of(group: &Path) -> Option<String> {
    let text = fsio::read(&group.join("cpuset.cpus")).ok()?;
    let cpus = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    (!cpus.is_empty()).then_some(cpus)
}

/// Returns the conflict with a z/VM guest that sends pool sizes to the kernel's CMM. The kernel
/// module names such a sender under every hypervisor, but only z/VM delivers messages.
fn cmm_sender(root: &Root) -> Option<String> {
    let sender = fsio::read(&root.join("sys/module/cmm/parameters/sender")).ok()?;
    let sender = String::from_utf8_lossy(sender.trim_ascii()).into_owned();
    let system = fsio::read(&root.join("proc/sysinfo")).unwrap_or_default();
    let under_zvm = system.windows(4).any(|word| word == b"z/VM");
    let none = sender.is_empty() || sender == "(null)" || !under_zvm;
    (!none).then(|| {
        format!(
            "The kernel's CMM takes the pool's size from the z/VM guest {}: if VMRM manages this \
             guest, switch off memory management in VMRM or in the rules file.",
            sender.escape_debug()
        )
    })
}

fn cmm_timed_pages(root: &Root) -> Option<String> {
    let pages = fsio::read_number(&root.join("proc/sys/vm/cmm_timed_pages")).ok()?;
    (pages > 0).then(|| {
        format!(
            "CMM holds {} on a timer (cmm_timed_pages): another program fills the pool. Stop \
             that program, and set cmm_timed_pages to 0.",
            Pages(pages)
        )
    })
}
