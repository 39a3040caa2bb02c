//! Reports of the host, of its memory, and of all subjects together.

use super::definition::{Definition, bars, columns, lines, part, stack};
use crate::fields::Scope;

pub(super) const HDR: Definition = Definition {
    name: "HDR",
    title: "The host, its tiers of memory, and its largest guests",
    heritage: &["ESAHDR"],
    parts: &[
        part(
            "host",
            "The host",
            Scope::Host,
            "cpus",
            columns![
                cpus total_mib available_mib busy_percent guests_on ksm_saved_mib
                manager_ms_per_min manager_mib switches_per_s
            ],
            &[],
        )
        .without_intervals(),
        part(
            "tiers",
            "Tiers of memory",
            Scope::Tier,
            "size_mib",
            columns![size_mib used_mib compression_ratio resident_mib],
            &[],
        )
        .without_intervals(),
        part(
            "guests",
            "The largest guests",
            Scope::Guest,
            "cpu_ms_per_min",
            columns![cpu_ms_per_min host_cpu_percent t_v_ratio resident_mib memory_mib vcpus],
            &[bars("CPU time of the largest guests", columns![cpu_ms_per_min])],
        )
        .without_intervals(),
    ],
    left_out: "",
};

pub(super) const MAIN: Definition = Definition {
    name: "MAIN",
    title: "The host at a glance",
    heritage: &["ESAMAIN", "ESASSUM"],
    parts: &[part(
        "host",
        "The host",
        Scope::Host,
        "busy_percent",
        columns![
            guests_on guests_active in_queue wakes_per_s wake_ms busy_percent virtual_percent
            capture_percent guests_actual_mib guests_resident_mib used_percent psi_memory_percent
            swap_pages_per_s zswap_pages_per_s load_ratio steal_percent others_percent
            kernel_percent attributed_percent psi_memory_full_percent psi_cpu_percent
            psi_io_percent psi_io_full_percent
        ],
        &[
            lines("CPU of the host", columns![busy_percent virtual_percent]),
            lines(
                "Time in which tasks waited",
                columns![psi_cpu_percent psi_memory_percent psi_io_percent],
            ),
        ],
    )
    .one_table()],
    left_out: "",
};

pub(super) const STORE1: Definition = Definition {
    name: "STORE1",
    title: "Uses of the host's memory",
    heritage: &["ESASTR1"],
    parts: &[part(
        "host",
        "The host",
        Scope::Host,
        "total_mib",
        columns![
            guests_mib hypervisors_mib together_mib manager_mib processes_mib cache_mib shared_mib
            buffers_mib slab_mib tables_mib kernel_mib zswap_mib zram_mib huge_mib free_mib
            lists_mib other_mib
            total_mib
        ],
        &[stack(
            "Memory of the host",
            columns![
                guests_mib hypervisors_mib together_mib processes_mib cache_mib shared_mib slab_mib
                zram_mib other_mib lists_mib free_mib
            ],
        )],
    )],
    left_out: "",
};

pub(super) const STORE2: Definition = Definition {
    name: "STORE2",
    title: "Shortage of memory on the host",
    heritage: &["ESASTR2"],
    parts: &[part(
        "host",
        "The host",
        Scope::Host,
        "available_mib",
        columns![
            available_mib set_point_mib free_mib load_ratio stalls_per_s scan_failed_pages_per_s
            kswapd_pages_per_s kswapd_ms_per_min turn_s oom_kills watermark_min_mib
            watermark_low_mib watermark_high_mib
        ],
        &[
            lines("Memory that could be handed out", columns![available_mib set_point_mib]),
            lines(
                "Pages scanned and reclaimed",
                columns![kswapd_pages_per_s scan_failed_pages_per_s],
            ),
        ],
    )],
    left_out: "",
};

pub(super) const LEVERS: Definition = Definition {
    name: "LEVERS",
    title: "Gain and cost of each lever on guests' memory",
    heritage: &[],
    parts: &[part(
        "host",
        "The host",
        Scope::Host,
        "paged_out_mib",
        columns![
            page_reported_mib ballooned_mib page_outs paged_out_mib paged_out_stored_mib
            came_back_mib page_out_ms_per_min ksm_saved_mib ksm_ms_per_min
        ],
        &[
            lines("Memory paged out and returned", columns![paged_out_mib came_back_mib]),
            lines("Memory saved at present", columns![ballooned_mib ksm_saved_mib]),
        ],
    )],
    left_out: "",
};

pub(super) const PAGE: Definition = Definition {
    name: "PAGE",
    title: "Tiers of memory below RAM",
    heritage: &["ESABLKP"],
    parts: &[part(
        "tiers",
        "Tiers",
        Scope::Tier,
        "used_mib",
        columns![
            size_mib used_mib in_pages_per_s out_pages_per_s page_age_s read_ms write_ms
            cluster_kib compression_ratio
        ],
        &[lines("Pages in and out", columns![in_pages_per_s out_pages_per_s])],
    )],
    left_out: "",
};

pub(super) const CACHE: Definition = Definition {
    name: "CACHE",
    title: "Caches that guests share",
    heritage: &["ESAMDC"],
    parts: &[
        part(
            "host",
            "The host",
            Scope::Host,
            "cache_mib",
            columns![
                cache_mib buffers_mib refault_file_pages_per_s refault_anonymous_pages_per_s
                major_faults_per_s guest_read_kib_per_s ksm_saved_mib ksm_ratio ksm_ms_per_min
                images images_mib image_cached_mib image_sharing_ratio cache_hit_percent
            ],
            &[lines("Shared memory of the host", columns![cache_mib ksm_saved_mib])],
        ),
        part(
            "guests",
            "Guests",
            Scope::Guest,
            "merged_mib",
            columns![
                merged_mib resident_mib own_cached_mib read_kib_per_s host_faults_per_s images_mib
                image_cached_mib cache_hit_percent
            ],
            &[bars("Shared by KSM", columns![merged_mib])],
        )
        .without_intervals(),
    ],
    left_out: "An image counts once, even if several guests share it.",
};

pub(super) const ADV: Definition = Definition {
    name: "ADV",
    title: "Findings that deserve a look",
    heritage: &[],
    parts: &[part(
        "findings",
        "Findings",
        Scope::Finding,
        "held_percent",
        columns![limit over_whole worst held_percent],
        &[],
    )
    .without_intervals()],
    left_out: "",
};
