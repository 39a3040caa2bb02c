//! Targets for the web pages: input from a browser, a form or another site's page.

use ::web::outside;
use base::duration::DAY_MS;
use why::when::Now;

use crate::input::texts;

/// The current time in all inputs.
const NOW_MS: i64 = 1_795_266_620_000;
/// Maximum time span of a page. The start of the span is rounded down.
const LONGEST_MS: i64 = 366 * DAY_MS;
/// Maximum interval of a page.
const STEP_MAX_MS: i64 = 7 * DAY_MS;

/// Parses a time in an address, and the page to which a form redirects. The time must be bounded,
/// and the address made from the time must have the same meaning. The page must be a path on this
/// server, without a token.
pub(crate) fn web_address(data: &[u8]) {
    let now = Now { ms: NOW_MS, ..why::now() };
    for text in texts(data).map(String::from_utf8_lossy) {
        match outside::times(&text, &now) {
            Ok(times) => {
                let length_ms = times.to_ms - times.from_ms;
                assert!(0 <= times.from_ms && 0 < length_ms && length_ms <= LONGEST_MS);
                assert!(times.step_ms > 0 && times.step_ms <= STEP_MAX_MS);
                assert!(length_ms / times.step_ms <= outside::POINTS + 1, "{times:?}");
                let again = outside::times(&times.query, &now);
                assert!(again.is_ok_and(|again| again.to_ms == times.to_ms), "{times:?}");
            }
            Err(reason) => assert!(!reason.is_empty()),
        }
        let page = outside::page(&text);
        assert!(page.starts_with('/') && !page.starts_with("//"), "{page:?}");
        assert!(!page.contains(char::is_control) && !page.starts_with("/\\"), "{page:?}");
        let query = page.split_once('?').map_or("", |(_, query)| query);
        assert!(!query.split('&').any(|pair| pair.starts_with("token=")), "{page:?}");
    }
}

/// Checks headers of a request: `Host`, `Origin`, `Sec-Fetch-Site`, `Sec-Fetch-Mode`, `Cookie` and
/// `X-Forwarded-For`. An empty text means a missing header. A foreign host must be refused, another
/// site must change nothing, and an unknown cookie must give no access.
pub(crate) fn web_heads(data: &[u8]) {
    let all: Vec<&[u8]> = texts(data).take(6).collect();
    let raw = |at: usize| all.get(at).copied().unwrap_or_default();
    let head = |at: usize| std::str::from_utf8(raw(at)).ok().filter(|text| !text.is_empty());
    let heads = [head(0), head(1), head(2), head(3)];
    let [host, origin, site, _] = heads;
    let [reads, changes] = [false, true].map(|changes| outside::is_served(changes, heads));
    let ours = ["127.0.0.1:8420", "localhost:8420", "pinhead.example"];
    let is_ours = |host: &str| {
        let host = host.to_ascii_lowercase();
        ours.iter().any(|own| *own == host) || host.starts_with("pinhead.example:")
    };
    assert!(!reads || host.is_some_and(is_ours), "{heads:?}");
    let is_own_origin = |origin: &str| {
        let name = origin.split_once("://").map_or("", |(_, name)| name);
        host.is_some_and(|host| name.eq_ignore_ascii_case(host))
    };
    assert!(!(reads || changes) || origin.is_none_or(is_own_origin), "{heads:?}");
    // One of two headers must prove that a change comes from a page of this server.
    assert!(!changes || site == Some("same-origin") || (site.is_none() && origin.is_some()));
    assert!(!changes || reads, "{heads:?}");
    assert!(!outside::is_let_in(raw(4)), "{}", raw(4).escape_ascii());
    let [direct, by_proxy] = outside::origins(raw(5));
    assert!(direct == "Local" || direct.is_empty(), "{direct}");
    assert!(by_proxy != "Unknown", "a proxy's user is known");
}

/// Parses forms and password files. A valid form must have an effect, and an error must be a
/// sentence.
pub(crate) fn web_forms(data: &[u8]) {
    for text in texts(data).map(String::from_utf8_lossy) {
        match outside::changed(&text) {
            Ok(change) => assert!(!format!("{change:?}").contains("Shares(0)"), "{change:?}"),
            Err(reason) => {
                assert!(!reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
            }
        }
        match outside::password_fault(&text) {
            Some(fault) => assert!(fault.contains("--new-password")),
            None => assert!(text.trim().starts_with("$argon2id$"), "{text:?}"),
        }
    }
}
