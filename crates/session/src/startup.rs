//! What a client requests with its first packets.
//!
//! Owns the reading of the startup packet into a [`StartupRequest`]: user, database, parameters, protocol version. Must
//! not know which pools exist or which clients are allowed in.
//!
//! Source: PostgreSQL documentation, "Message Flow", Start-up, SSL and GSSAPI Session Encryption, Canceling Requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_pgwire::{First, Malformed, put_back, startup};

use crate::params::{BadParam, ParamTable, Params};
use crate::refusal::Refusal;

/// The newest minor version of protocol 3 that we speak.
const NEWEST_MINOR: u16 = 2;

/// What the first bytes of a client request.
#[derive(Debug)]
pub enum FirstPacket {
    /// More bytes are needed.
    More,
    /// The packet's length is impossible: PostgreSQL closes without an answer, as whoever sent it does not speak the
    /// protocol.
    NoPacket(&'static str),
    /// TLS (SSLRequest): one byte answers `used` bytes, `S` or `N`; after `S` comes the handshake.
    Tls {
        /// How many bytes of the input the request was.
        used: usize,
    },
    /// TLS without a request: the input is the beginning of a handshake.
    DirectTls,
    /// Encryption that we do not have (GSSENCRequest); `used` bytes are answered with one `N`.
    Gss {
        /// How many bytes of the input the request was.
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
        /// The startup packet.
        request: Arc<StartupRequest>,
        /// How many bytes of the input the packet was.
        used: usize,
    },
    /// A packet that can't be served.
    Refuse(Refusal),
}

/// A startup packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartupRequest {
    /// The user.
    pub user: String,
    /// The database, which names a pool; the user's name where it was left out.
    pub database: String,
    /// The minor protocol version agreed on.
    pub minor: u16,
    /// Whether NegotiateProtocolVersion is due, and which options are unknown to us.
    pub negotiate: Option<Vec<String>>,
    /// The settings in `options`, in order; the packet's own parameters take precedence.
    pub options: Vec<(String, String)>,
    /// Every other parameter, in order.
    pub params: Vec<(String, String)>,
    /// Whether the connection is one for replication, and of which kind.
    pub replication: Replication,
    /// Of a replication connection: `options` as the client wrote it, for its server; [`StartupRequest::options`] is
    /// empty.
    pub raw_options: Option<String>,
}

/// What is done with an untracked parameter of a startup packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OtherParams {
    /// The client is refused.
    #[default]
    Refuse,
    /// The parameter is left out.
    Ignore,
    /// The parameter is set on each server that the client gets.
    Set,
}

impl OtherParams {
    fn set(self, table: &ParamTable, params: &mut Params, name: &str, value: &str) -> Result<(), BadParam> {
        match (table.set(params, name, value), self) {
            (Err(BadParam::Unknown), OtherParams::Ignore) => Ok(()),
            (Err(BadParam::Unknown), OtherParams::Set) => table.set_untracked(params, name, value),
            (done, _) => done,
        }
    }
}

/// The value of a startup packet's `replication` (PostgreSQL documentation, "Streaming Replication Protocol").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Replication {
    /// A usual session.
    #[default]
    None,
    /// `database`: a walsender that is connected to the database.
    Logical,
    /// A boolean that is true: a walsender without a database.
    Physical,
}

impl Replication {
    /// Reads the value in a startup packet; `None` if PostgreSQL would not accept it.
    fn read(value: &str) -> Option<Replication> {
        if value == "database" {
            return Some(Replication::Logical);
        }
        // PostgreSQL's booleans: case is ignored, and an unambiguous prefix is enough.
        let begins = |word: &str, least: usize| {
            value.len() >= least && word.get(..value.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(value))
        };
        let any = |words: &[(&str, usize)]| words.iter().any(|(word, least)| begins(word, *least));
        if any(&[("true", 1), ("yes", 1), ("on", 2), ("1", 1)]) {
            return Some(Replication::Physical);
        }
        any(&[("false", 1), ("no", 1), ("off", 2), ("0", 1)]).then_some(Replication::None)
    }

    /// Whether the connection is one for replication.
    pub fn is_some(self) -> bool {
        self != Replication::None
    }

    /// The kind of replication, as SHOW CLIENTS and SHOW SERVERS name it (PgBouncer).
    pub fn name(self) -> &'static str {
        match self {
            Replication::None => "none",
            Replication::Logical => "logical",
            Replication::Physical => "physical",
        }
    }
}

/// Whether a client may still ask for encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncryptionRequests {
    /// The client may ask for encryption.
    Allowed,
    /// Encryption was refused as often as there are kinds: a client that only repeats the request gets no further
    /// answer.
    Exhausted,
    /// The connection is encrypted.
    Encrypted,
}

/// The first byte of a TLS handshake's record. As the first byte of a packet's length it would mean hundreds of
/// megabytes.
const HANDSHAKE: u8 = 0x16;

/// Reads the first packet in `input`.
pub fn read(input: &[u8], encryption: EncryptionRequests) -> FirstPacket {
    if input.first() == Some(&HANDSHAKE) && encryption != EncryptionRequests::Encrypted {
        return FirstPacket::DirectTls;
    }
    match startup::first(input) {
        Ok(None) => FirstPacket::More,
        Ok(Some((asked @ (First::Ssl | First::Gss), used))) => {
            match encryption {
                EncryptionRequests::Allowed => {}
                EncryptionRequests::Exhausted => return refuse_protocol("encryption was refused already"),
                EncryptionRequests::Encrypted => return refuse_protocol("SSL req inside SSL"),
            }
            if input.len() > used {
                // Bytes sent before a handshake would be read as if they had been encrypted (CVE-2021-3935).
                return refuse_protocol("received unencrypted data after SSL request");
            }
            if matches!(asked, First::Ssl) { FirstPacket::Tls { used } } else { FirstPacket::Gss { used } }
        }
        Ok(Some((First::Cancel { pid, key }, _))) => FirstPacket::Cancel { pid, secret: key.to_vec() },
        Ok(Some((First::Unsupported { major, minor }, _))) => {
            refuse_protocol(&format!("version {major}.{minor}; the server speaks 3.0 to 3.{NEWEST_MINOR}"))
        }
        Ok(Some((First::Startup(packet), used))) => match request(&packet) {
            Ok(request) => FirstPacket::Startup { request: Arc::new(request), used },
            Err(refusal) => FirstPacket::Refuse(refusal),
        },
        Err(Malformed(what)) if what.starts_with("invalid length") => FirstPacket::NoPacket(what),
        Err(malformed) => refuse_protocol(malformed.0),
    }
}

fn refuse_protocol(what: &str) -> FirstPacket {
    FirstPacket::Refuse(Refusal::UnsupportedProtocol(what.into()))
}

fn request(packet: &startup::Startup<'_>) -> Result<StartupRequest, Refusal> {
    let mut request = StartupRequest {
        user: String::new(),
        database: String::new(),
        minor: packet.minor.min(NEWEST_MINOR),
        negotiate: (packet.minor > NEWEST_MINOR).then(Vec::new),
        options: Vec::new(),
        params: Vec::new(),
        replication: replication(packet)?,
        raw_options: None,
    };
    for (name, value) in packet.params() {
        // The two that every client sends, without a copy of their names.
        let known = match name {
            b"user" => Some(&mut request.user),
            b"database" => Some(&mut request.database),
            _ => None,
        };
        if let Some(known) = known {
            *known = text(value)?;
            continue;
        }
        let name = text(name)?;
        if let Some(option) = name.strip_prefix("_pq_.") {
            let _ = option;
            request.negotiate.get_or_insert_default().push(name);
            continue;
        }
        let value = text(value)?;
        match name.as_str() {
            "options" if request.replication.is_some() => request.raw_options = Some(value),
            "options" => {
                let options = startup::options(&value).map_err(|Malformed(_)| Refusal::BadOptions)?;
                request.options.extend(options);
            }
            "replication" => {}
            _ => request.params.push((name, value)),
        }
    }
    if request.user.is_empty() {
        return Err(Refusal::NoUser);
    }
    if request.database.is_empty() {
        request.database.clone_from(&request.user);
    }
    Ok(request)
}

/// The value of a startup packet's `replication`; the last one counts, as with other parameters.
fn replication(packet: &startup::Startup<'_>) -> Result<Replication, Refusal> {
    let Some((_, value)) = packet.params().filter(|(name, _)| *name == b"replication").last() else {
        return Ok(Replication::None);
    };
    Replication::read(&text(value)?).ok_or_else(|| Refusal::BadParameter("replication".into()))
}

fn text(bytes: &[u8]) -> Result<String, Refusal> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Refusal::Protocol("a startup parameter that is not UTF-8".into()))
}

impl StartupRequest {
    /// The parameters that the client sets. Those in `ignored` are left out; `others` decides about untracked ones.
    /// `options` in `ignored` stands for all unknown ones in it (PgBouncer).
    ///
    /// # Errors
    /// A parameter that is refused, or a value that can't be used.
    pub fn wanted(&self, table: &ParamTable, ignored: &[String], others: OtherParams) -> Result<Params, Refusal> {
        let is_ignored = |name: &str| ignored.iter().any(|i| i.eq_ignore_ascii_case(name));
        let mut params = table.unknown();
        for (name, value) in self.options.iter().filter(|(name, _)| !is_ignored(name)) {
            match others.set(table, &mut params, name, value) {
                Ok(()) => {}
                Err(BadParam::Unknown) if is_ignored("options") => {}
                Err(BadParam::Unknown) => return Err(Refusal::UnsupportedOption(name.clone())),
                Err(BadParam::Value) => return Err(Refusal::BadParameter(name.clone())),
            }
        }
        for (name, value) in self.params.iter().filter(|(name, _)| !is_ignored(name)) {
            others.set(table, &mut params, name, value).map_err(|bad| match bad {
                BadParam::Unknown => Refusal::UnsupportedParameter(name.clone()),
                BadParam::Value => Refusal::BadParameter(name.clone()),
            })?;
        }
        Ok(params)
    }

    /// The additional startup parameters for the server of a replication connection: the same kind of replication, the
    /// tracked parameters that the client has set (`wanted`), and its `options` unchanged. A physical one accepts no
    /// SET later.
    pub fn for_own_server(&self, table: &ParamTable, wanted: &Params) -> Vec<(String, String)> {
        let kind = match self.replication {
            Replication::None => return Vec::new(),
            Replication::Logical => "database",
            Replication::Physical => "true",
        };
        let mut startup = vec![("replication".to_owned(), kind.to_owned())];
        startup.extend(table.iter(wanted).map(|(name, value)| (name.to_owned(), value.to_owned())));
        startup.extend(self.raw_options.iter().map(|options| ("options".to_owned(), options.clone())));
        startup
    }

    /// The value of a parameter, if the packet itself sets it.
    pub fn param(&self, name: &str) -> Option<&str> {
        let last = self.params.iter().rev().find(|(given, _)| given.eq_ignore_ascii_case(name));
        last.map(|(_, value)| value.as_str())
    }

    /// Appends NegotiateProtocolVersion where it is due.
    pub fn write_negotiation(&self, buffer: &mut Vec<u8>) {
        if let Some(options) = &self.negotiate {
            let options: Vec<&[u8]> = options.iter().map(|o| o.as_bytes()).collect();
            // The agreed version: the lower one of the client's and ours (PostgreSQL's SendNegotiateProtocolVersion). A
            // client closes the connection if the answer is newer than its own.
            put_back::negotiate(buffer, u32::from(self.minor), &options);
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

    fn startup(bytes: &[u8]) -> Arc<StartupRequest> {
        match read(bytes, EncryptionRequests::Allowed) {
            FirstPacket::Startup { request, used } if used == bytes.len() => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_database_defaults_to_the_user_and_options_are_read() {
        let request = startup(&packet(&[("user", "u"), ("options", "-c geqo=off --search_path=a")], 0));
        assert_eq!(request.database, "u");
        assert_eq!(request.options, [("geqo".into(), "off".into()), ("search_path".into(), "a".into())]);
        assert_eq!(request.negotiate, None);
    }

    #[test]
    fn unknown_options_are_refused_by_name_or_ignored_altogether() {
        let table = ParamTable::new([]);
        let request =
            startup(&packet(&[("user", "u"), ("options", "-c nonsense=1 -c TimeZone=UTC"), ("TimeZone", "CET")], 0));
        assert_eq!(
            request.wanted(&table, &[], OtherParams::Refuse),
            Err(Refusal::UnsupportedOption("nonsense".into()))
        );
        for ignored in ["options", "nonsense"] {
            let wanted = request.wanted(&table, &[ignored.into()], OtherParams::Refuse).unwrap();
            assert_eq!(table.get(&wanted, "TimeZone"), Some("CET"), "the packet itself goes before its options");
        }
        let packet = packet(&[("user", "u"), ("options", "-d 5")], 0);
        let FirstPacket::Refuse(refusal) = read(&packet, EncryptionRequests::Allowed) else { panic!() };
        assert_eq!(refusal, Refusal::BadOptions);
    }

    #[test]
    fn newer_versions_and_unknown_protocol_options_are_negotiated() {
        let request = startup(&packet(&[("user", "u"), ("_pq_.x", "1")], 9));
        assert_eq!((request.minor, request.negotiate.clone()), (2, Some(vec!["_pq_.x".to_string()])));
    }

    #[test]
    fn the_version_that_is_answered_is_the_lower_one_of_both() {
        for (asked, agreed) in [(0, 0), (1, 1), (2, 2), (3, 2), (9999, 2), (u16::MAX, 2)] {
            let request = startup(&packet(&[("user", "u"), ("_pq_.x", "1"), ("_pq_.y", "")], asked));
            let (mut buffer, mut expected) = (Vec::new(), Vec::new());
            request.write_negotiation(&mut buffer);
            put_back::negotiate(&mut expected, agreed, &[b"_pq_.x", b"_pq_.y"]);
            assert_eq!(buffer, expected, "3.{asked}");
        }
    }

    #[test]
    fn replication_is_a_boolean_or_database_and_its_options_stay_as_they_are() {
        let kind = |value: &str| {
            let packet = packet(&[("user", "u"), ("options", "-d 5 -c x=1"), ("replication", value)], 0);
            match read(&packet, EncryptionRequests::Allowed) {
                FirstPacket::Startup { request, .. } => Some((request.replication, request.raw_options.clone())),
                _ => None,
            }
        };
        let with = |replication| Some((replication, Some("-d 5 -c x=1".to_owned())));
        assert_eq!(kind("database"), with(Replication::Logical));
        for value in ["true", "TRUE", "t", "tr", "on", "yes", "y", "1"] {
            assert_eq!(kind(value), with(Replication::Physical), "{value}");
        }
        for value in ["", "o", "maybe", "truer", "2", "DATABASE"] {
            assert_eq!(kind(value), None, "{value}");
        }
        for value in ["false", "off", "of", "no", "n", "0"] {
            let request = startup(&packet(&[("user", "u"), ("replication", value)], 0));
            assert_eq!((request.replication, request.raw_options.clone()), (Replication::None, None), "{value}");
        }
    }

    #[test]
    fn a_replication_connections_server_begins_with_what_its_client_requested() {
        let table = ParamTable::new([]);
        let packet =
            packet(&[("options", "-c a=b"), ("user", "u"), ("replication", "database"), ("TimeZone", "CET")], 0);
        let request = startup(&packet);
        let startup = request.for_own_server(&table, &request.wanted(&table, &[], OtherParams::Refuse).unwrap());
        let expected = [("replication", "database"), ("TimeZone", "CET"), ("options", "-c a=b")];
        assert_eq!(startup, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(
            request.wanted(&table, &["options".into()], OtherParams::Refuse),
            request.wanted(&table, &[], OtherParams::Refuse)
        );
    }

    #[test]
    fn bytes_stuffed_behind_an_encryption_request_are_refused() {
        let mut bytes = Vec::new();
        put_front::ssl_request(&mut bytes);
        assert!(matches!(read(&bytes, EncryptionRequests::Allowed), FirstPacket::Tls { used: 8 }));
        bytes.push(0);
        assert!(matches!(read(&bytes, EncryptionRequests::Allowed), FirstPacket::Refuse(_)));
    }

    #[test]
    fn encryption_is_requested_once_and_never_within() {
        let mut bytes = Vec::new();
        put_front::ssl_request(&mut bytes);
        assert!(matches!(read(&bytes, EncryptionRequests::Exhausted), FirstPacket::Refuse(_)));
        assert!(matches!(read(&bytes, EncryptionRequests::Encrypted), FirstPacket::Refuse(_)));
        assert!(matches!(read(&[0x16, 3, 1], EncryptionRequests::Allowed), FirstPacket::DirectTls));
        assert!(matches!(read(&[0x16, 3, 1, 0, 0, 0, 0, 0], EncryptionRequests::Encrypted), FirstPacket::NoPacket(_)));
    }

    #[test]
    fn an_unknown_parameter_is_refused_by_name() {
        let table = ParamTable::new([]);
        let request = startup(&packet(&[("user", "u"), ("nonsense", "1")], 0));
        assert_eq!(
            request.wanted(&table, &[], OtherParams::Refuse),
            Err(Refusal::UnsupportedParameter("nonsense".into()))
        );
        assert!(request.wanted(&table, &["NONSENSE".into()], OtherParams::Refuse).is_ok());
    }
}
