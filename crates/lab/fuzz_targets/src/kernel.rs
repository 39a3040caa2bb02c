//! Files of a kernel: in their usual state, and with arbitrary text.

use std::io;

use base::Kib;
use model::counters::KernelNames;
use procfs::testing::{MEMINFO, PRESSURE, VMSTAT};
use procfs::{Error, ProcFile, Source};
use rules::Machine;

/// Maximum number of lines of a sample.
pub(crate) const SAMPLE_LINES: usize = 16;

const STAT: &str = "cpu  200 20 100 2000 40 10 10 6 4 2\n\
                    cpu0 100 10 50 1000 20 5 5 3 2 1\n\
                    cpu1 100 10 50 1000 20 5 5 3 2 1\n\
                    intr 219532 0 0\n";

/// Returns a file of a healthy kernel.
fn sample(file: ProcFile) -> &'static [u8] {
    let text = match file {
        ProcFile::Stat => STAT,
        ProcFile::Loadavg => "1.26 1.14 1.01 9/186 25839\n",
        ProcFile::Meminfo => MEMINFO,
        ProcFile::Vmstat => VMSTAT,
        ProcFile::OnlineCpus => "0-1\n",
        ProcFile::Pressure(_) => PRESSURE,
    };
    text.as_bytes()
}

/// The files of a kernel, returned in pieces.
#[derive(Clone)]
pub(crate) struct Files<'a> {
    texts: [&'a [u8]; ProcFile::ALL.len()],
    piece: usize,
}

impl<'a> Files<'a> {
    /// Creates a healthy kernel with files in pieces of limited length.
    pub(crate) fn new(piece: usize) -> Files<'a> {
        Files { texts: ProcFile::ALL.map(sample), piece }
    }

    pub(crate) fn put(&mut self, file: ProcFile, text: &'a [u8]) {
        self.texts[file.index()] = text;
    }
}

impl Source for Files<'_> {
    fn read_at(&mut self, file: ProcFile, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let text = self.texts[file.index()];
        let rest = &text[text.len().min(at as usize)..];
        let count = rest.len().min(buf.len()).min(self.piece);
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Checks that an error names one of these files. The error must not be a failed read, because
/// every read succeeds.
pub(crate) fn names_its_file(error: &Error, files: &[ProcFile]) {
    let named = |file: &ProcFile| error.path().is_some_and(|path| path.ends_with(file.relative()));
    assert!(files.iter().any(named), "{error}");
    assert!(!matches!(error, Error::Read { .. }), "{error}");
}

/// Returns a guest of 1 GiB with a pool, four CPUs and the names of a 6.1 kernel.
pub(crate) fn machine() -> Machine {
    let names = |text: &str| text.split_ascii_whitespace().map(Box::from).collect();
    let names = KernelNames { meminfo: names(MEMINFO_6_1), vmstat: names(VMSTAT_6_1), psi: true };
    Machine {
        names: Some(names),
        cpus_usable: Some(4),
        memory: Some(Kib(1 << 20)),
        pool: Some(true),
    }
}

const MEMINFO_6_1: &str = "\
    MemTotal MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active(anon) \
    Inactive(anon) Active(file) Inactive(file) Unevictable Mlocked SwapTotal SwapFree Zswap \
    Zswapped Dirty Writeback AnonPages Mapped Shmem KReclaimable Slab SReclaimable SUnreclaim \
    KernelStack PageTables SecPageTables NFS_Unstable Bounce WritebackTmp CommitLimit \
    Committed_AS VmallocTotal VmallocUsed VmallocChunk Percpu HardwareCorrupted AnonHugePages \
    ShmemHugePages ShmemPmdMapped FileHugePages FilePmdMapped HugePages_Total HugePages_Free \
    HugePages_Rsvd HugePages_Surp Hugepagesize Hugetlb DirectMap4k DirectMap2M";

const VMSTAT_6_1: &str = "\
    nr_free_pages nr_zone_inactive_anon nr_zone_active_anon nr_zone_inactive_file \
    nr_zone_active_file nr_zone_unevictable nr_zone_write_pending nr_mlock nr_bounce nr_zspages \
    nr_free_cma numa_hit numa_miss numa_foreign numa_interleave numa_local numa_other \
    nr_inactive_anon nr_active_anon nr_inactive_file nr_active_file nr_unevictable \
    nr_slab_reclaimable nr_slab_unreclaimable nr_isolated_anon nr_isolated_file nr_anon_pages \
    nr_mapped nr_file_pages nr_dirty nr_writeback nr_writeback_temp nr_shmem nr_vmscan_write \
    nr_dirtied nr_written nr_kernel_stack nr_page_table_pages nr_swapcached pgpgin pgpgout pswpin \
    pswpout pgalloc_dma pgalloc_dma32 pgalloc_normal pgalloc_movable pgfree pgactivate \
    pgdeactivate pglazyfree pgfault pgmajfault pglazyfreed pgrefill pgreuse pgsteal_kswapd \
    pgsteal_direct pgdemote_kswapd pgdemote_direct pgscan_kswapd pgscan_direct \
    pgscan_direct_throttle pgscan_anon pgscan_file pgsteal_anon pgsteal_file zone_reclaim_failed \
    pginodesteal slabs_scanned kswapd_inodesteal kswapd_low_wmark_hit_quickly \
    kswapd_high_wmark_hit_quickly pageoutrun pgrotated drop_pagecache drop_slab oom_kill \
    compact_stall compact_fail compact_success unevictable_pgs_culled balloon_inflate \
    balloon_deflate balloon_migrate swap_ra swap_ra_hit zswpin zswpout";
