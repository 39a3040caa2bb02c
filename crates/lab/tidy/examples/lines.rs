//! Prints each crate's lines of code, without tests, comments and blank lines:
//! `cargo run -p tidy --example lines`.

use tidy::{modules::Modules, tree};

fn main() -> std::io::Result<()> {
    let files = tree::files()?;
    let mut total = 0;
    for name in tree::crates(&files) {
        let modules = Modules::of(&name, &files);
        let code = |code: &str| code.lines().filter(|line| !line.trim().is_empty()).count();
        let lines: usize = modules.all.iter().map(|module| code(&module.code)).sum();
        println!("{name:14} {lines:6} lines in {:3} files", modules.all.len());
        total += lines;
    }
    println!("{:14} {total:6} lines", "all");
    Ok(())
}
