//! Values of a host's settings, and their parsers.

use std::path::PathBuf;

use metrics::{Processes, Url};
use policy::rivals::Kind;
use settings::{Converted, DeValue, Wrong, kind, list, shown, truth, words, wrong};

use crate::scrape::Listen;

/// The libvirt sources to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Libvirt {
    /// The system's libvirt, if its socket exists.
    Auto,
    /// The listed libvirts. An empty list means none.
    Uris(Vec<LibvirtUri>),
}

/// The address of a libvirt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibvirtUri {
    /// URI: `qemu:///system` or `qemu:///session`.
    pub uri: String,
    /// Path of the socket, if given (`qemu+unix:///system?socket=/path`).
    pub socket: Option<PathBuf>,
}

/// Mode of KSM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KsmMode {
    /// The manager drives KSM, if the files exist and can be written.
    Auto,
    /// The kernel's scan is stopped.
    Off,
    /// KSM is only shown.
    Leave,
}

/// Guests that are paged out to the host's swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutMode {
    /// Sleeping guests, and running guests while the host is below its set point.
    All,
    /// Sleeping guests only.
    Sleepers,
    /// No guests.
    Off,
}

/// Rights of the control socket's group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupMay {
    /// Members may read the manager's state.
    #[default]
    Ask,
    /// Members may also send orders.
    Set,
}

/// Longest path of a socket. The kernel allows 108 bytes, and the file is first created with a
/// suffix.
const SOCKET_MAX: usize = 100;

fn begins_with_slash(path: String) -> Converted<String> {
    if path.starts_with('/') {
        return Ok(path);
    }
    wrong(format!("`{}` is no absolute path", shown(&path)), "begin it with a slash")
}

pub(super) fn absolute(value: &DeValue<'_>) -> Converted<PathBuf> {
    words(value).and_then(begins_with_slash).map(PathBuf::from)
}

pub(super) fn socket(value: &DeValue<'_>) -> Converted<PathBuf> {
    let path = absolute(value)?;
    match path.as_os_str().len() {
        0..=SOCKET_MAX => Ok(path),
        length => wrong(
            format!("the path has {length} bytes, which is too long for a socket"),
            "use a path of at most 100 bytes",
        ),
    }
}

pub(super) fn globs(value: &DeValue<'_>) -> Converted<Vec<String>> {
    list(value)?.into_iter().map(glob).collect()
}

/// Reads a pattern of socket paths. Other syntax, as in shells or QEMU, is refused, because it
/// would match nothing.
fn glob(pattern: String) -> Converted<String> {
    let is_between = |from, to| pattern.split_once(from).is_some_and(|(_, end)| end.contains(to));
    let text = shown(&pattern);
    if let Some(path) = pattern.strip_prefix("unix:") {
        let path = path.split(',').next().unwrap_or_default();
        return wrong(format!("`{text}` is no path"), &format!("write \"{}\"", shown(path)));
    }
    if !pattern.starts_with('/') && pattern.contains(':') {
        return wrong(
            format!("`{text}` is no path, and only unix sockets are looked for"),
            "start QEMU with -qmp unix:/run/guests/NAME.qmp,server=on,wait=off, and write \
             \"/run/guests/*.qmp\"",
        );
    }
    if pattern.split('/').any(|part| part.contains("**")) {
        let help = "write a pattern for each depth, such as \"/run/*.qmp\" and \"/run/*/*.qmp\"";
        let message = format!("`{text}` contains `**`, but a pattern cannot span directories");
        return wrong(message, help);
    }
    if is_between('{', '}') || is_between('[', ']') {
        let help = "`*` stands for any text and `?` for one character; or write several patterns";
        return wrong(
            format!("patterns cannot contain braces or brackets, as `{text}` does"),
            help,
        );
    }
    begins_with_slash(pattern)
}

pub(super) fn listen(value: &DeValue<'_>) -> Converted<Listen> {
    let text = words(value)?;
    Listen::parse(&text).ok_or_else(|| Wrong {
        message: format!("`{}` is neither an address with a port nor a path", shown(&text)),
        help: "write \"127.0.0.1:9177\", \"[::1]:9177\" or \"/run/pinhead/metrics.sock\"".into(),
    })
}

pub(super) fn url(value: &DeValue<'_>) -> Converted<Url> {
    Url::parse(&words(value)?).map_err(|error| Wrong {
        message: error.to_string(),
        help: "write a URL such as \"http://127.0.0.1:8428/api/v1/write\"".into(),
    })
}

pub(super) fn processes(value: &DeValue<'_>) -> Converted<Processes> {
    truth(value).map(|enabled| if enabled { Processes::Told } else { Processes::Left })
}

pub(super) fn policy_kind(value: &DeValue<'_>) -> Converted<Kind> {
    let text = words(value)?;
    let names = || Kind::ALL.iter().map(|kind| kind.name());
    Kind::from_name(&text).ok_or_else(|| Wrong {
        message: format!("no policy `{}` is known", shown(&text)),
        help: match base::nearest(&text, names()).first() {
            Some(near) => format!("is it \"{near}\"?"),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        },
    })
}

pub(super) fn ksm_mode(value: &DeValue<'_>) -> Converted<KsmMode> {
    match value.as_str() {
        Some("auto") => Ok(KsmMode::Auto),
        Some("off") => Ok(KsmMode::Off),
        Some("leave") => Ok(KsmMode::Leave),
        _ => wrong("no such mode".to_owned(), "write \"auto\", \"off\" or \"leave\""),
    }
}

pub(super) fn page_out_mode(value: &DeValue<'_>) -> Converted<PageOutMode> {
    match value.as_str() {
        Some("all") => Ok(PageOutMode::All),
        Some("sleepers") => Ok(PageOutMode::Sleepers),
        Some("off") => Ok(PageOutMode::Off),
        _ => wrong("no such mode".to_owned(), "write \"all\", \"sleepers\" or \"off\""),
    }
}

pub(super) fn group_may(value: &DeValue<'_>) -> Converted<GroupMay> {
    match value.as_str() {
        Some("ask") => Ok(GroupMay::Ask),
        Some("set") => Ok(GroupMay::Set),
        _ => wrong("neither \"ask\" nor \"set\"".to_owned(), "write \"ask\" or \"set\""),
    }
}

pub(super) fn libvirt(value: &DeValue<'_>) -> Converted<Libvirt> {
    if value.as_str() == Some("auto") {
        return Ok(Libvirt::Auto);
    }
    let DeValue::Array(_) = value else {
        let help = "write \"auto\", or a list such as [\"qemu:///system\"]";
        return wrong(format!("expected \"auto\" or a list, found {}", kind(value)), help);
    };
    list(value)?.iter().map(|uri| libvirt_uri(uri)).collect::<Converted<_>>().map(Libvirt::Uris)
}

fn libvirt_uri(text: &str) -> Converted<LibvirtUri> {
    let (base, socket) = match text.split_once("?socket=") {
        Some((base, socket)) => (base, Some(socket)),
        None => (text, None),
    };
    let driver = base.strip_prefix("qemu:///").or_else(|| base.strip_prefix("qemu+unix:///"));
    let is_path = socket.is_none_or(|socket| socket.starts_with('/'));
    match driver {
        Some("system" | "session") if is_path => Ok(LibvirtUri {
            uri: format!("qemu:///{}", driver.unwrap_or_default()),
            socket: socket.map(Into::into),
        }),
        _ => wrong(
            format!("`{}` is no URI of a libvirt on this host", shown(text)),
            "write \"qemu:///system\", \"qemu:///session\" or \
             \"qemu+unix:///system?socket=/path\"",
        ),
    }
}
