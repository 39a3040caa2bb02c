//! Encoding of moments as bytes, as differences from the moment before.
//!
//! A chain is a list of moments. The first moment is complete, and each later moment contains only
//! changes. Numbers are varints with seven bits a byte, lowest first. Signed numbers are
//! zigzag-folded first, so that small numbers of either sign are short.
//!
//! ```text
//!   chain    = moment*
//!   moment   = counts, time difference, row of the host,
//!              count, (guest, row)*, count, (tier, row)*,
//!              count, (guest, count, (process, row)*)*
//!   counts   = fields of host, guest, tier, process; 0 four times for the same as before
//!   guest, tier, process = its number from 1 on; 0 and its name for the next new one
//!   row      = a bit a field for what changed, as varints of 64 bits, then for each change
//!              0 for missing, or the folded difference and 1; from missing it is from 0
//!   block    = version, chain compressed by deflate, its CRC-32
//! ```

use crate::Error;
use crate::bound::{NAME_MAX, cut};
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use model::{
    Field, GuestField, GuestIdentity, HostField, Moment, ProcessField, ProcessName, Row, TierField,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};

const VERSION: u8 = 1;
/// Maximum size of an unpacked block. A minute of a thousand guests that all change has 30 MB.
const CHAIN_MAX: u64 = 64 << 20;
/// Maximum number of guests, tiers or processes in one chain. Each row takes memory, and a damaged
/// block must not exhaust the memory.
const THINGS_MAX: usize = 200_000;
/// Maximum number of fields in a row of a later version.
const FIELDS_MAX: u64 = 1_024;
/// Maximum number of values that one chain keeps, which take 128 MB. A thousand guests with a
/// hundred processes each need a third of this number.
const VALUES_MAX: usize = 8 << 20;

/// Damage of a chain, with its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl Damaged {
    /// Returns the error for a row with this damage.
    pub fn in_row(self, table: &'static str, id: i64) -> Error {
        let reason = format!("{}; the rows before and after this row can be read", self.0);
        Error::Row { table, id, reason }
    }
}

#[derive(Debug, Default)]
struct State {
    at_ms: i64,
    host: Vec<Option<u64>>,
    guests: Vec<(GuestIdentity, Vec<Option<u64>>)>,
    tiers: Vec<(String, Vec<Option<u64>>)>,
    processes: Vec<(usize, ProcessName, Vec<Option<u64>>)>,
    counts: [usize; 4],
    /// Number of values in all rows of the chain, limited to bound a reader's memory.
    values: usize,
}

fn counts() -> [usize; 4] {
    [HostField::ALL.len(), GuestField::ALL.len(), TierField::ALL.len(), ProcessField::ALL.len()]
}

/// Encoder of a chain.
#[derive(Debug, Default)]
pub struct Encoder {
    state: State,
    guests: BTreeMap<GuestIdentity, usize>,
    tiers: BTreeMap<String, usize>,
    /// Processes by the numbers of their guests.
    processes: Vec<BTreeMap<ProcessName, usize>>,
}

impl Encoder {
    /// Encodes the next moment of the chain.
    pub fn encode(&mut self, moment: &Moment) -> Vec<u8> {
        let mut out = Vec::new();
        let state = &mut self.state;
        if state.counts == counts() {
            out.extend([0; 4]);
        } else {
            state.counts = counts();
            state.counts.iter().for_each(|count| put(&mut out, *count as u128));
        }
        put(&mut out, fold(moment.at_ms.wrapping_sub(state.at_ms)));
        state.at_ms = moment.at_ms;
        put_row(&mut out, &mut state.host, &moment.host.values());
        put(&mut out, moment.guests.len() as u128);
        for (who, row) in &moment.guests {
            let number = put_guest(&mut out, &mut self.guests, state, who);
            put_row(&mut out, &mut state.guests[number].1, &row.values());
        }
        put(&mut out, moment.tiers.len() as u128);
        for (name, row) in &moment.tiers {
            let put_name = |out: &mut Vec<u8>| put_text(out, name);
            let number = put_number(&mut out, &mut self.tiers, &mut state.tiers, name, put_name);
            put_row(&mut out, &mut state.tiers[number].1, &row.values());
        }
        put(&mut out, moment.processes.len() as u128);
        for (who, processes) in &moment.processes {
            let guest = put_guest(&mut out, &mut self.guests, state, who);
            put(&mut out, processes.len() as u128);
            self.processes.resize_with(state.guests.len(), BTreeMap::new);
            let known = &mut self.processes[guest];
            for (name, row) in processes {
                let number = put_number(&mut out, known, &mut state.processes, name, |out| {
                    put_text(out, &name.name);
                    put(out, u128::from(name.pid));
                });
                put_row(&mut out, &mut state.processes[number].2, &row.values());
            }
        }
        out
    }
}

fn put_guest(
    out: &mut Vec<u8>,
    known: &mut BTreeMap<GuestIdentity, usize>,
    state: &mut State,
    who: &GuestIdentity,
) -> usize {
    put_number(out, known, &mut state.guests, who, |out| put_identity(out, who))
}

pub(super) fn put_identity(out: &mut Vec<u8>, who: &GuestIdentity) {
    for text in [&who.uuid, &who.name, &who.class, &who.boot] {
        put_text(out, text);
    }
    put(out, who.pid.map_or(0, |pid| u128::from(pid) + 1));
    put(out, who.start_ticks.map_or(0, |ticks| u128::from(ticks) + 1));
}

/// Writes the number of a guest, tier or process. At the first occurrence, the name is written,
/// too.
fn put_number<K: Ord + Clone, T: Default>(
    out: &mut Vec<u8>,
    known: &mut BTreeMap<K, usize>,
    things: &mut Vec<T>,
    key: &K,
    put_name: impl FnOnce(&mut Vec<u8>),
) -> usize {
    if let Some(number) = known.get(key) {
        put(out, *number as u128 + 1);
        return *number;
    }
    put(out, 0);
    put_name(out);
    let number = things.len();
    things.push(T::default());
    known.insert(key.clone(), number);
    number
}

pub(super) fn put(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = cut(text, NAME_MAX);
    put(out, text.len() as u128);
    out.extend(text.as_bytes());
}

pub(super) fn fold(number: i64) -> u128 {
    u128::from(((number << 1) ^ (number >> 63)) as u64)
}

pub(super) fn unfold(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

pub(super) fn put_row(out: &mut Vec<u8>, before: &mut Vec<Option<u64>>, now: &[Option<u64>]) {
    before.resize(now.len(), None);
    for (before, now) in before.chunks(64).zip(now.chunks(64)) {
        let pairs = before.iter().zip(now).enumerate();
        let mask = pairs.fold(0, |mask, (bit, (a, b))| mask | u64::from(a != b) << bit);
        put(out, u128::from(mask));
    }
    for (before, now) in before.iter_mut().zip(now) {
        if before != now {
            let code =
                now.map_or(0, |now| fold(now.wrapping_sub(before.unwrap_or(0)).cast_signed()) + 1);
            put(out, code);
            *before = *now;
        }
    }
}

/// Decoder of a chain.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
}

impl Decoder {
    /// Decodes all moments of this part of the chain. Moments before a damaged part are valid.
    pub fn decode(&mut self, bytes: &[u8], mut visit: impl FnMut(Moment)) -> Result<(), Damaged> {
        let mut input = Input(bytes);
        while !input.0.is_empty() {
            visit(self.moment(&mut input)?);
        }
        Ok(())
    }

    fn moment(&mut self, input: &mut Input) -> Result<Moment, Damaged> {
        let state = &mut self.state;
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = input.at_most(FIELDS_MAX)?;
        }
        if counts != [0; 4] {
            state.counts = counts;
        }
        let [host, guest, tier, process] = state.counts;
        state.at_ms = state.at_ms.wrapping_add(unfold(input.number()?));
        let mut moment = Moment { at_ms: state.at_ms, ..Moment::default() };
        moment.host = input.row(&mut state.host, host, &mut state.values)?;
        for _ in 0..input.things()? {
            let number = input.guest(state)?;
            let (who, values) = &mut state.guests[number];
            moment.guests.insert(who.clone(), input.row(values, guest, &mut state.values)?);
        }
        for _ in 0..input.things()? {
            let number =
                input.numbered(&mut state.tiers, |input| Ok((input.text()?, Vec::new())))?;
            let (name, values) = &mut state.tiers[number];
            moment.tiers.insert(name.clone(), input.row(values, tier, &mut state.values)?);
        }
        for _ in 0..input.things()? {
            let guest = input.guest(state)?;
            let mut processes = BTreeMap::new();
            for _ in 0..input.things()? {
                let number = input.numbered(&mut state.processes, |input| {
                    let name = input.text()?;
                    let pid = u32::try_from(input.number()?);
                    let pid = pid.map_err(|_| Damaged("a process's number is too large"))?;
                    Ok((guest, ProcessName { name, pid }, Vec::new()))
                })?;
                let (owner, name, values) = &mut state.processes[number];
                if *owner != guest {
                    return Err(Damaged("a process belongs to another guest"));
                }
                processes.insert(name.clone(), input.row(values, process, &mut state.values)?);
            }
            moment.processes.insert(state.guests[guest].0.clone(), processes);
        }
        Ok(moment)
    }
}

/// Bytes not yet read.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl Input<'_> {
    fn wide(&mut self) -> Result<u128, Damaged> {
        let mut number = 0;
        // A value of 64 bits takes up to ten bytes with seven bits each.
        for shift in (0..70).step_by(7) {
            let (first, rest) = self.0.split_first().ok_or(Damaged("it is incomplete"))?;
            self.0 = rest;
            number |= u128::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged("a number has more than ten bytes"))
    }

    pub(super) fn number(&mut self) -> Result<u64, Damaged> {
        u64::try_from(self.wide()?).map_err(|_| Damaged("a number has more than 64 bits"))
    }

    pub(super) fn at_most(&mut self, most: u64) -> Result<usize, Damaged> {
        let number = self.number()?;
        if number > most {
            return Err(Damaged("a count is too large"));
        }
        usize::try_from(number).map_err(|_| Damaged("a count is too large"))
    }

    pub(super) fn things(&mut self) -> Result<usize, Damaged> {
        self.at_most(THINGS_MAX as u64)
    }

    fn text(&mut self) -> Result<String, Damaged> {
        let length = self.at_most(NAME_MAX as u64)?;
        let (text, rest) =
            self.0.split_at_checked(length).ok_or(Damaged("a name is incomplete"))?;
        self.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| Damaged("a name is no text"))?;
        Ok(text.to_owned())
    }

    /// Reads the index of an item. The number 0 stands for a new item, which `new` reads.
    pub(super) fn numbered<T>(
        &mut self,
        things: &mut Vec<T>,
        new: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<usize, Damaged> {
        let place = match self.number()? {
            0 if things.len() >= THINGS_MAX => return Err(Damaged("it has too many names")),
            0 => {
                things.push(new(self)?);
                things.len() - 1
            }
            number => usize::try_from(number - 1).unwrap_or(usize::MAX),
        };
        if place < things.len() {
            Ok(place)
        } else {
            Err(Damaged("it has a number without a name"))
        }
    }

    fn guest(&mut self, state: &mut State) -> Result<usize, Damaged> {
        self.numbered(&mut state.guests, |input| Ok((input.identity()?, Vec::new())))
    }

    pub(super) fn identity(&mut self) -> Result<GuestIdentity, Damaged> {
        let (uuid, name, class) = (self.text()?, self.text()?, self.text()?);
        let boot = self.text()?;
        let pid = self.number()?.checked_sub(1).map(u32::try_from).transpose();
        let pid = pid.map_err(|_| Damaged("a PID is too large"))?;
        let start_ticks = self.wide()?.checked_sub(1).map(u64::try_from).transpose();
        let start_ticks = start_ticks.map_err(|_| Damaged("ticks are too many"))?;
        Ok(GuestIdentity { uuid, name, class, pid, start_ticks, boot })
    }

    pub(super) fn fields(&mut self) -> Result<usize, Damaged> {
        self.at_most(FIELDS_MAX)
    }

    pub(super) fn row<F: Field>(
        &mut self,
        before: &mut Vec<Option<u64>>,
        count: usize,
        all: &mut usize,
    ) -> Result<Row<F>, Damaged> {
        *all = all.saturating_sub(before.len());
        before.truncate(count);
        let mut masks = [0; (FIELDS_MAX as usize).div_ceil(64)];
        for mask in masks.iter_mut().take(count.div_ceil(64)) {
            *mask = self.number()?;
        }
        let has = |index: &usize| masks[index / 64] >> (index % 64) & 1 == 1;
        for index in (0..count).filter(has) {
            let difference = match self.wide()? {
                0 => None,
                code => {
                    let folded = u64::try_from(code - 1);
                    let folded = folded.map_err(|_| Damaged("a difference is too large"))?;
                    Some(unfold(folded).cast_unsigned())
                }
            };
            // Fields of a later version, and all fields after the last field with a value, are
            // dropped. Decoding therefore takes no more memory than the decoded row.
            if index >= before.len() && index < F::ALL.len() && difference.is_some() {
                before.resize(index + 1, None);
            }
            if let Some(value) = before.get_mut(index) {
                *value = difference.map(|grown| value.unwrap_or(0).wrapping_add(grown));
            }
        }
        *all = all.saturating_add(before.len());
        if *all > VALUES_MAX {
            return Err(Damaged("it has too many values"));
        }
        Ok(Row::of_values(before))
    }
}

/// Packs a chain as a block.
pub fn block(chain: &[u8]) -> Vec<u8> {
    // Level 3 is twice as fast as the default level 6, and its result is 4 % larger.
    let mut encoder = DeflateEncoder::new(vec![VERSION], Compression::new(3));
    // Writing to memory does not fail.
    let _ = encoder.write_all(chain);
    let mut bytes = encoder.finish().unwrap_or_default();
    bytes.extend(sum(chain).to_le_bytes());
    bytes
}

/// Unpacks the chain of a block.
pub fn chain(block: &[u8]) -> Result<Vec<u8>, Damaged> {
    let Some((&VERSION, rest)) = block.split_first() else {
        return Err(Damaged("its version is unknown"));
    };
    let Some((packed, crc)) = rest.split_last_chunk::<4>() else {
        return Err(Damaged("it is incomplete"));
    };
    let mut chain = Vec::new();
    let mut decoder = DeflateDecoder::new(packed).take(CHAIN_MAX);
    decoder.read_to_end(&mut chain).map_err(|_| Damaged("it cannot be unpacked"))?;
    if sum(&chain) != u32::from_le_bytes(*crc) {
        return Err(Damaged("its checksum is wrong"));
    }
    Ok(chain)
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests;
