//! `pinheadd`, the daemon inside a guest.

fn main() -> std::process::ExitCode {
    pinheadd::daemon()
}
