//! Where messages go: the terminal in the foreground, syslog in the background.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixDatagram;

/// How important a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Info,
    Debug,
}

/// The daemon's voice.
#[derive(Debug)]
pub struct Voice {
    verbose: bool,
    log: Option<UnixDatagram>,
    foreground: bool,
    /// The last fault told, so that one that stays is told once.
    told: [Option<String>; Topic::COUNT],
}

/// What a repeated message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Counters that cannot be read.
    Read,
    /// The CPU rules, or a CPU that cannot be plugged.
    Cpu,
    /// The memory rules, or a pool that cannot be changed.
    Memory,
    /// The status file.
    Status,
}

impl Topic {
    const COUNT: usize = 4;
}

impl Voice {
    /// A voice on the terminal.
    pub fn new(verbose: bool) -> Voice {
        Voice { verbose, log: None, foreground: true, told: [const { None }; Topic::COUNT] }
    }

    /// From now on to syslog.
    pub fn use_syslog(&mut self) {
        self.foreground = false;
        self.log = UnixDatagram::unbound().ok().filter(|s| s.connect("/dev/log").is_ok());
    }

    /// Whether the values of each interval are to be shown.
    pub fn shows_intervals(&self) -> bool {
        self.verbose && self.foreground
    }

    /// Something that an administrator must know.
    pub fn error(&self, message: impl fmt::Display) {
        self.say(Level::Error, &message);
    }

    /// Something that an administrator may want to know.
    pub fn info(&self, message: impl fmt::Display) {
        self.say(Level::Info, &message);
    }

    /// Something for who watches the daemon at work.
    pub fn debug(&self, message: impl fmt::Display) {
        if self.verbose {
            self.say(Level::Debug, &message);
        }
    }

    /// An error that may come again at every look: told when it is new.
    pub fn error_once(&mut self, topic: Topic, message: impl fmt::Display) {
        let message = message.to_string();
        let told = &mut self.told[topic as usize];
        if told.as_ref() != Some(&message) {
            *told = Some(message.clone());
            self.error(message);
        }
    }

    /// The topic works again: its next error is new.
    pub fn works(&mut self, topic: Topic) {
        self.told[topic as usize] = None;
    }

    fn say(&self, level: Level, message: &dyn fmt::Display) {
        if self.foreground {
            // A reader that has gone away is no reason to stop managing the guest.
            let _ = match level {
                Level::Error => writeln!(std::io::stderr(), "{message}"),
                _ => writeln!(std::io::stdout(), "{message}"),
            };
        } else if let Some(log) = &self.log {
            const DAEMON: u8 = 3 << 3;
            let priority = DAEMON
                | match level {
                    Level::Error => 3,
                    Level::Info => 6,
                    Level::Debug => 7,
                };
            let pid = std::process::id();
            let _ = log.send(format!("<{priority}>pinheadd[{pid}]: {message}").as_bytes());
        }
    }
}
