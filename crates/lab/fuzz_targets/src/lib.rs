//! The fuzz targets. Each target is a function that panics for an input or returns nothing.
//!
//! ```text
//!   fuzz/corpus/TARGET/* ──► cargo test -p fuzz_targets ──┐
//!                                                         ├──► TARGETS
//!   libFuzzer ──► fuzz/src/main.rs (make fuzz) ───────────┘
//! ```
//!
//! The functions are here and not in the fuzzer's binary. The same functions can therefore run over
//! the committed inputs as ordinary tests (`tests/it/corpus.rs`), and over new inputs in `make
//! fuzz`.
//!
//! A target that only calls a parser finds panics. A better target also asserts properties of the
//! result for any input. The memory of every target is bounded. In the tests, the kernel's counters
//! check this bound, and in the fuzzer a counting allocator. The fuzzer also uses the kernel's
//! counters for targets with SQLite. For other targets the fuzzer avoids these counters, because
//! reading them takes longer than a run of a parser.

#![forbid(unsafe_code)]

mod accounts;
mod counter;
mod engine;
mod farm_file;
mod files;
mod frames;
mod guest;
mod guest_words;
mod host;
mod host_manager;
mod host_rules;
mod hypervisor;
mod images;
mod input;
mod kernel;
mod links;
mod load;
mod maps;
mod memory;
mod metrics;
mod monitor;
mod proc_files;
mod qmp;
mod reader;
mod recording;
mod remote;
mod rules_file;
mod terminal;
mod virtrpc;
mod web;
mod zvm;

pub use memory::{MEMORY_MAX_KIB, bounded};

/// A target's name, which is also the name of its directory under `fuzz/corpus`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("account_lists", accounts::account_lists),
    ("apt_files", images::apt_files),
    ("apt_sources", images::apt_sources),
    ("cache_record", images::cache_record),
    ("collect", hypervisor::collect),
    ("console", terminal::console),
    ("cpu_list", proc_files::cpu_list),
    ("crontab", guest_words::crontab),
    ("day_file", recording::day_file),
    ("domain_xml", hypervisor::domain_xml),
    ("escape", terminal::escape),
    ("experiment_result", files::experiment_result),
    ("farm_control", farm_file::farm_control),
    ("farm_exec", farm_file::farm_exec),
    ("farm_toml", farm_file::farm_toml),
    ("fleet_answers", engine::fleet_answers),
    ("frames", frames::frames),
    ("glob", hypervisor::glob),
    ("guest_counters", guest_words::guest_counters),
    ("guest_files", guest::guest_files),
    ("history", counter::history),
    ("host_control", host_manager::host_control),
    ("host_rules", host_rules::host_rules),
    ("host_toml", host_manager::host_toml),
    ("http_request", metrics::http_request),
    ("http_response", metrics::http_response),
    ("hypfs_files", zvm::hypfs_files),
    ("journal", files::journal),
    ("kernel_image", images::kernel_image),
    ("kernel_memory", guest_words::kernel_memory),
    ("kernel_module", images::kernel_module),
    ("link_frames", links::link_frames),
    ("load_answer", load::answer),
    ("load_rounds", load::rounds),
    ("load_target", load::target),
    ("metrics_answer", metrics::metrics_answer),
    ("monitor_answers", monitor::monitor_answers),
    ("monitor_records", zvm::monitor_records),
    ("monreader", zvm::monreader),
    ("monwrite_file", zvm::monwrite_file),
    ("pagemap", maps::pagemap),
    ("park_file", farm_file::park_file),
    ("parked_record", accounts::parked_record),
    ("passes", recording::passes),
    ("proc_cgroup", proc_files::cgroup),
    ("proc_counts", proc_files::counts),
    ("proc_entries", proc_files::entries),
    ("proc_loadavg", proc_files::loadavg),
    ("proc_meminfo", proc_files::meminfo),
    ("proc_pressure", proc_files::pressure),
    ("proc_stat", proc_files::stat),
    ("proc_task_stat", proc_files::task_stat),
    ("proc_tcp", proc_files::tcp),
    ("proc_vmstat", proc_files::vmstat),
    ("process_maps", maps::process_maps),
    ("qcow2", images::qcow2),
    ("qmp", qmp::qmp),
    ("qmp_replies", qmp::qmp_replies),
    ("raw_block", recording::raw_block),
    ("raw_chain", recording::raw_chain),
    ("reader", reader::reader),
    ("record_tar", recording::record_tar),
    ("remote_rounds", remote::remote_rounds),
    ("remote_uri", zvm::remote_uri),
    ("retired", counter::retired),
    ("rules_file", rules_file::rules_file),
    ("scan_sums", hypervisor::scan_sums),
    ("scenarios", files::scenarios),
    ("schedstat", proc_files::schedstat),
    ("sql_views", files::sql_views),
    ("steady", rules_file::steady),
    ("sthyi_page", zvm::sthyi_page),
    ("sysinfo_text", zvm::sysinfo_text),
    ("tier_record", files::tier_record),
    ("undo_record", host::undo_record),
    ("virtrpc", virtrpc::virtrpc),
    ("virtrpc_replies", virtrpc::virtrpc_replies),
    ("vmrm_notify", zvm::vmrm_notify),
    ("web_address", web::web_address),
    ("web_forms", web::web_forms),
    ("web_heads", web::web_heads),
];

/// Returns the function of the target with that name.
pub fn named(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(target, _)| *target == name).map(|(_, run)| *run)
}
