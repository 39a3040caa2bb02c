//! Connections: so many at once, each for so long, none that keeps the others waiting.

use crate::Error;
use crate::access::Origin;
use crate::app::{self, App};
use crate::clock::steady_ms;
use crate::listen::Listener;
use crate::room::{Room, Seat};
use crate::visitor::Via;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// Connections at once: a page uses a few, and a hundred people may look.
const CONNECTIONS_MAX: usize = 512;
/// Strangers of one origin at once: a few people behind one address, each with a browser.
const STRANGERS_MAX: usize = 32;
/// Whoever has not said within this what they want is gone, also between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// A head is no larger than this.
const HEAD_BYTES: usize = 16 * 1024;
/// A connection lives no longer; a browser makes a new one without being told to.
const LIFE: Duration = Duration::from_secs(600);
/// What is under way then may take so long.
const REST: Duration = Duration::from_secs(30);
/// Nobody is taken for so long where the system cannot.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves until a signal ends the process. SIGUSR1 asks for another token.
pub(crate) async fn run(
    listener: Listener,
    tls: Option<TlsAcceptor>,
    app: Arc<App>,
) -> Result<(), Error> {
    let step = |source| Error::Step { step: "wait for signals", source };
    let mut term = signal(SignalKind::terminate()).map_err(step)?;
    let mut int = signal(SignalKind::interrupt()).map_err(step)?;
    let mut usr1 = signal(SignalKind::user_defined1()).map_err(step)?;
    app.entry.tell_address()?;
    let router = app::router(app.clone());
    tokio::spawn(app.live.clone().run());
    let room = match listener {
        Listener::Tcp(_) => Room::new(CONNECTIONS_MAX, STRANGERS_MAX),
        // A proxy brings all strangers, and bounds them itself.
        Listener::Unix(..) => Room::new(CONNECTIONS_MAX, CONNECTIONS_MAX),
    };
    loop {
        tokio::select! {
            () = accept(&listener, &router, tls.as_ref(), &room) => {}
            _ = usr1.recv() => app.entry.tell_address()?,
            _ = term.recv() => break,
            _ = int.recv() => break,
        }
    }
    if let Listener::Unix(_, Some(path)) = &listener {
        // Nobody is there to be told that it stays.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

async fn accept(listener: &Listener, router: &Router, tls: Option<&TlsAcceptor>, room: &Arc<Room>) {
    // A connection without a place is closed at once.
    let accepted = match listener {
        Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| {
            let origin = Origin::of(Some(peer.ip()));
            let Some(seat) = room.enter(origin, steady_ms()) else { return };
            let _ = stream.set_nodelay(true);
            let (via, router) = (Via::Tcp(origin), router.clone());
            match tls.cloned() {
                Some(tls) => tokio::spawn(secure(tls, stream, via, router, seat)),
                None => tokio::spawn(attend(stream, via, router, seat)),
            };
        }),
        Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| {
            let Some(seat) = room.enter(Origin::Unknown, steady_ms()) else { return };
            tokio::spawn(attend(stream, Via::Unix, router.clone(), seat));
        }),
    };
    if accepted.is_err() {
        // Too many files are open, or the client has left before it was taken.
        tokio::time::sleep(PAUSE).await;
    }
}

/// Agrees on TLS first, in the time that a request's head has.
async fn secure(tls: TlsAcceptor, stream: TcpStream, via: Via, router: Router, seat: Seat) {
    let agreed = tokio::select! {
        agreed = tokio::time::timeout(HEAD, tls.accept(stream)) => agreed,
        () = seat.is_needed() => return,
    };
    // Who does not speak it is told by TLS itself.
    if let Ok(Ok(stream)) = agreed {
        attend(stream, via, router, seat).await;
    }
}

/// Serves a connection to its end.
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
