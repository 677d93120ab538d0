//! Routes of the server. `/api/…` is JSON that scripts may rely on (docs/watching.md); all other addresses belong to the page.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::journal_cache::{KnownCurves, POINTS};
use super::{ServerState, detail, events, guard};
use crate::error;
use crate::report::render::html::watch;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Returns the router with every address of the server.
pub fn routes(shared: Arc<ServerState>) -> Router {
    let page = |kind: &'static str, text: &'static str| {
        get(move || async move { answer(StatusCode::OK, kind, text) })
    };
    Router::new()
        .route("/", page(HTML, watch::PAGE))
        .route("/page.css", page("text/css; charset=utf-8", watch::STYLE))
        .route(
            "/page.js",
            page("text/javascript; charset=utf-8", watch::SCRIPT),
        )
        .route("/icon.svg", page("image/svg+xml", watch::ICON))
        .route("/api/runs", get(runs))
        .route("/api/run/{*run}", get(run))
        .route("/api/settings/{*run}", get(settings))
        .route("/api/curves/{*run}", get(curves))
        .route("/api/diagnostics/{*run}", get(diagnostics))
        .route("/api/events", get(changes))
        .fallback(|| async { error_response(StatusCode::NOT_FOUND, "there is no such page") })
        .layer(middleware::from_fn_with_state(
            Arc::clone(&shared),
            guard::authorize,
        ))
        .with_state(shared)
}

type AppState = State<Arc<ServerState>>;

/// The percent-decoded `id` of a run in an address.
type RunId = Result<Path<String>, PathRejection>;

async fn runs(State(shared): AppState, RawQuery(query): RawQuery) -> Response {
    let since = guard::query_parameter(query.as_deref(), "since");
    json(&shared.index.updates_since(since).body)
}

async fn changes(
    State(shared): AppState,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    // A browser that reconnects sends the last id it received.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let since = last
        .or(guard::query_parameter(query.as_deref(), "since"))
        .map(str::to_string);
    events::stream(shared, since)
}

async fn run(State(shared): AppState, run: RunId) -> Response {
    run_response(shared, run, |shared, run, folder| {
        let mut found = detail::detail(folder);
        found["run"] = shared.index.row_of(run).unwrap_or_default();
        found["notes"] = shared
            .journals
            .notes(folder)
            .unwrap_or_else(|_| Value::Array(Vec::new()));
        Ok(found)
    })
    .await
}

async fn curves(State(shared): AppState, run: RunId, RawQuery(query): RawQuery) -> Response {
    let points = match guard::query_parameter(query.as_deref(), "points").map(str::parse::<usize>) {
        None => POINTS,
        Some(Ok(points)) if points > 0 => points,
        Some(_) => {
            let why = "points must be a whole number, 1 or more";
            return error_response(StatusCode::BAD_REQUEST, why);
        }
    };
    run_response(shared, run, move |shared, _, folder| {
        let of = |name| guard::query_parameter(query.as_deref(), name);
        let has = KnownCurves {
            key: of("key"),
            after: of("after").and_then(|step| step.parse().ok()).unwrap_or(0),
            points,
        };
        shared.journals.curves(folder, has)
    })
    .await
}

async fn settings(State(shared): AppState, run: RunId) -> Response {
    run_response(shared, run, |_, _, folder| Ok(detail::settings(folder))).await
}

async fn diagnostics(State(shared): AppState, run: RunId) -> Response {
    run_response(shared, run, |_, _, folder| {
        detail::thinned_diagnostics(folder)
    })
    .await
}

/// Answers a request about a run found in the folder; its files are read on another thread.
async fn run_response(
    shared: Arc<ServerState>,
    run: RunId,
    read: impl FnOnce(&ServerState, &str, &std::path::Path) -> error::Result<Value> + Send + 'static,
) -> Response {
    let Ok(Path(run)) = run else {
        return error_response(
            StatusCode::BAD_REQUEST,
            "the name of the run is not UTF-8; /api/runs lists the names of all runs",
        );
    };
    let Some(folder) = shared.index.path_of(&run) else {
        return error_response(
            StatusCode::NOT_FOUND,
            "there is no such run; /api/runs lists the names of all runs",
        );
    };
    match tokio::task::spawn_blocking(move || read(&shared, &run, &folder)).await {
        Ok(Ok(value)) => json(&value),
        Ok(Err(error)) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "the run cannot be read"),
    }
}

fn json(value: &Value) -> Response {
    answer(StatusCode::OK, JSON, value.to_string())
}

/// Returns an error response `{"error":…}`.
pub fn error_response(status: StatusCode, why: &str) -> Response {
    answer(status, JSON, json!({ "error": why }).to_string())
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
