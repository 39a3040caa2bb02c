//! The published configurations, as rules files to use and to learn from.
//!
//! They come from IBM's study of `cpuplugd` on z/VM guests. A preset is put together
//! from a few parts, as the study's own tables are, so that the same rule is written
//! once; what `pinhead presets NAME` prints is a whole file with comments.

/// A rules file that ships with pinhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for, in one sentence.
    pub summary: &'static str,
    update: u8,
    cpu: Cpu,
    memory: Option<Memory>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cpu {
    LoadAvg,
    /// The mean of two intervals, each given by its newer and its older end.
    RealLoad {
        then: Option<(u8, u8)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    wanted: Wanted,
    spare: Spare,
    inc: Inc,
}

/// When memory is plugged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    DirectScans,
    AllScans,
    ScannedNotStolen,
}

/// When memory is unplugged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spare {
    FreeOrHalfCache,
    Free,
    FreeAndCache { percent: u8 },
}

/// How fast the pool grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inc {
    Free,
    FreeAndAllCache,
    FreeAndCache,
}

const AGO_3: Cpu = Cpu::RealLoad { then: Some((2, 3)) };

const fn memory(wanted: Wanted, spare: Spare, inc: Inc) -> Option<Memory> {
    Some(Memory { wanted, spare, inc })
}

/// Every preset; the first is the default.
pub const PRESETS: [Preset; 12] = [
    Preset {
        name: "default",
        summary: "the study's recommendation for most guests: CPUs by real load, memory 4",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::DirectScans, Spare::FreeAndCache { percent: 10 }, Inc::Free),
    },
    Preset {
        name: "cpu-loadavg",
        summary: "CPUs by load average: easy to read, slow to follow; memory is left alone",
        update: 1,
        cpu: Cpu::LoadAvg,
        memory: None,
    },
    Preset {
        name: "cpu-real-load",
        summary: "CPUs by what was really used; memory is left alone",
        update: 1,
        cpu: AGO_3,
        memory: None,
    },
    Preset {
        name: "memory-1",
        summary: "any scan plugs, free memory or a large cache unplugs: keeps the most throughput",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::AllScans, Spare::FreeOrHalfCache, Inc::FreeAndAllCache),
    },
    Preset {
        name: "memory-2",
        summary: "any scan plugs, free memory unplugs: the cache is never counted as spare",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::AllScans, Spare::Free, Inc::Free),
    },
    Preset {
        name: "memory-3",
        summary: "any scan plugs, free memory with the cache unplugs",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::AllScans, Spare::FreeAndCache { percent: 10 }, Inc::Free),
    },
    Preset {
        name: "memory-4",
        summary: "for servers that do several things: as the default",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::DirectScans, Spare::FreeAndCache { percent: 10 }, Inc::Free),
    },
    Preset {
        name: "memory-5",
        summary: "plugs when the kernel scans more pages than it finds to take",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::ScannedNotStolen, Spare::FreeAndCache { percent: 10 }, Inc::Free),
    },
    Preset {
        name: "memory-7",
        summary: "for web and application servers: gives up all but 5 % of the memory",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::DirectScans, Spare::FreeAndCache { percent: 5 }, Inc::Free),
    },
    Preset {
        name: "memory-8",
        summary: "for database servers: as memory-7, and the cache goes as fast as free memory",
        update: 1,
        cpu: AGO_3,
        memory: memory(Wanted::DirectScans, Spare::FreeAndCache { percent: 5 }, Inc::FreeAndCache),
    },
    Preset {
        name: "memory-9",
        summary: "memory-2, looking every 2 seconds",
        update: 2,
        cpu: Cpu::RealLoad { then: Some((1, 2)) },
        memory: memory(Wanted::AllScans, Spare::Free, Inc::Free),
    },
    Preset {
        name: "memory-10",
        summary: "memory-2, looking every 5 seconds",
        update: 5,
        cpu: Cpu::RealLoad { then: None },
        memory: memory(Wanted::AllScans, Spare::Free, Inc::Free),
    },
];

/// The preset of that name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

impl Preset {
    /// The rules file.
    pub fn text(&self) -> String {
        let mut out = Lines(String::new());
        out.add(&format!("# {}: {}.", self.name, self.summary));
        out.add("#");
        out.add("# A rules file for pinheadd, and as well for IBM's cpuplugd.");
        out.add("");
        out.add("# Seconds between two looks.");
        out.set("UPDATE", &self.update.to_string());
        out.add("");
        out.add("# At least one CPU stays online; 0 allows all that are present.");
        out.set("CPU_MIN", "1");
        out.set("CPU_MAX", "0");
        out.add("");
        match self.cpu {
            Cpu::LoadAvg => load_average(&mut out),
            Cpu::RealLoad { then } => real_load(&mut out, then),
        }
        out.add("");
        match self.memory {
            Some(memory) => memory.write(&mut out),
            None => {
                out.add("# Memory is left alone: none of the CMM settings is there.");
            }
        }
        out.0
    }
}

struct Lines(String);

impl Lines {
    fn add(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn set(&mut self, name: &str, value: &str) {
        self.add(&format!("{name}=\"{value}\""));
    }
}

fn load_average(out: &mut Lines) {
    out.add("# More are runnable than there are CPUs, and those have no time left.");
    out.set("HOTPLUG", "(loadavg > onumcpus + 0.75) & (idle < 10.0)");
    out.add("# Fewer are runnable than there are CPUs, or half a CPU does nothing.");
    out.set("HOTUNPLUG", "(loadavg < onumcpus - 0.25) | (idle > 50)");
}

fn real_load(out: &mut Lines, then: Option<(u8, u8)>) {
    match then {
        Some((2, 3)) => out.add(
            "# Shares of the CPU time: of this interval (0) and of the third before (2), so that \
             a\n# single spike decides nothing. Stolen time is in neither share: a CPU more would \
             only\n# make the others wait longer.",
        ),
        Some(_) => {
            out.add("# Shares of the CPU time: of this interval (0) and of the one before (1).")
        }
        None => out.add("# Shares of the CPU time of this interval."),
    }
    let mut active = Vec::new();
    let mut idle = Vec::new();
    for (new, old) in [Some((0, 1)), then].into_iter().flatten() {
        let delta = |name: &str| format!("(cpustat.{name}[{new}] - cpustat.{name}[{old}])");
        let total = delta("total_ticks");
        let sum = |names: &[&str]| names.iter().map(|n| delta(n)).collect::<Vec<_>>().join(" + ");
        let busy = sum(&["user", "nice", "system"]);
        let spare = sum(&["idle", "iowait"]);
        out.set(&format!("CP_Active{new}"), &format!("({busy}) / {total}"));
        out.set(&format!("CP_idle{new}"), &format!("({spare}) / {total}"));
        active.push(format!("CP_Active{new}"));
        idle.push(format!("CP_idle{new}"));
    }
    let mean = |parts: &[String]| match parts {
        [one] => one.clone(),
        _ => format!("({}) / {}", parts.join(" + "), parts.len()),
    };
    out.set("CP_ActiveAVG", &mean(&active));
    out.set("CP_idleAVG", &mean(&idle));
    out.add("# Less than 8 % of one CPU is left: one more.");
    out.set("HOTPLUG", "((1 - CP_ActiveAVG) * onumcpus) < 0.08");
    out.add("# More than one whole CPU does nothing: one less.");
    out.set("HOTUNPLUG", "(CP_idleAVG * onumcpus) > 1.15");
}

impl Memory {
    fn write(self, out: &mut Lines) {
        out.add("# The pool, in pages of 4 KiB: up to a guest of 5 GiB less 256 MiB.");
        out.set("CMM_MIN", "0");
        out.set("CMM_MAX", "1245184");
        out.add("");
        self.wanted.write(out);
        out.add("");
        self.spare.write(out, self.inc);
    }
}

impl Wanted {
    fn write(self, out: &mut Lines) {
        let family = |family: &str, zones: [&str; 3], age: u8| {
            zones.map(|zone| format!("vmstat.{family}_{zone}[{age}]")).join(" + ")
        };
        const ZONES: [&str; 3] = ["dma", "normal", "movable"];
        let direct = |age| family("pgscan_direct", ZONES, age);
        let kswapd = |age| family("pgscan_kswapd", ZONES, age);
        let ticks = "(cpustat.total_ticks[0] - cpustat.total_ticks[1])";
        match self {
            Wanted::DirectScans => {
                out.add("# Pages that processes had to look through themselves to find memory,");
                out.add("# per tick: where it happens, somebody has already waited.");
                out.set("pgscan_d", &direct(0));
                out.set("pgscan_d1", &direct(1));
                out.set("pgscanrate", &format!("(pgscan_d - pgscan_d1) / {ticks}"));
            }
            Wanted::AllScans => {
                out.add("# Pages that the kernel looked through to find memory, per tick: in the");
                out.add("# background (k), a soft sign, and for a process that waits (d).");
                out.set("pgscan_k", &kswapd(0));
                out.set("pgscan_d", &direct(0));
                out.set("pgscan_k1", &kswapd(1));
                out.set("pgscan_d1", &direct(1));
                let rate = format!("(pgscan_k + pgscan_d - pgscan_k1 - pgscan_d1) / {ticks}");
                out.set("pgscanrate", &rate);
            }
            Wanted::ScannedNotStolen => {
                out.add("# Pages looked through and pages taken, over two intervals.");
                let steal = |age| {
                    let zones = family("pgsteal", ZONES, age);
                    format!("{zones} + vmstat.kswapd_steal[{age}]")
                };
                out.set("pgscan_k", &kswapd(0));
                out.set("pgscan_d", &direct(0));
                out.set("pgscan_k2", &kswapd(2));
                out.set("pgscan_d2", &direct(2));
                out.set("pgscanrate", "pgscan_k + pgscan_d - pgscan_k2 - pgscan_d2");
                out.set("pgsteal", &steal(0));
                out.set("pgsteal2", &steal(2));
                out.set("pgstealrate", "pgsteal - pgsteal2");
            }
        }
        out.add("# Memory comes back in few, large steps: a tenth of the guest (KiB to pages).");
        out.set("CMM_DEC", "meminfo.MemTotal / 40");
        match self {
            Wanted::ScannedNotStolen => out.set("MEMPLUG", "pgscanrate > pgstealrate"),
            _ => out.set("MEMPLUG", "pgscanrate > 20"),
        }
    }
}

impl Spare {
    fn write(self, out: &mut Lines, inc: Inc) {
        match self {
            Spare::FreeOrHalfCache => {
                out.add("# All that the kernel caches.");
                out.set("cache", "meminfo.Cached + meminfo.Buffers");
            }
            Spare::Free => {}
            Spare::FreeAndCache { .. } => {
                out.add("# The page cache that can go: shared memory counts as cache, but cannot.");
                out.set("avail_cache", "meminfo.Cached - meminfo.Shmem");
            }
        }
        out.add("# The pool grows by a tenth of what is spare, thus slower near the limit.");
        out.set(
            "CMM_INC",
            match inc {
                Inc::Free => "meminfo.MemFree / 40",
                Inc::FreeAndAllCache => "(meminfo.MemFree + cache) / 40",
                Inc::FreeAndCache => "(meminfo.MemFree + avail_cache) / 40",
            },
        );
        let rule = match self {
            Spare::FreeOrHalfCache => {
                "(meminfo.MemFree > meminfo.MemTotal / 10) | (cache > meminfo.MemTotal / 2)".into()
            }
            Spare::Free => "meminfo.MemFree > meminfo.MemTotal / 10".to_string(),
            Spare::FreeAndCache { percent } => {
                let part = 100 / percent;
                format!("(meminfo.MemFree + avail_cache) > (meminfo.MemTotal / {part})")
            }
        };
        out.set("MEMUNPLUG", &rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, compile, parse};

    #[test]
    fn every_preset_is_a_file_without_errors_or_warnings() {
        for preset in PRESETS {
            let text = preset.text();
            let (file, mut found) = parse(text.as_bytes());
            let (program, more) = compile(&file, &Machine::default());
            found.extend(more);
            found.retain(|d| d.code != "group-off");
            assert_eq!(found, [], "{}\n{text}", preset.name);
            let program = program.unwrap();
            assert!(program.cpu.is_some(), "{}", preset.name);
            assert_eq!(program.memory.is_some(), !preset.name.starts_with("cpu-"));
            assert!(text.lines().all(|line| line.len() <= crate::file::MAX_LINE));
        }
    }
}
