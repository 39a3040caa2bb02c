//! Columns of the table of guests. The columns are fields of the reports, so a number has the same
//! meaning on a page, in a report and on the screens.

use base::plain;
use maud::{Markup, html};
use reports::{Derived, Scope, field, shown};

/// Maximum number of characters of a name.
pub(crate) const NAME_WIDTH: usize = 64;

/// Derived fields of a guest, in the order of the columns.
pub(crate) const GUEST: [&str; 10] = [
    "cpu_percent",
    "cpu_wait_percent",
    "memory_mib",
    "actual_mib",
    "working_set_mib",
    "private_mib",
    "compressed_mib",
    "swapped_mib",
    "own_psi_some_percent",
    "wakes_per_min",
];

/// Fields of the host, shown as tiles.
pub(crate) const HOST: [&str; 8] = [
    "busy_percent",
    "capture_percent",
    "steal_percent",
    "available_mib",
    "set_point_mib",
    "psi_cpu_percent",
    "psi_memory_percent",
    "psi_io_percent",
];

pub(crate) fn fields(scope: Scope, ids: &[&str]) -> Vec<&'static Derived> {
    ids.iter().filter_map(|id| field(scope, id)).collect()
}

pub(crate) fn cell(field: &Derived, value: Option<f64>) -> String {
    shown(value, field.decimals)
}

/// Returns the meaning of a field, as the tooltip of its heading.
pub(crate) fn meaning(field: &Derived) -> String {
    format!("{}: {}", field.words, field.formula)
}

/// Returns current numbers, each with its heading.
pub(crate) fn tiles(values: &[(&'static Derived, Option<f64>)]) -> Markup {
    html! {
        dl class="tiles" {
            @for (field, value) in values {
                div {
                    dt title=(meaning(field)) { (field.heading()) }
                    dd data-now=(field.id) { (cell(field, *value)) }
                }
            }
        }
    }
}

/// Returns the text that the filter searches in.
pub(crate) fn sought(guest: &str, class: &str) -> String {
    format!("{} {}", name(guest), name(class)).to_lowercase()
}

/// Formats an untrusted name, escaped and shortened.
pub(crate) fn name(text: &str) -> String {
    plain(text, NAME_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::chart::OWNERS;

    #[test]
    fn every_column_is_a_field_of_the_reports() {
        assert_eq!(fields(Scope::Guest, &GUEST).len(), GUEST.len());
        assert_eq!(fields(Scope::Host, &HOST).len(), HOST.len());
        assert_eq!(fields(Scope::Host, OWNERS).len(), OWNERS.len());
    }
}
