//! Tokens of clients (OAUTHBEARER): the keys of their issuers, and whether a token is good for a login. The rules of tokens
//! are `weir-jwt`'s.
//!
//! Owns the keys of issuers. They are fetched when the first login needs them, by one thread at a time, and again when they
//! are an hour old. A token that names an unknown key makes them be fetched too, which anybody can cause, so that has a
//! pause. While the issuer is away the keys that there are count for a day: tokens end sooner.
//!
//! Bounds: [`MOST`] issuers, whose keys have at most [`LONGEST`] bytes; a fetch takes [`LIMIT`] at most.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use serde::Deserialize;
use weir_auth::{Oauth, is_safe_endpoint};
use weir_base::{Printable, prefix};
use weir_config::Config;
use weir_engine::port::Proof;
use weir_fetch::{HttpRequest, SendHttp, sender};
use weir_jwt::{Expected, Invalid, IssuerKeys, has_verified_email, verify};
use weir_tokens::ClockReading;

/// Keys that are older are fetched again, while they count.
const FRESH: Duration = Duration::from_secs(3600);
/// Keys that are older do not count.
const COUNT: Duration = Duration::from_secs(24 * 3600);
/// The pause between two fetches because of unknown keys, and after one that failed while there are keys.
const PAUSE: Duration = Duration::from_secs(10);
/// The pause after a fetch that failed while there are no keys.
const RETRY: Duration = Duration::from_secs(2);
/// How long a fetch may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long a fetch may take because of an unknown key.
const SEEK_LIMIT: Duration = Duration::from_secs(2);
/// The longest metadata, and the longest set of keys, in bytes.
const LONGEST: u64 = 256 << 10;
/// Issuers that are remembered; a reload may replace one.
const MOST: usize = 100;
/// The longest name in a token, in bytes.
const LONGEST_NAME: usize = 1000;
/// The most bytes of an issuer's text that an error shows.
const SHOWN: usize = 200;

static ISSUERS: LazyLock<Issuers> = LazyLock::new(|| Issuers::new(sender(), ClockReading::now));

type Clock = Box<dyn Fn() -> ClockReading + Send + Sync>;

/// Where keys come from, and whose they are.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    issuer: String,
    metadata_url: String,
    ca_file: Option<PathBuf>,
}

impl Place {
    fn of(oauth: &Oauth) -> Place {
        let Oauth { issuer, metadata_url, ca_file, .. } = oauth.clone();
        Place { issuer, metadata_url, ca_file }
    }
}

/// The issuers of a process.
struct Issuers {
    send: SendHttp,
    clock: Clock,
    all: Mutex<HashMap<Place, Arc<Issuer>>>,
}

#[derive(Default)]
struct Issuer {
    kept: Mutex<Kept>,
    /// Held by who fetches.
    fetching: Mutex<()>,
}

#[derive(Clone, Default)]
struct Kept {
    keys: Option<(Arc<IssuerKeys>, ClockReading)>,
    /// When the last fetch failed, and why; none after one that has not.
    failed: Option<(ClockReading, String)>,
    /// When an unknown key was the reason to fetch.
    sought: Option<ClockReading>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Whether a token is good for a login: whom it names.
///
/// # Errors
/// A line for the log: why it is not, or could not be checked.
pub(super) fn check(oauth: &Oauth, token: &str, limit: Duration) -> Result<Proof, String> {
    ISSUERS.check(oauth, token, limit)
}

/// Fetches the keys of each issuer of a configuration; returns what failed, with the line of the HBA file that names the
/// issuer, if one does.
pub fn check_issuers(config: &Config) -> Vec<(Option<usize>, String)> {
    let rules = config.auth.hba.iter().flat_map(|hba| hba.rules());
    let of_rules = rules.filter_map(|rule| Some((Some(rule.line), rule.oauth.as_ref()?)));
    let all = config.auth.oauth.iter().map(|oauth| (None, oauth)).chain(of_rules);
    let mut known: Vec<&Oauth> = Vec::new();
    let mut failed = Vec::new();
    for (line, oauth) in all {
        if known.iter().any(|other| Place::of(other) == Place::of(oauth)) {
            continue;
        }
        known.push(oauth);
        failed.extend(fetch(&sender(), oauth, LIMIT).err().map(|why| (line, why)));
    }
    failed
}

impl Issuers {
    fn new(send: SendHttp, clock: impl Fn() -> ClockReading + Send + Sync + 'static) -> Issuers {
        Issuers { send, clock: Box::new(clock), all: Mutex::default() }
    }

    fn check(&self, oauth: &Oauth, token: &str, limit: Duration) -> Result<Proof, String> {
        let issuer = self.issuer(oauth);
        let now = (self.clock)().seconds();
        let expected = Expected { issuer: &oauth.issuer, audience: &oauth.audience, now };
        let (keys, mut overdue) = self.keys(&issuer, oauth, None, limit)?;
        let mut verdict = verify(token, &keys, &expected);
        if let Err(Invalid::UnknownKey(_) | Invalid::WrongSignature) = verdict {
            let (newer, why) = self.keys(&issuer, oauth, Some(&keys), limit)?;
            verdict = verify(token, &newer, &expected);
            overdue = overdue.or(why);
        }
        let claims = verdict.map_err(|why| match why {
            Invalid::Because(why) => format!("the token is not valid: {why}"),
            Invalid::WrongSignature => "the token is not valid: its signature is wrong".to_owned(),
            Invalid::UnknownKey(key) => {
                let overdue = overdue.as_deref().map_or(String::new(), |why| format!("; {why}"));
                format!("the token is signed with a key that its issuer does not have: {key}{overdue}")
            }
        })?;
        if let Some(missing) = oauth.scopes().find(|scope| !claims.has_scope(scope)) {
            return Err(format!("the token lacks the scope {missing}"));
        }
        if oauth.claim == "email" && !has_verified_email(&claims.0) {
            return Err("the token's issuer has not verified the address (email_verified)".to_owned());
        }
        match claims.text(&oauth.claim) {
            None | Some("") => Err(format!("the token names no user ({})", oauth.claim)),
            Some(name) if name.len() > LONGEST_NAME => Err(format!("the token's name is too long ({})", oauth.claim)),
            Some(name) => Ok(Proof { name: Some(name.into()), overdue }),
        }
    }

    fn issuer(&self, oauth: &Oauth) -> Arc<Issuer> {
        let mut all = lock(&self.all);
        let place = Place::of(oauth);
        if all.len() >= MOST && !all.contains_key(&place) {
            // Those that a login uses stay.
            all.retain(|_, issuer| Arc::strong_count(issuer) > 1);
        }
        all.entry(place).or_default().clone()
    }

    /// The keys of an issuer; `than`: newer ones than these, if there are any and they may be fetched now. With them, why
    /// there are no newer ones, if this call has tried.
    fn keys(
        &self,
        issuer: &Issuer,
        oauth: &Oauth,
        than: Option<&Arc<IssuerKeys>>,
        limit: Duration,
    ) -> Result<(Arc<IssuerKeys>, Option<String>), String> {
        let is_enough = |kept: &Kept, now: ClockReading| {
            let (keys, at) = kept.keys.clone()?;
            let fresh = now.age_of(at) < FRESH && !now.has_jumped_since(at);
            let newer = than.is_none_or(|old| !Arc::ptr_eq(old, &keys));
            (fresh && newer).then_some(keys)
        };
        let now = (self.clock)();
        let known = lock(&issuer.kept).clone();
        if let Some(keys) = is_enough(&known, now) {
            return Ok((keys, None));
        }
        let _fetching = match (issuer.fetching.try_lock(), known.usable(now)) {
            (Ok(guard), _) => guard,
            // They do for now, and another thread fetches the next ones.
            (Err(TryLockError::WouldBlock), Some(keys)) if than.is_none() => return Ok((keys, None)),
            (Err(_), _) => lock(&issuer.fetching),
        };
        // It may have waited.
        let now = (self.clock)();
        let known = lock(&issuer.kept).clone();
        if let Some(keys) = is_enough(&known, now) {
            return Ok((keys, None));
        }
        let usable = known.usable(now);
        if let Some(why) = known.pauses(now, usable.is_some(), than.is_some()) {
            return usable.map(|keys| (keys, None)).ok_or(why);
        }
        // Who has a key that is known does not wait for long behind those who name others.
        let most = if usable.is_some() && than.is_some() { SEEK_LIMIT } else { LIMIT };
        let fetched = fetch(&self.send, oauth, limit.min(most));
        let now = (self.clock)();
        let mut kept = lock(&issuer.kept);
        kept.sought = than.map(|_| now).or(kept.sought);
        match fetched {
            Ok(keys) => {
                let keys = Arc::new(keys);
                (kept.keys, kept.failed) = (Some((keys.clone(), now)), None);
                Ok((keys, None))
            }
            Err(why) => {
                kept.failed = Some((now, why.clone()));
                usable.map(|keys| (keys, Some(why.clone()))).ok_or(why)
            }
        }
    }
}

impl Kept {
    /// Keys that count, though newer ones may be due. After a jump of the calendar's clock they do.
    fn usable(&self, now: ClockReading) -> Option<Arc<IssuerKeys>> {
        let (keys, at) = self.keys.as_ref()?;
        (now.age_of(*at) < COUNT).then(|| keys.clone())
    }

    /// Why nothing is fetched now, if so: the last attempt was a moment ago.
    fn pauses(&self, now: ClockReading, has_keys: bool, seeks: bool) -> Option<String> {
        if seeks && self.sought.is_some_and(|at| now.age_of(at) < PAUSE) {
            return Some("newer keys were fetched a moment ago".to_owned());
        }
        let pause = if has_keys { PAUSE } else { RETRY };
        self.failed.as_ref().filter(|(at, _)| now.age_of(*at) < pause).map(|(_, why)| why.clone())
    }
}

fn fetch(send: &SendHttp, oauth: &Oauth, limit: Duration) -> Result<IssuerKeys, String> {
    let failed = |why: &str| format!("the keys of {} could not be fetched: {}", oauth.issuer, brief(why));
    let get = |url: &str, limit: Duration| {
        let (ca_file, timeout) = (oauth.ca_file.clone(), limit);
        // A proxy would see, and could change, what is not encrypted.
        let is_direct = !url.starts_with("https:");
        let request = HttpRequest { ca_file, timeout, longest: LONGEST, is_direct, ..HttpRequest::get(url) };
        match send(&request.header("Accept", "application/json")) {
            Ok(answer) if answer.status == 200 => Ok(answer.body),
            Ok(answer) => Err(failed(&format!("{url} answered {}", answer.status))),
            Err(why) => Err(failed(&format!("{url}: {why}"))),
        }
    };
    let metadata = get(&oauth.metadata_url, limit / 2)?;
    let metadata: Metadata =
        serde_json::from_slice(&metadata).map_err(|error| failed(&format!("its metadata: {error}")))?;
    if metadata.issuer != oauth.issuer {
        return Err(failed(&format!("its metadata has the issuer {:?}", metadata.issuer)));
    }
    if !is_safe_endpoint(&metadata.jwks_uri) {
        return Err(failed("its metadata has an address of keys that is not encrypted"));
    }
    IssuerKeys::parse(&get(&metadata.jwks_uri, limit / 2)?).map_err(|why| failed(&format!("its keys: {why}")))
}

/// A text of another program, on one line and cut.
fn brief(text: &str) -> String {
    Printable(prefix(text, SHOWN)).to_string()
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "oauth_tests.rs"]
mod tests;
