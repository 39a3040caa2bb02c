//! Checks that a request is meant for these pages, and that no page of another site sends the
//! request through the visitor's browser.
//!
//! - `Host` must be a name of these pages. A foreign name that resolves to this machine (DNS
//!   rebinding) is refused.
//! - `Sec-Fetch-Site` has to name this site, or must be `none`, as for a typed address. Links from
//!   other sites may open a page, and nothing else.
//! - `Origin`, if present, has to be this site. A request that changes something has to send
//!   `Sec-Fetch-Site` or `Origin`.

use axum::http::Method;
use std::net::{IpAddr, SocketAddr};

/// Headers by which a request is accepted or refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heads<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    /// Value of `Sec-Fetch-Site`.
    pub(crate) site: Option<&'a str>,
    /// Value of `Sec-Fetch-Mode`.
    pub(crate) mode: Option<&'a str>,
}

/// Host names that browsers may use.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The pages' own names in lower case, with the port. `None` means that any name is accepted.
    own: Option<Vec<String>>,
    /// Names of a proxy, with any port or without a port.
    given: Vec<String>,
}

/// Reason why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request is for another host name.
    Host,
    /// A page of another site has sent the request.
    Site,
}

impl Names {
    /// Returns the names for an address: `given`, the address itself, and `localhost` if this name
    /// leads to the address. The unspecified address has only the names in `given`.
    pub(crate) fn of_address(address: SocketAddr, by_tls: bool, given: &[String]) -> Names {
        let port = address.port();
        let host = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let is_usual = matches!(host.as_str(), "127.0.0.1" | "[::1]");
        let hosts: Vec<String> = match address.ip().is_unspecified() {
            true => given.iter().take(1).map(|name| name.to_ascii_lowercase()).collect(),
            false => [Some(host), is_usual.then(|| "localhost".to_owned())]
                .into_iter()
                .flatten()
                .collect(),
        };
        let usual = if by_tls { 443 } else { 80 };
        let own = hosts
            .into_iter()
            .flat_map(|name| [Some(format!("{name}:{port}")), (port == usual).then_some(name)])
            .flatten()
            .collect();
        Names { own: Some(own), given: lowered(given) }
    }

    /// Returns the names for a Unix socket, which accepts any name. No browser reaches the socket
    /// directly, and the proxy in front of the socket checks the names.
    pub(crate) fn of_socket(given: &[String]) -> Names {
        Names { own: None, given: lowered(given) }
    }

    /// Returns the host name for the address that is reported to the user.
    pub(crate) fn first(&self) -> Option<&str> {
        self.own.as_ref()?.first().map(String::as_str)
    }

    fn has(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let Some(own) = &self.own else {
            return self.given.is_empty() || self.is_given(&host);
        };
        own.contains(&host) || self.is_given(&host)
    }

    fn is_given(&self, host: &str) -> bool {
        let bare = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        self.given.iter().any(|name| name == host || name == bare)
    }
}

fn lowered(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// Checks that a request may be processed further.
pub(crate) fn check(method: &Method, heads: Heads<'_>, names: &Names) -> Result<(), Refusal> {
    let host = heads.host.filter(|host| names.has(host)).ok_or(Refusal::Host)?;
    let changes = *method != Method::GET && *method != Method::HEAD;
    let is_ours = match heads.site {
        Some("same-origin") => true,
        Some("none") => !changes,
        // A link from another site may open a page.
        Some(_) => !changes && heads.mode == Some("navigate"),
        None => !changes || heads.origin.is_some(),
    };
    let is_origin_ours = heads.origin.is_none_or(|origin| {
        let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    });
    if is_ours && is_origin_ours { Ok(()) } else { Err(Refusal::Site) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Heads<'_> =
        Heads { host: Some("127.0.0.1:8420"), origin: None, site: None, mode: None };

    fn names() -> Names {
        Names::of_address(([127, 0, 0, 1], 8420).into(), false, &["pinhead.example".into()])
    }

    #[test]
    fn a_foreign_name_for_this_machine_is_refused() {
        let by = |host: Option<&str>| check(&Method::GET, Heads { host, ..HOST }, &names());
        for good in ["127.0.0.1:8420", "LOCALHOST:8420", "pinhead.example", "pinhead.example:443"] {
            assert_eq!(by(Some(good)), Ok(()), "{good}");
        }
        let bad = [
            "evil.example:8420",
            // Another process may listen on these addresses.
            "[::1]:8420",
            "127.0.0.2:8420",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1.evil.example:8420",
            "",
            "pinhead.example.evil",
        ];
        for host in bad {
            assert_eq!(by(Some(host)), Err(Refusal::Host), "{host}");
        }
        assert_eq!(by(None), Err(Refusal::Host));
        let second = Names::of_address(([127, 0, 0, 2], 80).into(), false, &[]);
        assert_eq!(second.first(), Some("127.0.0.2:80"));
        assert!(second.has("127.0.0.2") && !second.has("localhost"));
        let sixth = Names::of_address("[::1]:8420".parse().unwrap(), false, &[]);
        assert_eq!(sixth.first(), Some("[::1]:8420"));
        let every = ([0, 0, 0, 0], 443).into();
        let every = Names::of_address(every, true, &["Pin.example".into(), "b.example".into()]);
        assert_eq!(every.first(), Some("pin.example:443"));
        assert!(every.has("pin.example") && every.has("b.example") && !every.has("0.0.0.0:443"));
        let socket = Names::of_socket(&[]);
        let heads = Heads { host: Some("anything"), ..HOST };
        assert_eq!(check(&Method::GET, heads, &socket), Ok(()));
        let socket = Names::of_socket(&["pinhead.example".into()]);
        assert_eq!(check(&Method::GET, heads, &socket), Err(Refusal::Host));
    }

    #[test]
    fn pages_of_other_sites_can_only_open_a_page() {
        let asked = |method: Method, site, mode, origin| {
            check(&method, Heads { site, mode, origin, ..HOST }, &names())
        };
        let (own, foreign) = (Some("http://127.0.0.1:8420"), Some("http://evil.example"));
        // The requests are from a link, a typed address, our own script, our own form, and a
        // program.
        assert_eq!(asked(Method::GET, Some("cross-site"), Some("navigate"), None), Ok(()));
        assert_eq!(asked(Method::GET, Some("none"), Some("navigate"), None), Ok(()));
        assert_eq!(asked(Method::GET, Some("same-origin"), Some("cors"), None), Ok(()));
        assert_eq!(asked(Method::POST, Some("same-origin"), Some("navigate"), own), Ok(()));
        assert_eq!(asked(Method::GET, None, None, None), Ok(()));
        assert_eq!(asked(Method::POST, None, None, own), Ok(()));
        // The requests are from a script, a picture and a form of another site, and from a browser
        // without `Sec-Fetch` headers.
        let no = Err(Refusal::Site);
        assert_eq!(asked(Method::GET, Some("cross-site"), Some("cors"), foreign), no);
        assert_eq!(asked(Method::GET, Some("same-site"), Some("no-cors"), None), no);
        assert_eq!(asked(Method::POST, Some("cross-site"), Some("navigate"), foreign), no);
        assert_eq!(asked(Method::POST, Some("none"), Some("navigate"), None), no);
        assert_eq!(asked(Method::POST, None, None, foreign), no);
        assert_eq!(asked(Method::POST, None, None, Some("null")), no);
        assert_eq!(asked(Method::POST, None, None, None), no);
    }
}
