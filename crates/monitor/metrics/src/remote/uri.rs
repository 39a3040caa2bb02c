//! libvirt's URIs of hosts, as far as they use ssh.

use crate::remote::Error;
use base::{nearest, shell_word};

/// Program of libvirt that finds the daemon's socket by itself. Netcat replaces a missing program.
const HELPER: &str = "virt-ssh-helper";
/// Read-only sockets of the monolithic daemon and of QEMU's own daemon.
const SOCKETS: [&str; 2] =
    ["/var/run/libvirt/libvirt-sock-ro", "/var/run/libvirt/virtqemud-sock-ro"];
/// Sockets of a user's own daemon, which has no read-only socket.
const USER_SOCKETS: [&str; 2] = ["libvirt-sock", "virtqemud-sock"];
/// Allowed parameters after the question mark.
const KEYS: [&str; 6] = ["socket", "proxy", "netcat", "keyfile", "known_hosts", "no_verify"];
const EXAMPLE: &str = "use a URI such as qemu+ssh://root@host/system";

/// The program that connects to the daemon on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Proxy {
    /// libvirt's helper program, or netcat if the helper program is missing.
    #[default]
    Auto,
    Native,
    Netcat,
}

/// A host's libvirt: `qemu+ssh://[user@]host[:port]/system`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    /// The host's name for ssh.
    host: String,
    user: Option<String>,
    port: Option<u16>,
    /// Set for a user's own daemon instead of the system's daemon.
    is_session: bool,
    socket: Option<String>,
    proxy: Proxy,
    netcat: Option<String>,
    key_file: Option<String>,
    known_hosts: Option<String>,
    /// Set if the host's key is not verified.
    is_unverified: bool,
}

impl Uri {
    /// Parses a URI.
    pub fn parse(text: &str) -> Result<Uri, Error> {
        parse(text).map_err(|what| Error::Uri { uri: text.to_owned(), what })
    }

    /// Returns the host's name for ssh.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the URI that the daemon on the host opens.
    pub(crate) fn to_open(&self) -> &'static str {
        if self.is_session { "qemu:///session" } else { "qemu:///system" }
    }

    pub(crate) fn words(&self) -> Vec<String> {
        // ssh cannot ask for a password here, and must not forward anything.
        let mut words: Vec<String> = ["-T", "-x", "-a", "-e", "none"].map(str::to_owned).to_vec();
        let options = ["BatchMode=yes", "ConnectTimeout=10", "ClearAllForwardings=yes"];
        words.extend(options.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if let Some(port) = self.port {
            option("-p", port.to_string());
        }
        if let Some(user) = &self.user {
            option("-l", user.clone());
        }
        if let Some(file) = &self.key_file {
            option("-i", file.clone());
        }
        if let Some(file) = &self.known_hosts {
            option("-o", format!("UserKnownHostsFile={file}"));
        }
        if self.is_unverified {
            option("-o", "StrictHostKeyChecking=no".to_owned());
        }
        words.extend(["--".to_owned(), self.host.clone(), self.command()]);
        words
    }

    /// Returns the command for the host's shell, which may be of any kind.
    fn command(&self) -> String {
        let helper = format!("exec {HELPER} -r {}", shell_word(self.to_open()));
        let netcat = self.netcat_script();
        let script = match (self.proxy, &self.socket) {
            (Proxy::Native, _) => helper,
            (Proxy::Auto, None) => {
                format!("if command -v {HELPER} >/dev/null 2>&1; then {helper}; fi; {netcat}")
            }
            _ => netcat,
        };
        format!("sh -c {}", shell_word(&script))
    }

    fn netcat_script(&self) -> String {
        let netcat = shell_word(self.netcat.as_deref().unwrap_or("nc"));
        // Some versions of netcat need the option -q to end when their input ends. Other versions
        // reject this option.
        let q = format!("q=; {netcat} -h 2>&1 | grep -q -e -q && q=\"-q 0\"; ");
        if let Some(socket) = &self.socket {
            return format!("{q}exec {netcat} $q -U {}", shell_word(socket));
        }
        let ([first, second], dir) = match self.is_session {
            true => (USER_SOCKETS, "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/libvirt/"),
            false => (SOCKETS, ""),
        };
        format!(
            "{q}s=\"{dir}{first}\"; test -S \"$s\" || s=\"{dir}{second}\"; \
             exec {netcat} $q -U \"$s\""
        )
    }
}

fn parse(text: &str) -> Result<Uri, String> {
    let rest = match text.split_once("://") {
        Some(("qemu+ssh", rest)) => rest,
        Some(("qemu", _)) => {
            return Err(format!(
                "a URI without +ssh means this host, which `pinhead host` manages; {EXAMPLE}"
            ));
        }
        Some((scheme, _)) => {
            return Err(format!("{scheme:?} is not supported, only qemu+ssh; {EXAMPLE}"));
        }
        None => return Err(format!("it is not a URI; {EXAMPLE}")),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_session = match path {
        "system" => false,
        "session" => true,
        _ => return Err(format!("it must end with /system or /session; {EXAMPLE}")),
    };
    let mut uri = Uri { is_session, ..Uri::default() };
    let place = match place.rsplit_once('@') {
        Some((user, place)) => {
            uri.user = Some(word("user", &decoded(user)?)?);
            place
        }
        None => place,
    };
    let (host, port) = split_port(place)?;
    uri.host = word("host", &decoded(host)?)?;
    uri.port = port;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        set(&mut uri, key, decoded(value)?)?;
    }
    Ok(uri)
}

/// Splits a text into host and port. An address with colons is in brackets.
fn split_port(place: &str) -> Result<(&str, Option<u16>), String> {
    let bracketed = place.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or("?"))),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let number = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is not a port; use a number from 1 to 65535")),
        Ok(port) => Ok(port),
    };
    Ok((host, port.map(number).transpose()?))
}

/// Checks a word for ssh. The word must not be an option.
fn word(what: &str, text: &str) -> Result<String, String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "'\"`$\\;|&<>()".contains(c);
    match text {
        "" => Err(format!("the {what} is missing; {EXAMPLE}")),
        _ if text.starts_with('-') || text.contains(is_odd) => {
            Err(format!("{text:?} is not a valid name of a {what}; {EXAMPLE}"))
        }
        _ => Ok(text.to_owned()),
    }
}

fn set(uri: &mut Uri, key: &str, value: String) -> Result<(), String> {
    if value.contains(char::is_control) || value.is_empty() {
        return Err(format!("the value of `{key}` is empty or contains a control character"));
    }
    match key {
        "socket" => uri.socket = Some(value),
        "netcat" => uri.netcat = Some(value),
        "keyfile" => uri.key_file = Some(value),
        "known_hosts" => uri.known_hosts = Some(value),
        "no_verify" => uri.is_unverified = value != "0",
        "proxy" => {
            uri.proxy = match value.as_str() {
                "auto" => Proxy::Auto,
                "native" => Proxy::Native,
                "netcat" => Proxy::Netcat,
                _ => {
                    return Err(format!(
                        "`proxy` must be `auto`, `native` or `netcat`, not {value:?}"
                    ));
                }
            }
        }
        _ => {
            let known = KEYS.join(", ");
            let near = nearest(key, KEYS.into_iter());
            let near =
                near.first().map(|key| format!(" (did you mean {key}?)")).unwrap_or_default();
            return Err(format!(
                "{key:?} is an unknown parameter{near}; the parameters are {known}"
            ));
        }
    }
    Ok(())
}

/// Decodes a text with bytes written as %2F.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} has a % without two hexadecimal digits after it");
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = more;
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Uri::parse(text).unwrap().words().split_off(11)
    }

    #[test]
    fn a_host_is_reached_as_libvirts_own_client_reaches_it() {
        let uri = Uri::parse("qemu+ssh://b/system").unwrap();
        assert_eq!((uri.host(), uri.to_open()), ("b", "qemu:///system"));
        let script = "sh -c 'if command -v virt-ssh-helper >/dev/null 2>&1; then exec \
                      virt-ssh-helper -r qemu:///system; fi; \
                      q=; nc -h 2>&1 | grep -q -e -q && q=\"-q 0\"; \
                      s=\"/var/run/libvirt/libvirt-sock-ro\"; test -S \"$s\" || \
                      s=\"/var/run/libvirt/virtqemud-sock-ro\"; exec nc $q -U \"$s\"'";
        assert_eq!(words("qemu+ssh://b/system"), ["--", "b", script]);
        let words = words("qemu+ssh://an%40n@[fe80::1]:2222/session?socket=/run/a%20b&keyfile=k");
        let command = "sh -c 'q=; nc -h 2>&1 | grep -q -e -q && q=\"-q 0\"; exec nc $q -U \
                       '\\''/run/a b'\\'''";
        assert_eq!(words, ["-p", "2222", "-l", "an@n", "-i", "k", "--", "fe80::1", command]);
        let native = Uri::parse("qemu+ssh://b/session?proxy=native&no_verify=1").unwrap();
        assert_eq!(native.command(), "sh -c 'exec virt-ssh-helper -r qemu:///session'");
        assert!(native.words().contains(&"StrictHostKeyChecking=no".to_owned()));
    }

    #[test]
    fn invalid_uri_is_refused_with_a_correction() {
        let cases = [
            ("b", "not a URI"),
            ("qemu:///system", "this host"),
            ("xen+ssh://b/system", "\"xen+ssh\" is not supported"),
            ("qemu+ssh://b/", "/system or /session"),
            ("qemu+ssh://b", "/system or /session"),
            ("qemu+ssh:///system", "the host is missing"),
            ("qemu+ssh://-oProxyCommand=x/system", "is not a valid name of a host"),
            ("qemu+ssh://$(x)/system", "is not a valid name of a host"),
            ("qemu+ssh://-a@b/system", "is not a valid name of a user"),
            ("qemu+ssh://b:0/system", "\"0\" is not a port"),
            ("qemu+ssh://[::1]x/system", "is not a port"),
            ("qemu+ssh://b/system?sokcet=/x", "did you mean socket?"),
            ("qemu+ssh://b/system?socket=%zz", "two hexadecimal digits"),
            ("qemu+ssh://b/system?socket=%0a", "empty or contains a control character"),
            ("qemu+ssh://b/system?proxy=x", "`auto`, `native` or `netcat`"),
        ];
        for (text, part) in cases {
            let error = Uri::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(text) && error.contains(part), "{error}");
        }
    }
}
