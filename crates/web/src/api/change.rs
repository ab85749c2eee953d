//! Pools made, changed, deleted and tried: a body's keys are those of a pool's section in the file.
//!
//! What is valid is for the configuration's own reader to say; here only JSON becomes its values, and back. Secrets come
//! in, and never go out.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Number, Value, json};
use weir_admin::Kept;
use weir_config::{Act, Edit, Keys, Written};

use super::Name;
use super::pools::{self, Pool};
use crate::ask::Workers;
use crate::error::ApiError;
use crate::trials::Trials;

type Body = Result<Json<Map<String, Value>>, JsonRejection>;

/// What a change has made.
#[derive(Serialize)]
pub(crate) struct Changed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<Pool>,
    /// Whether the change is in the file, and so outlasts the process.
    persisted: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Whether a change is in the file, and why it is not.
pub(super) fn outcome(kept: Kept) -> (bool, Option<String>) {
    match kept {
        Kept::InFile => (true, None),
        Kept::InMemory(why) => (false, Some(why)),
    }
}

impl Changed {
    fn of(kept: Kept, pool: Option<Pool>) -> Json<Changed> {
        let (persisted, reason) = outcome(kept);
        Json(Changed { pool, persisted, reason })
    }
}

/// `POST /api/v1/pools`.
pub(crate) async fn make(State(workers): State<Workers>, body: Body) -> Result<(StatusCode, Json<Changed>), ApiError> {
    let (pool, keys) = named(body)?;
    let kept = workers.change(Edit::Pool(pool.clone(), Act::Make(keys))).await?;
    Ok((StatusCode::CREATED, Changed::of(kept, shown(&workers, &pool).await?)))
}

/// `PATCH /api/v1/pools/{name}`.
pub(crate) async fn alter(
    State(workers): State<Workers>,
    Name(pool): Name,
    body: Body,
) -> Result<Json<Changed>, ApiError> {
    let Json(body) = body.map_err(ApiError::BadBody)?;
    let kept = workers.change(Edit::Pool(pool.clone(), Act::Alter(keys(body)?))).await?;
    Ok(Changed::of(kept, shown(&workers, &pool).await?))
}

/// `DELETE /api/v1/pools/{name}`.
pub(crate) async fn delete(State(workers): State<Workers>, Name(pool): Name) -> Result<Json<Changed>, ApiError> {
    let kept = workers.change(Edit::Pool(pool, Act::Drop)).await?;
    Ok(Changed::of(kept, None))
}

/// `GET /api/v1/pools/{name}/config`.
pub(crate) async fn config(
    State(workers): State<Workers>,
    Name(name): Name,
) -> Result<Json<Map<String, Value>>, ApiError> {
    let (_, config) = workers.report().await?;
    let written = weir_config::written(&config, &name).ok_or(ApiError::Unknown("pool", name))?;
    let value = |written| match written {
        Written::Value(value) => json_of(value),
        Written::Secret => json!({ "set": true }),
    };
    Ok(Json(written.into_iter().map(|(key, written)| (key.to_owned(), value(written))).collect()))
}

/// The one pool that the list does not show stands for all without one.
async fn shown(workers: &Workers, name: &str) -> Result<Option<Pool>, ApiError> {
    match pools::find(workers, name).await {
        Err(ApiError::Unknown(..)) => Ok(None),
        found => found.map(Some),
    }
}

/// `POST /api/v1/pools/test`.
pub(crate) async fn test(State(trials): State<Trials>, body: Body) -> Result<Json<Value>, ApiError> {
    let (pool, keys) = named(body)?;
    Ok(Json(match trials.login(pool, keys).await? {
        Ok(server) => json!({
            "ok": true,
            "encrypted": server.encrypted,
            "version": server.version,
            "milliseconds": server.milliseconds,
            "max_connections": server.max_connections,
            "superuser_reserved_connections": server.superuser_reserved_connections,
            "connections": server.connections,
        }),
        Err(error) => json!({ "ok": false, "error": error }),
    }))
}

/// A body that names its pool.
fn named(body: Body) -> Result<(String, Keys), ApiError> {
    let Json(mut body) = body.map_err(ApiError::BadBody)?;
    match body.remove("name") {
        Some(Value::String(name)) => Ok((name, keys(body)?)),
        Some(_) => Err(bad("name", "must be text")),
        None => Err(bad("name", "is missing")),
    }
}

fn keys(body: Map<String, Value>) -> Result<Keys, ApiError> {
    let mut keys = Keys::default();
    for (key, value) in body {
        let value = match value {
            Value::Null => None,
            value => {
                let value = value_of(value);
                Some(value.ok_or_else(|| bad(&key, "must be text, a number, true or false, or a list"))?)
            }
        };
        if !keys.set(&key, value) {
            return Err(bad(&key, "is given twice, by two of its names"));
        }
    }
    Ok(keys)
}

/// A field that can't be meant; `why` ends the sentence that its name begins.
fn bad(key: &str, why: &str) -> ApiError {
    ApiError::Bad(format!("\"{key}\" {why}")).about(key)
}

fn value_of(value: Value) -> Option<weir_config::Value> {
    Some(match value {
        Value::String(text) => weir_config::Value::Text(text),
        Value::Bool(flag) => weir_config::Value::Flag(flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => weir_config::Value::Number(whole),
            None => weir_config::Value::Fraction(number.as_f64()?),
        },
        Value::Array(items) => weir_config::Value::List(items.into_iter().map(value_of).collect::<Option<_>>()?),
        Value::Null | Value::Object(_) => return None,
    })
}

fn json_of(value: weir_config::Value) -> Value {
    match value {
        weir_config::Value::Text(text) => Value::String(text),
        weir_config::Value::Number(number) => number.into(),
        weir_config::Value::Fraction(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        weir_config::Value::Flag(flag) => flag.into(),
        weir_config::Value::List(items) => items.into_iter().map(json_of).collect(),
    }
}
