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
/// count an interrupt both with the interrupted task and as interrupt time. Interrupt time
/// therefore counts at most up to the busy time that has no other owner.
fn kernel_ns(facts: &Facts<'_>) -> Option<f64> {
    let threads = facts.h(H::KernelRun)?;
    let ran = facts.cpu_ns()? + facts.h(H::OwnRun)? + facts.h(H::OthersRun)? + threads;
    let interrupts = [H::Interrupts, H::SoftInterrupts];
    let interrupts: f64 = interrupts.iter().filter_map(|field| facts.h(*field)).sum();
    let left = (facts.busy_ns()? - ran).max(0.0);
    Some(threads + interrupts.min(left))
}

/// CPU time with a known owner: guests, the manager, and all other processes. In older recordings,
/// KSM and kswapd are the only other processes.
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

/// Busy time from which shares are computed: at least the CPU time with a known owner. The kernel's
/// busy time may be less, because the kernel counts ticks or because a hypervisor below the kernel
/// steals time.
fn shared_ns(facts: &Facts<'_>) -> Option<f64> {
    let busy_ns = facts.busy_ns()?;
    Some(named_ns(facts).map_or(busy_ns, |named_ns| named_ns.max(busy_ns)))
}

fn both(facts: &Facts<'_>, one: H, other: H) -> Option<f64> {
    Some(facts.h_s(one)? + facts.h_s(other)?)
}

derived! {
    /// Fields of the host.
    HOST, Host {
        "guests_on", "Guests|on", Count 0, [host Guests], "guests that existed",
            "mean number of guests in the interval", |f| f.on;
        "guests_active", "Guests|active", Count 0, [guest VcpuRun, guest OtherRun],
            "guests that used more than 1 % of a CPU",
            "guests whose CPU time exceeded 1 % of the interval", |f| f.active;
        "in_queue", "In|queue", Count 2, [guest VcpuRun, guest VcpuDelay],
            "virtual CPUs that ran or waited, on average",
            "run time, CPU waits, and known page and I/O waits, divided by the time",
            |f| over(f.queued_ns()?, f.guest.covered_ms as f64 * 1e6);
        "wakes_per_s", "Wakes|/s", PerS 1, [guest HaltWakeups, guest VcpuDispatches],
            "wake-ups of virtual CPUs; z/VM monitors call them transactions",
            "halts that ended, or dispatches if halts are not counted",
            |f| crate::facts::per_s(f.wakes()?, f.guest.covered_ms);
        "idle_wakes_per_s", "Idle|wakes/s", PerS 1, [guest HaltWakeups, guest VcpuDispatches],
            "wake-ups of guests that used less than 1 % of a CPU",
            "wake-ups of guests that are not active", |f| {
                crate::facts::per_s(f.idle_wakes?, f.guest.covered_ms)
            };
        "wake_ms", "Time|ms", Ms 2, [guest VcpuRun, guest VcpuDelay],
            "mean duration of a wake-up: its CPU time and its waits",
            "time in queue divided by wake-ups", |f| over(f.queued_ns()? / 1e6, f.wakes()?);
        "busy_percent", "Busy|%", Percent 1,
            [host User, host Nice, host System, host Interrupts, host SoftInterrupts, host Guest],
            "busy share of all CPUs of the host", "busy time, as a share of the time of all CPUs",
            |f| over(f.busy_ns()? * 100.0, f.capacity_ns()?);
        "virtual_percent", "Virt|%", Percent 1, [guest VcpuGuest, guest VcpuRun],
            "share of all CPUs that guests received",
            "guest time, or run time of virtual CPUs under emulation, as a share of the time of \
             all CPUs", |f| over(f.virtual_ns()? * 100.0, f.capacity_ns()?);
        "capture_percent", "Capt|%", Percent 1, [guest VcpuRun, guest OtherRun],
            "capture ratio: share of the busy time that guests used",
            "CPU time of guests, as a share of the busy time",
            |f| over(f.cpu_ns()? * 100.0, shared_ns(f)?);
        "others_percent", "Others|%", Percent 1, [host OthersRun],
            "share of the busy time that other processes of the host used",
            "CPU time of other processes and of their ended children, as a share of the busy time",
            |f| over(f.h(H::OthersRun)? * 100.0, shared_ns(f)?);
        "kernel_percent", "Kernel|%", Percent 1,
            [host KernelRun, host Interrupts, host SoftInterrupts],
            "share of the busy time that the kernel itself used",
            "CPU time of kernel threads, and of interrupts not counted for a task, as a share of \
             the busy time", |f| over(kernel_ns(f)? * 100.0, shared_ns(f)?);
        "attributed_percent", "Named|%", Percent 1,
            [guest VcpuRun, guest OtherRun, host OwnRun, host OthersRun, host KernelRun],
            "share of the busy time with a known user",
            "CPU time of guests, manager, other processes and kernel, as a share of the busy time",
            |f| over(named_ns(f)? * 100.0, shared_ns(f)?);
        "steal_percent", "Steal|%", Percent 1, [host Steal],
            "share of all CPUs that a hypervisor below the host took",
            "stolen time, as a share of the time of all CPUs",
            |f| over(f.h(H::Steal)? * 100.0, f.capacity_ns()?);
        "used_percent", "Mem|%", Percent 1, [host Total, host Available],
            "share of memory that could not be handed out",
            "total less available memory, as a share of total memory",
            |f| over((f.h(H::Total)? - f.h(H::Available)?) * 100.0, f.h(H::Total)?);
        "load_ratio", "Stor|load", Ratio 2,
            [guest Actual, guest OwnAvailable, guest OwnActiveFile, host Total],
            "working sets of guests divided by the host's memory",
            "sum of the known working sets divided by the host's memory",
            |f| over(super::guest::working_set(f)?, f.h(H::Total)?);
        "zswap_pages_per_s", "zswap|pages/s", PagesPerS 1, [host ZswapIn, host ZswapOut],
            "pages moved into and out of zswap", "both directions, per second",
            |f| both(f, H::ZswapIn, H::ZswapOut);
        "swap_pages_per_s", "swap|pages/s", PagesPerS 1, [host SwapIn, host SwapOut],
            "pages written to and read from swap devices", "both directions, per second",
            |f| both(f, H::SwapIn, H::SwapOut);
        "psi_cpu_percent", "CPU|some %", Percent 1, [host PsiCpuSome],
            "time in which at least one task waited for a CPU",
            "pressure stall time, as a share of the time";
        "psi_memory_percent", "Mem|some %", Percent 1, [host PsiMemorySome],
            "time in which at least one task waited for memory",
            "pressure stall time, as a share of the time";
        "psi_memory_full_percent", "Mem|full %", Percent 1, [host PsiMemoryFull],
            "time in which all tasks waited for memory",
            "pressure stall time, as a share of the time";
        "psi_io_percent", "I/O|some %", Percent 1, [host PsiIoSome],
            "time in which at least one task waited for I/O",
            "pressure stall time, as a share of the time";
        "psi_io_full_percent", "I/O|full %", Percent 1, [host PsiIoFull],
            "time in which all tasks waited for I/O", "pressure stall time, as a share of the time";
        "cpus", "CPUs", Count 0, [host Cpus], "CPUs of the host", "mean";
        "total_mib", "Total|MiB", Mib 0, [host Total], "memory of the host", "mean";
        "available_mib", "Avail|MiB", Mib 0, [host Available],
            "memory that could be handed out without swapping", "mean";
        "spare_mib", "Spare|MiB", Mib 0, [host Spare],
            "memory that guests could still get, within the memory that all guests may use", "mean";
        "set_point_mib", "Want|MiB", Mib 0, [host SetPoint],
            "free memory that the manager tries to keep", "mean";
        "guests_mib", "Guests|MiB", Mib 0,
            [guest Private, guest Hypervisor, guest Resident, host Anonymous, host KsmSharing],
            "private memory of guests",
            "private memory, less hypervisors' memory and KSM's savings; in old recordings, \
             resident memory", |f| part(f, |s| s.guests.own);
        "guests_actual_mib", "Has|MiB", Mib 0, [guest Actual],
            "memory that balloons leave to guests", "sum of all guests, mean",
            |f| Some(f.g(G::Actual)? / MIB);
        "guests_resident_mib", "Resid|MiB", Mib 0,
            [guest Private, guest Resident, host Together, host Anonymous, host KsmSharing],
            "memory of guests and hypervisors on the host; a shared page counts once",
            "sum of the columns Guests, VMMs and Shared once of STORE1", |f| {
                f.g(G::Private).or(f.g(G::Resident))?;
                part(f, |s| s.guests.own + s.guests.hypervisors + s.guests.together)
            };
        "hypervisors_mib", "VMMs|MiB", Mib 0, [guest Hypervisor],
            "memory of the hypervisors themselves, without their guests' memory",
            "measured, or estimated if their mappings cannot be read", |f| {
                f.g(G::Hypervisor)?;
                part(f, |s| s.guests.hypervisors)
            };
        "together_mib", "Shared|once MiB", Mib 0, [host Together],
            "memory that guests share: templates, and the hypervisor's program",
            "for each template and program, the largest value of a guest; part of the cache of \
             files", |f| {
                f.h(H::Together)?;
                part(f, |s| s.guests.together)
            };
        "manager_mib", "pinhead|MiB", Mib 0, [host OwnResident],
            "memory of the manager and monitor", "private memory", |f| {
                f.h(H::OwnResident)?;
                part(f, |s| s.manager)
            };
        "processes_mib", "Others|MiB", Mib 0, [host Anonymous],
            "anonymous memory of all other processes",
            "anonymous memory, less guests, hypervisors and manager", |f| part(f, |s| s.processes);
        "cache_mib", "Cache|MiB", Mib 0, [host Cached, host Shared, host Together],
            "cache of files", "cached memory, less shared memory and memory that guests share",
            |f| {
                f.h(H::Cached)?;
                part(f, |s| s.cache)
            };
        "shared_mib", "Shmem|MiB", Mib 0, [host Shared], "shared memory and tmpfs", "mean";
        "buffers_mib", "Buffer|MiB", Mib 0, [host Buffers], "cache of block devices", "mean";
        "slab_mib", "Slab|MiB", Mib 0, [host Slab], "the kernel's own objects", "mean";
        "tables_mib", "Tables|MiB", Mib 0, [host PageTables, host SecondaryTables],
            "page tables of processes and of guests", "sum of both", |f| {
                f.h(H::PageTables)?;
                part(f, |s| s.tables)
            };
        "kernel_mib", "Kernel|MiB", Mib 0, [host KernelStack, host PerCpu],
            "kernel stacks, and per-CPU memory", "sum of both", |f| {
                f.h(H::KernelStack)?;
                part(f, |s| s.kernel)
            };
        "zswap_mib", "zswap|MiB", Mib 0, [host Zswap], "size of the zswap pool", "mean";
        "zram_mib", "zram|MiB", Mib 0, [tier Resident], "memory of compressed swap devices",
            "sum of all devices", |f| {
                f.t(model::TierField::Resident)?;
                part(f, |s| s.zram)
            };
        "huge_mib", "Huge|MiB", Mib 0, [host HugeTlb], "huge pages set aside", "mean";
        "free_mib", "Free|MiB", Mib 0, [host Free], "memory that is not used at all", "mean";
        "lists_mib", "CPU lists|MiB", Mib 0, [host CpuLists],
            "free memory on per-CPU lists, which MemFree does not include", "mean";
        "other_mib", "Rest|MiB", Mib 0, [host Total, host Free, host Anonymous],
            "memory in no other column", "total less all other parts", |f| part(f, |s| s.other);
        "stalls_per_s", "Stalls|/s", PerS 1, [host Stalls],
            "allocations that had to wait for direct reclaim of memory", "per second";
        "scan_failed_pages_per_s", "Failed|pages/s", PagesPerS 1,
            [host ScanDirect, host StealDirect],
            "pages that direct reclaim scanned and did not free",
            "scanned less freed pages, per second",
            |f| Some((f.h_s(H::ScanDirect)? - f.h_s(H::StealDirect)?).max(0.0));
        "kswapd_ms_per_min", "kswapd|ms/min", MsPerMin 1, [host KswapdRun], "CPU time of kswapd",
            "per minute";
        "kswapd_pages_per_s", "kswapd|pages/s", PagesPerS 1, [host StealKswapd],
            "pages that kswapd freed", "per second";
        "turn_s", "Age|s", Seconds 0,
            [host Anonymous, host Cached, host StealDirect, host StealKswapd],
            "estimated age of memory when it is reclaimed",
            "anonymous and cached memory divided by the memory reclaimed per second", |f| {
                let pool = (f.h(H::Anonymous)? + f.h(H::Cached)?) / PAGE;
                over(pool, f.h_s(H::StealDirect)? + f.h_s(H::StealKswapd)?)
            };
        "major_faults_per_s", "Faults|/s", PerS 1, [host MajorFaults],
            "page faults that had to read from storage", "per second";
        "refault_file_pages_per_s", "Refault|file/s", PagesPerS 1, [host RefaultFile],
            "pages of the cache that were read again soon after they were dropped", "per second";
        "refault_anonymous_pages_per_s", "Refault|anon/s", PagesPerS 1, [host RefaultAnonymous],
            "anonymous pages that were read back soon after they were swapped out", "per second";
        "guest_read_kib_per_s", "Guests|KiB/s", KibPerS 1, [guest ReadBytes],
            "data fetched from storage for guests, without reads from the cache", "per second";
        "ksm_saved_mib", "Saved|MiB", Mib 0, [host KsmSharing], "memory that KSM saves",
            "pages that KSM replaced by a shared page";
        "ksm_ratio", "Sharing|ratio", Ratio 1, [host KsmSharing, host KsmShared],
            "mean number of uses of a page that KSM shares",
            "saved pages divided by kept pages, plus 1",
            |f| Some(over(f.h(H::KsmSharing)?, f.h(H::KsmShared)?)? + 1.0);
        "ksm_ms_per_min", "KSM|ms/min", MsPerMin 1, [host KsmRun], "CPU time of KSM", "per minute";
        "page_reported_mib", "Reported|MiB", Mib 0, [guest Reported],
            "free memory that guests returned by page reporting", "total";
        "ballooned_mib", "Balloon|MiB", Mib 0, [host Ballooned],
            "memory that balloons have taken from guests", "mean";
        "page_outs", "Paged|out", Count 0, [host PageOuts],
            "times that the manager paged out a guest", "total";
        "paged_out_mib", "Paged|out MiB", Mib 0, [host PagedOut],
            "memory that page-out removed from the host's memory", "total";
        "paged_out_stored_mib", "in swap|MiB", Mib 0, [host PagedOutStored],
            "growth of compressed swap during page-out", "total; 0 if no swap is compressed";
        "came_back_mib", "Came|back MiB", Mib 0, [host CameBack],
            "paged-out memory that came back when guests used it", "total";
        "page_out_ms_per_min", "Page-out|ms/min", MsPerMin 1, [host PageOutRun],
            "CPU time of page-out, a part of the manager's CPU time", "per minute";
        "oom_kills", "OOM|kills", Count 0, [host OomKills],
            "processes killed because memory ran out", "total";
        "manager_ms_per_min", "pinhead|ms/min", MsPerMin 1, [host OwnRun],
            "CPU time of the manager and monitor", "per minute";
        "switches_per_s", "Switch|/s", PerS 0, [host Switches], "context switches", "per second";
        "watermark_min_mib", "Wmark|min MiB", Mib 1, [host MinWatermark],
            "free memory below which tasks must reclaim memory themselves",
            "sum of all zones, mean";
        "watermark_low_mib", "Wmark|low MiB", Mib 1, [host LowWatermark],
            "free memory below which kswapd starts to reclaim memory", "sum of all zones, mean";
        "watermark_high_mib", "Wmark|high MiB", Mib 1, [host HighWatermark],
            "free memory above which kswapd stops", "sum of all zones, mean";
        "images", "Images", Count 0, [host Images], "image files that guests have open", "mean";
        "images_mib", "Images|MiB", Mib 0, [host ImageBytes],
            "disk space of the image files that guests have open", "each file counted once, mean";
        "image_cached_mib", "Img cache|MiB", Mib 0, [host ImagesCached],
            "cached part of the image files that guests have open", "each file counted once, mean";
        "image_sharing_ratio", "Guests|an image", Ratio 1, [guest ImagesCached, host ImagesCached],
            "mean number of guests that share a cached page of an image",
            "cached memory of each guest's images, divided by the cached memory with each file \
             counted once", |f| over(f.g(G::ImagesCached)?, f.h(H::ImagesCached)?);
        "cache_hit_percent", "Cache|hit %", Percent 1, [guest BlockReadBytes, guest ReadBytes],
            "share of guests' disk reads that the host's cache served",
            "bytes read less bytes fetched from storage, as a share of the bytes read",
            super::outside::cache_hit_percent;
    }
}
