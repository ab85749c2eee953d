//! Bodies whose fields are keys of a section in the file: JSON becomes the configuration's values, and back.
//!
//! The configuration's own reader validates them. Secrets come in, and are never shown.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use serde::Serialize;
use serde_json::{Map, Number, Value, json};
use weir_admin::Persisted;
use weir_config::{EntryKind, Keys, ShownValue};
use weir_http::{ApiError, Reader};

pub(super) type Body = Result<Json<Map<String, Value>>, JsonRejection>;

/// Where a change is stored, as the answer reports it.
#[derive(Serialize)]
pub(super) struct PersistedBody {
    /// Whether the change is in the file, and so survives a restart.
    persisted: bool,
    /// Why the change is not in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The version of the configuration that the change has made: as `latest`, a later change is refused if there was
    /// one between.
    version: u64,
}

impl PersistedBody {
    pub(super) fn of(kept: Persisted, version: u64) -> PersistedBody {
        match kept {
            Persisted::InFile => PersistedBody { persisted: true, reason: None, version },
            Persisted::InMemory(why) => PersistedBody { persisted: false, reason: Some(why), version },
        }
    }
}

/// The keys in the file; of each secret, and of what the reader may not see, only that there is one.
pub(super) fn written(keys: Vec<(&'static str, ShownValue)>, reader: Reader) -> Map<String, Value> {
    let value = |(key, written)| match written {
        ShownValue::Value(value) if reader.sees_queries() || !weir_config::is_query(key) => json_of(value),
        ShownValue::Value(_) | ShownValue::Secret => json!({ "set": true }),
    };
    keys.into_iter().map(|(key, written)| (key.to_owned(), value((key, written)))).collect()
}

/// Splits a body into the name of its subject and the other keys.
pub(super) fn named(about: EntryKind, body: Body) -> Result<(String, Keys), ApiError> {
    let Json(mut body) = body.map_err(ApiError::BadBody)?;
    match body.remove("name") {
        Some(Value::String(name)) => Ok((name, keys(about, body)?)),
        Some(_) => Err(bad("name", "must be text")),
        None => Err(bad("name", "is missing")),
    }
}

/// A body's fields, as keys of a section.
pub(super) fn keys(about: EntryKind, body: Map<String, Value>) -> Result<Keys, ApiError> {
    let mut keys = Keys::of(about);
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

/// An error about a field; `why` ends the sentence that the field's name begins.
pub(super) fn bad(key: &str, why: &str) -> ApiError {
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
