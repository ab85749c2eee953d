//! Single sign-on of the control plane (`[web.oidc]`): the provider, and which of its groups have which role.
//!
//! Nothing is requested here: `crates/web` speaks to the provider.

use std::path::PathBuf;

use weir_auth::is_safe_url;

use crate::origin::is_reference;
use crate::web_role::WebRole;

/// An OpenID Connect provider, and the roles of its groups. Without an issuer there is none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Oidc {
    /// The provider's issuer identifier, a URL.
    pub issuer: Option<String>,
    /// The name under which the provider knows Weir.
    pub client_id: Option<String>,
    /// Where the client's secret is: `env:NAME` or `file:/PATH`; none for a public client.
    pub client_secret: Option<String>,
    /// The address that the provider sends browsers back to; none: that of the request.
    pub redirect_url: Option<String>,
    /// The scopes that are requested.
    pub scopes: Vec<String>,
    /// The claim with a user's groups: its name, or the names on the way to it with dots between them.
    pub groups_claim: String,
    /// The claim with a user's name for the audit log.
    pub user_claim: String,
    /// Groups whose members are viewers; `*` is every user of the provider.
    pub viewer_groups: Vec<String>,
    /// Groups whose members are operators.
    pub operator_groups: Vec<String>,
    /// Groups whose members are admins.
    pub admin_groups: Vec<String>,
    /// The text of the button on the login page.
    pub label: String,
    /// The authorities for the provider's certificate, PEM; none: the operating system's.
    pub ca_file: Option<PathBuf>,
}

impl Oidc {
    /// The greatest role of a user with these groups.
    pub fn role<'a>(&self, groups: impl IntoIterator<Item = &'a str> + Clone) -> Option<WebRole> {
        let has = |wanted: &[String]| {
            wanted.iter().any(|one| one == "*") || groups.clone().into_iter().any(|g| wanted.iter().any(|one| one == g))
        };
        WebRole::ALL.into_iter().rev().find(|role| has(self.groups_of(*role)))
    }

    /// Whether a group has a role of its own.
    pub fn lists(&self, group: &str) -> bool {
        WebRole::ALL.iter().any(|role| self.groups_of(*role).iter().any(|one| one == group))
    }

    fn groups_of(&self, role: WebRole) -> &[String] {
        match role {
            WebRole::Viewer => &self.viewer_groups,
            WebRole::Operator => &self.operator_groups,
            WebRole::Admin => &self.admin_groups,
        }
    }

    /// What makes a login impossible or unsafe: the setting, the mistake, and what to do.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String, &'static str)> {
        let Some(issuer) = &self.issuer else { return Vec::new() };
        let mut found = Vec::new();
        if !is_safe_url(issuer) {
            let text = "the issuer must be an https:// address without a query; http:// only for the loopback";
            found.push(("issuer", text.to_owned(), "copy the value \"issuer\" of the provider's metadata"));
        }
        if self.client_id.as_deref().is_none_or(str::is_empty) {
            let text = "single sign-on needs a client_id in [web.oidc]".to_owned();
            found.push(("client_id", text, "register Weir at the provider, and copy the client id"));
        }
        if self.client_secret.as_deref().is_some_and(|secret| !is_reference(secret)) {
            let text = "client_secret must say where the secret is: env:NAME or file:/PATH".to_owned();
            found.push(("client_secret", text, "put the secret into a file that only Weir's user can read"));
        }
        if self.redirect_url.as_deref().is_some_and(|url| !is_safe_url(url)) {
            let text = "redirect_url must be an https:// address; http:// only for the loopback".to_owned();
            found.push(("redirect_url", text, "it is the panel's address with api/v1/oidc/callback"));
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            found.push(("scopes", "scopes must contain openid".to_owned(), "add it"));
        }
        if WebRole::ALL.iter().all(|role| self.groups_of(*role).is_empty()) {
            let text = "no group has a role, so that nobody can log in through the provider".to_owned();
            found.push(("issuer", text, "give admin_groups, operator_groups or viewer_groups"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(keys: &str) -> Oidc {
        let text = format!(
            "[auth]\ntype = \"trust\"\n[web]\naddress = \"::1\"\n[web.oidc]\n{keys}\n[pools.a]\nhost = \"h\"\n"
        );
        let config = crate::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).expect("it is valid");
        config.web.accounts.oidc.clone()
    }

    #[test]
    fn the_greatest_role_of_a_users_groups_counts() {
        let oidc = read("viewer_groups = [\"all, of us\"]\noperator_groups = \"dba, ops\"\nadmin_groups = [\"dba\"]");
        let role = |groups: &[&str]| oidc.role(groups.iter().copied());
        assert_eq!(role(&["ops"]), Some(WebRole::Operator));
        assert_eq!(role(&["ops", "dba"]), Some(WebRole::Admin));
        assert_eq!(role(&["all, of us"]), Some(WebRole::Viewer));
        assert_eq!((role(&[]), role(&["Ops", "*"])), (None, None));
        assert_eq!(read("viewer_groups = \"*\"").role([]), Some(WebRole::Viewer));
    }

    #[test]
    fn each_mistake_is_reported_and_without_an_issuer_there_is_none() {
        let keys = |oidc: &Oidc| oidc.mistakes().into_iter().map(|(key, ..)| key).collect::<Vec<_>>();
        assert!(keys(&read("")).is_empty());
        let good =
            "issuer = \"https://idp\"\nclient_id = \"weir\"\nclient_secret = \"env:S\"\nadmin_groups = [\"dba\"]";
        assert!(keys(&read(good)).is_empty(), "{:?}", read(good).mistakes());
        let bad = "issuer = \"http://idp\"\nclient_secret = \"hunter2\"\nredirect_url = \"weir\"\nscopes = \"profile\"";
        assert_eq!(keys(&read(bad)), ["issuer", "client_id", "client_secret", "redirect_url", "scopes", "issuer"]);
    }
}
