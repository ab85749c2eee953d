//! Identity tokens as a provider signs them, and as it must not.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use serde_json::json;

use super::*;

struct Signer {
    algorithm: Algorithm,
    key: EncodingKey,
    jwk: Jwk,
}

fn signer(algorithm: Algorithm, name: &str) -> Signer {
    let (kind, make): (_, fn(&[u8]) -> EncodingKey) = match algorithm {
        Algorithm::ES256 => (&PKCS_ECDSA_P256_SHA256, EncodingKey::from_ec_der),
        _ => (&PKCS_ED25519, EncodingKey::from_ed_der),
    };
    let pair = KeyPair::generate_for(kind).expect("a key");
    let key = make(&pair.serialize_der());
    let raw = pair.public_key_raw();
    let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let jwk = match algorithm {
        Algorithm::ES256 => json!({"kty": "EC", "crv": "P-256", "x": coded(&raw[1..33]), "y": coded(&raw[33..65])}),
        _ => json!({"kty": "OKP", "crv": "Ed25519", "x": coded(raw)}),
    };
    let mut jwk: Jwk = serde_json::from_value(jwk).expect("a key");
    jwk.common.key_id = Some(name.to_owned());
    Signer { algorithm, key, jwk }
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

fn signed(signer: &Signer, claims: &Value) -> String {
    let mut header = Header::new(signer.algorithm);
    header.kid.clone_from(&signer.jwk.common.key_id);
    encode(&header, claims, &signer.key).expect("it is signed")
}

fn checked(token: &str, keys: &[Jwk]) -> Result<Map<String, Value>, Invalid> {
    verify(token, keys, &Expected { issuer: "https://idp", client_id: "weir", nonce: "n" })
}

#[test]
fn a_token_for_this_login_is_accepted_with_each_kind_of_key() {
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA] {
        let signer = signer(algorithm, "a");
        let keys = [super::tests::signer(algorithm, "b").jwk, signer.jwk.clone()];
        let found = checked(&signed(&signer, &claims()), &keys).expect("it is valid");
        assert_eq!(found["sub"], "7");
        assert_eq!(checked(&signed(&signer, &claims()), &keys[..1]), Err(Invalid::UnknownKey), "the key was changed");
    }
}

#[test]
fn each_wrong_claim_is_refused() {
    let signer = signer(Algorithm::ES256, "a");
    let keys = [signer.jwk.clone()];
    let wrong = [
        ("iss", json!("https://other")),
        ("iss", json!(["https://idp", "https://other"])),
        ("iss", Value::Null),
        ("aud", json!("other")),
        ("aud", json!(["weir", "other"])),
        ("aud", Value::Null),
        ("azp", json!("other")),
        ("azp", json!(["weir"])),
        ("nonce", json!("m")),
        ("nonce", Value::Null),
        ("sub", json!("")),
        ("sub", Value::Null),
        ("exp", json!(now() - 3600)),
        ("exp", Value::Null),
        ("exp", json!("tomorrow")),
        ("nbf", json!(now() + 3600)),
    ];
    for (name, value) in wrong {
        let claims = with(name, value.clone());
        assert!(matches!(checked(&signed(&signer, &claims), &keys), Err(Invalid::Because(_))), "{name}: {value}");
    }
    let mut several = with("aud", json!(["weir", "other"]));
    several["azp"] = json!("weir");
    assert!(checked(&signed(&signer, &several), &keys).is_ok());
}

#[test]
fn what_is_not_signed_by_the_provider_is_refused() {
    let signer = signer(Algorithm::ES256, "a");
    let keys = [signer.jwk.clone()];
    let forger = super::tests::signer(Algorithm::ES256, "a");
    assert!(
        matches!(checked(&signed(&forger, &claims()), &keys), Err(Invalid::Because(_))),
        "another key of this name"
    );
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = |header: Value| format!("{}.{}.", part(&header), part(&claims()));
    for name in ["none", "None", "NONE", ""] {
        assert!(
            matches!(checked(&unsigned(json!({"alg": name, "kid": "a"})), &keys), Err(Invalid::Because(_))),
            "{name}"
        );
    }
    // With the bytes of a public key as a secret, as a confused library would accept it.
    let Ok(public) = serde_json::to_vec(&signer.jwk) else { panic!("no key") };
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("a".to_owned());
    let symmetric = encode(&header, &claims(), &EncodingKey::from_secret(&public)).expect("it is signed");
    let refused = checked(&symmetric, &keys);
    assert!(matches!(&refused, Err(Invalid::Because(why)) if why.contains("HS256")), "{refused:?}");
    let token = signed(&signer, &claims());
    let (start, signature) = token.rsplit_once('.').expect("three parts");
    for bad in [
        format!("{start}."),
        format!("{start}.{}", signature.replace(['A', 'b'], "C")),
        start.to_owned(),
        String::new(),
    ] {
        assert!(checked(&bad, &keys).is_err() || bad == token, "{bad}");
    }
}

#[test]
fn a_key_that_is_for_something_else_is_not_used() {
    let mut signer = signer(Algorithm::ES256, "a");
    let token = signed(&signer, &claims());
    signer.jwk.common.public_key_use = Some(PublicKeyUse::Encryption);
    assert_eq!(checked(&token, &[signer.jwk.clone()]), Err(Invalid::UnknownKey));
    signer.jwk.common.public_key_use = None;
    signer.jwk.common.key_algorithm = Some(jsonwebtoken::jwk::KeyAlgorithm::ES384);
    assert_eq!(checked(&token, &[signer.jwk.clone()]), Err(Invalid::UnknownKey));
}

#[test]
fn a_token_without_a_keys_name_is_of_the_only_key() {
    let mut signer = signer(Algorithm::EdDSA, "a");
    let name = signer.jwk.common.key_id.take();
    let token = signed(&signer, &claims());
    signer.jwk.common.key_id = name;
    assert!(checked(&token, &[signer.jwk.clone(), super::tests::signer(Algorithm::ES256, "b").jwk]).is_ok());
    let two = [signer.jwk.clone(), super::tests::signer(Algorithm::EdDSA, "b").jwk];
    assert_eq!(checked(&token, &two), Err(Invalid::UnknownKey));
}
