//! Search filters: their text (RFC 4515) as the message has them (RFC 4511, section 4.5.1.7).

use super::ber::{OCTETS, SEQUENCE, put};

/// The deepest nesting; more than any filter of a login needs.
const MAX_DEPTH: usize = 32;

/// A filter as a message has it. Parentheses around the whole may be left out, as with OpenLDAP's library.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn encode(text: &str) -> Result<Vec<u8>, String> {
    let (mut out, text) = (Vec::new(), text.trim());
    let rest = if text.starts_with('(') { filter(text, 0, &mut out)? } else { component(text, "", 0, &mut out)? };
    if rest.is_empty() { Ok(out) } else { Err(format!("{rest:?} follows the end of the search filter")) }
}

/// Reads `(…)` at the beginning of `text`; returns what follows.
fn filter<'a>(text: &'a str, depth: usize, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let inner = text.strip_prefix('(').ok_or_else(|| format!("a ( is missing in the search filter before {text:?}"))?;
    let rest = component(inner, ")", depth, out)?;
    rest.strip_prefix(')').ok_or_else(|| "a ) is missing in the search filter".to_owned())
}

/// Reads what parentheses hold; `end` is what ends it.
fn component<'a>(text: &'a str, end: &str, depth: usize, out: &mut Vec<u8>) -> Result<&'a str, String> {
    if depth > MAX_DEPTH {
        return Err(format!("the search filter is nested more than {MAX_DEPTH} deep"));
    }
    let mut body = Vec::new();
    let (tag, mut rest) = match text.split_at_checked(1) {
        Some(("&", rest)) => (0xa0, rest),
        Some(("|", rest)) => (0xa1, rest),
        Some(("!", rest)) => {
            let rest = filter(rest, depth + 1, &mut body)?;
            put(out, 0xa2, &body);
            return Ok(rest);
        }
        _ => {
            let (own, rest) =
                text.split_at(if end.is_empty() { text.len() } else { text.find(')').unwrap_or(text.len()) });
            item(own, out)?;
            return Ok(rest);
        }
    };
    while rest.starts_with('(') {
        rest = filter(rest, depth + 1, &mut body)?;
    }
    put(out, tag, &body);
    Ok(rest)
}

/// Reads a comparison.
fn item(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let unreadable = || format!("{text:?} in the search filter is no comparison, such as uid=$username");
    let (left, value) = text.split_once('=').ok_or_else(unreadable)?;
    if value.contains(['(', ')']) {
        return Err(unreadable());
    }
    let (attribute, tag) = match left.char_indices().last() {
        Some((at, '~')) => (&left[..at], 0xa8),
        Some((at, '>')) => (&left[..at], 0xa5),
        Some((at, '<')) => (&left[..at], 0xa6),
        Some((at, ':')) => return extensible(&left[..at], value, out).ok_or_else(unreadable),
        _ => (left, 0xa3),
    };
    if !is_attribute(attribute) {
        return Err(unreadable());
    }
    if tag != 0xa3 || !value.contains('*') {
        let mut body = Vec::new();
        put(&mut body, OCTETS, attribute.as_bytes());
        put(&mut body, OCTETS, &unescaped(value).ok_or_else(unreadable)?);
        put(out, tag, &body);
    } else if value == "*" {
        put(out, 0x87, attribute.as_bytes());
    } else {
        substrings(attribute, value, out).ok_or_else(unreadable)?;
    }
    Ok(())
}

fn substrings(attribute: &str, value: &str, out: &mut Vec<u8>) -> Option<()> {
    let (mut parts, mut body) = (Vec::new(), Vec::new());
    let last = value.matches('*').count();
    for (at, part) in value.split('*').enumerate().filter(|(_, part)| !part.is_empty()) {
        let tag = if at == 0 {
            0x80
        } else if at == last {
            0x82
        } else {
            0x81
        };
        put(&mut parts, tag, &unescaped(part)?);
    }
    put(&mut body, OCTETS, attribute.as_bytes());
    put(&mut body, SEQUENCE, &parts);
    put(out, 0xa4, &body);
    (!parts.is_empty()).then_some(())
}

/// `attribute:dn:rule:=value`, of which the first three may be missing.
fn extensible(left: &str, value: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut parts = left.split(':');
    let attribute = parts.next().filter(|name| name.is_empty() || is_attribute(name))?;
    let mut rule = parts.next();
    let dn = rule.is_some_and(|word| word.eq_ignore_ascii_case("dn"));
    if dn {
        rule = parts.next();
    }
    if parts.next().is_some()
        || rule.is_some_and(|rule| !is_attribute(rule))
        || (attribute.is_empty() && rule.is_none())
    {
        return None;
    }
    let mut body = Vec::new();
    rule.into_iter().for_each(|rule| put(&mut body, 0x81, rule.as_bytes()));
    if !attribute.is_empty() {
        put(&mut body, 0x82, attribute.as_bytes());
    }
    put(&mut body, 0x83, &unescaped(value)?);
    if dn {
        put(&mut body, 0x84, &[0xff]);
    }
    put(out, 0xa9, &body);
    Some(())
}

/// A name of letters, digits, hyphens, dots and semicolons: an attribute with options, or a number of one.
pub(super) fn is_attribute(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b';' | b'_'))
}

/// A value without its escapes (`\2a` is an asterisk); `None` where one is incomplete.
fn unescaped(value: &str) -> Option<Vec<u8>> {
    let (mut out, mut bytes) = (Vec::new(), value.bytes());
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            out.push((digit(bytes.next())? << 4 | digit(bytes.next())?) as u8);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        encode(text).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn each_form_of_a_filter_is_encoded_as_the_standard_has_it() {
        assert_eq!(hex("uid=a"), "a3080403756964040161");
        assert_eq!(hex("(uid=a)"), hex("uid=a"));
        assert_eq!(hex("(uid=*)"), "8703756964");
        assert_eq!(hex("(!(uid=*))"), "a2058703756964");
        assert_eq!(hex("(|(a=1)(b=2))"), "a110a306040161040131a306040162040132");
        assert_eq!(hex("(&(a>=1)(b<=2)(c~=3))"), "a018a506040161040131a606040162040132a806040163040133");
        assert_eq!(hex("(a=x*y*z)"), "a40e040161300980017881017982017a");
        assert_eq!(hex("(a=*y)"), "a4080401613003820179");
        assert_eq!(hex(r"(a=\2a\28)"), "a30704016104022a28");
        assert_eq!(hex("(a:dn:2.5.13.5:=x)"), "a9138108322e352e31332e358201618301788401ff");
        assert_eq!(hex("(:caseExactMatch:=x)").get(..4), Some("a913"), "a rule without an attribute");
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in
            ["", "uid", "(uid=a", "uid=a)", "(uid=a))", "(=a)", "(&(a=1)", "(!a=1)", r"(a=\2)", r"(a=\zz)", "(a b=c)"]
        {
            assert!(encode(text).is_err(), "{text}");
        }
        assert!(encode("(a=**)").is_err());
        let deep = "(!".repeat(100) + "(a=1)" + &")".repeat(100);
        assert!(encode(&deep).unwrap_err().contains("nested"));
    }
}
