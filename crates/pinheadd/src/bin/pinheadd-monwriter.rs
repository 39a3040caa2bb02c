//! `pinheadd --monwriter`: what a guest of z/VM tells its monitor.

fn main() -> std::process::ExitCode {
    pinheadd::monwriter()
}
