//! The messages of a client (RFC 7628, section 3; as PostgreSQL reads them, src/backend/libpq/auth-oauth.c).

/// What ends the exchange after an error (RFC 7628, section 3.2.3).
pub const BEARER_END: &[u8] = b"\x01";

/// The scheme of a token, compared without regard to case (RFC 9110, section 11.1).
const SCHEME: &str = "Bearer ";

/// What a client's first message says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BearerMessage<'a> {
    /// It asks which tokens are accepted.
    Discovery,
    /// It has this token: of the characters of `b64token` (RFC 6750, section 2.1).
    Token(&'a str),
    /// It has something that is no bearer token: why, as a sentence.
    Unusable(&'static str),
}

/// Reads the first message of a client: the header of GSS, and pairs of which `auth` counts.
///
/// # Errors
/// The message has another form: how, in PostgreSQL's words.
pub fn read_bearer(message: &[u8]) -> Result<BearerMessage<'_>, &'static str> {
    if message.is_empty() {
        return Err("The message is empty.");
    }
    if message.contains(&0) {
        return Err("Message length does not match input length.");
    }
    let text = std::str::from_utf8(message).map_err(|_| "Message contains an invalid value.")?;
    let pairs = after_header(text)?;
    let value = auth_value(pairs)?.ok_or("Message does not contain an auth value.")?;
    Ok(token(value))
}

/// What follows the header of GSS (RFC 5801, section 4), which asks for no channel binding and names no other user.
fn after_header(text: &str) -> Result<&str, &'static str> {
    let rest = match text.as_bytes()[0] {
        b'p' => {
            return Err(
                "The server does not support channel binding for OAuth, but the client message includes channel binding \
                 data.",
            );
        }
        b'n' | b'y' => text[1..].strip_prefix(',').ok_or("Comma expected after the channel-binding flag.")?,
        _ => return Err("Unexpected channel-binding flag."),
    };
    if rest.starts_with('a') {
        return Err("Client uses authorization identity, but it is not supported.");
    }
    let rest = rest.strip_prefix(',').ok_or("Unexpected attribute in client-first-message.")?;
    rest.strip_prefix('\x01').ok_or("Key-value separator expected.")
}

/// The value of `auth` among pairs, of which others are ignored.
fn auth_value(mut rest: &str) -> Result<Option<&str>, &'static str> {
    let mut auth = None;
    while !rest.is_empty() {
        let (pair, behind) = rest.split_once('\x01').ok_or("Message contains an unterminated key/value pair.")?;
        if pair.is_empty() {
            let ended = behind.is_empty();
            return if ended { Ok(auth) } else { Err("Message contains additional data after the final terminator.") };
        }
        let (key, value) = pair.split_once('=').ok_or("Message contains a key without a value.")?;
        if key.is_empty() {
            return Err("Message contains an empty key name.");
        }
        if !key.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err("Message contains an invalid key name.");
        }
        if !value.bytes().all(|byte| matches!(byte, b'!'..=b'~' | b' ' | b'\t' | b'\r' | b'\n')) {
            return Err("Message contains an invalid value.");
        }
        if key == "auth" && auth.replace(value).is_some() {
            return Err("Message contains multiple auth values.");
        }
        rest = behind;
    }
    Err("Message did not contain a final terminator.")
}

fn token(value: &str) -> BearerMessage<'_> {
    if value.is_empty() {
        return BearerMessage::Discovery;
    }
    let Some((scheme, token)) = value.split_at_checked(SCHEME.len()) else {
        return BearerMessage::Unusable("the client sent no bearer token");
    };
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return BearerMessage::Unusable("the client sent no bearer token");
    }
    let token = token.trim_start_matches(' ');
    let signs = token.trim_end_matches('=');
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    if signs.is_empty() || !signs.bytes().all(valid) {
        return BearerMessage::Unusable("the client's bearer token is empty, or has characters that no token has");
    }
    BearerMessage::Token(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match read_bearer(text.as_bytes()) {
            Ok(BearerMessage::Discovery) => "discovery".to_owned(),
            Ok(BearerMessage::Token(token)) => format!("token {token}"),
            Ok(BearerMessage::Unusable(why)) => why.to_owned(),
            Err(why) => why.to_owned(),
        }
    }

    #[test]
    fn a_token_is_found_among_other_pairs() {
        for text in [
            "n,,\x01auth=Bearer a.b-c_~+/1==\x01\x01",
            "y,,\x01auth=bearer a.b-c_~+/1==\x01\x01",
            "n,,\x01host=h\x01port=5432\x01auth=BEARER    a.b-c_~+/1==\x01new=\t x\r\n\x01\x01",
        ] {
            assert_eq!(read(text), "token a.b-c_~+/1==", "{text:?}");
        }
        for text in ["n,,\x01auth=\x01\x01", "y,,\x01host=h\x01auth=\x01\x01"] {
            assert_eq!(read(text), "discovery", "{text:?}");
        }
    }

    #[test]
    fn what_is_no_bearer_token_is_refused_as_a_wrong_one() {
        for (value, part) in [
            ("Basic YTpi", "no bearer token"),
            ("Bearer", "no bearer token"),
            ("Bearer\ta", "no bearer token"),
            ("a.b.c", "no bearer token"),
            ("Bearer ", "is empty"),
            ("Bearer   ", "is empty"),
            ("Bearer ==", "is empty"),
            ("Bearer a=b", "characters"),
            ("Bearer a b", "characters"),
            ("Bearer a\n", "characters"),
            ("Bearer a,b", "characters"),
        ] {
            let found = read(&format!("n,,\x01auth={value}\x01\x01"));
            assert!(found.contains(part), "{value:?}: {found}");
        }
    }

    #[test]
    fn a_message_of_another_form_is_refused_in_postgresqls_words() {
        for (text, part) in [
            ("", "The message is empty."),
            ("n,,\x01auth=Bearer a\0\x01\x01", "length"),
            ("p=tls-unique,,\x01auth=\x01\x01", "channel binding"),
            ("x,,\x01auth=\x01\x01", "Unexpected channel-binding flag"),
            ("\x01", "Unexpected channel-binding flag"),
            ("n", "Comma expected"),
            ("n;", "Comma expected"),
            ("n,", "Unexpected attribute"),
            ("n,x", "Unexpected attribute"),
            ("n,a=root,\x01auth=\x01\x01", "authorization identity"),
            ("n,,", "Key-value separator expected"),
            ("n,,auth=\x01\x01", "Key-value separator expected"),
            ("n,,\x01", "final terminator"),
            ("n,,\x01\x01", "does not contain an auth value"),
            ("n,,\x01auth=Bearer a", "unterminated"),
            ("n,,\x01auth=Bearer a\x01", "final terminator"),
            ("n,,\x01auth\x01\x01", "key without a value"),
            ("n,,\x01=a\x01\x01", "empty key name"),
            ("n,,\x01a_b=a\x01\x01", "invalid key name"),
            ("n,,\x01host=\x7f\x01auth=\x01\x01", "invalid value"),
            ("n,,\x01host=é\x01auth=\x01\x01", "invalid value"),
            ("n,,\x01auth=Bearer a\x01auth=\x01\x01", "multiple auth values"),
            ("n,,\x01auth=\x01\x01more", "additional data"),
            ("n,,\x01auth=\x01\x01\x01", "additional data"),
        ] {
            let found = read(text);
            assert!(found.contains(part), "{text:?}: {found}");
        }
        assert_eq!(read_bearer(b"n,,\x01auth=\xff\x01\x01").err(), Some("Message contains an invalid value."));
    }
}
