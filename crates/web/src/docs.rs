//! The pages of the documentation that the panel shows, embedded in this binary as Markdown.
//!
//! Owns which pages these are: those that an operator needs, without measurements and explanations of the project.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use weir_http::ApiError;

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../docs/", $name)))),*]
    };
}

/// The pages by their files.
static PAGES: &[(&str, &str)] = pages![
    "api.md",
    "auth-query.md",
    "authentication.md",
    "console.md",
    "errors.md",
    "glossary.md",
    "health.md",
    "limits.md",
    "operations.md",
    "panel.md",
    "pgbouncer.md",
    "pooling.md",
    "settings.md",
    "tls.md",
    "troubleshooting.md",
    "tutorial.md",
];

/// Each page at `/docs/` and its file.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/docs/{file}", get(async |Path(name): Path<String>| page(&name)))
}

fn page(name: &str) -> Response {
    let Some((_, text)) = PAGES.iter().find(|(file, _)| *file == name) else {
        return ApiError::NoSuchPath.into_response();
    };
    ([(CONTENT_TYPE, "text/markdown; charset=utf-8"), (CACHE_CONTROL, "no-cache")], *text).into_response()
}
