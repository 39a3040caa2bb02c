//! The columns of the table of guests: fields of the reports, so that a number means the same on
//! a page, in a report and on the screens.

use base::plain;
use maud::{Markup, html};
use reports::{Derived, Scope, field, shown};

/// Characters of a name that are shown.
pub(crate) const NAME_WIDTH: usize = 64;

/// The derived fields of a guest, in their order.
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

/// The host's, in tiles.
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

/// Who has what of the host's memory, from the bottom up. Together they are all of it.
pub(crate) const OWNERS: &[&str] = &[
    "guests_mib",
    "hypervisors_mib",
    "together_mib",
    "zram_mib",
    "manager_mib",
    "processes_mib",
    "cache_mib",
    "shared_mib",
    "buffers_mib",
    "slab_mib",
    "tables_mib",
    "kernel_mib",
    "zswap_mib",
    "huge_mib",
    "lists_mib",
    "other_mib",
    "free_mib",
];

/// The fields of a scope that have these names.
pub(crate) fn fields(scope: Scope, ids: &[&str]) -> Vec<&'static Derived> {
    ids.iter().filter_map(|id| field(scope, id)).collect()
}

/// A value as it is shown.
pub(crate) fn cell(field: &Derived, value: Option<f64>) -> String {
    shown(value, field.decimals)
}

/// What a field means, for who points at its head.
pub(crate) fn meaning(field: &Derived) -> String {
    format!("{}: {}", field.words, field.formula)
}

/// Numbers of now, each with its head.
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

/// What a filter looks through.
pub(crate) fn sought(guest: &str, class: &str) -> String {
    format!("{} {}", name(guest), name(class)).to_lowercase()
}

/// A guest's text, safe and not too long.
pub(crate) fn name(text: &str) -> String {
    plain(text, NAME_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_field_of_the_reports() {
        assert_eq!(fields(Scope::Guest, &GUEST).len(), GUEST.len());
        assert_eq!(fields(Scope::Host, &HOST).len(), HOST.len());
        assert_eq!(fields(Scope::Host, OWNERS).len(), OWNERS.len());
    }
}
