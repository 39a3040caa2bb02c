//! Encoding of policy passes as bytes, as differences from the pass before.
//!
//! ```text
//!   chain    = pass*
//!   pass     = counts, number, time, clock as differences, row of the host,
//!              count, guest*, count, event*
//!   counts   = fields of host and guest; 0 twice for the same as before
//!   guest    = its number in this chain from 1 on, or 0, its key and its identity; its row
//!   event    = its kind, and its numbers
//! ```
//!
//! Numbers, rows and identities are as in [`pack`](super::super::pack). If a guest's class or boot
//! changes, the guest keeps its key, but gets a new number in the chain.

use crate::records::pack::{Damaged, Input, fold, put, put_identity, put_row, unfold};
use model::{
    Field, GuestIdentity, PassEvent, PassField, PassGuest, PassGuestField, PassInput, Row,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of events between two passes.
const EVENTS_MAX: u64 = 10_000;

#[derive(Debug, Default)]
struct State {
    counts: [usize; 2],
    number: u64,
    at_ms: i64,
    now_ms: u64,
    host: Vec<Option<u64>>,
    guests: Vec<(u64, Arc<GuestIdentity>, Vec<Option<u64>>)>,
    /// Number of values in all rows of the chain, limited to bound a reader's memory.
    values: usize,
}

fn counts() -> [usize; 2] {
    [PassField::ALL.len(), PassGuestField::ALL.len()]
}

/// Encoder of a chain.
#[derive(Debug, Default)]
pub struct Encoder {
    state: State,
    /// Index of the newest identity of each key.
    known: BTreeMap<u64, usize>,
}

fn put_difference(out: &mut Vec<u8>, before: &mut u64, now: u64) {
    put(out, fold(now.wrapping_sub(*before).cast_signed()));
    *before = now;
}

impl Encoder {
    /// Encodes the next pass of the chain.
    pub fn encode(&mut self, pass: &PassInput) -> Vec<u8> {
        let mut out = Vec::new();
        let state = &mut self.state;
        if state.counts == counts() {
            out.extend([0; 2]);
        } else {
            state.counts = counts();
            state.counts.iter().for_each(|count| put(&mut out, *count as u128));
        }
        put_difference(&mut out, &mut state.number, pass.number);
        put(&mut out, fold(pass.at_ms.wrapping_sub(state.at_ms)));
        state.at_ms = pass.at_ms;
        put_difference(&mut out, &mut state.now_ms, pass.now_ms);
        put_row(&mut out, &mut state.host, &pass.host.values());
        put(&mut out, pass.guests.len() as u128);
        for (key, guest) in &pass.guests {
            let known = self.known.get(key).copied();
            let known = known.filter(|place| state.guests[*place].1 == guest.who);
            let place = match known {
                Some(place) => {
                    put(&mut out, place as u128 + 1);
                    place
                }
                None => {
                    put(&mut out, 0);
                    put(&mut out, u128::from(*key));
                    put_identity(&mut out, &guest.who);
                    state.guests.push((*key, Arc::clone(&guest.who), Vec::new()));
                    self.known.insert(*key, state.guests.len() - 1);
                    state.guests.len() - 1
                }
            };
            put_row(&mut out, &mut state.guests[place].2, &guest.row.values());
        }
        put(&mut out, pass.events.len() as u128);
        pass.events.iter().for_each(|event| put_event(&mut out, event));
        out
    }
}

fn put_event(out: &mut Vec<u8>, event: &PassEvent) {
    let numbers: &[u64] = match event {
        PassEvent::Rebooted(key) => &[0, *key],
        PassEvent::Reserved { id, bytes, deadline_ms, held_ms } => {
            &[1, *id, *bytes, *deadline_ms, *held_ms]
        }
        PassEvent::Unreserved(id) => &[2, *id],
    };
    numbers.iter().for_each(|number| put(out, u128::from(*number)));
}

/// Decodes all passes of a chain. Passes before a damaged part are valid.
pub fn decode(chain: &[u8], mut visit: impl FnMut(PassInput)) -> Result<(), Damaged> {
    let mut state = State::default();
    let mut input = Input(chain);
    while !input.0.is_empty() {
        visit(pass(&mut input, &mut state)?);
    }
    Ok(())
}

fn pass(input: &mut Input<'_>, state: &mut State) -> Result<PassInput, Damaged> {
    let counts = [input.fields()?, input.fields()?];
    if counts != [0; 2] {
        state.counts = counts;
    }
    let [of_host, of_guest] = state.counts;
    state.number = state.number.wrapping_add(unfold(input.number()?).cast_unsigned());
    state.at_ms = state.at_ms.wrapping_add(unfold(input.number()?));
    state.now_ms = state.now_ms.wrapping_add(unfold(input.number()?).cast_unsigned());
    let host = input.row::<PassField>(&mut state.host, of_host, &mut state.values)?;
    let mut guests = BTreeMap::new();
    for _ in 0..input.things()? {
        let place = input.numbered(&mut state.guests, |input| {
            Ok((input.number()?, Arc::new(input.identity()?), Vec::new()))
        })?;
        let (key, who, values) = &mut state.guests[place];
        let row: Row<PassGuestField> = input.row(values, of_guest, &mut state.values)?;
        guests.insert(*key, PassGuest { who: Arc::clone(who), row });
    }
    let events = (0..input.at_most(EVENTS_MAX)?).map(|_| event(input)).collect::<Result<_, _>>()?;
    let State { number, at_ms, now_ms, .. } = *state;
    Ok(PassInput { number, at_ms, now_ms, host, guests, events })
}

fn event(input: &mut Input<'_>) -> Result<PassEvent, Damaged> {
    match input.number()? {
        0 => Ok(PassEvent::Rebooted(input.number()?)),
        1 => Ok(PassEvent::Reserved {
            id: input.number()?,
            bytes: input.number()?,
            deadline_ms: input.number()?,
            held_ms: input.number()?,
        }),
        2 => Ok(PassEvent::Unreserved(input.number()?)),
        _ => Err(Damaged("it contains an unknown event")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn guest(rng: &mut Rng, name: &str) -> PassGuest {
        let who = GuestIdentity { name: name.into(), pid: Some(7), ..GuestIdentity::default() };
        let values: Vec<Option<u64>> = PassGuestField::ALL
            .iter()
            .map(|_| rng.permille(700).then(|| rng.draw() >> rng.within(0, 63)))
            .collect();
        PassGuest { who: Arc::new(who), row: Row::of_values(&values) }
    }

    fn passes(seed: u64) -> Vec<PassInput> {
        let mut rng = Rng::new(seed);
        let mut all: Vec<PassInput> = Vec::new();
        for number in 0..40 {
            let mut pass = all.last().cloned().unwrap_or_default();
            (pass.number, pass.events) = (number, Vec::new());
            pass.at_ms = pass.at_ms.wrapping_add(rng.draw().cast_signed() >> rng.within(0, 63));
            pass.now_ms += rng.within(0, 2000);
            pass.host.set(PassField::Available, rng.permille(900).then(|| rng.draw()));
            match rng.within(0, 4) {
                0 => drop(pass.guests.pop_first()),
                1 => pass.events.push(PassEvent::Rebooted(rng.draw())),
                2 => pass.events.extend([
                    PassEvent::Unreserved(3),
                    PassEvent::Reserved { id: 1, bytes: 2, deadline_ms: 3, held_ms: u64::MAX },
                ]),
                _ => {}
            }
            let key = rng.within(0, 5);
            let name = if rng.permille(500) { "web" } else { "db" };
            pass.guests.insert(key, guest(&mut rng, name));
            all.push(pass);
        }
        all
    }

    fn chain(passes: &[PassInput]) -> Vec<u8> {
        let mut encoder = Encoder::default();
        passes.iter().flat_map(|pass| encoder.encode(pass)).collect()
    }

    #[test]
    fn decoded_passes_equal_the_encoded_passes() {
        for seed in 0..50 {
            let passes = passes(seed);
            let mut read = Vec::new();
            assert_eq!(decode(&chain(&passes), |pass| read.push(pass)), Ok(()));
            assert_eq!(read, passes, "seed {seed}");
        }
    }

    #[test]
    fn unchanged_guests_take_few_bytes() {
        let mut pass = passes(1).pop().unwrap();
        let mut encoder = Encoder::default();
        encoder.encode(&pass);
        pass.number += 1;
        (pass.now_ms, pass.at_ms) = (pass.now_ms + 1000, pass.at_ms + 1000);
        let per_guest = encoder.encode(&pass).len() / pass.guests.len();
        assert!(per_guest <= 8, "{per_guest} bytes a guest");
    }

    #[test]
    fn a_cut_chain_gives_the_passes_before_the_cut() {
        let passes = passes(2);
        let whole = chain(&passes);
        for end in 0..whole.len() {
            let mut read = Vec::new();
            let _ = decode(&whole[..end], |pass| read.push(pass));
            assert_eq!(read[..], passes[..read.len()]);
        }
    }
}
