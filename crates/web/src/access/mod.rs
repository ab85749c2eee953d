//! Who may do what at the control plane: accounts, sessions, tokens, and the check that stands before each path.
//!
//! Without accounts everybody who can connect is an admin, which is why nobody but this machine may connect then. What a
//! path needs stands with the path (`api`); here is decided who asks. Accounts are looked at anew with each request: a
//! reload that takes one away ends its sessions.

mod attempts;
mod secrets;
mod sessions;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use weir_admin::Book;
use weir_config::{Account, Accounts, WebRole};

use crate::error::ApiError;
use crate::lock::lock;
use attempts::Attempts;
use secrets::{digest, is_password};
pub use secrets::{hash_password, hash_token, new_token};
use sessions::Sessions;

/// The cookie of a session.
const SESSION: &str = "weir_session";
/// Passwords that are hashed at once: it takes a core and 19 MiB each.
const HASHING: usize = 1;
/// The longest name and password that are looked at.
const LONGEST_NAME: usize = 256;
const LONGEST_PASSWORD: usize = 1024;

/// What a request needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Least {
    /// Nothing.
    Anyone,
    /// At least this role.
    Role(WebRole),
}

impl Least {
    /// Lets whoever asks pass, or says why not.
    pub(crate) fn admits(self, who: Option<&Who>) -> Result<(), ApiError> {
        match (self, who) {
            (Least::Anyone, _) => Ok(()),
            (Least::Role(_), None) => Err(ApiError::LoginNeeded),
            (Least::Role(least), Some(found)) if found.role < least => Err(ApiError::NotAllowed(least)),
            (Least::Role(_), Some(_)) => Ok(()),
        }
    }
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    /// The user's name, or the token's; none where nobody logs in.
    pub(crate) name: Option<String>,
    pub(crate) role: WebRole,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) SocketAddr);

/// Who may do what; cheap to clone.
#[derive(Clone)]
pub(crate) struct Access(Arc<Inner>);

struct Inner {
    book: Arc<dyn Book>,
    /// Whether others than this machine may connect.
    exposed: bool,
    /// Whether connections are encrypted.
    secure: bool,
    sessions: Mutex<Sessions>,
    attempts: Mutex<Attempts>,
    hashing: Semaphore,
}

impl Access {
    pub(crate) fn new(book: Arc<dyn Book>, exposed: bool, secure: bool) -> Access {
        let (sessions, attempts) = (Mutex::default(), Mutex::default());
        Access(Arc::new(Inner { book, exposed, secure, sessions, attempts, hashing: Semaphore::new(HASHING) }))
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.secure
    }

    /// Whether everybody who can connect may do everything.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.exposed && self.0.book.accounts().is_empty()
    }

    /// Who asks; nobody, if there is no login that holds.
    pub(crate) fn who(&self, headers: &HeaderMap) -> Option<Who> {
        let accounts = self.0.book.accounts();
        if !self.0.exposed && accounts.is_empty() {
            return Some(Who { name: None, role: WebRole::Admin });
        }
        match headers.get(AUTHORIZATION) {
            Some(value) => by_token(&accounts, value),
            None => self.by_cookie(&accounts, headers),
        }
    }

    /// Logs somebody in; returns who, and the cookie to set.
    pub(crate) async fn login(&self, from: IpAddr, user: String, password: String) -> Result<(Who, String), ApiError> {
        if user.len() > LONGEST_NAME || password.len() > LONGEST_PASSWORD {
            return Err(ApiError::WrongPassword);
        }
        let now = Instant::now();
        lock(&self.0.attempts).begin(from, &user, now).map_err(ApiError::TooManyLogins)?;
        let account = self.0.book.accounts().users.get(&user).cloned();
        if !self.is_password(password, account.as_ref()).await {
            return Err(ApiError::WrongPassword);
        }
        let Account { role, hash } = account.ok_or(ApiError::WrongPassword)?;
        lock(&self.0.attempts).succeed(from, &user);
        let cookie = new_token();
        lock(&self.0.sessions).begin(digest(&cookie), user.clone(), hash, now);
        Ok((Who { name: Some(user), role }, self.cookie(&cookie, sessions::LONGEST)))
    }

    /// Ends a session, if there is one; returns the cookie that replaces its.
    pub(crate) fn logout(&self, headers: &HeaderMap) -> String {
        if let Some(cookie) = session_cookie(headers) {
            lock(&self.0.sessions).end(&digest(cookie));
        }
        self.cookie("", Duration::ZERO)
    }

    async fn is_password(&self, password: String, account: Option<&Account>) -> bool {
        let hash = account.map(|account| account.hash.clone());
        // The semaphore is never closed.
        let Ok(_turn) = self.0.hashing.acquire().await else { return false };
        spawn_blocking(move || is_password(&password, hash.as_deref())).await.unwrap_or(false)
    }

    fn by_cookie(&self, accounts: &Accounts, headers: &HeaderMap) -> Option<Who> {
        let cookie = digest(session_cookie(headers)?);
        let (user, hash) = lock(&self.0.sessions).find(&cookie, Instant::now())?;
        let account = accounts.users.get(&user).filter(|account| account.hash == hash)?;
        Some(Who { name: Some(user), role: account.role })
    }

    fn cookie(&self, value: &str, age: Duration) -> String {
        let secure = if self.0.secure { "; Secure" } else { "" };
        format!("{SESSION}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", age.as_secs())
    }
}

/// Whether a request says that it belongs to a session.
pub(crate) fn has_session(headers: &HeaderMap) -> bool {
    session_cookie(headers).is_some()
}

fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = cookies.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == SESSION).map(|(_, value)| value)
}

/// Hashes are compared: how long that takes tells nothing of a token.
fn by_token(accounts: &Accounts, value: &HeaderValue) -> Option<Who> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let hash = hash_token(token.trim());
    let (name, account) = accounts.tokens.iter().find(|(_, account)| account.hash == hash)?;
    Some(Who { name: Some(name.clone()), role: account.role })
}
