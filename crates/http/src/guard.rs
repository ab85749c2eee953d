//! The first check of a request: refuses what a browser sends for a page of another origin.
//!
//! Two attacks reach a server on the loopback through its user's browser. A page may send requests that change
//! something (cross-site request forgery): browsers mark these with `Origin` and `Sec-Fetch-Site` (Fetch standard,
//! "Origin header"; W3C Fetch Metadata). And the attacker's host name may resolve to 127.0.0.1 (DNS rebinding), so
//! that the page has the same origin: the `Host` header shows that name. Other programs send neither header, and use
//! our own name.

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::{Access, has_session};
use crate::error::ApiError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const PANEL: HeaderName = HeaderName::from_static("x-weir-panel");

/// Headers of every answer that does not set its own: no scripts, no frames, no guessed types, no caching.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Lets a request pass, or refuses it.
pub async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let mut response = match check_origin(request.method(), request.headers(), access.is_secure()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// With TLS any name is accepted: the browser has compared it with the certificate.
fn check_origin(method: &Method, headers: &HeaderMap, secure: bool) -> Result<(), ApiError> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(HOST).filter(|host| secure || is_ours(host)).ok_or(ApiError::ForeignHost)?;
    let scheme = if secure { "https://" } else { "http://" };
    let foreign = text(FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none");
    if method.is_safe() {
        // A link may lead here. A page of another origin can't read what it loads, but loading it costs us work.
        let link = text(FETCH_MODE) == Some("navigate") && text(FETCH_DEST) == Some("document");
        return if foreign && !link { Err(ApiError::ForeignOrigin) } else { Ok(()) };
    }
    if foreign {
        return Err(ApiError::ForeignOrigin);
    }
    match headers.get(ORIGIN).map(HeaderValue::to_str) {
        None => {}
        Some(Ok(origin)) if origin.strip_prefix(scheme) == Some(host) => {}
        Some(_) => return Err(ApiError::ForeignOrigin),
    }
    // A page of another origin may send this header only after a preflight request, which is never granted.
    let browser = [ORIGIN, FETCH_SITE].iter().any(|name| headers.contains_key(name)) || has_session(headers);
    if browser && !headers.contains_key(PANEL) { Err(ApiError::NotThePage) } else { Ok(()) }
}

/// Whether a `Host` names the loopback, with any port or none.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: Method, headers: &[(&str, &str)]) -> Result<(), ApiError> {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        });
        check_origin(&method, &headers.collect(), false)
    }

    #[test]
    fn only_names_of_the_loopback_are_ours() {
        for host in ["localhost", "LocalHost:8432", "127.0.0.1", "127.0.0.1:8432", "127.8.8.8", "[::1]:1", "[::1]"] {
            assert!(is_ours(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example:8432", "[::2]"] {
            assert!(!is_ours(host), "{host}");
        }
        assert!(matches!(checked(Method::GET, &[("host", "evil.example")]), Err(ApiError::ForeignHost)));
        assert!(matches!(checked(Method::GET, &[]), Err(ApiError::ForeignHost)));
    }

    #[test]
    fn pages_of_other_origins_may_look_at_nothing_new_and_change_nothing() {
        let host = ("host", "127.0.0.1:8432");
        assert!(checked(Method::POST, &[host]).is_ok());
        let (ours, page) = (("origin", "http://127.0.0.1:8432"), ("x-weir-panel", "1"));
        assert!(checked(Method::POST, &[host, ours, page]).is_ok());
        for browser in [ours, ("sec-fetch-site", "same-origin"), ("cookie", "a=b; weir_session=x")] {
            assert!(matches!(checked(Method::POST, &[host, browser]), Err(ApiError::NotThePage)), "{browser:?}");
            assert!(
                checked(Method::POST, &[host, browser, page]).is_ok() && checked(Method::GET, &[host, browser]).is_ok()
            );
        }
        assert!(checked(Method::GET, &[host, ("origin", "http://evil.example")]).is_ok(), "its answer can't be read");
        let loads =
            [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        assert!(matches!(checked(Method::GET, &loads), Err(ApiError::ForeignOrigin)), "a stream of events, say");
        let follows = [loads[0], loads[1], ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert!(checked(Method::GET, &follows).is_ok(), "a link to the panel");
        let frames = [loads[0], loads[1], ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(checked(Method::GET, &frames).is_err());
        for sent in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "https://127.0.0.1:8432"),
            ("origin", "http://127.0.0.1:9000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
                assert!(matches!(checked(method, &[host, page, sent]), Err(ApiError::ForeignOrigin)), "{sent:?}");
            }
        }
    }
}
