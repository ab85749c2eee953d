//! Accounts of the control plane and their roles: users with passwords, programs with tokens.
//!
//! An account is one line of the file, a role and a hash: `ann = "admin $argon2id$…"`. Nothing is hashed here:
//! `crates/web` compares passwords and tokens with the hashes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::oidc::Oidc;
use crate::toml_key::toml_key;
use crate::web_role::WebRole;

/// A role, and the hash that proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// What the account may do.
    pub role: WebRole,
    /// Of a user: its password's hash, a PHC string of Argon2id. Of a token: `sha256:` and its SHA-256 in hexadecimal.
    pub hash: String,
}

/// All accounts, by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    /// Accounts of people.
    pub users: BTreeMap<String, Account>,
    /// Accounts of programs.
    pub tokens: BTreeMap<String, Account>,
    /// The provider of single sign-on.
    pub oidc: Oidc,
}

/// Why the control plane may not listen on these addresses, in one line with what to do. `encrypted`: whether it uses
/// TLS; `listed`: whether it has accounts. An address beyond the loopback requires both, so that clients log in and no
/// one else reads their passwords.
pub fn web_listen_error(addresses: impl IntoIterator<Item = IpAddr>, encrypted: bool, listed: bool) -> Option<String> {
    let address = addresses.into_iter().find(|address| !address.is_loopback())?;
    let missing = match (encrypted, listed) {
        (true, true) => return None,
        (false, true) => "give tls_cert_file and tls_key_file",
        (true, false) => "list somebody in [web.users], whose line \"weir account NAME\" prints",
        (false, false) => "give tls_cert_file and tls_key_file, and list somebody in [web.users]",
    };
    Some(format!("[web] {address} is not of the loopback (127.0.0.1 or ::1): {missing}, or change address"))
}

impl Accounts {
    /// Whether nothing lets anybody log in.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty() && self.oidc.issuer.is_none()
    }
}

impl Account {
    /// The account's line in `weir.toml`, below `[web.users]` or `[web.tokens]`.
    pub fn line(&self, name: &str) -> String {
        format!("{} = {}", toml_key(name), toml_edit::Value::from(self.to_string()))
    }

    /// The account of a user.
    pub(crate) fn user(text: &str) -> Option<Account> {
        Account::read(text, |hash| hash.starts_with("$argon2id$"))
    }

    /// The account of a token.
    pub(crate) fn token(text: &str) -> Option<Account> {
        let digest = |hex: &str| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        Account::read(text, |hash| hash.strip_prefix("sha256:").is_some_and(digest))
    }

    fn read(text: &str, suits: impl Fn(&str) -> bool) -> Option<Account> {
        let (role, hash) = text.split_once(' ')?;
        let account = Account { role: role.parse().ok()?, hash: hash.trim().to_owned() };
        suits(&account.hash).then_some(account)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.name(), self.hash)
    }
}

impl fmt::Debug for Account {
    // A hash must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role.name())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_line_of_an_account_is_one_that_is_read() {
        let user = Account { role: WebRole::Admin, hash: "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA".to_owned() };
        let token = Account { role: WebRole::Viewer, hash: format!("sha256:{}", "0a".repeat(32)) };
        let (user_line, token_line) = (user.line("ann"), token.line("the \"grafana\""));
        let text = format!(
            "[auth]\ntype = \"trust\"\n[web.users]\n{user_line}\n[web.tokens]\n{token_line}\n[pools.a]\nhost = \"h\"\n"
        );
        let config = crate::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).unwrap();
        let accounts = &config.web.accounts;
        assert_eq!((accounts.users.get("ann"), accounts.tokens.get("the \"grafana\"")), (Some(&user), Some(&token)));
    }
}
