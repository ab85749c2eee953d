//! Login and logout, and the identity of the sender.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::{Deserialize, Serialize};
use weir_http::{Access, ApiError, Caller, Identity, SingleSignOn};

use crate::audit::Audit;

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

/// What is left to do after a logout.
#[derive(Serialize)]
struct Farewell {
    /// The address at the provider that ends its session.
    end_session: String,
}

/// How one may log in.
#[derive(Serialize)]
pub(crate) struct Ways {
    password: bool,
    /// The text of the button for single sign-on; none without a provider.
    single_sign_on: Option<String>,
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

/// `POST /api/v1/logout`. With a session at the provider: where the browser ends that, too.
pub(crate) async fn logout(
    State(access): State<Access>,
    State(sso): State<SingleSignOn>,
    headers: HeaderMap,
) -> Response {
    let (cookie, there) = access.logout(&headers);
    let cookie = AppendHeaders([(SET_COOKIE, cookie)]);
    let end = match there {
        Some(there) => sso.end_session(&access.oidc(), &there.id_token, &there.home).await,
        None => None,
    };
    match end {
        Some(end_session) => (cookie, Json(Farewell { end_session })).into_response(),
        None => (StatusCode::NO_CONTENT, cookie).into_response(),
    }
}

/// `GET /api/v1/login`: how one may log in.
pub(crate) async fn ways(State(access): State<Access>) -> Json<Ways> {
    let oidc = access.oidc();
    let single_sign_on = oidc.issuer.is_some().then_some(oidc.label);
    Json(Ways { password: access.has_passwords(), single_sign_on })
}

/// `GET /api/v1/me`.
pub(crate) async fn me(State(access): State<Access>, headers: HeaderMap) -> Result<Json<Me>, ApiError> {
    let who = access.who(&headers).ok_or(ApiError::LoginNeeded)?;
    Ok(Me::of(who, &access))
}
