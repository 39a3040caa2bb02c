//! From what was typed in to what holds: defaults, and what must be true of several keys together.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use base::{Bytes, glob};
use hypervisor::QMP_PATTERNS;

use super::Place;
use super::raw::{Maybe, Raw, RawClass, Typed, shown};
use super::settings::{
    Class, ControlSettings, DAY_MS, HostSettings, JournalSettings, KsmMode, Libvirt,
    MetricsSettings, MonitorSettings, PolicySettings, SHARES, Settings, Sources,
};
use settings::{Fault, Share};

/// The directories that a user's sockets are in, mostly.
const USUAL_RUNTIME_DIR: &str = "/run/user/*";
/// A shorter interval would be spent on reading, and guests answer no faster.
const INTERVAL_MIN_MS: u64 = 100;
/// With a longer one a lease would run out between two passes.
const INTERVAL_MAX_MS: u64 = 10_000;
/// With all of it taxed away, an idle guest would have no claim at all.
const IDLE_TAX_MAX: u64 = 990;
/// A journal that holds a day of a hundred guests.
const JOURNAL_MIN: Bytes = Bytes::mib(1);

/// Engines take a sample a second, and show nothing of what comes less than once a minute.
const PUSH_MS: RangeInclusive<u64> = 1_000..=60_000;

struct Builder<'a> {
    text: &'a str,
    place: &'a Place,
    errors: &'a mut Vec<Fault>,
}

/// Builds the settings; what is wrong is added to the errors.
pub(super) fn build(raw: Raw, place: &Place, text: &str, errors: &mut Vec<Fault>) -> Settings {
    let mut builder = Builder { text, place, errors };
    let host = builder.host(&raw);
    builder.paths(&raw);
    builder.policy(&raw);
    builder.metrics(&raw);
    let classes = builder.classes(&raw.classes);
    let journal = JournalSettings {
        path: given(raw.journal).map(PathBuf::from).or_else(|| default_journal(place)),
        keep_ms: given(raw.keep_ms).unwrap_or(30 * DAY_MS),
        max_size: given(raw.max_size).unwrap_or(Bytes::mib(200)),
    };
    let beside = journal.path.as_ref().and_then(|path| Some(path.parent()?.join("recordings")));
    Settings {
        host,
        sources: Sources {
            qmp: given(raw.qmp).unwrap_or_else(|| default_qmp(place)),
            libvirt: given(raw.libvirt).unwrap_or(Libvirt::Auto),
        },
        policy: PolicySettings {
            idle_tax_permille: given(raw.idle_tax).unwrap_or(750),
            step_permille: given(raw.step).unwrap_or(125),
            rules: given(raw.rules).map(PathBuf::from),
            shadow: given(raw.shadow).map(PathBuf::from),
        },
        classes,
        ksm: given(raw.ksm).unwrap_or(KsmMode::Auto),
        journal,
        monitor: MonitorSettings {
            record: given(raw.record).unwrap_or(true),
            dir: given(raw.records).map(PathBuf::from).or(beside),
            minutes_ms: given(raw.minutes_ms).unwrap_or(3 * DAY_MS),
            quarters_ms: given(raw.quarters_ms).unwrap_or(90 * DAY_MS),
            max_size: given(raw.records_size).unwrap_or(Bytes::mib(1024)),
            raw_ms: given(raw.raw_ms).unwrap_or(DAY_MS),
            raw_size: given(raw.raw_size).unwrap_or(Bytes::mib(256)),
        },
        control: ControlSettings {
            socket: given(raw.socket).map(PathBuf::from).or_else(|| default_socket(place)),
            group: given(raw.group),
        },
        metrics: MetricsSettings {
            listen: given(raw.listen),
            remote_write: given(raw.remote_write),
            interval_ms: given(raw.push_ms).unwrap_or(5_000),
            host: given(raw.host_name),
            processes: given(raw.processes).unwrap_or_default(),
        },
    }
}

fn given<T>(typed: Maybe<T>) -> Option<T> {
    typed.map(|typed| typed.value)
}

fn default_qmp(place: &Place) -> Vec<String> {
    let own = place.runtime_dir.as_ref().and_then(|dir| dir.to_str());
    let own = own.filter(|dir| !glob::matches(USUAL_RUNTIME_DIR, dir));
    let own = own.map(|dir| format!("{dir}/pinhead/up/*/*.qmp"));
    QMP_PATTERNS.iter().map(|glob| (*glob).to_owned()).chain(own).collect()
}

fn default_journal(place: &Place) -> Option<PathBuf> {
    match place.is_root {
        true => Some("/var/lib/pinhead/journal.db".into()),
        false => place.state_dir.as_ref().map(|dir| dir.join("pinhead/journal.db")),
    }
}

fn default_socket(place: &Place) -> Option<PathBuf> {
    match place.is_root {
        true => Some("/run/pinhead/host.sock".into()),
        false => place.runtime_dir.as_ref().map(|dir| dir.join("pinhead/host.sock")),
    }
}

impl Builder<'_> {
    fn tell(&mut self, span: &Range<usize>, key: &str, message: String, help: &str) {
        self.errors.push(Fault::new(self.text, span.clone(), key, message).help(help));
    }

    fn host(&mut self, raw: &Raw) -> HostSettings {
        let value = |typed: &Maybe<Share>, default| typed.as_ref().map_or(default, |t| t.value);
        let host = HostSettings {
            set_point: value(&raw.set_point, Share::Permille(100)),
            hysteresis: value(&raw.hysteresis, Share::Permille(10)),
            reserve: value(&raw.reserve, Share::Permille(30)),
            budget: raw.budget.as_ref().map(|typed| typed.value),
            interval_ms: raw.interval_ms.as_ref().map_or(1000, |typed| typed.value),
        };
        self.set_point(raw, &host);
        if let Some(budget) = &raw.budget
            && budget.value.of(Bytes(1000)) == Bytes::ZERO
        {
            let help = "leave it out to give guests all that the host has";
            self.tell(&budget.span, "host.budget", "guests could use nothing".to_owned(), help);
        }
        if let Some(interval) = &raw.interval_ms
            && !(INTERVAL_MIN_MS..=INTERVAL_MAX_MS).contains(&interval.value)
        {
            let message = "too short or too long for a pass".to_owned();
            self.tell(&interval.span, "host.interval", message, "from \"100ms\" to \"10s\"");
        }
        host
    }

    /// reserve < set point, hysteresis < set point - reserve, set point < all.
    fn set_point(&mut self, raw: &Raw, host: &HostSettings) {
        let [set_point, reserve, hysteresis] =
            self.comparable([host.set_point, host.reserve, host.hysteresis]);
        let place = |typed: [&Maybe<Share>; 3]| {
            typed.into_iter().flatten().next().map(|typed| typed.span.clone())
        };
        let (sp, rs, hy) = (&raw.set_point, &raw.reserve, &raw.hysteresis);
        if let Some(typed) = sp
            && (typed.value == Share::Permille(1000)
                || self.place.host_total.is_some_and(|total| typed.value.of(total) >= total))
        {
            let message = "nothing would be left for guests".to_owned();
            self.tell(&typed.span, "host.set_point", message, "usual is \"10%\"");
        }
        let (Some(set_point), Some(reserve)) = (set_point, reserve) else { return };
        if reserve >= set_point {
            let Some(span) = place([rs, sp, hy]) else { return };
            let message = format!(
                "the reserve ({}) is not below the set point ({})",
                host.reserve, host.set_point
            );
            let help = "grants stop at the reserve, so the set point must be above it";
            self.tell(&span, "host.reserve", message, help);
        } else if let Some(hysteresis) = hysteresis
            && hysteresis >= set_point - reserve
        {
            let Some(span) = place([hy, sp, rs]) else { return };
            let message = format!(
                "the hysteresis ({}) reaches from the set point ({}) to the reserve ({})",
                host.hysteresis, host.set_point, host.reserve
            );
            let help = "make it smaller than what is between the two";
            self.tell(&span, "host.hysteresis", message, help);
        }
    }

    /// Numbers that can be compared with each other: parts with parts, sizes with sizes, and
    /// both where the host's memory is known.
    fn comparable<const N: usize>(&self, shares: [Share; N]) -> [Option<u64>; N] {
        let are_parts = shares.iter().all(|share| matches!(share, Share::Permille(_)));
        shares.map(|share| match (share, self.place.host_total) {
            (Share::Permille(permille), _) if are_parts => Some(permille),
            (Share::Bytes(bytes), _) => Some(bytes.0),
            (Share::Permille(_), total) => total.map(|total| share.of(total).0),
        })
    }

    fn paths(&mut self, raw: &Raw) {
        let paths = [
            ("journal.path", &raw.journal),
            ("monitor.dir", &raw.records),
            ("control.socket", &raw.socket),
        ];
        for (key, path) in paths {
            if let Some(typed) = path
                && !typed.value.starts_with('/')
            {
                let message = format!("`{}` is no absolute path", shown(&typed.value));
                self.tell(&typed.span, key, message, "begin it with a slash");
            }
        }
        if let Some(typed) = &raw.socket
            && typed.value.len() > SOCKET_MAX
        {
            let message = format!("a path of {} bytes", typed.value.len());
            self.tell(&typed.span, "control.socket", message, "at most 100 fit in a socket's name");
        }
        if let Some(typed) = &raw.max_size
            && typed.value < JOURNAL_MIN
        {
            let message = "too small for a journal".to_owned();
            self.tell(&typed.span, "journal.max_size", message, "at least \"1 MiB\"");
        }
        let globs = raw.qmp.iter().flat_map(|typed| &typed.value);
        let relative: Vec<_> = globs.filter(|glob| !glob.starts_with('/')).cloned().collect();
        for (glob, typed) in relative.iter().zip(raw.qmp.iter().cycle()) {
            let message = format!("`{}` is no absolute path", shown(glob));
            self.tell(&typed.span, "sources.qmp", message, "begin it with a slash");
        }
    }

    fn metrics(&mut self, raw: &Raw) {
        if let Some(typed) = &raw.push_ms
            && !PUSH_MS.contains(&typed.value)
        {
            let message = "too short or too long between two pushes".to_owned();
            self.tell(&typed.span, "metrics.interval", message, "from \"1s\" to \"60s\"");
        }
    }

    fn policy(&mut self, raw: &Raw) {
        if let Some(typed) = &raw.idle_tax
            && typed.value > IDLE_TAX_MAX
        {
            let message = "idle memory would be worth nothing".to_owned();
            self.tell(&typed.span, "policy.idle_tax", message, "at most \"99%\"; usual is \"75%\"");
        }
        if let Some(typed) = &raw.step
            && typed.value == 0
        {
            let message = "no guest would ever give anything".to_owned();
            self.tell(&typed.span, "policy.step", message, "usual is \"12.5%\"");
        }
    }

    fn classes(&mut self, raw: &[RawClass]) -> Vec<Class> {
        let mut classes: Vec<Class> = Vec::new();
        for class in raw {
            self.compare(class);
            let (Some(name), Some(patterns)) = (&class.name, &class.patterns) else {
                if !class.is_told {
                    let message = "a class needs a name and patterns".to_owned();
                    let help = "write name = \"web\" and match = [\"web*\"]";
                    self.tell(&class.span, "class", message, help);
                }
                continue;
            };
            if classes.iter().any(|other| other.name == name.value) {
                let message = format!("there is a class `{}` already", shown(&name.value));
                self.tell(&name.span, "class.name", message, "give each a name of its own");
            }
            if patterns.value.is_empty() {
                let message = "no guest is in this class".to_owned();
                self.tell(&patterns.span, "class.match", message, "\"*\" fits every name");
            }
            classes.push(Class {
                name: name.value.clone(),
                patterns: patterns.value.clone(),
                min: class.min.as_ref().map(|typed| typed.value),
                max: class.max.as_ref().map_or(Share::Permille(1000), |typed| typed.value),
                shares: class.shares.as_ref().map_or(SHARES, |typed| typed.value),
                pin: class.pin.as_ref().map(|typed| typed.value),
                release: class.release.as_ref().is_some_and(|typed| typed.value),
            });
        }
        classes
    }

    /// min <= pin <= max where they are of one kind, and not both pinned and released.
    fn compare(&mut self, class: &RawClass) {
        let pairs = [
            ("class.min", &class.min, "min", &class.max, "max"),
            ("class.pin", &class.min, "min", &class.pin, "pin"),
            ("class.pin", &class.pin, "pin", &class.max, "max"),
        ];
        for (key, low, low_name, high, high_name) in pairs {
            let (Some(low), Some(high)) = (low, high) else { continue };
            if is_more(low.value, high.value) {
                let message =
                    format!("{low_name} ({}) is more than {high_name} ({})", low.value, high.value);
                let span = if key == "class.min" { &low.span } else { &high.span };
                self.tell(span, key, message, "min, pin and max stand in this order");
            }
        }
        if let (Some(pin), Some(Typed { value: true, .. })) = (&class.pin, &class.release) {
            let message = "a guest that is not managed cannot be pinned".to_owned();
            self.tell(&pin.span, "class.pin", message, "keep one of `pin` and `release`");
        }
    }
}

/// The name of a socket has 108 bytes, and is made with a suffix before it gets its own.
const SOCKET_MAX: usize = 100;

/// Of a part and a size nobody can say before a guest's memory is known.
fn is_more(a: Share, b: Share) -> bool {
    match (a, b) {
        (Share::Permille(a), Share::Permille(b)) => a > b,
        (Share::Bytes(a), Share::Bytes(b)) => a > b,
        _ => false,
    }
}
