//! Credentials of an instance's role, by version 2 of its metadata service (the EC2 user guide: "Use IMDSv2"). Version
//! 1 is not used.

use weir_base::{Printable, prefix};
use weir_fetch::HttpRequest;

use super::credentials::Credentials;
use crate::ask::{Answer, Service};
use crate::outside::Outside;

/// The metadata service.
const USUAL: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// How long the session for these requests lasts, in seconds.
const SESSION: &str = "60";

pub(super) fn credentials(outside: &Outside, service: &Service<'_>) -> Result<Credentials, String> {
    const NONE: &str = "no credentials were found: not in the environment, not as a web identity, not in the shared \
                        files, not at a container's endpoint";
    if outside.variable("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
        return Err(format!("{NONE}, and AWS_EC2_METADATA_DISABLED turns the instance's metadata service off"));
    }
    let base = outside.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| USUAL.to_owned());
    let base = base.trim_end_matches('/');
    let ask = |request: HttpRequest, secrets: &[&str]| -> Result<Answer, String> {
        service.ask(HttpRequest { is_direct: true, ..request }, secrets)
    };
    let request = HttpRequest::put(&format!("{base}/latest/api/token"));
    let session = ask(request.header("X-aws-ec2-metadata-token-ttl-seconds", SESSION), &[])
        .map_err(|why| format!("{NONE}; {why} (in a container, the instance's hop limit must be 2)"))?
        .ok()?;
    let session = session.token(&session.text().trim().into(), "session")?;
    let get = |path: &str| {
        let request = HttpRequest::get(&format!("{base}{path}"));
        ask(request.header("X-aws-ec2-metadata-token", &session), &[&session])
    };
    let roles = get(ROLES)?;
    if roles.status == 404 {
        return Err(format!("{NONE}, and the instance has no role"));
    }
    let roles = roles.ok()?.text();
    let role = roles.lines().map(str::trim).find(|role| !role.is_empty());
    let role = role.filter(|role| !role.contains(['/', '?', '#', ' ']));
    let role = role.ok_or_else(|| format!("{NONE}, and the instance has no role"))?;
    let answer = get(&format!("{ROLES}{role}"))?.ok()?;
    let json = answer.json()?;
    if json["Code"].as_str().is_some_and(|code| code != "Success") {
        return Err(answer.unreadable("its Code is not Success"));
    }
    Credentials::of_json(&answer, &json, &format!("the instance's role {}", Printable(prefix(role, 64))))
}
