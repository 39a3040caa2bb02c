//! Attacks by another user of the machine. The tests need root to become that user.

use crate::browser::{Server, read, start};
use crate::password::{cookie_of, guarded};
use crate::socket::Dir;
use rustix::process::Uid;
use rustix::thread::set_thread_uid;
use std::io::Write;
use std::net::TcpStream;

const NOBODY: u32 = 65_534;

/// Runs `act` as another user, in a separate thread. Returns `None` if this process may not change
/// its user.
fn as_neighbour<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    let act = || set_thread_uid(Uid::from_raw(NOBODY)).ok().map(|()| act());
    std::thread::scope(|scope| scope.spawn(act).join().expect("it ends"))
}

fn log_in(server: &Server, password: &str) -> crate::browser::Response {
    let own = format!("Origin: http://{}\r\n", server.address);
    server.post("/login", &own, &format!("password={password}"))
}

#[test]
fn finding2_09_tries_of_one_user_do_not_count_for_another() {
    let dir = Dir::new("neighbour");
    let server = guarded(&dir, None);
    let tries = || (0..8).map(|_| log_in(&server, "wrong").status).collect::<Vec<_>>();
    let Some(tried) = as_neighbour(tries) else { return };
    assert!(tried.contains(&429), "{tried:?}");
    cookie_of(&log_in(&server, "correct+horse"));
}

#[test]
fn finding2_02_flood_by_one_user_does_not_block_another() {
    let server = start(false);
    let cookie = server.enter();
    let flood = || (0..600).map(|_| server.connect()).collect::<Vec<TcpStream>>();
    let mut visitor = server.connect();
    let Some(first) = as_neighbour(flood) else { return };
    // The visitor's line is slow: the request arrives in two parts, and many strangers connect
    // between them.
    let heads = format!("Host: {}\r\nConnection: close\r\n{cookie}", server.address);
    let request = format!("GET /about HTTP/1.1\r\n{heads}\r\n");
    let (head, rest) = request.split_at(request.len() / 2);
    visitor.write_all(head.as_bytes()).expect("it has its place");
    let second = as_neighbour(flood);
    visitor.write_all(rest.as_bytes()).expect("it has its place");
    assert_eq!(read(&mut visitor).status, 200);
    assert_eq!(server.get("/about", &cookie).status, 200, "a new visitor gets a place as well");
    drop((first, second));
}
