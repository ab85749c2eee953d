//! Credentials of a role for a web identity, as EKS gives to a service account (AWS STS: AssumeRoleWithWebIdentity).

use std::path::Path;

use weir_fetch::HttpRequest;

use super::credentials::{Credentials, read_end};
use crate::ask::{Service, tag};
use crate::outside::Outside;

const FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
const ROLE: &str = "AWS_ROLE_ARN";

/// Whether the environment has one.
pub(super) fn is_there(outside: &Outside) -> bool {
    outside.variable(FILE).is_some() && outside.variable(ROLE).is_some()
}

pub(super) fn credentials(outside: &Outside, service: &Service<'_>, region: &str) -> Result<Credentials, String> {
    let (file, role) = (outside.variable(FILE).unwrap_or_default(), outside.variable(ROLE).unwrap_or_default());
    // Kubernetes replaces it while the pod runs.
    let token = outside.secret("the token file", Path::new(&file))?;
    let session = outside.variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "weir".to_owned());
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("Action", "AssumeRoleWithWebIdentity")
        .append_pair("Version", "2011-06-15")
        .append_pair("RoleArn", &role)
        .append_pair("RoleSessionName", &session)
        .append_pair("WebIdentityToken", &token)
        .finish();
    let url = outside.variable("AWS_ENDPOINT_URL_STS").or_else(|| outside.variable("AWS_ENDPOINT_URL"));
    let url = url.unwrap_or_else(|| {
        let tld = if region.starts_with("cn-") { "com.cn" } else { "com" };
        format!("https://sts.{region}.amazonaws.{tld}/")
    });
    let request = HttpRequest::post(&url, "application/x-www-form-urlencoded", form.into_bytes());
    let answer = service.ask(request, &[&token])?.ok()?;
    let text = answer.text();
    let all = tag(&text, "Credentials").ok_or_else(|| answer.unreadable("it has no Credentials"))?;
    let get = |name: &str| tag(&all, name).ok_or_else(|| answer.unreadable(&format!("it has no {name}")));
    Ok(Credentials {
        key: get("AccessKeyId")?,
        secret: get("SecretAccessKey")?,
        session: Some(get("SessionToken")?),
        expires: Some(
            read_end(tag(&all, "Expiration").as_deref()).ok_or_else(|| answer.unreadable("it has no Expiration"))?,
        ),
        from: "AWS STS".to_owned(),
    })
}
