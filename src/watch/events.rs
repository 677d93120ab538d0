//! The stream of changes, as server-sent events.
//!
//! An event `rows` has the body of `/api/runs?since=…` and the version as its id. A browser that reconnects sends the last
//! id and receives what it missed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::watch::Receiver;

use super::ServerState;

/// Minimum time between two events.
const PAUSE: Duration = Duration::from_millis(250);
/// Time between keep-alive messages.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

struct Subscriber {
    shared: Arc<ServerState>,
    known_version: Option<String>,
    versions: Receiver<u64>,
}

/// Returns the stream for a reader that already has version `has`, if any.
pub fn stream(shared: Arc<ServerState>, has: Option<String>) -> Response {
    let mut versions = shared.index.versions();
    // Sends at once what the reader lacks now.
    versions.mark_changed();
    let reader = Subscriber {
        shared,
        known_version: has,
        versions,
    };
    let events = unfold(reader, |mut reader| async move {
        reader.versions.changed().await.ok()?;
        // Changes in quick succession are sent together.
        if reader.known_version.is_some() {
            tokio::time::sleep(PAUSE).await;
        }
        reader.versions.mark_unchanged();
        let news = reader
            .shared
            .index
            .updates_since(reader.known_version.as_deref());
        reader.known_version = Some(news.id.clone());
        let event = Event::default()
            .event("rows")
            .id(news.id)
            .data(news.body.to_string());
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}
