//! Tokens and sessions: a token opens the pages once, and becomes a session of that browser.
//!
//! Chance and time are arguments.

use std::sync::Arc;
use subtle::ConstantTimeEq;

/// A session ends when it was not used for so long.
const SESSION_MS: u64 = 12 * 3_600_000;
/// More sessions than this are not kept: the one that was not used for longest ends.
const SESSIONS_MAX: usize = 64;

/// Something that nobody guesses: 32 bytes, written in 64 letters.
#[derive(Clone)]
pub(crate) struct Secret(Arc<str>);

impl Secret {
    /// Of chance.
    pub(crate) fn new(bytes: [u8; 32]) -> Secret {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Secret(text.into())
    }

    /// Whether a text is it, in the same time whatever the text is.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// As it is sent.
    pub(crate) fn text(&self) -> &Arc<str> {
        &self.0
    }
}

// Nobody finds one in a log.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Three new secrets, of which a session is made.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) session: Secret,
    pub(crate) form_key: Secret,
    /// The next token: the old one has been used.
    pub(crate) token: Secret,
}

#[derive(Debug)]
struct Session {
    secret: Secret,
    form_key: Secret,
    used_ms: u64,
}

/// The token that opens the pages, and who was let in.
#[derive(Debug)]
pub(crate) struct Keys {
    token: Secret,
    sessions: Vec<Session>,
}

impl Keys {
    pub(crate) fn new(token: Secret) -> Keys {
        Keys { token, sessions: Vec::new() }
    }

    /// The token that is good now.
    pub(crate) fn token(&self) -> &Secret {
        &self.token
    }

    /// Whether a text is the token that is good now.
    pub(crate) fn is_token(&self, text: &str) -> bool {
        self.token.is(text)
    }

    /// Trades the token for a session; false if it is not the one that is good now.
    pub(crate) fn enter(&mut self, token: &str, fresh: Fresh, now_ms: u64) -> bool {
        if !self.token.is(token) {
            return false;
        }
        self.token = fresh.token.clone();
        self.begin(fresh, now_ms);
        true
    }

    /// Begins a session; the token stays.
    pub(crate) fn begin(&mut self, fresh: Fresh, now_ms: u64) {
        let Fresh { session, form_key, .. } = fresh;
        if self.sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                (0..self.sessions.len()).min_by_key(|at| self.sessions[*at].used_ms)
        {
            self.sessions.swap_remove(oldest);
        }
        self.sessions.push(Session { secret: session, form_key, used_ms: now_ms });
    }

    /// Ends the session whose forms have this key.
    pub(crate) fn leave(&mut self, form_key: &str) {
        self.sessions.retain(|one| !one.form_key.is(form_key));
    }

    /// The key of the forms of a session that is good now.
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
        Fresh { session: secret(number), form_key: secret(number + 1), token: secret(number + 2) }
    }

    #[test]
    fn a_token_opens_the_pages_once() {
        let mut keys = Keys::new(secret(1));
        assert!(!keys.enter("", fresh(10), 0) && !keys.enter(secret(2).text(), fresh(10), 0));
        assert!(keys.enter(secret(1).text(), fresh(10), 0));
        assert!(!keys.enter(secret(1).text(), fresh(20), 0), "used twice");
        assert!(keys.token().is(secret(12).text()));
        assert_eq!(keys.form_key(secret(10).text(), 5).as_deref(), Some(&**secret(11).text()));
        assert_eq!(keys.form_key(secret(11).text(), 5), None);
        assert_eq!(format!("{:?}", secret(1)), "Secret");
        keys.begin(fresh(30), 5);
        assert!(keys.token().is(secret(12).text()), "a password uses no token");
        keys.leave(secret(11).text());
        assert_eq!(keys.form_key(secret(10).text(), 5), None, "it was left");
        assert!(keys.form_key(secret(30).text(), 5).is_some());
    }

    #[test]
    fn a_session_ends_when_it_is_not_used_and_there_are_so_many() {
        let mut keys = Keys::new(secret(1));
        assert!(keys.enter(secret(1).text(), fresh(10), 0));
        assert!(keys.form_key(secret(10).text(), SESSION_MS - 1).is_some());
        assert!(keys.form_key(secret(10).text(), SESSION_MS * 2 - 2).is_some());
        assert!(keys.form_key(secret(10).text(), SESSION_MS * 3 - 2).is_none());
        let mut token = secret(12);
        for number in 0..=SESSIONS_MAX {
            let number = u8::try_from(number + 20).unwrap();
            let next = Fresh { token: secret(number + 100), ..fresh(number) };
            assert!(keys.enter(token.text(), next, u64::from(number)));
            token = secret(number + 100);
        }
        assert_eq!(keys.sessions.len(), SESSIONS_MAX);
        assert!(keys.form_key(secret(20).text(), 200).is_none(), "the oldest is gone");
        assert!(keys.form_key(secret(21).text(), 200).is_some());
    }
}
