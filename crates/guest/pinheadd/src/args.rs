//! Command line: the options of IBM's cpuplugd (the original), parsed as by `getopt_long`, and
//! options of pinhead.

use std::ffi::OsString;
use std::path::PathBuf;

/// Schedule of the daemon's samples of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A sample every UPDATE seconds, as in the original.
    Fixed,
    /// Fewer samples while nothing changes. Pressure wakes the daemon.
    Adaptive,
    /// A sample when the host reports that the guest's CPUs have run. Pressure wakes the daemon,
    /// too.
    Host,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Path of the rules file.
    pub config: PathBuf,
    pub foreground: bool,
    /// True if all observations and actions are logged.
    pub verbose: bool,
    /// True if decisions are made but nothing is changed.
    pub dry_run: bool,
    /// True if the daemon may run on a machine that is not a guest.
    pub on_host: bool,
    /// Directory that contains /proc and /sys.
    pub root: PathBuf,
    pub pace: Pace,
    /// Port to the host. Without this argument, the port is found by its name.
    pub port: Option<PathBuf>,
    /// Directory for lock, pid, undo record and status.
    pub run_dir: PathBuf,
}

/// Action that the command line requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Run(Args),
    Help,
    Version,
    /// Print the host's balloon, from the file in this directory, and exit with success.
    Balloon(PathBuf),
    /// Write records for z/VM's monitor to this device at this interval, without rules.
    Monitor(Args, PathBuf, Option<OsString>),
    /// Print this message and exit with an error.
    Usage(String),
}

/// An option: its letter, its name, the name of its value, and its lines in the help. Not every
/// option has a letter and a value.
struct Flag {
    letter: Option<char>,
    name: &'static str,
    value: Option<&'static str>,
    help: &'static str,
}

const fn flag(
    letter: Option<char>,
    name: &'static str,
    value: Option<&'static str>,
    help: &'static str,
) -> Flag {
    Flag { letter, name, value, help }
}

const FLAGS: [Flag; 14] = [
    flag(Some('c'), "config", Some("FILE"), "the rules file"),
    flag(Some('f'), "foreground", None, "stay in the foreground"),
    flag(Some('h'), "help", None, "print this help, then exit"),
    flag(Some('v'), "version", None, "print the version, then exit"),
    flag(Some('V'), "verbose", None, "log all observations and actions"),
    flag(
        None,
        "pace",
        Some("PACE"),
        "how often to sample: fixed (every UPDATE seconds, the default),\n\
         adaptive (less often while nothing changes) or host (when the\n\
         host reports that the guest's CPUs have run)",
    ),
    flag(None, "dry-run", None, "decide, but change nothing"),
    flag(None, "on-host", None, "also run on a machine that is not a guest"),
    flag(None, "root", Some("DIR"), "read and write proc/ and sys/ below DIR instead of /"),
    flag(None, "port", Some("FILE"), "the port to the host (default: the port org.pinhead.0)"),
    flag(
        None,
        "run-dir",
        Some("DIR"),
        "where lock, pid, undo record and status are kept (default /run)",
    ),
    flag(
        None,
        "monwriter",
        Some("FILE"),
        "write processes, file systems and the daemon's actions to FILE\n\
         (/dev/monwriter) for z/VM's monitor, in a process of its own that\n\
         takes no rules",
    ),
    flag(None, "interval", Some("SECONDS"), "how often --monwriter writes (default 60)"),
    flag(
        None,
        "balloon",
        None,
        "print how much memory the host's balloon holds, and the host's\n\
         reason, then exit",
    ),
];

pub fn help(program: &str) -> String {
    let mut out = format!(
        "Usage: {program} -c FILE [OPTIONS]\n\n\
         Plugs and unplugs the CPUs and the memory of this guest by rules.\n\n"
    );
    for flag in &FLAGS {
        let letter = flag.letter.map_or("    ".into(), |l| format!("-{l}, "));
        let value = flag.value.map_or(String::new(), |v| format!(" {v}"));
        let head = format!("  {letter}--{}{value}", flag.name);
        let mut lines = flag.help.lines();
        out.push_str(&format!("{head:<24}  {}\n", lines.next().unwrap_or_default()));
        for line in lines {
            out.push_str(&format!("{:<24}  {line}\n", ""));
        }
    }
    out
}

/// Parses a command line, without the program's own name.
pub fn parse(args: impl Iterator<Item = OsString>) -> Command {
    let mut words = args;
    let mut parser = Parser {
        args: Args {
            config: PathBuf::new(),
            foreground: false,
            verbose: false,
            dry_run: false,
            on_host: false,
            root: "/".into(),
            pace: Pace::Fixed,
            port: None,
            run_dir: "/run".into(),
        },
        has_config: false,
        balloon: false,
        monwriter: None,
        interval: None,
    };
    let mut any = false;
    while let Some(word) = words.next() {
        any = true;
        let Some(text) = word.to_str() else {
            return Command::Usage(format!("Unrecognized option: {}", word.to_string_lossy()));
        };
        let outcome = if text == "--" {
            break;
        } else if let Some(long) = text.strip_prefix("--") {
            parser.long(long, &mut words)
        } else if let Some(letters) = text.strip_prefix('-').filter(|l| !l.is_empty()) {
            parser.letters(letters, &mut words)
        } else {
            // The original ignores words that are not options.
            Ok(None)
        };
        match outcome {
            Ok(None) => {}
            Ok(Some(command)) => return command,
            Err(message) => return Command::Usage(message),
        }
    }
    if !any {
        return Command::Help;
    }
    match parser {
        Parser { balloon: true, args, .. } => Command::Balloon(args.run_dir),
        Parser { monwriter: Some(_), has_config: true, .. } => Command::Usage(
            "--monwriter takes no rules: start it without -c, in addition to the daemon".into(),
        ),
        Parser { monwriter: Some(device), args, interval, .. } => {
            Command::Monitor(args, device, interval)
        }
        Parser { interval: Some(_), .. } => Command::Usage(
            "--interval needs --monwriter: it sets how often --monwriter writes".into(),
        ),
        Parser { has_config: true, args, .. } => Command::Run(args),
        _ => Command::Usage("You have to specify a configuration file!".into()),
    }
}

struct Parser {
    args: Args,
    has_config: bool,
    balloon: bool,
    monwriter: Option<PathBuf>,
    interval: Option<OsString>,
}

type Words<'a> = &'a mut dyn Iterator<Item = OsString>;

impl Parser {
    /// Parses a long option, or an unambiguous prefix of one, with or without `=`.
    fn long(&mut self, text: &str, words: Words<'_>) -> Result<Option<Command>, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, None),
        };
        let mut fits = FLAGS.iter().filter(|f| f.name.starts_with(name));
        let exact = FLAGS.iter().find(|f| f.name == name);
        let flag = match (exact, fits.next(), fits.next()) {
            (Some(flag), ..) | (None, Some(flag), None) => flag,
            (None, Some(_), Some(_)) => return Err(format!("Option --{name} is ambiguous")),
            (None, None, _) => return Err(format!("Unrecognized option: --{name}")),
        };
        if flag.value.is_none() && value.is_some() {
            return Err(format!("Option --{} takes no value", flag.name));
        }
        self.flag(flag, value, words)
    }

    /// Parses one or more letters. A value is always the next word, because the original does not
    /// accept `-cFILE`.
    fn letters(&mut self, letters: &str, words: Words<'_>) -> Result<Option<Command>, String> {
        for (index, letter) in letters.char_indices() {
            // The original accepts -m and ignores it.
            if letter == 'm' {
                continue;
            }
            let flag = FLAGS.iter().find(|f| f.letter == Some(letter));
            let flag = flag.ok_or_else(|| format!("Unrecognized option: -{letter}"))?;
            let rest = &letters[index + letter.len_utf8()..];
            if flag.value.is_some() && !rest.is_empty() {
                return Err(format!("Unrecognized option: {rest}"));
            }
            if let Some(command) = self.flag(flag, None, words)? {
                return Ok(Some(command));
            }
        }
        Ok(None)
    }

    fn flag(
        &mut self,
        flag: &Flag,
        value: Option<OsString>,
        words: Words<'_>,
    ) -> Result<Option<Command>, String> {
        let value = match flag.value {
            None => OsString::new(),
            Some(_) => value
                .or_else(|| words.next())
                .ok_or_else(|| format!("Option --{} needs a value", flag.name))?,
        };
        match flag.name {
            "help" => return Ok(Some(Command::Help)),
            "version" => return Ok(Some(Command::Version)),
            "config" => (self.args.config, self.has_config) = (value.into(), true),
            "foreground" => self.args.foreground = true,
            "verbose" => self.args.verbose = true,
            "dry-run" => self.args.dry_run = true,
            "on-host" => self.args.on_host = true,
            "balloon" => self.balloon = true,
            "monwriter" => self.monwriter = Some(value.into()),
            "interval" => self.interval = Some(value),
            "root" => self.args.root = value.into(),
            "port" => self.args.port = Some(value.into()),
            "run-dir" => self.args.run_dir = value.into(),
            _ => {
                self.args.pace = match value.to_str() {
                    Some("fixed") => Pace::Fixed,
                    Some("adaptive") => Pace::Adaptive,
                    Some("host") => Pace::Host,
                    _ => return Err("--pace must be fixed, adaptive or host".into()),
                };
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Command {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn args(line: &str) -> Args {
        match command(line) {
            Command::Run(args) => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_original_command_lines_work() {
        for line in
            ["-c x -f -V", "-fVc x", "--config x --foreground --verbose", "-c x --fore --verb"]
        {
            let args = args(line);
            assert!(args.foreground && args.verbose && args.pace == Pace::Fixed, "{line}");
            assert_eq!(args.config, PathBuf::from("x"));
        }
        assert_eq!(args("--config=/etc/cpuplugd.conf").config, PathBuf::from("/etc/cpuplugd.conf"));
        assert!(!args("-c x").foreground);
    }

    #[test]
    fn help_and_version_win_over_what_comes_later() {
        assert_eq!(command(""), Command::Help);
        assert_eq!(command("-h --nonsense"), Command::Help);
        assert_eq!(command("-v"), Command::Version);
        // `--ver` could be `--verbose` or `--version`.
        assert!(matches!(command("--ver"), Command::Usage(m) if m.contains("ambiguous")));
    }

    #[test]
    fn mistakes_are_named() {
        let message = |line| match command(line) {
            Command::Usage(message) => message,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(message("-f"), "You have to specify a configuration file!");
        assert_eq!(message("-cfile"), "Unrecognized option: file");
        assert_eq!(message("-x"), "Unrecognized option: -x");
        assert_eq!(message("-c"), "Option --config needs a value");
        assert_eq!(message("-c x --pace quick"), "--pace must be fixed, adaptive or host");
        assert_eq!(message("-c x --foreground=1"), "Option --foreground takes no value");
    }

    #[test]
    fn balloon_command_needs_no_rules() {
        assert_eq!(command("--balloon"), Command::Balloon("/run".into()));
        assert_eq!(command("--ball --run-dir /x"), Command::Balloon("/x".into()));
        // Unambiguous beginnings of the original's long names still work.
        for line in ["-c x --f", "--c x --foreground", "-c x --verb"] {
            args(line);
        }
    }

    #[test]
    fn records_for_the_monitor_need_no_rules_and_take_none() {
        let of = |line| match command(line) {
            Command::Monitor(args, device, interval) => (args.foreground, device, interval),
            other => panic!("{line}: {other:?}"),
        };
        let device = PathBuf::from("/dev/monwriter");
        assert_eq!(of("--monwriter /dev/monwriter"), (false, device.clone(), None));
        let quick = Some(OsString::from("4"));
        assert_eq!(of("-f --monw /dev/monwriter --interval=4"), (true, device, quick));
        let wrong = [
            ("--monwriter x -c y", "takes no rules"),
            ("-c y --interval 5", "--interval needs --monwriter"),
            ("--monwriter", "needs a value"),
        ];
        for (line, what) in wrong {
            assert!(matches!(command(line), Command::Usage(m) if m.contains(what)), "{line}");
        }
    }

    #[test]
    fn every_option_is_in_the_help() {
        let help = help("pinheadd");
        assert!(FLAGS.iter().all(|f| help.contains(&format!("--{}", f.name))));
        assert!(help.lines().all(|line| line.len() <= 100));
    }
}
