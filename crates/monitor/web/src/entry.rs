//! Ways to get access: a token, the password, or the mode of a Unix socket.

use crate::Error;
use crate::access::{Fresh, Keys, Names, Origin, Password, Secret, Tries};
use crate::clock::steady_ms;
use crate::fault::Fault;
use crate::visitor::{Via, Visitor};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Cookie of a session. Browsers send a host's cookies to all of its ports, so the cookie's name
/// contains the port.
const COOKIE: &str = "pinhead-session";
/// Number of passwords that an origin may try at once. After that it may try one password every
/// `TRY_S` seconds.
const TRIES_AT_ONCE: u64 = 5;
const TRY_S: u64 = 10;
/// Maximum number of passwords that wait to be compared. Further tries are refused.
const TRIES_WAITING: usize = 8;

/// Protocol between browsers and this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        })
    }
}

/// Reason why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The password is wrong.
    Wrong,
    /// The origin tried passwords too often, or too many tries wait.
    TooOften,
    /// No password is configured.
    NoPassword,
}

/// Sessions, and the ways to start a session.
pub(crate) struct Entry {
    scheme: Scheme,
    /// Host name in the reported address.
    name: Option<String>,
    cookie: String,
    keys: Mutex<Keys>,
    password: Option<Arc<Password>>,
    tries: Mutex<Tries>,
    /// Semaphore for comparisons of passwords, one at a time. A comparison uses a whole CPU and
    /// several MiB.
    compares: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Key of forms that arrive through the Unix socket.
    form_key: Arc<str>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

/// Returns 32 random bytes.
fn secret() -> Result<Secret, Error> {
    let mut bytes = [0; 32];
    let wrong =
        |errno: rustix::io::Errno| Error::Step { step: "get random numbers", source: errno.into() };
    // A request for at most 256 bytes is never answered with fewer bytes.
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(wrong)?;
    Ok(Secret::new(bytes))
}

fn fresh() -> Result<Fresh, Error> {
    Ok(Fresh { session: secret()?, form_key: secret()? })
}

impl Entry {
    pub(crate) fn new(
        names: &Names,
        scheme: Scheme,
        password: Option<Password>,
        tell: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Entry, Error> {
        let name = names.first().map(str::to_owned);
        Ok(Entry {
            scheme,
            cookie: match name.as_ref().and_then(|name| name.rsplit_once(':')) {
                Some((_, port)) => format!("{COOKIE}-{port}"),
                None => COOKIE.to_owned(),
            },
            name,
            keys: Mutex::default(),
            password: password.map(Arc::new),
            tries: Mutex::new(Tries::slow(TRIES_AT_ONCE, TRY_S)),
            compares: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(TRIES_WAITING)),
            form_key: secret()?.text().clone(),
            tell,
        })
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Reports the pages' address, if there is one. Without a password the address contains a new
    /// token. With a password a token would only be another secret in logs.
    pub(crate) fn tell_address(&self) -> Result<(), Error> {
        let Some(name) = &self.name else { return Ok(()) };
        let mut address = format!("{}://{name}/", self.scheme);
        if !self.has_password() {
            let token = secret()?;
            address.push_str(&format!("?token={}", token.text()));
            self.keys().offer(token, steady_ms());
        }
        (self.tell)(&address);
        Ok(())
    }

    /// Returns the visitor of a request that has a session, or that arrives through a Unix socket
    /// without a password.
    pub(crate) fn visitor(&self, via: Via, headers: &HeaderMap) -> Option<Visitor> {
        if matches!(via, Via::Unix(_)) && !self.has_password() {
            return Some(Visitor { form_key: self.form_key.clone() });
        }
        let cookies = headers.get_all(header::COOKIE);
        let sessions = cookies.iter().filter_map(|value| value.to_str().ok()).flat_map(|text| {
            let pairs = text.split(';').filter_map(|pair| pair.trim().split_once('='));
            pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value)
        });
        let now_ms = steady_ms();
        let mut keys = self.keys();
        let mut found = sessions.filter_map(|session| keys.form_key(session, now_ms));
        found.next().map(|form_key| Visitor { form_key })
    }

    /// Exchanges a token for a session, and redirects to the same page without the token. Returns
    /// `None` if the token is not valid. Tries of tokens are not limited, because nobody can guess
    /// 32 random bytes. A limit would let strangers keep the token's owner out.
    pub(crate) fn by_token(&self, token: &str, uri: &Uri) -> Option<Response> {
        if !self.keys().is_token(token, steady_ms()) {
            return None;
        }
        let Ok(fresh) = fresh() else {
            return Some(StatusCode::INTERNAL_SERVER_ERROR.into_response());
        };
        let session = fresh.session.clone();
        if !self.keys().enter(token, fresh, steady_ms()) {
            return None;
        }
        Some(self.begun(&session, without_token(uri)))
    }

    /// Exchanges the password for a session, and redirects to a page.
    pub(crate) async fn by_password(
        &self,
        given: String,
        origin: Origin,
        to: &str,
    ) -> Result<Response, Refused> {
        let password = self.password.clone().ok_or(Refused::NoPassword)?;
        // A try that is refused because the queue is full does not count.
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| Refused::TooOften)?;
        let may = {
            let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
            tries.may(origin, steady_ms())
        };
        if !may {
            return Err(Refused::TooOften);
        }
        let turn = self.compares.clone().acquire_owned().await.map_err(|_| Refused::TooOften)?;
        let compare = move || {
            let is_it = password.is(&given);
            // The client may have disconnected. The work continues, and still counts as running.
            drop((turn, place));
            is_it
        };
        if !tokio::task::spawn_blocking(compare).await.unwrap_or(false) {
            return Err(Refused::Wrong);
        }
        let Ok(fresh) = fresh() else {
            return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
        };
        let session = fresh.session.clone();
        self.keys().begin(fresh, steady_ms());
        Ok(self.begun(&session, own_page(to)))
    }

    pub(crate) fn leave(&self, visitor: &Visitor) {
        self.keys().leave(&visitor.form_key);
    }

    fn begun(&self, session: &Secret, to: String) -> Response {
        let secure = match self.scheme {
            Scheme::Http => "",
            Scheme::Https => "; Secure",
        };
        let cookie =
            format!("{}={}; Path=/; HttpOnly; SameSite=Lax{secure}", self.cookie, session.text());
        let heads = [(header::LOCATION, to), (header::SET_COOKIE, cookie)];
        (StatusCode::SEE_OTHER, heads, "").into_response()
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Fault {
        match refused {
            Refused::Wrong => Fault::new(StatusCode::FORBIDDEN, "The password is wrong."),
            Refused::TooOften => Fault::new(
                StatusCode::TOO_MANY_REQUESTS,
                "There were too many tries: wait ten seconds.",
            ),
            Refused::NoPassword => Fault::new(
                StatusCode::FORBIDDEN,
                "These pages have no password: write a file with `pinhead web --new-password FILE` \
                 and start `pinhead web` with --password-file FILE.",
            ),
        }
    }
}

pub(crate) fn token_of(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

pub(crate) fn without_token(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default();
    let rest: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("token=")).collect();
    // An address that begins with two slashes would lead to another host.
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    let page = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
    // Browsers send only ASCII, and encode all other characters. A proxy may treat raw bytes as
    // control characters.
    if page.is_ascii() { page } else { "/".to_owned() }
}

/// Returns the page of this server that a form redirects to. The form's target may be malicious.
pub(crate) fn own_page(to: &str) -> String {
    match to.parse::<Uri>() {
        Ok(uri) if uri.authority().is_none() => without_token(&uri),
        _ => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_removed_from_the_address_of_the_same_page() {
        let to = |text: &str| without_token(&text.parse::<Uri>().unwrap());
        assert_eq!(to("/?token=abc"), "/");
        assert_eq!(to("/guest/web1?last=1h&token=abc"), "/guest/web1?last=1h");
        assert_eq!(to("http://127.0.0.1//evil.example/?token=a"), "/evil.example/");
        assert_eq!(to("/guest/\u{9e}?token=a"), "/", "an address cannot contain this character");
        let token = |text: &str| token_of(&text.parse::<Uri>().unwrap()).map(str::to_owned);
        assert_eq!(token("/?a=b&token=abc"), Some("abc".into()));
        assert_eq!(token("/?mytoken=abc"), None);
    }

    #[test]
    fn a_form_redirects_only_to_pages_of_this_server() {
        assert_eq!(own_page("/guest/web1?last=1h"), "/guest/web1?last=1h");
        for elsewhere in [
            "http://evil.example/",
            "//evil.example/x",
            "",
            "evil",
            "\\\\evil",
            "/\r\nSet-Cookie: a",
        ] {
            let to = own_page(elsewhere);
            let is_ours =
                to.starts_with('/') && !to.starts_with("//") && !to.contains("Set-Cookie");
            assert!(is_ours, "{elsewhere:?}: {to}");
        }
    }
}
