//! Pages on a Unix socket. The socket's mode controls access, and no token is needed.

use crate::browser::{PATIENCE, Response, read, serve_at};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A directory for a test, removed at the test's end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
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

/// Connects as soon as the server listens.
#[allow(clippy::disallowed_methods, reason = "a deadline for another thread")]
fn connect(path: &Path) -> UnixStream {
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < until, "{}: {error}", path.display()),
        }
        std::thread::yield_now();
    }
}

fn get(path: &Path, host: &str) -> Response {
    let mut stream = connect(path);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let ask = format!("GET /reports HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).expect("it is taken");
    read(&mut stream)
}

#[test]
fn a_socket_is_only_for_its_owner_and_needs_no_token() {
    let dir = Dir::new("socket");
    let path = dir.0.join("web.sock");
    // The socket's file exists, but no process listens on the socket.
    drop(UnixListener::bind(&path).expect("a socket"));
    let _served = serve_at(&path, &["pin.example.org"], None);
    let answer = get(&path, "pin.example.org");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("GUEST1"), "{}", answer.body);
    // With configured names, as behind a proxy, no other name is served.
    assert_eq!(get(&path, "evil.example").status, 421);
    let found = fs::metadata(&path).expect("the socket");
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600, "others may not even connect");
}

#[test]
fn a_socket_behind_a_proxy_can_require_the_password() {
    let dir = Dir::new("proxied");
    let (path, password) = (dir.0.join("web.sock"), dir.0.join("password"));
    web::write_password(&password, "correct horse").expect("it is written");
    let _served = serve_at(&path, &["pin.example.org"], Some(&password));
    let answer = get(&path, "pin.example.org");
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(answer.body.contains("type=\"password\""), "{}", answer.body);
}

#[test]
fn foreign_file_or_used_socket_is_left_alone() {
    let dir = Dir::new("taken");
    let file = dir.0.join("file");
    fs::write(&file, "mine").expect("a file");
    let why = serve_at(&file, &[], None).recv_timeout(PATIENCE).expect("a refusal").to_string();
    assert!(why.contains(&file.display().to_string()), "{why}");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "mine");
    let socket = dir.0.join("socket");
    let _other = UnixListener::bind(&socket).expect("a socket");
    let why = serve_at(&socket, &[], None).recv_timeout(PATIENCE).expect("a refusal").to_string();
    assert!(why.contains(&socket.display().to_string()), "{why}");
    UnixStream::connect(&socket).expect("the other one still listens");
}
