//! Tokens as an issuer signs them, and as it must not.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaEncoding};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;
use crate::claims::has_verified_email;
use crate::keys::MAX_KEYS;

const NOW: u64 = 1_800_000_000;
const EXPECTED: Expected<'static> = Expected { issuer: "https://idp", audience: "weir", now: NOW };

fn coded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(EcdsaKeyPair, usize),
    Ed(Ed25519KeyPair),
}

impl Signer {
    fn new(algorithm: &str) -> Signer {
        match algorithm {
            "ES256" => Signer::Ecdsa(EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(), 32),
            "ES384" => Signer::Ecdsa(EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(), 48),
            "EdDSA" => Signer::Ed(Ed25519KeyPair::generate().unwrap()),
            _ => Signer::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())),
        }
    }

    fn key(&self, id: &str) -> Value {
        let mut key = match self {
            Signer::Rsa(pair) => {
                let public = pair.public_key();
                let part = |number: &[u8]| coded(number);
                json!({
                    "kty": "RSA",
                    "n": part(public.modulus().big_endian_without_leading_zero()),
                    "e": part(public.exponent().big_endian_without_leading_zero()),
                })
            }
            Signer::Ecdsa(pair, size) => {
                let raw = pair.public_key().as_ref();
                let (x, y) = (coded(&raw[1..=*size]), coded(&raw[1 + size..]));
                json!({"kty": "EC", "crv": if *size == 32 { "P-256" } else { "P-384" }, "x": x, "y": y})
            }
            Signer::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": coded(pair.public_key().as_ref())}),
        };
        key["kid"] = json!(id);
        key
    }

    fn signature(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signed).unwrap();
                signed
            }
            Signer::Ecdsa(pair, _) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Signer::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token of these texts.
    fn raw(&self, algorithm: &str, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", coded(header), coded(claims));
        format!("{message}.{}", coded(self.signature(algorithm, message.as_bytes())))
    }

    fn sign(&self, algorithm: &str, claims: &Value) -> String {
        self.raw(algorithm, &json!({"alg": algorithm, "typ": "JWT", "kid": "a"}).to_string(), &claims.to_string())
    }
}

fn set(keys: &[Value]) -> IssuerKeys {
    IssuerKeys::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("keys")
}

fn claims() -> Value {
    json!({"iss": "https://idp", "aud": "weir", "sub": "7", "exp": NOW + 300, "iat": NOW, "scope": "openid db"})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn why(token: &str, keys: &IssuerKeys) -> String {
    match verify(token, keys, &EXPECTED) {
        Ok(_) => "it is valid".to_owned(),
        Err(Invalid::UnknownKey(key)) => format!("unknown key {key}"),
        Err(Invalid::WrongSignature) => "its signature is wrong".to_owned(),
        Err(Invalid::Because(why)) => why,
    }
}

const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

#[test]
fn a_token_is_valid_with_each_algorithm_and_only_with_the_key_that_signed_it() {
    for algorithm in ALGORITHMS {
        let (signer, other) = (Signer::new(algorithm), Signer::new(algorithm));
        let token = signer.sign(algorithm, &claims());
        let found = verify(&token, &set(&[other.key("b"), signer.key("a")]), &EXPECTED);
        let found = found.unwrap_or_else(|why| panic!("{algorithm}: {why:?}"));
        assert_eq!((found.text("sub"), found.has_scope("db"), found.has_scope("d")), (Some("7"), true, false));
        assert_eq!(why(&token, &set(&[other.key("a")])), "its signature is wrong", "{algorithm}");
        assert_eq!(why(&token, &set(&[other.key("b")])), format!("unknown key \"a\" of {algorithm}"));
    }
}

#[test]
fn a_key_is_used_with_the_algorithms_of_its_own_kind_only() {
    let signers: Vec<_> = ["RS256", "ES256", "ES384", "EdDSA"].into_iter().map(|a| (a, Signer::new(a))).collect();
    for (algorithm, signer) in &signers {
        for claimed in ALGORITHMS.into_iter().chain(["HS256", "HS384", "HS512", "none", "ES512", "ES256K", ""]) {
            let header = json!({"alg": claimed, "kid": "a"}).to_string();
            let fits = claimed == *algorithm
                || *algorithm == "RS256" && claimed.contains('S') && !claimed.starts_with(['E', 'H']);
            let found = why(&signer.raw(claimed, &header, &claims().to_string()), &set(&[signer.key("a")]));
            let expected = fits && ALGORITHMS.contains(&claimed);
            assert_eq!(found == "it is valid", expected, "{algorithm} as {claimed}: {found}");
        }
    }
    // A key that names its algorithm is for no other one.
    let (_, rsa) = &signers[0];
    let mut key = rsa.key("a");
    key["alg"] = json!("PS256");
    assert!(why(&rsa.sign("RS256", &claims()), &set(&[key.clone()])).starts_with("unknown key"));
    assert_eq!(why(&rsa.sign("PS256", &claims()), &set(&[key])), "it is valid");
}

#[test]
fn what_is_signed_with_a_public_key_as_a_secret_or_with_nothing_is_refused() {
    let signer = Signer::new("RS256");
    let (key, claimed) = (signer.key("a"), coded(claims().to_string()));
    let keys = set(std::slice::from_ref(&key));
    // As a confused library would accept it.
    for secret in [key.to_string(), key["n"].as_str().unwrap().to_owned()] {
        let message = format!("{}.{claimed}", coded(json!({"alg": "HS256", "kid": "a"}).to_string()));
        let hmac = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
        let token = format!("{message}.{}", coded(aws_lc_rs::hmac::sign(&hmac, message.as_bytes())));
        assert!(why(&token, &keys).contains("HS256"), "{}", why(&token, &keys));
    }
    // A set that has a secret, by mistake: nothing is checked with it.
    let secret = json!({"kty": "oct", "kid": "a", "k": coded("secret")});
    assert!(IssuerKeys::parse(json!({"keys": [secret]}).to_string().as_bytes()).is_err());
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let header = coded(json!({"alg": name, "kid": "a"}).to_string());
        for token in [format!("{header}.{claimed}."), format!("{header}.{claimed}")] {
            assert_ne!(why(&token, &keys), "it is valid", "{name}");
        }
    }
    let token = signer.sign("RS256", &claims());
    let (start, signature) = token.rsplit_once('.').unwrap();
    for bad in [
        format!("{start}."),
        format!("{start}.{}", coded(vec![0; 256])),
        format!("{start}.{signature}="),
        format!("{start}.{signature}.{signature}"),
        format!("{}.{signature}", start.replace('.', ".e30")),
        start.to_owned(),
        signature.to_owned(),
        "..".to_owned(),
        String::new(),
    ] {
        assert_ne!(why(&bad, &keys), "it is valid", "{bad}");
    }
}

#[test]
fn each_wrong_claim_is_refused_with_its_name() {
    let signer = Signer::new("EdDSA");
    let keys = set(&[signer.key("a")]);
    let wrong = [
        ("iss", json!("https://other"), "another issuer (iss), \"https://other\""),
        ("iss", json!("https://idp/"), "another issuer"),
        ("iss", json!(["https://idp"]), "another issuer"),
        ("iss", Value::Null, "another issuer"),
        ("aud", json!("other"), "another audience"),
        ("aud", json!(["other", 7]), "another audience"),
        ("aud", json!({"weir": "weir"}), "another audience"),
        ("aud", Value::Null, "another audience"),
        ("exp", json!(NOW - LEEWAY), "expired"),
        ("exp", json!(-1), "expired"),
        ("exp", json!("tomorrow"), "no time (exp)"),
        ("exp", Value::Null, "no time (exp)"),
        ("nbf", json!(NOW + LEEWAY + 1), "not valid yet (nbf)"),
        ("nbf", json!("now"), "no time (nbf)"),
        ("iat", json!(NOW + LEEWAY + 1), "not valid yet (iat)"),
        ("iat", json!([]), "no time (iat)"),
    ];
    for (name, value, part) in wrong {
        let found = why(&signer.sign("EdDSA", &with(name, value.clone())), &keys);
        assert!(found.contains(part), "{name} {value}: {found}");
    }
    for name in ["iss", "aud", "exp"] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        assert_ne!(why(&signer.sign("EdDSA", &claims), &keys), "it is valid", "{name}");
    }
    for (name, value) in [
        ("aud", json!(["other", "weir"])),
        ("exp", json!(NOW - LEEWAY + 1)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("nbf", json!(NOW + LEEWAY)),
        ("iat", json!(NOW + LEEWAY)),
    ] {
        assert_eq!(why(&signer.sign("EdDSA", &with(name, value)), &keys), "it is valid", "{name}");
    }
}

#[test]
fn a_clock_that_is_far_off_accepts_nothing() {
    let signer = Signer::new("EdDSA");
    let (keys, token) = (set(&[signer.key("a")]), signer.sign("EdDSA", &claims()));
    for now in [0, NOW - 3600, NOW + 3600, u64::MAX] {
        assert!(verify(&token, &keys, &Expected { now, ..EXPECTED }).is_err(), "{now}");
    }
}

#[test]
fn a_name_that_is_there_twice_is_refused() {
    let signer = Signer::new("EdDSA");
    let keys = set(&[signer.key("a")]);
    let header = r#"{"alg":"EdDSA","kid":"a"}"#;
    let twice = claims().to_string().replacen('{', r#"{"sub":"root","#, 1);
    assert_eq!(why(&signer.raw("EdDSA", header, &twice), &keys), "a claim is there twice");
    for header in [
        r#"{"alg":"EdDSA","kid":"b","kid":"a"}"#,
        r#"{"alg":"none","alg":"EdDSA","kid":"a"}"#,
        r#"{"alg":"EdDSA","kid":["a"]}"#,
        r#"["EdDSA"]"#,
    ] {
        assert_ne!(why(&signer.raw("EdDSA", header, &claims().to_string()), &keys), "it is valid", "{header}");
    }
}

#[test]
fn what_a_header_says_about_keys_does_not_matter_and_what_it_requires_is_refused() {
    let (signer, forger) = (Signer::new("ES256"), Signer::new("ES256"));
    let keys = set(&[signer.key("a")]);
    let token = |extra: Value| {
        let mut header = json!({"alg": "ES256", "kid": "a"});
        header.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        forger.raw("ES256", &header.to_string(), &claims().to_string())
    };
    for extra in [
        json!({"jwk": forger.key("a")}),
        json!({"jku": "https://forger/keys"}),
        json!({"x5u": "https://forger/keys"}),
        json!({"x5c": ["MIIB"]}),
    ] {
        assert_eq!(why(&token(extra.clone()), &keys), "its signature is wrong", "{extra}");
    }
    for kid in ["../../dev/null", "a' OR 1=1", "a\u{0}", "A", ""] {
        assert!(why(&token(json!({ "kid": kid })), &keys).starts_with("unknown key"), "{kid}");
    }
    let long = why(&token(json!({"kid": "k\n".repeat(10_000)})), &keys);
    assert!(long.len() < 500 && !long.contains('\n'), "{long}");
    for (extra, part) in [
        (json!({"crit": ["exp"]}), "(crit)"),
        (json!({"crit": []}), "(crit)"),
        (json!({"zip": "DEF"}), "compressed"),
        (json!({"typ": "logout+jwt"}), "(typ)"),
    ] {
        assert!(why(&token(extra.clone()), &keys).contains(part), "{extra}");
    }
    for typ in ["JWT", "jwt", "at+jwt", "application/at+JWT"] {
        let header = json!({"alg": "ES256", "kid": "a", "typ": typ}).to_string();
        assert_eq!(why(&signer.raw("ES256", &header, &claims().to_string()), &keys), "it is valid", "{typ}");
    }
}

#[test]
fn a_token_without_a_keys_name_is_of_the_only_key_of_its_kind() {
    let signer = Signer::new("EdDSA");
    let token = signer.raw("EdDSA", r#"{"alg":"EdDSA"}"#, &claims().to_string());
    assert_eq!(why(&token, &set(&[signer.key("a"), Signer::new("ES256").key("b")])), "it is valid");
    let two = set(&[signer.key("a"), Signer::new("EdDSA").key("b")]);
    assert_eq!(why(&token, &two), "unknown key none of EdDSA");
}

#[test]
fn a_key_that_is_for_something_else_is_not_used_and_their_number_is_bounded() {
    let signer = Signer::new("ES256");
    for (name, value) in
        [("use", json!("enc")), ("key_ops", json!(["sign"])), ("alg", json!("ES384")), ("crv", json!("P-521"))]
    {
        let mut key = signer.key("a");
        key[name] = value;
        let other = Signer::new("EdDSA").key("b");
        assert!(why(&signer.sign("ES256", &claims()), &set(&[key, other])).starts_with("unknown key"), "{name}");
    }
    let many = json!({"keys": vec![signer.key("a"); MAX_KEYS + 1]}).to_string();
    assert!(IssuerKeys::parse(many.as_bytes()).is_err_and(|why| why.contains("more than 100")));
    for text in ["", "{}", "[]", r#"{"keys": {}}"#, r#"{"keys": []}"#, r#"{"keys": [7, "a", {"kty": "RSA"}]}"#] {
        assert!(IssuerKeys::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(set(&[signer.key("a"), json!({"kty": "new"})]).count(), 1);
}

#[test]
fn deep_and_huge_tokens_cost_no_more_than_their_length() {
    let signer = Signer::new("EdDSA");
    let keys = set(&[signer.key("a")]);
    let (deep, header) = ("[".repeat(40_000), r#"{"alg":"EdDSA","kid":"a"}"#);
    for claims in [
        format!("{{\"a\":{deep}"),
        format!("{{\"a\":{}{}}}", "{\"b\":".repeat(20_000), "}".repeat(20_000)),
        deep.clone(),
        format!("{{\"exp\":1e{}}}", "9".repeat(40_000)),
    ] {
        assert_ne!(why(&signer.raw("EdDSA", header, &claims), &keys), "it is valid");
    }
    assert_ne!(why(&signer.raw("EdDSA", &deep, "{}"), &keys), "it is valid");
    let mut wide = claims();
    (0..5000).for_each(|number| wide[format!("c{number}")] = json!(number));
    assert_eq!(why(&signer.sign("EdDSA", &wide), &keys), "it is valid");
    for text in [".".repeat(60_000), "a".repeat(60_000), "é".repeat(20_000)] {
        assert_ne!(why(&text, &keys), "it is valid");
    }
}

#[test]
fn no_error_has_a_part_of_the_token_but_printable_values() {
    let signer = Signer::new("EdDSA");
    let keys = set(&[signer.key("a")]);
    let found = why(&signer.sign("EdDSA", &with("iss", json!("https://\u{1b}[2J\nx"))), &keys);
    assert!(!found.contains(['\n', '\u{1b}']), "{found}");
    let found = why(&signer.raw("EdDSA", r#"{"alg":"hush"}"#, "{}"), &keys);
    assert_eq!(found, "its header: it is signed with an algorithm that is not known here");
    let found = why(&signer.raw("EdDSA", r#"{"alg":"EdDSA","kid":"a"}"#, r#"{"sub": hush}"#), &keys);
    assert_eq!(found, "its JSON can't be read");
}

#[test]
fn scopes_are_words_or_a_list_and_an_address_counts_if_it_is_verified() {
    let of = |claims: Value| serde_json::from_value::<Claims>(claims).unwrap();
    assert!(of(json!({"scope": "a b"})).has_scope("b") && of(json!({"scp": "a b"})).has_scope("a"));
    assert!(of(json!({"scp": ["a", "b c"]})).has_scope("b c"));
    for none in [json!({"scope": "ab"}), json!({"scope": {"a": 1}}), json!({"scp": [["a"]]}), json!({})] {
        assert!(!of(none.clone()).has_scope("a"), "{none}");
    }
    for (claim, verified) in [(json!(true), true), (json!("true"), true), (json!(false), false), (json!(1), false)] {
        assert_eq!(has_verified_email(json!({ "email_verified": claim }).as_object().unwrap()), verified);
    }
}

#[test]
fn a_token_is_tried_with_each_key_of_its_name() {
    let (old, new, none) = (Signer::new("ES256"), Signer::new("ES256"), Signer::new("ES256"));
    let keys = set(&[old.key("a"), new.key("a")]);
    for signer in [&old, &new] {
        assert_eq!(why(&signer.sign("ES256", &claims()), &keys), "it is valid");
    }
    assert_eq!(why(&none.sign("ES256", &claims()), &keys), "its signature is wrong");
    // Which of several has signed what names none is not guessed.
    let unnamed = new.raw("ES256", r#"{"alg":"ES256"}"#, &claims().to_string());
    assert_eq!(why(&unnamed, &keys), "unknown key none of ES256");
    assert_eq!(why(&unnamed, &set(&[new.key("a")])), "it is valid");
}
