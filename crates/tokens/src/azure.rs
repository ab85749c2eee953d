//! Tokens of Microsoft Entra ID for Azure Database: of a federated workload, of App Service and Container Apps, or of
//! the machine's metadata service (Microsoft identity platform: "client credentials flow, with a federated credential";
//! "How to use managed identities"; Azure Instance Metadata Service).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use weir_fetch::HttpRequest;

use crate::ask::{Answer, LIMIT, Service, number};
use crate::cache::Made;
use crate::clocks::ClockReading;
use crate::outside::Outside;

/// For whom the token is: Azure Database for PostgreSQL in the public cloud.
const DATABASES: &str = "https://ossrdbms-aad.database.windows.net";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const METADATA: &str = "http://169.254.169.254";
/// How long a token is kept that has expired by this machine's clock.
const DOUBTFUL: Duration = Duration::from_secs(60);

/// A token, and where it comes from.
///
/// # Errors
/// Why there is none.
pub(crate) fn token(
    outside: &Outside,
    client_id: Option<&str>,
    resource: Option<&str>,
) -> Result<Made<(String, String)>, String> {
    let (resource, until) = (resource.unwrap_or(DATABASES).trim_end_matches('/'), Instant::now() + LIMIT);
    let service = |name| Service { name, send: &outside.send, until };
    let at = outside.now();
    let (answer, from) = if let Some(file) = outside.variable("AZURE_FEDERATED_TOKEN_FILE") {
        (
            federated(outside, &service("Microsoft Entra ID"), client_id, resource, Path::new(&file))?,
            "a federated workload",
        )
    } else if let (Some(endpoint), Some(header)) =
        (outside.variable("IDENTITY_ENDPOINT"), outside.variable("IDENTITY_HEADER"))
    {
        let url = query(&endpoint, client_id, &[("resource", resource), ("api-version", "2019-08-01")]);
        let request = HttpRequest { is_direct: true, ..HttpRequest::get(&url) };
        let service = service("the identity endpoint");
        (service.ask(request.header("X-IDENTITY-HEADER", &header), &[&header])?, "the identity endpoint")
    } else {
        let base = outside.variable("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or_else(|| METADATA.to_owned());
        let base = format!("{}/metadata/identity/oauth2/token", base.trim_end_matches('/'));
        let url = query(&base, client_id, &[("api-version", "2018-02-01"), ("resource", resource)]);
        let request = HttpRequest { is_direct: true, ..HttpRequest::get(&url) };
        (service("the metadata service").ask(request.header("Metadata", "true"), &[])?, "the metadata service")
    };
    read(answer.ok()?, from, at)
}

fn federated(
    outside: &Outside,
    service: &Service<'_>,
    client_id: Option<&str>,
    resource: &str,
    file: &Path,
) -> Result<Answer, String> {
    let needed = |name: &str| outside.variable(name).ok_or_else(|| format!("{name} is not set"));
    let client = client_id.map_or_else(|| needed("AZURE_CLIENT_ID"), |id| Ok(id.to_owned()))?;
    let tenant = needed("AZURE_TENANT_ID")?;
    let assertion = outside.secret("the token file", file)?;
    let authority = outside.variable("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", &client)
        .append_pair("scope", &format!("{resource}/.default"))
        .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        .append_pair("client_assertion", &assertion)
        .finish();
    let url = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
    service.ask(HttpRequest::post(&url, "application/x-www-form-urlencoded", form.into_bytes()), &[&assertion])
}

fn query(base: &str, client_id: Option<&str>, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    query.extend_pairs(client_id.map(|id| ("client_id", id)));
    let sign = if base.contains('?') { '&' } else { '?' };
    format!("{base}{sign}{}", query.finish())
}

/// The token of an answer. Its time to live goes before its end: it does not depend on this machine's clock.
fn read(answer: Answer, from: &str, at: ClockReading) -> Result<Made<(String, String)>, String> {
    let json: Json = answer.json()?;
    let token = answer.token(&json["access_token"], "access_token")?;
    let counts = match (number(&json["expires_in"]), number(&json["expires_on"])) {
        (Some(0), _) => return Err(answer.unreadable("its token has expired")),
        (Some(seconds), _) => Duration::from_secs(seconds),
        // Where it has expired by this machine's clock, that is wrong: the service has just answered with it.
        (None, Some(end)) => at.until(end).unwrap_or(DOUBTFUL),
        (None, None) => return Err(answer.unreadable("it has neither expires_in nor expires_on")),
    };
    let begin = number(&json["not_before"]).filter(|begin| *begin > at.seconds());
    let begin = begin.map_or(String::new(), |begin| format!(" not valid before {},", weir_config::moment_text(begin)));
    let about = format!(
        "azure: the token of {from},{begin} made at {} by this machine's clock, is valid for {} s",
        at.text(),
        counts.as_secs()
    );
    Ok(Made::expiring((token, about), at, counts))
}
