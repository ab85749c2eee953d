//! Settings of single sign-on to the control plane.

use std::sync::Arc;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::Config;
use crate::oidc::Oidc;
use crate::table::{Field, Section::WebOidc, Setting};

fn oidc(config: &mut Config) -> &mut Oidc {
    &mut Arc::make_mut(&mut config.web.accounts).oidc
}

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        WebOidc,
        "issuer",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut oidc(c).issuer)),
        "The provider's issuer, as in `https://login.example.com/realms/main`: its metadata is found below it. `http` only on \
         the loopback.",
    )
    .ini_own("web_oidc_issuer"),
    Setting::new(
        WebOidc,
        "client_id",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut oidc(c).client_id)),
        "The name under which Weir is registered at the provider.",
    )
    .ini_own("web_oidc_client_id"),
    Setting::new(
        WebOidc,
        "client_secret",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Concealed(&mut oidc(c).client_secret)),
        "Where the client's secret is, `env:NAME` or `file:/PATH`; it is read for each login. Without one Weir is a public \
         client, which only PKCE protects.",
    )
    .ini_own("web_oidc_client_secret"),
    Setting::new(
        WebOidc,
        "redirect_url",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut oidc(c).redirect_url)),
        "The address that the provider sends browsers back to, the panel's with `api/v1/oidc/callback`. Without it, by the name \
         in the browser's request; behind a proxy it must be given.",
    )
    .ini_own("web_oidc_redirect_url"),
    Setting::new(
        WebOidc,
        "scopes",
        Kind::Names,
        "openid, profile, email",
        Field::Config(|c| FieldMut::Names(&mut oidc(c).scopes)),
        "What is requested from the provider. Some have the groups in a scope of their own (`groups`).",
    )
    .ini_own("web_oidc_scopes"),
    Setting::new(
        WebOidc,
        "groups_claim",
        Kind::Text,
        "groups",
        Field::Config(|c| FieldMut::Line(&mut oidc(c).groups_claim)),
        "The claim with a user's groups, a list or one text; `realm_access.roles` is a claim in a claim. An `email` counts only \
         if the provider has verified it.",
    )
    .ini_own("web_oidc_groups_claim"),
    Setting::new(
        WebOidc,
        "user_claim",
        Kind::Text,
        "preferred_username",
        Field::Config(|c| FieldMut::Line(&mut oidc(c).user_claim)),
        "The claim with a user's name for the audit log, where it is `sso:NAME`. Without it, `email`, then `sub`.",
    )
    .ini_own("web_oidc_user_claim"),
    Setting::new(
        WebOidc,
        "viewer_groups",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut oidc(c).viewer_groups)),
        "Groups whose members may look. `*` is every user of the provider.",
    )
    .ini_own("web_oidc_viewer_groups"),
    Setting::new(
        WebOidc,
        "operator_groups",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut oidc(c).operator_groups)),
        "Groups whose members are operators. Of several roles, the greatest counts.",
    )
    .ini_own("web_oidc_operator_groups"),
    Setting::new(
        WebOidc,
        "admin_groups",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut oidc(c).admin_groups)),
        "Groups whose members are admins.",
    )
    .ini_own("web_oidc_admin_groups"),
    Setting::new(
        WebOidc,
        "label",
        Kind::Text,
        "Log in with single sign-on",
        Field::Config(|c| FieldMut::Line(&mut oidc(c).label)),
        "The text of the button on the login page.",
    )
    .ini_own("web_oidc_label"),
    Setting::new(
        WebOidc,
        "ca_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut oidc(c).ca_file)),
        "The authorities for the provider's certificate, PEM. Without it, those that this machine trusts.",
    )
    .ini_own("web_oidc_ca_file"),
];
