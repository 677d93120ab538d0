//! A listener with a maximum number of simultaneous connections; further ones wait. An open page keeps one connection, to
//! which the event stream sends keep-alive messages. A connection to which nothing is sent for a while is closed, whether
//! its request is incomplete or missing. Otherwise, held connections could lock out everyone else.

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

/// Maximum number of simultaneous connections.
const MOST: usize = 128;
/// Pause after a failure to accept, such as no free file descriptor.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long a connection may go without anything sent to it: four keep-alive intervals of the event stream.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The limiting listener.
pub struct LimitedListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    silence: Duration,
}

impl LimitedListener {
    /// Wraps a listener with the default limits.
    pub fn new(listener: TcpListener) -> Self {
        Self::with(listener, MOST, IDLE_TIMEOUT)
    }

    fn with(listener: TcpListener, most: usize, silence: Duration) -> Self {
        Self {
            listener,
            slots: Arc::new(Semaphore::new(most)),
            silence,
        }
    }
}

impl Listener for LimitedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The semaphore is never closed; without a permit the connection would not be counted.
            let Ok(place) = Arc::clone(&self.slots).acquire_owned().await else {
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
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, which holds its permit until it is dropped.
pub struct Connection {
    stream: TcpStream,
    silence: Duration,
    /// Timer that closes the connection unless something is sent before.
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Fails a pending operation with `TimedOut` once nothing was sent for too long.
    fn check_idle<T>(
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
        self.check_idle(cx, found)
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
        self.check_idle(cx, found)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let found = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_idle(cx, found)
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

    /// Returns a body of four parts, each a third of the silence limit after the previous one.
    async fn parts() -> Body {
        Body::from_stream(unfold(0, |part| async move {
            sleep(MOMENT / 3).await;
            let text = Bytes::from_static(b"part ");
            (part < 4).then_some((Ok::<_, Infallible>(text), part + 1))
        }))
    }

    /// Starts a server that allows one connection, and returns its address.
    fn served() -> SocketAddr {
        let bound = Bound::bind("127.0.0.1:0").unwrap();
        bound.set_nonblocking(true).unwrap();
        let address = bound.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(bound).unwrap();
                let connections = LimitedListener::with(listener, 1, MOMENT);
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
        // An incomplete request, and a connection without a request.
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
        // An answer may take longer than the silence limit, as long as parts of it are sent.
        assert_eq!(answer.matches("part ").count(), 4, "{answer}");
    }
}
