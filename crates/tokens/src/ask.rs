//! A request to a service, and what its failure is called: unreachable, a status with the service's message, or an
//! answer that can't be read. What was sent as a secret is in no message, whatever the service answers, and nothing of
//! an answer that is no refusal: it may be the secret that was asked for.

use std::time::{Duration, Instant};

use serde_json::Value as Json;
use weir_base::{Printable, prefix};
use weir_fetch::{HttpRequest, SendHttp};

/// How long a token may take, with all requests that it needs.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// How long one request may take.
const ONE: Duration = Duration::from_secs(4);
/// The longest answer, in bytes.
const LONGEST: u64 = 64 << 10;
/// The longest token, in bytes: PostgreSQL reads up to 64 KiB (auth.c, `PG_MAX_AUTH_TOKEN_LENGTH`).
const LONGEST_TOKEN: usize = 16 << 10;
/// The most bytes of a service's message that are shown.
const SHOWN: usize = 300;

/// A service, and until when it must have answered.
pub(crate) struct Service<'a> {
    /// Its name in an error.
    pub(crate) name: &'a str,
    pub(crate) send: &'a SendHttp,
    pub(crate) until: Instant,
}

/// A service's answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    body: Vec<u8>,
    /// Who answered, for errors.
    who: String,
    secrets: Vec<String>,
}

impl Service<'_> {
    /// Sends a request with these secrets.
    ///
    /// # Errors
    /// There is no answer in time.
    pub(crate) fn ask(&self, mut request: HttpRequest, secrets: &[&str]) -> Result<Answer, String> {
        let who = format!("{} at {}", self.name, origin(&request.url));
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("{who} was not asked: the requests before took {} s", LIMIT.as_secs()));
        }
        (request.timeout, request.longest) = (left.min(ONE), LONGEST);
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let hidden = |text: &str| shown(text, &secrets);
        let answer = (self.send)(&request).map_err(|why| format!("{who} is unreachable: {}", hidden(&why)))?;
        Ok(Answer { status: answer.status, body: answer.body, who, secrets })
    }
}

impl Answer {
    /// The answer, if it says that all is well.
    ///
    /// # Errors
    /// The status, with the service's message.
    pub(crate) fn ok(self) -> Result<Answer, String> {
        if self.status == 200 { Ok(self) } else { Err(self.refusal()) }
    }

    /// The error of an answer with another status, with the service's message if it is a refusal.
    pub(crate) fn refusal(&self) -> String {
        let message = if self.status < 400 { String::new() } else { message(&self.text()) };
        let message = shown(&message, &self.secrets);
        let colon = if message.is_empty() { "" } else { ": " };
        format!("{} answered {}{colon}{message}", self.who, self.status)
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn json(&self) -> Result<Json, String> {
        serde_json::from_slice(&self.body).map_err(|_| self.unreadable("it is no JSON"))
    }

    /// A token: of one line, and not too long.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn token(&self, value: &Json, name: &str) -> Result<String, String> {
        match value.as_str() {
            None | Some("") => Err(self.unreadable(&format!("it has no {name}"))),
            Some(text) if text.len() > LONGEST_TOKEN => {
                Err(self.unreadable(&format!("its {name} is longer than {LONGEST_TOKEN} bytes")))
            }
            Some(text) if text.contains(char::is_control) => {
                Err(self.unreadable(&format!("its {name} has more than one line")))
            }
            Some(text) => Ok(text.to_owned()),
        }
    }

    /// The error of an answer that is not as it should be.
    pub(crate) fn unreadable(&self, why: &str) -> String {
        format!("the answer of {} can't be used: {why}", self.who)
    }
}

/// A number, which some services write as text.
pub(crate) fn number(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| {
        let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
        Some(seconds as u64)
    })
}

/// The text between two tags of XML, as the five entities have it.
pub(crate) fn tag(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(entities.iter().fold(inner.trim().to_owned(), |text, (entity, plain)| text.replace(entity, plain)))
}

/// Who is asked, without the path and the query of an address, which may hold secrets.
pub(crate) fn origin(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    &url[..end]
}

/// What a service says about a refusal: in JSON, in XML, or its first line.
fn message(body: &str) -> String {
    if let Ok(json) = serde_json::from_str::<Json>(body) {
        let of = |json: &Json| {
            ["error_description", "message", "Message", "error"]
                .iter()
                .find_map(|name| json[*name].as_str().map(str::to_owned))
        };
        let all = json["errors"]
            .as_array()
            .map(|errors| errors.iter().filter_map(Json::as_str).map(str::trim).collect::<Vec<_>>().join("; "));
        return of(&json).or_else(|| of(&json["error"])).or(all).unwrap_or_default();
    }
    match (tag(body, "Code"), tag(body, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (_, Some(message)) => message,
        _ if body.trim_start().starts_with('<') => String::new(),
        _ => body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned(),
    }
}

/// A text for an error: without these secrets, on one line, not too long.
fn shown(text: &str, secrets: &[String]) -> String {
    let hidden = secrets.iter().filter(|secret| !secret.is_empty());
    let text = hidden.fold(text.to_owned(), |text, secret| text.replace(secret, "***"));
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Printable(prefix(&line, SHOWN)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_refusal_is_found_in_each_services_form() {
        for (body, expected) in [
            (r#"{"error":"invalid_request","error_description":"Identity not found"}"#, "Identity not found"),
            (r#"{"errors":["permission denied","no role"]}"#, "permission denied; no role"),
            (r#"{"error":{"message":"no such account"}}"#, "no such account"),
            (r#"{"code":"x","message":"AccessDenied"}"#, "AccessDenied"),
            (
                "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>Token expired: &lt;x&gt;</Message>\
                 </Error></ErrorResponse>",
                "ExpiredTokenException: Token expired: <x>",
            ),
            ("<html><body>long</body></html>", ""),
            ("\n not found \nmore", "not found"),
            ("{}", ""),
        ] {
            assert_eq!(message(body), expected, "{body}");
        }
    }

    #[test]
    fn a_secret_that_a_service_sends_back_is_not_shown() {
        assert_eq!(shown("bad token s.hush\n here", &["s.hush".to_owned(), String::new()]), "bad token *** here");
        assert!(shown(&"x".repeat(5000), &[]).len() <= SHOWN);
    }

    #[test]
    fn an_answer_that_is_no_refusal_is_not_shown_and_a_refusal_is_cut() {
        let answer = |status, body: &[u8]| Answer {
            status,
            body: body.to_vec(),
            who: "x".to_owned(),
            secrets: vec!["s.sent".to_owned()],
        };
        for body in ["hush", r#"{"message":"hush"}"#, "<Message>hush</Message>", r#"{"errors":["hush"]}"#] {
            for status in [100, 200, 201, 204, 302, 399] {
                assert_eq!(answer(status, body.as_bytes()).refusal(), format!("x answered {status}"), "{body}");
            }
            assert_eq!(answer(400, body.as_bytes()).refusal(), "x answered 400: hush", "{body}");
        }
        let long = [b"no \x1b[31m s.sent \xff".to_vec(), vec![b'y'; 5000]].concat();
        let error = answer(503, &long).refusal();
        assert!(error.len() < 600 && !error.contains("s.sent") && !error.contains('\x1b'), "{error}");
        for body in [&b"hush"[..], b"\"hush\"", b"[\"hush\"]", b"\xff\xfe"] {
            let answer = answer(200, body);
            let error = answer.json().and_then(|json| answer.token(&json["access_token"], "access_token")).unwrap_err();
            assert!(!error.contains("hush") && error.contains("can't be used"), "{error}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        assert_eq!(origin("http://169.254.169.254/latest/x?y"), "http://169.254.169.254");
        assert_eq!(origin("https://vault:8200"), "https://vault:8200");
        assert_eq!(origin("h?secret"), "h");
    }
}
