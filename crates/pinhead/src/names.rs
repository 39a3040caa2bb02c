//! `pinhead names`: names for the completion of a shell.

use crate::args::{NamesArgs, NamesOf};
use farm::{running, service};
use manager::control::{Answer, Ask, ask_manager};
use std::collections::BTreeSet;

const NAME_MAX: usize = 100;

/// Returns the names, one per line. Shells expand words that they complete, so names that are not
/// single words are left out. Without a manager or a farm there are no names of guests or farms.
pub fn show(args: &NamesArgs) -> String {
    let names = match args.kind {
        NamesOf::Guests => guests(),
        NamesOf::Farms => {
            let all = running::all().unwrap_or_default();
            all.into_iter().map(|farm| farm.name).collect()
        }
        NamesOf::Reports => reports::REPORTS.iter().map(|report| report.name.to_owned()).collect(),
        NamesOf::Presets => rules::PRESETS.iter().map(|preset| preset.name.to_owned()).collect(),
    };
    names.iter().filter(|name| is_word(name)).map(|name| format!("{name}\n")).collect()
}

fn guests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Ok(Answer::Ps(ps)) = ask_manager(None, &Ask::Ps) {
        names.extend(ps.guests.into_iter().map(|guest| guest.name));
    }
    for farm in running::all().unwrap_or_default() {
        let guests = service::table(&farm.socket).map(|table| table.guests).unwrap_or_default();
        names.extend(guests.into_iter().map(|guest| guest.name));
    }
    names
}

fn is_word(name: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=NAME_MAX).contains(&name.len()) && !name.starts_with('-') && name.bytes().all(is_safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_words() {
        for name in ["g1", "GUEST1", "memory-1", "db.example", "a_b"] {
            assert!(is_word(name), "{name}");
        }
        for name in ["", "$(reboot)", "`x`", "a b", "-o", "a\x1b", "é", "a;b", "a*", "~"] {
            assert!(!is_word(name), "{name}");
        }
        let presets = show(&NamesArgs { kind: NamesOf::Presets });
        assert!(presets.lines().any(|name| name == "default"), "{presets}");
        let reports = show(&NamesArgs { kind: NamesOf::Reports });
        assert!(reports.lines().any(|name| name == "GUEST1"), "{reports}");
    }
}
