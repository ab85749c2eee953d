//! Identity tokens as a provider signs them, and those of other logins. What holds for every token is tested in
//! `weir-jwt`.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;

fn coded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn keys(pair: &Ed25519KeyPair) -> IssuerKeys {
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": coded(pair.public_key().as_ref()), "kid": "a"});
    IssuerKeys::parse(json!({ "keys": [key] }).to_string().as_bytes()).expect("keys")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs()
}

fn claims() -> Value {
    json!({"iss": "https://idp", "aud": "weir", "sub": "7", "nonce": "n", "exp": now() + 300, "iat": now()})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn checked(claims: &Value) -> Result<Claims, Invalid> {
    let pair = Ed25519KeyPair::generate().expect("a key");
    let message = format!("{}.{}", coded(r#"{"alg":"EdDSA","kid":"a"}"#), coded(claims.to_string()));
    let token = format!("{message}.{}", coded(pair.sign(message.as_bytes())));
    verify(&token, &keys(&pair), &Expected { issuer: "https://idp", client_id: "weir", nonce: "n" })
}

#[test]
fn a_token_for_this_login_is_accepted() {
    assert!(checked(&claims()).is_ok_and(|found| found.text("sub") == Some("7")));
    let mut several = with("aud", json!(["weir", "other"]));
    several["azp"] = json!("weir");
    assert!(checked(&several).is_ok());
}

#[test]
fn each_wrong_claim_is_refused() {
    let wrong = [
        ("iss", json!("https://other")),
        ("aud", json!("other")),
        ("aud", json!(["weir", "other"])),
        ("azp", json!("other")),
        ("azp", json!(["weir"])),
        ("nonce", json!("m")),
        ("nonce", Value::Null),
        ("sub", json!("")),
        ("sub", Value::Null),
        ("exp", json!(now() - 3600)),
        ("nbf", json!(now() + 3600)),
    ];
    for (name, value) in wrong {
        assert!(matches!(checked(&with(name, value.clone())), Err(Invalid::Because(_))), "{name}: {value}");
    }
}
