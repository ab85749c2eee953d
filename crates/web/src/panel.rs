//! The panel's files, as built from `panel/` into `crates/web/panel` and embedded in this binary.
//!
//! Owns their paths, types, and caching. Names below `assets/` change with their content, so browsers may keep them
//! for ever; the others are revalidated each time, and answered with 304 if unchanged. The page may run and load only
//! what comes from here: no inline script or style, no other host.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{Embed, EmbeddedFile};
use weir_http::ApiError;

#[derive(Embed)]
#[folder = "panel/"]
struct Files;

const INDEX: &str = "index.html";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// A year, the longest time that caches keep anything.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

/// The page at `/`, and every other file at its own path.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let one = async |path: Path<String>, headers: HeaderMap| file(&path, &headers);
    let asset = async |Path(name): Path<String>, headers: HeaderMap| file(&format!("assets/{name}"), &headers);
    Router::new()
        .route("/", get(async |headers: HeaderMap| file(INDEX, &headers)))
        .route("/{file}", get(one))
        .route("/assets/{file}", get(asset))
}

fn file(name: &str, asked: &HeaderMap) -> Response {
    let Some(file) = Files::get(name) else { return ApiError::NoSuchPath.into_response() };
    let Some(kind) = content_type(name) else { return ApiError::NoSuchPath.into_response() };
    let tag = entity_tag(&file);
    let keep = if name.starts_with("assets/") { FOR_GOOD } else { ASK_AGAIN };
    let weak = format!("W/{tag}");
    // Sent with 304, too, and with answers too small to be compressed (RFC 9110, section 15.4.5).
    let vary = (VARY, "accept-encoding");
    let headers = [(CACHE_CONTROL, keep), (CONTENT_SECURITY_POLICY, POLICY), (ETAG, weak.as_str()), vary];
    let same = asked.get_all(IF_NONE_MATCH).iter().any(|given| names(given, &tag));
    if same {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    ([(CONTENT_TYPE, kind)], headers, file.data).into_response()
}

/// The types that are served. A file of another type belongs to the build and is not served.
fn content_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => return None,
    })
}

/// A tag (RFC 9110, section 8.8.3) of the content's hash. It is a weak tag: the bytes that are sent may be compressed,
/// or not.
fn entity_tag(file: &EmbeddedFile) -> String {
    let hash = file.metadata.sha256_hash();
    let digits: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

/// Whether `If-None-Match` names this tag; a weak comparison, as it must be (RFC 9110, section 13.1.2).
fn names(given: &HeaderValue, tag: &str) -> bool {
    let Ok(given) = given.to_str() else { return false };
    given.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_type_and_the_page_is_among_them() {
        assert!(Files::iter().any(|name| name == INDEX));
        for name in Files::iter().filter(|name| name != "built-of.txt") {
            assert!(content_type(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_tag_is_found_in_a_list_and_weak_or_not() {
        let names = |given: &'static str| names(&HeaderValue::from_static(given), "\"ab\"");
        assert!(names("\"ab\"") && names("W/\"ab\"") && names("\"x\", \"ab\"") && names("*"));
        assert!(!names("\"a\"") && !names("ab") && !names(""));
    }
}
