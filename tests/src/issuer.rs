//! An issuer of tokens on the loopback: its metadata and keys by HTTP, and tokens that it signs.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};

/// See the head of the file. It answers until the process ends.
#[derive(Clone, Debug)]
pub struct TokenIssuer(Arc<State>);

#[derive(Debug)]
struct State {
    port: u16,
    /// The keys that it publishes, with their names; the last one signs.
    keys: Mutex<Vec<(String, KeyPair)>>,
    is_away: AtomicBool,
    fetches: AtomicU32,
}

impl TokenIssuer {
    /// Begins to answer.
    ///
    /// # Panics
    /// There is no free port, or no randomness for a key; the other functions here panic then too.
    #[allow(clippy::new_without_default)]
    pub fn start() -> TokenIssuer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (is_away, fetches) = (AtomicBool::new(false), AtomicU32::new(0));
        let issuer = TokenIssuer(Arc::new(State { port, keys: Mutex::new(vec![new_key("first")]), is_away, fetches }));
        let answers = issuer.clone();
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answers.answer(stream))));
        issuer
    }

    /// Its name.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/realm", self.0.port)
    }

    /// The options of a rule that accepts its tokens.
    pub fn options(&self) -> String {
        format!("issuer=\"{}\" scope=\"openid db\" audience=weir", self.url())
    }

    /// It signs with another key from here on, with this name.
    pub fn rotate(&self, name: &str) {
        self.keys().push(new_key(name));
    }

    fn keys(&self) -> MutexGuard<'_, Vec<(String, KeyPair)>> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it closes connections without an answer.
    pub fn go_away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Ordering::Relaxed);
    }

    /// How often its keys were fetched.
    pub fn fetches(&self) -> u32 {
        self.0.fetches.load(Ordering::Relaxed)
    }

    /// A token for this user.
    pub fn token(&self, user: &str) -> String {
        self.token_with(user, "scope", json!("openid db"))
    }

    /// A token for this user with a claim of another value.
    pub fn token_with(&self, user: &str, claim: &str, value: Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
        let mut claims = json!({
            "iss": self.url(), "aud": "weir", "sub": user, "iat": now, "exp": now + 600, "scope": "openid db",
        });
        claims[claim] = value;
        let keys = self.keys();
        let (name, pair) = keys.last().expect("a key");
        let message =
            format!("{}.{}", coded(json!({"alg": "EdDSA", "kid": name}).to_string()), coded(claims.to_string()));
        format!("{message}.{}", coded(pair.sign(message.as_bytes()).expect("it signs")))
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let head: Vec<String> =
            BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        if self.0.is_away.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (status, body) = match path {
            "/realm/.well-known/openid-configuration" => {
                (200, json!({"issuer": self.url(), "jwks_uri": format!("http://127.0.0.1:{}/keys", self.0.port)}))
            }
            "/keys" => {
                self.0.fetches.fetch_add(1, Ordering::Relaxed);
                let keys = self.keys();
                let published = keys.iter().map(|(name, pair)| {
                    json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": coded(pair.public_key_raw())})
                });
                (200, json!({"keys": published.collect::<Vec<_>>()}))
            }
            _ => (404, json!({})),
        };
        let body = body.to_string();
        write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    }
}

fn new_key(name: &str) -> (String, KeyPair) {
    (name.to_owned(), KeyPair::generate_for(&PKCS_ED25519).expect("a key"))
}

fn coded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
