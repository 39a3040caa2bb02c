//! Completion scripts of shells. clap generates the completion of commands and options. This module
//! adds the completion of guests, farms, reports and presets. The script gets these names from
//! `pinhead names`.

use crate::args::NamesOf;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use std::fmt::Write;

/// Arguments that are names: command with its subcommand, argument, kind of name.
const NAMED: [(&str, &str, NamesOf); 20] = [
    ("check", "files", NamesOf::Presets),
    ("console", "guest", NamesOf::Guests),
    ("down", "farm", NamesOf::Farms),
    ("exec", "guest", NamesOf::Guests),
    ("explain", "file", NamesOf::Presets),
    ("explain", "guest", NamesOf::Guests),
    ("host diff", "guest", NamesOf::Guests),
    ("idle", "guest", NamesOf::Guests),
    ("logs", "guest", NamesOf::Guests),
    ("park", "guests", NamesOf::Guests),
    ("presets", "name", NamesOf::Presets),
    ("ps", "farm", NamesOf::Farms),
    ("ps", "guests", NamesOf::Guests),
    ("report", "guest", NamesOf::Guests),
    ("report", "name", NamesOf::Reports),
    ("set", "guest", NamesOf::Guests),
    ("size", "guests", NamesOf::Guests),
    ("up", "rules", NamesOf::Presets),
    ("wake", "guests", NamesOf::Guests),
    ("why", "guest", NamesOf::Guests),
];

/// Functions for bash. `_pinhead_named` calls clap's function, and then completes names instead of
/// files.
const BASH: &str = r#"
_pinhead_offer() {
    local names files=""
    names="$(pinhead names "$1" 2>/dev/null)"
    [[ $1 == presets ]] && files="$(compgen -f -- "$2")"
    local IFS=$'\n'
    names=( $(compgen -W "$names" -- "$2") $files )
    [[ ${#names[@]} -gt 0 ]] && COMPREPLY=( "${names[@]}" )
}

_pinhead_named() {
    _pinhead "$@"
    local kind="" many="" values="" seen="" i word
    case "${COMP_WORDS[1]} $3" in
@options    esac
    case "${COMP_WORDS[1]}" in
@commands    esac
    [[ -z $kind || $2 == -* || $values == *" $3 "* ]] && return
    for ((i = 2; i < COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        if [[ $word == -- ]]; then
            return
        elif [[ $values == *" $word "* ]]; then
            i=$((i + 1))
        elif [[ $word != -* ]]; then
            seen=1
        fi
    done
    [[ -n $seen && -z $many ]] || _pinhead_offer "$kind" "$2"
}
"#;

/// Functions for zsh. clap's script calls these functions once [`zsh`] has changed its text.
const ZSH: &str = r#"_pinhead_names() {
    local -a names
    names=(${(f)"$(pinhead names $1 2>/dev/null)"})
    compadd -a names
}
_pinhead_guests() { _pinhead_names guests }
_pinhead_farms() { _pinhead_names farms }
_pinhead_reports() { _pinhead_names reports }
_pinhead_presets() { _pinhead_names presets; _files }

"#;

/// Line of clap's script for zsh before which the functions are inserted.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_pinhead\" ]; then";

pub(crate) fn script(shell: Shell, mut cli: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli, "pinhead", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => bash(&script, &cli),
        Shell::Zsh => zsh(&script),
        Shell::Fish => fish(script, &cli),
        _ => script,
    }
}

fn found<'a>(cli: &'a Command, command: &str) -> Option<&'a Command> {
    command.split(' ').try_fold(cli, |above, name| above.find_subcommand(name))
}

fn is_option(cli: &Command, command: &str, argument: &str) -> bool {
    let argument = found(cli, command).and_then(|command| {
        command.get_arguments().find(|found| found.get_id().as_str() == argument)
    });
    argument.is_some_and(|argument| argument.get_long().is_some())
}

fn bash(script: &str, cli: &Command) -> String {
    let (mut options, mut commands) = (String::new(), String::new());
    for (command, argument, kind) in NAMED {
        let kind = name(kind);
        if is_option(cli, command, argument) {
            let offer = format!("_pinhead_offer {kind} \"$2\"");
            let command = command.split(' ').next().unwrap_or_default();
            let _ = writeln!(options, "        \"{command} --{argument}\") {offer}; return ;;");
            continue;
        }
        let known = found(cli, command).into_iter().flat_map(Command::get_opts);
        let values = known.filter(|option| option.get_action().takes_values());
        let values = values.filter_map(|option| option.get_long());
        let values: String = values.map(|long| format!("--{long} ")).collect();
        let many = if argument.ends_with('s') { " many=1" } else { "" };
        let _ = writeln!(commands, "        {command}) kind={kind}{many} values=\" {values}\" ;;");
    }
    let added = BASH.replace("@options", &options).replace("@commands", &commands);
    let (functions, end) = script.rsplit_once("\nif [[ ").unwrap_or((script, ""));
    let end = end.replace("complete -F _pinhead ", "complete -F _pinhead_named ");
    format!("{functions}{added}\nif [[ {end}")
}

/// Sets pinhead's own completer for each argument in `NAMED`. The script has a section for each
/// command, and a completer is set only in the section of the argument's command.
fn zsh(script: &str) -> String {
    let mut out = String::new();
    let mut command = "";
    for line in script.lines() {
        if let Some(label) =
            line.trim_start().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        {
            command = label;
        }
        let of = NAMED.iter().find(|(of, argument, _)| {
            let starts = [
                format!("':{argument} -- "),
                format!("'::{argument} -- "),
                format!("'*::{argument} -- "),
                format!("'--{argument}=["),
            ];
            // Options that exclude this option are in parentheses before it.
            let excluding = line.starts_with("'(") && line.contains(&format!(")--{argument}=["));
            let is_here = excluding || starts.iter().any(|start| line.starts_with(start));
            of.split(' ').next_back() == Some(command) && is_here
        });
        let ends = ["_default' \\", "_files' \\"];
        let cut = ends.iter().find_map(|end| line.strip_suffix(end));
        match (of, cut, line == ZSH_END) {
            (Some((_, _, kind)), Some(cut), _) => {
                let _ = writeln!(out, "{cut}_pinhead_{}' \\", name(*kind));
            }
            (_, _, true) => {
                let _ = writeln!(out, "{ZSH}{line}");
            }
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

fn fish(mut script: String, cli: &Command) -> String {
    for (command, argument, kind) in NAMED {
        let option = match is_option(cli, command, argument) {
            true => format!(" -l {argument} -r"),
            false => String::new(),
        };
        let command = command.replacen(' ', "; and __fish_seen_subcommand_from ", 1);
        let files = if kind == NamesOf::Presets { "" } else { " -f" };
        let _ = writeln!(
            script,
            "complete -c pinhead -n \"__fish_pinhead_using_subcommand {command}\"{option}{files} \
             -a \"(pinhead names {} 2>/dev/null)\"",
            name(kind)
        );
    }
    script
}

fn name(kind: NamesOf) -> String {
    kind.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, completions};
    use clap::CommandFactory;
    use std::process;

    #[test]
    fn every_guest_argument_is_completed_and_exists() {
        let cli = Cli::command();
        for (command, argument, _) in NAMED {
            let found = found(&cli, command).and_then(|command| {
                command.get_arguments().find(|found| found.get_id().as_str() == argument)
            });
            assert!(found.is_some(), "{command} {argument}");
        }
        let below = |command: &Command| -> Vec<String> {
            let names = command.get_subcommands().map(|below| below.get_name().to_owned());
            names.map(|name| format!("{} {name}", command.get_name())).collect()
        };
        let commands = cli
            .get_subcommands()
            .flat_map(|command| [vec![command.get_name().to_owned()], below(command)].concat());
        for name in commands {
            let arguments = found(&cli, &name).into_iter().flat_map(Command::get_arguments);
            // `up --guests` is a number.
            let guests = arguments.filter(|argument| match argument.get_id().as_str() {
                "guest" => true,
                "guests" => argument.is_positional(),
                _ => false,
            });
            for argument in guests.map(|argument| argument.get_id().as_str()) {
                let is_named = NAMED.iter().any(|row| (row.0, row.1) == (&*name, argument));
                assert!(is_named, "{name} {argument}");
            }
        }
    }

    /// Completes the last word of a line in bash. Each kind of names has two names, such as
    /// `guests-1`.
    fn completed(line: &[&str]) -> Vec<String> {
        let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "{}\npinhead() {{ printf '%s\\n' \"$2-1\" \"$2-2\"; }}\n\
             COMP_WORDS=(pinhead {}) COMP_CWORD={}\n\
             _pinhead_named pinhead \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD-1]}}\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            completions(Shell::Bash),
            words.join(" "),
            line.len(),
        );
        let dir = vm::Scratch::new("completions").expect("a directory");
        let mut bash = process::Command::new("bash");
        let output = bash.args(["--norc", "-c", &script]).current_dir(dir.path()).output();
        let output = String::from_utf8(output.expect("bash runs").stdout).expect("text");
        output.lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_names_of_guests_reports_and_presets() {
        for (line, expected) in [
            (&["exec", ""] as &[&str], &["guests-1", "guests-2"] as &[&str]),
            (&["console", "--log", "g"], &["guests-1", "guests-2"]),
            (&["exec", "--timeout", "5", "guests-2"], &["guests-2"]),
            (&["park", "guests-1", ""], &["guests-1", "guests-2"]),
            (&["report", "r"], &["reports-1", "reports-2"]),
            (&["report", "GUEST1", "--guest", "g"], &["guests-1", "guests-2"]),
            (&["host", "diff", "--guest", ""], &["guests-1", "guests-2"]),
            (&["up", "--rules", "p"], &["presets-1", "presets-2"]),
            (&["ps", "--farm", ""], &["farms-1", "farms-2"]),
        ] {
            assert_eq!(completed(line), expected, "{line:?}");
        }
        for line in [&["exec", "g1", "--", "g"] as &[&str], &["set", "guests-1", "g"]] {
            assert!(!completed(line).iter().any(|word| word.contains("guests-")), "{line:?}");
        }
        assert!(completed(&["exec", "--t"]).contains(&"--timeout".to_owned()));
    }

    #[test]
    fn zsh_and_fish_ask_for_names() {
        let zsh = completions(Shell::Zsh);
        let mut used = 0;
        for kind in ["guests", "farms", "reports", "presets"] {
            used += zsh.matches(&format!(":_pinhead_{kind}' \\")).count();
            assert!(zsh.contains(&format!("\n_pinhead_{kind}() {{")), "{kind}");
        }
        assert_eq!(used, NAMED.len(), "an argument keeps its own completer");
        let fish = completions(Shell::Fish);
        let exec = "using_subcommand exec\" -f -a \"(pinhead names guests 2>/dev/null)\"";
        assert!(fish.contains(exec), "{fish}");
        let diff = "host; and __fish_seen_subcommand_from diff\" -l guest -r -f -a ";
        assert!(fish.contains(diff), "{fish}");
    }
}
