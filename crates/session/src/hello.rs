//! What a client asks for with its first packets.
//!
//! Owns the reading of the startup packet into a [`Hello`]: user, database, parameters, protocol version. Must not know
//! which pools exist or who may enter.
//!
//! Source: PostgreSQL documentation, "Message Flow", Start-up, SSL and GSSAPI Session Encryption, Canceling Requests.

use serde::{Deserialize, Serialize};
use weir_pgwire::{First, Malformed, put_back, startup};

use crate::params::{BadParam, ParamTable, Params};
use crate::refusal::Refusal;

/// The newest minor version of protocol 3 that we speak.
const NEWEST_MINOR: u16 = 2;

/// What the first bytes of a client ask for.
#[derive(Debug)]
pub enum Opening {
    /// More bytes are needed.
    More,
    /// Encryption that we do not have; `used` bytes are answered with one `N`.
    NoEncryption {
        /// How many bytes of the input that was.
        used: usize,
    },
    /// Cancel what another session runs; nothing follows, and nothing is answered.
    Cancel {
        /// The process id that we gave that session.
        pid: u32,
        /// The secret that we gave it.
        secret: Vec<u8>,
    },
    /// A session.
    Startup {
        /// What it wants.
        hello: Box<Hello>,
        /// How many bytes of the input that was.
        used: usize,
    },
    /// Nothing that can be served.
    Refuse(Refusal),
}

/// A startup packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The user.
    pub user: String,
    /// The database, which names a pool; the user's name where it was left out.
    pub database: String,
    /// The minor protocol version agreed on.
    pub minor: u16,
    /// Whether the client must be told that the version or some options are not ours, and which options.
    pub negotiate: Option<Vec<String>>,
    /// Every other parameter, in order; those of `options` among them.
    pub params: Vec<(String, String)>,
}

/// Reads the first packet in `input`. `may_ask_encryption` is false once encryption was refused twice: a client that only
/// asks gets no further answer.
pub fn open(input: &[u8], may_ask_encryption: bool) -> Opening {
    match startup::first(input) {
        Ok(None) => Opening::More,
        Ok(Some((First::Ssl | First::Gss, used))) => {
            if !may_ask_encryption {
                return refuse_protocol("encryption was refused already");
            }
            if input.len() > used {
                // Bytes stuffed before a handshake would be read as if they had come through it (CVE-2021-3935).
                return refuse_protocol("bytes after a request for encryption");
            }
            Opening::NoEncryption { used }
        }
        Ok(Some((First::Cancel { pid, key }, _))) => Opening::Cancel { pid, secret: key.to_vec() },
        Ok(Some((First::Unsupported { major, minor }, _))) => {
            refuse_protocol(&format!("version {major}.{minor}; the server speaks 3.0 to 3.{NEWEST_MINOR}"))
        }
        Ok(Some((First::Startup(packet), used))) => match hello(&packet) {
            Ok(hello) => Opening::Startup { hello: Box::new(hello), used },
            Err(refusal) => Opening::Refuse(refusal),
        },
        Err(malformed) => refuse_protocol(malformed.0),
    }
}

fn refuse_protocol(what: &str) -> Opening {
    Opening::Refuse(Refusal::UnsupportedProtocol(what.into()))
}

fn hello(packet: &startup::Startup<'_>) -> Result<Hello, Refusal> {
    let mut hello = Hello {
        user: String::new(),
        database: String::new(),
        minor: packet.minor.min(NEWEST_MINOR),
        negotiate: (packet.minor > NEWEST_MINOR).then(Vec::new),
        params: Vec::new(),
    };
    for (name, value) in packet.params() {
        let name = text(name)?;
        if let Some(option) = name.strip_prefix("_pq_.") {
            let _ = option;
            hello.negotiate.get_or_insert_default().push(name);
            continue;
        }
        let value = text(value)?;
        match name.as_str() {
            "user" => hello.user = value,
            "database" => hello.database = value,
            "options" => {
                let options =
                    startup::options(&value).map_err(|Malformed(_)| Refusal::BadParameter("options".into()))?;
                hello.params.extend(options);
            }
            "replication" if !matches!(value.as_str(), "false" | "off" | "no" | "0") => {
                return Err(Refusal::UnsupportedProtocol("replication connections are not pooled".into()));
            }
            "replication" => {}
            _ => hello.params.push((name, value)),
        }
    }
    if hello.user.is_empty() {
        return Err(Refusal::NoUser);
    }
    if hello.database.is_empty() {
        hello.database.clone_from(&hello.user);
    }
    Ok(hello)
}

fn text(bytes: &[u8]) -> Result<String, Refusal> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Refusal::Protocol("a startup parameter that is not UTF-8".into()))
}

impl Hello {
    /// The parameters that the client wants, as far as they are tracked.
    ///
    /// # Errors
    /// A parameter that is neither tracked nor in `ignored`, or a value that can't be used.
    pub fn wanted(&self, table: &ParamTable, ignored: &[String]) -> Result<Params, Refusal> {
        let mut params = table.unknown();
        for (name, value) in &self.params {
            if ignored.iter().any(|i| i.eq_ignore_ascii_case(name)) {
                continue;
            }
            table.set(&mut params, name, value).map_err(|bad| match bad {
                BadParam::Unknown => Refusal::UnsupportedParameter(name.clone()),
                BadParam::Value => Refusal::BadParameter(name.clone()),
            })?;
        }
        Ok(params)
    }

    /// Appends NegotiateProtocolVersion where it is due.
    pub fn write_negotiation(&self, buffer: &mut Vec<u8>) {
        if let Some(options) = &self.negotiate {
            let options: Vec<&[u8]> = options.iter().map(|o| o.as_bytes()).collect();
            // The field holds the newest minor version, as PostgreSQL fills it since the message exists.
            put_back::negotiate(buffer, u32::from(NEWEST_MINOR), &options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_pgwire::put_front;

    fn packet(params: &[(&str, &str)], minor: u16) -> Vec<u8> {
        let mut buffer = Vec::new();
        put_front::startup(&mut buffer, params, minor);
        buffer
    }

    fn read(bytes: &[u8]) -> Box<Hello> {
        match open(bytes, true) {
            Opening::Startup { hello, used } if used == bytes.len() => hello,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_database_defaults_to_the_user_and_options_become_parameters() {
        let hello = read(&packet(&[("user", "u"), ("options", "-c geqo=off --search_path=a")], 0));
        assert_eq!(hello.database, "u");
        assert_eq!(hello.params, [("geqo".into(), "off".into()), ("search_path".into(), "a".into())]);
        assert_eq!(hello.negotiate, None);
    }

    #[test]
    fn newer_versions_and_unknown_protocol_options_are_negotiated() {
        let hello = read(&packet(&[("user", "u"), ("_pq_.x", "1")], 9));
        assert_eq!((hello.minor, hello.negotiate.clone()), (2, Some(vec!["_pq_.x".to_string()])));
        let mut buffer = Vec::new();
        hello.write_negotiation(&mut buffer);
        assert_eq!(buffer[0], b'v');
    }

    #[test]
    fn bytes_stuffed_behind_an_encryption_request_are_refused() {
        let mut bytes = Vec::new();
        put_front::ssl_request(&mut bytes);
        assert!(matches!(open(&bytes, true), Opening::NoEncryption { used: 8 }));
        bytes.push(0);
        assert!(matches!(open(&bytes, true), Opening::Refuse(_)));
    }

    #[test]
    fn a_parameter_that_nobody_knows_is_refused_by_name() {
        let table = ParamTable::new([]);
        let hello = read(&packet(&[("user", "u"), ("nonsense", "1")], 0));
        assert_eq!(hello.wanted(&table, &[]), Err(Refusal::UnsupportedParameter("nonsense".into())));
        assert!(hello.wanted(&table, &["NONSENSE".into()]).is_ok());
    }
}
