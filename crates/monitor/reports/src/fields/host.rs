//! Fields derived for the host.

use super::derived::derived;
use crate::facts::{Facts, MIB, PAGE};
use crate::number::over;
use crate::storage::{Storage, storage};
use model::{GuestField as G, HostField as H};

fn part(facts: &Facts<'_>, part: fn(&Storage) -> f64) -> Option<f64> {
    storage(facts).as_ref().map(part)
}

/// CPU time of the kernel: its threads, and interrupts that came while nothing ran. Most kernels
/// count an interrupt both with the interrupted task and as interrupt time. Interrupts therefore
/// explain no more than the unexplained remainder.
fn kernel_ns(facts: &Facts<'_>) -> Option<f64> {
    let threads = facts.h(H::KernelRun)?;
    let ran = facts.cpu_ns()? + facts.h(H::OwnRun)? + facts.h(H::OthersRun)? + threads;
    let interrupts = [H::Interrupts, H::SoftInterrupts];
    let interrupts: f64 = interrupts.iter().filter_map(|field| facts.h(*field)).sum();
    let left = (facts.busy_ns()? - ran).max(0.0);
    Some(threads + interrupts.min(left))
}

/// CPU time with a known owner: guests, the manager, and all other processes. Older recordings
/// contain only KSM and kswapd of the other processes.
fn named_ns(facts: &Facts<'_>) -> Option<f64> {
    let ours = facts.cpu_ns()? + facts.h(H::OwnRun).unwrap_or(0.0);
    Some(match facts.h(H::OthersRun).zip(kernel_ns(facts)) {
        Some((others, kernel)) => ours + others + kernel,
        None => {
            let known = [H::KsmRun, H::KswapdRun];
            ours + known.iter().filter_map(|field| facts.h(*field)).sum::<f64>()
        }
    })
}

/// The busy time that shares are taken of: at least the CPU time with a known owner. A kernel may
/// count less busy time than its tasks ran, because it counts ticks, or because a hypervisor below
/// it stole a part.
fn shared_ns(facts: &Facts<'_>) -> Option<f64> {
    let busy_ns = facts.busy_ns()?;
    Some(named_ns(facts).map_or(busy_ns, |named_ns| named_ns.max(busy_ns)))
}

/// Pages per second in both directions.
fn both(facts: &Facts<'_>, one: H, other: H) -> Option<f64> {
    Some(facts.h_s(one)? + facts.h_s(other)?)
}

derived! {
    /// Fields of the host.
    HOST, Host {
        "guests_on", "Guests|on", Count 0, [host Guests], "guests that were there",
            "guests, mean of the interval", |f| f.on;
        "guests_active", "Guests|active", Count 0, [guest VcpuRun, guest OtherRun],
            "guests that used more than 1 % of a CPU",
            "guests whose CPU time was over 1 % of the interval", |f| f.active;
        "in_queue", "In|queue", Count 2, [guest VcpuRun, guest VcpuDelay],
            "virtual CPUs that ran or waited, on average",
            "run, CPU wait and what is known of page and I/O wait, over time",
            |f| over(f.queued_ns()?, f.guest.covered_ms as f64 * 1e6);
        "wakes_per_s", "Wakes|/s", PerS 1, [guest HaltWakeups, guest VcpuDispatches],
            "wake-ups of virtual CPUs: the transactions of the original",
            "halts ended, or dispatches where halts are not counted",
            |f| crate::facts::per_s(f.wakes()?, f.guest.covered_ms);
        "idle_wakes_per_s", "Idle|wakes/s", PerS 1, [guest HaltWakeups, guest VcpuDispatches],
            "those of guests that used less than 1 % of a CPU",
            "wake-ups of guests that are not active", |f| {
                crate::facts::per_s(f.idle_wakes?, f.guest.covered_ms)
            };
        "wake_ms", "Time|ms", Ms 2, [guest VcpuRun, guest VcpuDelay],
            "how long a wake-up takes: its CPU time and its waits",
            "time in queue over wake-ups", |f| over(f.queued_ns()? / 1e6, f.wakes()?);
        "busy_percent", "Busy|%", Percent 1,
            [host User, host Nice, host System, host Interrupts, host SoftInterrupts, host Guest],
            "busy share of all CPUs of the host", "busy time over CPUs and time",
            |f| over(f.busy_ns()? * 100.0, f.capacity_ns()?);
        "virtual_percent", "Virt|%", Percent 1, [guest VcpuGuest, guest VcpuRun],
            "share of all CPUs that guests themselves got",
            "guest time, or virtual CPUs' run time under emulation, over CPUs and time",
            |f| over(f.virtual_ns()? * 100.0, f.capacity_ns()?);
        "capture_percent", "Capt|%", Percent 1, [guest VcpuRun, guest OtherRun],
            "capture ratio: the share of busy time that guests account for",
            "CPU time of guests over busy time", |f| over(f.cpu_ns()? * 100.0, shared_ns(f)?);
        "others_percent", "Others|%", Percent 1, [host OthersRun],
            "the share of busy time that other processes of the host account for",
            "their CPU time, that of children that have ended included, over busy time",
            |f| over(f.h(H::OthersRun)? * 100.0, shared_ns(f)?);
        "kernel_percent", "Kernel|%", Percent 1,
            [host KernelRun, host Interrupts, host SoftInterrupts],
            "the share of busy time that the kernel accounts for by itself",
            "CPU time of its threads, and of interrupts what no task has counted, over busy time",
            |f| over(kernel_ns(f)? * 100.0, shared_ns(f)?);
        "attributed_percent", "Named|%", Percent 1,
            [guest VcpuRun, guest OtherRun, host OwnRun, host OthersRun, host KernelRun],
            "the share of busy time that has a name",
            "CPU time of guests, manager, other processes and kernel over busy time",
            |f| over(named_ns(f)? * 100.0, shared_ns(f)?);
        "steal_percent", "Steal|%", Percent 1, [host Steal],
            "share of all CPUs that a hypervisor below took", "stolen time over CPUs and time",
            |f| over(f.h(H::Steal)? * 100.0, f.capacity_ns()?);
        "used_percent", "Mem|%", Percent 1, [host Total, host Available],
            "memory that could not be handed out", "total less available, over total",
            |f| over((f.h(H::Total)? - f.h(H::Available)?) * 100.0, f.h(H::Total)?);
        "load_ratio", "Stor|load", Ratio 2,
            [guest Actual, guest OwnAvailable, guest OwnActiveFile, host Total],
            "working sets of guests over the host's memory",
            "sum of the working sets that are known, over total",
            |f| over(super::guest::working_set(f)?, f.h(H::Total)?);
        "zswap_pages_per_s", "zswap|pages/s", PagesPerS 1, [host ZswapIn, host ZswapOut],
            "pages into and out of zswap", "both, a second",
            |f| both(f, H::ZswapIn, H::ZswapOut);
        "swap_pages_per_s", "swap|pages/s", PagesPerS 1, [host SwapIn, host SwapOut],
            "pages into and out of swap devices", "both, a second",
            |f| both(f, H::SwapIn, H::SwapOut);
        "psi_cpu_percent", "CPU|some %", Percent 1, [host PsiCpuSome],
            "time in which some task waited for a CPU", "pressure, of time";
        "psi_memory_percent", "Mem|some %", Percent 1, [host PsiMemorySome],
            "time in which some task waited for memory", "pressure, of time";
        "psi_memory_full_percent", "Mem|full %", Percent 1, [host PsiMemoryFull],
            "time in which all tasks waited for memory", "pressure, of time";
        "psi_io_percent", "I/O|some %", Percent 1, [host PsiIoSome],
            "time in which some task waited for I/O", "pressure, of time";
        "psi_io_full_percent", "I/O|full %", Percent 1, [host PsiIoFull],
            "time in which all tasks waited for I/O", "pressure, of time";
        "cpus", "CPUs", Count 0, [host Cpus], "CPUs of the host", "mean";
        "total_mib", "Total|MiB", Mib 0, [host Total], "memory of the host", "mean";
        "available_mib", "Avail|MiB", Mib 0, [host Available],
            "memory that could be handed out without swapping", "mean";
        "spare_mib", "Spare|MiB", Mib 0, [host Spare],
            "memory that could be handed out, of what guests may use together", "mean";
        "set_point_mib", "Want|MiB", Mib 0, [host SetPoint],
            "the free memory that the manager keeps", "mean";
        "guests_mib", "Guests|MiB", Mib 0,
            [guest Private, guest Hypervisor, guest Resident, host Anonymous, host KsmSharing],
            "memory of guests, each for itself",
            "private, less the hypervisors' and what KSM saved; in old recordings resident",
            |f| part(f, |s| s.guests.own);
        "guests_actual_mib", "Actual|MiB", Mib 0, [guest Actual],
            "memory that balloons leave to guests", "sum of guests, mean",
            |f| Some(f.g(G::Actual)? / MIB);
        "guests_resident_mib", "Resid|MiB", Mib 0,
            [guest Private, guest Resident, host Together, host Anonymous, host KsmSharing],
            "memory of guests and hypervisors in the host's memory, shared pages once",
            "guests, VMMs and shared of STORE1",
            |f| {
                f.g(G::Private).or(f.g(G::Resident))?;
                part(f, |s| s.guests.own + s.guests.hypervisors + s.guests.together)
            };
        "hypervisors_mib", "VMMs|MiB", Mib 0, [guest Hypervisor],
            "what hypervisors have for themselves beside their guests' memory",
            "measured, or estimated where their mappings may not be read", |f| {
                f.g(G::Hypervisor)?;
                part(f, |s| s.guests.hypervisors)
            };
        "together_mib", "Shared|once MiB", Mib 0, [host Together],
            "what guests have together: templates, and the hypervisor's program",
            "the most that a guest has of each, a part of the cache of files", |f| {
                f.h(H::Together)?;
                part(f, |s| s.guests.together)
            };
        "manager_mib", "pinhead|MiB", Mib 0, [host OwnResident],
            "memory of the manager and monitor", "what they have for themselves", |f| {
                f.h(H::OwnResident)?;
                part(f, |s| s.manager)
            };
        "processes_mib", "Others|MiB", Mib 0, [host Anonymous],
            "anonymous memory of everything else",
            "anonymous, less guests, hypervisors and manager",
            |f| part(f, |s| s.processes);
        "cache_mib", "Cache|MiB", Mib 0, [host Cached, host Shared, host Together],
            "cache of files", "cached less shared memory and what guests have together", |f| {
                f.h(H::Cached)?;
                part(f, |s| s.cache)
            };
        "shared_mib", "Shmem|MiB", Mib 0, [host Shared], "shared memory and tmpfs", "mean";
        "buffers_mib", "Buffer|MiB", Mib 0, [host Buffers], "cache of block devices", "mean";
        "slab_mib", "Slab|MiB", Mib 0, [host Slab], "the kernel's own objects", "mean";
        "tables_mib", "Tables|MiB", Mib 0, [host PageTables, host SecondaryTables],
            "page tables of processes and of guests", "both", |f| {
                f.h(H::PageTables)?;
                part(f, |s| s.tables)
            };
        "kernel_mib", "Kernel|MiB", Mib 0, [host KernelStack, host PerCpu],
            "stacks in the kernel, and memory of single CPUs", "both", |f| {
                f.h(H::KernelStack)?;
                part(f, |s| s.kernel)
            };
        "zswap_mib", "zswap|MiB", Mib 0, [host Zswap], "the zswap pool", "mean";
        "zram_mib", "zram|MiB", Mib 0, [tier Resident], "memory of compressed swap devices",
            "sum over them", |f| {
                f.t(model::TierField::Resident)?;
                part(f, |s| s.zram)
            };
        "huge_mib", "Huge|MiB", Mib 0, [host HugeTlb], "huge pages set aside", "mean";
        "free_mib", "Free|MiB", Mib 0, [host Free], "memory that is not used at all", "mean";
        "lists_mib", "CPU lists|MiB", Mib 0, [host CpuLists],
            "free memory that single CPUs keep for their next need, which MemFree leaves out",
            "mean";
        "other_mib", "other|MiB", Mib 0, [host Total, host Free, host Anonymous],
            "the remainder", "total less all other parts", |f| part(f, |s| s.other);
        "stalls_per_s", "Stalls|/s", PerS 1, [host Stalls],
            "allocations that had to reclaim memory themselves", "a second";
        "scan_failed_pages_per_s", "Failed|pages/s", PagesPerS 1,
            [host ScanDirect, host StealDirect],
            "pages that were scanned in need and not had", "scanned less had, a second",
            |f| Some((f.h_s(H::ScanDirect)? - f.h_s(H::StealDirect)?).max(0.0));
        "kswapd_ms_per_min", "kswapd|ms/min", MsPerMin 1, [host KswapdRun], "CPU time of kswapd",
            "a minute";
        "kswapd_pages_per_s", "kswapd|pages/s", PagesPerS 1, [host StealKswapd],
            "pages that kswapd got", "a second";
        "turn_s", "Age|s", Seconds 0,
            [host Anonymous, host Cached, host StealDirect, host StealKswapd],
            "how old memory is when it is reclaimed",
            "anonymous and cached memory over what is reclaimed a second", |f| {
                let pool = (f.h(H::Anonymous)? + f.h(H::Cached)?) / PAGE;
                over(pool, f.h_s(H::StealDirect)? + f.h_s(H::StealKswapd)?)
            };
        "major_faults_per_s", "Faults|/s", PerS 1, [host MajorFaults], "faults that had to read",
            "a second";
        "refault_file_pages_per_s", "Refault|file/s", PagesPerS 1, [host RefaultFile],
            "cache needed again soon after it was dropped", "a second";
        "refault_anonymous_pages_per_s", "Refault|anon/s", PagesPerS 1, [host RefaultAnonymous],
            "memory needed again soon after it was swapped out", "a second";
        "guest_read_kib_per_s", "Guests|KiB/s", KibPerS 1, [guest ReadBytes],
            "what guests had fetched from storage, past the cache", "a second";
        "ksm_saved_mib", "Saved|MiB", Mib 0, [host KsmSharing],
            "memory that KSM saves", "pages that have no place of their own any more";
        "ksm_ratio", "Sharing|ratio", Ratio 1, [host KsmSharing, host KsmShared],
            "how many share a page that KSM keeps", "pages saved over pages kept, and one",
            |f| Some(over(f.h(H::KsmSharing)?, f.h(H::KsmShared)?)? + 1.0);
        "ksm_ms_per_min", "KSM|ms/min", MsPerMin 1, [host KsmRun], "CPU time of KSM", "a minute";
        "page_reported_mib", "Reported|MiB", Mib 0, [guest Reported],
            "free memory that guests gave back by themselves", "in the time";
        "ballooned_mib", "Balloon|MiB", Mib 0, [host Ballooned],
            "memory that the host has because of balloons", "mean";
        "page_outs", "Paged|out", Count 0, [host PageOuts],
            "times that a guest's memory was handed to the host's reclaim", "in the time";
        "paged_out_mib", "Paged|out MiB", Mib 0, [host PagedOut],
            "what left the host's memory by that", "in the time";
        "paged_out_stored_mib", "in swap|MiB", Mib 0, [host PagedOutStored],
            "what compressed swap grew by as it did", "in the time; 0 where none is compressed";
        "came_back_mib", "Came|back MiB", Mib 0, [host CameBack],
            "what was seen to come back of it, as guests touched it", "in the time";
        "page_out_ms_per_min", "Page-out|ms/min", MsPerMin 1, [host PageOutRun],
            "CPU time of that, a part of the manager's", "a minute";
        "oom_kills", "OOM|kills", Count 0, [host OomKills],
            "processes killed because memory ran out", "in the time";
        "manager_ms_per_min", "pinhead|ms/min", MsPerMin 1, [host OwnRun],
            "CPU time of the manager and monitor", "a minute";
        "switches_per_s", "Switch|/s", PerS 0, [host Switches], "context switches", "a second";
        "watermark_min_mib", "Wmark|min MiB", Mib 1, [host MinWatermark],
            "free memory below which tasks must reclaim some themselves", "of all zones, mean";
        "watermark_low_mib", "Wmark|low MiB", Mib 1, [host LowWatermark],
            "free memory below which kswapd begins", "of all zones, mean";
        "watermark_high_mib", "Wmark|high MiB", Mib 1, [host HighWatermark],
            "free memory at which kswapd ends", "of all zones, mean";
        "images", "Images", Count 0, [host Images], "image files that guests have open", "mean";
        "images_mib", "Images|MiB", Mib 0, [host ImageBytes],
            "what they take on the disk", "each counted once, mean";
        "image_cached_mib", "Img cache|MiB", Mib 0, [host ImagesCached],
            "what of them is in the cache", "each counted once, mean";
        "image_sharing_ratio", "Guests|an image", Ratio 1,
            [guest ImagesCached, host ImagesCached],
            "how many guests share what is cached of an image",
            "what is cached of each guest's images over what is cached, each counted once",
            |f| over(f.g(G::ImagesCached)?, f.h(H::ImagesCached)?);
        "cache_hit_percent", "Cache|hit %", Percent 1, [guest BlockReadBytes, guest ReadBytes],
            "what guests read from their disks that was in the cache",
            "read less what was fetched from storage, of what was read",
            super::outside::cache_hit_percent;
    }
}
