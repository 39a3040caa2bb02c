//! Log of the daemon. The log goes to the terminal in the foreground, and to syslog in the
//! background.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixDatagram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Info,
    Debug,
}

#[derive(Debug)]
pub struct Log {
    verbose: bool,
    syslog: Option<UnixDatagram>,
    foreground: bool,
    /// Last error of each topic, so that a lasting error is logged only once.
    last: [Option<String>; Topic::COUNT],
}

/// Subject of a repeated message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Counters that cannot be read.
    Read,
    /// CPU rules, or a CPU that cannot be plugged.
    Cpu,
    /// Memory rules, or a pool that cannot be changed.
    Memory,
    /// The status file.
    Status,
    /// The device of z/VM's monitor, or the records for it.
    Monitor,
}

impl Topic {
    const COUNT: usize = 5;
}

impl Log {
    /// Returns a log on the terminal.
    pub fn new(verbose: bool) -> Log {
        Log { verbose, syslog: None, foreground: true, last: [const { None }; Topic::COUNT] }
    }

    /// Returns a log with the same destination, for another thread.
    pub fn another(&self) -> Log {
        let mut log = Log::new(self.verbose);
        if !self.foreground {
            log.use_syslog();
        }
        log
    }

    pub fn is_foreground(&self) -> bool {
        self.foreground
    }

    pub fn use_syslog(&mut self) {
        self.foreground = false;
        self.syslog = UnixDatagram::unbound().ok().filter(|s| s.connect("/dev/log").is_ok());
    }

    pub fn shows_intervals(&self) -> bool {
        self.verbose && self.foreground
    }

    /// Logs a message that an administrator must know.
    pub fn error(&self, message: impl fmt::Display) {
        self.write(Level::Error, &message);
    }

    /// Logs a message that an administrator may want to know.
    pub fn info(&self, message: impl fmt::Display) {
        self.write(Level::Info, &message);
    }

    /// Logs a message about the daemon's work, only with -V.
    pub fn debug(&self, message: impl fmt::Display) {
        if self.verbose {
            self.write(Level::Debug, &message);
        }
    }

    /// Logs an error if it differs from the topic's last error, because an error may repeat with
    /// every sample.
    pub fn error_once(&mut self, topic: Topic, message: impl fmt::Display) {
        let message = message.to_string();
        let last = &mut self.last[topic as usize];
        if last.as_ref() != Some(&message) {
            *last = Some(message.clone());
            self.error(message);
        }
    }

    /// Records that a topic works again, so that the topic's next error is logged.
    pub fn works(&mut self, topic: Topic) {
        self.last[topic as usize] = None;
    }

    fn write(&self, level: Level, message: &dyn fmt::Display) {
        if self.foreground {
            // Failed output must not stop the management of the guest.
            let _ = match level {
                Level::Error => writeln!(std::io::stderr(), "{message}"),
                _ => writeln!(std::io::stdout(), "{message}"),
            };
        } else if let Some(syslog) = &self.syslog {
            const DAEMON: u8 = 3 << 3;
            let priority = DAEMON
                | match level {
                    Level::Error => 3,
                    Level::Info => 6,
                    Level::Debug => 7,
                };
            let pid = std::process::id();
            let _ = syslog.send(format!("<{priority}>pinheadd[{pid}]: {message}").as_bytes());
        }
    }
}
