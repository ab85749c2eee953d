//! Logins through the provider of single sign-on: to the provider, and back from it. A browser follows both as links,
//! so every answer leads to a page, and an error is a word in the address of the login page.

use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::header::{HOST, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use weir_http::{Access, CALLBACK, Caller, Comeback, LONGEST_LOGIN, SingleSignOn, SsoError};
use weir_monitor::Workers;

use crate::audit::{Audit, PendingEntry};

/// From here to the panel's page, also where a proxy serves it below a path.
const HOME: &str = "../../../";

/// `GET /api/v1/oidc/login`: leads to the provider.
pub(crate) async fn login(
    State(access): State<Access>,
    State(sso): State<SingleSignOn>,
    State(workers): State<Workers>,
    Extension(Caller(from)): Extension<Caller>,
    headers: HeaderMap,
) -> Response {
    let oidc = access.oidc();
    let redirect_url = oidc.redirect_url.clone().unwrap_or_else(|| own_address(&access, &headers));
    match sso.begin(&oidc, from.ip(), redirect_url).await {
        Ok(beginning) => redirect(&beginning.url, [access.login_cookie(&beginning.cookie, LONGEST_LOGIN)]),
        Err(error) => {
            log(&workers, &error);
            failed(&access, &error)
        }
    }
}

/// `GET /api/v1/oidc/callback`: back from the provider.
pub(crate) async fn callback(
    State((access, sso)): State<(Access, SingleSignOn)>,
    State(workers): State<Workers>,
    State(audit): State<Audit>,
    Extension(Caller(from)): Extension<Caller>,
    headers: HeaderMap,
    back: Result<Query<Comeback>, QueryRejection>,
) -> Response {
    let pending = audit.begin(from.ip(), &Method::GET, &Uri::from_static("/api/v1/oidc/callback"));
    let secret = access.login_secret(&headers).map(str::to_owned);
    if access.begin_attempt(from.ip(), secret.as_deref()).is_err() {
        pending.ends(StatusCode::TOO_MANY_REQUESTS);
        return failed(&access, &SsoError::TooMany);
    }
    let back = back.map(|Query(back)| back).unwrap_or_default();
    // The login continues when the browser does not wait, so that the audit log has the result.
    let with = access.clone();
    let work = async move { enter(&with, &sso, (secret, back), pending).await };
    match tokio::spawn(work).await {
        Ok(Ok(cookie)) => redirect(HOME, [cookie, access.login_cookie("", Duration::ZERO)]),
        Ok(Err(error)) => {
            log(&workers, &error);
            failed(&access, &error)
        }
        Err(_) => failed(&access, &SsoError::Expired),
    }
}

/// Ends a login; returns the cookie of the session.
async fn enter(
    access: &Access,
    sso: &SingleSignOn,
    (secret, back): (Option<String>, Comeback),
    pending: PendingEntry,
) -> Result<String, SsoError> {
    let oidc = access.oidc();
    let grant = match sso.finish(&oidc, secret.as_deref(), back).await {
        Ok(grant) => grant,
        Err(error) => {
            pending.ends(StatusCode::UNAUTHORIZED);
            return Err(error);
        }
    };
    let user = grant.user.clone();
    let Some((who, cookie)) = access.login_through_provider(&oidc, grant) else {
        pending.by(Some(&user), false).ends(StatusCode::FORBIDDEN);
        return Err(SsoError::Group(user));
    };
    pending.by(who.name.as_deref(), true).ends(StatusCode::OK);
    Ok(cookie)
}

/// The callback's address, by the name that the browser used.
fn own_address(access: &Access, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{}://{host}/{CALLBACK}", if access.is_secure() { "https" } else { "http" })
}

fn failed(access: &Access, error: &SsoError) -> Response {
    redirect(&format!("{HOME}?login={}", error.word()), [access.login_cookie("", Duration::ZERO)])
}

fn redirect<const N: usize>(to: &str, cookies: [String; N]) -> Response {
    let cookies = AppendHeaders(cookies.map(|cookie| (SET_COOKIE, cookie)));
    (StatusCode::SEE_OTHER, [(LOCATION, to.to_owned())], cookies).into_response()
}

fn log(workers: &Workers, error: &SsoError) {
    if let Some(line) = error.line() {
        workers.log(format!("single sign-on: {}", weir_base::Printable(&line)));
    }
}
