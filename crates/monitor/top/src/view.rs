//! View of the user: screen, sort order, filter, and the action to carry out.

use super::model::{Decided, Model};
use super::orders::{Order, Target};
use super::page::Page;
use super::sample::Seen;
use super::value::Column;
use base::natural;
use manager::control::GuestRow;
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Filter. It applies while the user types it.
    Filter(String),
    /// Size to pin a guest at.
    Size(Target, String),
    /// Answer to the question whether a guest should be parked.
    Park(Target),
}

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) shown: Shown,
    /// Guest that is shown alone, on the screen of guests.
    pub(super) open: Option<u64>,
    /// Marked guest.
    pub(super) selected: Option<u64>,
    /// Scroll position of the decisions, or of one guest's lines.
    pub(super) scroll: usize,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) typed: Option<Typed>,
    /// Page of text in place of the screen.
    pub(super) page: Option<Page>,
    /// Remark in the last line, until the next key.
    pub(super) note: Option<String>,
    /// Action to carry out.
    pub(super) order: Option<Order>,
    pub(super) is_frozen: bool,
    pub(super) has_help: bool,
    pub(super) is_over: bool,
    /// Number of steps that the tape is to move next in a recording.
    pub(super) travel: i64,
}

impl View {
    /// Creates the initial view of a screen.
    pub(super) fn new(shown: Shown, filter: &str) -> View {
        View { shown, filter: filter.to_owned(), ..View::default() }
    }

    /// Returns the filter, even while the user types it.
    pub(super) fn filter(&self) -> &str {
        match &self.typed {
            Some(Typed::Filter(typed)) => typed,
            _ => &self.filter,
        }
    }

    /// Returns the guest that a key acts on: the open guest, the marked guest, or the guest of the
    /// top decision.
    pub(super) fn marked<'a>(&self, model: &'a Model) -> Option<&'a GuestRow> {
        let rows = &model.sample.as_ref()?.ps.guests;
        let row = |id| rows.iter().find(|row| row.id == id);
        match (self.shown, self.open) {
            (_, Some(id)) => row(id),
            (Shown::Memory, None) => None,
            (Shown::Decisions, None) => {
                row(self.decisions(model).get(self.scroll).map(|one| one.id)?)
            }
            (Shown::Overview | Shown::Guests, None) => {
                let guests = self.guests(model);
                guests.get(self.marked_line(&guests)).map(|guest| guest.row)
            }
        }
    }

    /// Returns the line of the marked guest. Without a marked guest, returns the first line.
    pub(super) fn marked_line(&self, guests: &[Seen<'_>]) -> usize {
        guests.iter().position(|guest| Some(guest.row.id) == self.selected).unwrap_or(0)
    }

    /// Returns the guests, filtered and sorted. Numbers are sorted largest first. Names, and guests
    /// with equal numbers, are in natural order. Missing values come last in both directions.
    pub(super) fn guests<'a>(&self, model: &'a Model) -> Vec<Seen<'a>> {
        let Some(sample) = &model.sample else { return Vec::new() };
        let filter = Filter::new(self.filter());
        let mut all: Vec<(Option<f64>, Seen<'a>)> = sample
            .ps
            .guests
            .iter()
            .filter(|row| filter.takes(&row.name, row.class.as_deref().unwrap_or_default()))
            .map(|row| sample.seen(row))
            .map(|seen| (model.number(self.sort, &seen), seen))
            .collect();
        all.sort_by(|(a, one), (b, other)| {
            let order = match self.sort {
                Column::Name => natural(&one.row.name, &other.row.name),
                Column::State => one.state().cmp(other.state()),
                _ => match (a, b) {
                    (Some(a), Some(b)) => b.total_cmp(a),
                    (a, b) => return b.is_some().cmp(&a.is_some()),
                },
            };
            let order = if self.is_reversed { order.reverse() } else { order };
            order
                .then_with(|| natural(&one.row.name, &other.row.name))
                .then(one.row.id.cmp(&other.row.id))
        });
        all.into_iter().map(|(_, seen)| seen).collect()
    }

    pub(super) fn decisions<'a>(&self, model: &'a Model) -> Vec<&'a Decided> {
        let filter = Filter::new(self.filter());
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
