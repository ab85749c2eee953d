//! How the secret of a user is stored: a password as its SCRAM verifier, unless a server needs the password.
//!
//! Weir logs in to a server with what it has of a user: a pool without a `user` as each client itself, a pool without a
//! `password` as its listed user, an auth_query as the user that asks. A verifier that Weir made does not log in
//! anywhere else, so the password of such a user is stored as it is.

use weir_auth::{ScramVerifier, Secret, salt_password};

use crate::model::Config;

use super::{Edit, Keys, Operation, SECRET, Value};

const FORMER: &str = "former_secret";
const FORMER_UNTIL: &str = "former_secret_until";
const OF_SERVER: &str = "a pool logs in to its server with this user's own password, of which the server accepts only one: \
                         change both at once, without a time for the old one";
const OTHER_SALT: &str =
    "only a password can be valid beside the present one: a SCRAM or md5 secret has a salt of its own";

/// The length of a salt, in bytes: PostgreSQL's.
pub const SALT: usize = 16;

/// The form in which a secret is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretForm {
    /// A SCRAM-SHA-256 verifier.
    Scram,
    /// An md5 hash.
    Md5,
    /// The password itself.
    Plain,
    /// No password: nobody can log in with it.
    Empty,
}

impl SecretForm {
    /// The form's name in the API.
    pub fn name(self) -> &'static str {
        match self {
            SecretForm::Scram => "scram-sha-256",
            SecretForm::Md5 => "md5",
            SecretForm::Plain => "plain",
            SecretForm::Empty => "empty",
        }
    }
}

/// The form of a stored secret; `None` for one that is not valid.
pub fn secret_form(secret: &str) -> Option<SecretForm> {
    Some(match Secret::parse(secret).ok()? {
        Secret::Scram(_) => SecretForm::Scram,
        Secret::Md5(_) => SecretForm::Md5,
        Secret::Plain(password) if password.is_empty() => SecretForm::Empty,
        Secret::Plain(_) => SecretForm::Plain,
    })
}

/// The change with a user's password as its verifier; a secret in another form stays. Hashes, for some milliseconds.
/// `salt` must be random.
///
/// With `former_secret_until`, and without a `former_secret`, the present secret becomes the former one. A challenge of
/// SCRAM has one salt, so the new password is hashed with that of the present one. Without them, a changed password
/// ends a former one.
///
/// # Errors
///
/// The present secret can't stay valid beside the new one: why, in a sentence.
pub fn with_verifiers(edit: Edit, config: &Config, salt: [u8; SALT]) -> Result<Edit, &'static str> {
    let Edit::User(name, mut act) = edit else { return Ok(edit) };
    if let Operation::Create(keys) | Operation::Alter(keys) = &mut act {
        store(&name, keys, config, salt)?;
    }
    Ok(Edit::User(name, act))
}

fn store(name: &str, keys: &mut Keys, config: &Config, salt: [u8; SALT]) -> Result<(), &'static str> {
    let Some(secret) = keys.keys.get(SECRET).cloned() else { return Ok(()) };
    let password = match &secret {
        Some(Value::Text(secret)) if secret_form(secret) == Some(SecretForm::Plain) => Some(secret.as_str()),
        _ => None,
    };
    let password = password.filter(|_| !config.needs_password_of(name));
    let of = |password: &str| verifier(password, salt.to_vec(), config.auth.scram_iterations);
    let is_given = keys.keys.contains_key(FORMER);
    if !is_given && matches!(keys.keys.get(FORMER_UNTIL), Some(Some(_))) {
        let former = former(config, name, of)?;
        let password = password.ok_or(if config.needs_password_of(name) { OF_SERVER } else { OTHER_SALT })?;
        let new = verifier(password, former.salt.clone(), former.iterations);
        keys.set(SECRET, Some(Value::Text(new.to_string())));
        keys.set(FORMER, Some(Value::Text(former.to_string())));
        return Ok(());
    }
    if let Some(password) = password {
        keys.set(SECRET, Some(Value::Text(of(password).to_string())));
    }
    if !is_given && config.users.get(name).is_some_and(|rules| rules.former_secret.0.is_some()) {
        keys.set(FORMER, None);
        keys.set(FORMER_UNTIL, None);
    }
    Ok(())
}

/// The verifier of the present secret.
fn former(config: &Config, name: &str, of: impl Fn(&str) -> ScramVerifier) -> Result<ScramVerifier, &'static str> {
    match config.auth.users.get(name).map(Secret::parse) {
        Some(Ok(Secret::Scram(verifier))) => Ok(verifier),
        Some(Ok(Secret::Plain(password))) if !password.is_empty() => Ok(of(&password)),
        Some(Ok(Secret::Md5(_))) => Err(
            "the present secret is an md5 hash, which can't be valid beside a new password: change it at once, or give it a \
             password first",
        ),
        _ => Err("the user has no password that could stay valid"),
    }
}

fn verifier(password: &str, salt: Vec<u8>, iterations: u32) -> ScramVerifier {
    ScramVerifier::from_salted(&salt_password(password, &salt, iterations), salt, iterations)
}

impl Config {
    /// Whether Weir logs in to a server with the listed password of this user.
    pub fn needs_password_of(&self, name: &str) -> bool {
        let as_user = |user: &Option<String>| user.as_deref().is_none_or(|user| user == name);
        let mut pools = self.pools.values().chain(&self.fallback);
        pools.any(|pool| !pool.has_password() && as_user(&pool.user)) || self.asks_as(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::EntryKind;

    const POOL: &str = "[pools.a]\nhost = \"h\"\nuser = \"app\"\npassword = \"p\"\n";
    const UNTIL: &str = "2026-07-01T12:00:00Z";

    /// What a change of a password makes of the keys.
    fn changed(config: &str, name: &str, password: &str, until: Option<&str>) -> Result<Keys, &'static str> {
        let text = format!("[web]\naddress = \"127.0.0.1\"\n{config}");
        let config = crate::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).unwrap();
        let mut keys = Keys::of(EntryKind::User);
        keys.set("password", Some(Value::Text(password.to_owned())));
        if let Some(until) = until {
            keys.set(FORMER_UNTIL, Some(Value::Text(until.to_owned())));
        }
        match with_verifiers(Edit::User(name.to_owned(), Operation::Alter(keys)), &config, [7; SALT])? {
            Edit::User(_, Operation::Alter(keys)) => Ok(keys),
            _ => unreachable!("it is still the same change"),
        }
    }

    fn text(keys: &Keys, key: &str) -> String {
        keys.keys.get(key).cloned().flatten().unwrap().words()
    }

    fn stored(config: &str, name: &str, password: &str) -> String {
        text(&changed(config, name, password, None).unwrap(), SECRET)
    }

    fn of(password: &str, salt: u8) -> String {
        verifier(password, vec![salt; SALT], 4096).to_string()
    }

    #[test]
    fn a_password_is_stored_as_its_verifier() {
        let secret = stored(POOL, "app", "hush");
        assert_eq!(secret, of("hush", 7));
        assert_eq!(secret_form(&secret), Some(SecretForm::Scram));
        assert_eq!(stored(POOL, "app", &secret), secret, "a verifier stays");
        let md5 = format!("md5{}", "0".repeat(32));
        assert_eq!(stored(POOL, "app", &md5), md5);
    }

    #[test]
    fn a_password_that_a_server_needs_is_stored_as_it_is() {
        assert_eq!(stored("[pools.a]\nhost = \"h\"\n", "app", "hush"), "hush", "each client is its own user");
        assert_eq!(stored("[pools.a]\nhost = \"h\"\nuser = \"app\"\n", "app", "hush"), "hush");
        assert_ne!(stored("[pools.a]\nhost = \"h\"\nuser = \"app\"\n", "other", "hush"), "hush");
        let asks = "[pools.a]\nhost = \"h\"\nuser = \"u\"\npassword = \"p\"\nauth_user = \"asker\"\n";
        assert_eq!(stored(asks, "asker", "hush"), "hush");
    }

    #[test]
    fn the_present_password_stays_valid_with_the_salt_of_the_new_one() {
        let with = |secret: &str| format!("{POOL}[auth.users]\nbob = \"{secret}\"\n");
        let keys = changed(&with(&of("old", 9)), "bob", "new", Some(UNTIL)).unwrap();
        assert_eq!((text(&keys, SECRET), text(&keys, FORMER)), (of("new", 9), of("old", 9)));
        assert_eq!(text(&keys, FORMER_UNTIL), UNTIL);
        let keys = changed(&with("old"), "bob", "new", Some(UNTIL)).unwrap();
        assert_eq!((text(&keys, SECRET), text(&keys, FORMER)), (of("new", 7), of("old", 7)));
        let md5 = format!("md5{}", "0".repeat(32));
        assert!(changed(&with(&md5), "bob", "new", Some(UNTIL)).is_err_and(|why| why.contains("md5")));
        assert!(changed(&with("old"), "bob", &md5, Some(UNTIL)).is_err_and(|why| why == OTHER_SALT));
        assert!(changed(&with("old"), "eve", "new", Some(UNTIL)).is_err_and(|why| why.contains("no password")));
        let own = with("old").replace("user = \"app\"\npassword = \"p\"\n", "");
        assert!(changed(&own, "bob", "new", Some(UNTIL)).is_err_and(|why| why == OF_SERVER));
    }

    #[test]
    fn another_change_of_the_password_ends_the_former_one() {
        let users =
            format!("[auth.users]\nbob = \"{}\"\n[users.bob]\nformer_secret = \"{}\"\n", of("b", 1), of("a", 1));
        let keys = changed(&format!("{POOL}{users}"), "bob", "new", None).unwrap();
        assert_eq!(keys.keys.get(FORMER), Some(&None));
        assert_eq!(keys.keys.get(FORMER_UNTIL), Some(&None));
        assert!(!changed(POOL, "bob", "new", None).unwrap().keys.contains_key(FORMER), "there is none");
    }
}
