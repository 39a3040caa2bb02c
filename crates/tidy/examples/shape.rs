//! Prints the circles of files in each crate, and what else is too large:
//! `cargo run -p tidy --example shape`.

use tidy::{modules::Modules, shape, tree};

fn main() -> std::io::Result<()> {
    let files = tree::files()?;
    let mut count = 0;
    for name in tree::crates(&files) {
        let modules = Modules::of(&name, &files);
        for circle in shape::circles_of(&modules) {
            count += 1;
            println!("circle of {}: {}", circle.len(), circle.join(" "));
        }
        for complaint in shape::complaints(&modules) {
            println!("too large: {complaint}");
        }
    }
    println!("{count} circles of files");
    Ok(())
}
