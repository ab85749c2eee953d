//! How a text becomes the value of a setting, in either file format.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use weir_base::{Span, StateKinds};

use crate::address::{is_address, is_url, read_host};
use crate::ciphers;
use crate::field::{AUTO, EMPTY_QUERY, FieldMut};
use crate::kind::Kind;
use crate::origin::is_reference;
use crate::suggest::nearest_or_longer;
use crate::table::{Raw, Setting};
use crate::units;
use crate::wording::plain;

/// Settings whose number names something, so that a wrong number can't be replaced by the nearest valid one. PgBouncer
/// does not start with a wrong one either.
const NAMES: [&str; 2] = ["port", "peer_id"];

impl Setting {
    /// Reads `raw` into `field`; the error completes the sentence "`name` …".
    pub(crate) fn write(&self, field: FieldMut<'_>, raw: &Raw) -> Result<(), String> {
        let text = match raw {
            Raw::One(text) => text.as_str(),
            Raw::Many(items) => return self.write_list(field, items),
        };
        match field {
            FieldMut::U8(v) => *v = self.number(text)?,
            FieldMut::U16(v) => *v = self.number(text)?,
            FieldMut::CountOrAuto(v) if text.trim() == AUTO => *v = 0,
            FieldMut::CountOrAuto(v) => *v = self.number(text)?,
            FieldMut::U32(v) => *v = self.number(text)?,
            FieldMut::U64(v) => *v = self.number(text)?,
            FieldMut::Span(v) | FieldMut::Millis(v) => *v = self.time(text)?,
            FieldMut::Moment(v) => {
                *v = units::moment(text).ok_or_else(|| format!("must be {}", self.kind.describe()))?;
            }
            FieldMut::Flag(v) => *v = flag(text)?,
            FieldMut::Text(v) | FieldMut::Concealed(v) => *v = Some(self.text(text)?),
            FieldMut::Line(v) => *v = self.plain_text(text)?,
            FieldMut::Query(v) => *v = query(self.plain_text(text)?),
            FieldMut::Path(v) => *v = Some(PathBuf::from(self.text(text)?)),
            FieldMut::Method(v) => *v = text.parse().map_err(|e| format!("{e}"))?,
            FieldMut::PoolMode(v) => *v = text.parse().map_err(|e| format!("{e}"))?,
            FieldMut::OnDirty(v) => *v = text.parse().map_err(|e| format!("{e}"))?,
            FieldMut::OnServerDown(v) => *v = text.parse()?,
            FieldMut::ListenBy(v) => *v = text.parse()?,
            FieldMut::Balance(v) => *v = text.parse()?,
            FieldMut::Spread(v) => *v = text.parse()?,
            FieldMut::Untracked(v) => *v = text.parse()?,
            FieldMut::SessionAttrs(v) => *v = text.parse()?,
            FieldMut::SslMode(v) => *v = text.parse()?,
            FieldMut::RequireAuth(v) => *v = text.parse()?,
            FieldMut::Protocols(v) => *v = ciphers::protocols(text)?.allowed,
            FieldMut::LogFormat(v) => *v = text.parse()?,
            FieldMut::SocketIo(v) => *v = text.parse()?,
            FieldMut::WatchFiles(v) => *v = text.parse()?,
            FieldMut::MaybeU32(v) => *v = Some(self.number(text)?),
            FieldMut::MaybeSpan(v) => *v = Some(self.time(text)?),
            FieldMut::MaybeMode(v) => *v = Some(text.parse().map_err(|e| format!("{e}"))?),
            FieldMut::Inert(v) => *v = self.inert_text(text)?,
            list @ (FieldMut::Names(_)
            | FieldMut::StateKinds(_)
            | FieldMut::Addresses(_)
            | FieldMut::Networks(_)
            | FieldMut::Ports(_)) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                return self.write_list(list, &items.map(str::to_owned).collect::<Vec<_>>());
            }
        }
        Ok(())
    }

    /// Reads the text of an ini: numbers as C reads them, any number as a flag, words in any case, and an empty text
    /// as unset.
    pub(crate) fn write_ini(&self, field: FieldMut<'_>, text: &str) -> Result<(), String> {
        if text.is_empty() {
            match field {
                FieldMut::Text(v) | FieldMut::Concealed(v) => *v = None,
                FieldMut::Path(v) => *v = None,
                FieldMut::Inert(v) => v.clear(),
                field => return self.write(field, &Raw::One(String::new())),
            }
            return Ok(());
        }
        let text = match (&field, self.kind) {
            (FieldMut::Flag(_), _) => c_number(text).map_or_else(|| text.to_owned(), |n| u8::from(n != 0).to_string()),
            (_, Kind::Permissions) => c_number(text)
                .filter(|bits| (0..=0o777).contains(bits))
                .map(|bits| format!("{bits:o}"))
                .ok_or_else(|| format!("must be {}, with a leading 0", self.kind.describe()))?,
            (_, Kind::Number { .. } | Kind::Size { .. } | Kind::CountOrAuto { .. }) => {
                c_number(text).map_or_else(|| text.to_owned(), |n| n.to_string())
            }
            (FieldMut::Millis(_), _) => c_number(text).map_or_else(|| text.to_owned(), |n| format!("{n}ms")),
            (_, Kind::Time { .. }) => seconds_of_c(text).unwrap_or_else(|| text.to_owned()),
            (_, Kind::Word(_)) => text.to_lowercase(),
            _ => text.to_owned(),
        };
        self.write(field, &Raw::One(text))
    }

    /// The text of a number or a time in an ini, or the nearest one that the setting accepts: PgBouncer takes each
    /// `int` (its default for sizes is the largest one), and each time.
    pub(crate) fn fitted<'t>(&self, field: &FieldMut<'_>, text: &'t str) -> Cow<'t, str> {
        match self.kind {
            Kind::Number { min, max } | Kind::Size { min, max } if !NAMES.contains(&self.name) => {
                let number = c_number(text).filter(|number| i32::try_from(*number).is_ok());
                let nearest = number.map(|number| u64::try_from(number).unwrap_or(0).clamp(min, max));
                let outside = number.zip(nearest).filter(|(number, nearest)| u64::try_from(*number) != Ok(*nearest));
                outside.map_or(Cow::Borrowed(text), |(_, nearest)| nearest.to_string().into())
            }
            Kind::Time { min } if !matches!(field, FieldMut::Millis(_)) => {
                let read = seconds_of_c(text).unwrap_or_else(|| text.to_owned());
                let outside = units::span(&read).filter(|span| *span < min || *span > Kind::LONGEST);
                let nearest = |span: Span| format!("{}us", span.clamp(min, Kind::LONGEST).micros()).into();
                outside.map_or(Cow::Borrowed(text), nearest)
            }
            _ => Cow::Borrowed(text),
        }
    }

    fn write_list(&self, field: FieldMut<'_>, items: &[String]) -> Result<(), String> {
        if items.iter().any(|item| item.trim().is_empty()) {
            return Err("must not list an empty name".to_owned());
        }
        if items.iter().any(|item| item.contains(char::is_control)) {
            return Err("must not contain control characters".to_owned());
        }
        if let Kind::Words(words) = self.kind
            && let Some(item) = items.iter().map(|item| item.trim()).find(|item| !words.contains(item))
        {
            let near = nearest_or_longer(item, words).map(|near| format!("; did you mean \"{near}\"?"));
            let (words, item, near) = (words.join(", "), plain(item), near.unwrap_or_default());
            return Err(format!("must list words of {words}; \"{item}\" is none{near}"));
        }
        if self.kind == Kind::Origins
            && let Some(item) = items.iter().find(|item| !is_address(item.trim().trim_end_matches('/')))
        {
            // A password may be before an @.
            let shown = if item.contains('@') { String::new() } else { format!("; \"{}\" is none", plain(item)) };
            return Err(format!("must be {}{shown}", self.kind.describe()));
        }
        match field {
            FieldMut::Names(v) if matches!(self.kind, Kind::Words(_) | Kind::Origins) => {
                *v = items.iter().map(|item| item.trim().trim_end_matches('/').to_owned()).collect();
            }
            FieldMut::Names(v) => *v = items.to_vec(),
            FieldMut::StateKinds(v) => *v = StateKinds::named(items.iter().map(|item| item.trim()))?,
            FieldMut::Addresses(v) => *v = addresses(items)?,
            FieldMut::Networks(v) => *v = items.iter().map(|item| item.parse()).collect::<Result<_, _>>()?,
            FieldMut::Ports(v) => *v = items.iter().map(|item| self.number(item)).collect::<Result<_, _>>()?,
            _ => return Err(format!("must be {}", self.kind.describe())),
        }
        Ok(())
    }

    fn number<T: TryFrom<u64>>(&self, text: &str) -> Result<T, String> {
        let (value, min, max) = match self.kind {
            Kind::Permissions => (u64::from_str_radix(text, 8).ok(), 0, 0o777),
            Kind::Size { min, max } => (units::size(text), min, max),
            Kind::Number { min, max } => (text.trim().parse().ok(), min, max),
            Kind::CountOrAuto { max } => (text.trim().parse().ok(), 1, max),
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
        // Names are parts of one-line messages; passwords and queries only go into messages to the server, which end
        // at a zero byte.
        let one_line = !matches!(self.kind, Kind::Secret | Kind::Query);
        if text.contains(|c: char| c == '\0' || (one_line && c.is_control())) {
            return Err("must not contain control characters".to_owned());
        }
        // Of a setting that is never shown the address may be elsewhere.
        let fits = match self.kind {
            Kind::Url => text.is_empty() || is_url(text) || self.is_concealed() && is_reference(text),
            Kind::Host => text.is_empty() || read_host(text).is_ok(),
            _ => true,
        };
        if fits { Ok(text.to_owned()) } else { Err(format!("must be {}", self.kind.describe())) }
    }

    fn time(&self, text: &str) -> Result<Span, String> {
        let Kind::Time { min } = self.kind else {
            return Err(format!("must be {}", self.kind.describe()));
        };
        let value = units::span(text).filter(|span| (min..=Kind::LONGEST).contains(span));
        value.ok_or_else(|| format!("must be {}", self.kind.describe()))
    }

    /// The text of a setting without effect, if PgBouncer accepts it.
    fn inert_text(&self, text: &str) -> Result<String, String> {
        match self.kind {
            Kind::Number { .. } => self.number::<u64>(text).map(|n| n.to_string()),
            Kind::Time { .. } => self.time(text).map(units::seconds),
            Kind::Flag => flag(text).map(|flag| u8::from(flag).to_string()),
            _ => self.plain_text(text),
        }
    }
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

/// A time that C's `strtod` accepts and our parser does not: with an exponent, a sign, without digits around the point,
/// or in hexadecimal.
fn seconds_of_c(text: &str) -> Option<String> {
    if units::span(text).is_some() {
        return None;
    }
    let seconds: f64 = text.parse().ok().or_else(|| hexadecimal(text))?;
    let span = (seconds.is_finite() && seconds >= 0.0).then_some(seconds * 1e6)?;
    Some(format!("{span:.0}us"))
}

/// A number as C reads it after `0x`: hexadecimal digits, maybe with a point, and an exponent of two after `p`.
fn hexadecimal(text: &str) -> Option<f64> {
    let text = text.strip_prefix('+').unwrap_or(text).to_ascii_lowercase();
    let (digits, exponent) = text.strip_prefix("0x")?.split_once('p').map_or_else(
        || (text[2..].to_owned(), Some(0)),
        |(digits, exponent)| (digits.to_owned(), exponent.parse::<i32>().ok()),
    );
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let value = |sum: Option<f64>, digit: char| Some(sum? * 16.0 + f64::from(digit.to_digit(16)?));
    let sum = whole.chars().chain(fraction.chars()).fold(Some(0.0), value)?;
    Some(sum * f64::from(exponent?.saturating_sub(4 * i32::try_from(fraction.len()).ok()?)).exp2())
}

/// `*` is every address; `localhost` is 127.0.0.1, which every machine can bind.
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
        for (text, micros) in [("0x10", 16_000_000), ("+0x1P2", 4_000_000), ("0X.8", 500_000), ("0x0", 0)] {
            assert_eq!(seconds_of_c(text), Some(format!("{micros}us")), "{text}");
        }
        for text in ["15", "0.5", "-1", "nan", "inf", "", "x", "0x", "0xg", "0x1p", "0x.", "-0x10", "x10"] {
            assert_eq!(seconds_of_c(text), None, "{text:?}");
        }
    }
}
