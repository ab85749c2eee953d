//! What makes a pool's password where the configuration does not have it: a program (`password_command`), or a service
//! that is asked for a token (`password_source`).
//!
//! Parses the list of the service's setting once. Reads no environment: what is not given comes from the environment's
//! usual variables when a token is made.

use std::path::PathBuf;
use std::sync::Arc;

use weir_base::{Printable, Span, prefix};

/// A program that prints the password for logins at a pool's servers (`password_command`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PasswordCommand {
    /// The program and its arguments; none: there is no program. No shell reads them.
    pub argv: Vec<String>,
    /// How long it may run.
    pub timeout: Span,
    /// How long a password counts, from the end of its run.
    pub lifetime: Span,
}

/// A service that makes tokens, and for whom.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TokenSource {
    /// The user on the server.
    pub user: String,
    /// The service.
    pub service: TokenService,
    /// The setting as it was written.
    pub words: Vec<String>,
}

/// The services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TokenService {
    /// AWS RDS and Aurora: IAM database authentication.
    Aws {
        /// The database's region; `None`: by the host's name, or the environment.
        region: Option<String>,
        /// The profile in the shared files of credentials.
        profile: Option<String>,
    },
    /// Azure Database: a token of Microsoft Entra ID.
    Azure {
        /// A managed identity that is not the machine's only one.
        client_id: Option<String>,
        /// For whom the token is; `None`: Azure Database in the public cloud.
        resource: Option<String>,
    },
    /// Cloud SQL: a token of Google's metadata server.
    Google {
        /// The service account; `None`: the machine's default one.
        account: Option<String>,
    },
    /// A secret in HashiCorp Vault.
    Vault(Vault),
}

/// A secret in HashiCorp Vault, and how Weir logs in there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Vault {
    /// The path of the secret, as the HTTP API has it.
    pub path: String,
    /// The field of the secret that is the password.
    pub field: String,
    /// The server; `None`: `VAULT_ADDR`.
    pub address: Option<String>,
    /// The authorities for its certificate; `None`: `VAULT_CACERT`, or those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The namespace; `None`: `VAULT_NAMESPACE`.
    pub namespace: Option<String>,
    /// The file with Vault's token; `None`: `VAULT_TOKEN`, or `.vault-token` in the home folder.
    pub token_file: Option<PathBuf>,
    /// The role of a login with the pod's service account, in place of a token.
    pub role: Option<String>,
    /// The path of the method of that login.
    pub mount: String,
    /// The file with the account's token; `None`: the pod's.
    pub jwt_file: Option<PathBuf>,
}

/// What makes the password for logins at a pool's servers, where the configuration does not have it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PasswordSource {
    /// A program prints it.
    Command(Arc<PasswordCommand>),
    /// A service makes it.
    Token(Arc<TokenSource>),
}

impl PasswordSource {
    /// The error that the source gave no password, with the setting's name.
    pub fn failed(&self, why: &str) -> String {
        format!("{} failed: {why}", self.setting())
    }

    /// The setting's name.
    pub fn setting(&self) -> &'static str {
        match self {
            PasswordSource::Command(_) => "password_command",
            PasswordSource::Token(_) => "password_source",
        }
    }
}

impl TokenService {
    /// The service's name in the setting.
    pub fn name(&self) -> &'static str {
        match self {
            TokenService::Aws { .. } => "aws-iam",
            TokenService::Azure { .. } => "azure",
            TokenService::Google { .. } => "google",
            TokenService::Vault(_) => "vault",
        }
    }

    /// Whether a token counts at one server only.
    pub fn is_by_host(&self) -> bool {
        matches!(self, TokenService::Aws { .. })
    }
}

/// The options of a service, which are taken out one by one.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl Options<'_> {
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(key, _)| *key == name)?;
        Some(self.0.remove(at).1.to_owned())
    }
}

/// Reads the setting; an error is what is wrong, as the end of a sentence about it, and what to do.
pub(crate) fn parse(words: &[String]) -> Result<TokenService, (String, &'static str)> {
    const SERVICES: &str = "write one of [\"aws-iam\"], [\"azure\"], [\"google\"] and [\"vault\", \"path=…\"]";
    let [service, options @ ..] = words else { return Err(("names no service".to_owned(), SERVICES)) };
    let mut pairs = Vec::new();
    for option in options {
        // Its value is not shown: it may be a secret.
        let Some((name, value)) = option.split_once('=').filter(|(_, value)| !value.is_empty()) else {
            return Err(("has an option without a value".to_owned(), "write each as \"name=value\""));
        };
        if pairs.iter().any(|(given, _)| *given == name) {
            return Err((format!("has \"{}\" twice", Printable(prefix(name, 64))), "keep one of them"));
        }
        pairs.push((name, value));
    }
    let mut options = Options(pairs);
    let (service, known) = match service.as_str() {
        "aws-iam" => {
            let (region, profile) = (options.take("region"), options.take("profile"));
            (TokenService::Aws { region, profile }, "aws-iam has region and profile")
        }
        "azure" => {
            let (client_id, resource) = (options.take("client_id"), options.take("resource"));
            (TokenService::Azure { client_id, resource }, "azure has client_id and resource")
        }
        "google" => (TokenService::Google { account: options.take("account") }, "google has account"),
        "vault" => (
            TokenService::Vault(vault(&mut options)?),
            "vault has path, field, address, ca_file, namespace, token_file, role, mount and jwt_file",
        ),
        other => return Err((format!("names an unknown service, \"{}\"", Printable(prefix(other, 64))), SERVICES)),
    };
    match options.0.first() {
        None => Ok(service),
        Some((name, _)) => Err((format!("has an unknown option, \"{}\"", Printable(prefix(name, 64))), known)),
    }
}

fn vault(options: &mut Options<'_>) -> Result<Vault, (String, &'static str)> {
    let path = options.take("path").unwrap_or_default();
    let path = path.trim_matches('/').to_owned();
    if path.is_empty() || path.contains(['?', '#', '%']) || path.chars().any(char::is_whitespace) {
        let hint =
            "write \"path=database/static-creds/ROLE\", or \"path=secret/data/NAME\" for a secret of KV version 2";
        return Err(("has no path of a secret in Vault".to_owned(), hint));
    }
    if path.split('/').any(|part| part == "creds") {
        let what = "names a role of Vault that makes another user for each lease; a pool has one user".to_owned();
        return Err((what, "use a static role, \"path=database/static-creds/ROLE\""));
    }
    let address = options.take("address").map(|address| address.trim_end_matches('/').to_owned());
    if address.as_ref().is_some_and(|address| !is_address(address)) {
        return Err(("has an address of Vault that is none".to_owned(), "write \"address=https://HOST:8200\""));
    }
    let vault = Vault {
        path,
        field: options.take("field").unwrap_or_else(|| "password".to_owned()),
        address,
        ca_file: options.take("ca_file").map(PathBuf::from),
        namespace: options.take("namespace"),
        token_file: options.take("token_file").map(PathBuf::from),
        role: options.take("role"),
        mount: options.take("mount").unwrap_or_else(|| "kubernetes".to_owned()),
        jwt_file: options.take("jwt_file").map(PathBuf::from),
    };
    if vault.role.is_some() && vault.token_file.is_some() {
        return Err(("has a role and a token_file".to_owned(), "a login as a role needs no token: keep one of them"));
    }
    Ok(vault)
}

/// Whether this is the address of a server, without a path.
fn is_address(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<TokenService, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words).map_err(|(what, _)| what)
    }

    #[test]
    fn a_service_has_its_own_options_and_no_others() {
        let region = Some("eu-central-1".to_owned());
        assert_eq!(parsed(&["aws-iam", "region=eu-central-1"]), Ok(TokenService::Aws { region, profile: None }));
        assert_eq!(parsed(&["google"]), Ok(TokenService::Google { account: None }));
        for (words, what) in [
            (&[][..], "names no service"),
            (&["gcp"], "names an unknown service, \"gcp\""),
            (&["azure", "region=x"], "has an unknown option, \"region\""),
            (&["azure", "hush"], "has an option without a value"),
            (&["azure", "client_id="], "has an option without a value"),
            (&["azure", "client_id=a", "client_id=b"], "has \"client_id\" twice"),
            (&["vault"], "has no path of a secret in Vault"),
            (&["vault", "path=a b"], "has no path of a secret in Vault"),
            (&["vault", "path=a", "address=vault"], "has an address of Vault that is none"),
            (&["vault", "path=a", "role=r", "token_file=f"], "has a role and a token_file"),
            (
                &["vault", "path=database/creds/app"],
                "names a role of Vault that makes another user for each lease; a pool has one user",
            ),
        ] {
            assert_eq!(parsed(words), Err(what.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn a_secret_of_vault_has_the_usual_field_and_mount() {
        let vault = parsed(&["vault", "path=/secret/data/app", "address=http://[::1]:8200/", "role=weir"]);
        let Ok(TokenService::Vault(vault)) = vault else { panic!("{vault:?}") };
        assert_eq!((&*vault.path, &*vault.field, &*vault.mount), ("secret/data/app", "password", "kubernetes"));
        assert_eq!(vault.address.as_deref(), Some("http://[::1]:8200"));
        assert_eq!(vault.role.as_deref(), Some("weir"));
    }
}
