//! A server on the loopback with known delays and faults.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// The response to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    text: Option<String>,
    delay: Duration,
    closes: bool,
}

impl Answer {
    pub fn page(body: &str) -> Answer {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Answer { text: Some(head + body), delay: Duration::ZERO, closes: false }
    }

    /// Returns an answer with these bytes, followed by the end of the connection.
    pub fn text(text: &str) -> Answer {
        Answer { text: Some(text.to_owned()), delay: Duration::ZERO, closes: true }
    }

    /// Returns an answer that is never sent.
    pub fn never() -> Answer {
        Answer { text: None, delay: Duration::ZERO, closes: false }
    }

    pub fn after(self, delay: Duration) -> Answer {
        Answer { delay, ..self }
    }

    /// Ends the connection after the response, whatever its header contains.
    pub fn and_close(self) -> Answer {
        Answer { closes: true, ..self }
    }
}

/// A server with a thread for each connection. The threads end with the process at the latest.
pub struct Server {
    address: SocketAddr,
    answer: Box<dyn Fn(usize) -> Answer + Send + Sync>,
    requests: AtomicUsize,
    connections: AtomicUsize,
}

impl Server {
    /// Starts a server that answers the n-th request with this function.
    pub fn start(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Arc<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Arc::new(Server {
            address: listener.local_addr().unwrap(),
            answer: Box::new(answer),
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let server = accepting.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn serve(&self, mut stream: TcpStream) {
        let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            while !kept.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => kept.extend_from_slice(&buffer[..count]),
                }
            }
            let is_last = String::from_utf8_lossy(&kept).contains("Connection: close");
            kept.clear();
            let answer = (self.answer)(self.requests.fetch_add(1, Ordering::Relaxed));
            wait(answer.delay);
            let Some(text) = answer.text else {
                // The client times out first.
                let _ = stream.read(&mut buffer);
                return;
            };
            if stream.write_all(text.as_bytes()).is_err() || is_last || answer.closes {
                return;
            }
        }
    }
}

/// Waits for the whole delay, because no thread notifies the condition.
fn wait(delay: Duration) {
    let never = Mutex::new(());
    drop(Condvar::new().wait_timeout_while(never.lock().unwrap(), delay, |()| true).unwrap());
}

/// Returns an address without a listener.
pub fn nobody_listens() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
