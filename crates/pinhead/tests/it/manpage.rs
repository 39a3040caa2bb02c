//! Generated parts of manual pages: commands and options in `man/pinhead.1`, keys in
//! `man/host.toml.5` and `man/FARM.toml.5`.
//!
//! The parts lie between marks in the page, within text written by hand. `PINHEAD_WRITE_DOCS=1
//! cargo test -p pinhead --test it manpage` generates them again.

use clap::{ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use pinhead::cli::Cli;
use std::path::Path;
use std::{env, fs};

const BEGIN: &str = ".\\\" Generated from the options of the program; see CONTRIBUTING.md.\n";
const END: &str = ".\\\" End of what is generated.\n";

/// Returns the page with a new text between the marks after a heading.
fn with(page: &str, heading: &str, part: &str) -> String {
    let (before, rest) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let (prose, rest) = rest.split_once(BEGIN).unwrap_or_else(|| panic!("{heading}: no mark"));
    assert!(!prose.contains("\n.S"), "{heading}: the mark is in the next section");
    let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("{heading}: no end"));
    format!("{before}{heading}{prose}{BEGIN}{part}{END}{after}")
}

/// Returns all visible commands and subcommands, with their full names.
fn commands(command: &Command, path: &str) -> Vec<(String, Command)> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let all = shown.flat_map(|command| {
        let path = format!("{path} {}", command.get_name());
        let below = commands(command, &path);
        // The page describes --help once for all commands.
        let command = command.clone().disable_help_flag(true);
        std::iter::once((path, command)).chain(below)
    });
    all.collect()
}

/// Returns a command's synopsis: its name, a word for its options if it has any, its arguments.
fn synopsis(path: &str, command: &Command) -> String {
    let mut words = String::new();
    if command.get_opts().next().is_some() {
        words.push_str(" [\\fIOPTIONS\\fR]");
    }
    for argument in command.get_positionals() {
        let name = argument.get_value_names().and_then(|names| names.first());
        let name =
            name.map_or_else(|| argument.get_id().as_str().to_uppercase(), |n| n.to_string());
        let is_many = argument.get_num_args().is_some_and(|range| range.max_values() > 1)
            || matches!(argument.get_action(), ArgAction::Append);
        let dots = if is_many { "..." } else { "" };
        match argument.is_required_set() {
            true => words.push_str(&format!(" \\fI{name}\\fR{dots}")),
            false => words.push_str(&format!(" [\\fI{name}\\fR{dots}]")),
        }
    }
    format!("\\fB{}\\fR{words}\n.br\n", path.replace('-', "\\-"))
}

/// Returns a command's options in the format of a man page. Words between backticks are bold.
fn options(command: &Command) -> String {
    let mut page = Vec::new();
    Man::new(command.clone()).render_options_section(&mut page).expect("a page in memory");
    // The apostrophe's name is defined only at the head of a whole page.
    let page = String::from_utf8(page).expect("text").replace("\\*(Aq", "'");
    let list = page.find(".TP\n").map_or("", |at| &page[at..]);
    let mut bold = false;
    let fonts = list.chars().map(|c| match c {
        '`' => {
            bold = !bold;
            if bold { "\\fB".to_owned() } else { "\\fR".to_owned() }
        }
        c => c.to_string(),
    });
    fonts.collect()
}

/// Returns a text for a manual page. Words between backticks are bold.
fn roff(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.replace('\\', "\\e").replace('-', "\\-").split('`').enumerate() {
        match number % 2 {
            0 => out.push_str(part),
            _ => out.push_str(&format!("\\fB{part}\\fR")),
        }
    }
    out
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the keys of a file of settings. A key without a default belongs to a list of tables.
fn keys(sections: &[settings::Section]) -> String {
    let mut page = String::new();
    for section in sections {
        let is_list = section.keys.iter().any(|key| key.default == "needed");
        let heading = match section.name {
            "" => "Above all tables".to_owned(),
            name if name.contains('.') => format!("Entries of {name}"),
            name if is_list => format!("[[{name}]]"),
            name => format!("[{name}]"),
        };
        page.push_str(&format!(".SS {heading}\n"));
        for key in section.keys {
            let default = match key.default {
                "needed" => "required".to_owned(),
                default => roff(default),
            };
            page.push_str(&format!(
                ".TP\n\\fB{}\\fR [{default}]\n{}.\n",
                roff(key.name),
                roff(&sentence(key.doc))
            ));
        }
    }
    page
}

#[test]
fn pages_of_settings_have_every_key() {
    let man = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
    for (name, sections) in
        [("host.toml.5", manager::config::SECTIONS), ("FARM.toml.5", farm::config::SECTIONS)]
    {
        let path = man.join(name);
        let page = fs::read_to_string(&path).expect("a manual page");
        let made = with(&page, "\n.SH KEYS\n", &keys(sections));
        if made != page {
            if env::var_os("PINHEAD_WRITE_DOCS").is_none() {
                panic!("man/{name} is stale: run this test with PINHEAD_WRITE_DOCS=1");
            }
            fs::write(&path, made).expect("written");
        }
    }
}

#[test]
fn the_page_has_every_command_with_its_options() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man/pinhead.1");
    let page = fs::read_to_string(&path).expect("man/pinhead.1");
    let tour = fs::read_to_string(path.with_file_name("../docs/commands.md")).expect("docs");
    let commands = commands(&Cli::command(), "pinhead");
    let calls = commands.iter().filter(|(_, command)| !command.is_subcommand_required_set());
    let calls: String = calls.map(|(path, command)| synopsis(path, command)).collect();
    let mut made = with(&page, "\n.SH SYNOPSIS\n", &calls);
    for (path, command) in &commands {
        made = with(&made, &format!("\n.SS {}\n", path.replace('-', "\\-")), &options(command));
        let is_top = path.matches(' ').count() == 1;
        assert!(!is_top || tour.contains(&format!("**`{path}`**")), "docs/commands.md: {path}");
    }
    let sections = made.matches("\n.SS pinhead ").count();
    assert_eq!(sections, commands.len(), "a section has no command");
    if made != page {
        if env::var_os("PINHEAD_WRITE_DOCS").is_none() {
            panic!("man/pinhead.1 is stale: run this test with PINHEAD_WRITE_DOCS=1");
        }
        fs::write(&path, made).expect("written");
    }
}
