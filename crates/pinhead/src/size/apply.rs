//! Recommended sizes as settings, as virsh commands, or applied in a running manager.

use super::args::Apply;
use crate::manage::{SocketArg, ask_manager, unexpected};
use crate::{Error, SizeError};
use base::{Bytes, counted, plain, shell_word};
use manager::control::{Answer as Told, Ask, Change, GuestRow};
use settings::Share;
use std::fmt::Write;
use whatif::backtest::Sizes;
use whatif::{Sizing, Source, Sources};

struct Wanted<'a> {
    name: &'a str,
    uuid: &'a str,
    size: Bytes,
    minimum: Bytes,
    shares: u32,
    cpus: Option<u64>,
}

impl Wanted<'_> {
    fn of(guest: &Sizing) -> Option<Wanted<'_>> {
        Some(Wanted {
            name: &guest.name,
            uuid: &guest.uuid,
            size: guest.memory.filter(|_| guest.has_enough())?.size,
            minimum: guest.minimum?,
            shares: guest.shares?,
            cpus: guest.cpus.map(|cpus| cpus.size),
        })
    }
}

pub(super) fn apply(
    answer: &Sizes,
    how: Apply,
    sources: &Sources,
    socket: &SocketArg,
) -> Result<String, Error> {
    let guests = &answer.advice.guests;
    let mut wanted: Vec<Wanted<'_>> = guests.iter().filter_map(Wanted::of).collect();
    if wanted.is_empty() {
        return Err(SizeError::NoHistory.into());
    }
    let mut note = answer.advice.too_little(answer.question.options.enough_ms);
    if how == Apply::Virsh {
        let before = wanted.len();
        let is_libvirts = |source| matches!(source, Source::Libvirt | Source::Unknown);
        wanted.retain(|one| is_libvirts(sources.of(one.name)));
        if wanted.is_empty() {
            return Err(SizeError::NotLibvirt.into());
        }
        let others = before - wanted.len();
        if others > 0 {
            let others = format!("{} not of libvirt", counted(others as u64, "guest"));
            note = Some(note.map_or(others.clone(), |note| format!("{note}; {others}")));
        }
    }
    refuse_names(&wanted, how)?;
    let text = match how {
        Apply::Settings => settings_text(&wanted)?,
        Apply::Virsh => virsh_text(&wanted),
        Apply::Manager => set_all(&wanted, socket)?,
    };
    Ok(text + &note.map_or_else(String::new, |note| format!("# Left out: {note}\n")))
}

/// Minimum size that a manager allows for a guest.
const LEAST: Bytes = Bytes::mib(16);

/// Rejects names that cannot be written in the output, and names that two guests share.
fn refuse_names(wanted: &[Wanted<'_>], how: Apply) -> Result<(), Error> {
    for (at, one) in wanted.iter().enumerate() {
        let name = plain(one.name, 60);
        if one.name.chars().any(char::is_control) {
            return Err(SizeError::ControlName { name }.into());
        }
        let is_twice = wanted[..at].iter().any(|other| other.name == one.name);
        if is_twice && how != Apply::Manager {
            return Err(SizeError::SameName { name }.into());
        }
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(out, "\\U{:08X}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out + "\""
}

fn settings_text(wanted: &[Wanted<'_>]) -> Result<String, Error> {
    let mut out = String::from("# `pinhead host --config FILE` reads this.\n");
    for one in wanted {
        // In settings a name is a pattern, and these characters would match other names as well.
        if one.name.contains(['*', '?']) {
            return Err(SizeError::PatternName { name: plain(one.name, 60) }.into());
        }
        let name = quoted(one.name);
        let _ = write!(
            out,
            "\n[[class]]\nname = {name}\nmatch = [{name}]\nmin = \"{} MiB\"\nmax = \"{} MiB\"\n\
             shares = {}\n",
            one.minimum.as_mib(),
            one.size.as_mib(),
            one.shares
        );
    }
    Ok(out)
}

fn virsh_text(wanted: &[Wanted<'_>]) -> String {
    let mut out = String::new();
    for one in wanted {
        let name = shell_word(one.name);
        // After `--domain`, a name that looks like an option is still a value.
        let domain = format!("--domain {name}");
        let mib = one.size.as_mib();
        let _ = writeln!(out, "virsh setmaxmem {domain} {mib}M --config");
        let _ = writeln!(out, "virsh setmem {domain} {mib}M --config");
        if let Some(cpus) = one.cpus {
            let _ = writeln!(out, "virsh setvcpus {domain} {cpus} --maximum --config");
            let _ = writeln!(out, "virsh setvcpus {domain} {cpus} --config");
        }
    }
    out
}

/// Sets all sizes, or none. If the manager refuses one size, the earlier changes are undone.
fn set_all(wanted: &[Wanted<'_>], socket: &SocketArg) -> Result<String, Error> {
    let Told::Ps(now) = ask_manager(socket, &Ask::Ps)? else { return Err(unexpected()) };
    let find = |one: &Wanted<'_>| {
        now.guests.iter().find(|guest| match guest.uuid.is_empty() || one.uuid.is_empty() {
            true => guest.name == one.name,
            false => guest.uuid == one.uuid,
        })
    };
    let missing: Vec<&str> =
        wanted.iter().filter(|one| find(one).is_none()).map(|one| one.name).collect();
    if !missing.is_empty() {
        return Err(SizeError::NotManaged { names: plain(&missing.join(", "), 400) }.into());
    }
    let mut out = String::new();
    let mut done: Vec<(&GuestRow, Vec<Change>)> = Vec::new();
    for one in wanted {
        let Some(row) = find(one) else { continue };
        let size = one.size.min(Bytes(row.memory_bytes)).max(LEAST);
        let minimum = one.minimum.min(size).max(LEAST);
        // The minimum must never exceed the maximum, not even between two changes.
        let mut changes = vec![
            Change::Min(Share::Bytes(minimum)),
            Change::Max(Share::Bytes(size)),
            Change::Shares(one.shares),
        ];
        let mut back = vec![
            Change::Min(Share::Bytes(Bytes(row.min_bytes))),
            Change::Max(Share::Bytes(Bytes(row.max_bytes))),
            Change::Shares(row.shares),
        ];
        if minimum > Bytes(row.max_bytes) {
            changes.swap(0, 1);
        } else {
            back.swap(0, 1);
        }
        done.push((row, back));
        for change in changes {
            if let Err(error) = set(row, change, socket) {
                return Err(undo(&done, error, socket));
            }
        }
        let _ = writeln!(
            out,
            "{}: min {} MiB, max {} MiB, shares {}",
            plain(one.name, 60),
            minimum.as_mib(),
            size.as_mib(),
            one.shares
        );
    }
    Ok(out)
}

fn set(row: &GuestRow, change: Change, socket: &SocketArg) -> Result<(), Error> {
    // A host may have two guests with the same name.
    let guest = if row.uuid.is_empty() { &row.name } else { &row.uuid };
    match ask_manager(socket, &Ask::Set { guest: guest.clone(), change })? {
        Told::Set(_) => Ok(()),
        _ => Err(unexpected()),
    }
}

/// Restores the earlier settings. Returns `error` with a text about the restored settings.
fn undo(done: &[(&GuestRow, Vec<Change>)], error: Error, socket: &SocketArg) -> Error {
    let mut stays = Vec::new();
    for (row, back) in done.iter().rev() {
        if back.iter().any(|change| set(row, *change, socket).is_err()) {
            stays.push(row.name.as_str());
        }
    }
    let what = match stays.is_empty() {
        true => "No size was set. The earlier limits were restored, and now count as set with \
                 `pinhead set`"
            .to_owned(),
        false => {
            let guests = plain(&stays.join(", "), 400);
            format!("The earlier limits of these guests could not be restored: {guests}")
        }
    };
    Error::step(what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted<'static> = Wanted {
        name: "a b",
        uuid: "",
        size: Bytes::mib(96),
        minimum: Bytes::mib(40),
        shares: 100,
        cpus: Some(2),
    };

    #[test]
    fn settings_are_read_as_they_are_written() {
        let wanted = [Wanted { name: "we\"b\\", ..WANTED }, WANTED];
        let text = settings_text(&wanted).unwrap();
        let dir = std::env::temp_dir().join(format!("pinhead-size-{}", std::process::id()));
        std::fs::write(&dir, &text).unwrap();
        let loaded = manager::config::load(Some(&dir), &manager::config::Place::default());
        std::fs::remove_file(&dir).unwrap();
        let classes = loaded.unwrap().settings.classes;
        assert_eq!(classes.len(), 2, "{text}");
        assert_eq!(classes[0].name, "we\"b\\");
        assert_eq!(classes[1].max, Share::Bytes(Bytes::mib(96)));
    }

    #[test]
    fn a_name_with_pattern_characters_is_refused() {
        let error = settings_text(&[Wanted { name: "web*", ..WANTED }]).unwrap_err();
        assert!(error.to_string().contains("web*"), "{error}");
    }

    #[test]
    fn names_that_cannot_be_written_are_refused() {
        let with = |name: &'static str| [Wanted { name, ..WANTED }, WANTED];
        let refused =
            |wanted: &[Wanted<'_>], how| refuse_names(wanted, how).unwrap_err().to_string();
        let error = refused(&with("a\u{1b}[2J"), Apply::Virsh);
        assert!(error.contains("control characters"), "{error}");
        let error = refused(&with("a b"), Apply::Settings);
        assert!(error.contains("Two guests are called a b"), "{error}");
        assert!(refuse_names(&with("a b"), Apply::Manager).is_ok());
    }

    #[test]
    fn names_in_commands_are_single_words() {
        let text = virsh_text(&[WANTED]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "virsh setmaxmem --domain 'a b' 96M --config");
        assert_eq!(lines[3], "virsh setvcpus --domain 'a b' 2 --config");
        assert_eq!(lines.len(), 4);
    }
}
