//! Login and logout, and the identity of the sender.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse};
use serde::{Deserialize, Serialize};

use crate::access::{Access, Caller, Identity};
use crate::audit::Audit;
use crate::error::ApiError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    user: String,
    password: String,
}

/// The identity of the sender.
#[derive(Serialize)]
pub(crate) struct Me {
    /// None where no login is configured.
    user: Option<String>,
    role: &'static str,
    login_needed: bool,
}

impl Me {
    fn of(who: Identity, access: &Access) -> Json<Me> {
        Json(Me { user: who.name, role: who.role.name(), login_needed: !access.is_open() })
    }
}

/// `POST /api/v1/login`.
pub(crate) async fn login(
    State(access): State<Access>,
    State(audit): State<Audit>,
    Extension(Caller(from)): Extension<Caller>,
    login: Result<Json<Login>, JsonRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let Json(Login { user, password }) = login.map_err(ApiError::BadBody)?;
    let mut pending = audit.begin(from.ip(), &Method::POST, &Uri::from_static("/api/v1/login"));
    pending.claims(Some(&user));
    match access.login(from.ip(), user, password).await {
        Ok((who, cookie)) => {
            pending.by(who.name.as_deref(), true).ends(StatusCode::OK);
            Ok((AppendHeaders([(SET_COOKIE, cookie)]), Me::of(who, &access)))
        }
        Err(error) => {
            pending.ends(error.status());
            Err(error)
        }
    }
}

/// `POST /api/v1/logout`.
pub(crate) async fn logout(State(access): State<Access>, headers: HeaderMap) -> impl IntoResponse {
    (StatusCode::NO_CONTENT, AppendHeaders([(SET_COOKIE, access.logout(&headers))]))
}

/// `GET /api/v1/me`.
pub(crate) async fn me(State(access): State<Access>, headers: HeaderMap) -> Result<Json<Me>, ApiError> {
    let who = access.who(&headers).ok_or(ApiError::LoginNeeded)?;
    Ok(Me::of(who, &access))
}
