//! Credentials of a container: of ECS, of EKS's pod identity, and of whatever the environment names (AWS SDKs reference
//! guide: "Container credential provider").

use std::path::Path;

use weir_fetch::HttpRequest;

use super::credentials::Credentials;
use crate::ask::{Service, origin};
use crate::outside::Outside;

const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
/// The endpoint of ECS.
const ECS: &str = "http://169.254.170.2";
/// The hosts to which the environment may send a request, and a token, in clear text: those of the guide.
const PLAIN: [&str; 6] = ["127.0.0.1", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Whether the environment names an endpoint.
pub(super) fn is_there(outside: &Outside) -> bool {
    outside.variable(RELATIVE).is_some() || outside.variable(FULL).is_some()
}

pub(super) fn credentials(outside: &Outside, service: &Service<'_>) -> Result<Credentials, String> {
    let url = match outside.variable(RELATIVE) {
        Some(path) => format!("{ECS}{path}"),
        None => outside.variable(FULL).unwrap_or_default(),
    };
    if !is_allowed(&url) {
        return Err(format!("{FULL} is neither https nor a host of this machine: {}", origin(&url)));
    }
    let token = match outside.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => Some(outside.secret("the token file", Path::new(&file))?),
        None => outside.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let mut request = HttpRequest::get(&url);
    request.is_direct = !url.starts_with("https:");
    if let Some(token) = &token {
        request = request.header("Authorization", token);
    }
    let answer = service.ask(request, &[token.as_deref().unwrap_or_default()])?.ok()?;
    let json = answer.json()?;
    Credentials::of_json(&answer, &json, &format!("the container's endpoint {}", origin(&url)))
}

fn is_allowed(url: &str) -> bool {
    let host = origin(url).strip_prefix("http://").map(|host| match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    });
    url.starts_with("https://") || host.is_some_and(|host| PLAIN.contains(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_in_clear_text_to_the_hosts_of_the_guide_only() {
        for (url, allowed) in [
            ("http://169.254.170.23/v1/credentials", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("http://127.0.0.1:8080/x", true),
            ("http://[::1]:80", true),
            ("https://example.com/x", true),
            ("http://example.com/x", false),
            ("http://127.0.0.1@example.com/", false),
            ("http://127.0.0.1.example.com/", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(is_allowed(url), allowed, "{url}");
        }
    }
}
