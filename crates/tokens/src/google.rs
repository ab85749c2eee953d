//! Tokens of a service account for Cloud SQL, by the metadata server (Google Cloud: "Access tokens for a service
//! account, by the metadata server"; Cloud SQL: "Log in using IAM database authentication").

use std::time::{Duration, Instant};

use weir_fetch::HttpRequest;

use crate::ask::{LIMIT, Service, number};
use crate::cache::Made;
use crate::outside::Outside;

const METADATA: &str = "metadata.google.internal";

/// A token, and where it comes from.
///
/// # Errors
/// Why there is none.
pub(crate) fn token(outside: &Outside, account: Option<&str>) -> Result<Made<(String, String)>, String> {
    let host = outside.variable("GCE_METADATA_HOST").unwrap_or_else(|| METADATA.to_owned());
    let account: String = form_urlencoded::byte_serialize(account.unwrap_or("default").as_bytes()).collect();
    let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/{account}/token");
    let request = HttpRequest { is_direct: true, ..HttpRequest::get(&url) }.header("Metadata-Flavor", "Google");
    let at = outside.now();
    let service = Service { name: "the metadata server", send: &outside.send, until: Instant::now() + LIMIT };
    let answer = service.ask(request, &[])?.ok()?;
    let json = answer.json()?;
    let token = answer.token(&json["access_token"], "access_token")?;
    let seconds = number(&json["expires_in"]).ok_or_else(|| answer.unreadable("it has no expires_in"))?;
    if seconds == 0 {
        return Err(answer.unreadable("its token has expired"));
    }
    let about =
        format!("google: the token of {host}, made at {} by this machine's clock, is valid for {seconds} s", at.text());
    Ok(Made::expiring((token, about), at, Duration::from_secs(seconds)))
}
