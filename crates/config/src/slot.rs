//! Typed fields: how a text becomes a value in either file format, and how a value is shown and written down again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use weir_auth::{Method, RequireAuth};
use weir_base::{OnDirty, PoolMode, Span};

use crate::ciphers;
use crate::model::{Balance, LogFormat, Network, SessionAttrs, SocketIo, Spread, SslMode, TlsProtocols};
use crate::table::{Kind, Raw, Setting};
use crate::units;

/// The text that PgBouncer has for an empty query, since none at all means that nothing is asked.
pub(crate) const EMPTY_QUERY: &str = "<empty>";

/// A typed field, to fill or to show.
pub(crate) enum Slot<'a> {
    U8(&'a mut u8),
    U16(&'a mut u16),
    U32(&'a mut u32),
    U64(&'a mut u64),
    Span(&'a mut Span),
    /// A time that an ini counts in milliseconds.
    Millis(&'a mut Span),
    Flag(&'a mut bool),
    Text(&'a mut Option<String>),
    /// Text that may be empty.
    Line(&'a mut String),
    /// A query that may be empty, or none.
    Query(&'a mut Option<String>),
    Path(&'a mut Option<PathBuf>),
    Names(&'a mut Vec<String>),
    Addresses(&'a mut Vec<IpAddr>),
    Networks(&'a mut Vec<Network>),
    Ports(&'a mut Vec<u16>),
    Method(&'a mut Method),
    PoolMode(&'a mut PoolMode),
    OnDirty(&'a mut OnDirty),
    Balance(&'a mut Balance),
    Spread(&'a mut Spread),
    SessionAttrs(&'a mut SessionAttrs),
    SslMode(&'a mut SslMode),
    RequireAuth(&'a mut RequireAuth),
    Protocols(&'a mut TlsProtocols),
    LogFormat(&'a mut LogFormat),
    SocketIo(&'a mut SocketIo),
    MaybeU32(&'a mut Option<u32>),
    MaybeSpan(&'a mut Option<Span>),
    MaybeMode(&'a mut Option<PoolMode>),
    /// The text of a setting that does nothing.
    Inert(&'a mut String),
}

impl Setting {
    /// Reads `raw` into `slot`; the error completes the sentence "`name` …".
    pub(crate) fn write(&self, slot: Slot<'_>, raw: &Raw) -> Result<(), String> {
        let text = match raw {
            Raw::One(text) => text.as_str(),
            Raw::Many(items) => return self.write_list(slot, items),
        };
        match slot {
            Slot::U8(v) => *v = self.number(text)?,
            Slot::U16(v) => *v = self.number(text)?,
            Slot::U32(v) => *v = self.number(text)?,
            Slot::U64(v) => *v = self.number(text)?,
            Slot::Span(v) | Slot::Millis(v) => *v = self.time(text)?,
            Slot::Flag(v) => *v = flag(text)?,
            Slot::Text(v) => *v = Some(self.text(text)?),
            Slot::Line(v) => *v = self.plain_text(text)?,
            Slot::Query(v) => *v = query(self.plain_text(text)?),
            Slot::Path(v) => *v = Some(PathBuf::from(self.text(text)?)),
            Slot::Method(v) => *v = text.parse().map_err(|e| format!("{e}"))?,
            Slot::PoolMode(v) => *v = text.parse().map_err(|e| format!("{e}"))?,
            Slot::OnDirty(v) => *v = text.parse().map_err(|e| format!("{e}"))?,
            Slot::Balance(v) => *v = text.parse()?,
            Slot::Spread(v) => *v = text.parse()?,
            Slot::SessionAttrs(v) => *v = text.parse()?,
            Slot::SslMode(v) => *v = text.parse()?,
            Slot::RequireAuth(v) => *v = text.parse()?,
            Slot::Protocols(v) => *v = ciphers::protocols(text)?.allowed,
            Slot::LogFormat(v) => *v = text.parse()?,
            Slot::SocketIo(v) => *v = text.parse()?,
            Slot::MaybeU32(v) => *v = Some(self.number(text)?),
            Slot::MaybeSpan(v) => *v = Some(self.time(text)?),
            Slot::MaybeMode(v) => *v = Some(text.parse().map_err(|e| format!("{e}"))?),
            Slot::Inert(v) => *v = self.inert_text(text)?,
            list @ (Slot::Names(_) | Slot::Addresses(_) | Slot::Networks(_) | Slot::Ports(_)) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                return self.write_list(list, &items.map(str::to_owned).collect::<Vec<_>>());
            }
        }
        Ok(())
    }

    /// Reads the text of an ini: numbers as C reads them, any number as yes or no, words in any case, and nothing for what
    /// is not set.
    pub(crate) fn write_ini(&self, slot: Slot<'_>, text: &str) -> Result<(), String> {
        if text.is_empty() {
            match slot {
                Slot::Text(v) => *v = None,
                Slot::Path(v) => *v = None,
                Slot::Inert(v) => v.clear(),
                slot => return self.write(slot, &Raw::One(String::new())),
            }
            return Ok(());
        }
        let text = match (&slot, self.kind) {
            (Slot::Flag(_), _) => c_number(text).map_or_else(|| text.to_owned(), |n| u8::from(n != 0).to_string()),
            (_, Kind::Permissions) => c_number(text)
                .filter(|bits| (0..=0o777).contains(bits))
                .map(|bits| format!("{bits:o}"))
                .ok_or_else(|| format!("must be {}, with a leading 0", self.kind.describe()))?,
            (_, Kind::Number { .. } | Kind::Size { .. }) => {
                c_number(text).map_or_else(|| text.to_owned(), |n| n.to_string())
            }
            (Slot::Millis(_), _) => c_number(text).map_or_else(|| text.to_owned(), |n| format!("{n}ms")),
            (_, Kind::Time { .. }) => seconds_of_c(text).unwrap_or_else(|| text.to_owned()),
            (_, Kind::Word(_)) => text.to_lowercase(),
            _ => text.to_owned(),
        };
        self.write(slot, &Raw::One(text))
    }

    fn write_list(&self, slot: Slot<'_>, items: &[String]) -> Result<(), String> {
        if items.iter().any(|item| item.trim().is_empty()) {
            return Err("must not list an empty name".to_owned());
        }
        if items.iter().any(|item| item.contains(char::is_control)) {
            return Err("must not contain control characters".to_owned());
        }
        match slot {
            Slot::Names(v) => *v = items.to_vec(),
            Slot::Addresses(v) => *v = addresses(items)?,
            Slot::Networks(v) => *v = items.iter().map(|item| item.parse()).collect::<Result<_, _>>()?,
            Slot::Ports(v) => *v = items.iter().map(|item| self.number(item)).collect::<Result<_, _>>()?,
            _ => return Err(format!("must be {}", self.kind.describe())),
        }
        Ok(())
    }

    fn number<T: TryFrom<u64>>(&self, text: &str) -> Result<T, String> {
        let (value, min, max) = match self.kind {
            Kind::Permissions => (u64::from_str_radix(text, 8).ok(), 0, 0o777),
            Kind::Size { min, max } => (units::size(text), min, max),
            Kind::Number { min, max } => (text.trim().parse().ok(), min, max),
            Kind::Ports => (text.trim().parse().ok(), 1, 65_535),
            _ => (None, 0, 0),
        };
        let value = value.filter(|v| (min..=max).contains(v)).and_then(|v| T::try_from(v).ok());
        value.ok_or_else(|| format!("must be {}", self.kind.describe()))
    }

    fn text(&self, text: &str) -> Result<String, String> {
        if text.is_empty() { Err("must not be empty".to_owned()) } else { self.plain_text(text) }
    }

    fn plain_text(&self, text: &str) -> Result<String, String> {
        // Names end up in messages of one line; passwords and queries only in messages to the server, which end at a zero
        // byte.
        let one_line = !matches!(self.kind, Kind::Secret | Kind::Query);
        if text.contains(|c: char| c == '\0' || (one_line && c.is_control())) {
            return Err("must not contain control characters".to_owned());
        }
        Ok(text.to_owned())
    }

    fn time(&self, text: &str) -> Result<Span, String> {
        let Kind::Time { min } = self.kind else {
            return Err(format!("must be {}", self.kind.describe()));
        };
        let value = units::span(text).filter(|span| (min..=Kind::LONGEST).contains(span));
        value.ok_or_else(|| format!("must be {}", self.kind.describe()))
    }

    /// The text of a setting that does nothing, if it is one that PgBouncer takes.
    fn inert_text(&self, text: &str) -> Result<String, String> {
        match self.kind {
            Kind::Number { .. } => self.number::<u64>(text).map(|n| n.to_string()),
            Kind::Time { .. } => self.time(text).map(units::seconds),
            Kind::Flag => flag(text).map(|flag| u8::from(flag).to_string()),
            _ => self.plain_text(text),
        }
    }
}

impl Slot<'_> {
    /// The value as SHOW CONFIG prints it: seconds, 0 and 1, lists with commas, as PgBouncer does.
    pub(crate) fn show(&self) -> String {
        match self {
            Slot::U8(v) => v.to_string(),
            Slot::U16(v) => v.to_string(),
            Slot::U32(v) => v.to_string(),
            Slot::U64(v) => v.to_string(),
            Slot::Span(v) => units::seconds(**v),
            Slot::Millis(v) => (v.micros() / 1_000).to_string(),
            Slot::Flag(v) => u8::from(**v).to_string(),
            Slot::Text(v) => v.as_deref().unwrap_or_default().to_owned(),
            Slot::Line(v) | Slot::Inert(v) => (*v).clone(),
            Slot::Query(v) => match v.as_deref() {
                None => String::new(),
                Some("") => EMPTY_QUERY.to_owned(),
                Some(query) => query.to_owned(),
            },
            Slot::Path(v) => v.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            Slot::Names(v) => v.join(","),
            Slot::Addresses(v) => joined(v),
            Slot::Networks(v) => joined(v),
            Slot::Ports(v) => joined(v),
            Slot::Method(v) => v.to_string(),
            Slot::PoolMode(v) => v.to_string(),
            Slot::OnDirty(v) => v.to_string(),
            Slot::Balance(v) => v.to_string(),
            Slot::Spread(v) => v.to_string(),
            Slot::SessionAttrs(v) => v.to_string(),
            Slot::SslMode(v) => v.to_string(),
            Slot::RequireAuth(v) => v.to_string(),
            Slot::Protocols(v) => v.to_string(),
            Slot::LogFormat(v) => v.to_string(),
            Slot::SocketIo(v) => v.to_string(),
            Slot::MaybeU32(v) => v.map(|v| v.to_string()).unwrap_or_default(),
            Slot::MaybeSpan(v) => v.map(units::seconds).unwrap_or_default(),
            Slot::MaybeMode(v) => v.map(|v| v.to_string()).unwrap_or_default(),
        }
    }

    /// The value as TOML; `None` if there is none to be written.
    pub(crate) fn toml(&self, kind: Kind) -> Option<String> {
        let quoted = |text: &str| toml_edit::Value::from(text).to_string();
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        Some(match self {
            Slot::U8(_) | Slot::U16(_) | Slot::MaybeU32(Some(_)) => self.show(),
            Slot::U32(v) if kind == Kind::Permissions => format!("\"{v:04o}\""),
            Slot::U64(v) if matches!(kind, Kind::Size { .. }) => quoted(&units::brief_size(**v)),
            Slot::U32(_) | Slot::U64(_) => self.show(),
            Slot::Span(v) | Slot::Millis(v) => time(**v),
            Slot::MaybeSpan(Some(v)) => time(*v),
            Slot::Flag(v) => v.to_string(),
            Slot::MaybeU32(None) | Slot::MaybeSpan(None) | Slot::MaybeMode(None) => return None,
            Slot::Text(None) | Slot::Path(None) => return None,
            Slot::Names(v) => list(v.iter().map(|name| quoted(name)).collect()),
            Slot::Addresses(v) => list(v.iter().map(|ip| quoted(&ip.to_string())).collect()),
            Slot::Networks(v) => list(v.iter().map(|network| quoted(&network.to_string())).collect()),
            Slot::Ports(v) => match v.as_slice() {
                [port] => port.to_string(),
                ports => list(ports.iter().map(u16::to_string).collect()),
            },
            _ => quoted(&self.show()),
        })
    }
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn time(span: Span) -> String {
    let text = units::brief(span);
    if span.is_zero() { text } else { format!("\"{text}\"") }
}

fn query(text: String) -> Option<String> {
    match text.as_str() {
        "" => None,
        EMPTY_QUERY => Some(String::new()),
        _ => Some(text),
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A whole number as C's `strtol` reads it with base 0: `0x` for hexadecimal, a leading 0 for octal.
pub(crate) fn c_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let value = match hex {
        Some(hex) if hex.starts_with('+') => None,
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(&digits[1..], 8).ok(),
        None => digits.parse().ok(),
    }?;
    Some(if negative { -value } else { value })
}

/// A time that C's `strtod` reads, but we would not: with an exponent, a sign, or without digits around the point.
fn seconds_of_c(text: &str) -> Option<String> {
    if units::span(text).is_some() {
        return None;
    }
    let seconds: f64 = text.parse().ok()?;
    let span = (seconds.is_finite() && seconds >= 0.0).then_some(seconds * 1e6)?;
    Some(format!("{span:.0}us"))
}

/// `*` is every address; `localhost` is 127.0.0.1, since it can be bound on every machine.
fn addresses(items: &[String]) -> Result<Vec<IpAddr>, String> {
    let mut found = Vec::new();
    for item in items {
        match item.trim() {
            "*" => found.extend([IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)]),
            "localhost" => found.push(IpAddr::from(Ipv4Addr::LOCALHOST)),
            text => found.push(text.parse().map_err(|_| format!("must be {}", Kind::Addresses.describe()))?),
        }
    }
    // Listening twice on one address would fail at start.
    let mut seen = Vec::new();
    found.retain(|ip| {
        !seen.contains(ip) && {
            seen.push(*ip);
            true
        }
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value) in [("10", Some(10)), ("010", Some(8)), ("0x1F", Some(31)), ("-3", Some(-3)), ("+3", Some(3))]
        {
            assert_eq!(c_number(text), value, "{text}");
        }
        for text in ["", "x", "1x", "0x", "08", "1.5", "--1", "0x+1", "99999999999999999999", "٣"] {
            assert_eq!(c_number(text), None, "{text:?}");
        }
    }

    #[test]
    fn times_are_read_as_c_reads_them() {
        assert_eq!(seconds_of_c("1e3").as_deref(), Some("1000000000us"));
        assert_eq!(seconds_of_c(".5").as_deref(), Some("500000us"));
        assert_eq!(seconds_of_c("5."), Some("5000000us".into()));
        for text in ["15", "0.5", "-1", "nan", "inf", "", "x"] {
            assert_eq!(seconds_of_c(text), None, "{text:?}");
        }
    }
}
