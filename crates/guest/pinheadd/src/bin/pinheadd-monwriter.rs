//! `pinheadd --monwriter`: records of a z/VM guest for z/VM's monitor.

fn main() -> std::process::ExitCode {
    pinheadd::monwriter()
}
