//! Reports of guests and of processes in them.

use super::definition::{Definition, bars, columns, lines, part, stack};
use crate::fields::Scope;

const WAITS: &[&str] = &[
    "run_percent",
    "emulation_percent",
    "halt_poll_percent",
    "cpu_wait_percent",
    "page_wait_percent",
    "io_wait_percent",
    "limit_percent",
    "async_io_percent",
    "idle_short_percent",
    "idle_percent",
    "parked_percent",
    "other_percent",
    "states_percent",
];

pub(super) const GUEST1: Definition = Definition {
    name: "GUEST1",
    title: "CPU and memory of guests",
    heritage: &["ESAUSR2", "ESAUSP2"],
    parts: &[part(
        "guests",
        "Guests",
        Scope::Guest,
        "cpu_ms_per_min",
        columns![
            cpu_ms_per_min cpu_percent virtual_ms_per_min t_v_ratio resident_mib private_mib
            together_mib hypervisor_mib swapped_mib compressed_mib working_set_mib locked_mib
            actual_mib target_mib minimum_mib low_mib
        ],
        &[
            lines("CPU time of guests", columns![cpu_ms_per_min virtual_ms_per_min]),
            lines("Memory of guests", columns![private_mib working_set_mib actual_mib]),
            bars("CPU time by guest", columns![cpu_ms_per_min]),
        ],
    )],
    left_out: "",
};

pub(super) const GUEST2: Definition = Definition {
    name: "GUEST2",
    title: "Paging of guests",
    heritage: &["ESAUSR2", "ESAUSPG"],
    parts: &[part(
        "guests",
        "Guests",
        Scope::Guest,
        "swapped_mib",
        columns![
            swapped_mib host_faults_per_s own_swap_in_pages_per_s own_swap_out_pages_per_s
            own_faults_per_s own_refault_anonymous_pages_per_s own_refault_file_pages_per_s
            merged_mib reported_mib zswapped_mib on_disk_mib zswap_in_pages_per_s
            zswap_out_pages_per_s disk_in_pages_per_s disk_out_pages_per_s migrated_pages_per_s
            host_refault_anonymous_pages_per_s host_refault_file_pages_per_s
        ],
        &[
            lines(
                "Memory that the host has swapped out or shares",
                columns![swapped_mib merged_mib],
            ),
            bars("Swapped out by the host", columns![swapped_mib]),
        ],
    )],
    left_out: "The columns of zswap and disk need a guest with its own cgroup of version 2 and the \
               memory controller. `pinhead report PAGE` shows the host's tiers.",
};

pub(super) const STATE: Definition = Definition {
    name: "STATE",
    title: "Time of virtual CPUs by state",
    heritage: &["ESAXACT", "ESAWKLD"],
    parts: &[part(
        "guests",
        "Guests",
        Scope::Guest,
        "cpu_wait_percent",
        WAITS,
        &[
            stack(
                "States of virtual CPUs, without idle",
                columns![
                    run_percent emulation_percent halt_poll_percent cpu_wait_percent
                    page_wait_percent io_wait_percent limit_percent
                ],
            ),
            bars("Waiting for a CPU", columns![cpu_wait_percent]),
        ],
    )],
    left_out: "Halts are not traced: all halts of one second count as equally long. Asynchronous \
               I/O is the wait of the hypervisor's own threads, if the kernel counts delays.",
};

pub(super) const QUEUE: Definition = Definition {
    name: "QUEUE",
    title: "Wake-ups of guests and their duration",
    heritage: &["ESAUSRQ", "ESAUSLA"],
    parts: &[
        part(
            "host",
            "All guests",
            Scope::Host,
            "in_queue",
            columns![
                guests_on guests_active in_queue wakes_per_s idle_wakes_per_s wake_ms
            ],
            &[lines("Virtual CPUs that ran or waited", columns![in_queue])],
        ),
        part(
            "guests",
            "Guests",
            Scope::Guest,
            "in_queue",
            columns![
                vcpus wakes_per_min wake_cpu_ms wake_wait_ms in_queue exits_per_s bursts_per_min
                burst_short_percent burst_middle_percent burst_long_percent burst_longest_percent
                burst_trivial_percent
            ],
            &[bars("Wake-ups by guest", columns![wakes_per_min])],
        ),
    ],
    left_out: "Bursts are not traced. They are estimated from the run time and the number of runs \
               of each virtual CPU in each second; all bursts of one second count as equally long.",
};

pub(super) const VDISK: Definition = Definition {
    name: "VDISK",
    title: "Swap space of guests, and compressed swap of the host",
    heritage: &["ESAVDSK"],
    parts: &[
        part(
            "guests",
            "Swap spaces of guests",
            Scope::Guest,
            "own_swap_used_mib",
            columns![
                own_swap_mib own_swap_used_mib own_swap_in_pages_per_s own_swap_out_pages_per_s
                swapped_mib
            ],
            &[
                lines("Swap that guests use", columns![own_swap_used_mib swapped_mib]),
                bars("Swap used by guest", columns![own_swap_used_mib]),
            ],
        ),
        part(
            "tiers",
            "Compressed swap devices of the host",
            Scope::Tier,
            "stored_mib",
            columns![
                size_mib stored_mib compressed_mib resident_mib compression_ratio backing_mib
                reads_per_s writes_per_s
            ],
            &[],
        )
        .without_intervals()
        .compressed(),
    ],
    left_out: "",
};

pub(super) const GIO: Definition = Definition {
    name: "GIO",
    title: "I/O of guests",
    heritage: &["ESAUSR3"],
    parts: &[part(
        "guests",
        "Guests",
        Scope::Guest,
        "read_kib_per_s",
        columns![
            read_kib_per_s write_kib_per_s read_calls_per_s write_calls_per_s io_wait_percent
            host_faults_per_s own_faults_per_s block_reads_per_s block_writes_per_s
            block_read_kib_per_s block_write_kib_per_s cache_hit_percent net_in_per_s net_out_per_s
            net_in_kib_per_s net_out_kib_per_s
        ],
        &[
            lines("Storage that guests read and wrote", columns![read_kib_per_s write_kib_per_s]),
            bars("Read by guest", columns![read_kib_per_s]),
        ],
    )],
    left_out: "Disk requests are read from QEMU's monitors; guests of libvirt lack them. If a \
               guest has no tap device, its daemon reports the network once a minute.",
};

pub(super) const PROC: Definition = Definition {
    name: "PROC",
    title: "Processes in guests, in the host's CPU time",
    heritage: &["ESALNXP"],
    parts: &[part(
        "processes",
        "Processes",
        Scope::Process,
        "cpu_percent",
        columns![
            processes cpu_percent user_percent system_percent child_percent prorate_ratio
            wakes_per_min wake_cpu_ms resident_mib faults_per_min
        ],
        &[bars("CPU by process", columns![cpu_percent])],
    )
    .without_intervals()],
    left_out: "States and waits of single processes are not recorded.",
};

pub(super) const IDLE: Definition = Definition {
    name: "IDLE",
    title: "Cost of guests that do little, and the processes that wake them",
    heritage: &[],
    parts: &[
        part(
            "guests",
            "Guests",
            Scope::Guest,
            "cpu_ms_per_min",
            columns![
                cpu_ms_per_min virtual_ms_per_min emulation_ms_per_min halt_poll_ms_per_min
                other_ms_per_min wakes_per_min wake_cpu_ms other_wakes_per_min
            ],
            &[
                lines("CPU time", columns![cpu_ms_per_min virtual_ms_per_min other_ms_per_min]),
                bars("CPU time by guest", columns![cpu_ms_per_min]),
            ],
        ),
        part(
            "wakers",
            "Processes, with their ended children",
            Scope::Process,
            "cpu_ms_per_min",
            columns![cpu_ms_per_min of_guest_percent wakes_per_min wake_cpu_ms],
            &[
                bars("CPU time by process", columns![cpu_ms_per_min]),
                bars("Wake-ups by process", columns![wakes_per_min]),
            ],
        )
        .without_intervals(),
    ],
    left_out: "Timers are not traced; `pinhead idle GUEST` lists the threads of one guest.",
};

pub(super) const LNXS: Definition = Definition {
    name: "LNXS",
    title: "Guests by their own counts",
    heritage: &["ESALNXS"],
    parts: &[part(
        "guests",
        "Guests",
        Scope::Guest,
        "own_busy_percent",
        columns![
            own_cpus own_busy_percent own_steal_percent own_total_mib own_available_mib
            own_cached_mib own_swap_used_mib own_psi_some_percent own_psi_full_percent
            own_stalls_per_s own_oom_kills own_pool_mib own_plugs own_unplugs prorate_ratio
            own_load own_running own_blocked own_root_percent own_in_kib_per_s own_out_kib_per_s
            own_decisions
        ],
        &[
            lines("CPU, as guests count it", columns![own_busy_percent own_steal_percent]),
            lines(
                "Memory, as guests count it",
                columns![own_total_mib own_available_mib own_cached_mib],
            ),
        ],
    )],
    left_out: "Running guests report load, file system and network once a minute.",
};
