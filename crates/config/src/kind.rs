//! The kinds of values that settings accept, and how a message describes them.

use weir_base::Span;

use crate::units;

/// The values that a setting accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A whole number.
    Number { min: u64, max: u64 },
    /// A whole number from 1 to `max`, or `auto`.
    CountOrAuto { max: u64 },
    /// A time of at least `min` and at most [`Kind::LONGEST`].
    Time { min: Span },
    /// A time of the calendar, to the second, in UTC.
    Moment,
    /// A number of bytes.
    Size { min: u64, max: u64 },
    /// The permission bits of a file, in octal.
    Permissions,
    /// Yes or no.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Free text of one line.
    Text,
    /// An SQL query.
    Query,
    /// Free text that must not be shown.
    Secret,
    /// A list of names.
    Names,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// An address for HTTP, with or without a path.
    Url,
    /// A list of addresses for HTTP, of a host and maybe a port.
    Origins,
    /// A host.
    Host,
    /// A host, or a list of hosts.
    Hosts,
    /// A port, or a list of ports.
    Ports,
    /// A list of addresses to listen on.
    Addresses,
    /// A list of networks.
    Networks,
    /// Versions of TLS.
    Protocols,
    /// A table of users and their secrets.
    Users,
    /// A table of accounts of the control plane.
    Accounts,
}

impl Kind {
    /// A time; zero means no limit.
    pub(crate) const ANY_TIME: Kind = Kind::Time { min: Span::ZERO };
    /// The longest time that a setting accepts: a hundred years, because files use 999999999 for ever.
    pub(crate) const LONGEST: Span = Span::from_secs(36_500 * 86_400);

    /// The kind's name, for programs that show settings to a person.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Number { .. } => "number",
            Kind::Time { .. } => "time",
            Kind::Moment => "moment",
            Kind::Size { .. } => "size",
            Kind::Flag => "flag",
            Kind::Word(_) => "word",
            Kind::Text | Kind::Url | Kind::Host | Kind::Permissions | Kind::CountOrAuto { .. } => "text",
            Kind::Query => "query",
            Kind::Secret => "secret",
            Kind::Names
            | Kind::Words(_)
            | Kind::Origins
            | Kind::Hosts
            | Kind::Addresses
            | Kind::Networks
            | Kind::Protocols => "list",
            Kind::Ports => "numbers",
            Kind::Users | Kind::Accounts => "table",
        }
    }

    /// The expected values, as the end of the sentence "must be …".
    pub(crate) fn describe(&self) -> String {
        match *self {
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::CountOrAuto { max } => format!("\"auto\", or a whole number from 1 to {max}"),
            Kind::Time { min } => {
                format!("a time from {} to {}, as in 5, \"500ms\" or \"2min\"", units::brief(min), "36500d")
            }
            Kind::Size { min, max } => {
                format!("a size from {} to {}, as in \"256MiB\"", units::brief_size(min), units::brief_size(max))
            }
            Kind::Moment => "a time in UTC, as in \"2026-07-01T12:00:00Z\"".to_owned(),
            Kind::Permissions => "permission bits from \"0000\" to \"0777\", in octal".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Text | Kind::Query | Kind::Secret => "text in quotes".to_owned(),
            Kind::Names => "a list of names, as in [\"one\", \"two\"]".to_owned(),
            Kind::Words(words) => format!("a list of the words {}", words.join(", ")),
            Kind::Url => "an address, as in \"https://HOST:PORT/PATH\"".to_owned(),
            Kind::Origins => "a list of addresses without a path, as in [\"http://HOST:PORT\"]".to_owned(),
            Kind::Host => "a host alone: an address, a name, or the folder of a socket".to_owned(),
            Kind::Hosts => "a host or a list of hosts, as in \"127.0.0.1\" or [\"one\", \"two\"]".to_owned(),
            Kind::Ports => "a whole number from 1 to 65535, or a list of them".to_owned(),
            Kind::Addresses => "an address or a list of addresses, as in [\"127.0.0.1\", \"::1\"] or \"*\"".to_owned(),
            Kind::Networks => "a list of networks, as in [\"10.0.0.0/8\"]".to_owned(),
            Kind::Protocols => "\"secure\", or versions, as in \"tlsv1.3\"".to_owned(),
            Kind::Accounts => "a table of names, roles and hashes, as \"weir account NAME\" prints it".to_owned(),
            Kind::Users => "a table of users and secrets, as in { app = \"secret\" }".to_owned(),
        }
    }
}
