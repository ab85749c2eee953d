//! Signature version 4 of a request to connect, as an address with a query (AWS: "Authenticating requests: using query
//! parameters"; the RDS user guide: "IAM database authentication").
//!
//! Equal to what the AWS CLI prints, byte for byte: `tests/rds_vectors.json` was made by botocore 1.44.8.

use std::fmt::Write;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use weir_config::moment_text;

use super::credentials::Credentials;

/// The seconds that a server accepts it.
const EXPIRES: &str = "900";
/// The service in the scope of the signature.
const SERVICE: &str = "rds-db";

/// The token. `now`: seconds since 1970.
pub(super) fn connect_url(
    (host, port): (&str, u16),
    user: &str,
    region: &str,
    credentials: &Credentials,
    now: u64,
) -> String {
    // As in 20260102T030405Z.
    let time: String = moment_text(now).chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let date = time.get(..8).unwrap_or_default().to_owned();
    let scope = format!("{date}/{region}/{SERVICE}/aws4_request");
    let mut query = vec![
        ("Action", "connect".to_owned()),
        ("DBUser", user.to_owned()),
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()),
        ("X-Amz-Credential", format!("{}/{scope}", credentials.key)),
        ("X-Amz-Date", time.clone()),
        ("X-Amz-Expires", EXPIRES.to_owned()),
        ("X-Amz-SignedHeaders", "host".to_owned()),
    ];
    query.extend(credentials.session.clone().map(|session| ("X-Amz-Security-Token", session)));
    let pairs = |query: &[(&str, String)]| {
        query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect::<Vec<_>>().join("&")
    };
    let shown = pairs(&query);
    query.sort();
    // The port of https is no part of the header (RFC 9110, section 7.2).
    let header = if port == 443 { host.to_ascii_lowercase() } else { format!("{}:{port}", host.to_ascii_lowercase()) };
    let request = format!("GET\n/\n{}\nhost:{header}\n\nhost\n{}", pairs(&query), hex(&Sha256::digest(b"")));
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(request.as_bytes())));
    let secret = format!("AWS4{}", credentials.secret);
    let key = [&*date, region, SERVICE, "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| keyed(&key, part.as_bytes()));
    format!("{host}:{port}/?{shown}&X-Amz-Signature={}", hex(&keyed(&key, to_sign.as_bytes())))
}

fn keyed(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A value in a query: all but the unreserved characters (RFC 3986, section 2.3) in hexadecimal.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn tokens_are_those_of_the_aws_cli_byte_for_byte() {
        let vectors: Vec<Json> = serde_json::from_str(include_str!("../../tests/rds_vectors.json")).unwrap();
        assert!(vectors.len() >= 6);
        for vector in vectors {
            let text = |name: &str| vector[name].as_str().map(str::to_owned);
            let credentials = Credentials {
                key: text("key").unwrap(),
                secret: text("secret").unwrap(),
                session: text("token"),
                expires: None,
                from: String::new(),
            };
            let (host, port) = (text("host").unwrap(), vector["port"].as_u64().unwrap().try_into().unwrap());
            let (user, region) = (text("user").unwrap(), text("region").unwrap());
            let token = connect_url((&host, port), &user, &region, &credentials, vector["at"].as_u64().unwrap());
            assert_eq!(Some(token), text("expected"), "{}", vector["name"]);
        }
    }
}
