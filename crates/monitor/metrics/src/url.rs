//! URLs of servers. Only plain HTTP is supported, without TLS.

use crate::Error;
use std::fmt;

const URL_MAX: usize = 2000;

/// `http://HOST[:PORT]/PATH`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Name or address of the host. An IPv6 address has no brackets here.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path from the first slash on, without a slash at its end.
    pub(crate) path: String,
}

impl Url {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Url, Error> {
        let wrong = |reason| {
            let url: String = text.chars().take(200).collect();
            Error::Url { url, reason }
        };
        if text.starts_with("https:") {
            let reason = "pinhead does not support TLS; a proxy on this machine can add TLS";
            return Err(wrong(reason));
        }
        let rest = text.strip_prefix("http://").ok_or_else(|| wrong("it lacks http://"))?;
        if text.len() > URL_MAX {
            return Err(wrong("it is too long"));
        }
        // A control character or blank would end the line in a request's head.
        if !rest.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(wrong("it contains characters that are not allowed in an address"));
        }
        let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if path.contains(['?', '#']) {
            return Err(wrong("it contains a `?` or a `#`"));
        }
        if authority.contains('@') {
            return Err(wrong("it contains a password, which would be sent unencrypted"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                rest.split_once(']').ok_or_else(|| wrong("its closing bracket is missing"))?
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        if host.is_empty() {
            return Err(wrong("it contains no host"));
        }
        let port = match port.strip_prefix(':') {
            Some(port) => {
                port.parse().map_err(|_| wrong("its port is not a number up to 65535"))?
            }
            None if port.is_empty() => 80,
            None => return Err(wrong("its closing bracket is not followed by `:PORT`")),
        };
        let path = path.trim_end_matches('/').to_owned();
        Ok(Url { host: host.to_owned(), port, path })
    }

    /// Returns the host with its port, as in a request.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let shown = |text| Url::parse(text).map(|url| url.to_string()).map_err(|e| e.to_string());
        assert_eq!(shown("http://a").unwrap(), "http://a:80");
        assert_eq!(shown("http://127.0.0.1:8428/").unwrap(), "http://127.0.0.1:8428");
        assert_eq!(shown("http://[::1]:9/a/b/").unwrap(), "http://[::1]:9/a/b");
        for bad in [
            "",
            "ftp://a",
            "https://a",
            "http://",
            "http://:1",
            "http://a:99999",
            "http://[::1",
            "http://[::1]x",
            "http://u:p@a",
            "http://a/?x=1",
            "http://a/\r\nHost: b",
        ] {
            assert!(shown(bad).unwrap_err().contains("http://HOST"), "{bad}");
        }
    }
}
