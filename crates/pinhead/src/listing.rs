//! Arrangement of a table of guests: the rows, the columns and their order, for a terminal's width.

use crate::{Error, ManageError};
use base::{Table, correction, glob, natural};
use clap::Args;

/// Options of a command that lists guests.
#[derive(Clone, Debug, Default, Args)]
pub struct ListingArgs {
    /// Guests to list: names, patterns with * and ?, or UUIDs
    #[arg(value_name = "GUEST")]
    pub guests: Vec<String>,
    /// Columns of the table, by their heads, such as `guest,in-host,vcpu`
    ///
    /// Case, blanks and signs in a head are ignored; `last` means the column LAST, AND WHY. Without
    /// this option a narrow terminal shows the columns that fit; the last line names the others.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Column to sort by: numbers largest first, names and words in ascending order
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
}

impl ListingArgs {
    /// Returns true if the options select a guest.
    pub(crate) fn takes(&self, name: &str, uuid: &str) -> bool {
        self.guests.is_empty() || self.guests.iter().any(|wanted| is_of(wanted, name, uuid))
    }

    /// Returns an error if one of the names and patterns fits no guest.
    pub(crate) fn check_guests<'a>(
        &self,
        all: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<(), Error> {
        let is_there = |wanted: &&String| all.clone().any(|(name, uuid)| is_of(wanted, name, uuid));
        let Some(unknown) = self.guests.iter().find(|wanted| !is_there(wanted)) else {
            return Ok(());
        };
        let mut names: Vec<&str> = all.map(|(name, _)| name).collect();
        names.sort_by(|a, b| natural(a, b));
        let hint = correction(unknown, names.into_iter());
        Err(ManageError::NoMatch { pattern: unknown.clone(), hint }.into())
    }

    /// Returns an error if the table lacks a column of the options.
    pub(crate) fn check_columns(&self, table: &Table) -> Result<(), Error> {
        match self.columns.iter().chain(&self.sort).find(|name| table.column(name).is_none()) {
            None => Ok(()),
            Some(name) => {
                let known = table.heads().join("; ");
                Err(ManageError::NoColumn { name: name.clone(), known }.into())
            }
        }
    }

    /// Returns an error if the options arrange a table, although no table is shown.
    pub(crate) fn check_text(&self) -> Result<(), Error> {
        let is_arranged = !self.columns.is_empty() || self.sort.is_some();
        if is_arranged { Err(ManageError::TextOnly.into()) } else { Ok(()) }
    }

    /// Formats a table, with a last line about columns that do not fit. Requested columns that the
    /// table lacks are ignored.
    pub(crate) fn show(&self, mut table: Table, width: Option<usize>) -> String {
        if let Some(at) = self.sort.as_ref().and_then(|name| table.column(name)) {
            table.sort(at);
        }
        let chosen: Vec<usize> =
            self.columns.iter().filter_map(|name| table.column(name)).collect();
        if !chosen.is_empty() {
            table.choose(&chosen);
        }
        fitted_table(&table, width, " (`--columns` chooses)")
    }
}

/// Advice about columns that do not fit, for a command that always shows the same columns.
pub(crate) const OTHER_OUTPUT: &str = " (other output has all columns)";

/// Formats a table, with a last line about columns that do not fit.
pub(crate) fn fitted_table(table: &Table, width: Option<usize>, advice: &str) -> String {
    let Some(width) = width else { return table.text() };
    let fitted = table.fit(width);
    let mut text = fitted.text();
    if !fitted.hidden.is_empty() {
        let hidden = fitted.hidden.join(", ");
        let note = format!("not shown in {width} columns: {hidden}{advice}\n");
        text.push_str(&base::wrapped(&note, width, 2));
    }
    text
}

/// Formats a table below an empty line, on a terminal within its width.
pub(crate) fn below_line(table: &Table) -> String {
    let width = crate::terminal::width(std::io::stdout());
    format!("\n{}", fitted_table(table, width, OTHER_OUTPUT))
}

fn is_of(wanted: &str, name: &str, uuid: &str) -> bool {
    wanted == uuid || glob::matches(wanted, name)
}

#[cfg(test)]
pub(crate) mod testing {
    use base::{Rng, columns};

    /// Widths of terminals that every table must fit.
    pub(crate) const WIDTHS: std::ops::RangeInclusive<usize> = 40..=300;

    pub(crate) struct Words(pub(crate) Rng);

    impl Words {
        /// Returns the random content of the tables of a test.
        pub(crate) fn each(test: impl Fn(Words)) {
            (1..=20).for_each(|seed| test(Words(Rng::new(seed))));
        }

        pub(crate) fn number(&mut self, most: u64) -> u64 {
            let most = self.0.within(0, most);
            self.0.within(0, most)
        }

        fn word(&mut self, most: u64) -> String {
            let length = self.0.within(1, most);
            (0..length)
                .map(|_| ['a', 'e', 'n', 's', '7', '-', 'ü', '网'][self.0.within(0, 7) as usize])
                .collect()
        }

        /// Returns a name; every fourth is longer than its column.
        pub(crate) fn name(&mut self) -> String {
            let most = if self.0.permille(250) { 18 } else { 6 };
            self.word(most)
        }

        /// Returns a sentence, or nothing.
        pub(crate) fn sentence(&mut self) -> String {
            let words: Vec<String> = (0..self.number(20)).map(|_| self.word(7)).collect();
            words.join(" ")
        }
    }

    /// Checks that no line of an answer is wider than each terminal. A single word may be wider.
    pub(crate) fn check_widths(answer: impl Fn(usize) -> String) {
        check_widths_in(WIDTHS, answer);
    }

    /// Checks the same for these widths.
    pub(crate) fn check_widths_in(
        widths: std::ops::RangeInclusive<usize>,
        answer: impl Fn(usize) -> String,
    ) {
        for width in widths {
            let shown = answer(width);
            let is_wide = |line: &&str| columns(line) > width && line.trim().contains(' ');
            let wide = shown.lines().find(is_wide);
            assert_eq!(wide, None, "{width} columns:\n{shown}");
        }
    }

    /// Checks that no line is wider than the terminal, and that the texts appear with all words
    /// whole and in order.
    pub(crate) fn check_fits<'a>(
        shown: &str,
        width: usize,
        texts: impl IntoIterator<Item = &'a str>,
    ) {
        let wide = shown.lines().find(|line| columns(line) > width);
        assert_eq!(wide, None, "{width} columns:\n{shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        for text in texts {
            let wanted: Vec<&str> = text.split_whitespace().collect();
            let is_there =
                wanted.is_empty() || words.windows(wanted.len()).any(|part| part == wanted);
            assert!(is_there, "{width} columns lack {text}:\n{shown}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{left, prose, right};

    fn listing(guests: &[&str], columns: &[&str], sort: Option<&str>) -> ListingArgs {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ListingArgs {
            guests: owned(guests),
            columns: owned(columns),
            sort: sort.map(str::to_owned),
        }
    }

    fn table() -> Table {
        let columns =
            [left("GUEST"), right("IN HOST").rank(1), right("CPU%"), prose("LAST, AND WHY")];
        let mut table = Table::new(&columns);
        table.row(["g1", "80", "0.5", "no demand"]);
        table.row(["g2", "90", "12.0", "it boots"]);
        table
    }

    #[test]
    fn guests_are_chosen_by_name_pattern_or_uuid() {
        let all = [("web1", "u-1"), ("web2", ""), ("db", "u-3")];
        let taken = |guests: &[&str]| -> Vec<&str> {
            let listing = listing(guests, &[], None);
            let taken = all.iter().filter(|(name, uuid)| listing.takes(name, uuid));
            taken.map(|(name, _)| *name).collect()
        };
        assert_eq!(taken(&[]), ["web1", "web2", "db"]);
        assert_eq!(taken(&["web*"]), ["web1", "web2"]);
        assert_eq!(taken(&["u-3", "web1"]), ["web1", "db"]);
        let refused = |wanted: &str, all: &[(&'static str, &'static str)]| {
            let checked = listing(&[wanted], &[], None).check_guests(all.iter().copied());
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(refused("d?", &all), Ok(()));
        assert_eq!(
            refused("wbe1", &all),
            Err("No guest matches `wbe1`: did you mean `web1` or `web2`?".into())
        );
        assert_eq!(
            refused("x*", &all),
            Err("No guest matches `x*`: there are db, web1, web2".into())
        );
        assert_eq!(refused("x", &[]), Err("No guest matches `x`: there are none".into()));
    }

    #[test]
    fn columns_are_chosen_and_unknown_ones_refused() {
        let chosen = listing(&[], &["cpu", "guest"], Some("cpu"));
        assert!(chosen.check_columns(&table()).is_ok() && chosen.check_text().is_err());
        assert_eq!(chosen.show(table(), None), "CPU%  GUEST\n12.0  g2\n 0.5  g1\n");
        let unknown = listing(&[], &["memory"], None).check_columns(&table()).unwrap_err();
        let message = "The table has no column `memory`: its columns are GUEST; IN HOST; CPU%; \
                       LAST, AND WHY";
        assert_eq!(unknown.to_string(), message);
    }

    #[test]
    fn columns_that_do_not_fit_are_named() {
        let shown = listing(&[], &[], None).show(table(), Some(16));
        let lines = [
            "GUEST  CPU%",
            "g1      0.5",
            "  no demand",
            "g2     12.0",
            "  it boots",
            "not shown in 16",
            "  columns: IN",
            "  HOST",
            "  (`--columns`",
            "  chooses)",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), lines);
    }
}
