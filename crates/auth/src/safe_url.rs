//! Addresses that secrets, or what decides who may log in, may be sent to and fetched from.

use std::net::IpAddr;

/// Whether secrets may be sent to an address: `https`, or `http` to this machine; without a user, a query and a
/// fragment.
pub fn is_safe_url(url: &str) -> bool {
    if url.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || matches!(byte, b'?' | b'#' | b'@' | b'\\' | b'"')) {
        return false;
    }
    match url.split_once("://") {
        Some(("https", rest)) => !host(rest).is_empty(),
        Some(("http", rest)) => {
            let host = host(rest);
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        _ => false,
    }
}

/// Whether an address that an issuer names is encrypted, or of this machine; it may have a query.
pub fn is_safe_endpoint(url: &str) -> bool {
    is_safe_url(url.split('?').next().unwrap_or_default()) && !url.contains(['#', '"', ' ']) && url.is_ascii()
}

/// The host of what follows `://`, without its port.
fn host(rest: &str) -> &str {
    let authority = rest.split('/').next().unwrap_or_default();
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']').unwrap_or_default();
        return if port.is_empty() || port.starts_with(':') { host } else { "" };
    }
    authority.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_addresses_and_this_machine_are_safe() {
        for url in [
            "https://idp",
            "https://idp.example/realms/a",
            "http://127.0.0.1:80/x",
            "http://[::1]/",
            "http://localhost",
        ] {
            assert!(is_safe_url(url), "{url}");
        }
        for url in [
            "http://idp",
            "http://127.0.0.1@idp",
            "http://localhost.idp",
            "http://[::1].idp/",
            "https://[::1].idp/",
            "http://[::1",
            "https://",
            "https://a b",
            "ftp://127.0.0.1",
            "https://a?b",
            "",
        ] {
            assert!(!is_safe_url(url), "{url}");
        }
    }
}
