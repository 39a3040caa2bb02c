//! `cargo run -p sim --example policies` prints the table of policies.

fn main() {
    print!("{}", sim::table::markdown(&sim::table::rows()));
}
