//! Every error of the API: its status, its text, and a hint. Those of the workers have theirs in `weir_monitor`'s
//! [`MonitorError`], and only a status here.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use weir_admin::{ChangeError, CommandError};
use weir_config::{ConfigError, SetError, WebRole};
use weir_monitor::MonitorError;

/// Why a request failed.
#[derive(Debug)]
pub enum ApiError {
    /// What was asked of the workers, or of what is kept of them, has no answer.
    Monitor(MonitorError),
    /// No such object: its kind and its name.
    Unknown(&'static str, String),
    /// The path does not exist.
    NoSuchPath,
    /// The path does not accept this method.
    NoSuchMethod,
    /// An invalid parameter or body.
    Bad(String),
    /// There is no advice for the pool that could be applied.
    NoAdvice,
    /// A setting does not accept this value, or can't be changed.
    InvalidSetting(SetError),
    /// An error that is about a field of the body, or a setting: its name.
    Field(String, Box<ApiError>),
    /// A body that can't be parsed, or is invalid.
    BadBody(JsonRejection),
    /// The `Host` header names another host.
    ForeignHost,
    /// The request comes from a page of another origin.
    ForeignOrigin,
    /// The request comes from a browser, and not from the panel.
    NotThePage,
    /// The sender is not logged in.
    LoginNeeded,
    /// The sender is logged in, but lacks this role.
    NotAllowed(WebRole),
    /// The user is unknown, or the password is wrong.
    WrongPassword,
    /// Too many attempts to log in; how long to wait.
    TooManyLogins(Duration),
    /// The limit of concurrent requests is reached.
    TooManyRequests,
    /// The request took too long to arrive, or to be answered.
    TooSlow,
    /// The body exceeds the limit.
    TooLong,
}

/// An error as it is sent.
#[derive(Serialize)]
struct ErrorBody {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<Cow<'static, str>>,
    /// The field of the body that caused the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl ErrorBody {
    fn plain(error: impl Into<String>) -> ErrorBody {
        ErrorBody { error: error.into(), detail: None, hint: None, key: None }
    }

    fn hint(self, hint: impl Into<Cow<'static, str>>) -> ErrorBody {
        ErrorBody { hint: Some(hint.into()), ..self }
    }

    /// The configuration would be invalid: the key is that of the pool's field.
    fn invalid(error: &ConfigError) -> ErrorBody {
        let place = error.line.map(|line| format!("{}:{line}", error.file.display()));
        let key =
            error.key.as_deref().and_then(|key| key.rsplit_once('.')).filter(|(section, _)| section.contains('.'));
        ErrorBody {
            error: error.message.clone(),
            detail: place,
            hint: error.hint.clone().map(Cow::Owned),
            key: key.map(|(_, field)| field.to_owned()),
        }
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> ApiError {
        ApiError::Bad(bad_query(&rejection.body_text()))
    }
}

/// What is wrong with a query, with the values that are possible: the library's text is about its own work.
fn bad_query(text: &str) -> String {
    let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    let why = why.replace("unknown variant", "unknown value").replace("unknown field", "unknown parameter");
    format!("invalid query: {}", why.replace('`', "\""))
}

impl From<MonitorError> for ApiError {
    fn from(error: MonitorError) -> ApiError {
        ApiError::Monitor(error)
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> ApiError {
        ApiError::Monitor(MonitorError::NotChanged(error))
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> ApiError {
        ApiError::Bad(rejection.body_text())
    }
}

impl ApiError {
    /// The error, for this field or setting.
    pub fn about(self, key: &str) -> ApiError {
        ApiError::Field(key.to_owned(), Box::new(self))
    }

    /// The status that it is sent with.
    pub fn status(&self) -> StatusCode {
        match self {
            ApiError::Monitor(error) => monitor_status(error),
            ApiError::TooManyRequests => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::NoAdvice => StatusCode::CONFLICT,
            ApiError::Unknown(..) | ApiError::NoSuchPath => StatusCode::NOT_FOUND,
            ApiError::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::Bad(_) | ApiError::InvalidSetting(SetError::Unfit(_) | SetError::Exposes(_)) => {
                StatusCode::BAD_REQUEST
            }
            ApiError::InvalidSetting(SetError::Unknown(_)) => StatusCode::NOT_FOUND,
            ApiError::InvalidSetting(SetError::Fixed(_)) => StatusCode::CONFLICT,
            ApiError::Field(_, error) => error.status(),
            ApiError::BadBody(rejection) => rejection.status(),
            ApiError::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
            ApiError::ForeignOrigin | ApiError::NotThePage | ApiError::NotAllowed(_) => StatusCode::FORBIDDEN,
            ApiError::LoginNeeded | ApiError::WrongPassword => StatusCode::UNAUTHORIZED,
            ApiError::TooManyLogins(_) => StatusCode::TOO_MANY_REQUESTS,
            ApiError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            ApiError::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// Whether another process takes over, which the next connection reaches.
    fn is_taken_over(&self) -> bool {
        match self {
            ApiError::Field(_, error) => error.is_taken_over(),
            ApiError::Monitor(MonitorError::Refused(error)) => *error == CommandError::TakenOver,
            _ => false,
        }
    }

    /// The JSON of the error, where no status can be sent.
    pub fn json(&self) -> String {
        serde_json::to_string(&self.body()).unwrap_or_default()
    }

    fn body(&self) -> ErrorBody {
        let plain = |error: &str, hint: &'static str| ErrorBody::plain(error).hint(hint);
        match self {
            ApiError::Monitor(MonitorError::NotChanged(why)) => change_error(why),
            ApiError::Monitor(why) => ErrorBody {
                detail: why.detail().map(str::to_owned),
                hint: why.hint().map(Cow::Borrowed),
                ..ErrorBody::plain(why.to_string())
            },
            ApiError::Unknown(kind, name) => ErrorBody::plain(format!("no such {kind}: {name}")),
            ApiError::NoSuchPath => plain("nothing is here", "GET /api/v1/openapi.json lists what there is"),
            ApiError::NoSuchMethod => {
                plain("this path does not accept this method", "GET /api/v1/openapi.json lists what there is")
            }
            ApiError::BadBody(rejection) => ErrorBody::plain(rejection.body_text()),
            ApiError::Bad(why) => ErrorBody::plain(why.clone()),
            ApiError::NoAdvice => {
                plain("there is no advice that could be applied", "GET /api/v1/advice shows what there is")
            }
            ApiError::InvalidSetting(error) => ErrorBody::plain(error.reason()),
            ApiError::Field(key, error) => ErrorBody { key: Some(key.clone()), ..error.body() },
            ApiError::ForeignHost => plain(
                "this host name is not served",
                "reach it as 127.0.0.1, [::1] or localhost; another name may belong to an attacker",
            ),
            ApiError::ForeignOrigin => plain(
                "a page of another origin may not change or load anything",
                "send it from a page of this server, or without a browser",
            ),
            ApiError::NotThePage => plain(
                "a browser may not change anything without the header X-Weir-Panel: 1",
                "send it with the request; only a page of this server can",
            ),
            ApiError::LoginNeeded => {
                plain("a login is needed", "POST /api/v1/login, or send Authorization: Bearer TOKEN")
            }
            ApiError::NotAllowed(least) => ErrorBody::plain(format!("only {} may do this", least.and_more()))
                .hint("ask one, or log in as another user"),
            ApiError::WrongPassword => plain("wrong user or password", "[web.users] lists who may log in"),
            ApiError::TooManyLogins(wait) => {
                ErrorBody::plain("too many attempts to log in").hint(format!("wait {} s", wait.as_secs() + 1))
            }
            ApiError::TooManyRequests => plain("too many requests are being served", "try again in a second"),
            ApiError::TooLong => plain("the body is too long", "no request needs more than 64 KiB"),
            ApiError::TooSlow => plain("the request took too long", "send it in one piece"),
        }
    }
}

fn monitor_status(error: &MonitorError) -> StatusCode {
    match error {
        MonitorError::Refused(error) => match error {
            CommandError::NoSuchDatabase(_) | CommandError::ClientNotFound => StatusCode::NOT_FOUND,
            CommandError::ReloadFailed(_) => StatusCode::UNPROCESSABLE_ENTITY,
            CommandError::NotSupported(_) => StatusCode::NOT_IMPLEMENTED,
            CommandError::TooBusy | CommandError::TakenOver => StatusCode::SERVICE_UNAVAILABLE,
            CommandError::ConsoleDatabase(..) | CommandError::BadArguments => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        },
        MonitorError::NotChanged(why) => match why {
            ChangeError::NameTaken(..)
            | ChangeError::ChangedByHand(_)
            | ChangeError::Overtaken(_)
            | ChangeError::NotAsPreviewed
            | ChangeError::ChangedInCluster
            | ChangeError::Fixed => StatusCode::CONFLICT,
            ChangeError::ClusterAway(_) => StatusCode::SERVICE_UNAVAILABLE,
            ChangeError::Missing(..) => StatusCode::NOT_FOUND,
            ChangeError::Invalid(_)
            | ChangeError::ListedElsewhere(_)
            | ChangeError::Exposes(_)
            | ChangeError::SecretsNeeded(_)
            | ChangeError::Unfit(_) => StatusCode::BAD_REQUEST,
        },
        MonitorError::NoAnswer | MonitorError::Busy(_) | MonitorError::Ending => StatusCode::SERVICE_UNAVAILABLE,
        MonitorError::TakenBack(_) | MonitorError::NotSignalled(_) => StatusCode::CONFLICT,
        MonitorError::NoSuchPool(_) => StatusCode::NOT_FOUND,
        MonitorError::TooManySilences(_) => StatusCode::BAD_REQUEST,
        MonitorError::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        MonitorError::TooManyStreams => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn change_error(why: &ChangeError) -> ErrorBody {
    let body = ErrorBody::plain(why.to_string());
    match why {
        ChangeError::Invalid(error) => ErrorBody::invalid(error),
        ChangeError::Exposes(exposure) => ErrorBody { key: Some(exposure.key.to_owned()), ..body }.hint(exposure.hint),
        ChangeError::NameTaken(..) => ErrorBody { key: Some("name".to_owned()), ..body }.hint("change it with PATCH"),
        ChangeError::ListedElsewhere(_) => ErrorBody { key: Some("password".to_owned()), ..body }
            .hint("nodes that share their configuration have a list each: put a line \"user\" \"password\" into it on each node; or list users in [auth.users]"),
        ChangeError::Overtaken(_) => body.hint("look at the change: GET /api/v1/config/versions; then send yours again"),
        ChangeError::ChangedByHand(_) => body.hint("reload it with POST /api/v1/reload, check it, and send the change again"),
        ChangeError::NotAsPreviewed => body.hint("look at GET /api/v1/config/pending again, and send the reload with its file"),
        ChangeError::ChangedInCluster => body.hint("look at GET /api/v1/cluster, and send the change again when this node runs the newest revision"),
        ChangeError::ClusterAway(_) => body.hint("look at etcd, and send the change again"),
        ChangeError::SecretsNeeded(keys) => ErrorBody { key: keys.first().cloned(), ..body }.hint("send them as \"secrets\", by these keys"),
        ChangeError::Missing(..) | ChangeError::Unfit(_) | ChangeError::Fixed => body,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let response = (self.status(), Json(self.body()));
        match self {
            ApiError::LoginNeeded => ([(WWW_AUTHENTICATE, "Bearer".to_owned())], response).into_response(),
            ApiError::TooManyLogins(wait) => {
                ([(RETRY_AFTER, (wait.as_secs() + 1).to_string())], response).into_response()
            }
            error if error.is_taken_over() => ([(RETRY_AFTER, "1"), (CONNECTION, "close")], response).into_response(),
            // An overloading client does not keep its connection, which another client may need.
            ApiError::Monitor(MonitorError::TooManyStreams)
            | ApiError::TooManyRequests
            | ApiError::TooSlow
            | ApiError::TooLong => ([(CONNECTION, "close".to_owned())], response).into_response(),
            _ => response.into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Query;
    use axum::http::Uri;
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        #[allow(dead_code, reason = "only read")]
        range: Range,
    }

    #[derive(Deserialize, Debug)]
    enum Range {
        #[serde(rename = "1m")]
        Minute,
        #[serde(rename = "1h")]
        Hour,
    }

    #[test]
    fn an_invalid_query_is_answered_with_what_is_possible() {
        let error = |query: &str| {
            let uri: Uri = format!("/x?{query}").parse().unwrap();
            ApiError::from(Query::<Wanted>::try_from_uri(&uri).unwrap_err()).json()
        };
        let plain = |text: String| text.replace("\\\"", "'");
        assert_eq!(
            plain(error("range=2h")),
            "{\"error\":\"invalid query: range: unknown value '2h', expected '1m' or '1h'\"}"
        );
        assert!(plain(error("rang=1h")).contains("unknown parameter 'rang', expected 'range'"), "{}", error("rang=1h"));
    }
}
