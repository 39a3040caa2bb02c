//! End of a pass for one guest: its decision, the command to its balloon, and the report.

use super::guest::GuestHistory;
use super::movement::Movement;
use super::reason::{Action, Clause, Decision, Inputs, Pass};
use super::regime::Urgency;
use super::state::GuestState;
use super::turns::Direction;
use base::Bytes;

/// Obstacles to a shrink that are reported even if no shrink is requested.
const SPOKEN: [Clause; 5] =
    [Clause::Strained, Clause::Moving, Clause::NoYield, Clause::Stuck, Clause::Locked];

/// A decision about a guest: size, action and clause.
type Decided = (Bytes, Action, Clause);

/// Turns the state of a guest into its decision and its command.
pub(super) fn close(
    mut state: GuestState<'_>,
    inputs: Inputs,
    sees_host: bool,
    now_ms: u64,
    pass: &mut Pass,
) -> Box<GuestHistory> {
    if let Some(outcome) = &mut state.outcome {
        outcome.got_in_all = state.history.add_up(outcome.host_got, now_ms);
    }
    pass.outcomes.extend(state.outcome);
    let decided = decided(&state, sees_host);
    let (_, action, clause) = decided;
    let goes_on = goes_on(&mut state.history.movement, action, clause, now_ms);
    if action == Action::Shrink && !goes_on {
        state.history.begin_movement();
    }
    let command = command(&mut state, decided, &inputs, now_ms, pass);
    report(&mut state, decided, command, goes_on, inputs, pass);
    state.history
}

/// Returns the decision of the pass, or the reason for holding the guest.
fn decided(state: &GuestState<'_>, sees_host: bool) -> Decided {
    let actual = state.assessment.actual;
    match (state.to, state.assessment.held) {
        (Some(decided), _) => decided,
        (None, Some((clause, _))) => (actual, Action::Hold, clause),
        (None, None) if !sees_host => (actual, Action::Hold, Clause::Blind),
        (None, None) => {
            let why = state.assessment.against(Urgency::None).filter(|c| SPOKEN.contains(c));
            let content = match (state.assessment.not_seen, state.assessment.lacks_group) {
                (true, _) => Clause::NotSeen,
                (_, true) => Clause::GroupFull,
                _ => Clause::Content,
            };
            (actual, Action::Hold, why.unwrap_or(content))
        }
    }
}

/// Returns the new target of the guest's balloon, if there is one, and records the request.
fn command(
    state: &mut GuestState<'_>,
    (to, action, clause): Decided,
    inputs: &Inputs,
    now_ms: u64,
    pass: &mut Pass,
) -> Option<Bytes> {
    let (sample, actual) = (state.sample, state.assessment.actual);
    let guest = &mut state.history;
    // The shrink of a guest that waits for memory stops at its current size.
    let halt = clause == Clause::Strained && guest.balloon.may_shrink();
    let command = match action {
        Action::Hold if halt => Some(actual),
        // A balloon that another manager moves gets no target, not even its current size.
        Action::Hold if clause == Clause::Foreign => None,
        Action::Hold => state.cap,
        Action::Grow | Action::Shrink => Some(to),
    };
    if let Some(size) = command {
        guest.balloon.told(size);
    }
    if action == Action::Hold {
        if halt {
            pass.outcomes.extend(guest.balloon.supersede(sample.key, actual, now_ms));
        }
        return command;
    }
    let going = guest.balloon.going(actual);
    let is_for_refaults = clause == Clause::Wish && state.assessment.refaults;
    if let Some(rate) = inputs.refault_pages_s.filter(|_| is_for_refaults) {
        guest.benefit.given(to.less(actual.plus(going)), actual, rate);
    }
    pass.outcomes.extend(guest.balloon.supersede(sample.key, actual, now_ms));
    guest.balloon.ask(to, actual, state.assessment.holding, now_ms);
    if clause == Clause::Room {
        guest.balloon.release();
        guest.moves.releases.released(now_ms);
        return command;
    }
    if action == Action::Shrink {
        guest.moves.releases.shrunk(now_ms);
        guest.moved(Direction::Down, actual.less(to), sample, now_ms);
        return command;
    }
    // Memory that stays resident in any case is not promised.
    let returned = guest.balloon.returned(sample).map_or(actual, |(size, _)| size);
    guest.moved(Direction::Up, to.less(actual.plus(going).max(returned)), sample, now_ms);
    command
}

/// Reports a decision that has a command, or a reason that differs from the last report.
fn report(
    state: &mut GuestState<'_>,
    (to, action, clause): Decided,
    command: Option<Bytes>,
    goes_on: bool,
    inputs: Inputs,
    pass: &mut Pass,
) {
    let guest = &mut state.history;
    // A moving balloon is no news, because the decision that started the move was reported. A hold
    // between two steps of a movement is no news either.
    let is_between = action == Action::Hold && (clause == Clause::Moving || goes_on);
    let is_new = !is_between
        && guest.reported.is_none_or(|(before, was_bounded)| {
            // When the guest no longer lacks memory, a report without the bound is due.
            let is_at_rest = state.bounds.is_empty() && guest.balloon.target().is_none();
            before != clause || (was_bounded && is_at_rest)
        });
    if command.is_none() && !is_new {
        return;
    }
    let held = state.assessment.held.map(|(_, detail)| detail);
    let detail = held.or(state.sample.process.pinned).unwrap_or("");
    let (key, from) = (state.sample.key, state.assessment.actual);
    let bounds = std::mem::take(&mut state.bounds);
    if !is_between {
        guest.reported = Some((clause, !bounds.is_empty()));
    }
    pass.decisions.push(Decision {
        key,
        action,
        clause,
        detail,
        from,
        to,
        command,
        goes_on,
        bounds,
        inputs,
    });
}

/// Returns true if the action belongs to the guest's movement: its next step, or a pause between
/// two steps. Any other action ends the movement.
fn goes_on(movement: &mut Option<Movement>, action: Action, clause: Clause, now_ms: u64) -> bool {
    let rests = action == Action::Hold && matches!(clause, Clause::Content | Clause::Moving);
    let before = movement.filter(|movement| match action {
        Action::Shrink => movement.takes(clause, now_ms),
        _ => rests && movement.lasts(now_ms),
    });
    *movement = match action {
        Action::Shrink => Some(before.unwrap_or_else(|| Movement::begin(clause, now_ms))),
        _ => before,
    };
    if let Some(movement) =
        movement.as_mut().filter(|_| action == Action::Shrink || clause == Clause::Moving)
    {
        movement.see(now_ms);
    }
    before.is_some()
}
