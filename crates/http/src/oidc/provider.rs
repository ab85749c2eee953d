//! What is known of the provider, and requests to it: its metadata (OpenID Connect Discovery 1.0), its keys, the
//! exchange of a code, and the user's claims.
//!
//! Requests run on threads for blocking work, a few at a time, and each has a timeout; other requests of the control
//! plane go on. Metadata and keys are kept for an hour; after a failure the next request waits a few seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use weir_auth::is_safe_endpoint;
use weir_config::Oidc;
use weir_jwt::IssuerKeys;
use weir_monitor::{HttpAnswer, HttpRequest, SendHttp, resolve};

use super::error::SsoError;

/// How long metadata and keys are used.
const FRESH: Duration = Duration::from_secs(3600);
/// How long a failure to get metadata is remembered.
const PAUSE: Duration = Duration::from_secs(3);
/// Requests to the provider at the same time.
const AT_ONCE: usize = 4;

/// The provider's metadata, as far as it is used.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    pub(super) end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The provider; cheap to clone.
#[derive(Clone)]
pub(super) struct Provider(Arc<Inner>);

struct Inner {
    send: SendHttp,
    turns: Semaphore,
    known: Mutex<Option<Known>>,
    failed: Mutex<Option<(Instant, SsoError)>>,
}

#[derive(Clone)]
struct Known {
    metadata: Arc<Metadata>,
    keys: Arc<IssuerKeys>,
    since: Instant,
}

/// The answer to the exchange of a code.
#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) id_token: String,
    access_token: Option<String>,
}

/// An error of the token endpoint (RFC 6749, section 5.2).
#[derive(Deserialize)]
struct Problem {
    error: String,
}

fn provider(why: impl Into<String>) -> SsoError {
    SsoError::Provider(why.into())
}

impl Provider {
    pub(super) fn new(send: SendHttp) -> Provider {
        let turns = Semaphore::new(AT_ONCE);
        Provider(Arc::new(Inner { send, turns, known: Mutex::default(), failed: Mutex::default() }))
    }

    /// The metadata and the keys; `newer`: keys that were fetched after this call.
    pub(super) async fn known(&self, oidc: &Oidc, newer: bool) -> Result<(Arc<Metadata>, Arc<IssuerKeys>), SsoError> {
        let issuer = oidc.issuer.as_deref().ok_or(SsoError::Off)?;
        // One caller fetches, the others wait for it.
        let mut known = self.0.known.lock().await;
        let usable = known.as_ref().filter(|known| known.metadata.issuer == issuer && known.since.elapsed() < FRESH);
        if let Some(found) = usable.filter(|_| !newer) {
            return Ok((found.metadata.clone(), found.keys.clone()));
        }
        let mut failed = self.0.failed.lock().await;
        if let Some((at, error)) = failed.take().filter(|(at, _)| at.elapsed() < PAUSE) {
            *failed = Some((at, error.clone()));
            return Err(error);
        }
        match self.fetch(oidc, issuer).await {
            Ok(fetched) => {
                let found = (fetched.metadata.clone(), fetched.keys.clone());
                *known = Some(fetched);
                Ok(found)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn fetch(&self, oidc: &Oidc, issuer: &str) -> Result<Known, SsoError> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: Metadata = self.json(oidc, HttpRequest::get(&url), "its metadata").await?;
        if metadata.issuer != issuer {
            return Err(provider(format!(
                "its metadata has the issuer {:?}, [web.oidc] has {issuer:?}",
                metadata.issuer
            )));
        }
        let (needed, optional) = (
            [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri],
            [&metadata.userinfo_endpoint, &metadata.end_session_endpoint],
        );
        let unsafe_url = needed.into_iter().chain(optional.into_iter().flatten()).find(|url| !is_safe_endpoint(url));
        if let Some(url) = unsafe_url {
            return Err(provider(format!("its metadata has an address that is not encrypted: {url:?}")));
        }
        let keys = self.body(oidc, HttpRequest::get(&metadata.jwks_uri), "its keys").await?;
        let keys = IssuerKeys::parse(&keys).map_err(|why| provider(format!("its keys: {}", brief(&why))))?;
        Ok(Known { metadata: Arc::new(metadata), keys: Arc::new(keys), since: Instant::now() })
    }

    /// Exchanges a code for tokens.
    pub(super) async fn exchange(
        &self,
        oidc: &Oidc,
        metadata: &Metadata,
        (code, verifier, redirect_url): (&str, &str, &str),
    ) -> Result<Tokens, SsoError> {
        let client_id = oidc.client_id.as_deref().unwrap_or_default();
        let secret = oidc.client_secret.as_deref().map(resolve).transpose();
        let secret = secret.map_err(|why| provider(format!("client_secret: {why}")))?;
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
        let basic = methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"));
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_url),
            ("code_verifier", verifier),
        ];
        let mut authorization = None;
        match &secret {
            Some(secret) if basic => authorization = Some(basic_of(client_id, secret)),
            Some(secret) => form.extend([("client_id", client_id), ("client_secret", secret)]),
            None => form.push(("client_id", client_id)),
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish().into_bytes();
        let mut request = HttpRequest::post(&metadata.token_endpoint, "application/x-www-form-urlencoded", body);
        request.headers.extend(authorization.map(|value| ("Authorization".to_owned(), value)));
        let answer = self.call(oidc, request).await?;
        if answer.status == 200 {
            return serde_json::from_slice(&answer.body).map_err(|error| provider(format!("its tokens: {error}")));
        }
        match serde_json::from_slice::<Problem>(&answer.body) {
            Ok(problem) => Err(SsoError::Refused(format!("{} at the exchange of the code", brief(&problem.error)))),
            Err(_) => Err(provider(format!("the answer to the exchange of the code was {}", answer.status))),
        }
    }

    /// The user's claims that are not in the identity token; none if the provider has no address for them.
    pub(super) async fn user_info(
        &self,
        oidc: &Oidc,
        metadata: &Metadata,
        tokens: &Tokens,
    ) -> Result<Map<String, Value>, SsoError> {
        let (Some(url), Some(token)) = (&metadata.userinfo_endpoint, &tokens.access_token) else {
            return Ok(Map::new());
        };
        let mut request = HttpRequest::get(url);
        request.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        self.json(oidc, request, "the user's claims").await
    }

    async fn json<T: DeserializeOwned>(&self, oidc: &Oidc, request: HttpRequest, what: &str) -> Result<T, SsoError> {
        let body = self.body(oidc, request, what).await?;
        serde_json::from_slice(&body).map_err(|error| provider(format!("{what}: {error}")))
    }

    async fn body(&self, oidc: &Oidc, mut request: HttpRequest, what: &str) -> Result<Vec<u8>, SsoError> {
        request.headers.push(("Accept".to_owned(), "application/json".to_owned()));
        let answer = self.call(oidc, request).await?;
        if answer.status != 200 {
            return Err(provider(format!("{what}: the answer was {}", answer.status)));
        }
        Ok(answer.body)
    }

    async fn call(&self, oidc: &Oidc, mut request: HttpRequest) -> Result<HttpAnswer, SsoError> {
        request.ca_file.clone_from(&oidc.ca_file);
        // A proxy would see, and could change, what is not encrypted.
        request.is_direct = !request.url.starts_with("https:");
        let ended = || provider("the process ends");
        // A caller that has gone leaves its request under way, which counts until it ends.
        let inner = self.0.clone();
        let work = async move {
            let _turn = inner.turns.acquire().await.map_err(|_| ended())?;
            let send = inner.send.clone();
            spawn_blocking(move || send(&request)).await.map_err(|_| ended())?.map_err(|why| provider(brief(&why)))
        };
        tokio::spawn(work).await.map_err(|_| ended())?
    }
}

/// The client's name and secret in a header (RFC 6749, section 2.3.1).
fn basic_of(client_id: &str, secret: &str) -> String {
    let coded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", coded(client_id), coded(secret))))
}

/// The first line of another program's text, cut.
pub(super) fn brief(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect()
}
