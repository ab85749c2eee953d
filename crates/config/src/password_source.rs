//! What makes a pool's password where the configuration does not have it: a program (`password_command`), or a service
//! that is asked for a token (`password_source`).
//!
//! Parses the list of the service's setting once. Reads no environment: what is not given comes from the environment's
//! usual variables when a token is made.

use std::path::PathBuf;
use std::sync::Arc;

use weir_base::{Printable, Span, prefix};

use crate::address::is_address;

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

/// What the setting may be.
pub(crate) const SERVICES: &str = "write one of [\"aws-iam\"], [\"azure\"], [\"google\"] and [\"vault\", \"path=…\"]";

/// Reads the setting; an error is what is wrong, as the end of a sentence about it, and what to do.
pub(crate) fn parse(words: &[String]) -> Result<TokenService, (String, &'static str)> {
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
            // It is a part of the name of a host.
            let is_name = |text: &String| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !region.iter().all(is_name) {
                return Err(("has a region that is none".to_owned(), "write it as in \"region=eu-central-1\""));
            }
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
    let hint = "write \"path=database/static-creds/ROLE\", or \"path=secret/data/NAME\" for a secret of KV version 2";
    let path = options.take("path").unwrap_or_default();
    let path = in_vault(&path, "v1").ok_or(("has no path of a secret in Vault".to_owned(), hint))?;
    let hint = "write the path of the method without \"auth/\", as in \"mount=kubernetes\"";
    let mount = options.take("mount").unwrap_or_else(|| "kubernetes".to_owned());
    let mount = in_vault(&mount, "auth").ok_or(("has a mount that is no path in Vault".to_owned(), hint))?;
    if path.split('/').any(|part| part == "creds") {
        let what = "names a role of Vault that makes another user for each lease; a pool has one user".to_owned();
        return Err((what, "use a static role, \"path=database/static-creds/ROLE\""));
    }
    let address = options.take("address").map(|address| address.trim_end_matches('/').to_owned());
    if address.as_ref().is_some_and(|address| !is_address(address)) {
        return Err(("has an address of Vault that is none".to_owned(), "write \"address=https://HOST:8200\""));
    }
    let namespace = options.take("namespace");
    if namespace.as_ref().is_some_and(|name| !is_plain(name)) {
        return Err(("has a namespace of Vault that is none".to_owned(), "write \"namespace=NAME\", as in a path"));
    }
    let vault = Vault {
        path,
        field: options.take("field").unwrap_or_else(|| "password".to_owned()),
        address,
        ca_file: options.take("ca_file").map(PathBuf::from),
        namespace,
        token_file: options.take("token_file").map(PathBuf::from),
        role: options.take("role"),
        mount,
        jwt_file: options.take("jwt_file").map(PathBuf::from),
    };
    if vault.role.is_some() && vault.token_file.is_some() {
        return Err(("has a role and a token_file".to_owned(), "a login as a role needs no token: keep one of them"));
    }
    Ok(vault)
}

/// A path in Vault, as a part of the path of a request, without slashes around it. `None`: it is none, or begins with the
/// part that the request has before it.
fn in_vault(text: &str, before: &str) -> Option<String> {
    let path = text.trim_matches('/');
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    let fits = is_plain(path) && !path.contains(['?', '#', '%', '\\']) && path.split('/').all(is_part);
    (fits && path.split('/').next() != Some(before)).then(|| path.to_owned())
}

/// Whether a text has neither spaces nor anything that ends a line.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control())
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
            (&["vault", "path=a", "address=http://vault:82000"], "has an address of Vault that is none"),
            (&["vault", "path=a", "address=http://vault:1\r\nX: y"], "has an address of Vault that is none"),
            (&["vault", "path=a", "namespace=team\r\nX: y"], "has a namespace of Vault that is none"),
            (&["vault", "path=a", "role=r", "token_file=f"], "has a role and a token_file"),
            (&["aws-iam", "region=x.example.com/"], "has a region that is none"),
            (
                &["vault", "path=database/creds/app"],
                "names a role of Vault that makes another user for each lease; a pool has one user",
            ),
        ] {
            assert_eq!(parsed(words), Err(what.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn a_path_and_a_mount_of_vault_are_parts_of_a_requests_path_and_no_more() {
        let mut wrong: Vec<String> = "\0\t\n\r\x1b \u{85}\u{2028}?#%\\".chars().map(|c| format!("a{c}b")).collect();
        wrong.extend(["", "/", "..", "a/../b", "../a", "a/..", "./a", "a/.", "a//b", "//"].map(str::to_owned));
        for text in &wrong {
            let found = parsed(&["vault", &format!("path={text}")]);
            let what =
                if text.is_empty() { "has an option without a value" } else { "has no path of a secret in Vault" };
            assert_eq!(found, Err(what.to_owned()), "{text:?}");
            let found = parsed(&["vault", "path=a", &format!("mount={text}")]);
            let what = if text.is_empty() { what } else { "has a mount that is no path in Vault" };
            assert_eq!(found, Err(what.to_owned()), "{text:?}");
        }
        assert!(parsed(&["vault", "path=v1/secret/data/app"]).is_err(), "Weir writes it");
        assert!(parsed(&["vault", "path=a", "mount=auth/kubernetes"]).is_err(), "Weir writes it");
        for (written, read) in
            [("kv/a", "kv/a"), ("/kv/a/", "kv/a"), ("kv/a.b-c_d..e", "kv/a.b-c_d..e"), ("kv/ä", "kv/ä")]
        {
            let Ok(TokenService::Vault(vault)) =
                parsed(&["vault", &format!("path={written}"), &format!("mount={written}")])
            else {
                panic!("{written}")
            };
            assert_eq!((&*vault.path, &*vault.mount), (read, read));
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
