//! Addresses in settings: what a host may be, and what `http://HOST:PORT`.

use std::net::Ipv6Addr;

use weir_base::Host;

/// Whether this is the address of a server for HTTP, without a path.
pub(crate) fn is_address(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    host.is_some_and(is_host_and_port)
}

/// Whether this is an address for HTTP, with or without a path and a query.
pub(crate) fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        is_host_and_port(host) && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#')
    })
}

/// A host alone; the error says what to write.
pub(crate) fn read_host(text: &str) -> Result<Host, &'static str> {
    let host = Host::parse(text.trim());
    Err(match &host {
        Host::Name(name) if name.starts_with('@') => "abstract Unix sockets are not supported; name a folder",
        Host::Name(name) if names_port(name) => "write the port as \"port\", and the host alone as \"host\"",
        Host::Name(name) if name.starts_with(['.', '~']) => "write the whole path of the socket's folder, from / on",
        Host::Name(name) if name.contains(':') || name.starts_with('[') => {
            "write the address without brackets, and the port as \"port\""
        }
        Host::Name(name) if !name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) => {
            "give an address, a name, or the folder of the server's socket"
        }
        _ => return Ok(host),
    })
}

/// Whether a text is a host and its port, as in a URL.
fn names_port(text: &str) -> bool {
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(':').is_some_and(|(host, port)| !host.starts_with('[') && is_number(port))
}

/// Whether this is a host, with or without a port: an address of IPv6 is in brackets.
fn is_host_and_port(text: &str) -> bool {
    let (host, rest) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_host = match text.starts_with('[') {
        true => host.parse::<Ipv6Addr>().is_ok(),
        false => !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)),
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_host && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port_that_there_can_be() {
        for text in [
            "http://h",
            "https://a.b-c_d:1",
            "http://10.0.0.1:8008",
            "http://[::1]:8200",
            "https://[fd00::1]",
            "http://ä:65535",
        ] {
            assert!(is_address(text), "{text}");
        }
        for text in [
            "",
            "h",
            "h:1",
            "ftp://h",
            "http://",
            "http://:1",
            "http://h:",
            "http://h:0",
            "http://h:65536",
            "http://h:x",
            "http://h:+1",
            "http://h:1:2",
            "http://h/",
            "http://h/x",
            "http://a@h",
            "http://h?x",
            "http://h#x",
            "http://h x",
            "http://h\n",
            "http://::1",
            "http://[::1",
            "http://[::1]x",
            "http://[h]:1",
            "http://[]",
            "HTTP://h",
        ] {
            assert!(!is_address(text), "{text:?}");
        }
    }

    #[test]
    fn an_address_may_have_a_path_where_it_is_for_requests() {
        for text in ["http://h", "https://h/x/y?z=1&a=@", "https://u:p@h:1/x", "http://[::1]:1/x", "https://h?x"] {
            assert!(is_url(text), "{text}");
        }
        for text in [
            "h/x",
            "http:///x",
            "http://h:/x",
            "http://h:70000/x",
            "http://u@/x",
            "http://h/x y",
            "http://h/#x",
            "http://h/\n",
        ] {
            assert!(!is_url(text), "{text:?}");
        }
    }

    #[test]
    fn a_host_is_alone() {
        for text in ["h", "10.0.0.1", "::1", "/run/postgresql", " db.example.com ", "ä"] {
            assert!(read_host(text).is_ok(), "{text}");
        }
        for text in [
            "h:1",
            "h:99999999",
            "10.0.0.1:5432",
            "[::1]",
            "[::1]:1",
            "h:x",
            "h x",
            "a,b",
            "@x",
            "./x",
            "~/x",
            "h/x",
            "http://h",
        ] {
            assert!(read_host(text).is_err(), "{text}");
        }
    }
}
