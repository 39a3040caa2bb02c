//! `pinhead-web`: the pages of `pinhead web`.
//!
//! ```text
//!   pinhead web OPTIONS ─► pinhead-web OPTIONS ─► LocalHost or Engine ─► web::serve ─► browsers
//! ```

#![forbid(unsafe_code)]

mod error;
mod password;

use ::web::{Certificate, Engine, Listen, LocalHost, Settings, Source};
use clap::Parser;
use error::Error;
use metrics::Url;
use pinhead::web::WebArgs;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Show host and guests in a browser
#[derive(Debug, Parser)]
#[command(name = "pinhead-web", bin_name = "pinhead web", version)]
struct Cli {
    #[command(flatten)]
    args: WebArgs,
}

fn main() -> ExitCode {
    match run(Cli::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pinhead: {}", base::chain(&error));
            ExitCode::from(2)
        }
    }
}

/// Serves the pages until a signal ends the process.
fn run(args: WebArgs) -> Result<(), Error> {
    if let Some(path) = &args.new_password {
        return password::ask(path);
    }
    let listen = Listen::parse(&args.listen)?;
    let by_token = args.password_file.is_none();
    let is_repeated = AtomicBool::new(false);
    let certificate = args.tls_cert.clone().zip(args.tls_key.clone());
    let settings = Settings {
        listen,
        names: args.names.clone(),
        certificate: certificate.map(|(chain, key)| Certificate { chain, key }),
        password_file: args.password_file.clone(),
        allow_changes: args.allow_changes,
        source: source(args)?,
        tell: Box::new(move |address| {
            let is_repeated = is_repeated.swap(true, Ordering::Relaxed);
            let text = announcement(address, by_token, is_repeated);
            let mut out = std::io::stdout();
            // The pages are served even if nobody reads this text.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }),
    };
    Ok(::web::serve(settings)?)
}

/// Returns the text with the address of the pages. `is_repeated` means that a signal requested a
/// new address.
fn announcement(address: &str, by_token: bool, is_repeated: bool) -> String {
    let mut text = String::new();
    if is_repeated {
        let token = if by_token { "; the previous token is no longer valid" } else { "" };
        text.push_str(&format!("A signal requested a new address{token}\n"));
    }
    text.push_str(&format!("The pages are at {address}\n"));
    if by_token {
        let pid = std::process::id();
        text.push_str(&format!(
            "The token in the address opens the pages once, within ten minutes.\n\
             `kill -USR1 {pid}` prints a new address.\n"
        ));
    }
    text
}

fn source(args: WebArgs) -> Result<Arc<dyn Source>, Error> {
    let WebArgs { dir, journal, from, host, socket, .. } = args;
    Ok(match from {
        Some(url) => Arc::new(Engine { url: Url::parse(&url)?, host }),
        None => Arc::new(LocalHost { socket: socket.socket, dir, journal, name: host }),
    })
}
