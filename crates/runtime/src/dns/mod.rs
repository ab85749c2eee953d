//! DNS look-ups: the addresses of a host name, and their TTL.
//!
//! Owns the order: names in the hosts file go to the system's resolver; others are queried at the name servers of
//! resolv.conf, since only those answers have a TTL; names that these do not know go to the system's resolver, which
//! has further sources (mDNS, LDAP, containers), and whose answers are cached for `dns.max_ttl`. The files are read at
//! each look-up, so a change of the network needs no restart. Blocks: runs on helper threads.

mod conf;
mod exchange;
mod message;

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use weir_base::Span;
use weir_config::Dns;
use weir_engine::port::LOOK_UP_FAILED;
use weir_fetch::read_text;

use self::conf::{Conf, hosts_have};

const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// The longest of each of these files, in bytes.
const LONGEST_CONF: u64 = 1 << 20;
const LONGEST_HOSTS: u64 = 64 << 20;

/// A name to look up.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) name: Arc<str>,
    pub(crate) dns: Arc<Dns>,
}

/// The result of a look-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) name: Arc<str>,
    pub(crate) addresses: Result<Vec<IpAddr>, String>,
    /// How long the result may be cached, also if it is an error.
    pub(crate) ttl: Span,
}

/// Looks up a name. Blocks for seconds at most per name server.
pub(crate) fn look_up(query: Query) -> Found {
    let Query { name, dns } = query;
    let longest = |addresses| Found { name: name.clone(), addresses: Ok(addresses), ttl: dns.max_ttl };
    if let Some((addresses, seconds)) = by_servers(&name, &dns) {
        let found = longest(addresses);
        return Found { ttl: Span::from_secs(u64::from(seconds)).min(dns.max_ttl), ..found };
    }
    match by_system(&name) {
        Ok(addresses) => longest(addresses),
        Err(error) => Found { name, addresses: Err(error), ttl: dns.nxdomain_ttl },
    }
}

/// Queries the name servers; `None` if the name is in the hosts file, or no server has an answer.
fn by_servers(name: &str, dns: &Dns) -> Option<(Vec<IpAddr>, u32)> {
    if read_text(Path::new(HOSTS), LONGEST_HOSTS).is_ok_and(|hosts| hosts_have(&hosts, name)) {
        return None;
    }
    let path = dns.resolv_conf.as_deref().unwrap_or(Path::new(RESOLV_CONF));
    let conf = Conf::parse(&read_text(path, LONGEST_CONF).ok()?);
    for candidate in conf.candidates(name) {
        // After a server failure the next name is not tried; a negative answer is for this name only.
        let (addresses, ttl) = exchange::addresses(&conf, &candidate)?;
        if !addresses.is_empty() {
            return Some((addresses, ttl));
        }
    }
    None
}

fn by_system(name: &str) -> Result<Vec<IpAddr>, String> {
    let failed = |error: std::io::Error| {
        let error = error.to_string();
        // Other failures, such as a name server that does not answer, may pass.
        let advice = if error.contains("not known") { "; is the name of the host correct?" } else { "" };
        format!("{LOOK_UP_FAILED} \"{name}\": {error}{advice}")
    };
    let found = (name, 0).to_socket_addrs().map_err(failed)?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::iter;
    use std::net::{TcpListener, UdpSocket};
    use std::thread;

    use super::*;

    /// Answers a query with an address, or as truncated.
    fn answer(question: &[u8], truncated: bool) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2] = if truncated { 0x82 } else { 0x80 };
        let v4 = question[question.len() - 3] == 1;
        if v4 && !truncated {
            bytes[7] = 1;
            bytes.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x02\x00\x04\x0a\x01\x02\x03");
        }
        bytes
    }

    /// A name server that answers a few queries over UDP, and, if `truncated`, the rest over TCP.
    fn server(truncated: bool) -> Arc<Dns> {
        // A port that is free for UDP may be in use for TCP.
        let (udp, tcp) = iter::repeat_with(|| {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let tcp = TcpListener::bind(udp.local_addr().unwrap());
            (udp, tcp)
        })
        .find_map(|(udp, tcp)| Some((udp, tcp.ok()?)))
        .unwrap();
        let port = udp.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(&answer(&buffer[..length], truncated), from);
            }
        });
        thread::spawn(move || {
            while let Ok((mut stream, _)) = tcp.accept() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut question).unwrap();
                let answer = answer(&question, false);
                stream.write_all(&(answer.len() as u16).to_be_bytes()).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        let path = std::env::temp_dir().join(format!("weir-resolv-{}-{port}", std::process::id()));
        fs::write(&path, format!("nameserver [127.0.0.1]:{port}\noptions timeout:1 attempts:1\n")).unwrap();
        let (max_ttl, nxdomain_ttl) = (Span::from_secs(15), Span::from_secs(7));
        Arc::new(Dns { max_ttl, nxdomain_ttl, resolv_conf: Some(path) })
    }

    fn find(name: &str, dns: &Arc<Dns>) -> Found {
        look_up(Query { name: name.into(), dns: dns.clone() })
    }

    #[test]
    fn an_answer_holds_as_long_as_the_name_server_says_and_no_longer_than_the_operator() {
        for truncated in [false, true] {
            let dns = server(truncated);
            let found = find("db.weir.example", &dns);
            assert_eq!((found.addresses, found.ttl), (Ok(vec![[10, 1, 2, 3].into()]), Span::from_secs(2)));
            let short = Arc::new(Dns { max_ttl: Span::from_secs(1), ..Dns::clone(&dns) });
            assert_eq!(find("db.weir.example", &short).ttl, Span::from_secs(1));
            let _ = fs::remove_file(dns.resolv_conf.as_ref().unwrap());
        }
    }

    #[test]
    fn a_pipe_in_the_place_of_resolv_conf_leaves_names_to_the_system() {
        let path = std::env::temp_dir().join(format!("weir-resolv-pipe-{}", std::process::id()));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (max_ttl, nxdomain_ttl) = (Span::from_secs(15), Span::from_secs(7));
        let dns = Arc::new(Dns { max_ttl, nxdomain_ttl, resolv_conf: Some(path.clone()) });
        assert!(find("no such name", &dns).addresses.unwrap_err().contains("could not look up"));
        let _ = fs::remove_file(path);
    }

    #[test]
    fn a_name_server_that_answers_byte_by_byte_gets_one_timeout_for_all_of_them() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(&answer(&buffer[..length], true), from);
            }
        });
        thread::spawn(move || {
            for mut stream in tcp.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    while stream.write_all(&[0xff]).is_ok() {
                        thread::sleep(std::time::Duration::from_millis(300));
                    }
                });
            }
        });
        let conf = Conf::parse(&format!("nameserver [127.0.0.1]:{port}\noptions timeout:1 attempts:1\n"));
        // With a timeout for each byte it would take hours.
        assert_eq!(exchange::addresses(&conf, "db.weir.example"), None);
    }

    #[test]
    fn what_the_name_servers_do_not_know_is_left_to_the_system() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = std::env::temp_dir().join(format!("weir-resolv-none-{}", std::process::id()));
        fs::write(&path, format!("nameserver [127.0.0.1]:{closed}\noptions timeout:1 attempts:1\n")).unwrap();
        let (max_ttl, nxdomain_ttl) = (Span::from_secs(15), Span::from_secs(7));
        let dns = Arc::new(Dns { max_ttl, nxdomain_ttl, resolv_conf: Some(path.clone()) });
        let found = find("localhost", &dns);
        assert!(found.addresses.unwrap().iter().all(IpAddr::is_loopback));
        assert_eq!(found.ttl, Span::from_secs(15));
        let missing = find("no such name", &dns);
        assert!(missing.addresses.unwrap_err().contains("could not look up"));
        assert_eq!(missing.ttl, Span::from_secs(7));
        let _ = fs::remove_file(path);
    }
}
