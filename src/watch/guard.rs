//! Access control: only reading methods are allowed. A request must have the token or, if the server has none, name this
//! machine as its host (which stops pages of other sites whose name was made to resolve here).
//!
//! The token is drawn from the system's random bytes at the start. A browser sends it once in the address, receives it as a
//! cookie that scripts cannot read, and is redirected to the address without it. Scripts send `Authorization: Bearer TOKEN`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

use super::ServerState;
use super::routes::error_response;
use crate::digest;
use crate::error::{Error, Result};

/// Query parameter that holds the token.
pub const TOKEN: &str = "token";

/// Returns the headers of every response: the page loads nothing from other hosts, cannot be framed, and is not cached.
fn headers() -> [(HeaderName, &'static str); 7] {
    [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ]
}

/// The requirements on a request.
#[derive(Debug)]
pub struct Guard {
    token: Option<String>,
    /// Name of the cookie, which contains the port because browsers send cookies to all ports of a host.
    cookie: String,
}

impl Guard {
    /// Creates a guard with or without a token.
    pub fn new(token: Option<String>, port: u16) -> Self {
        Self {
            token,
            cookie: format!("formwork_watch_{port}"),
        }
    }

    fn is_token(&self, given: &str) -> bool {
        let token = self.token.as_deref().unwrap_or_default();
        !token.is_empty() && bool::from(token.as_bytes().ct_eq(given.as_bytes()))
    }

    fn has_valid_cookie(&self, headers: &HeaderMap) -> bool {
        let text = |name| {
            headers
                .get_all(name)
                .iter()
                .filter_map(|value| value.to_str().ok())
        };
        let bearer = text(header::AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
        let cookies = text(header::COOKIE).flat_map(|all| all.split(';'));
        let cookies = cookies.filter_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        bearer.chain(cookies).any(|given| self.is_token(given))
    }

    /// Returns the response that replaces the requested one, if the request must not be answered normally.
    fn refusal(&self, request: &Request) -> Option<Response> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = error_response(
                StatusCode::METHOD_NOT_ALLOWED,
                "the runs are read-only; use GET",
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return Some(response);
        }
        if self.token.is_none() {
            let host = request.headers().get(header::HOST);
            let ours = host
                .and_then(|host| host.to_str().ok())
                .is_some_and(is_loopback);
            let why =
                "the Host header does not name this machine; open http://127.0.0.1 with the port";
            return (!ours).then(|| error_response(StatusCode::FORBIDDEN, why));
        }
        if self.has_valid_cookie(request.headers()) {
            return None;
        }
        match query_parameter(request.uri().query(), TOKEN) {
            Some(given) if self.is_token(given) => Some(self.accept_token(given)),
            _ => Some(error_response(
                StatusCode::UNAUTHORIZED,
                "a token is required; open the address that `formwork watch` printed, or send `Authorization: Bearer TOKEN`",
            )),
        }
    }

    /// Redirects to the page without the token in its address, which a browser history or a screenshot would keep.
    fn accept_token(&self, token: &str) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
        let headers = response.headers_mut();
        headers.insert(header::LOCATION, HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.insert(header::SET_COOKIE, cookie);
        }
        response
    }
}

/// Middleware that refuses a request or passes it on, and adds the common headers to every response.
pub async fn authorize(
    State(shared): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match shared.guard.refusal(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in headers() {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Draws a token: 32 random bytes as hexadecimal digits.
///
/// # Errors
/// If the system provides no random bytes.
pub fn new_token() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::run(format!(
            "the system provides no random bytes for a token: {e}"
        ))
    })?;
    Ok(digest::hex(&bytes))
}

/// Whether a `Host` header is a loopback name or address. Any port is accepted, because tunnels use their own.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            _ => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Returns a query parameter as it is; the expected values contain no characters that need percent-encoding.
pub fn query_parameter<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_this_machine() {
        for host in [
            "localhost",
            "LocalHost:1",
            "127.0.0.1:8265",
            "127.9.9.9",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:1",
            "[::1",
            "[::1]x",
            "10.0.0.1",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn tokens_differ_and_are_known_whole() {
        let (one, two) = (new_token().unwrap(), new_token().unwrap());
        assert!(one.len() == 64 && one != two);
        let guard = Guard::new(Some(one.clone()), 1);
        assert!(guard.is_token(&one));
        assert!(!guard.is_token(&one[..63]) && !guard.is_token("") && !guard.is_token(&two));
        assert!(!Guard::new(None, 1).is_token(""));
    }
}
