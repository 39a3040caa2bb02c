//! For tests: a kernel made of plain files, and sources that misbehave.
//!
//! ```
//! use model::counters::Counter;
//! use procfs::{Reader, testing::FakeKernel};
//!
//! let kernel = FakeKernel::new(2, 4);
//! let mut reader = Reader::open(&kernel.root(), &[Counter::OnlineCpus])?;
//! let mut row = [f64::NAN];
//! reader.read(0.0, &mut row)?;
//! assert_eq!(row, [2.0]);
//! # Ok::<(), procfs::Error>(())
//! ```

// A test that cannot create its tree cannot continue.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::file::{ProcFile, Root};
use crate::parse::cpulist::{self, CpuList};
use crate::source::Source;

/// The counts of each CPU in the fake /proc/stat.
pub const STAT_LINE: &str = "100 10 50 1000 20 5 5 3 2 1";

/// The fake /proc/meminfo.
pub const MEMINFO: &str = "MemTotal:         524288 kB\n\
                           MemFree:           59903 kB\n\
                           MemAvailable:      84977 kB\n\
                           Buffers:           42856 kB\n\
                           Cached:            35819 kB\n\
                           Active(anon):     157286 kB\n\
                           SwapTotal:       1048572 kB\n\
                           SwapFree:        1044922 kB\n\
                           HugePages_Total:       0\n";

/// The fake /proc/vmstat.
pub const VMSTAT: &str = "nr_free_pages 14975\n\
                          nr_dirty 7\n\
                          pgpgin 584546\n\
                          pgpgout 145549\n\
                          pswpin 335996\n\
                          pswpout 641887\n\
                          pgscan_kswapd 559507\n\
                          pgscan_direct 271743\n\
                          pgsteal_kswapd 90650\n\
                          pgsteal_direct 1200\n";

/// The fake files of /proc/pressure.
pub const PRESSURE: &str = "some avg10=0.12 avg60=0.29 avg300=0.41 total=9784276\n\
                            full avg10=0.01 avg60=0.02 avg300=0.03 total=4711\n";

/// The fake boot id.
pub const BOOT_ID: &str = "0e0e9a3c-7f6b-4a58-9d5e-5d2f3a1b7c44";

/// A new directory for a test's files, removed when this value is dropped.
#[derive(Debug)]
pub struct Tree(PathBuf);

impl Tree {
    /// Creates an empty directory.
    pub fn create() -> Tree {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinhead-test-{}-{serial}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        // A killed run with the same process id may have left a tree behind.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Tree(dir)
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and creates its directories. Returns the file's path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap_or(self)).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns a file's text. Panics if it does not exist.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.join(name)).unwrap()
    }

    /// Writes the /proc/PID/stat of a process with 12 major faults.
    pub fn process(&self, pid: u32, name: &str, state: char, start_ticks: u64) {
        let stat = format!(
            "{pid} ({name}) {state} 1 1 1 0 -1 4194560 900 0 12 0 50 60 0 0 20 0 3 0 \
             {start_ticks} 300000000 2500 18446744073709551615\n"
        );
        self.file(&format!("proc/{pid}/stat"), &stat);
    }

    /// Writes the files of KSM, and two processes named ksmd. The second is the kernel's thread.
    pub fn ksm(&self) {
        for (name, text) in [
            ("run", "0\n"),
            ("pages_to_scan", "77\n"),
            ("sleep_millisecs", "200\n"),
            ("advisor_mode", "none [scan-time]\n"),
            ("pages_shared", "10\n"),
            ("pages_sharing", "512\n"),
            ("general_profit", "-4096\n"),
        ] {
            self.file(&format!("sys/kernel/mm/ksm/{name}"), text);
        }
        for (pid, parent) in [(40, 1), (41, 2)] {
            let text =
                format!("{pid} (ksmd) S {parent} 0 0 0 -1 0 0 0 0 0 7 5 0 0 25 5 1 0 33 0 0\n");
            self.file(&format!("proc/{pid}/stat"), &text);
        }
        self.file("proc/uptime", "1 1\n");
    }
}

impl Deref for Tree {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A remaining tree does no harm, and a panic here would hide the test's own result.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A directory with the parts of /proc and /sys that pinhead reads. Its files do not react to
/// writes. [`FakeKernel::settle`] does what a kernel does after a CPU's `online` file was written.
#[derive(Debug)]
pub struct FakeKernel {
    dir: Tree,
}

impl FakeKernel {
    /// Creates a kernel with `present` CPUs of which the first `online` are online. As on x86, cpu0
    /// has no `online` file; there are no files `configure` and `dispatching`.
    pub fn new(online: u32, present: u32) -> FakeKernel {
        let kernel = FakeKernel { dir: Tree::create() };
        kernel.write("proc/loadavg", "1.26 1.14 1.01 9/186 25839\n");
        kernel.write("proc/meminfo", MEMINFO);
        kernel.write("proc/vmstat", VMSTAT);
        for file in ["cpu", "memory", "io"] {
            kernel.write(&format!("proc/pressure/{file}"), PRESSURE);
        }
        kernel.write("proc/sys/kernel/random/boot_id", &format!("{BOOT_ID}\n"));
        let all: CpuList = (0..present).collect();
        kernel.write("sys/devices/system/cpu/present", &format!("{all}\n"));
        kernel.write("sys/devices/system/cpu/possible", &format!("{all}\n"));
        for cpu in 0..present {
            fs::create_dir_all(kernel.dir.join(format!("sys/devices/system/cpu/cpu{cpu}")))
                .unwrap();
            if cpu > 0 {
                kernel.write_cpu(cpu, "online", if cpu < online { "1\n" } else { "0\n" });
            }
        }
        kernel.settle();
        kernel
    }

    /// Creates a kernel as on s390x: cpu0 can go offline, each CPU is configured, and dispatching
    /// is horizontal; there is a CMM pool of `cmm_pages`.
    pub fn s390x(online: u32, present: u32, cmm_pages: u64) -> FakeKernel {
        let kernel = FakeKernel::new(online, present);
        kernel.write_cpu(0, "online", "1\n");
        for cpu in 0..present {
            kernel.write_cpu(cpu, "configure", "1\n");
        }
        kernel.write("sys/devices/system/cpu/dispatching", "0\n");
        kernel.write("proc/sys/vm/cmm_pages", &format!("{cmm_pages}\n"));
        kernel.write("proc/sys/vm/cmm_timed_pages", "0\n");
        kernel
    }

    /// Returns the root for the tested code.
    pub fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    /// Returns the path of `relative`.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.join(relative)
    }

    /// Writes a file, and creates its directories.
    pub fn write(&self, relative: &str, text: &str) {
        self.dir.file(relative, text);
    }

    /// Writes a file of a CPU: `online`, `configure`.
    pub fn write_cpu(&self, cpu: u32, file: &str, text: &str) {
        self.write(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"), text);
    }

    /// Returns a file's text. Panics if it does not exist.
    pub fn read(&self, relative: &str) -> String {
        self.dir.read(relative)
    }

    /// Removes a file or a directory with its content.
    pub fn remove(&self, relative: &str) {
        let path = self.path(relative);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    /// Replaces a file by a directory, so that every read and write of the file fails, even for
    /// root, which ignores permissions. An open handle still has the old file; [`Faulty`] makes
    /// reads of such a handle fail.
    pub fn break_file(&self, relative: &str) {
        let path = self.path(relative);
        if path.is_file() {
            fs::remove_file(&path).unwrap();
        }
        fs::create_dir_all(path).unwrap();
    }

    /// Adds a process. A kernel thread has an empty `cmdline`.
    pub fn add_process(&self, pid: u32, comm: &str, cmdline: &str, cpus_allowed: &str) {
        let status = format!("Name:\t{comm}\nPid:\t{pid}\nCpus_allowed_list:\t{cpus_allowed}\n");
        self.write(&format!("proc/{pid}/comm"), &format!("{comm}\n"));
        self.write(&format!("proc/{pid}/cmdline"), cmdline);
        self.write(&format!("proc/{pid}/status"), &status);
    }

    /// Reacts like a kernel after CPUs were plugged: makes the list of CPUs online and the lines of
    /// /proc/stat agree with the CPUs' `online` files. A CPU without such a file is online.
    pub fn settle(&self) {
        let online: CpuList = self.present().iter().filter(|cpu| self.is_online(*cpu)).collect();
        self.write("sys/devices/system/cpu/online", &format!("{online}\n"));
        let mut stat = format!("cpu  {STAT_LINE}\n");
        for cpu in online.iter() {
            stat += &format!("cpu{cpu} {STAT_LINE}\n");
        }
        stat += "intr 219532 0 0 0\nctxt 464956\nbtime 1290000000\n";
        self.write("proc/stat", &stat);
    }

    /// Returns the CPUs that are online by their `online` file, or have no such file.
    pub fn online(&self) -> Vec<u32> {
        self.present().iter().filter(|cpu| self.is_online(*cpu)).collect()
    }

    fn present(&self) -> CpuList {
        cpulist::parse(self.read("sys/devices/system/cpu/present").as_bytes()).unwrap()
    }

    fn is_online(&self, cpu: u32) -> bool {
        let file = self.path(&format!("sys/devices/system/cpu/cpu{cpu}/online"));
        fs::read(file).map_or(true, |text| text.starts_with(b"1"))
    }
}

/// A source that fails one read, or returns its bytes in small pieces.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    /// Number of reads tried.
    pub reads: usize,
    /// Number of the read that fails, counted from 0.
    pub fail_at: Option<usize>,
    /// Maximum number of bytes returned at once.
    pub most_bytes: usize,
    /// True if every other read is interrupted with EINTR.
    pub interrupts: bool,
}

impl<S> Faulty<S> {
    /// Creates a source that behaves as `inner` until its fields are changed.
    pub fn new(inner: S) -> Faulty<S> {
        Faulty { inner, reads: 0, fail_at: None, most_bytes: usize::MAX, interrupts: false }
    }

    /// Returns the source underneath.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }
}

impl<S: Source> Source for Faulty<S> {
    fn read_at(&mut self, file: ProcFile, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let number = self.reads;
        self.reads += 1;
        if self.fail_at == Some(number) {
            return Err(io::Error::other("a fault that the test asked for"));
        }
        if self.interrupts && number.is_multiple_of(2) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let room = buf.len().min(self.most_bytes);
        self.inner.read_at(file, &mut buf[..room], at)
    }

    fn path(&self, file: ProcFile) -> PathBuf {
        self.inner.path(file)
    }
}
