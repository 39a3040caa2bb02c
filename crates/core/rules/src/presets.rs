//! The published configurations as rules files, to use and to learn from, and one configuration by
//! pinhead.
//!
//! The presets come from IBM's study of `cpuplugd` on z/VM guests, except `cpu-steady`, which is
//! pinhead's own. A preset is composed of a few parts, like the study's own tables, so that each
//! rule is written once. `pinhead presets NAME`
//! prints a whole file with comments.

/// A rules file that ships with pinhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The preset's name on the command line.
    pub name: &'static str,
    /// The preset's purpose, in one sentence.
    pub summary: &'static str,
    /// True if the preset uses pinhead's additions, which the original refuses.
    is_extended: bool,
    update: u8,
    parts: &'static [&'static str],
}

const LOAD_AVERAGE: &str = include_str!("presets/load-average.conf");
const STEADY_LOAD_AVERAGE: &str = include_str!("presets/load-average-steady.conf");
const REAL_LOAD: &str = include_str!("presets/real-load.conf");
const REAL_LOAD_2_SECONDS: &str = include_str!("presets/real-load-2-seconds.conf");
const REAL_LOAD_5_SECONDS: &str = include_str!("presets/real-load-5-seconds.conf");
const NO_MEMORY: &str = include_str!("presets/no-memory.conf");
const POOL: &str = include_str!("presets/pool.conf");
const PLUG_DIRECT_SCANS: &str = include_str!("presets/plug-direct-scans.conf");
const PLUG_ALL_SCANS: &str = include_str!("presets/plug-all-scans.conf");
const PLUG_SCANS_NOT_TAKEN: &str = include_str!("presets/plug-scans-not-taken.conf");
const UNPLUG_FREE: &str = include_str!("presets/unplug-free.conf");
const UNPLUG_HALF_CACHE: &str = include_str!("presets/unplug-half-cache.conf");
const UNPLUG_CACHE_10: &str = include_str!("presets/unplug-cache-10.conf");
const UNPLUG_CACHE_5: &str = include_str!("presets/unplug-cache-5.conf");
const UNPLUG_CACHE_5_FAST: &str = include_str!("presets/unplug-cache-5-fast.conf");

/// Every preset; the first is the default.
pub const PRESETS: [Preset; 13] = [
    Preset {
        name: "default",
        summary: "IBM's recommendation for most guests: CPUs by CPU time, memory as in memory-4",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_DIRECT_SCANS, UNPLUG_CACHE_10],
    },
    Preset {
        name: "cpu-loadavg",
        summary: "CPUs by load average: easy to read, slow to follow; memory is left alone",
        is_extended: false,
        update: 1,
        parts: &[LOAD_AVERAGE, NO_MEMORY],
    },
    Preset {
        name: "cpu-real-load",
        summary: "CPUs by the CPU time really used; memory is left alone",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, NO_MEMORY],
    },
    Preset {
        name: "cpu-steady",
        summary: "CPUs by load average, switched rarely; memory is left alone",
        is_extended: true,
        update: 1,
        parts: &[STEADY_LOAD_AVERAGE, NO_MEMORY],
    },
    Preset {
        name: "memory-1",
        summary: "MEMPLUG on any scan, MEMUNPLUG on much free memory or cache: the most throughput",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_ALL_SCANS, UNPLUG_HALF_CACHE],
    },
    Preset {
        name: "memory-2",
        summary: "MEMPLUG on any scan, MEMUNPLUG on free memory: the cache never counts as spare",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_ALL_SCANS, UNPLUG_FREE],
    },
    Preset {
        name: "memory-3",
        summary: "MEMPLUG on any scan, MEMUNPLUG on free memory and cache together",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_ALL_SCANS, UNPLUG_CACHE_10],
    },
    Preset {
        name: "memory-4",
        summary: "for servers with several tasks: MEMPLUG on direct scans; the same as `default`",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_DIRECT_SCANS, UNPLUG_CACHE_10],
    },
    Preset {
        name: "memory-5",
        summary: "MEMPLUG when the kernel scans more pages than it reclaims",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_SCANS_NOT_TAKEN, UNPLUG_CACHE_10],
    },
    Preset {
        name: "memory-7",
        summary: "for web and application servers: gives up all but 5 % of the memory",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_DIRECT_SCANS, UNPLUG_CACHE_5],
    },
    Preset {
        name: "memory-8",
        summary: "for database servers: as memory-7, but gives up the cache as fast as free memory",
        is_extended: false,
        update: 1,
        parts: &[REAL_LOAD, POOL, PLUG_DIRECT_SCANS, UNPLUG_CACHE_5_FAST],
    },
    Preset {
        name: "memory-9",
        summary: "memory-2 with an interval of 2 seconds",
        is_extended: false,
        update: 2,
        parts: &[REAL_LOAD_2_SECONDS, POOL, PLUG_ALL_SCANS, UNPLUG_FREE],
    },
    Preset {
        name: "memory-10",
        summary: "memory-2 with an interval of 5 seconds",
        is_extended: false,
        update: 5,
        parts: &[REAL_LOAD_5_SECONDS, POOL, PLUG_ALL_SCANS, UNPLUG_FREE],
    },
];

/// Returns the preset with that name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}

impl Preset {
    /// Returns the rules file.
    pub fn text(&self) -> String {
        let head = match self.is_extended {
            true => "A rules file for pinheadd; IBM's cpuplugd refuses it.\n\nLANGUAGE=\"2\"",
            false => "A rules file for pinheadd, and as well for IBM's cpuplugd.",
        };
        format!(
            "# {}: {}.\n#\n# {head}\n\n\
             # Seconds between two samples.\nUPDATE=\"{}\"\n\n\
             # At least one CPU stays online; CPU_MAX 0 allows all CPUs present.\n\
             CPU_MIN=\"1\"\nCPU_MAX=\"0\"\n\n{}",
            self.name,
            self.summary,
            self.update,
            self.parts.join("\n")
        )
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
