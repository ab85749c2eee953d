//! Just enough JSON to write results for other programs; nothing here reads it.

use std::fmt::{self, Write};

/// A value. An object keeps the order in which it was built.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        if value.is_finite() { Json::Number(value) } else { Json::Null }
    }
}

impl From<u64> for Json {
    #[allow(clippy::cast_precision_loss)] // Counts of a few billion are exact.
    fn from(value: u64) -> Self {
        Json::Number(value as f64)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Json::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Json::Text(value.to_owned())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Json::Null, Into::into)
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Json::List(values.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => value.fmt(f),
            Json::Number(value) => write!(f, "{}", (value * 10_000.0).round() / 10_000.0),
            Json::Text(text) => quoted(f, text),
            Json::List(values) => {
                f.write_char('[')?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (at, (name, value)) in members.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    quoted(f, name)?;
                    write!(f, ": {value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_json() {
        let value = Json::Object(vec![
            ("name", "a \"b\"\n".into()),
            ("ratio", 0.820_04.into()),
            ("absent", None::<f64>.into()),
            ("odd", f64::NAN.into()),
            ("rounds", [1.0, 2.5].into_iter().collect()),
            ("ok", true.into()),
        ]);
        let expected =
            r#"{"name": "a \"b\"\u000a", "ratio": 0.82, "absent": null, "odd": null, "rounds": [1, 2.5], "ok": true}"#;
        assert_eq!(value.to_string(), expected);
    }
}
