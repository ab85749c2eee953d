//! Request parameters that several paths share.

use std::fmt::Display;
use std::net::IpAddr;

use axum::extract::{FromRef, FromRequestParts, Path, Query, RawPathParams};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::Deserialize;
use weir_admin::{Author, ChangeRequest, ChangeSource};
use weir_config::Edit;
use weir_http::ApiError;
use weir_monitor::Workers;

use super::body::PersistedBody;
use crate::versions::Versions;

/// The longest comment on a change, in characters.
const LONGEST_COMMENT: usize = 500;

/// A number from a query, from 1 to `most`.
pub(super) fn within<T: PartialOrd + From<u8> + Display>(name: &str, value: T, most: T) -> Result<T, ApiError> {
    if value >= T::from(1) && value <= most {
        return Ok(value);
    }
    Err(ApiError::Bad(format!("{name} must be from 1 to {most}")))
}

/// The name in a path, its last part if the path has no place for one.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        if params.is_ok_and(|params| params.iter().next().is_none()) {
            // A path of its own, as `pools/test`: it may be a name too.
            return Ok(Name(parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned()));
        }
        let Path(name) = Path::from_request_parts(parts, state).await?;
        Ok(Name(name))
    }
}

/// The number in a path.
pub(super) struct Number(pub(super) u64);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Number, ApiError> {
        let Path(number) = Path::from_request_parts(parts, state).await?;
        Ok(Number(number))
    }
}

#[derive(Deserialize)]
struct CommentQuery {
    comment: Option<String>,
}

#[derive(Deserialize)]
struct LatestQuery {
    latest: Option<u64>,
}

/// The author of a change: the sender of a request, with the `comment` in its query.
pub(super) fn author(user: Option<String>, from: IpAddr, request: u64, uri: &Uri) -> Author {
    let comment = Query::<CommentQuery>::try_from_uri(uri).ok().and_then(|query| query.0.comment);
    let comment =
        comment.map(|text| text.chars().filter(|c| !c.is_control()).take(LONGEST_COMMENT).collect::<String>());
    let comment = comment.filter(|text| !text.trim().is_empty());
    Author { user, from: from.to_canonical().to_string(), via: ChangeSource::Api, comment, request }
}

/// The workers, for changes of the configuration by the sender of this request.
pub(super) struct Changer {
    pub(super) workers: Workers,
    pub(super) author: Author,
    /// The last version that the sender knows, from the query.
    pub(super) latest: Option<u64>,
    versions: Versions,
}

impl Changer {
    /// Changes the configuration.
    pub(super) async fn change(&self, edit: Edit) -> Result<PersistedBody, ApiError> {
        let kept = self.workers.change(ChangeRequest { edit, latest: self.latest }, self.author.clone()).await?;
        Ok(PersistedBody::of(kept, self.versions.made_by(self.author.request).await))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Changer
where
    Workers: FromRef<S>,
    Versions: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Changer, ApiError> {
        // The gate before each path has put it there.
        let author = parts.extensions.get::<Author>().cloned().unwrap_or_else(Author::signal);
        let Query(LatestQuery { latest }) = Query::try_from_uri(&parts.uri)
            .map_err(|_| ApiError::Bad("latest must be a version's number".to_owned()))?;
        Ok(Changer { workers: Workers::from_ref(state), author, latest, versions: Versions::from_ref(state) })
    }
}
