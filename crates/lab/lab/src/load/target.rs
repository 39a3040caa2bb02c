//! Targets of requests.

use crate::load::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Maximum number of targets, and of ports in a range. No farm has as many guests.
pub const TARGETS_MAX: usize = 20_000;
/// Maximum length of a path. Our paths are shorter.
const PATH_BYTES_MAX: usize = 2048;
/// Number of servers in a class of [`class_by_tens`].
const TEN: usize = 10;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name in the results: a guest's name, or its address.
    pub name: String,
    /// Class of the target. Targets of one class are counted together.
    pub class: String,
    /// Address of the server.
    pub address: SocketAddr,
    /// Requested path, from the slash on.
    pub path: String,
}

/// Parses `http://127.0.0.1:18000/page`, `127.0.0.1:18000` or a range of ports,
/// `127.0.0.1:18000-18099`. Only addresses and `localhost` are valid, because the time to resolve a
/// name would count as time of a server.
pub fn parse_targets(text: &str, class: &str) -> Result<Vec<Target>, Error> {
    let wrong = |reason: String| Error::Target { text: text.to_owned(), reason };
    let usual = "write ADDRESS:PORT, ADDRESS:FIRST-LAST or http://ADDRESS:PORT/PATH";
    let rest = match text.split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme, _)) => return Err(wrong(format!("{scheme} is not supported: use http"))),
        None => text,
    };
    let (place, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    check_path(path).map_err(|reason| wrong(reason.to_owned()))?;
    let (host, ports) =
        place.rsplit_once(':').ok_or_else(|| wrong(format!("it has no port: {usual}")))?;
    let host = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let parsed = bare.unwrap_or(host).parse();
            parsed.map_err(|_| wrong(format!("{host:?} is not an address: {usual}")))?
        }
    };
    let port = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(wrong(format!("{text:?} is not a port: {usual}"))),
    };
    let (first, last) = match ports.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(ports)?, port(ports)?),
    };
    if first > last {
        return Err(wrong(format!("the first port, {first}, is greater than the last, {last}")));
    }
    let found = usize::from(last - first) + 1;
    if found > TARGETS_MAX {
        return Err(wrong(format!("the range has {found} ports, more than {TARGETS_MAX}")));
    }
    let target = |port| {
        let address = SocketAddr::new(host, port);
        let (class, path) = (class.to_owned(), path.to_owned());
        Target { name: address.to_string(), class, address, path }
    };
    Ok((first..=last).map(target).collect())
}

/// Sets classes of ten neighbours each, for the wipe over all servers: `1-10`, `11-20`.
pub fn class_by_tens(targets: &mut [Target]) {
    let count = targets.len();
    for (n, target) in targets.iter_mut().enumerate() {
        let first = n / TEN * TEN + 1;
        let last = (first + TEN - 1).min(count);
        target.class = format!("{first}-{last}");
    }
}

/// Checks a path. A request contains the path unchanged, so the path must not end the request's
/// first line.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("a path must begin with a slash");
    }
    if path.len() > PATH_BYTES_MAX {
        return Err("the path is longer than 2048 bytes");
    }
    if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("a path may contain only ASCII without blanks: write %20 for a blank");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let targets = parse_targets(text, "web").unwrap();
        targets.iter().map(|target| format!("{}{}", target.address, target.path)).collect()
    }

    #[test]
    fn a_target_is_an_address_a_url_or_a_range() {
        assert_eq!(names("127.0.0.1:18000"), ["127.0.0.1:18000/"]);
        assert_eq!(names("http://localhost:80/a?b=c"), ["127.0.0.1:80/a?b=c"]);
        assert_eq!(names("[::1]:7-8/x"), ["[::1]:7/x", "[::1]:8/x"]);
        assert_eq!(names("127.0.0.1:18000-18099").len(), 100);
    }

    #[test]
    fn invalid_target_is_reported_with_a_correction() {
        for (text, part) in [
            ("https://127.0.0.1:1", "use http"),
            ("127.0.0.1", "no port"),
            ("server:80", "not an address"),
            ("127.0.0.1:0", "not a port"),
            ("127.0.0.1:70000", "not a port"),
            ("127.0.0.1:20-10", "greater than the last"),
            ("127.0.0.1:1-65535", "more than 20000"),
            ("127.0.0.1:1/a b", "%20"),
            ("127.0.0.1:1/a\r\nX: y", "%20"),
        ] {
            let message = parse_targets(text, "web").unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn classes_have_ten_targets_and_the_last_has_the_rest() {
        let mut targets = parse_targets("127.0.0.1:1-23", "web").unwrap();
        class_by_tens(&mut targets);
        let classes: Vec<&str> = targets.iter().map(|target| target.class.as_str()).collect();
        assert_eq!((classes[0], classes[9], classes[10]), ("1-10", "1-10", "11-20"));
        assert_eq!((classes[20], classes[22]), ("21-23", "21-23"));
    }
}
