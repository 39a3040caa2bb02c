//! View of the user: screen, sort order, and filter.

use super::model::{Decided, Model};
use super::sample::Seen;
use reports::Pattern;

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The host.
    #[default]
    Overview,
    /// All guests.
    Guests,
    /// The host's memory and the tiers below it.
    Memory,
    /// Decisions.
    Decisions,
}

/// Column that guests are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    State,
    #[default]
    Cpu,
    Wait,
    Ratio,
    Has,
    Of,
    Resident,
    Available,
    Need,
    Pressure,
}

impl Column {
    /// Columns with their heads, from left to right.
    pub(super) const ALL: [(Column, &str); 11] = [
        (Column::Name, "GUEST"),
        (Column::State, "STATE"),
        (Column::Cpu, "CPU%"),
        (Column::Wait, "STL%"),
        (Column::Ratio, "T:V"),
        (Column::Has, "HAS"),
        (Column::Of, "OF"),
        (Column::Resident, "RES"),
        (Column::Available, "AVAIL"),
        (Column::Need, "NEED"),
        (Column::Pressure, "PSI%"),
    ];

    /// Returns the number in the column. The monitor may have no new data for a guest that has not
    /// run. The manager's last value is used then.
    pub(super) fn number(self, guest: &Seen<'_>) -> Option<f64> {
        let row = guest.row;
        let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1_048_576.0);
        match self {
            Column::Name | Column::State => None,
            Column::Cpu => guest.field("cpu_percent").or(row.cpu_percent),
            Column::Wait => guest.field("cpu_wait_percent"),
            Column::Ratio => guest.field("t_v_ratio"),
            Column::Has => mib(row.actual_bytes),
            Column::Of => mib(guest.known(row.memory_bytes)),
            Column::Resident => {
                let private = guest.field("private_mib").or(mib(row.private_bytes));
                private.or_else(|| guest.field("resident_mib")).or(mib(row.resident_bytes))
            }
            Column::Available => mib(row.available_bytes),
            Column::Need => mib(row.need_bytes),
            Column::Pressure => {
                let reported = row.psi_permille.map(|permille| permille / 10.0);
                reported.or_else(|| guest.field("own_psi_some_percent"))
            }
        }
    }
}

/// State of the view.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) shown: Shown,
    /// Guest that is shown alone, on the screen of guests.
    pub(super) open: Option<u64>,
    /// Guest at the cursor.
    pub(super) selected: Option<u64>,
    /// Scroll position of the decisions, or of one guest's lines.
    pub(super) scroll: usize,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// Filter being typed.
    pub(super) typed: Option<String>,
    pub(super) is_frozen: bool,
    pub(super) has_help: bool,
    pub(super) is_over: bool,
    /// Number of steps to move in a recording, which the tape then performs.
    pub(super) travel: i64,
}

impl View {
    /// Creates the initial view of a screen.
    pub(super) fn new(shown: Shown, filter: &str) -> View {
        View { shown, filter: filter.to_owned(), ..View::default() }
    }

    /// Returns the guests, filtered and sorted. Numbers are sorted largest first, and names in
    /// ascending order. Missing values come last in either order.
    pub(super) fn guests<'a>(&self, model: &'a Model) -> Vec<Seen<'a>> {
        let Some(sample) = &model.sample else { return Vec::new() };
        let filter = Filter::new(&self.filter);
        let mut all: Vec<(Option<f64>, Seen<'a>)> = sample
            .ps
            .guests
            .iter()
            .filter(|row| filter.takes(&row.name, row.class.as_deref().unwrap_or_default()))
            .map(|row| sample.seen(row))
            .map(|seen| (self.sort.number(&seen), seen))
            .collect();
        all.sort_by(|(a, one), (b, other)| {
            let order = match self.sort {
                Column::Name => one.row.name.cmp(&other.row.name),
                Column::State => one.state().cmp(other.state()),
                _ => match (a, b) {
                    (Some(a), Some(b)) => b.total_cmp(a),
                    (a, b) => return b.is_some().cmp(&a.is_some()),
                },
            };
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then_with(|| (&one.row.name, one.row.id).cmp(&(&other.row.name, other.row.id)))
        });
        all.into_iter().map(|(_, seen)| seen).collect()
    }

    /// Returns the decisions, filtered.
    pub(super) fn decisions<'a>(&self, model: &'a Model) -> Vec<&'a Decided> {
        let filter = Filter::new(&self.filter);
        model.decisions.iter().filter(|one| filter.takes(&one.guest, &one.class)).collect()
    }
}

/// Filter for guests. A text without a star or question mark may occur anywhere in a name.
struct Filter(Option<Pattern>);

impl Filter {
    fn new(text: &str) -> Filter {
        let is_pattern = text.contains(['*', '?']);
        let pattern = if is_pattern { text.to_owned() } else { format!("*{text}*") };
        Filter(Pattern::new(&pattern).ok().filter(|_| !text.is_empty()))
    }

    fn takes(&self, name: &str, class: &str) -> bool {
        let Some(pattern) = &self.0 else { return true };
        pattern.matches(name) || (!class.is_empty() && pattern.matches(class))
    }
}
