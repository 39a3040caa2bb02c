//! Pages of `pinhead-web` with a typed password, and with a socket from systemd.

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pinhead-web");
/// Shell code that passes a socket the way systemd does: as descriptor 3, with `LISTEN_PID` and
/// `LISTEN_FDS`.
const ACTIVATE: &str = "exec 3<&0 < /dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("pinhead-web-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn activated(socket: OwnedFd, args: &[&str]) -> Served {
    let mut command = Command::new("sh");
    command.args(["-c", ACTIVATE, "sh", PROGRAM, "--listen", "systemd"]).args(args);
    Served(command.stdin(socket).stdout(Stdio::null()).spawn().expect("it starts"))
}

fn ask(stream: impl Read + Write, host: &str) -> String {
    ask_for(stream, "/reports", host)
}

fn ask_for(mut stream: impl Read + Write, path: &str, host: &str) -> String {
    let ask = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Timeout of the tests, including the time until the server answers.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_socket_of_systemd_is_served_and_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = activated(listener.into(), &["--dir", "/nonexistent"]);
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let answer = ask(stream, &address.to_string());
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("Sign in"), "{answer}");
    drop(served);
    let dir = Dir::new("activated");
    let path = dir.0.join("web.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // If a socket unit sets no mode, systemd lets every user connect to the socket.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let mut open = activated(listener.try_clone().unwrap().into(), &["--dir", "/nonexistent"]);
    let has_ended = vm::wait_for_exit(open.0.id(), PATIENCE).unwrap();
    assert!(has_ended && !open.0.wait().unwrap().success(), "open socket without a password");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let served = activated(listener.into(), &["--dir", "/nonexistent"]);
    let stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let answer = ask(stream, "pinhead");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(served);
    assert!(path.exists(), "the socket belongs to systemd");
}

#[test]
fn finding2_08_signal_asks_for_the_next_token() {
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0", "--dir", "/nonexistent"]).stdout(Stdio::piped());
    let mut served = Served(command.spawn().expect("it starts"));
    let mut told = BufReader::new(served.0.stdout.take().expect("a pipe")).lines();
    let mut is_repeated = false;
    let mut token = || {
        if std::mem::replace(&mut is_repeated, true) {
            let reason = told.next().expect("a reason").expect("text");
            assert!(reason.starts_with("A signal requested a new address"), "{reason}");
        }
        let address = told.next().expect("an address").expect("text");
        for part in ["ten minutes", "kill -USR1"] {
            let hint = told.next().expect("a hint").expect("text");
            assert!(hint.contains(part) && hint.len() <= 80, "{hint}");
        }
        let (host, token) = address.split_once("/?token=").expect("a token");
        (host.rsplit('/').next().expect("a host").to_owned(), token.to_owned())
    };
    let (host, first) = token();
    let status = |token: &str| {
        let stream = TcpStream::connect(&host).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let answer = ask_for(stream, &format!("/?token={token}"), &host);
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok())
    };
    assert_eq!(status(&first), Some(303));
    kill_process(Pid::from_child(&served.0), Signal::USR1).expect("it runs");
    let second = token().1;
    kill_process(Pid::from_child(&served.0), Signal::USR1).expect("it runs");
    let third = token().1;
    assert_eq!([&first, &second, &third].map(|token| status(token)), [401, 401, 303].map(Some));
}

/// The unit files in the packages' examples.
const UNIT: &str = include_str!("../../../../packaging/pinhead-web.service");
const SOCKET: &str = include_str!("../../../../packaging/pinhead-web.socket");

#[test]
fn finding2_09_unit_lets_the_kernel_tell_local_users() {
    let families = UNIT.lines().find_map(|line| line.strip_prefix("RestrictAddressFamilies="));
    let families: Vec<&str> = families.expect("a bound").split(' ').collect();
    assert_eq!(families, ["AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"]);
}

#[test]
fn missing_systemd_socket_is_reported() {
    let output = Command::new(PROGRAM).args(["--listen", "systemd"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("passed no socket"), "{error}");
}

#[test]
fn finding2_14_credential_of_a_unit_is_read() {
    let dir = Dir::new("credential");
    let path = dir.0.join("password");
    let text = path.display().to_string();
    assert!(new_password(&text, "correct horse\n").status.success());
    // The access list that systemd sets for the service's user is visible as this mode.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0", "--dir", "/nonexistent", "--password-file", &text]);
    let output = command.env("CREDENTIALS_DIRECTORY", dir.0.join("others")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("its mode is 440"), "{error}");
    command.env("CREDENTIALS_DIRECTORY", &dir.0).stdout(Stdio::piped());
    let mut served = Served(command.spawn().expect("it starts"));
    let mut told = BufReader::new(served.0.stdout.take().expect("a pipe")).lines();
    let address = told.next().expect("an address").expect("text");
    assert!(address.starts_with("The pages are at http://127.0.0.1:"), "{address}");
}

#[test]
fn finding2_14_unit_loads_each_credential_that_it_names() {
    let words = [UNIT, SOCKET].into_iter().flat_map(str::split_whitespace);
    let named: Vec<&str> = words.filter_map(|word| word.strip_prefix("%d/")).collect();
    assert!(!named.is_empty());
    for name in named {
        let load = format!("\n#LoadCredential={name}:/etc/pinhead/");
        assert!(UNIT.contains(&load), "{name}");
    }
}

fn new_password(path: &str, typed: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["--new-password", path]).stdin(Stdio::piped());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(typed.as_bytes()).expect("it is taken");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_password_becomes_a_file_that_only_its_owner_reads() {
    let dir = Dir::new("password");
    let path = dir.0.join("password").display().to_string();
    let short = new_password(&path, "1234567\n");
    let error = String::from_utf8_lossy(&short.stderr).into_owned();
    assert!(!short.status.success() && error.contains("8 characters"), "{error}");
    assert!(fs::metadata(&path).is_err(), "nothing was written");
    let output = new_password(&path, "correct horse\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("$argon2id$") && !text.contains("horse"), "{text}");
    // A public address with a password but without a certificate is refused.
    let public = ["--listen", "0.0.0.0:0", "--password-file", &path];
    let output = Command::new(PROGRAM).args(public).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("a certificate for TLS is missing"),
        "{error}"
    );
}

#[test]
fn ctrl_c_at_prompt_writes_nothing_and_restores_terminal() {
    let dir = Dir::new("interrupted");
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&keys).and_then(|()| unlockpt(&keys)).expect("it is ours");
    let name = ptsname(&keys, Vec::new()).expect("a name");
    let name = name.to_str().expect("text");
    let terminal = fs::File::options().read(true).write(true).open(name).expect("its other end");
    let file = dir.0.join("password");
    let mut command = Command::new(PROGRAM);
    command.args(["--new-password"]).arg(&file);
    command.stdin(terminal.try_clone().expect("another")).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut said = child.stderr.take().expect("what it says");
    let mut asked = [0; "Password: ".len()];
    said.read_exact(&mut asked).expect("a question");
    // The terminal hides typed text a moment after the prompt appears. A key that is pressed
    // earlier would be shown.
    let is_hidden = || {
        let found = tcgetattr(&terminal).expect("its settings");
        !found.local_modes.contains(LocalModes::ECHO)
    };
    while !is_hidden() {
        std::thread::yield_now();
    }
    fs::File::from(keys.try_clone().expect("another")).write_all(b"secret\x03").expect("typed");
    let status = child.wait().expect("it ends");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("what it says");
    assert_eq!(status.code(), Some(2), "{rest}");
    assert!(rest.contains("Ctrl-C was pressed") && !file.exists(), "{rest}");
    assert!(!is_hidden(), "typed text is shown again");
}
