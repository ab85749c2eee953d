//! Where an API is that a command was given: by its URL, or by the file of the Weir that serves it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use weir_store::load;

use crate::failure::Failure;

/// The URL of an API. Reads the configuration where a file is given.
pub(crate) fn url(given: &str) -> Result<String, Failure> {
    if given.contains("://") {
        return Ok(given.trim_end_matches('/').to_owned());
    }
    let file = Path::new(given);
    if !file.is_file() {
        let what = "give the file that Weir serves, or the API's URL, as http://127.0.0.1:8432";
        return Err(Failure::Message(format!("there is no file {given}; {what}")));
    }
    let (config, _) = load::load_as_far(file);
    let web = &config.web;
    let Some(address) = web.addresses.first() else {
        return Err(Failure::Message(format!("{given} has no API: set address under [web]")));
    };
    let scheme = if web.tls_cert_file.is_some() { "https" } else { "http" };
    Ok(format!("{scheme}://{}", SocketAddr::new(reachable(*address), web.port)))
}

/// The error for an API that does not answer.
pub(crate) fn unreachable(url: &str, problem: &str) -> Failure {
    let hint = match problem.contains("certificate") {
        true => "name the certificate of its authority with --ca-file",
        false => "is Weir running, with [web] address in its weir.toml?",
    };
    let problem = problem.strip_prefix("io: ").unwrap_or(problem);
    Failure::Message(format!("{url}: {problem}; {hint}"))
}

/// An address by which this machine reaches itself.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_named_by_its_url_or_by_the_file_of_its_weir() {
        assert_eq!(url("https://db1:8432/").unwrap(), "https://db1:8432");
        let folder = std::env::temp_dir().join(format!("weir-api-address-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("weir.toml");
        let named = |text: &str| {
            std::fs::write(&file, text).unwrap();
            url(file.to_str().unwrap())
        };
        let with = |web: &str| named(&format!("[pools.a]\nhost = \"127.0.0.1\"\n{web}"));
        assert_eq!(with("[web]\naddress = \"127.0.0.1\"\nport = 9000\n").unwrap(), "http://127.0.0.1:9000");
        assert_eq!(with("[web]\naddress = \"0.0.0.0\"\nport = 9000\n").unwrap(), "http://127.0.0.1:9000");
        let refused = |failure: Failure| format!("{failure:?}");
        assert!(refused(with("").unwrap_err()).contains("has no API: set address under [web]"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refused(url("weir.tml").unwrap_err()).contains("there is no file weir.tml"));
    }
}
