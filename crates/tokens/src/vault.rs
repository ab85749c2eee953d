//! Secrets of HashiCorp Vault: of KV version 1 and 2, and static roles of its database engine (Vault's HTTP API:
//! `secret/kv`, `secret/databases`, `auth/kubernetes`).
//!
//! A dynamic role makes a user for each lease, and a pool has one user: a secret for another user is an error. A token
//! of a login with the pod's account is kept until shortly before it expires, and replaced when Vault refuses it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use weir_config::Vault;
use weir_fetch::HttpRequest;

use crate::ask::{Answer, LIMIT, Service, number};
use crate::cache::{Cache, Made, UNLIMITED};
use crate::clocks::ClockReading;
use crate::outside::Outside;

/// After how long a secret is read again, and a login without an end repeated. While Vault is away, a secret counts until
/// its role rotates it, or its lease ends.
const RENEWED: Duration = Duration::from_secs(300);
/// The token of the pod's account.
const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Tokens of logins at Vault.
pub(crate) type Logins = Cache<Vault, String>;

/// How a secret is read.
struct Reading<'a> {
    outside: &'a Outside,
    vault: &'a Vault,
    service: Service<'a>,
    address: String,
    namespace: Option<String>,
    ca_file: Option<PathBuf>,
}

/// A password, and where it comes from.
///
/// # Errors
/// Why there is none.
pub(crate) fn password(
    outside: &Outside,
    logins: &Logins,
    user: &str,
    vault: &Vault,
) -> Result<Made<(String, String)>, String> {
    let variable = |name| outside.variable(name);
    let address = vault.address.clone().or_else(|| variable("VAULT_ADDR")).ok_or(
        "the address of Vault is not known: write \"address=https://HOST:8200\" in password_source, or set VAULT_ADDR",
    )?;
    let at = outside.now();
    let reading = Reading {
        outside,
        vault,
        service: Service { name: "Vault", send: &outside.send, until: Instant::now() + LIMIT },
        address: address.trim_end_matches('/').to_owned(),
        namespace: vault.namespace.clone().or_else(|| variable("VAULT_NAMESPACE")),
        ca_file: vault.ca_file.clone().or_else(|| variable("VAULT_CACERT").map(PathBuf::from)),
    };
    let answer = match &vault.role {
        None => reading.secret(&reading.token()?)?,
        Some(role) => {
            let log_in = |_| reading.log_in(role);
            // One login for all its secrets.
            let key = Vault { path: String::new(), field: String::new(), ..vault.clone() };
            let login = logins.get(|| outside.now(), &key, |_| false, log_in)?;
            let answer = reading.secret(&login.value)?;
            // It may have been revoked: once more with another one.
            match answer.status == 403 && !login.is_new {
                true => {
                    reading.secret(&logins.get(|| outside.now(), &key, |kept| *kept == login.value, log_in)?.value)?
                }
                false => answer,
            }
        }
    };
    reading.read(&answer, user, at)
}

impl Reading<'_> {
    fn request(&self, request: HttpRequest, secret: &str) -> Result<Answer, String> {
        let mut request = request.header("X-Vault-Request", "true");
        if let Some(namespace) = &self.namespace {
            request = request.header("X-Vault-Namespace", namespace);
        }
        request.ca_file.clone_from(&self.ca_file);
        self.service.ask(request, &[secret])
    }

    fn secret(&self, token: &str) -> Result<Answer, String> {
        let url = format!("{}/v1/{}", self.address, self.vault.path);
        self.request(HttpRequest::get(&url).header("X-Vault-Token", token), token)
    }

    /// Vault's token of a file or the environment, as they are now.
    fn token(&self) -> Result<String, String> {
        let read = |path: &Path| self.outside.secret("the file with Vault's token", path);
        if let Some(file) = &self.vault.token_file {
            return read(file);
        }
        if let Some(token) = self.outside.variable("VAULT_TOKEN") {
            return Ok(token);
        }
        let home = self.outside.variable("HOME").map(|home| Path::new(&home).join(".vault-token"));
        match home.filter(|file| file.exists()) {
            Some(file) => read(&file),
            None => {
                Err("there is no token for Vault: write \"token_file=…\" or \"role=…\" in password_source, or set \
                         VAULT_TOKEN"
                    .to_owned())
            }
        }
    }

    /// Logs in with the pod's account.
    fn log_in(&self, role: &str) -> Result<Made<String>, String> {
        let file = self.vault.jwt_file.as_deref().unwrap_or(Path::new(POD));
        let jwt = self.outside.secret("the token of the pod's account", file)?;
        let url = format!("{}/v1/auth/{}/login", self.address, self.vault.mount);
        let body = serde_json::json!({ "role": role, "jwt": jwt }).to_string();
        let at = self.outside.now();
        let answer = self.request(HttpRequest::post(&url, "application/json", body.into_bytes()), &jwt)?.ok()?;
        let json = answer.json()?;
        let token = answer.token(&json["auth"]["client_token"], "client_token")?;
        // 0: it does not expire.
        let lease = number(&json["auth"]["lease_duration"]).filter(|seconds| *seconds > 0);
        Ok(match lease {
            Some(seconds) => Made::expiring(token, at, Duration::from_secs(seconds)),
            None => Made::renewed(token, at, RENEWED, UNLIMITED),
        })
    }

    fn read(&self, answer: &Answer, user: &str, at: ClockReading) -> Result<Made<(String, String)>, String> {
        let path = &self.vault.path;
        match answer.status {
            200 => {}
            404 => return Err(format!("{}: there is no secret at {path}", answer.refusal())),
            _ => return Err(format!("{} (for {path})", answer.refusal())),
        }
        let json = answer.json()?;
        // Version 2 of KV has the secret beside its metadata.
        let data = &json["data"];
        let is_second = data["data"].is_object() && data["metadata"].is_object();
        let secret = if is_second { &data["data"] } else { data };
        let is_of_pool = match &secret["username"] {
            Json::Null => true,
            Json::String(name) => name == user,
            Json::Number(name) => name.to_string() == user,
            Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
        };
        if !is_of_pool {
            return Err(answer.unreadable(&format!(
                "the secret at {path} is for another user than the pool's, {user}; a pool has one user"
            )));
        }
        let password = answer.token(&secret[&self.vault.field], &format!("field {}", self.vault.field))?;
        // A static role says when it rotates next.
        let ttl = if is_second { None } else { number(&data["ttl"]) };
        let lease = number(&json["lease_duration"]).filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let counts = ttl.map(Duration::from_secs).or(lease).unwrap_or(UNLIMITED);
        let about = format!("vault: the secret at {path}, read at {}", at.text());
        Ok(Made::renewed((password, about), at, RENEWED, counts))
    }
}
