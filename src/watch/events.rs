//! What changed, as it changes: a stream of server-sent events.
//!
//! An event `rows` has the body of `/api/runs?since=…` and the version as its id: a browser that lost its connection sends
//! the id, and gets what it missed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::watch::Receiver;

use super::Shared;

/// Between two events at least.
const PAUSE: Duration = Duration::from_millis(250);
/// Between two signs of life.
const ALIVE: Duration = Duration::from_secs(15);

struct Reader {
    shared: Arc<Shared>,
    has: Option<String>,
    versions: Receiver<u64>,
}

/// The stream for a reader that has a version already.
pub fn stream(shared: Arc<Shared>, has: Option<String>) -> Response {
    let mut versions = shared.index.versions();
    // What the reader lacks now is sent at once.
    versions.mark_changed();
    let reader = Reader {
        shared,
        has,
        versions,
    };
    let events = unfold(reader, |mut reader| async move {
        reader.versions.changed().await.ok()?;
        // Changes that come together are told together.
        if reader.has.is_some() {
            tokio::time::sleep(PAUSE).await;
        }
        reader.versions.mark_unchanged();
        let news = reader.shared.index.since(reader.has.as_deref());
        reader.has = Some(news.id.clone());
        let event = Event::default()
            .event("rows")
            .id(news.id)
            .data(news.body.to_string());
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(ALIVE))
        .into_response()
}
