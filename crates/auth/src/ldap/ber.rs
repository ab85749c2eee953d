//! The part of BER that LDAP uses: definite lengths, one-byte tags (RFC 4511, section 5.1).
//!
//! Reading never looks beyond the bytes that it is given, and copies nothing.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;

/// Appends an element with these bytes.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    match body.len() {
        short @ 0..=0x7f => out.push(short as u8),
        long => {
            let bytes = (long as u32).to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            out.push(0x80 | (bytes.len() - zeros) as u8);
            out.extend_from_slice(&bytes[zeros..]);
        }
    }
    out.extend_from_slice(body);
}

/// Appends a small number, which takes one byte or two.
pub(super) fn put_number(out: &mut Vec<u8>, tag: u8, number: u16) {
    let bytes = number.to_be_bytes();
    match number {
        0..=0x7f => put(out, tag, &bytes[1..]),
        0x80..=0x7fff => put(out, tag, &bytes),
        _ => put(out, tag, &[0, bytes[0], bytes[1]]),
    }
}

/// The length of the element that `bytes` begins with, its head included; `None` while the head is incomplete.
///
/// # Errors
/// The head is not one that LDAP allows.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    Ok(head(bytes)?.map(|(head, body)| head + body))
}

/// The length of the head and of the body.
fn head(bytes: &[u8]) -> Result<Option<(usize, usize)>, &'static str> {
    let [tag, first, rest @ ..] = bytes else { return Ok(None) };
    if tag & 0x1f == 0x1f {
        return Err("a tag that LDAP does not have");
    }
    match first {
        0..=0x7f => Ok(Some((2, usize::from(*first)))),
        0x81..=0x84 => {
            let count = usize::from(first & 0x7f);
            let Some(digits) = rest.get(..count) else { return Ok(None) };
            let body = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            Ok(Some((2 + count, body)))
        }
        _ => Err("a length that LDAP does not allow"),
    }
}

/// Elements that follow each other.
pub(super) struct Elements<'a>(pub(super) &'a [u8]);

impl<'a> Elements<'a> {
    /// The tag and the body of the next element; `None` at the end, and where the rest is not an element.
    pub(super) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (head, body) = head(self.0).ok()??;
        let (element, rest) = self.0.split_at_checked(head.checked_add(body)?)?;
        self.0 = rest;
        Some((element[0], &element[head..]))
    }

    /// The body of the next element, if it has this tag.
    pub(super) fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.any().filter(|(found, _)| *found == tag).map(|(_, body)| body)
    }

    /// The next element as a number that is not negative.
    pub(super) fn number(&mut self, tag: u8) -> Option<u32> {
        let body = self.next(tag)?;
        let fits = (1..=4).contains(&body.len()) && body[0] & 0x80 == 0;
        fits.then(|| body.iter().fold(0, |number, digit| number << 8 | u32::from(*digit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_they_were_written() {
        for size in [0, 1, 127, 128, 255, 256, 70_000] {
            let (mut out, body) = (Vec::new(), vec![7; size]);
            put(&mut out, OCTETS, &body);
            put_number(&mut out, INTEGER, 5);
            assert_eq!(length(&out).unwrap(), Some(out.len() - 3), "{size}");
            let mut elements = Elements(&out);
            assert_eq!((elements.next(OCTETS), elements.number(INTEGER)), (Some(&*body), Some(5)));
            assert_eq!(elements.any(), None);
        }
        for number in [0, 127, 128, 255, 256, 32_767, 32_768, 65_535] {
            let mut out = Vec::new();
            put_number(&mut out, ENUMERATED, number);
            assert_eq!(Elements(&out).number(ENUMERATED), Some(u32::from(number)));
        }
    }

    #[test]
    fn what_is_cut_or_foreign_is_no_element() {
        let mut out = Vec::new();
        put(&mut out, SEQUENCE, &[1; 300]);
        for cut in 0..out.len() {
            assert!(Elements(&out[..cut]).any().is_none());
            assert!(length(&out[..cut]).unwrap().is_none_or(|length| length == out.len()));
        }
        assert!(length(&[0x30, 0x80]).is_err(), "an indefinite length");
        assert!(length(&[0x30, 0x85, 0, 0, 0, 0, 1]).is_err());
        assert!(length(&[0x1f, 1, 1]).is_err());
        assert_eq!(Elements(&[INTEGER, 1, 0x80]).number(INTEGER), None, "a negative number");
    }
}
