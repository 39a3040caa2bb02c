//! Live table of guests, with one row per guest.

use super::managed::{self, Managed};
use base::{Bytes, Column, Fitted, Pages, Table, left, prose, right};
use farm::fleet::{Fleet, Member, State};
use vm::{Accel, WhyEmulation};

const COLUMNS: [Column; 8] = [
    left("GUEST").least(8).most(64),
    left("STATE").gap(1).least(9),
    right("CPUS").gap(1).least(5).rank(2),
    right("HAS").gap(1).least(6).rank(1),
    right("OF").gap(1).least(6).rank(3),
    right("VCPU%").gap(1).least(6).rank(4),
    right("STEAL%").gap(1).least(6).rank(5),
    prose("LAST, AND WHY").least(40).most(400),
];

/// Formats the table of all guests, on a terminal within its width.
pub(super) fn draw(fleet: &Fleet, managed: &Managed, width: Option<usize>) -> Fitted {
    let rows = fleet.members().iter().map(|member| row(member, managed));
    table(rows).fit(width.unwrap_or(usize::MAX))
}

fn table(rows: impl Iterator<Item = [String; 8]>) -> Table {
    let mut table = Table::new(&COLUMNS);
    rows.for_each(|row| table.row(row));
    table
}

/// Returns the cells of a guest. The cells of a managed guest use the manager's row.
fn row(member: &Member, managed: &Managed) -> [String; 8] {
    let spec = member.spec();
    let status = member.status();
    let cpus = match (status, managed.of(member).and_then(managed::cpus)) {
        (Some(status), _) => format!("{}/{}", status.cpus_online, status.cpus_present),
        (None, Some(cpus)) => cpus,
        (None, None) => format!("-/{}", spec.cpus),
    };
    let is_elsewhere = managed.is_elsewhere(member);
    let (has, reason) = match (managed.of(member), status) {
        (Some(row), _) => managed::cells(row),
        (None, Some(status)) => {
            let has = Bytes::mib(spec.memory_mib).less(Pages(status.pool_pages).bytes());
            (has.nearest_mib().to_string(), status.reason.clone())
        }
        (None, None) if is_elsewhere => ("-".into(), managed::ELSEWHERE.into()),
        (None, None) => ("-".into(), String::new()),
    };
    let (cpu, steal) = match member.usage() {
        Some(usage) => (format!("{:.1}", usage.cpu_percent), format!("{:.1}", usage.steal_percent)),
        None => ("-".into(), "-".into()),
    };
    let last = match member.state() {
        State::Ended(reason) => reason.clone(),
        State::Booting if spec.accel == Accel::Emulation(WhyEmulation::KvmSilent) => {
            format!("starts again, with {}", spec.accel)
        }
        _ => reason,
    };
    [
        spec.name.clone(),
        member.word().to_owned(),
        cpus,
        has,
        spec.memory_mib.to_string(),
        cpu,
        steal,
        last,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::testing::{WIDTHS, Words, check_fits};

    #[test]
    fn time_of_vcpus_has_a_head_of_its_own() {
        let heads = table(std::iter::empty()).heads();
        assert!(heads.contains(&"VCPU%") && !heads.contains(&"CPU%"), "{heads:?}");
    }

    #[test]
    fn live_table_fits_every_width() {
        Words::each(|mut words| {
            let row = |words: &mut Words| {
                let number = |words: &mut Words| words.number(99_999).to_string();
                let cells = [(); 5].map(|()| number(words));
                let [cpus, has, of, cpu, steal] = cells;
                let (name, state, why) = (words.name(), "unmanaged".to_owned(), words.sentence());
                [name, state, cpus, has, of, cpu, steal, why]
            };
            let rows: Vec<[String; 8]> = (0..words.number(9)).map(|_| row(&mut words)).collect();
            for width in WIDTHS {
                let shown = table(rows.iter().cloned()).fit(width).text();
                let texts = rows.iter().flat_map(|row| [row[0].as_str(), row[7].as_str()]);
                check_fits(&shown, width, texts);
            }
        });
    }
}
