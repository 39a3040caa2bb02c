//! Connections with limits on their number and duration, so that no client blocks others.

use crate::access::{Origin, Password};
use crate::app::{App, READERS};
use crate::clock::steady_ms;
use crate::entry::Scheme;
use crate::listen::{Guarded, Listener};
use crate::room::{Room, Seat};
use crate::router::router;
use crate::visitor::Via;
use crate::{Certificate, Error, Settings};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reactor::Users;
use std::net::{self, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// Maximum number of connections at the same time. A page uses a few connections, and a hundred
/// people may use the pages.
const CONNECTIONS_MAX: usize = 512;
/// Maximum number of strangers of one origin at the same time. A few people with browsers may share
/// one address.
const STRANGERS_MAX: usize = 32;
/// Timeout for the head of a request, and for the time between two requests on a connection.
const HEAD: Duration = Duration::from_secs(10);
/// Maximum size of a request's head, in bytes.
const HEAD_BYTES: usize = 16 * 1024;
/// Maximum age of a connection. Browsers reconnect automatically.
const LIFE: Duration = Duration::from_secs(600);
/// Time that a running request has after the end of `LIFE`.
const REST: Duration = Duration::from_secs(30);
/// Pause after a failed accept: too many files are open, or the client has disconnected.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves the pages until a signal ends the process.
pub fn serve(settings: Settings) -> Result<(), Error> {
    let tls = settings.certificate.as_ref().map(Certificate::acceptor).transpose()?;
    let password = settings.password_file.as_deref().map(Password::read).transpose()?;
    let guarded = Guarded { by_password: password.is_some(), by_tls: tls.is_some() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // In addition to the readers, one thread accepts connections, one queries the manager, and
        // one compares passwords.
        .max_blocking_threads(READERS + 3)
        .build()
        .map_err(|source| Error::Step { step: "start", source })?;
    let served = runtime.block_on(async {
        let (listener, names) = settings.listen.bind(&settings.names, guarded)?;
        let scheme = if tls.is_some() { Scheme::Https } else { Scheme::Http };
        let app = Arc::new(App::new(settings, names, scheme, password)?);
        run(listener, tls, app).await
    });
    // A thread that is still reading a recording ends with the process.
    runtime.shutdown_background();
    served
}

/// Serves until a signal ends the process. SIGUSR1 requests a new token.
async fn run(listener: Listener, tls: Option<TlsAcceptor>, app: Arc<App>) -> Result<(), Error> {
    let step = |source| Error::Step { step: "wait for signals", source };
    let mut term = signal(SignalKind::terminate()).map_err(step)?;
    let mut int = signal(SignalKind::interrupt()).map_err(step)?;
    let mut usr1 = signal(SignalKind::user_defined1()).map_err(step)?;
    app.entry.tell_address()?;
    tokio::spawn(app.live.clone().run());
    let strangers = match listener {
        Listener::Tcp(_) => STRANGERS_MAX,
        // All strangers arrive through the proxy, which limits strangers itself.
        Listener::Unix(..) => CONNECTIONS_MAX,
    };
    let room = Room::new(CONNECTIONS_MAX, strangers);
    let door = Door { room, tls, router: router(app.clone()) };
    let path = match listener {
        // A separate thread accepts connections without delay, even while pages are made. The
        // thread ends with the process.
        Listener::Tcp(listener) => {
            tokio::task::spawn_blocking(move || door.keep(&listener));
            None
        }
        Listener::Unix(listener, path) => {
            tokio::spawn(async move { door.keep_local(&listener).await });
            path
        }
    };
    loop {
        tokio::select! {
            _ = usr1.recv() => app.entry.tell_address()?,
            _ = term.recv() => break,
            _ = int.recv() => break,
        }
    }
    if let Some(path) = path {
        // The process ends, so an error would not be read.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Acceptance of new connections.
struct Door {
    room: Arc<Room>,
    tls: Option<TlsAcceptor>,
    router: Router,
}

impl Door {
    fn keep(&self, listener: &TcpListener) {
        let users = Users::open();
        loop {
            match listener.accept() {
                Ok((stream, peer)) => self.admit(stream, peer, &users),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    async fn keep_local(&self, listener: &UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.admit_local(stream),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Serves a TCP connection if a place is free, and closes it otherwise. Refusing must be cheap,
    /// because thousands of strangers may connect.
    fn admit(&self, stream: net::TcpStream, peer: SocketAddr, users: &Users) {
        // A user of this machine can connect from all addresses of the machine, so the user is the
        // origin.
        let user = stream.local_addr().ok().and_then(|own| users.of(peer, own));
        let origin = user.map_or_else(|| Origin::of(peer.ip()), Origin::User);
        let Some(seat) = self.room.enter(origin, steady_ms()) else { return };
        let _ = stream.set_nodelay(true);
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        // A connection that the runtime cannot poll is closed.
        let Ok(stream) = stream else { return };
        let (via, router) = (Via::Tcp(origin), self.router.clone());
        match self.tls.clone() {
            Some(tls) => tokio::spawn(secure(tls, stream, via, router, seat)),
            None => tokio::spawn(attend(stream, via, router, seat)),
        };
    }

    /// Serves a connection on the Unix socket if a place is free, and closes it otherwise.
    fn admit_local(&self, stream: UnixStream) {
        let user = stream.peer_cred().map(|peer| Origin::User(peer.uid()));
        let origin = user.unwrap_or(Origin::Unknown);
        if let Some(seat) = self.room.enter(origin, steady_ms()) {
            tokio::spawn(attend(stream, Via::Unix(origin), self.router.clone(), seat));
        }
    }
}

/// Completes the TLS handshake within the timeout of a request's head.
async fn secure(tls: TlsAcceptor, stream: TcpStream, via: Via, router: Router, seat: Seat) {
    let agreed = tokio::select! {
        agreed = tokio::time::timeout(HEAD, tls.accept(stream)) => agreed,
        () = seat.is_needed() => return,
    };
    // TLS itself reports a failed handshake to the client.
    if let Ok(Ok(stream)) = agreed {
        attend(stream, via, router, seat).await;
    }
}

async fn attend<S>(stream: S, via: Via, router: Router, seat: Seat)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let place = seat.place();
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(via);
        request.extensions_mut().insert(place.clone());
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        _ = connection.as_mut() => true,
        () = seat.is_needed() => true,
        () = tokio::time::sleep(LIFE) => false,
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(REST, connection).await;
    }
    drop(seat);
}
