//! Columns of the table of guests, with their values.

use super::sample::Seen;

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
        (Column::Resident, "PRIV"),
        (Column::Available, "AVAIL"),
        (Column::Need, "NEEDS"),
        (Column::Pressure, "PSI%"),
    ];

    /// Returns the number in the column. If the monitor has no new data because the guest has not
    /// run, returns the manager's last value.
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
                let private = mib(row.private_bytes).or_else(|| guest.field("private_mib"));
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
