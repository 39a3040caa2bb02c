//! Self-contained pages of HTML, which include their style and have no scripts.

/// The style of all pages.
pub const STYLE: &str = include_str!("page.css");

/// The end of a page.
pub const CLOSE: &str = "</main>\n</body>\n</html>\n";

/// Escapes a text for a page, so that it contains no markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns the beginning of a page, up to its contents. `style` follows the style of all pages.
pub fn open(title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">\n<title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n\
         <body>\n<main>\n",
        escaped(title)
    )
}
