//! An issuer that answers, changes its keys, and is away; and logins with its tokens.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar};
use std::thread;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use weir_fetch::HttpAnswer;

use super::*;

const ISSUER: &str = "https://idp/a";

/// What the issuer publishes, and how often it was asked for its keys.
struct Idp {
    pairs: Mutex<Vec<(String, Ed25519KeyPair)>>,
    fetches: AtomicUsize,
    is_away: AtomicBool,
    metadata: Mutex<Value>,
    /// Whether answers are held back.
    held: (Mutex<bool>, Condvar),
}

impl Idp {
    fn new() -> Arc<Idp> {
        let idp = Idp {
            pairs: Mutex::default(),
            fetches: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
            metadata: Mutex::new(json!({"issuer": ISSUER, "jwks_uri": "https://idp/keys?v=1"})),
            held: (Mutex::new(false), Condvar::new()),
        };
        idp.rotate("a");
        Arc::new(idp)
    }

    fn rotate(&self, id: &str) {
        *lock(&self.pairs) = vec![(id.to_owned(), Ed25519KeyPair::generate().unwrap())];
    }

    fn answer(&self, url: &str) -> Result<HttpAnswer, String> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err("connection refused".to_owned());
        }
        let body = match url {
            "https://idp/a/.well-known/openid-configuration" => lock(&self.metadata).clone(),
            "https://idp/keys?v=1" | "http://127.0.0.1/keys" => {
                self.fetches.fetch_add(1, Ordering::Relaxed);
                let (held, changed) = &self.held;
                drop(changed.wait_while(lock(held), |held| *held).unwrap());
                let pairs = lock(&self.pairs);
                let keys = pairs.iter().map(|(id, pair)| {
                    json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": coded(pair.public_key().as_ref())})
                });
                json!({ "keys": keys.collect::<Vec<_>>() })
            }
            _ => return Ok(HttpAnswer { status: 404, body: Vec::new() }),
        };
        Ok(HttpAnswer { status: 200, body: body.to_string().into_bytes() })
    }

    fn hold(&self, held: bool) {
        *lock(&self.held.0) = held;
        self.held.1.notify_all();
    }

    fn token(&self, claims: &Value) -> String {
        let pairs = lock(&self.pairs);
        let (id, pair) = &pairs[0];
        signed(id, pair, claims)
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::Relaxed)
    }
}

fn signed(id: &str, pair: &Ed25519KeyPair, claims: &Value) -> String {
    let message = format!("{}.{}", coded(json!({"alg": "EdDSA", "kid": id}).to_string()), coded(claims.to_string()));
    format!("{message}.{}", coded(pair.sign(message.as_bytes())))
}

fn coded(bytes: impl AsRef<[u8]>) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = bytes.as_ref().chunks(3).flat_map(|part| {
        let word = part.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        (0..=part.len()).map(move |at| char::from(SIGNS[(word >> (18 - 6 * at) & 63) as usize]))
    });
    bits.collect()
}

/// Issuers with a clock that is set by hand.
struct Stage {
    idp: Arc<Idp>,
    issuers: Issuers,
    now: Arc<Mutex<ClockReading>>,
    oauth: Arc<Oauth>,
}

impl Stage {
    fn new(more: &str) -> Stage {
        let (idp, now) = (Idp::new(), Arc::new(Mutex::new(ClockReading::now())));
        let (answers, clock) = (idp.clone(), now.clone());
        let send: SendHttp = Arc::new(move |request| {
            assert_eq!((request.longest, request.timeout <= LIMIT), (LONGEST, true));
            assert_eq!(
                request.is_direct,
                request.url.starts_with("http:"),
                "a proxy sees nothing that it could change"
            );
            answers.answer(&request.url)
        });
        let oauth = Oauth::parse(&format!("issuer={ISSUER} scope=\"openid db\" audience=weir {more}")).unwrap();
        Stage { idp, issuers: Issuers::new(send, move || *lock(&clock)), now, oauth }
    }

    fn pass(&self, seconds: u64) {
        let mut now = lock(&self.now);
        *now = now.after(Duration::from_secs(seconds));
    }

    fn seconds(&self) -> u64 {
        lock(&self.now).seconds()
    }

    fn claims(&self) -> Value {
        let now = self.seconds();
        json!({
            "iss": ISSUER, "aud": "weir", "sub": "ann", "iat": now, "exp": now + 300, "scope": "db openid",
            "email": "ann@example.com", "email_verified": true,
        })
    }

    fn check(&self, token: &str) -> Result<Proof, String> {
        self.issuers.check(&self.oauth, token, Duration::from_secs(30))
    }

    /// The name that a token proves, or why it proves none.
    fn name(&self, token: &str) -> String {
        self.check(token).map_or_else(|why| why, |proof| proof.name.unwrap().to_string())
    }

    fn log_in(&self) -> String {
        self.name(&self.idp.token(&self.claims()))
    }

    /// So many clients with one token, which lets each of them in.
    fn log_in_at_once(&self, clients: usize) {
        let (token, begin) = (self.idp.token(&self.claims()), Barrier::new(clients));
        thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    begin.wait();
                    assert_eq!(self.name(&token), "ann");
                });
            }
        });
    }
}

#[test]
fn a_token_names_its_user_by_the_claim_that_is_configured() {
    assert_eq!(Stage::new("").log_in(), "ann");
    assert_eq!(Stage::new("claim=email").log_in(), "ann@example.com");
    assert_eq!(Stage::new("claim=preferred_username").log_in(), "the token names no user (preferred_username)");
    for (stage, name, value, part) in [
        (Stage::new("claim=email"), "email_verified", json!(false), "not verified"),
        (Stage::new(""), "sub", json!(7), "names no user (sub)"),
        (Stage::new(""), "sub", json!(""), "names no user (sub)"),
        (Stage::new(""), "sub", json!("a".repeat(LONGEST_NAME + 1)), "too long"),
        (Stage::new(""), "scope", json!("openid"), "lacks the scope db"),
        (Stage::new(""), "scope", Value::Null, "lacks the scope openid"),
        (Stage::new(""), "aud", json!("other"), "another audience (aud)"),
        (Stage::new(""), "iss", json!("https://idp/b"), "another issuer (iss)"),
        (Stage::new(""), "exp", json!(1), "expired"),
        (Stage::new(""), "nbf", json!(u32::MAX), "not valid yet"),
    ] {
        let mut claims = stage.claims();
        claims[name] = value;
        let found = stage.name(&stage.idp.token(&claims));
        assert!(found.contains(part), "{name}: {found}");
    }
}

#[test]
fn keys_of_this_machine_are_fetched_past_any_proxy() {
    let stage = Stage::new("");
    *lock(&stage.idp.metadata) = json!({"issuer": ISSUER, "jwks_uri": "http://127.0.0.1/keys"});
    assert_eq!(stage.log_in(), "ann");
}

#[test]
fn a_new_key_under_the_same_name_is_fetched() {
    let stage = Stage::new("");
    assert_eq!(stage.log_in(), "ann");
    stage.idp.rotate("a");
    assert_eq!((stage.log_in(), stage.idp.fetches()), ("ann".to_owned(), 2));
    // A signature that is wrong is no reason to fetch again and again.
    let forged = signed("a", &Ed25519KeyPair::generate().unwrap(), &stage.claims());
    let found = [stage.name(&forged), stage.name(&forged)];
    assert!(found.iter().all(|why| why.contains("signature is wrong")) && stage.idp.fetches() == 2, "{found:?}");
}

#[test]
fn many_logins_at_once_fetch_the_keys_once() {
    let stage = Stage::new("");
    stage.log_in_at_once(100);
    assert_eq!(stage.idp.fetches(), 1);
}

#[test]
fn a_token_of_a_new_key_makes_the_keys_be_fetched_once_for_all_that_wait() {
    let stage = Stage::new("");
    let old = stage.idp.token(&stage.claims());
    assert_eq!(stage.name(&old), "ann");
    stage.idp.rotate("b");
    stage.log_in_at_once(50);
    assert_eq!(stage.idp.fetches(), 2);
    assert!(stage.name(&old).contains("a key that its issuer does not have: \"a\" of EdDSA"), "{}", stage.name(&old));
    assert_eq!(stage.idp.fetches(), 2, "there is a pause");
}

#[test]
fn tokens_of_invented_keys_make_the_keys_be_fetched_once_in_a_pause() {
    let stage = Stage::new("");
    let forger = Ed25519KeyPair::generate().unwrap();
    for round in 0..3 {
        for number in 0..100 {
            let why = stage.name(&signed(&format!("k{number}"), &forger, &stage.claims()));
            assert!(why.contains("does not have"), "{why}");
        }
        assert_eq!((stage.idp.fetches(), &*stage.log_in()), (2 + round, "ann"));
        stage.pass(PAUSE.as_secs());
    }
}

#[test]
fn while_the_issuer_is_away_its_last_keys_count_for_a_day() {
    let stage = Stage::new("");
    assert_eq!(stage.log_in(), "ann");
    stage.idp.is_away.store(true, Ordering::Relaxed);
    stage.pass(FRESH.as_secs());
    let token = stage.idp.token(&stage.claims());
    let overdue = stage.check(&token).unwrap().overdue.unwrap();
    assert!(overdue.contains("could not be fetched") && overdue.contains("connection refused"), "{overdue}");
    assert_eq!(stage.check(&token).unwrap().overdue, None, "it is not tried again at once");
    stage.pass(COUNT.as_secs() - FRESH.as_secs() - 1);
    assert_eq!(stage.log_in(), "ann");
    stage.pass(1);
    assert!(stage.log_in().contains("connection refused"));
    stage.idp.is_away.store(false, Ordering::Relaxed);
    stage.pass(RETRY.as_secs());
    assert_eq!(stage.log_in(), "ann");
}

#[test]
fn an_issuer_that_is_away_from_the_start_is_tried_again_after_a_pause() {
    let stage = Stage::new("");
    stage.idp.is_away.store(true, Ordering::Relaxed);
    assert!(stage.log_in().contains("connection refused"));
    stage.idp.is_away.store(false, Ordering::Relaxed);
    assert!(stage.log_in().contains("connection refused"), "it is not tried again at once");
    stage.pass(RETRY.as_secs());
    assert_eq!(stage.log_in(), "ann");
}

#[test]
fn a_fetch_that_hangs_delays_no_login_whose_key_is_known() {
    let stage = Stage::new("");
    assert_eq!(stage.log_in(), "ann");
    stage.pass(FRESH.as_secs());
    stage.idp.hold(true);
    thread::scope(|scope| {
        let first = scope.spawn(|| stage.log_in());
        // The other one has begun to fetch.
        while stage.idp.fetches() < 2 {
            thread::yield_now();
        }
        assert_eq!(stage.log_in(), "ann", "with the keys that there are");
        assert!(!first.is_finished());
        stage.idp.hold(false);
        assert_eq!(first.join().unwrap(), "ann");
    });
}

#[test]
fn after_a_jump_of_the_calendars_clock_the_keys_are_fetched_again_and_times_are_judged_by_it() {
    let stage = Stage::new("");
    let token = stage.idp.token(&stage.claims());
    assert_eq!(stage.name(&token), "ann");
    lock(&stage.now).calendar += Duration::from_secs(3600);
    assert!(stage.name(&token).contains("expired"));
    assert_eq!(stage.idp.fetches(), 2);
    lock(&stage.now).calendar -= Duration::from_secs(2 * 3600);
    assert!(stage.name(&token).contains("not valid yet"));
    // A clock before 1970 is one, too.
    lock(&stage.now).calendar = std::time::UNIX_EPOCH - Duration::from_secs(1);
    assert!(stage.name(&token).contains("not valid yet"));
    lock(&stage.now).calendar = std::time::SystemTime::now();
    assert_eq!(stage.log_in(), "ann");
}

#[test]
fn metadata_that_another_issuer_could_have_written_is_not_used() {
    for (metadata, part) in [
        (json!({"issuer": "https://idp/b", "jwks_uri": "https://idp/keys?v=1"}), "has the issuer \"https://idp/b\""),
        (json!({"issuer": ISSUER, "jwks_uri": "http://idp/keys"}), "not encrypted"),
        (json!({"issuer": ISSUER, "jwks_uri": "https://idp/none"}), "https://idp/none answered 404"),
        (json!({"issuer": ISSUER}), "jwks_uri"),
        (json!([]), "its metadata"),
    ] {
        let stage = Stage::new("");
        *lock(&stage.idp.metadata) = metadata.clone();
        let why = stage.log_in();
        assert!(why.contains(part) && why.contains("could not be fetched"), "{metadata}: {why}");
    }
}

#[test]
fn what_is_remembered_of_issuers_is_bounded() {
    let stage = Stage::new("");
    for number in 0..3 * MOST {
        let oauth = Oauth::parse(&format!("issuer=https://h{number} scope=a audience=b")).unwrap();
        stage.issuers.issuer(&oauth);
    }
    assert!(lock(&stage.issuers.all).len() <= MOST);
}
