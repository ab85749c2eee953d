//! Credentials, and how services write them.

use serde_json::Value as Json;
use weir_config::moment;

use crate::ask::Answer;
use crate::clocks::ClockReading;

/// Credentials. No `Debug`: they are secret.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(super) key: String,
    pub(super) secret: String,
    pub(super) session: Option<String>,
    /// When they end, in seconds since 1970.
    pub(super) expires: Option<u64>,
    /// Where they come from.
    pub(super) from: String,
}

impl Credentials {
    /// The error of credentials that have ended.
    pub(super) fn expired(&self, now: ClockReading) -> String {
        let end = self.expires.map(weir_config::moment_text).unwrap_or_default();
        let now = now.text();
        let from = &self.from;
        format!("the credentials from {from} expired at {end}, and it is {now} by this machine's clock: is that right?")
    }

    /// Those in an answer in JSON, as a container's endpoint and the metadata service write it.
    pub(super) fn of_json(answer: &Answer, json: &Json, from: &str) -> Result<Credentials, String> {
        let expires = match &json["Expiration"] {
            Json::Null => None,
            end => Some(read_end(end.as_str()).ok_or_else(|| answer.unreadable("its Expiration is no time"))?),
        };
        Ok(Credentials {
            key: answer.token(&json["AccessKeyId"], "AccessKeyId")?,
            secret: answer.token(&json["SecretAccessKey"], "SecretAccessKey")?,
            session: json.get("Token").map(|token| answer.token(token, "Token")).transpose()?,
            expires,
            from: from.to_owned(),
        })
    }
}

/// A time as AWS writes it, with or without a fraction of a second.
pub(super) fn read_end(text: Option<&str>) -> Option<u64> {
    let text = text?;
    let whole = text.split_once('.').map_or(text.to_owned(), |(whole, _)| format!("{whole}Z"));
    moment(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_aws_may_have_a_fraction_of_a_second() {
        let end = Some(1_767_323_045);
        assert_eq!(read_end(Some("2026-01-02T03:04:05Z")), end);
        assert_eq!(read_end(Some("2026-01-02T03:04:05.678Z")), end);
        assert_eq!(read_end(Some("soon")), None);
        assert_eq!(read_end(None), None);
    }
}
