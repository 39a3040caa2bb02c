//! The files of a crate as modules, and the names that they import from each other.
//!
//! Paths with `crate`, `self` and `super`, child modules, imports under other names, and
//! re-exported names (`pub use`) are resolved as the compiler resolves them. `use crate::a;` with
//! `a::b::f()` imports a name from `a/b.rs` and no name from `a/mod.rs`. A re-export is not an
//! import, so a `lib.rs` with only re-exports ties no files together, unless its own code uses the
//! re-exported names.
//!
//! ```text
//!   files of a crate ──► [Module] (path, code without tests) ──► arrows ──► circles
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::code_only;
use crate::tree::{File, source};
use crate::uses::{self, Kind, Use};

/// A file of a crate, without its tests.
pub struct Module {
    /// The file's path from the root of the tree.
    pub file: String,
    /// Its code, with comments, literals and tests as spaces.
    pub code: String,
    /// Its path in the crate: empty for the crate's root.
    path: Vec<String>,
    uses: Vec<Use>,
}

/// The modules of a crate.
pub struct Modules {
    /// Modules, in the order of the files' paths.
    pub all: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
}

/// Indices of two files. The first file imports names from the second file.
pub type Arrow = (usize, usize);

impl Modules {
    /// Returns the modules among `files` that belong to the crate of this name.
    pub fn of(name: &str, files: &[File]) -> Self {
        let is_library = |file: &File| source(&file.path) == Some((name, "lib.rs"));
        let has_library = files.iter().any(is_library);
        let mut all = Vec::new();
        for file in files {
            let Some((_, inside)) = source(&file.path).filter(|(of, _)| *of == name) else {
                continue;
            };
            // If there is a library, a program is a separate crate, and no file imports from it.
            let path = match inside {
                "main.rs" if has_library => Some(vec![inside.to_owned()]),
                _ => module_path(inside),
            };
            let Some(path) = path else { continue };
            let code = without_tests(&code_only(&file.text));
            let uses = uses::of(&code);
            all.push(Module { file: file.path.clone(), code, path, uses });
        }
        let by_path = all.iter().enumerate().map(|(at, m)| (m.path.clone(), at)).collect();
        Self { all, by_path }
    }

    /// Returns the pairs of files in which the first file imports names from the second file, each
    /// pair once.
    pub fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (from, module) in self.all.iter().enumerate() {
            for used in module.uses.iter().filter(|used| used.kind != Kind::HandedOn) {
                if let Some(to) = self.resolve(from, &used.path, 0)
                    && to != from
                {
                    arrows.insert((from, to));
                }
            }
        }
        arrows
    }

    /// Returns the file that defines the item at `path`, as seen from module `from`; `None` for a
    /// module itself and for an item of another crate.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        // Maximum number of imports to follow. Without a maximum, two modules that import each
        // other's names would be followed forever.
        const IMPORTS_MAX: usize = 8;
        if depth > IMPORTS_MAX {
            return None;
        }
        let (mut base, mut rest) = self.begin(from, path)?;
        loop {
            let (name, after) = rest.split_first()?;
            let at = self.by_path.get(&base).copied();
            let import = at.and_then(|at| self.all[at].import(name, &self.all[from]));
            base.push(name.clone());
            // `run` may be the name of a module and of a function that the module's parent
            // re-exports.
            if self.by_path.contains_key(&base) && (import.is_none() || !after.is_empty()) {
                rest = after;
                continue;
            }
            return match import {
                Some(used) => self.resolve(at?, &[&used.path, after].concat(), depth + 1),
                None => at,
            };
        }
    }

    /// Resolves the beginning of a path: returns a module, and the rest of `path`.
    fn begin<'p>(&self, from: usize, path: &'p [String]) -> Option<(Vec<String>, &'p [String])> {
        let mut base = self.all[from].path.clone();
        let (first, mut rest) = path.split_first()?;
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop()?;
                while rest.first().is_some_and(|word| word == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            name => {
                let child = [base.as_slice(), &path[..1]].concat();
                // Any other name is of another crate, or an item of this file.
                if !self.by_path.contains_key(&child) {
                    self.all[from].import(name, &self.all[from])?;
                }
                rest = path;
            }
        }
        Some((base, rest))
    }
}

impl Module {
    /// Returns the `use` of this module that gives `name` to the code of `reader`. A private `use`
    /// is visible in the module and in the modules below it. A glob gives no known names.
    fn import(&self, name: &str, reader: &Module) -> Option<&Use> {
        let is_below = reader.path.starts_with(&self.path);
        self.uses.iter().find(|used| match used.kind {
            Kind::Import => is_below && used.name == name,
            Kind::HandedOn => used.name == name,
            Kind::Inline => false,
        })
    }
}

/// Returns the path in the crate of a file below `src`; `None` for tests.
fn module_path(inside: &str) -> Option<Vec<String>> {
    let stem = inside.strip_suffix(".rs")?;
    let mut path: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if path.iter().any(|part| part == "tests" || part == "bin") {
        return None;
    }
    if path.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main") {
        path.pop();
    }
    Some(path)
}

/// Replaces each item under `#[cfg(test)]` in the code by spaces.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = item_len(item);
        out.extend(item[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// Returns the length of an item with its attributes: up to its `;` or its closing brace.
fn item_len(item: &str) -> usize {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (at, c) in item.char_indices() {
        match c {
            '[' | '(' => brackets += 1,
            ']' | ')' => brackets = brackets.saturating_sub(1),
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

/// Returns groups of files that import names from each other in a circle, the largest first.
pub fn circles(count: usize, arrows: &BTreeSet<Arrow>) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..count).map(|from| reached(from, arrows)).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for from in 0..count {
        if seen.contains(&from) || !reach[from].contains(&from) {
            continue;
        }
        let circle: Vec<usize> =
            reach[from].iter().copied().filter(|to| reach[*to].contains(&from)).collect();
        seen.extend(circle.iter().copied());
        found.push(circle);
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Returns all files that can be reached from a file along the arrows. The file itself is included
/// only in a circle.
fn reached(from: usize, arrows: &BTreeSet<Arrow>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for (_, to) in arrows.range((at, 0)..=(at, usize::MAX)) {
            if found.insert(*to) {
                open.push(*to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Modules {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: format!("crates/a/src/{path}"),
                text: (*text).to_owned(),
            })
            .collect();
        Modules::of("a", &files)
    }

    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let modules = crate_of(files);
        let name = |at: &usize| modules.all[*at].file.trim_start_matches("crates/a/src/");
        let found = circles(modules.all.len(), &modules.arrows());
        let found: Vec<Vec<&str>> =
            found.iter().map(|circle| circle.iter().map(name).collect()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn program_in_a_directory_is_a_crate_of_its_own() {
        let files =
            [("bin/p/main.rs", "mod b;"), ("bin/p/b.rs", ""), ("bin/q.rs", ""), ("b.rs", "")];
        let names = |name: &str| -> Vec<String> {
            let files = files.map(|(path, text)| File {
                path: format!("crates/a/src/{path}"),
                text: text.to_owned(),
            });
            Modules::of(name, &files).all.into_iter().map(|module| module.path.join("::")).collect()
        };
        assert_eq!((names("p"), names("a")), (vec!["".into(), "b".into()], vec!["b".into()]));
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        check(
            &[("b.rs", "use crate::c::C;"), ("c.rs", "fn c(b: super::b::B) {}")],
            &[&["b.rs", "c.rs"]],
        );
        check(&[("b.rs", "use crate::c::C;"), ("c.rs", "fn c() {}")], &[]);
    }

    #[test]
    fn a_face_that_hands_names_on_ties_nothing() {
        check(
            &[
                ("lib.rs", "mod b;\nmod c;\npub use b::B;\npub use c::C;"),
                ("b.rs", "use crate::C;"),
                ("c.rs", ""),
            ],
            &[],
        );
        check(
            &[
                ("lib.rs", "mod b;\nmod c;\npub(crate) use b::{B, D as E};\npub use c::C;"),
                ("b.rs", "use crate::C;"),
                ("c.rs", "use crate::E;"),
            ],
            &[&["b.rs", "c.rs"]],
        );
    }

    #[test]
    fn face_that_uses_what_it_hands_on_is_tied_to_it() {
        let face = |uses| ("b/mod.rs", uses);
        let child = ("b/d.rs", "use super::E;\npub struct D(E);");
        check(&[face("mod d;\npub use d::D;\npub struct E;"), child], &[]);
        let uses = "mod d;\npub use d::D;\npub struct E;\nfn f(d: D) {}";
        check(&[face(uses), child], &[&["b/mod.rs", "b/d.rs"]]);
    }

    #[test]
    fn a_parent_that_calls_its_child_and_is_called_back_is_one() {
        check(
            &[
                ("d/mod.rs", "mod e;\nfn f() { e::go() }"),
                ("d/e.rs", "use super::f;"),
                ("lib.rs", "mod d;"),
            ],
            &[&["d/mod.rs", "d/e.rs"]],
        );
    }

    #[test]
    fn paths_are_followed_through_an_imported_module() {
        let back = |uses: &str| {
            let b = ("b/mod.rs", "pub mod d;\nmod e;");
            let d = ("b/d.rs", "use crate::c::C;");
            check(&[b, d, ("c.rs", uses)], &[&["b/d.rs", "c.rs"]]);
        };
        back("use crate::b;\nfn c() { b::d::run() }");
        back("use super::b::d;\nfn c(d: d::D) {}");
        back("use crate::b::d as other;\nconst C: u8 = other::MAX;");
        back("use crate::{b as other};\nuse other::d::{self, D};");
        back("use crate::b::d::Kind as K;\nfn c() { K::One }");
        back("fn c() { crate::b::d::run() }");
        back("use crate::b::d::*;");
    }

    #[test]
    fn module_that_is_only_on_the_way_ties_nothing() {
        check(
            &[
                ("b/mod.rs", "pub mod d;\nuse crate::c::C;"),
                ("b/d.rs", ""),
                ("c.rs", "use crate::b;\npub(in crate::b) fn c() { b::d::run() }"),
            ],
            &[],
        );
    }

    #[test]
    fn name_that_a_parent_imports_is_followed_to_its_file() {
        let parent = |imports: &'static str| ("d/mod.rs", imports);
        let child = ("d/e.rs", "use super::X;\nuse super::c;\nfn e() { c::go() }");
        check(
            &[parent("mod e;\nuse crate::c::{self, X};\nfn d() { e::e() }"), child, ("c.rs", "")],
            &[],
        );
        check(
            &[
                parent("mod e;\nuse crate::c;\nuse other::X;"),
                child,
                ("c.rs", "use crate::d::e;\nfn c() { e::e() }"),
            ],
            &[&["d/e.rs", "c.rs"]],
        );
    }

    #[test]
    fn function_called_like_its_module_is_followed_to_its_file() {
        check(
            &[
                ("b/mod.rs", "mod run;\npub use run::run;"),
                ("b/run.rs", "use crate::c::C;"),
                ("c.rs", "use crate::b;\nfn c() { b::run() }"),
            ],
            &[&["b/run.rs", "c.rs"]],
        );
    }

    #[test]
    fn imports_that_lead_to_each_other_come_to_an_end() {
        check(
            &[("b.rs", "pub use crate::c::X;"), ("c.rs", "pub use crate::b::X;\nuse c::c;")],
            &[],
        );
    }

    #[test]
    fn tests_are_not_looked_at() {
        check(
            &[
                ("b.rs", "use crate::c::C;"),
                ("c.rs", "fn c() {}\n#[cfg(test)]\nmod tests {\n use crate::b::B;\n}"),
                ("d/tests.rs", "use crate::b::B;"),
            ],
            &[],
        );
    }
}
