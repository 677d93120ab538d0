//! A listener with at most so many connections at a time: further ones wait. A page that is open has one that stays, to
//! which the stream of changes sends a sign of life. A connection to which nothing is sent for a while is closed, whether
//! its request is not whole or it waits for none: held places would keep all others from the page.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time.
const MOST: usize = 128;
/// After a failure to accept, such as no file descriptor that is free.
const PAUSE: Duration = Duration::from_millis(500);
/// How long nothing may be sent to a connection: four signs of life of the stream of changes.
const SILENCE: Duration = Duration::from_secs(60);

/// The listener.
pub struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
    silence: Duration,
}

impl Connections {
    /// Over a listener.
    pub fn new(listener: TcpListener) -> Self {
        Self::with(listener, MOST, SILENCE)
    }

    fn with(listener: TcpListener, most: usize, silence: Duration) -> Self {
        Self {
            listener,
            free: Arc::new(Semaphore::new(most)),
            silence,
        }
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The semaphore is never closed; without a place the connection would not count.
            let Ok(place) = Arc::clone(&self.free).acquire_owned().await else {
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    let connection = Connection {
                        stream,
                        silence: self.silence,
                        end: Box::pin(sleep(self.silence)),
                        _place: place,
                    };
                    return (connection, from);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection and its place among the many.
pub struct Connection {
    stream: TcpStream,
    silence: Duration,
    /// When it is closed, unless something is sent before.
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// What waits for the other side fails once nothing was sent for too long.
    fn waiting<T>(
        &mut self,
        cx: &mut Context<'_>,
        found: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if found.is_ready() {
            return found;
        }
        let over = self.end.as_mut().poll(cx);
        over.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let found = Pin::new(&mut self.stream).poll_read(cx, into);
        self.waiting(cx, found)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let found = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(_)) = found {
            let end = Instant::now() + self.silence;
            self.end.as_mut().reset(end);
        }
        self.waiting(cx, found)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let found = Pin::new(&mut self.stream).poll_flush(cx);
        self.waiting(cx, found)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use futures_util::stream::unfold;
    use std::convert::Infallible;
    use std::io::{Read, Write};
    use std::net::{TcpListener as Bound, TcpStream as Client};

    const MOMENT: Duration = Duration::from_secs(1);

    /// Four parts, each a third of the silence after the one before.
    async fn parts() -> Body {
        Body::from_stream(unfold(0, |part| async move {
            sleep(MOMENT / 3).await;
            let text = Bytes::from_static(b"part ");
            (part < 4).then_some((Ok::<_, Infallible>(text), part + 1))
        }))
    }

    /// The address of a server with one place.
    fn served() -> SocketAddr {
        let bound = Bound::bind("127.0.0.1:0").unwrap();
        bound.set_nonblocking(true).unwrap();
        let address = bound.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(bound).unwrap();
                let connections = Connections::with(listener, 1, MOMENT);
                let app = Router::new().route("/", get(parts));
                axum::serve(connections, app).await
            })
        });
        address
    }

    fn asked(address: SocketAddr, request: &str) -> Client {
        let mut client = Client::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let patience = Duration::from_secs(20);
        client.set_read_timeout(Some(patience)).unwrap();
        client
    }

    #[test]
    fn a_request_that_never_ends_keeps_no_place() {
        let address = served();
        // One that is not whole, and one that is not even begun.
        let _held = [
            asked(address, "GET / HTTP/1.1\r\nHost: lo"),
            asked(address, ""),
        ];
        let mut whole = asked(
            address,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        );
        let mut answer = String::new();
        whole.read_to_string(&mut answer).unwrap();
        // An answer may take longer than the silence, as long as parts of it are sent.
        assert_eq!(answer.matches("part ").count(), 4, "{answer}");
    }
}
