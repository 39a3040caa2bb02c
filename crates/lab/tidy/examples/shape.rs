//! Prints the circles of files in each crate, and types and structs that are too large: `cargo run
//! -p tidy --example shape`.

use tidy::{modules::Modules, shape, tree};

fn main() -> std::io::Result<()> {
    let files = tree::files()?;
    for name in tree::crates(&files) {
        let modules = Modules::of(&name, &files);
        for complaint in shape::complaints(&modules) {
            println!("{complaint}");
        }
    }
    Ok(())
}
