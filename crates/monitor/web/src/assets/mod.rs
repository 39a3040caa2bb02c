//! Style and script of the pages, which are part of the program.

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::StableHash;
use base::html::STYLE;
use std::sync::LazyLock;

const OWN_STYLE: &str = include_str!("app.css");
const SCRIPT: &str = include_str!("app.js");
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\">\
                    <path d=\"M8 7v8\" stroke=\"#6c757d\" stroke-width=\"2\"/>\
                    <circle cx=\"8\" cy=\"5\" r=\"4\" fill=\"#c75000\"/></svg>";

static WHOLE_STYLE: LazyLock<String> = LazyLock::new(|| format!("{STYLE}{OWN_STYLE}"));

/// Hash of the contents. Addresses contain the hash, so an address never gets other contents.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let mut hash = StableHash::default();
    hash.put(WHOLE_STYLE.as_bytes());
    hash.put(SCRIPT.as_bytes());
    format!("{:016x}", hash.finish())
});

pub(crate) fn style_path() -> String {
    format!("/assets/app.css?v={}", *MARK)
}

pub(crate) fn script_path() -> String {
    format!("/assets/app.js?v={}", *MARK)
}

/// Serves the style, the script or the icon.
pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    let (kind, text): (&'static str, &'static str) = match name.as_str() {
        "app.css" => ("text/css; charset=utf-8", WHOLE_STYLE.as_str()),
        "icon.svg" => ("image/svg+xml", ICON),
        "app.js" => ("text/javascript; charset=utf-8", SCRIPT),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let heads = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")),
    ];
    (heads, text).into_response()
}
