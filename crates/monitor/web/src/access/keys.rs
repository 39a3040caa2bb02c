//! Tokens and sessions. A token opens the pages once, within ten minutes, and starts a session.
//!
//! Random bytes and the time are arguments, so that tests control them.

use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Lifetime of a token. The printed address stays readable for much longer, for example in a log.
const TOKEN_MS: u64 = 10 * 60_000;
/// Time without use after which a session ends.
const SESSION_MS: u64 = 12 * 3_600_000;
/// Maximum number of sessions. A further session ends the session that was unused for longest.
const SESSIONS_MAX: usize = 64;

/// A secret that cannot be guessed: 32 bytes, written as 64 hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Secret(Arc<str>);

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Secret {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Secret(text.into())
    }

    /// Compares a text with the secret, in constant time.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.0
    }
}

// The secret never appears in a log.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Two new secrets for a session.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) session: Secret,
    pub(crate) form_key: Secret,
}

#[derive(Debug)]
struct Session {
    secret: Secret,
    form_key: Secret,
    used_ms: u64,
}

/// The valid token, if any, and the sessions.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    token: Option<(Secret, u64)>,
    sessions: Vec<Session>,
}

impl Keys {
    /// Makes a token valid, and the previous token invalid.
    pub(crate) fn offer(&mut self, token: Secret, now_ms: u64) {
        self.token = Some((token, now_ms));
    }

    pub(crate) fn is_token(&self, text: &str, now_ms: u64) -> bool {
        self.token.as_ref().is_some_and(|(token, since_ms)| {
            token.is(text) && now_ms.saturating_sub(*since_ms) < TOKEN_MS
        })
    }

    /// Exchanges the token for a session. Returns false if the token is not valid.
    pub(crate) fn enter(&mut self, token: &str, fresh: Fresh, now_ms: u64) -> bool {
        let is_good = self.is_token(token, now_ms);
        if is_good {
            self.token = None;
            self.begin(fresh, now_ms);
        }
        is_good
    }

    /// Starts a session. The token stays valid.
    pub(crate) fn begin(&mut self, fresh: Fresh, now_ms: u64) {
        let Fresh { session, form_key } = fresh;
        if self.sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                (0..self.sessions.len()).min_by_key(|at| self.sessions[*at].used_ms)
        {
            self.sessions.swap_remove(oldest);
        }
        self.sessions.push(Session { secret: session, form_key, used_ms: now_ms });
    }

    /// Ends the session with this form key.
    pub(crate) fn leave(&mut self, form_key: &str) {
        self.sessions.retain(|one| !one.form_key.is(form_key));
    }

    /// Returns the form key of a valid session.
    pub(crate) fn form_key(&mut self, session: &str, now_ms: u64) -> Option<Arc<str>> {
        self.sessions.retain(|one| now_ms.saturating_sub(one.used_ms) < SESSION_MS);
        let found = self.sessions.iter_mut().find(|one| one.secret.is(session))?;
        found.used_ms = now_ms;
        Some(found.form_key.text().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(number: u8) -> Secret {
        Secret::new([number; 32])
    }

    fn fresh(number: u8) -> Fresh {
        Fresh { session: secret(number), form_key: secret(number + 1) }
    }

    #[test]
    fn a_token_opens_the_pages_once() {
        let mut keys = Keys::default();
        keys.offer(secret(1), 0);
        assert!(!keys.enter("", fresh(10), 0) && !keys.enter(secret(2).text(), fresh(10), 0));
        keys.begin(fresh(30), 0);
        assert!(keys.enter(secret(1).text(), fresh(10), 0), "a password uses no token");
        assert!(!keys.enter(secret(1).text(), fresh(20), 0), "used twice");
        assert_eq!(keys.form_key(secret(10).text(), 5).as_deref(), Some(&**secret(11).text()));
        assert_eq!(keys.form_key(secret(11).text(), 5), None);
        assert_eq!(format!("{:?}", secret(1)), "Secret");
        keys.leave(secret(11).text());
        assert_eq!(keys.form_key(secret(10).text(), 5), None, "the session has ended");
        assert!(keys.form_key(secret(30).text(), 5).is_some());
    }

    #[test]
    fn finding2_08_token_expires_and_is_not_replaced() {
        let mut keys = Keys::default();
        assert!(!keys.is_token("", 0) && !keys.enter("", fresh(10), 0));
        keys.offer(secret(1), 1_000);
        assert!(keys.is_token(secret(1).text(), 600_999));
        assert!(!keys.is_token(secret(1).text(), 601_000));
        assert!(!keys.enter(secret(1).text(), fresh(10), 601_000));
        keys.offer(secret(2), 700_000);
        assert!(!keys.is_token(secret(1).text(), 700_000), "a new token replaces the old one");
        assert!(keys.enter(secret(2).text(), fresh(10), 700_000));
        assert!(keys.token.is_none());
    }

    #[test]
    fn sessions_end_unused_or_when_there_are_too_many() {
        let mut keys = Keys::default();
        keys.begin(fresh(10), 0);
        assert!(keys.form_key(secret(10).text(), SESSION_MS - 1).is_some());
        assert!(keys.form_key(secret(10).text(), SESSION_MS * 2 - 2).is_some());
        assert!(keys.form_key(secret(10).text(), SESSION_MS * 3 - 2).is_none());
        for number in 0..=SESSIONS_MAX {
            let number = u8::try_from(number + 20).unwrap();
            keys.begin(fresh(number), u64::from(number));
        }
        assert_eq!(keys.sessions.len(), SESSIONS_MAX);
        assert!(keys.form_key(secret(20).text(), 200).is_none(), "the oldest is gone");
        assert!(keys.form_key(secret(21).text(), 200).is_some());
    }
}
