//! Names in a host's rules: the manager's counters, and functions of them.

use super::{Parser, meant};
use crate::ast::{Expr, Function, Keyword};
use crate::diag::{Diagnostic, Span};
use base::nearest;
use model::counters::{Counter, HostCounter};

impl Parser<'_> {
    /// Parses a name that is not a variable, in a host's rules file.
    pub(crate) fn host_name(&mut self, word: &str, start: usize) -> Expr {
        let span = self.text.span(start, self.at);
        match (word, self.peek()) {
            ("guest" | "host", Some(b'.')) => return self.host_counter(word, start),
            (_, Some(b'(')) => match Function::from_name(word) {
                Some(Function::Rate) => {
                    let message = "`rate` is not available in a host's rules: the time between \
                                   passes varies";
                    let error = Diagnostic::error("unknown-name", span, message).help(
                        "guest.swapin and similar counters are rates already; write \
                         delta(guest.used, 5) for the growth of a size over 5 passes",
                    );
                    return self.broken(error);
                }
                Some(function) => return self.call(function, start),
                None => {}
            },
            _ => {}
        }
        let error = self.host_unknown(word, span);
        self.broken(error)
    }

    fn host_counter(&mut self, family: &str, start: usize) -> Expr {
        self.at += 1;
        let (_, name) = self.word(|b| b.is_ascii_alphanumeric() || b == b'_');
        let span = self.text.span(start, self.at);
        let whole = format!("{family}.{name}");
        if let Some(counter) = HostCounter::from_name(&whole) {
            return self.indexed(Counter::Host(counter), start);
        }
        if name.is_empty() {
            let message = format!("`{family}.` needs the name of a counter");
            let help = format!("its counters: {}", all_of(family));
            return self.broken(Diagnostic::error("syntax", span, message).help(help));
        }
        let near = near(family, &name);
        let error = Diagnostic::error("unknown-counter", span, format!("There is no `{whole}`"));
        let help = meant(&near, &format!("{family}. has {}", all_of(family)));
        self.broken(error.label("no such counter").help(help))
    }

    fn host_unknown(&self, word: &str, span: Span) -> Diagnostic {
        let guests = matches!(word, "meminfo" | "vmstat" | "cpustat" | "psi" | "time")
            || Keyword::from_name(word).is_some();
        // `guest` is also a keyword of a guest's rules, but in host rules it begins a counter.
        if guests && word != "guest" {
            let message =
                format!("`{word}` is a counter of the guest's kernel: the host cannot read it");
            return Diagnostic::error("unknown-name", span, message)
                .label("known in a guest's rules file only")
                .help("a host's rules file has guest. and host. counters");
        }
        let error = Diagnostic::error("unknown-name", span, format!("Nothing is named `{word}`"))
            .label("neither a variable of this file nor a counter");
        if matches!(word, "guest" | "host") {
            return error.help(format!("write `{word}.` and one of the names {}", all_of(word)));
        }
        let variables = self.file.variables.iter().map(|v| v.name.as_str());
        let mut near = nearest(word, variables);
        near.extend(self::near("", word));
        error.help(meant(&near, "counters are written guest.NAME or host.NAME"))
    }
}

/// Returns the counters that a wrong name may have meant. These are counters of the same name in
/// any family, or else similar names in this family, or else similar names in all families.
fn near(family: &str, name: &str) -> Vec<&'static str> {
    let named = |wanted: &str| -> Vec<&'static str> {
        let own = |(_, own): &(&str, &str)| *own == wanted;
        let all = HostCounter::ALL.iter().map(|counter| counter.name());
        all.filter(|whole| whole.split_once('.').as_ref().is_some_and(own)).collect()
    };
    let same = named(name);
    if !same.is_empty() {
        return same;
    }
    let near: Vec<&str> = nearest(name, names_of(family));
    if near.is_empty() {
        return nearest(name, HostCounter::ALL.iter().map(|counter| counter.name()));
    }
    let is_own = |whole: &&str| whole.starts_with(family);
    near.into_iter().flat_map(|own| named(own).into_iter().filter(is_own)).collect()
}

fn all_of(family: &str) -> String {
    names_of(family).collect::<Vec<_>>().join(" ")
}

/// Returns the names of a family's counters, without the prefix of the family. An empty family
/// stands for both families.
fn names_of(family: &str) -> impl Iterator<Item = &'static str> {
    let counters = HostCounter::ALL.iter().filter_map(|c| c.name().split_once('.'));
    counters.filter(move |(of, _)| family.is_empty() || *of == family).map(|(_, name)| name)
}
