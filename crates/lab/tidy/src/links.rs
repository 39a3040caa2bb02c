//! Markdown links to files of the tree.

use std::path::Path;

/// Returns the links of a Markdown text that lead to paths: line number and path of each link.
/// External links, links within the page, and text in code are left out.
pub fn local(markdown: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (line, at) in markdown.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Every other part between backticks is code.
        for prose in line.split('`').step_by(2) {
            for link in prose.split("](").skip(1) {
                let target = link.split([')', ' ', '#']).next().unwrap_or_default();
                if !target.is_empty() && !target.contains(':') {
                    found.push((at, target));
                }
            }
        }
    }
    found
}

/// Returns the complaints about a Markdown file at `path` under `root`.
pub fn complaints(root: &Path, path: &str, markdown: &str) -> Vec<String> {
    let file = root.join(path);
    let dir = file.parent().unwrap_or(root);
    local(markdown)
        .into_iter()
        .filter(|(_, target)| !dir.join(target).exists())
        .map(|(at, target)| format!("{path}:{at}: there is no {target}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_and_nothing_else() {
        let text = "[a](b.md) ![c](d/e.png \"f\") [g](https://h.i) [j](#k)\n\
                    ```\n[l](m)\n```\n`[n](o)` [`p`](q.rs#L3)\n";
        assert_eq!(local(text), [(1, "b.md"), (1, "d/e.png"), (5, "q.rs")]);
    }

    #[test]
    fn a_link_to_nothing_is_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = complaints(root, "src/x.md", "[a](lib.rs)\n[b](../Cargo.toml) [c](gone.rs)\n");
        assert_eq!(found, ["src/x.md:2: there is no gone.rs"]);
    }
}
