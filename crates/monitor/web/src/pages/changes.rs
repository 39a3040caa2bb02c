//! Forms that change guests, if changes are allowed. Only forms of these pages are accepted. The
//! manager checks that this process may change guests.

use super::fault;
use crate::app::App;
use crate::extract::{Filled, Name};
use crate::fault::Fault;
use crate::source::Error;
use crate::visitor::Visitor;
use crate::who::{key_in, path_of, uuid_of};
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::duration::parse_seconds;
use base::{chain, parse_mib, plain};
use manager::config::Share;
use manager::control::{Answer, Ask, Change};
use reports::mib;
use serde::Deserialize;
use std::sync::Arc;

/// Changes of a guest, with their labels in the form.
pub(crate) const WHATS: [(&str, &str); 6] = [
    ("min", "Minimum memory"),
    ("max", "Maximum memory"),
    ("shares", "Weight compared with other guests"),
    ("pin", "Fixed memory"),
    ("release", "Do not manage: the guest gets its maximum"),
    ("manage", "Manage again"),
];
/// Time to wait for memory, and maximum duration and size of a reservation.
const WAIT_MS: u64 = 5_000;
const HOLD_S_MAX: u64 = 3_600;
const MIB_MAX: u64 = 1 << 24;

#[derive(Debug, Deserialize)]
pub(crate) struct SetForm {
    form_key: String,
    pub(crate) what: String,
    #[serde(default)]
    pub(crate) value: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReserveForm {
    form_key: String,
    mib: String,
    hold_s: String,
}

fn allowed(app: &App, visitor: &Visitor, form_key: &str) -> Result<(), Fault> {
    if !app.allow_changes {
        return Err(Fault::new(
            StatusCode::FORBIDDEN,
            "These pages may not change guests: start `pinhead web` with --allow-changes",
        ));
    }
    visitor.owns(form_key)
}

pub(crate) fn change(what: &str, value: &str) -> Result<Change, String> {
    let value = value.trim();
    let size = || match value {
        "" => Err(format!("`{what}` needs a size, such as 512 MiB or 25%")),
        text => Share::parse(text).map_err(|bad| {
            let text = plain(text, 40);
            format!("`{what}` must be a size, not {text:?}: {}", bad.help)
        }),
    };
    match what {
        "min" => size().map(Change::Min),
        "max" => size().map(Change::Max),
        "pin" => size().map(Change::Pin),
        "shares" => match value.parse::<u32>() {
            Ok(number) if number > 0 => Ok(Change::Shares(number)),
            _ => Err("`shares` must be a whole number of at least 1".into()),
        },
        "release" => Ok(Change::Release),
        "manage" => Ok(Change::Manage),
        _ => Err("`what` must be min, max, shares, pin, release or manage".into()),
    }
}

/// Returns the manager's key for the guest of a page, and the page's address. The manager's key is
/// the name, or the UUID if several guests have the name.
fn addressed(app: &App, key: &str) -> Result<(String, String), Fault> {
    let seen = app.live.now().map_err(|why| Fault::source(plain(&why, 400)))?;
    let row = seen
        .row(key)
        .ok_or_else(|| Fault::missing(format!("There is no guest {}", plain(key, 60))))?;
    let path = path_of(&row.name, &row.uuid);
    let is_one = seen.ps.guests.iter().filter(|other| other.name == row.name).count() == 1;
    let address = match uuid_of(&row.name, &row.uuid) {
        _ if is_one => row.name.clone(),
        Some(uuid) => uuid.to_owned(),
        None => {
            return Err(Fault::wrong(format!(
                "Several guests have the name {} and no UUID: the change could reach another guest",
                plain(&row.name, 60)
            )));
        }
    };
    Ok((address, path))
}

/// Changes a guest and redirects to its page.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    Name(key): Name,
    Filled(form): Filled<SetForm>,
) -> Response {
    let made = app.clone().read(move |app| {
        allowed(app, &visitor, &form.form_key)?;
        let (guest, path) = addressed(app, key_in(&key))?;
        let answer = change(&form.what, &form.value)
            .and_then(|change| app.source.ask(&Ask::Set { guest, change }).map_err(|e| chain(&e)));
        app.say(
            &visitor,
            match answer {
                Ok(Answer::Set(now)) => {
                    let size = match now.pin_bytes {
                        Some(bytes) => format!("pinned to {} MiB", mib(Some(bytes))),
                        None => now.mode.to_string(),
                    };
                    format!(
                        "Changed: {size}, min {} MiB, max {} MiB, {} shares",
                        mib(Some(now.min_bytes)),
                        mib(Some(now.max_bytes)),
                        now.shares
                    )
                }
                Ok(_) => Error::OtherAnswer.to_string(),
                Err(why) => format!("Not changed: {}", plain(&why, 400)),
            },
        );
        Ok(path)
    });
    led_to(made.await)
}

/// Redirects to the page after a change, so that a reload does not repeat the change.
fn led_to(made: Result<String, Fault>) -> Response {
    match made {
        Ok(path) => (StatusCode::SEE_OTHER, [(header::LOCATION, path)], "").into_response(),
        Err(wrong) => fault(&wrong),
    }
}

/// Parses a reservation: its size in MiB, and its duration in seconds. Numbers without a unit have
/// these units.
fn room(size: &str, hold: &str) -> Result<(u64, u64), String> {
    let mib = parse_mib(size).ok().filter(|mib| (1..=MIB_MAX).contains(mib));
    let mib = mib.ok_or("\"Memory\" must be 1 MiB to 16 TiB, such as 512 MiB or 1G")?;
    let hold_s = parse_seconds(hold).ok().filter(|hold_s| (1..=HOLD_S_MAX).contains(hold_s));
    let hold_s = hold_s.ok_or("\"Hold for\" must be 1 second to 1 hour, such as 60 or 10m")?;
    Ok((mib, hold_s))
}

/// Reserves memory for a guest that is about to start.
pub(crate) async fn reserve(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    Filled(form): Filled<ReserveForm>,
) -> Response {
    let made = app.read(move |app| {
        allowed(app, &visitor, &form.form_key)?;
        let (mib, hold_s) = room(&form.mib, &form.hold_s).map_err(Fault::wrong)?;
        let ask = Ask::Reserve { mib, timeout_ms: WAIT_MS, hold_ms: hold_s * 1_000 };
        app.say(
            &visitor,
            match app.source.ask(&ask) {
                Ok(Answer::Reserve(held)) => format!(
                    "{} MiB are reserved for {} s (reservation {})",
                    held.mib,
                    held.hold_ms / 1_000,
                    held.reservation
                ),
                Ok(_) => Error::OtherAnswer.to_string(),
                Err(error) => format!("No memory was reserved: {}", plain(&chain(&error), 400)),
            },
        );
        Ok("/".to_owned())
    });
    led_to(made.await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_changes_are_refused_with_the_remedy() {
        assert_eq!(change("release", ""), Ok(Change::Release));
        assert!(matches!(change("max", " 512 MiB "), Ok(Change::Max(_))));
        assert!(change("max", "").unwrap_err().contains("needs a size, such as 512 MiB"));
        assert!(change("max", "much").unwrap_err().starts_with("`max` "));
        assert!(change("shares", "0").unwrap_err().contains("whole number of at least 1"));
        assert!(change("format", "").unwrap_err().contains("min, max, shares"));
    }

    #[test]
    fn reservation_has_sizes_and_times_with_units() {
        assert_eq!(room("512", "60"), Ok((512, 60)));
        assert_eq!(room(" 1G ", "10m"), Ok((1_024, 600)));
        assert_eq!(room("1.5 GiB", "1h"), Ok((1_536, 3_600)));
        for size in ["", "0", "much", "1 KiB", "99999999"] {
            let refused = room(size, "60").unwrap_err();
            assert!(refused.starts_with("\"Memory\" must be 1 MiB to 16 TiB"), "{size}");
        }
        for hold in ["", "0", "long", "2h"] {
            let refused = room("512", hold).unwrap_err();
            assert!(refused.starts_with("\"Hold for\" must be 1 second to 1 hour"), "{hold}");
        }
    }
}
