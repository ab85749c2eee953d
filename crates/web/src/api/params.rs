//! Request parameters that several paths share.

use std::fmt::Display;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::error::ApiError;

/// A number from a query, from 1 to `most`.
pub(super) fn within<T: PartialOrd + From<u8> + Display>(name: &str, value: T, most: T) -> Result<T, ApiError> {
    if value >= T::from(1) && value <= most {
        return Ok(value);
    }
    Err(ApiError::Bad(format!("{name} must be from 1 to {most}")))
}

/// The name in a path.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, ApiError> {
        let Path(name) = Path::from_request_parts(parts, state).await?;
        Ok(Name(name))
    }
}
