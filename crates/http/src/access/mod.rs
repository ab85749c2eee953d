//! Access control of the control plane: accounts, sessions, tokens, and the check before each path.
//!
//! Without accounts every client is an admin, so only this machine may connect then. The role that a path needs is
//! listed with the path (`api`); this module finds out who sends a request. It reads the accounts anew for each
//! request: a reload that removes an account ends its sessions.

mod attempts;
mod secrets;
mod sessions;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use weir_admin::ConfigAccess;
use weir_config::{Account, Accounts, Oidc, WebRole};
use weir_monitor::lock;

use crate::error::ApiError;
use attempts::Attempts;
use secrets::is_password;
pub(crate) use secrets::{Digest, digest, is_same};
pub use secrets::{hash_password, hash_token, new_token};
use sessions::{Proof, ProviderProof, Sessions};

/// The cookie of a session, without and with TLS: the prefix `__Host-` lets only this host set the cookie.
const SESSION: &str = "weir_session";
const HOST_SESSION: &str = "__Host-weir_session";
/// The cookie of a login at the provider that has not come back.
const LOGIN: &str = "weir_login";
const HOST_LOGIN: &str = "__Host-weir_login";
/// The longest token of a provider that a session keeps, in bytes.
const LONGEST_ID_TOKEN: usize = 4096;
/// Passwords that are hashed at the same time: each takes a core, and 19 MiB until it is done.
const HASHING: usize = 1;
/// The longest name and password that are checked, in bytes.
const LONGEST_NAME: usize = 256;
const LONGEST_PASSWORD: usize = 1024;

/// What a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequiredRole {
    /// Nothing.
    Anyone,
    /// At least this role.
    Role(WebRole),
}

impl RequiredRole {
    /// Checks the role of `who`; an error says what is missing.
    pub fn admits(self, who: Option<&Identity>) -> Result<(), ApiError> {
        match (self, who) {
            (RequiredRole::Anyone, _) => Ok(()),
            (RequiredRole::Role(_), None) => Err(ApiError::LoginNeeded),
            (RequiredRole::Role(required), Some(found)) if found.role < required => Err(ApiError::NotAllowed(required)),
            (RequiredRole::Role(_), Some(_)) => Ok(()),
        }
    }
}

/// Who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The name of the user or of the token; none where no login is configured.
    pub name: Option<String>,
    /// The role.
    pub role: WebRole,
}

/// What a provider of single sign-on says of a user who has logged in there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginGrant {
    /// The name for the audit log.
    pub user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) id_token: String,
    /// The panel's address.
    pub(crate) home: String,
}

/// A session at a provider, which a logout may end too.
pub struct ProviderSession {
    /// The provider's token about the user.
    pub id_token: String,
    /// Where the browser is sent back to.
    pub home: String,
}

/// The role of the sender of a request, for what an answer may show; the least one if the request needs none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reader(pub WebRole);

impl Reader {
    /// Whether the reader may see queries of the configuration, which may hold secrets: only a reader who may change
    /// them.
    pub fn sees_queries(self) -> bool {
        self.0 >= WebRole::Admin
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Caller(pub SocketAddr);

/// The access rules; cheap to clone.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    config: Arc<dyn ConfigAccess>,
    /// Whether other machines may connect.
    exposed: bool,
    /// Whether connections are encrypted with TLS.
    secure: bool,
    sessions: Mutex<Sessions>,
    attempts: Mutex<Attempts>,
    hashing: Arc<Semaphore>,
}

impl Access {
    /// `exposed`: other machines reach it; `secure`: by TLS. The accounts are read for each request.
    pub fn new(config: Arc<dyn ConfigAccess>, exposed: bool, secure: bool) -> Access {
        let (sessions, attempts) = (Mutex::default(), Mutex::default());
        Access(Arc::new(Inner {
            config,
            exposed,
            secure,
            sessions,
            attempts,
            hashing: Arc::new(Semaphore::new(HASHING)),
        }))
    }

    /// Whether connections are encrypted with TLS.
    pub fn is_secure(&self) -> bool {
        self.0.secure
    }

    /// Whether no login is configured, so that every client may do everything.
    pub fn is_open(&self) -> bool {
        !self.0.exposed && self.0.config.accounts().is_empty()
    }

    /// The sender of a request; none without a valid session or token.
    pub fn who(&self, headers: &HeaderMap) -> Option<Identity> {
        let accounts = self.0.config.accounts();
        if !self.0.exposed && accounts.is_empty() {
            return Some(Identity { name: None, role: WebRole::Admin });
        }
        match headers.get(AUTHORIZATION) {
            Some(value) => by_token(&accounts, value),
            None => self.by_cookie(&accounts, headers),
        }
    }

    /// Logs a user in; returns the identity and the cookie to set. Hashing the password takes a while.
    pub async fn login(&self, from: IpAddr, user: String, password: String) -> Result<(Identity, String), ApiError> {
        if user.len() > LONGEST_NAME || password.len() > LONGEST_PASSWORD {
            return Err(ApiError::WrongPassword);
        }
        // Who must wait takes no place among those who wait for the hashing.
        lock(&self.0.attempts).check(from, &user, Instant::now()).map_err(ApiError::TooManyLogins)?;
        // The semaphore is never closed.
        let Ok(turn) = self.0.hashing.clone().acquire_owned().await else { return Err(ApiError::WrongPassword) };
        // Who gave up before its turn has tried nothing.
        let now = Instant::now();
        lock(&self.0.attempts).begin(from, &user, now).map_err(ApiError::TooManyLogins)?;
        let accounts = self.0.config.accounts();
        let account = accounts.users.get(&user).cloned();
        // An unknown user takes as long as a known one, also if all hashes were made with other parameters than ours.
        let like = accounts.users.values().next().map(|account| account.hash.clone());
        if !check_password(turn, password, account.as_ref(), like).await {
            return Err(ApiError::WrongPassword);
        }
        let Account { role, hash } = account.ok_or(ApiError::WrongPassword)?;
        lock(&self.0.attempts).succeed(from, &user);
        let cookie = new_token();
        lock(&self.0.sessions).begin(digest(&cookie), user.clone(), Proof::Password(hash), now);
        Ok((Identity { name: Some(user), role }, self.cookie(&cookie, sessions::LONGEST)))
    }

    /// The provider of single sign-on, as configured now.
    pub fn oidc(&self) -> Oidc {
        self.0.config.accounts().oidc.clone()
    }

    /// Whether users can log in with a password.
    pub fn has_passwords(&self) -> bool {
        !self.0.config.accounts().users.is_empty()
    }

    /// Counts an attempt to log in through the provider, by the browser with this secret.
    pub fn begin_attempt(&self, from: IpAddr, secret: Option<&str>) -> Result<(), ApiError> {
        let now = Instant::now();
        lock(&self.0.attempts).begin(from, &claim_of(secret), now).map_err(ApiError::TooManyLogins)
    }

    /// Logs in a user whom the provider knows; none without a role. Returns the identity and the cookie to set.
    pub fn login_through_provider(&self, oidc: &Oidc, grant: LoginGrant) -> Option<(Identity, String)> {
        let LoginGrant { user, mut groups, mut id_token, home } = grant;
        groups.retain(|group| oidc.lists(group));
        let role = oidc.role(groups.iter().map(String::as_str))?;
        if id_token.len() > LONGEST_ID_TOKEN {
            id_token.clear();
        }
        let (issuer, client_id) = (oidc.issuer.clone(), oidc.client_id.clone());
        let proof = Proof::Provider(Arc::new(ProviderProof { issuer, client_id, groups, id_token, home }));
        let cookie = new_token();
        lock(&self.0.sessions).begin(digest(&cookie), user.clone(), proof, Instant::now());
        Some((Identity { name: Some(user), role }, self.cookie(&cookie, sessions::LONGEST)))
    }

    /// Ends a session, if there is one; returns the cookie that replaces the session's, and the session at the
    /// provider.
    pub fn logout(&self, headers: &HeaderMap) -> (String, Option<ProviderSession>) {
        let ended =
            cookie_named(headers, self.cookie_name()).and_then(|cookie| lock(&self.0.sessions).end(&digest(cookie)));
        let there = match ended {
            Some(Proof::Provider(proof)) => {
                Some(ProviderSession { id_token: proof.id_token.clone(), home: proof.home.clone() })
            }
            _ => None,
        };
        (self.cookie("", Duration::ZERO), there)
    }

    /// The cookie of a login at the provider. The browser sends it when it comes back from there, which another site
    /// begins, so it can't be `Strict`.
    pub fn login_cookie(&self, value: &str, age: Duration) -> String {
        let (name, secure) = if self.0.secure { (HOST_LOGIN, "; Secure") } else { (LOGIN, "") };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}", age.as_secs())
    }

    /// The secret of the login at the provider that this browser has begun.
    pub fn login_secret<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        cookie_named(headers, if self.0.secure { HOST_LOGIN } else { LOGIN })
    }

    fn by_cookie(&self, accounts: &Accounts, headers: &HeaderMap) -> Option<Identity> {
        let cookie = digest(cookie_named(headers, self.cookie_name())?);
        let (user, proof) = lock(&self.0.sessions).find(&cookie, Instant::now())?;
        let role = match proof {
            Proof::Password(hash) => accounts.users.get(&user).filter(|account| account.hash == hash)?.role,
            Proof::Provider(proof) => {
                let oidc = &accounts.oidc;
                let same = (&oidc.issuer, &oidc.client_id) == (&proof.issuer, &proof.client_id);
                oidc.role(proof.groups.iter().map(String::as_str)).filter(|_| same)?
            }
        };
        Some(Identity { name: Some(user), role })
    }

    fn cookie_name(&self) -> &'static str {
        if self.0.secure { HOST_SESSION } else { SESSION }
    }

    fn cookie(&self, value: &str, age: Duration) -> String {
        let (name, secure) = (self.cookie_name(), if self.0.secure { "; Secure" } else { "" });
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", age.as_secs())
    }
}

/// Whether a request carries the cookie of a session.
pub(crate) fn has_session(headers: &HeaderMap) -> bool {
    [SESSION, HOST_SESSION].iter().any(|name| cookie_named(headers, name).is_some())
}

fn cookie_named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Whether a password is the account's. `turn` is the permit to hash.
async fn check_password(
    turn: OwnedSemaphorePermit,
    password: String,
    account: Option<&Account>,
    like: Option<String>,
) -> bool {
    let hash = account.map(|account| account.hash.clone());
    let hashed = spawn_blocking(move || {
        // The task holds the permit: it continues when the client has closed its connection.
        let _turn = turn;
        is_password(&password, hash.as_deref(), like.as_deref())
    });
    hashed.await.unwrap_or(false)
}

/// What attempts of a browser at the provider are counted by. No user's name begins so: it is longer than one may be.
fn claim_of(secret: Option<&str>) -> String {
    format!("{}{}", "/".repeat(LONGEST_NAME + 1), secret.unwrap_or_default())
}

/// Compares hashes, so the time that this takes reveals nothing of a token.
fn by_token(accounts: &Accounts, value: &HeaderValue) -> Option<Identity> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let hash = hash_token(token.trim());
    // Compares with all of them, so that the time does not tell which one matched.
    let found =
        accounts.tokens.iter().fold(None, |found, one| if is_same(&one.1.hash, &hash) { Some(one) } else { found });
    let (name, account) = found?;
    Some(Identity { name: Some(name.clone()), role: account.role })
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tokio::runtime::Builder;

    use super::*;

    /// A file with one account, whose password takes a second to hash.
    struct Slow(Arc<Accounts>);

    impl ConfigAccess for Slow {
        fn accounts(&self) -> Arc<Accounts> {
            self.0.clone()
        }
    }

    #[test]
    fn a_password_that_nobody_waits_for_any_more_keeps_its_turn_until_it_is_hashed() {
        let hash = "$argon2id$v=19$m=19456,t=15,p=1$c2FsdHNhbHQ$HDQwlG4hF0gFPKEYNRBbUiRBKPnfB3LXVeLTTGSgLsw".to_owned();
        let account = Account { role: WebRole::Admin, hash };
        let accounts = Accounts { users: [("ann".to_owned(), account)].into(), ..Accounts::default() };
        let access = Access::new(Arc::new(Slow(Arc::new(accounts))), false, false);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let log_in = |user: &str| access.login(IpAddr::from([127, 0, 0, 1]), user.to_owned(), "guess".to_owned());
        for user in ["ann", "nobody"] {
            assert_eq!(access.0.hashing.available_permits(), HASHING);
            let mut login = Box::pin(log_in(user));
            assert!(login.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(login);
            assert_eq!(access.0.hashing.available_permits(), 0, "{user}: its hash is still made");
            // The next one waits for the permit.
            assert!(matches!(runtime.block_on(log_in("ann")), Err(ApiError::WrongPassword)));
        }
    }
}
